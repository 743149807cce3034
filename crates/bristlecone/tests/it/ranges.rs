//! Ranges as callers give them: reversed, empty, beyond the end, up to the largest number.

use std::{
    collections::VecDeque,
    ops::{Bound, RangeBounds},
    sync::Arc,
};

use bristlecone::{Error, Format, Listing, MemoryBackend, Native, Repo, Tree, Value};
use bristlecone_testkit::generate::Rng;

/// Sizes of values that are kept in different ways: inline, shared, an object of their own, pieces.
const SIZES: [usize; 7] = [0, 1, 48, 1000, 5000, 256 << 10, 700_001];

/// Ends of ranges around everything that could matter to a value of `bytes` bytes.
fn ends(bytes: u64, rng: &mut Rng) -> Vec<u64> {
    let mut ends = vec![0, 1, 100, 200, bytes / 2, u64::from(u32::MAX), 1 << 32, 1 << 63, u64::MAX - 1, u64::MAX];
    ends.extend([bytes.saturating_sub(1), bytes, bytes + 1, 256 << 10, (256 << 10) + 1]);
    ends.extend((0..6).map(|_| rng.below(bytes + 2)));
    ends
}

fn within(value: &[u8], start: u64, end: u64) -> &[u8] {
    let bound = |at: u64| at.min(value.len() as u64) as usize;
    &value[bound(start)..bound(end).max(bound(start))]
}

fn reads_every_range<F: Format>(format: F) {
    let repo = Repo::with_backend(format, Arc::new(MemoryBackend::new()));
    let mut rng = Rng::new(1);
    let values = SIZES.map(|size| rng.bytes(size));
    let mut tree = repo.tree();
    for value in &values {
        tree.set(format!("{}", value.len()), &value[..]).unwrap();
        tree.set(format!("{} shared", value.len()), Value::new(&value[..])).unwrap();
    }
    for written in [false, true] {
        if written {
            tree.write().unwrap();
        }
        for value in &values {
            for name in [format!("{}", value.len()), format!("{} shared", value.len())] {
                let entry = tree.entry(&name).unwrap().unwrap();
                let ends = ends(value.len() as u64, &mut rng);
                for &start in &ends {
                    for &end in &ends {
                        let part = entry.read(start..end).unwrap().unwrap();
                        assert!(part == *within(value, start, end), "{name}, {start}..{end}, written: {written}");
                    }
                }
            }
        }
    }
}

#[test]
fn every_range_of_a_value_can_be_asked_for() {
    reads_every_range(Native::new());
    #[cfg(feature = "git")]
    reads_every_range(bristlecone::Git::sha1());
    #[cfg(feature = "tezos")]
    reads_every_range(bristlecone::Tezos::new());
}

fn lists_every_range<F: Format>(format: F, entries: usize) {
    let repo = Repo::with_backend(format, Arc::new(MemoryBackend::new()));
    let mut tree = repo.tree();
    let steps: Vec<String> = (0..entries).map(|n| format!("{n:04}")).collect();
    let half = entries / 2;
    for step in &steps[..half] {
        tree.set(step.as_str(), "1").unwrap();
    }
    check_listings(&tree, &steps[..half]);
    tree.write().unwrap();
    check_listings(&tree, &steps[..half]);
    for step in &steps[half..] {
        tree.set(step.as_str(), "1").unwrap();
    }
    check_listings(&tree, &steps);
}

