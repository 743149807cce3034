//! Replays of the shipped traces: every answer and every commit hash, whatever the backend.

use std::{
    io::{self, Read},
    ops::ControlFlow,
    time::Duration,
};

use bristlecone::{Durability, EntryKind, Format, Native, Repo, Tezos, Tree, disk::DiskOptions};
use bristlecone_tezos::{
    PathConversion, Reader, RowKind, TraceError,
    replay::{End, Observer, Progress, Replay, ReplayError, ReplayOptions, Report, hashes_checkable},
};

use crate::shipped::{self, EARLY, FLAT, REAL};

type Outcome = Result<(), Box<dyn std::error::Error>>;

/// The traces with commits, rows and the recorded hash of the last commit.
const TRACES: [(&str, u64, u64, &str); 3] = [
    (REAL, 1, 6, "CoV8SQumiVU9saiu3FVNeDNewJaJH8yWdsGF3WLdsRr2P9S7MzCj"),
    (EARLY, 101, 40_617, "CoW9m6VF3jknTgvBcGrRFBZFUxWnpNo3MH1uC1zwZGwoNdixKfXZ"),
    (FLAT, 25, 38_613, "CoVy1FNN2WeyQuvZJVehN8CyvDXJyLbaptawCTSSrQtqh1zv17sn"),
];

fn memory<F: Format>(format: F) -> Repo<F> {
    Repo::with_backend(format, Repo::memory().backend().clone())
}

/// Replays with hashes checked wherever that can be.
fn replay<F: Format>(repo: &Repo<F>, trace: &[u8], options: ReplayOptions) -> Result<Report, ReplayError> {
    let check_hashes = hashes_checkable(repo.format(), &options).ok();
    let mut replay = Replay::new(repo, options.check_hashes(check_hashes))?;
    replay.run(&mut Reader::new(trace, "trace")?, &mut ())?;
    Ok(replay.report())
}

/// Checks what every whole replay of a trace must come to.
#[track_caller]
fn check<F: Format>(repo: &Repo<F>, report: &Report, commits: u64, rows: u64) {
    assert_eq!((report.commits, report.rows.total(), report.end), (commits, rows, End::Trace));
    let asked = [RowKind::Find, RowKind::Mem, RowKind::MemTree].map(|kind| report.rows.of(kind));
    assert_eq!((report.answers_checked, report.answers_wrong), (asked.iter().sum::<u64>(), 0));
    assert_eq!(repo.branch("main").unwrap().head().unwrap(), report.head.map(|(head, _)| head));
}

/// Returns every value of a tree with its path.
fn contents<F: Format>(tree: &Tree<F>) -> bristlecone::Result<Vec<(String, Vec<u8>)>> {
    let mut all = Vec::new();
    for entry in tree.walk_all("")? {
        let (path, entry) = entry?;
        if entry.kind() != EntryKind::Dir {
            all.push((path.to_string(), entry.contents()?.map(|value| value.to_vec()).unwrap_or_default()));
        }
    }
    all.sort();
    Ok(all)
}

#[test]
fn in_memory_every_answer_and_hash_is_right() -> Outcome {
    for (name, commits, rows, last) in TRACES {
        let trace = shipped::whole(name);
        let repo = memory(Tezos::new());
        let report = replay(&repo, &trace, ReplayOptions::default())?;
        check(&repo, &report, commits, rows);
        assert_eq!((report.hashes_checked, report.hashes_wrong), (commits, 0), "{name}");
        let (head, recorded) = report.head.unwrap();
        assert_eq!((recorded.to_string(), recorded.oid()), (last.to_owned(), head.oid()));
        assert_eq!(report.value_bytes == 0, name == REAL);
        assert!(report.samples.last().is_some_and(|last| last.rows == rows && last.commits == commits));
    }
    Ok(())
}

#[test]
fn on_disk_every_answer_and_hash_is_right_and_history_is_there() -> Outcome {
    for (name, commits, rows, _) in TRACES {
        let trace = shipped::whole(name);
        for (durability, maps) in [(Durability::None, true), (Durability::Grouped, false), (Durability::Synced, true)] {
            let dir = tempfile::tempdir()?;
            let options = DiskOptions::default().maps(maps);
            let repo = Repo::create(dir.path(), Tezos::new(), options)?;
            let report = replay(&repo, &trace, ReplayOptions::default().durability(durability))?;
            check(&repo, &report, commits, rows);
            assert_eq!(report.hashes_checked, commits);
            assert!(durability != Durability::Synced || report.syncs >= commits, "{report:?}");
            assert!(report.store_bytes > 0 && report.bytes_written >= report.store_bytes / 2);
            drop(repo);
            let repo = Repo::<Tezos>::open_format(dir.path(), DiskOptions::default())?;
            let head = repo.branch("main")?.head()?.unwrap();
            assert_eq!(Some(head.oid()), report.head.map(|(head, _)| head.oid()));
            // Blocks that were orphaned have no descendants, so the line is as long as the generation says.
            assert!((1..=commits).contains(&repo.generation(head)?));
            assert_eq!(repo.read_commit(head)?.author.ident, b"Tezos");
        }
    }
    Ok(())
}

