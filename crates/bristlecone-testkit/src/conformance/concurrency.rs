//! Threads meet at a backend: one wins, and nobody sees half of anything.

use std::sync::{
    Barrier,
    atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst},
};

use bristlecone::{Backend, Durability, Error, Expected, RefTarget};
use bristlecone_core::{Kind, ObjRef};

use super::{Make, append_all, contents, object, set};
use crate::sample::Sample;

const THREADS: u64 = 4;

/// Of several threads that move a ref from the same value, exactly one succeeds, each round.
///
/// # Panics
/// If it is not so.
pub fn one_racer_wins_each_round(make: Make<'_>) {
    const ROUNDS: u64 = 60;
    let backend = make();
    let backend = &*backend;
    let (barrier, wins) = (&Barrier::new(THREADS as usize), &AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            scope.spawn(move || {
                for round in 0..ROUNDS {
                    barrier.wait();
                    let held = backend.get_ref("main").expect("a ref can be read");
                    barrier.wait();
                    let sample = contents(round * THREADS + thread, 40);
                    let expected = held.map_or(Expected::Absent, Expected::Is);
                    let moves = [set("main", expected, object(sample.oid))];
                    let durability = if round % 8 == 0 { Durability::Synced } else { Durability::None };
                    match append_all(backend, std::slice::from_ref(&sample), &moves, durability) {
                        Ok(_) => {
                            wins.fetch_add(1, SeqCst);
                            sample.expect(backend, bristlecone_core::Location::NONE).unwrap();
                        }
                        Err(Error::Conflict { .. }) => {}
                        Err(error) => panic!("round {round}: {error}"),
                    }
                    barrier.wait();
                    assert_eq!(wins.load(SeqCst), round as usize + 1, "winners after round {round}");
                }
            });
        }
    });
}

/// Readers follow refs while writers append: what a ref leads to is always whole, and counters never go back.
///
/// # Panics
/// If it is not so.
pub fn readers_see_whole_appends_while_writers_write(make: Make<'_>) {
    const COMMITS: u64 = 120;
    let backend = make();
    let backend = &*backend;
    let ended = &AtomicBool::new(false);
    std::thread::scope(|scope| {
        let writers: Vec<_> =
            (0..2).map(|writer| scope.spawn(move || write_commits(backend, writer, COMMITS))).collect();
        for _ in 0..2 {
            scope.spawn(move || {
                let mut last = [0; 2];
                while !ended.load(SeqCst) {
                    for writer in 0..2 {
                        let seen = read_commit(backend, writer);
                        assert!(seen >= last[writer as usize], "branch {writer} went back");
                        last[writer as usize] = seen;
                    }
                }
            });
        }
        let panicked = writers.into_iter().map(std::thread::ScopedJoinHandle::join).any(|joined| joined.is_err());
        ended.store(true, SeqCst);
        assert!(!panicked, "a writer panicked");
    });
    for writer in 0..2 {
        assert_eq!(read_commit(backend, writer), COMMITS);
    }
}

fn number(writer: u64, round: u64, part: u64) -> u64 {
    (writer * 1_000_000 + round) * 4 + part
}

fn commit_samples(writer: u64, round: u64) -> [Sample; 2] {
    let leaf = contents(number(writer, round, 0), (round % 50) as usize * 20);
    let commit = Sample::new(number(writer, round, 1), Kind::Commit, &[leaf.oid], 8);
    // The payload says which round it is.
    let commit = Sample::with_oid(commit.oid, Kind::Commit, &[leaf.oid], &round.to_le_bytes());
    [leaf, commit]
}

fn write_commits(backend: &dyn Backend, writer: u64, count: u64) {
    let name = format!("branch{writer}");
    let mut expected = Expected::Absent;
    for round in 1..=count {
        let samples = commit_samples(writer, round);
        let to = object(samples[1].oid);
        append_all(backend, &samples, &[set(&name, expected, to.clone())], Durability::None)
            .expect("nobody else moves it");
        expected = Expected::Is(to);
    }
}

/// Returns the round that a branch is at, having read all of it.
fn read_commit(backend: &dyn Backend, writer: u64) -> u64 {
    let Some(RefTarget::Object(at)) = backend.get_ref(&format!("branch{writer}")).expect("a ref can be read") else {
        return 0;
    };
    let object = backend.read(&at).expect("no error").expect("what a ref names is there");
    let round = u64::from_le_bytes(object.body()[object.body().len() - 8..].try_into().expect("eight bytes"));
    let [leaf, commit] = commit_samples(writer, round);
    assert_eq!(commit.mismatch(&object), None);
    let child = backend.read(&ObjRef::new(leaf.oid, object.child(0))).expect("no error").expect("children come first");
    assert_eq!(leaf.mismatch(&child), None);
    round
}
