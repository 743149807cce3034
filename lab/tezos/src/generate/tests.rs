//! A trace is the same for the same seed, the beginning of every longer one, replays, and has the shape of real ones.
//!
//! The replay here is the plainest there can be, written from the format's specification alone.

use std::{collections::HashMap, fs, sync::Arc};

use bristlecone::{
    CommitId, Durability, Info, MemoryBackend, Repo, Signature, Tree,
    core::tezos::{Tezos, commit_text},
};
use tempfile::TempDir;

use super::{GenerateOptions, Generator, profile::Pace};
use crate::{ContextId, Key, Reader, Row, RowKind, Scoped, replay::RowCounts};

/// The first commit of the main network.
const GENESIS: &str = "CoV8SQumiVU9saiu3FVNeDNewJaJH8yWdsGF3WLdsRr2P9S7MzCj";

/// Years in some hundred blocks: cycles that end, every migration, contracts with code; and many rivals.
const FAST: Pace = Pace {
    cycle_blocks: 32,
    snapshot_every: 4,
    nonce_every: 8,
    years: 3_500,
    orphaned: 60_000,
    orphaned_two: 40_000,
    twice: 60_000,
};

fn made(seed: u64, commits: u64, pace: Pace) -> (Vec<u8>, RowCounts) {
    let dir = TempDir::new().unwrap();
    let options = GenerateOptions { seed, dir: dir.path().to_owned(), ..GenerateOptions::default() };
    let mut generator = Generator::at_pace(&options, pace, Vec::new()).unwrap();
    (0..commits).for_each(|_| generator.commit().unwrap());
    let counts = *generator.counts();
    let trace = generator.finish().unwrap();
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0, "the store is gone");
    (trace, counts)
}

#[test]
fn the_same_seed_makes_the_same_bytes_and_more_commits_only_more_of_them() {
    let (long, _) = made(5, 60, FAST);
    let (short, _) = made(5, 41, FAST);
    assert!(short.len() < long.len() && long.starts_with(&short), "a prefix");
    let (other, _) = made(6, 3, Pace::default());
    assert!(!long.starts_with(&other[..other.len().min(short.len())]), "another seed");
}

/// Guards the bytes against changes by accident: what a seed stands for should change with intent alone.
#[test]
fn seed_0_is_as_it_was() {
    let (trace, counts) = made(0, 12, Pace::default());
    let mut reader = Reader::new(&trace[..], "made").unwrap();
    let mut last = String::new();
    while let Some(row) = reader.next().unwrap() {
        if let Row::Commit { hash, .. } = row {
            last = String::from_utf8(hash.value.to_vec()).unwrap();
        }
    }
    let known = (339_329, 25_282_425, "CoWanUe69YbH8ZpcHhmdDJyjtywcnVnTn6FVkdqb4BJH7VvPDcHu");
    assert_eq!((counts.total(), trace.len(), last.as_str()), known);
}

#[test]
fn it_replays() {
    let (trace, counts) = made(2, 120, Pace::default());
    let replayed = Replay::run(&trace);
    assert_eq!((replayed.commits, replayed.checkouts, replayed.left), (120, 119, (0, 1)));
    assert_eq!(replayed.counts, counts);
}

#[test]
fn it_replays_through_all_that_years_bring() {
    let (trace, counts) = made(1, 480, FAST);
    let replayed = Replay::run(&trace);
    assert_eq!((replayed.commits, replayed.counts), (480, counts));
    assert!(replayed.old_checkouts > 40, "{} branches", replayed.old_checkouts);
    assert!(replayed.rebound > 10, "{} blocks applied twice", replayed.rebound);
    let wanted = [
        "data/big_maps/index/",
        "/contents/",
        "/big_map/",
        "/data/code",
        "/delegated/",
        "/frozen_balance/",
        "data/rolls/owner/current/",
        "nonces",
        "data/commitments/",
        "successor",
    ];
    for part in wanted {
        assert!(replayed.keys.iter().any(|key| key.contains(part)), "no key with {part}");
    }
    assert!(counts.of(RowKind::Copy) > 400, "contracts moved to the later layout");
}

#[test]
fn the_state_moves_to_a_new_store_without_a_trace_of_it() {
    let dir = TempDir::new().unwrap();
    let trace = |room_bytes| {
        let options = GenerateOptions { seed: 3, dir: dir.path().to_owned(), room_bytes };
        let mut generator = Generator::new(&options, Vec::new()).unwrap();
        (0..20).for_each(|_| generator.commit().unwrap());
        (generator.stores(), generator.finish().unwrap())
    };
    let ((one, whole), (several, moved)) = (trace(u64::MAX), trace(1 << 10));
    assert_eq!(one, 1);
    assert!(several > 1, "it did move");
    assert!(whole == moved, "the same trace");
}

/// The figures of the real trace of 10,310 commits, as far as its beginning has them; docs/trace-generator.md has
/// them all.
#[test]
fn rows_are_mixed_as_in_real_traces() {
    let commits = 700;
    let (trace, counts) = made(4, commits, Pace::default());
    let (_, giant) = made(4, 2, Pace::default());
    let near = |what: &str, made: f64, real: f64, percent: f64| {
        assert!((made - real).abs() <= real * percent / 100.0, "{what}: {made:.2}, measured {real:.2}");
    };
    // The largest commit of real traces.
    near("Find of block 1", giant.of(RowKind::Find) as f64, 105_935.0, 1.0);
    near("Mem of block 1", giant.of(RowKind::Mem) as f64, 93_342.0, 1.0);
    assert_eq!(giant.of(RowKind::Copy), 7);
    // The others, in the mean over commits 3 to 10,310; these here are the first, when pledges are redeemed most.
    let each = |kind: RowKind| (counts.of(kind) - giant.of(kind)) as f64 / (commits - 2) as f64;
    near("Find", each(RowKind::Find), 214.0, 5.0);
    near("Mem", each(RowKind::Mem), 43.9, 20.0);
    near("Add", each(RowKind::Add), 58.1, 20.0);
    near("Mem_tree", each(RowKind::MemTree), 33.0, 0.0);
    assert_eq!(counts.of(RowKind::Copy), 7 + commits / 256);
    assert_eq!((counts.of(RowKind::Commit), counts.of(RowKind::Checkout)), (commits, commits - 1));
    near("bytes a row", trace.len() as f64 / counts.total() as f64, 70.0, 10.0);
}

