//! Damaged files: every flipped bit is noticed or harmless, and what was durable is never silently less.

use std::{
    fs,
    os::unix::fs::FileExt as _,
    path::{Path, PathBuf},
    thread,
};

use bristlecone::{Backend as _, Batch, Durability, Error, Expected, RefMove, RefTarget};
use bristlecone_lsm::{LsmBackend, LsmOptions};
use bristlecone_testkit::{crash, generate::Rng};
use twox_hash::XxHash3_64;

use crate::{
    create,
    history::{check, commit, head, litter, oid, sweep},
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

/// Moves a ref to an object with this number, which need not be there.
fn move_to(backend: &LsmBackend, name: &str, number: u64) {
    let to = Some(RefTarget::Object(oid(number).into()));
    let wanted = RefMove { name: name.to_owned(), expected: Expected::Any, to };
    backend.append(Batch::new(), &[wanted], Durability::Synced).unwrap();
}

fn is_at(backend: &LsmBackend, name: &str, number: u64) -> bool {
    backend.get_ref(name).unwrap() == Some(RefTarget::Object(oid(number).into()))
}

/// The places of all bytes of a journal that its checksums leave out: each batch begins with 1, how many entries it has, and its place in
/// the order of all batches. Here each has two entries, or one where the database makes a keyspace.
fn batch_heads(journal: &[u8]) -> Vec<u64> {
    let is_head = |at: &usize| {
        let head = &journal[*at..*at + 13];
        head[0] == 1
            && (1..=3).contains(&head[1])
            && head[2..5] == [0; 3]
            && head[6..13] == [0; 7]
            && journal[at + 13] == 2
    };
    let heads = (0..journal.len().saturating_sub(14)).filter(is_head);
    heads.flat_map(|at| at as u64..at as u64 + 13).collect()
}

#[test]
fn a_journal_that_is_damaged_in_the_middle_shows_no_older_refs() {
    let dir = tempfile::tempdir().unwrap();
    let whole = dir.path().join("whole");
    let backend = create(&whole, LsmOptions::default().background(false));
    for (name, number) in [("a", 1), ("a", 2), ("b", 3), ("b", 4), ("b", 5), ("b", 6)] {
        move_to(&backend, name, number);
    }
    drop(backend);
    let (path, used) = journal(&whole);
    let name = path.strip_prefix(&whole).unwrap().to_owned();
    let bytes = fs::read(&path).unwrap()[..used as usize].to_vec();
    let heads = batch_heads(&bytes);
    assert!(heads.len() >= 6 * 13, "{} bytes of heads", heads.len());
    let mut places: Vec<u64> = (0..used).step_by(crash::step(97, 1) as usize).chain(heads).collect();
    places.sort_unstable();
    places.dedup();
    // In a short run one bit of each byte, which its place chooses.
    let step = crash::step(8, 1);
    let flips: Vec<(u64, u64)> =
        places.iter().flat_map(|&at| (at % step..8).step_by(step as usize).map(move |bit| (at, bit))).collect();
    let try_flips = |broken: &Path, flips: &[(u64, u64)]| {
        let mut noticed = 0;
        for &(at, bit) in flips {
            let _ = fs::remove_dir_all(broken);
            copy(&whole, broken);
            let file = fs::File::options().write(true).open(broken.join(&name)).unwrap();
            file.write_all_at(&[bytes[at as usize] ^ (1 << bit)], at).unwrap();
            match LsmBackend::open(broken, LsmOptions::default().background(false), false) {
                Ok(backend) => assert!(is_at(&backend, "a", 2) && is_at(&backend, "b", 6), "bit {bit} of byte {at}"),
                Err(Error::Corrupt { .. } | Error::Lost { .. } | Error::Incompatible { .. }) => noticed += 1,
                Err(error) => panic!("bit {bit} of byte {at}: {error:?}"),
            }
        }
        noticed
    };
    let halves = flips.split_at(flips.len() / 2);
    let noticed = thread::scope(|scope| {
        let first = scope.spawn(|| try_flips(&dir.path().join("first"), halves.0));
        try_flips(&dir.path().join("second"), halves.1) + first.join().unwrap()
    });
    assert!(noticed * 20 > flips.len(), "{noticed} of {} flips were noticed", flips.len());
}

#[test]
fn a_store_without_a_sum_of_its_refs_opens_and_gets_one() {
    let dir = tempfile::tempdir().unwrap();
    let open = || LsmBackend::open(dir.path(), tiny(), false);
    let state = |change: &dyn Fn(Vec<u8>) -> Vec<u8>| {
        let database = fjall::Database::builder(dir.path().join("lsm")).open().unwrap();
        let refs = database.keyspace("refs", fjall::KeyspaceCreateOptions::default).unwrap();
        let value = change(refs.get("s").unwrap().unwrap().to_vec());
        refs.insert("s", &value).unwrap();
        database.persist(fjall::PersistMode::SyncAll).unwrap();
        value.len()
    };
    let backend = create(dir.path(), tiny());
    move_to(&backend, "a", 1);
    move_to(&backend, "b", 2);
    drop(backend);
    let sealed = |body: &[u8]| [&XxHash3_64::oneshot(&[b"s", body].concat()).to_le_bytes()[..], body].concat();
    assert_eq!(state(&|value| value), 8 + 32);
    // As an earlier version wrote it.
    state(&|value| sealed(&value[8..32]));
    let backend = open().unwrap();
    assert!(is_at(&backend, "a", 1) && is_at(&backend, "b", 2));
    drop(backend);
    assert_eq!(state(&|value| value), 8 + 24, "opening writes nothing");
    move_to(&open().unwrap(), "a", 3);
    assert_eq!(state(&|value| value), 8 + 32);
    assert!(is_at(&open().unwrap(), "a", 3));
    state(&|mut value| {
        value[32] ^= 1;
        sealed(&value[8..])
    });
    assert!(matches!(open(), Err(Error::Corrupt { .. })));
}
