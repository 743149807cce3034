//! Processes commit to a store that keeps its last commits and collects by itself, others read, and all are killed at random:
//! the process that collects as well. What is collected comes back all the time, since values repeat.
//!
//! Commit `n` sets one entry, to one of three values in turn, so each tree follows from its number.

use std::{path::Path, sync::Arc, time::Duration};

use bristlecone::{
    Backend, Durability, Error, Expected, Info, LogOptions, Native, RefMove, RefTarget, Repo, Result, Signature,
    SweepLimits, Tree,
    disk::{DiskBackend, DiskOptions},
    storage::RealStorage,
};
use bristlecone_testkit::generate::Rng;

use crate::{
    engine::format_tag,
    processes::{Lines, Process, is_report, report, start},
};

/// Entries of a tree.
const ENTRIES: u64 = 200;
/// Commits that the branch keeps.
const KEPT: usize = 20;

fn options() -> DiskOptions {
    DiskOptions::default().segment_bytes(64 << 10).cold_bytes(24 << 10)
}

fn open(dir: &Path, read_only: bool) -> Repo {
    let storage = Arc::new(RealStorage::new(dir.join("store")));
    let backend = DiskBackend::open(storage, None, options(), read_only).expect("the store opens");
    Repo::with_backend(Native::new(), Arc::new(backend))
}

fn key(entry: u64) -> String {
    format!("d{}/n{entry}", entry % 7)
}

/// Returns what an entry holds after a commit.
fn value(entry: u64, commit: u64) -> Option<String> {
    let last = (commit + ENTRIES - entry) / ENTRIES * ENTRIES + entry;
    let last = last.checked_sub(ENTRIES).filter(|&last| last > 0)?;
    let turn = last / ENTRIES % 3;
    Some(format!("{entry} {turn} {}", "x".repeat(entry as usize % 4 * 150)))
}

fn number_of(tree: &Tree) -> Result<u64> {
    let text = tree.get("count")?.map(|value| String::from_utf8(value.to_vec()).expect("digits"));
    Ok(text.map_or(0, |text| text.parse().expect("a number")))
}

fn set_next(tree: &mut Tree) -> Result<u64> {
    let number = number_of(tree)? + 1;
    let entry = number % ENTRIES;
    tree.set("count", number.to_string())?;
    tree.set(&*key(entry), value(entry, number).expect("it is set"))?;
    Ok(number)
}

/// Compares a whole tree with what its number says.
fn check_tree(tree: &Tree) -> u64 {
    let number = number_of(tree).unwrap_or_else(|error| panic!("the count: {error}"));
    for entry in 0..ENTRIES {
        let found = tree.get(&*key(entry)).unwrap_or_else(|error| panic!("entry {entry} of {number}: {error}"));
        let found = found.map(|value| String::from_utf8(value.to_vec()).expect("text"));
        assert_eq!(found, value(entry, number), "entry {entry} of commit {number}");
    }
    number
}

fn info(rng: &mut Rng) -> Info {
    let mut info = Info::message("a change").by(Signature::new("Ann", 0));
    info.durability = *rng.pick(&[Durability::None, Durability::Grouped, Durability::Synced]);
    info
}

/// In part or whole; of all of the log or up to what is recent; with what is dead hidden alone, or some of it or all copied away.
fn limits(rng: &mut Rng) -> SweepLimits {
    let limits = SweepLimits::default().partial(rng.below(3) == 0).recent_stays(rng.below(2) == 0);
    limits.slack(*rng.pick(&[0, 30, 100]))
}

/// Commits until killed; collects without being asked, and now and then at once, and moves another branch to and fro.
pub(crate) fn write_for_ever(dir: &Path) {
    let mut rng = Rng::of_this_process();
    let repo = open(dir, false);
    let branch = repo.branch("main").expect("a branch");
    loop {
        let mut number = 0;
        let set = |tree: &mut Tree| set_next(tree).map(|set| number = set);
        match branch.edit(&info(&mut rng), set) {
            Ok(_) => report(&format!("ACK {number}")),
            Err(Error::RefMoved { .. }) => {}
            Err(error) => panic!("a commit fails: {error}"),
        }
        match rng.below(40) {
            0 => match repo.sweep(&[], &limits(&mut rng)) {
                Ok(swept) => report(&format!("SWEPT {}", swept.objects)),
                Err(Error::Locked { .. }) => {}
                Err(error) => panic!("a collection fails: {error}"),
            },
            1 | 2 => side(&repo, &mut rng).unwrap_or_else(|error| panic!("the other branch: {error}")),
            _ => {}
        }
    }
}

/// Commits a tree of the first branch to the other one, when it is cut there or about to be; or moves the other branch to the
/// newest commit of the first, or takes it away.
fn side(repo: &Repo, rng: &mut Rng) -> Result<()> {
    let main = repo.branch("main")?;
    let to = match rng.below(4) {
        0 | 1 => {
            let old = main.tree()?;
            std::thread::sleep(Duration::from_millis(rng.below(40)));
            return match repo.branch("side")?.edit(&info(rng), |tree| tree.set_tree("", &old)) {
                Ok(_) => {
                    report("BACK");
                    Ok(())
                }
                Err(Error::RefMoved { .. }) => Ok(()),
                Err(error) => Err(error),
            };
        }
        2 => main.head()?.map(RefTarget::from),
        _ => None,
    };
    let wanted = RefMove { name: "refs/heads/side".to_owned(), expected: Expected::Any, to };
    match repo.move_refs(&[wanted], Durability::None) {
        // The commit was cut meanwhile, by writers that are far ahead.
        Ok(_) | Err(Error::Gone { .. }) => Ok(()),
        Err(error) => Err(error),
    }
}

