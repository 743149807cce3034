//! Ranges as callers give them: reversed, empty, beyond the end, up to the largest number.

use std::sync::Arc;

use bristlecone::{Error, Format, Listing, MemoryBackend, Native, Repo, Tree, Value};
use bristlecone_testkit::generate::Rng;

/// Sizes of values that are kept in different ways: inline, shared, an object of their own, pieces.
const SIZES: [usize; 7] = [0, 1, 48, 1000, 5000, 256 << 10, 700_001];

/// Ends of ranges around everything that could matter to a value of so many bytes.
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
        tree.add(format!("{}", value.len()), &value[..]).unwrap();
        tree.add(format!("{} shared", value.len()), Value::new(&value[..])).unwrap();
    }
    for written in [false, true] {
        if written {
            tree.write().unwrap();
        }
        for value in &values {
            for name in [format!("{}", value.len()), format!("{} shared", value.len())] {
                let entry = tree.get(&name).unwrap().unwrap();
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
        tree.add(step.as_str(), "1").unwrap();
    }
    check_listings(&tree, &steps[..half]);
    tree.write().unwrap();
    check_listings(&tree, &steps[..half]);
    for step in &steps[half..] {
        tree.add(step.as_str(), "1").unwrap();
    }
    check_listings(&tree, &steps);
}

fn check_listings<F: Format>(tree: &Tree<F>, steps: &[String]) {
    let bounds = ["", "0", "0000", "00005", "0017", "0042x", "0300", "9", "\u{7f}", "zzz"];
    for from in bounds {
        for to in bounds {
            for (reverse, limit) in [(false, None), (true, None), (false, Some(0)), (true, Some(3))] {
                let mut listing = Listing::new().from(from.as_bytes()).to(to.as_bytes());
                let mut wanted: Vec<&str> =
                    steps.iter().map(String::as_str).filter(|step| *step >= from && *step < to).collect();
                if reverse {
                    listing = listing.reverse();
                    wanted.reverse();
                }
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
