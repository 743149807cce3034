//! What real Git says of a repository that a run left, and how large it is beside what `git gc` would leave.
//!
//! Not part of what is timed. Where git is not installed there is nobody to ask.

use std::{ffi::OsStr, fs, io, path::Path};

use bristlecone::Format;

use crate::{
    BenchError,
    engine::Engine,
    error::Result,
    job::{Job, Target, Work},
    measure::Run,
    peers::program::{find, said_by_git},
};

/// Every object of repositories of up to so many bytes is looked at.
const FSCK_BYTES_MAX: u64 = 64 << 20;
/// Sizes are compared at this size of values.
const SIZED_BYTES: usize = 20;

/// Asks git about the repository of a run, if there is one; what it finds wrong goes into the run.
pub(crate) fn judge<F: Format>(engine: &mut Engine<F>, job: &Job, run: &mut Run) -> Result<()> {
    if !job.judged || !job.target.is_git() || run.wrong.is_some() || find("git").is_none() {
        return Ok(());
    }
    let Some(dir) = engine.dir().map(Path::to_owned) else { return Ok(()) };
    run.wrong = sound(&dir, run).err();
    let sized = matches!(job.work, Work::Commits | Work::Incremental { long: false, .. });
    if run.wrong.is_none() && job.target == Target::GitPacksNone && sized && job.value_bytes == SIZED_BYTES {
        run.gc_bytes = Some(bytes_after_gc(&dir)?);
        engine.fold()?;
        run.folded_bytes = Some(object_bytes(&dir));
        run.wrong = sound(&dir, run).err().map(|reason| format!("after its packs were folded: {reason}"));
    }
    Ok(())
}

/// Whether git reads the root and accepts every object.
fn sound(dir: &Path, run: &Run) -> std::result::Result<(), String> {
    if let (Some(root), Some(head)) = (&run.root, &run.head) {
        for (name, ours) in [("main^{tree}", root), ("main", head)] {
            let theirs = said_by_git(dir, &["rev-parse", name])?;
            if theirs != *ours {
                return Err(format!("git reads {theirs} at {name}, not {ours}"));
            }
        }
    }
    if object_bytes(dir) <= FSCK_BYTES_MAX {
        said_by_git(dir, &["fsck", "--strict", "--full", "--no-dangling", "--no-progress"])?;
    }
    Ok(())
}

/// Returns the bytes of the objects of a copy of a repository after `git gc`, or after git has looked for every delta
/// anew, whichever are less: `git gc` keeps the deltas that it finds, and they are ours.
fn bytes_after_gc(dir: &Path) -> Result<u64> {
    let copy = dir.with_extension("copy");
    let result = copy_folder(dir, &copy).map_err(BenchError::io(&copy)).and_then(|()| {
        let after = |arguments: &[&str]| {
            said_by_git(&copy, arguments).map_err(|reason| BenchError::Peer { peer: "git gc", reason })?;
            Ok::<u64, BenchError>(object_bytes(&copy))
        };
        Ok(after(&["gc", "--quiet"])?.min(after(&["repack", "-a", "-d", "-f", "-q"])?))
    });
    let _ = fs::remove_dir_all(&copy);
    result
}

fn copy_folder(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let to = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy_folder(&entry.path(), &to)?;
        } else {
            fs::copy(entry.path(), &to)?;
        }
    }
    Ok(())
}

/// Returns the bytes of a repository's packs, their indexes and its loose objects. What else a repository may have to be
/// faster, as reachability bitmaps and graphs of commits, is not counted for anybody.
pub(crate) fn object_bytes(dir: &Path) -> u64 {
    let folders = fs::read_dir(dir.join("objects")).into_iter().flatten().flatten();
    let bytes = |folder: fs::DirEntry| {
        let packs = folder.file_name() == "pack";
        let loose = folder.file_name().len() == 2;
        let files = fs::read_dir(folder.path()).into_iter().flatten().flatten();
        let counts = |file: &fs::DirEntry| {
            let name = file.file_name();
            let extension = Path::new(&name).extension();
            loose || packs && [Some(OsStr::new("pack")), Some(OsStr::new("idx"))].contains(&extension)
        };
        files.filter(counts).map(|file| file.metadata().map_or(0, |metadata| metadata.len())).sum::<u64>()
    };
    folders.map(bytes).sum()
}

#[cfg(test)]
mod tests {
    use bristlecone_needs::needs;

    use super::*;

    #[needs(git)]
    #[test]
    fn git_finds_another_root_and_a_damaged_object() {
        let dir = tempfile::tempdir().unwrap();
        let said = |arguments: &[&str]| said_by_git(dir.path(), arguments).unwrap();
        said(&["init", "--bare", "-q", "."]);
        fs::write(dir.path().join("value"), "a value").unwrap();
        let blob = said(&["hash-object", "-w", "value"]);
        let script = format!("printf '100644 blob {blob}\\tname\\n' | git mktree");
        let tree = String::from_utf8(
            std::process::Command::new("sh").args(["-c", &script]).current_dir(dir.path()).output().unwrap().stdout,
        );
        let tree = tree.unwrap().trim().to_owned();
        let who = ["-c", "user.name=a", "-c", "user.email=b"];
        let head = said(&[&who[..], &["commit-tree", "-m", "first", &tree]].concat());
        said(&["update-ref", "refs/heads/main", &head]);
        let run = Run { root: Some(tree.clone()), head: Some(head), ..Run::default() };
        assert_eq!(sound(dir.path(), &run), Ok(()));
        assert!(object_bytes(dir.path()) > 0);
        assert!(bytes_after_gc(dir.path()).unwrap() > 0);
        let other = Run { root: Some(blob.clone()), ..run.clone() };
        assert!(sound(dir.path(), &other).unwrap_err().contains("main^{tree}"));
        let file = dir.path().join("objects").join(&blob[..2]).join(&blob[2..]);
        fs::remove_file(&file).unwrap();
        assert!(sound(dir.path(), &run).unwrap_err().contains("fsck"));
    }
}
