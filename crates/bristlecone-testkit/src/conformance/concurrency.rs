//! Threads meet at a backend: one wins, and no thread sees half of a change.

use std::sync::{
    Barrier,
    atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst},
};

use bristlecone::{Backend, Durability, Error, Expected, RefTarget};
use bristlecone_core::{Kind, ObjRef};

use super::{Make, append_all, family, object, set};
use crate::sample::{Family, Sample};

const THREADS: u64 = 4;

/// Of several threads that move a ref from the same value, exactly one succeeds, each round.
///
/// # Panics
/// If it is not so.
pub fn one_racer_wins_each_round(make: Make<'_>) {
    const ROUNDS: u64 = 60;
    let backend = make();
    let backend = &*backend;
    let family = family(backend);
    let main = &family.ref_name("main");
    let (barrier, wins) = (&Barrier::new(THREADS as usize), &AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            scope.spawn(move || {
                for round in 0..ROUNDS {
                    barrier.wait();
                    let held = backend.get_ref(main).expect("a ref can be read");
                    barrier.wait();
                    let sample = family.contents(round * THREADS + thread, 40);
                    let expected = held.map_or(Expected::Absent, Expected::Is);
                    let moves = [set(main, expected, object(sample.oid))];
                    let durability = if round % 8 == 0 { Durability::Synced } else { Durability::None };
                    match append_all(backend, std::slice::from_ref(&sample), &moves, durability) {
                        Ok(_) => {
                            wins.fetch_add(1, SeqCst);
                            sample.expect(backend, bristlecone_core::Location::NONE).unwrap();
                        }
                        Err(Error::RefMoved { .. }) => {}
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

fn commit_samples(backend: &dyn Backend, writer: u64, round: u64) -> [Sample; 3] {
    let family = family(backend);
    let leaf = family.contents(number(writer, round, 0), (round % 50) as usize * 20);
    let node = family.sample(number(writer, round, 1), Kind::Node, &[leaf.child()], 20);
    let commit = family.sample(number(writer, round, 2), Kind::Commit, &[node.child()], 8);
    // The payload says which round it is.
    let round = round.to_le_bytes();
    [leaf, node.clone(), family.with_payload(commit.oid, Kind::Commit, &[node.child()], &round)]
}

fn write_commits(backend: &dyn Backend, writer: u64, count: u64) {
    let name = family(backend).ref_name(&format!("branch{writer}"));
    let mut expected = Expected::Absent;
    for round in 1..=count {
        let samples = commit_samples(backend, writer, round);
        let to = object(samples[2].oid);
        append_all(backend, &samples, &[set(&name, expected, to.clone())], Durability::None)
            .expect("no other thread moves it");
        expected = Expected::Is(to);
    }
}

/// Returns the round that a branch is at, having read all of it.
fn read_commit(backend: &dyn Backend, writer: u64) -> u64 {
    let name = family(backend).ref_name(&format!("branch{writer}"));
    let Some(RefTarget::Object(at)) = backend.get_ref(&name).expect("a ref can be read") else {
        return 0;
    };
    let object = backend.read(&at).expect("no error").expect("what a ref names is there");
    let round = round_of(object.body(), family(backend));
    let [leaf, node, commit] = commit_samples(backend, writer, round);
    assert_eq!(commit.mismatch(&object), None);
    let below = backend.read(&ObjRef::new(node.oid, object.child(0))).expect("no error").expect("children come first");
    assert_eq!(node.mismatch(&below), None);
    let child = backend.read(&ObjRef::new(leaf.oid, below.child(0))).expect("no error").expect("children come first");
    assert_eq!(leaf.mismatch(&child), None);
    round
}

/// Returns the number that the payload of a commit is.
fn round_of(body: &[u8], family: Family) -> u64 {
    match family {
        Family::Plain => u64::from_le_bytes(body[body.len() - 8..].try_into().expect("eight bytes")),
        // As text, two digits a byte.
        Family::Git(_) => {
            let text = str::from_utf8(&body[body.len() - 16..]).expect("text");
            u64::from_str_radix(text, 16).expect("digits").swap_bytes()
        }
    }
}
