//! A process that is killed in the middle of batches leaves a map whose root is that of its entries.

use std::{
    fs,
    io::{BufRead, BufReader},
    path::Path,
    process::{Command, Stdio},
    thread,
    time::Duration,
};

use bristlecone_lmdb::okra::{Mode, OkraError, OkraMap, OkraOptions};

use super::{
    Numbers, in_a_child,
    model::{self, Contents},
    set_many,
};
use crate::backend::processes::{end_child, fork_child, wait_for_child};

/// Changes a map for ever. Each batch sets `counter` to its number, and entries that can be told from it.
fn change_for_ever(dir: &Path) -> ! {
    let map = OkraMap::open(dir, &OkraOptions::default()).unwrap();
    let mut number = count(&map);
    loop {
        number += 1;
        let mut writer = map.write().unwrap();
        change(number, |key, value| match value {
            Some(value) => writer.insert(&key, &value).unwrap(),
            None => writer.remove(&key).unwrap(),
        });
        writer.commit().unwrap();
    }
}

/// The changes of a batch.
fn change(number: u64, mut each: impl FnMut(Vec<u8>, Option<Vec<u8>>)) {
    each(b"counter".to_vec(), Some(number.to_be_bytes().to_vec()));
    let mut numbers = Numbers(number);
    for _ in 0..1 + numbers.below(200) {
        let key = (numbers.below(3000) as u32).to_be_bytes().to_vec();
        let value = (numbers.below(3) > 0).then(|| number.to_le_bytes().to_vec());
        each(key, value);
    }
}

fn count(map: &OkraMap) -> u64 {
    let value = map.read().unwrap().get(b"counter").unwrap().map(<[u8]>::to_vec);
    value.map_or(0, |value| u64::from_be_bytes(value.try_into().unwrap()))
}

#[test]
fn a_killed_process_leaves_whole_batches() {
    if let Ok(dir) = std::env::var("BRISTLECONE_TEST_OKRA_DIR") {
        change_for_ever(Path::new(&dir));
    }
    let dir = tempfile::tempdir().unwrap();
    drop(OkraMap::create(dir.path(), &OkraOptions::default()).unwrap());
    let (mut contents, mut done) = (Contents::new(), 0);
    for round in 0..20_u64 {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "okra::killed::a_killed_process_leaves_whole_batches"])
            .env("BRISTLECONE_TEST_OKRA_DIR", dir.path())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        thread::sleep(Duration::from_millis(40 + round * 7));
        child.kill().unwrap();
        child.wait().unwrap();
        let map = OkraMap::open(dir.path(), &OkraOptions::default()).unwrap();
        let now = count(&map);
        assert!(now >= done);
        for number in done + 1..=now {
            change(number, |key, value| match value {
                Some(value) => drop(contents.insert(key, value)),
                None => drop(contents.remove(&key)),
            });
        }
        done = now;
        let reader = map.read().unwrap();
        let found: Contents = reader
            .entries()
            .unwrap()
            .map(|entry| entry.unwrap())
            .map(|(key, value)| (key.to_vec(), value.to_vec()))
            .collect();
        assert!(found == contents, "round {round}: batch {now} is not whole");
        let root = reader.check().unwrap().root;
        assert_eq!(root.hash.0, model::build(Mode::Store, &contents).2);
    }
    assert!(done > 20, "the processes were killed before they did anything");
}

/// Starts a process that reads a map until it is killed, and kills it then.
fn kill_a_reader(dir: &Path) {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "--nocapture", "okra::killed::killed_readers_take_no_room_and_no_places"])
        .env("BRISTLECONE_TEST_OKRA_READ", dir)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(lines.map(Result::unwrap).any(|line| line.ends_with("reads")), "the process has ended");
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn killed_readers_take_no_room_and_no_places() {
    if let Ok(dir) = std::env::var("BRISTLECONE_TEST_OKRA_READ") {
        let map = OkraMap::open(Path::new(&dir), &OkraOptions::default().read_only(true)).unwrap();
        let _reader = map.read().unwrap();
        println!("reads");
        thread::sleep(Duration::from_secs(60));
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let map = OkraMap::create(dir.path(), &OkraOptions::default().sync(false)).unwrap();
    let set = |number: u32| {
        set_many(&map, [(b"key", [number as u8; 3000])]);
    };
    set(0);
    kill_a_reader(dir.path());
    (1..400).for_each(set);
    let bytes = fs::metadata(dir.path().join("data.mdb")).unwrap().len();
    assert!(bytes < 200_000, "{bytes} bytes: pages are kept for a reader that is gone");
    // More than there are places in LMDB's table, and nobody writes.
    (0..130).for_each(|_| kill_a_reader(dir.path()));
    assert_eq!(map.read().unwrap().get(b"key").unwrap(), Some(&[143; 3000][..]));
}

/// The body of a process that forks while it reads.
fn fork_a_reader(dir: &Path) {
    let map = OkraMap::open(dir, &OkraOptions::default()).unwrap();
    // Of two readers that were there, one is kept to be used again.
    let (reader, ended) = (map.read().unwrap(), map.read().unwrap());
    drop(ended);
    let root = reader.root().unwrap();
    let child = fork_child();
    if child == 0 {
        let begun = [reader.get(&[0; 4]).map(drop), reader.root().map(drop), reader.node_count().map(drop)];
        let refused = [map.read().map(drop), map.write().map(drop), map.flush()];
        let refused = begun.iter().chain(&refused).all(|call| matches!(call, Err(OkraError::Forked { .. })));
        drop(reader);
        drop(map);
        let anew = OkraMap::open(dir, &OkraOptions::default().sync(false)).unwrap();
        // So many commits that pages which nobody reads are used again.
        let works = (0..50_u32).all(|round| {
            let mut writer = anew.write().unwrap();
            let set = (0..2000_u32).try_for_each(|number| writer.insert(&number.to_be_bytes(), &round.to_be_bytes()));
            set.is_ok() && writer.commit().is_ok()
        });
        drop(anew);
        end_child(refused && works);
    }
    wait_for_child(child);
    assert_eq!(reader.check().unwrap().root, root, "the child took the place of a reader");
    assert_eq!(reader.entries().unwrap().filter(|entry| entry.as_ref().unwrap().1 == b"before").count(), 2000);
    assert_ne!(map.read().unwrap().root().unwrap(), root);
    let mut writer = map.write().unwrap();
    writer.insert(b"key", b"after").unwrap();
    let child = fork_child();
    if child == 0 {
        end_child(matches!(writer.root(), Err(OkraError::Forked { .. })));
    }
    wait_for_child(child);
    writer.commit().unwrap();
    assert_eq!(map.read().unwrap().get(b"key").unwrap(), Some(&b"after"[..]));
}

#[test]
fn a_forked_process_opens_the_map_anew() {
    const DIR: &str = "BRISTLECONE_TEST_OKRA_FORK";
    if let Ok(dir) = std::env::var(DIR) {
        fork_a_reader(Path::new(&dir));
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let map = OkraMap::create(dir.path(), &OkraOptions::default().sync(false)).unwrap();
    set_many(&map, (0..2000_u32).map(|number| (number.to_be_bytes(), b"before")));
    drop(map);
    let child = in_a_child("killed::a_forked_process_opens_the_map_anew", DIR, dir.path());
    assert!(child.status.success(), "{}", String::from_utf8_lossy(&child.stderr));
}
