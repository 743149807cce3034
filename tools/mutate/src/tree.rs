//! The copy of the tree in which changes are made.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

/// What is changed, below the tree.
const MUTATED: [&str; 7] = [
    "crates/bristlecone/src/disk.rs",
    "crates/bristlecone/src/disk",
    "crates/bristlecone/src/engine",
    "crates/bristlecone/src/storage.rs",
    "crates/bristlecone/src/storage",
    "crates/bristlecone/src/backend.rs",
    "crates/bristlecone/src/backend",
];

/// Makes the folder `to` what `from` is, but for what is built and what is hidden. A file that is the same is left as it
/// is, so that it is not compiled again.
pub(crate) fn copy(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir_all(to)?;
    let wanted: Vec<_> = fs::read_dir(from)?.collect::<Result<_, _>>()?;
    for entry in fs::read_dir(to)?.collect::<Result<Vec<_>, _>>()? {
        if !from.join(entry.file_name()).exists() {
            let path = entry.path();
            if path.is_dir() { fs::remove_dir_all(path)? } else { fs::remove_file(path)? }
        }
    }
    for entry in wanted {
        let (name, target) = (entry.file_name(), to.join(entry.file_name()));
        if name == "target" || name.to_string_lossy().starts_with(".git") {
            continue;
        }
        if entry.file_type()?.is_dir() {
            copy(&entry.path(), &target)?;
        } else {
            let bytes = fs::read(entry.path())?;
            if fs::read(&target).ok().as_ref() != Some(&bytes) {
                fs::write(target, bytes)?;
            }
        }
    }
    Ok(())
}

/// Returns the files that are changed, below the tree, in order.
pub(crate) fn files(tree: &Path) -> io::Result<Vec<String>> {
    let mut found = Vec::new();
    for part in MUTATED {
        gather(tree, Path::new(part), &mut found)?;
    }
    found.sort();
    Ok(found)
}

fn gather(tree: &Path, path: &Path, found: &mut Vec<String>) -> io::Result<()> {
    let full: PathBuf = tree.join(path);
    let is_test = path.file_stem().is_some_and(|name| name == "tests");
    if is_test || !full.exists() {
        return Ok(());
    }
    if full.is_dir() {
        for entry in fs::read_dir(full)? {
            gather(tree, &path.join(entry?.file_name()), found)?;
        }
    } else if path.extension().is_some_and(|extension| extension == "rs") {
        found.push(path.to_string_lossy().into_owned());
    }
    Ok(())
}
