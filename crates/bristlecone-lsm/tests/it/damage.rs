//! Damaged files: every flipped bit is noticed or harmless, and what was durable is never silently less.

use std::{
    fs,
    os::unix::fs::FileExt as _,
    path::{Path, PathBuf},
};

use bristlecone::{Backend as _, Durability, Error};
use bristlecone_lsm::{LsmBackend, LsmOptions};
use bristlecone_testkit::{crash, generate::Rng};

use crate::{
    create,
    history::{check, commit, head, litter, sweep},
    tiny,
};

const COMMITS: u64 = 120;

/// Makes a store with tables in every keyspace, and closes it.
fn store(dir: &Path) {
    let backend = create(dir, tiny());
    for number in 1..=COMMITS {
        commit(&backend, Durability::None).unwrap();
        litter(&backend, number).unwrap();
        if number == COMMITS / 2 {
            sweep(&backend).unwrap();
        }
    }
    backend.close().unwrap();
}

/// Returns every file below a folder, with how many bytes of it are not zeroes at its end.
fn files(dir: &Path) -> Vec<(PathBuf, u64)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files(&path));
            continue;
        }
        let bytes = fs::read(&path).unwrap();
        let used = bytes.iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1);
        found.push((path, used as u64));
    }
    found.sort();
    found
}

/// Copies a store, holes and all.
fn copy(from: &Path, to: &Path) {
    for (path, used) in files(from) {
        let target = to.join(path.strip_prefix(from).unwrap());
        fs::create_dir_all(target.parent().unwrap()).unwrap();
        let bytes = fs::read(&path).unwrap();
        fs::write(&target, &bytes[..used as usize]).unwrap();
        fs::File::options().write(true).open(&target).unwrap().set_len(bytes.len() as u64).unwrap();
    }
}

/// Opens a store and reads everything in it. An error is damage that was noticed; wrong bytes panic.
fn read_all(dir: &Path) -> Result<(), Error> {
    let backend = LsmBackend::open(dir, LsmOptions::default(), false)?;
    assert_eq!(head(&backend)?, COMMITS, "the store was closed, and all of it was durable");
    check(&backend, COMMITS)?;
    let mut damages = Vec::new();
    backend.each_object(&mut |_, _| Ok(()), &mut |damage| damages.push(damage))?;
    match damages.pop() {
        None => Ok(()),
        Some(damage) => {
            Err(Error::Corrupt { file: damage.file, offset: damage.offset, oid: damage.oid, reason: damage.reason })
        }
    }
}

#[test]
fn every_flipped_bit_is_noticed_or_harmless() {
    let dir = tempfile::tempdir().unwrap();
    let (whole, broken) = (dir.path().join("whole"), dir.path().join("broken"));
    store(&whole);
    read_all_of_a_copy(&whole, &broken, |_| {}).unwrap();
    let mut rng = Rng::new(3);
    let (mut flips, mut noticed) = (0, 0);
    for (path, used) in files(&whole).into_iter().filter(|file| file.1 > 0) {
        let name = path.strip_prefix(&whole).unwrap().to_owned();
        for _ in 0..crash::step(2, 60) {
            let (at, bit) = (rng.below(used), rng.below(8));
            let done = read_all_of_a_copy(&whole, &broken, |broken| {
                let file = fs::File::options().read(true).write(true).open(broken.join(&name)).unwrap();
                let mut byte = [0];
                file.read_exact_at(&mut byte, at).unwrap();
                file.write_all_at(&[byte[0] ^ (1 << bit)], at).unwrap();
            });
            flips += 1;
            noticed += usize::from(done.is_err());
            if let Err(error) = done {
                let expected = matches!(
                    error,
                    Error::Corrupt { .. } | Error::Lost { .. } | Error::Incompatible { .. } | Error::NoStore { .. }
                );
                assert!(expected, "bit {bit} of byte {at} of {}: {error:?}", name.display());
            }
        }
    }
    assert!(flips > 20 && noticed > flips / 3, "{noticed} of {flips} flips were noticed");
}

fn read_all_of_a_copy(whole: &Path, broken: &Path, damage: impl FnOnce(&Path)) -> Result<(), Error> {
    let _ = fs::remove_dir_all(broken);
    copy(whole, broken);
    damage(broken);
    read_all(broken)
}

/// Returns the journal that is being written.
fn journal(dir: &Path) -> (PathBuf, u64) {
    files(&dir.join("lsm")).into_iter().rfind(|(path, _)| path.extension().is_some_and(|ext| ext == "jnl")).unwrap()
}

#[test]
fn a_journal_that_is_cut_below_what_was_durable_is_told_by_name() {
    let dir = tempfile::tempdir().unwrap();
    let backend = create(dir.path(), LsmOptions::default());
    for _ in 0..30 {
        commit(&backend, Durability::Synced).unwrap();
    }
    drop(backend);
    let (journal, used) = journal(dir.path());
    fs::File::options().write(true).open(journal).unwrap().set_len(used / 2).unwrap();
    let open = || LsmBackend::open(dir.path(), tiny(), false);
    for _ in 0..2 {
        match open() {
            Err(Error::Lost { file, reason }) => {
                assert!(file.ends_with("lsm") && reason.contains("move 30"), "{file}: {reason}");
            }
            other => panic!("{other:?}"),
        }
    }
    // A witness that is torn says nothing, and what is left is sound.
    for bytes in [&b"BCONELSM torn"[..], &[0; 32], &[7; 32]] {
        fs::write(dir.path().join("durable"), bytes).unwrap();
        let backend = open().unwrap();
        let left = head(&backend).unwrap();
        assert!((5..30).contains(&left), "{left}");
        check(&backend, left).unwrap();
    }
}

/// Counts for which the database would take memory before it compares a checksum: with its highest bits set, one of them asks for
/// more memory than a machine has, and the process would end.
#[test]
fn counts_that_cannot_be_right_are_refused_before_memory_is_taken_for_them() {
    let dir = tempfile::tempdir().unwrap();
    store(dir.path());
    let mut places = Vec::new();
    for (path, _) in files(&dir.path().join("lsm").join("keyspaces")) {
        let bytes = fs::read(&path).unwrap();
        if path.parent().unwrap().ends_with("tables") {
            let contents = bytes.windows(4).rposition(|four| four == b"TOC!").unwrap() as u64;
            places.push((path, contents + 4..contents + 8));
        } else if path.ends_with("current") {
            let list = format!("v{}", u64::from_le_bytes(bytes[..8].try_into().unwrap()));
            let list = path.with_file_name(list);
            let bytes = fs::metadata(&list).unwrap().len();
            places.push((list, 0..bytes));
        }
    }
    assert!(places.iter().any(|place| place.1.start == 0) && places.iter().any(|place| place.1.start > 0));
    for (path, range) in places {
        let file = fs::File::options().read(true).write(true).open(&path).unwrap();
        for at in range {
            let mut byte = [0];
            file.read_exact_at(&mut byte, at).unwrap();
            file.write_all_at(&[byte[0] ^ 0x80], at).unwrap();
            let done = LsmBackend::open(dir.path(), LsmOptions::default(), false);
            let told = matches!(&done, Err(Error::Corrupt { file, .. }) if *file == path.display().to_string());
            assert!(told, "byte {at} of {}: {done:?}", path.display());
            file.write_all_at(&byte, at).unwrap();
        }
    }
    read_all(dir.path()).unwrap();
}
