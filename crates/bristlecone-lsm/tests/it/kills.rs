//! Processes are killed while they commit, index, compact and sweep: what was acknowledged is there.

use std::{
    collections::HashSet,
    io::{BufRead as _, BufReader},
    path::Path,
    process::{Command, Stdio},
    time::Duration,
};

use bristlecone::{Backend as _, Durability, Object, Oid};
use bristlecone_lsm::LsmBackend;
use bristlecone_testkit::{crash, generate::Rng};

use crate::{
    create,
    history::{check, commit, head, litter, oid, sweep},
    tiny,
};

/// The folder of the store, for a child process.
const DIR: &str = "BRISTLECONE_TEST_LSM_DIR";

#[ignore = "the body of a child process, which another test starts"]
#[test]
fn child_that_commits_for_ever() {
    let dir = std::env::var(DIR).expect("another test starts this one");
    let backend = LsmBackend::open(Path::new(&dir), tiny(), false).expect("the store opens");
    let mut rng = Rng::of_this_process();
    loop {
        let durability = *rng.pick(&[Durability::None, Durability::Grouped, Durability::Synced]);
        let number = commit(&backend, durability).expect("a commit");
        eprintln!("ACK {number}");
        if rng.chance(1, 3) {
            litter(&backend, number).expect("an append");
        }
        if rng.chance(1, 60) {
            sweep(&backend).expect("a sweep");
        }
    }
}

/// Starts a process that commits, kills it after a while, and returns the last commit that it was told of.
fn kill_one(dir: &Path, rng: &mut Rng) -> u64 {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "kills::child_that_commits_for_ever", "--ignored", "--nocapture", "--test-threads=1"])
        .env(DIR, dir)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let reader = std::thread::spawn(move || {
        let mut last = 0;
        for line in lines.map_while(Result::ok) {
            match line.strip_prefix("ACK ") {
                Some(number) => last = number.parse().unwrap_or(last),
                None => panic!("the child says: {line}"),
            }
        }
        last
    });
    std::thread::sleep(Duration::from_micros(20_000 + rng.below(150_000)));
    child.kill().unwrap();
    child.wait().unwrap();
    reader.join().unwrap()
}

#[test]
fn what_was_acknowledged_survives_kills() {
    let dir = tempfile::tempdir().unwrap();
    drop(create(dir.path(), tiny()));
    let mut rng = Rng::new(7);
    let mut last = 0;
    for round in 0..crash::step(20, 200) {
        last = kill_one(dir.path(), &mut rng).max(last);
        let backend = LsmBackend::open(dir.path(), tiny(), false).expect("the store opens");
        let found = head(&backend).unwrap();
        assert!(found >= last, "round {round}: commit {last} was acknowledged, the store ends at {found}");
        check(&backend, found).unwrap();
        backend_is_sound(&backend, found);
        last = found;
        if round % 5 == 4 {
            sweep(&backend).unwrap();
            check(&backend, found).unwrap();
            assert_eq!(sweep(&backend).unwrap().objects, 0);
        }
    }
    assert!(last > 100, "{last} commits");
}

/// A walk over all objects meets each commit once, and no damage.
fn backend_is_sound(backend: &LsmBackend, commits: u64) {
    let mut met = HashSet::new();
    let mut count = |met_oid: Oid, _: &Object<'_>| {
        assert!(met.insert(met_oid), "{met_oid} is met twice");
        Ok(())
    };
    backend.each_object(&mut count, &mut |damage| panic!("{damage:?}")).unwrap();
    assert!((1..=commits).all(|number| met.contains(&oid(number))));
}