fn check_listings<F: Format>(tree: &Tree<F>, steps: &[String]) {
    let bounds = ["", "0", "0000", "00005", "0017", "0042x", "0300", "9", "\u{7f}", "zzz"];
    for from in bounds {
        for to in bounds {
            let cases = [(false, 0, None), (true, 0, None), (false, 0, Some(0)), (true, 1, Some(3)), (false, 17, None)];
            for (reverse, skip, limit) in cases {
                let mut listing = Listing::new().starting_at(from.as_bytes()).to(to.as_bytes());
                let mut wanted: Vec<&str> =
                    steps.iter().map(String::as_str).filter(|step| *step >= from && *step < to).collect();
                if reverse {
                    listing = listing.reverse();
                    wanted.reverse();
                }
                listing = listing.skip(skip);
                wanted.drain(..wanted.len().min(skip as usize));
                if let Some(limit) = limit {
                    listing = listing.limit(limit);
                    wanted.truncate(limit);
                }
                let found: Result<Vec<Vec<u8>>, Error> =
                    tree.list_with("", &listing).unwrap().map(|entry| Ok(entry?.step().to_vec())).collect();
                let found = found.unwrap();
                assert!(
                    found.iter().map(Vec::as_slice).eq(wanted.iter().map(|step| step.as_bytes())),
                    "{from:?}..{to:?} of {}: {found:?}",
                    steps.len()
                );
            }
        }
    }
}

/// Takes entries from both ends in any order, and has a cursor go to and fro.
fn goes_both_ways<F: Format>(format: F, entries: usize) {
    let repo = Repo::with_backend(format, Arc::new(MemoryBackend::new()));
    let mut tree = repo.tree();
    let steps: Vec<Vec<u8>> = (0..entries).map(|n| format!("{:04}", 3 * n).into_bytes()).collect();
    let mut rng = Rng::new(17);
    for (index, step) in steps.iter().enumerate() {
        if index == entries.div_ceil(2) {
            tree.write().unwrap();
        }
        tree.set(["dir", std::str::from_utf8(step).unwrap()], "1").unwrap();
    }
    for written in [false, true] {
        if written {
            tree.write().unwrap();
        }
        for _ in 0..60 {
            takes_from_both_ends(&tree, &steps, &mut rng);
        }
        moves_a_cursor(&tree, &steps, &mut rng);
    }
    assert!(tree.cursor("none").unwrap().next().unwrap().is_none());
    assert!(tree.range("none", "a"..).unwrap().next_back().is_none());
}

fn takes_from_both_ends<F: Format>(tree: &Tree<F>, steps: &[Vec<u8>], rng: &mut Rng) {
    let mut bound = || {
        let step = format!("{:04}", rng.index(3 * steps.len() + 3)).into_bytes();
        [Bound::Included(step.clone()), Bound::Excluded(step), Bound::Unbounded][rng.index(3)].clone()
    };
    let bounds = (bound(), bound());
    let mut wanted: VecDeque<&[u8]> = steps.iter().filter(|step| bounds.contains(*step)).map(Vec::as_slice).collect();
    let mut listing = Listing::new().range::<Vec<u8>>(bounds);
    if rng.chance(1, 2) {
        listing = listing.reverse();
        wanted = wanted.into_iter().rev().collect();
    }
    let skip = rng.index(4);
    wanted.drain(..skip.min(wanted.len()));
    let mut left = if rng.chance(1, 3) { rng.index(wanted.len() + 2) } else { usize::MAX };
    listing = listing.skip(skip as u64);
    if left < usize::MAX {
        listing = listing.limit(left);
    }
    let mut entries = tree.list_with("dir", &listing).unwrap();
    let from_back = rng.index(4);
    for _ in 0..wanted.len() + 2 {
        let back = rng.index(4) < from_back;
        let found = if back { entries.next_back() } else { entries.next() };
        let next = if back { wanted.pop_back() } else { wanted.pop_front() }.filter(|_| left > 0);
        left = left.saturating_sub(1);
        assert_eq!(found.map(|entry| entry.unwrap().step().to_vec()).as_deref(), next, "{listing:?}");
    }
}