/// Reads until killed, and holds some trees for a while; every other opening is read-only.
pub(crate) fn read_for_ever(dir: &Path) {
    let mut rng = Rng::of_this_process();
    let mut last = 0;
    loop {
        let repo = open(dir, rng.below(2) == 0);
        let mut held: Vec<(u64, Tree)> = Vec::new();
        for _ in 0..rng.below(60) {
            let tree = repo
                .branch("main")
                .and_then(|branch| branch.tree())
                .unwrap_or_else(|error| panic!("the branch: {error}"));
            let number = check_tree(&tree);
            assert!(number >= last, "the branch went from {last} back to {number}");
            last = number;
            let side = repo.branch("side").and_then(|branch| branch.tree());
            check_tree(&side.unwrap_or_else(|error| panic!("the other branch: {error}")));
            held.push((number, tree));
            if held.len() > 3 {
                let (number, tree) = held.swap_remove(rng.index(held.len()));
                assert_eq!(check_tree(&tree), number, "a tree that was held");
            }
        }
        report(&format!("READ {last}"));
    }
}

/// Lets processes work on one store, and kills one of them again and again.
fn kill_some(dir: &Path, lines: &Lines, writers: usize, readers: usize, kills: usize, rng: &mut Rng) {
    let mut running: Vec<(&str, Process)> = Vec::new();
    let mut sound = true;
    for _ in 0..kills {
        for (role, count) in [("churner", writers), ("looker", readers)] {
            while running.iter().filter(|(other, _)| *other == role).count() < count {
                running.push((role, start(role, 0, dir, lines)));
            }
        }
        std::thread::sleep(Duration::from_micros(10_000 + rng.below(60_000)));
        let (_, mut victim) = running.swap_remove(rng.index(running.len()));
        victim.kill();
        sound &= victim.join();
    }
    for (_, mut rest) in running {
        rest.kill();
        sound &= rest.join();
    }
    let said: Vec<String> = lines.lock().unwrap().iter().filter(|line| !is_report(line)).cloned().collect();
    assert!(sound && said.is_empty(), "a process failed:\n{}", said.join("\n"));
}

#[test]
fn a_store_that_collects_by_itself_survives_kills_of_whoever_writes_reads_and_collects() {
    let dir = tempfile::tempdir().unwrap();
    let storage = Arc::new(RealStorage::new(dir.path().join("store")));
    drop(DiskBackend::create(storage, format_tag(), options()).unwrap());
    open(dir.path(), false).set_retention(&format!("last {KEPT} refs/heads/*\n").parse().unwrap()).unwrap();
    let lines = Lines::default();
    let mut rng = Rng::of_this_process();
    for (writers, readers, kills) in [(1, 1, 60), (2, 2, 80), (3, 1, 60)] {
        kill_some(dir.path(), &lines, writers, readers, kills, &mut rng);
        check_store(dir.path(), &lines);
    }
    let said = lines.lock().unwrap();
    let of = |word: &str| said.iter().filter(|line| line.starts_with(word)).count();
    println!(
        "{} commits, {} of old trees, {} collections, {} readings",
        of("ACK "),
        of("BACK"),
        of("SWEPT "),
        of("READ ")
    );
    assert!(of("ACK ") > 1000 && of("BACK") > 50 && of("SWEPT ") > 10 && of("READ ") > 10, "too little was done");
}

/// Checks that nothing acknowledged is lost, that the kept commits are whole, and that the store is small again.
fn check_store(dir: &Path, lines: &Lines) {
    let acks = lines.lock().unwrap().iter().filter_map(|line| line.strip_prefix("ACK ")?.parse().ok()).max();
    let latest: u64 = acks.expect("commits");
    let repo = open(dir, false);
    let head = repo.branch("main").unwrap().head().unwrap().expect("a head");
    let mut expected = None;
    let mut count = 0;
    for entry in repo.log(&[head], LogOptions::default()).take(KEPT) {
        let number = check_tree(&repo.checkout(entry.unwrap().id).unwrap());
        assert!(expected.is_none_or(|expected| expected == number), "commit {number} is in another's place");
        assert!(
            expected.is_some() || number >= latest,
            "commit {latest} was acknowledged; the branch ends at {number}"
        );
        expected = Some(number - 1);
        count += 1;
    }
    assert_eq!(count, KEPT, "commits are missing");
    check_tree(&repo.branch("side").unwrap().tree().unwrap());
    repo.sweep(&[], &SweepLimits::default().grace(0)).unwrap();
    drop(repo);
    let storage = Arc::new(RealStorage::new(dir.join("store")));
    let disk = DiskBackend::open(storage, None, options(), false).unwrap();
    disk.check(&mut |damage| panic!("{damage:?}")).unwrap();
    let bytes = disk.stats().file_bytes;
    assert!(bytes < 1 << 20, "{bytes} bytes are left");
}