/// A replay by the letter of the specification, which compares all there is to compare.
#[derive(Default)]
struct Replay {
    contexts: HashMap<ContextId, Tree<Tezos>>,
    hashes: HashMap<Vec<u8>, CommitId>,
    counts: RowCounts,
    commits: u64,
    checkouts: u64,
    old_checkouts: u64,
    rebound: u64,
    // Contexts and hashes alive at the end.
    left: (usize, usize),
    // Some of those added.
    keys: Vec<String>,
}

impl Replay {
    fn run(trace: &[u8]) -> Self {
        let repo = Repo::with_backend(Tezos::new(), Arc::new(MemoryBackend::new()));
        let mut replay = Self::default();
        replay.contexts.insert(0, repo.tree());
        let mut reader = Reader::new(trace, "made").unwrap();
        let mut newest = Vec::new();
        while let Some(row) = reader.next().unwrap() {
            replay.counts.add(row.kind());
            if let Row::Add { key, .. } = row
                && replay.counts.total() % 16 < 4
            {
                replay.keys.push(key.to_string());
            }
            if let Row::Checkout { hash, .. } = row {
                replay.checkouts += 1;
                replay.old_checkouts += u64::from(hash.value != newest);
            }
            replay.row(&repo, &row);
            if let Row::Commit { hash, .. } = row {
                replay.commits += 1;
                newest = hash.value.to_vec();
                assert!(replay.contexts.is_empty(), "contexts are forgotten at the end of a block");
                assert!((1..=2).contains(&replay.hashes.len()), "{} hashes", replay.hashes.len());
                if replay.commits == 1 {
                    assert_eq!(newest, GENESIS.as_bytes());
                }
            }
        }
        assert_eq!(reader.partial(), 0);
        replay.left = (replay.contexts.len(), replay.hashes.len());
        replay
    }

    fn row(&mut self, repo: &Repo<Tezos>, row: &Row<'_>) {
        match *row {
            Row::Checkout { hash, output } => {
                let at = self.hash(hash);
                self.bind(output, repo.checkout(at).unwrap());
            }
            Row::Add { key, value, input, output } => {
                let mut tree = self.context(input);
                tree.set(path(key).as_str(), value).unwrap();
                self.bind(output, tree);
            }
            Row::Remove { key, input, output } => {
                let mut tree = self.context(input);
                tree.remove(path(key).as_str()).unwrap();
                self.bind(output, tree);
            }
            Row::Copy { source, destination, input, output } => {
                let mut tree = self.context(input);
                let copied = tree.get_tree(path(source).as_str()).unwrap().expect("a directory to copy");
                tree.set_tree(path(destination).as_str(), &copied).unwrap();
                self.bind(output, tree);
            }
            Row::Find { key, found, input } => {
                assert_eq!(self.context(input).get(path(key).as_str()).unwrap().is_some(), found, "{key}");
            }
            Row::Mem { key, found, input } => {
                assert_eq!(self.context(input).contains(path(key).as_str()).unwrap(), found, "{key}");
            }
            Row::MemTree { key, found, input } => {
                assert_eq!(self.context(input).entry(path(key).as_str()).unwrap().is_some(), found, "{key}");
            }
            Row::Commit { hash, date, message, parents, input } => {
                let mut tree = self.context(input);
                let parents: Vec<CommitId> = parents.iter().map(|parent| self.hash(parent)).collect();
                let who = Signature::new("Tezos", date);
                let info = Info::message(message).by(who).durability(Durability::None);
                let at = repo.commit_tree(&mut tree, &parents, &info).unwrap();
                assert_eq!(commit_text(&at.oid()).as_bytes(), hash.value, "commit {}", self.commits);
                if self.hashes.insert(hash.value.to_vec(), at).is_some() {
                    self.rebound += 1;
                }
                if !hash.keep {
                    self.hashes.remove(hash.value);
                }
            }
        }
    }

    /// Returns the context that is mentioned: moved out where it is forgotten, so that edits are made in place.
    fn context(&mut self, context: Scoped<ContextId>) -> Tree<Tezos> {
        let known = if context.keep {
            self.contexts.get(&context.value).cloned()
        } else {
            self.contexts.remove(&context.value)
        };
        known.unwrap_or_else(|| panic!("context {} is not known", context.value))
    }

    fn hash(&mut self, hash: Scoped<&[u8]>) -> CommitId {
        let known = if hash.keep { self.hashes.get(hash.value).copied() } else { self.hashes.remove(hash.value) };
        known.expect("a commit that was made before")
    }

    fn bind(&mut self, output: Scoped<ContextId>, tree: Tree<Tezos>) {
        if output.keep {
            self.contexts.insert(output.value, tree);
        }
    }
}

fn path(key: Key<'_>) -> String {
    let steps: Vec<&str> = key.steps().map(|step| std::str::from_utf8(step).unwrap()).collect();
    steps.join("/")
}
