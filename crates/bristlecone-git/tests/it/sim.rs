//! Repositories on the simulated disk: a storage without maps and without times of change.

use std::path::Path;
use std::sync::Arc;

use bristlecone::storage::{OpenMode, Storage, write_all_at};
use bristlecone_testkit::sim::SimStorage;

/// Writes a file with its folders.
pub(crate) fn write(storage: &dyn Storage, name: &str, bytes: &[u8]) {
    if let Some((dir, _)) = name.rsplit_once('/') {
        storage.create_dir(dir).unwrap();
    }
    let file = storage.open(name, OpenMode::Create).unwrap();
    file.set_len(0).unwrap();
    write_all_at(&*file, bytes, 0).unwrap();
}

/// Copies a folder of the operating system to a simulated disk.
pub(crate) fn copy(dir: &Path) -> Arc<dyn Storage> {
    let storage = SimStorage::new();
    let mut dirs = vec![dir.to_owned()];
    while let Some(at) = dirs.pop() {
        for entry in std::fs::read_dir(&at).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                dirs.push(path);
            } else {
                let name = path.strip_prefix(dir).unwrap().to_str().unwrap();
                write(&storage, name, &std::fs::read(&path).unwrap());
            }
        }
    }
    Arc::new(storage)
}

/// Copies a simulated disk to a folder of the operating system.
pub(crate) fn restore(storage: &SimStorage, dir: &Path) {
    let mut dirs = vec![String::new()];
    while let Some(at) = dirs.pop() {
        std::fs::create_dir_all(dir.join(&at)).unwrap();
        for name in storage.list(&at).unwrap() {
            let name = if at.is_empty() { name } else { format!("{at}/{name}") };
            match storage.contents(&name) {
                Some(bytes) => std::fs::write(dir.join(&name), bytes).unwrap(),
                None => dirs.push(name),
            }
        }
    }
}
