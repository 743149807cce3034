//! Replays on two threads: the same answers, hashes and store as on one, and the same failures at the same rows.

use bristlecone::{Durability, Format, Native, Repo, Tezos, disk::DiskOptions};
use bristlecone_tezos::{
    Hashes, Reader, Row, Writer,
    replay::{Replay, ReplayError, ReplayOptions, Report, hashes_checkable},
};

use crate::shipped::{self, EARLY, FLAT, REAL};

type Outcome = Result<(), Box<dyn std::error::Error>>;

fn replay<F: Format>(repo: &Repo<F>, trace: &[u8], options: ReplayOptions) -> (Report, Option<ReplayError>) {
    let check_hashes = hashes_checkable(repo.format(), &options).ok();
    let mut replay = Replay::new(repo, options.check_hashes(check_hashes)).unwrap();
    let ended = replay.run(&mut Reader::new(trace, "trace").unwrap(), &mut ());
    (replay.report(), ended.err())
}

fn with_threads(threads: usize) -> ReplayOptions {
    ReplayOptions::default().threads(threads)
}

#[test]
fn two_threads_do_what_one_does() -> Outcome {
    for name in [REAL, EARLY, FLAT] {
        let trace = shipped::whole(name);
        let memory = || Repo::with_backend(Tezos::new(), Repo::memory().backend().clone());
        let (serial, failed) = replay(&memory(), &trace, with_threads(1));
        assert!(failed.is_none(), "{name}: {failed:?}");
        for round in 0..3 {
            let (parallel, failed) = replay(&memory(), &trace, with_threads(2));
            assert!(failed.is_none(), "{name}, {round}: {failed:?}");
            assert_eq!(parallel.rows, serial.rows);
            assert_eq!((parallel.answers_checked, parallel.value_sum), (serial.answers_checked, serial.value_sum));
            assert_eq!((parallel.hashes_checked, parallel.head), (serial.hashes_checked, serial.head));
            assert_eq!((parallel.store_bytes, parallel.open), (serial.store_bytes, serial.open), "the same objects");
        }
        for durability in [Durability::None, Durability::Synced] {
            let dir = tempfile::tempdir()?;
            let repo = Repo::create(dir.path(), Tezos::new(), DiskOptions::default())?;
            let (report, failed) = replay(&repo, &trace, with_threads(2).durability(durability));
            assert!(failed.is_none(), "{name}: {failed:?}");
            assert_eq!((report.hashes_checked, report.head), (serial.hashes_checked, serial.head));
            assert_eq!(repo.branch("main")?.head()?, serial.head.map(|(head, _)| head));
        }
        let (one, other) = (Repo::memory(), Repo::memory());
        let native = |repo: &Repo<Native>, threads| replay(repo, &trace, with_threads(threads)).0.head;
        assert_eq!(native(&one, 1), native(&other, 2));
    }
    Ok(())
}

/// Returns the trace with its rows changed by `change`, which is given their numbers.
fn changed(trace: &[u8], mut change: impl FnMut(u64, &mut Row<'_>)) -> Vec<u8> {
    let mut writer = Writer::new(Vec::new()).unwrap();
    let mut reader = Reader::new(trace, "trace").unwrap();
    let mut number = 0;
    while let Some(mut row) = reader.next().unwrap() {
        change(number, &mut row);
        writer.row(&row).unwrap();
        number += 1;
    }
    writer.finish().unwrap()
}

/// Rows with each kind of damage: an answer, the hash of a commit, a parent, a context.
#[test]
fn what_is_wrong_is_wrong_at_the_same_row() -> Outcome {
    let trace = shipped::bytes(EARLY);
    let wrong_hash = b"CoV8SQumiVU9saiu3FVNeDNewJaJH8yWdsGF3WLdsRr2P9S7MzCj";
    let other = {
        let mut reader = Reader::new(&trace[..], "trace")?;
        let mut hashes = Vec::new();
        while let Some(row) = reader.next()? {
            if let Row::Commit { hash, .. } = row {
                hashes.push(hash.value.to_vec());
            }
        }
        hashes
    };
    let mut kinds = [0; 4];
    for (index, kind) in (20_000..40_000).step_by(1777).zip((0..4).cycle()) {
        let mut hit = false;
        let broken = changed(&trace, |number, row| {
            if number < index || hit {
                return;
            }
            match (kind, row) {
                (0, Row::Find { found, .. } | Row::Mem { found, .. } | Row::MemTree { found, .. }) => *found = !*found,
                (1, Row::Commit { hash, .. }) => hash.value = wrong_hash,
                (2, Row::Commit { parents, .. }) => *parents = Hashes::default(),
                (3, Row::Add { input, .. }) => input.value += 1_000_000,
                _ => return,
            }
            hit = true;
        });
        assert!(hit && other.len() == 101);
        kinds[kind] += 1;
        let of = |threads| {
            let repo = Repo::with_backend(Tezos::new(), Repo::memory().backend().clone());
            let (report, error) = replay(&repo, &broken, with_threads(threads));
            // What was committed before stays, and the branch is at a commit.
            assert!(repo.branch("main").unwrap().tree().unwrap().contains_tree("data").unwrap());
            let error = error.expect("it is noticed");
            let wrong = (report.answers_wrong, report.hashes_wrong);
            (error.to_string(), error.place().cloned(), report.commits, wrong)
        };
        assert_eq!(of(1), of(2), "damage of kind {kind} from row {index} on");
    }
    assert!(kinds.iter().all(|&count| count > 1), "{kinds:?}");
    Ok(())
}