fn moves_a_cursor<F: Format>(tree: &Tree<F>, steps: &[Vec<u8>], rng: &mut Rng) {
    let mut cursor = tree.cursor("dir").unwrap();
    // Between the entries: how many are before it, and whether it is on the one before or after.
    let (mut before, mut after) = (0, 0);
    for _ in 0..2000 {
        match rng.index(12) {
            0 => {
                let step = format!("{:04}", rng.index(3 * steps.len() + 3)).into_bytes();
                cursor.seek(&step);
                before = steps.partition_point(|known| *known < step);
                after = before;
            }
            1 => {
                cursor.seek_start();
                (before, after) = (0, 0);
            }
            2 => {
                cursor.seek_end();
                (before, after) = (steps.len(), steps.len());
            }
            3..8 => {
                let found = cursor.next().unwrap().map(|entry| entry.step().to_vec());
                assert_eq!(found.as_ref(), steps.get(after));
                (before, after) = if found.is_some() { (after, after + 1) } else { (steps.len(), steps.len()) };
            }
            _ => {
                let found = cursor.previous().unwrap().map(|entry| entry.step().to_vec());
                assert_eq!(found.as_ref(), before.checked_sub(1).map(|at| &steps[at]));
                (before, after) = if found.is_some() { (before - 1, before) } else { (0, 0) };
            }
        }
        let on = cursor.entry().map(|entry| entry.step());
        assert_eq!(on, (after > before).then(|| &steps[before][..]));
    }
}

#[test]
fn entries_come_from_both_ends_and_cursors_go_to_and_fro() {
    for entries in [1, 2, 40, 1000] {
        goes_both_ways(Native::new(), entries);
        #[cfg(feature = "git")]
        goes_both_ways(bristlecone::Git::sha1(), entries);
        #[cfg(feature = "tezos")]
        goes_both_ways(bristlecone::Tezos::new(), entries);
    }
}

#[test]
fn every_range_of_a_directory_can_be_asked_for() {
    for entries in [2, 40, 1000] {
        lists_every_range(Native::new(), entries);
        #[cfg(feature = "git")]
        lists_every_range(bristlecone::Git::sha1(), entries);
        #[cfg(feature = "tezos")]
        lists_every_range(bristlecone::Tezos::new(), entries);
    }
}

#[test]
fn all_entries_can_be_skipped_wherever_a_range_begins() {
    let mut tree = Repo::memory().tree();
    tree.set_many((0..3000).map(|number| (format!("{number}"), "x"))).unwrap();
    for written in [false, true] {
        if written {
            tree.write().unwrap();
        }
        for skip in [3000, u64::MAX - 1, u64::MAX] {
            let listing = Listing::new().range("1234".."8765").skip(skip);
            assert_eq!(tree.list_with("", &listing).unwrap().count(), 0, "{skip}");
            assert_eq!(tree.list_with("", &listing.reverse()).unwrap().count(), 0, "{skip}");
        }
    }
}

#[test]
fn a_limit_counts_an_entry_that_cannot_be_read_from_the_back() {
    let mut whole = Repo::memory().tree();
    whole.set_many((0..3000).map(|number| (format!("{number:04}"), "x"))).unwrap();
    // Of the pieces of the directory, the first one is there.
    let tree = whole.prune(["0000"]).unwrap();
    let first = tree.list("").unwrap().take_while(Result::is_ok).count();
    assert!((1..3000).contains(&first), "{first} entries in the first piece");
    for limit in [first + 1, first + 2] {
        let mut entries = tree.list_with("", &Listing::new().limit(limit)).unwrap();
        assert_eq!(entries.by_ref().take(first).filter(Result::is_ok).count(), first);
        assert!(entries.next_back().unwrap().is_err());
        assert!(entries.next_back().is_none() && entries.next().is_none());
    }
}

#[test]
fn a_walk_over_values_ends_with_the_first_that_cannot_be_read() {
    let mut whole = Repo::memory().tree();
    for step in ["a", "b", "c"] {
        whole.set(format!("dir/{step}"), vec![step.as_bytes()[0]; 5000]).unwrap();
    }
    // Of the values, the first one is there.
    let tree = whole.prune(["dir/a"]).unwrap();
    let walked: Vec<bool> = tree.walk_values("").unwrap().take(9).map(|entry| entry.is_ok()).collect();
    assert_eq!(walked, [true, true, false]);
    let listed: Vec<bool> = tree.range_values("dir", "a"..).unwrap().take(9).map(|entry| entry.is_ok()).collect();
    assert_eq!(listed, [true, false]);
}
