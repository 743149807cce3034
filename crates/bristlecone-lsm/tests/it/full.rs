//! A file system that fills up.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use bristlecone::{Durability, Error};
use bristlecone_lsm::LsmBackend;
use bristlecone_needs::needs;

use crate::{
    create,
    history::{check, commit, head, litter},
    tiny,
};

/// A file system in memory, mounted for a test.
struct Mounted(PathBuf);

impl Mounted {
    fn new(dir: &Path, size: &str) -> Self {
        let done = Command::new("mount").args(["-t", "tmpfs", "-o", size, "tmpfs"]).arg(dir).status().unwrap();
        assert!(done.success(), "this test mounts a file system: it needs root");
        Self(dir.to_owned())
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

#[needs(mounts)]
#[test]
fn a_full_disk_loses_nothing_and_the_store_opens_again() {
    let dir = tempfile::tempdir().unwrap();
    let mounted = Mounted::new(dir.path(), "size=24m");
    let place = mounted.0.join("store");
    let ballast = mounted.0.join("ballast");
    fs::write(&ballast, vec![1; 8 << 20]).unwrap();
    let backend = create(&place, tiny());
    let mut last = 0;
    let error = loop {
        match commit(&backend, Durability::None).and_then(|number| litter(&backend, number).map(|()| number)) {
            Ok(number) => last = number,
            Err(error) => break error,
        }
        assert!(last < 100_000, "the disk fills up");
    };
    // Not `NoSpace`, which would say that nothing was committed: it may be there after the next opening.
    let told = matches!(error, Error::Io { .. } | Error::Poisoned { .. });
    assert!(told && last > 100, "after {last} commits: {error:?}");
    let again = commit(&backend, Durability::None);
    assert!(matches!(again, Err(Error::Poisoned { .. })), "{again:?}");
    // What can be read goes on being read.
    assert!(head(&backend).unwrap() >= last);
    drop(backend);
    fs::remove_file(ballast).unwrap();
    let backend = LsmBackend::open(&place, tiny(), false).unwrap();
    let found = head(&backend).unwrap();
    assert!(found >= last, "commit {last} was acknowledged, the store ends at {found}");
    check(&backend, found).unwrap();
    commit(&backend, Durability::Synced).unwrap();
}
