//! Commits of one entry without a pause, beside reads and sweeps, for as long as told: queues that fill, counters and lists that grow, and
//! waits that never end show after hundreds of thousands of them.

use std::{
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    thread,
    time::{Duration, Instant},
};

use bristlecone::{Durability, Error, Format, Info, LogOptions, Native, Repo, Signature, SweepLimits, core::git::Git};
use bristlecone_testkit::conformance::Subject;

use super::matrix::{DISK, FILES, GIT, LMDB, LSM};

const ENTRIES: usize = 1000;
/// No commit may take as long.
const COMMIT_MAX: Duration = Duration::from_secs(20);
/// A value in so many is long.
const LONG_EVERY: u64 = 97;
const LONG_BYTES: usize = 20_000;

/// What entry `n` is set to by a commit.
fn value(commit: u64) -> Vec<u8> {
    let mut value = format!("value {commit} ").into_bytes();
    if commit % LONG_EVERY == 1 {
        value.resize(LONG_BYTES, b'x');
    }
    value
}

fn path(entry: usize) -> String {
    format!("a/b/c/{entry}")
}

fn info(message: &str) -> Info {
    Info::message(message).by(Signature::new("A <a@example.org>", 1_700_000_000)).durability(Durability::None)
}

/// Reads what is on the branch, and sweeps what is on none, until told to stop.
fn read_and_sweep<F: Format>(repo: &Repo<F>, stop: &AtomicBool) -> Result<(u64, u64), Error> {
    let (main, gone) = (repo.branch("main")?, repo.branch("gone")?);
    let (mut reads, mut dropped) = (0_u64, 0);
    while !stop.load(Relaxed) {
        let tree = main.tree()?;
        for _ in 0..50 {
            reads += 1;
            let found = tree.get(path(reads as usize * 31 % ENTRIES))?;
            assert!(found.is_some_and(|value| value.starts_with(b"value ")), "after {reads} reads");
        }
        if reads % 50_000 == 0 && repo.backend().capabilities().sweep {
            let mut garbage = gone.tree()?;
            (0..1000).try_for_each(|n| garbage.set(path(n), format!("garbage {reads}-{n}: {}", "y".repeat(200))))?;
            gone.commit(&mut garbage, &info("garbage"))?;
            gone.compare_and_set(gone.head()?, None, Durability::None)?;
            drop(garbage);
            dropped += repo.sweep(&[], &SweepLimits::default())?.objects;
        }
        thread::sleep(Duration::from_millis(1));
    }
    Ok((reads, dropped))
}

fn flood<F: Format>(format: &F, subject: &Subject) {
    let seconds = std::env::var("BRISTLECONE_FLOOD_SECONDS").map_or(30, |text| text.parse().unwrap());
    let dir = tempfile::tempdir().unwrap();
    let (backend, open) = (subject.make)(dir.path());
    let repo = Repo::with_backend(format.clone(), backend);
    let main = repo.branch("main").unwrap();
    let (mut tree, mut last) = (main.tree().unwrap(), vec![0; ENTRIES]);
    (0..ENTRIES).for_each(|entry| tree.set(path(entry), value(0)).unwrap());
    main.commit(&mut tree, &info("begun")).unwrap();
    let (stop, began) = (AtomicBool::new(false), Instant::now());
    let (mut commits, mut longest) = (0, Duration::ZERO);
    let (reads, dropped) = thread::scope(|scope| {
        let reading = scope.spawn(|| read_and_sweep(&repo, &stop));
        while began.elapsed() < Duration::from_secs(seconds) {
            commits += 1;
            let (entry, since) = (commits as usize * 7919 % ENTRIES, Instant::now());
            last[entry] = commits;
            tree.set(path(entry), value(commits)).unwrap();
            main.commit(&mut tree, &info("next")).unwrap();
            longest = longest.max(since.elapsed());
        }
        stop.store(true, Relaxed);
        reading.join().unwrap().unwrap()
    });
    let rate = commits as f64 / began.elapsed().as_secs_f64();
    println!(
        "{}: {commits} commits, {rate:.0}/s, the longest {longest:?}; {reads} reads, {dropped} dropped",
        subject.name
    );
    assert!(longest < COMMIT_MAX, "{}: a commit took {longest:?}", subject.name);
    let root = tree.root().unwrap();
    drop((tree, main, repo));
    let repo = Repo::with_backend(format.clone(), open.expect("it keeps what it has")());
    let main = repo.branch("main").unwrap();
    let tree = main.tree().unwrap();
    assert_eq!(tree.root().unwrap(), root, "{}", subject.name);
    for (entry, &commit) in last.iter().enumerate() {
        assert_eq!(tree.get(path(entry)).unwrap().as_deref(), Some(&value(commit)[..]), "{}: {entry}", subject.name);
    }
    let head = main.head().unwrap();
    let mut log = repo.log(head.as_slice(), LogOptions::default());
    let listed = log.try_fold(0, |count, commit| commit.map(|_| count + 1)).unwrap();
    assert_eq!(listed, commits + 1, "{}", subject.name);
}

#[test]
#[ignore = "it takes minutes: the lane `flood` runs it"]
fn every_backend_bears_commits_without_end_beside_reads_and_sweeps() {
    [DISK, LSM, LMDB, FILES].iter().for_each(|subject| flood(&Native::new(), subject));
    flood(&Git::sha1(), &GIT);
}