#[test]
fn formats_and_switches_end_with_the_same_contents() -> Outcome {
    for (name, commits, rows, _) in TRACES {
        let trace = shipped::whole(name);
        let (one, other) = (memory(Tezos::new()), memory(Native::new()));
        let plain = memory(Tezos::new().inline(0).split(false));
        check(&one, &replay(&one, &trace, ReplayOptions::default())?, commits, rows);
        check(&other, &replay(&other, &trace, ReplayOptions::default())?, commits, rows);
        let report = replay(&plain, &trace, ReplayOptions::default())?;
        assert_eq!(report.hashes_checked, commits, "storage changes no hash");
        let all = contents(&one.branch("main")?.tree()?)?;
        assert!(!all.is_empty());
        assert_eq!(all, contents(&other.branch("main")?.tree()?)?, "{name}");
        assert_eq!(all, contents(&plain.branch("main")?.tree()?)?, "{name}");
    }
    Ok(())
}

#[test]
fn conversions_and_empty_values_keep_every_answer() -> Outcome {
    for (name, commits, rows, _) in TRACES {
        let trace = shipped::whole(name);
        for path_conversion in PathConversion::ALL {
            for empty_blobs in [false, true] {
                let options = ReplayOptions::default().path_conversion(path_conversion).empty_blobs(empty_blobs);
                let (one, other) = (memory(Tezos::new()), memory(Native::new()));
                let report = replay(&one, &trace, options.clone()).map_err(|e| format!("{path_conversion}: {e}"))?;
                check(&one, &report, commits, rows);
                check(&other, &replay(&other, &trace, options)?, commits, rows);
                let checked = path_conversion == PathConversion::None && !empty_blobs;
                assert_eq!(report.hashes_checked, if checked { commits } else { 0 });
                assert!(!empty_blobs || report.value_bytes == 0);
                let all = contents(&one.branch("main")?.tree()?)?;
                assert_eq!(all, contents(&other.branch("main")?.tree()?)?, "{name} {path_conversion}");
            }
        }
    }
    Ok(())
}

#[test]
fn a_replay_ends_after_the_commits_asked_for() -> Outcome {
    let trace = shipped::bytes(EARLY);
    let repo = memory(Tezos::new());
    let report = replay(&repo, &trace, ReplayOptions::default().commits(7))?;
    assert_eq!((report.commits, report.hashes_checked, report.end), (7, 7, End::Commits));
    assert_eq!(report.rows.of(RowKind::Commit), 7);
    let report = replay(&repo, &trace, ReplayOptions::default().commits(0))?;
    assert_eq!((report.commits, report.rows.total(), report.end), (0, 0, End::Commits));
    Ok(())
}

/// Breaks off at the first look.
struct Impatient;

impl Observer for Impatient {
    fn progress(&mut self, now: &Progress) -> ControlFlow<()> {
        assert!(now.done.is_none(), "the length of a slice of bytes is not known");
        ControlFlow::Break(())
    }
}

/// A slow disk.
struct Slow<'a>(&'a [u8]);

impl Read for Slow<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        std::thread::sleep(Duration::from_millis(60));
        self.0.read(buffer)
    }
}

#[test]
fn an_observer_ends_a_replay_between_rows() -> Outcome {
    let trace = shipped::bytes(EARLY);
    let repo = memory(Tezos::new());
    let mut replay = Replay::new(&repo, ReplayOptions::default())?;
    replay.run(&mut Reader::new(Slow(&trace), "trace")?, &mut Impatient)?;
    let report = replay.report();
    assert_eq!(report.end, End::Stopped);
    assert!(report.seconds >= 0.1 && report.rows.total() < 40_617);
    assert_eq!(repo.branch("main")?.head()?, report.head.map(|(head, _)| head));
    Ok(())
}

#[test]
fn a_cut_ends_a_replay_after_what_is_whole_and_a_strict_one_with_an_error() -> Outcome {
    let bytes = shipped::bytes(REAL);
    // Where rows begin, and where the one begins that is cut in the published file.
    let starts = [0x0d, 0x27, 0x51, 0x75, 0xb4, 0xd6, 0x128];
    for length in 13..=bytes.len() {
        let whole = starts.iter().filter(|&&start| start <= length).count() - 1;
        for (threads, strict) in [(1, true), (2, true), (1, false), (2, false)] {
            let repo = memory(Tezos::new());
            let options = ReplayOptions::default().threads(threads).strict(strict);
            let mut replay = Replay::new(&repo, options)?;
            let ended = replay.run(&mut Reader::new(&bytes[..length], "cut.repr")?, &mut ());
            let there = (length - starts[whole]) as u64;
            let report = replay.report();
            match ended {
                Ok(()) => {
                    assert!(there == 0 || !strict, "{length}");
                    assert_eq!((report.cut.is_some(), report.end), (there > 0, End::Trace), "{length}");
                    let says = format!("{there} bytes are there");
                    assert!(report.cut.as_ref().is_none_or(|cut| cut.contains(&says)), "{length}");
                }
                Err(ReplayError::Trace(TraceError::Cut { file, offset, row, bytes })) => {
                    assert_eq!((&file[..], offset, row), ("cut.repr", starts[whole] as u64, whole as u64));
                    assert_eq!((bytes, strict), (there, true), "{length}");
                }
                Err(other) => panic!("{length}: {other}"),
            }
            assert_eq!((report.rows.total(), report.commits), (whole as u64, u64::from(whole == 6)), "{length}");
            assert_eq!(repo.branch("main")?.head()?.is_some(), whole == 6, "{length}");
        }
    }
    // A replay that stops before the cut never hears of it.
    let report = replay(&memory(Tezos::new()), &bytes, ReplayOptions::default().commits(1).strict(true))?;
    assert_eq!((report.commits, report.end, report.cut), (1, End::Commits, None));
    Ok(())
}
