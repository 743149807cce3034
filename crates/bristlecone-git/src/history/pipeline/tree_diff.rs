//! In which entries one of Git's trees differs from an older one, found by comparing their bytes.

use std::{cmp::Ordering, collections::HashMap};

use bristlecone::{
    EntryKind,
    core::git::{self, Algorithm},
};

/// A tree that was read, with those below it.
#[derive(Debug)]
pub(super) struct KeptTree {
    pub(super) number: u32,
    pub(super) raw: Vec<u8>,
    // Where entries begin, and the numbers of their objects.
    pub(super) starts: Vec<u32>,
    pub(super) numbers: Vec<u32>,
    pub(super) below: HashMap<Box<[u8]>, Box<KeptTree>>,
}

impl KeptTree {
    pub(super) fn own_bytes(&self) -> usize {
        self.raw.capacity() + (self.starts.capacity() + self.numbers.capacity()) * 4 + 128
    }

    pub(super) fn bytes(&self) -> usize {
        self.own_bytes() + self.below.values().map(|below| below.bytes()).sum::<usize>()
    }
}

/// The part in which two trees differ.
pub(super) struct Middle {
    // In entries.
    pub(super) old: std::ops::Range<usize>,
    pub(super) new: std::ops::Range<usize>,
    // In bytes.
    pub(super) old_bytes: std::ops::Range<usize>,
}

/// Whether two entries of one id lead to the same kind of object.
pub(super) fn same_sort(one: EntryKind, other: EntryKind) -> bool {
    let sort = |kind: EntryKind| (kind == EntryKind::Dir, kind == EntryKind::Foreign);
    sort(one) == sort(other)
}

/// Compares names as Git orders them: those of directories as if they ended in a slash.
pub(crate) fn git_order((one, one_dir): (&[u8], bool), (other, other_dir): (&[u8], bool)) -> Ordering {
    let end = |dir: bool| if dir { &b"/"[..] } else { b"" };
    one.iter().chain(end(one_dir)).cmp(other.iter().chain(end(other_dir)))
}

/// Returns names, numbers and entries of the middle of the older tree.
pub(super) fn old_middle<'s>(
    algorithm: Algorithm,
    old: Option<&'s KeptTree>,
    middle: &Middle,
) -> impl Iterator<Item = (&'s [u8], u32, git::RawEntry<'s>)> {
    let (raw, numbers) = match old {
        Some(old) => (&old.raw[middle.old_bytes.clone()], &old.numbers[middle.old.clone()]),
        None => (&[][..], &[][..]),
    };
    let entries = git::raw_entries(algorithm, raw).filter_map(Result::ok);
    entries.zip(numbers).map(|(entry, &number)| (entry.name, number, entry))
}

/// Finds the entries in which a tree differs from an older one, and where its entries start. The common beginnings and
/// ends are found by comparing bytes. The common entries at the end are those from the first one on that begins equally
/// far from the end of both trees within the common bytes.
pub(super) fn differ(
    algorithm: Algorithm,
    old: Option<&KeptTree>,
    raw: &[u8],
    starts: &mut Vec<u32>,
) -> Result<Middle, bristlecone::core::DecodeError> {
    let (old_raw, old_starts) = old.map_or((&[][..], &[][..]), |old| (&old.raw[..], &old.starts[..]));
    let prefix = common_prefix(old_raw, raw);
    // The last entry that begins within the common bytes may end beyond them.
    let first = old_starts.partition_point(|&start| start as usize <= prefix).saturating_sub(1);
    let first = if prefix == old_raw.len() { old_starts.len() } else { first };
    let from = old_starts.get(first).map_or(old_raw.len(), |&start| start as usize);
    let suffix = common_suffix(&old_raw[from..], &raw[from..]);
    starts.extend_from_slice(&old_starts[..first]);
    let mut entries = git::raw_entries(algorithm, &raw[from..]);
    let mut last = old_starts.len();
    loop {
        let at = from + entries.offset();
        let left = raw.len() - at;
        if left <= suffix
            && let Ok(index) = old_starts[first..].binary_search(&((old_raw.len() - left) as u32))
        {
            last = first + index;
            break;
        }
        match entries.next() {
            None => break,
            Some(entry) => {
                _ = entry.map_err(|wrong| bristlecone::core::DecodeError { offset: wrong.offset + from, ..wrong })?
            }
        }
        starts.push(at as u32);
    }
    let new = first..starts.len();
    let moved = |start: u32| (u64::from(start) + raw.len() as u64 - old_raw.len() as u64) as u32;
    let end = old_starts.get(last).map_or(old_raw.len(), |&start| start as usize);
    starts.extend(old_starts[last..].iter().map(|&start| moved(start)));
    Ok(Middle { old: first..last, new, old_bytes: from..end })
}

fn common_prefix(one: &[u8], other: &[u8]) -> usize {
    const STEP: usize = 64;
    let mut at = 0;
    for (left, right) in one.chunks_exact(STEP).zip(other.chunks_exact(STEP)) {
        if left != right {
            break;
        }
        at += STEP;
    }
    at + one[at..].iter().zip(&other[at..]).take_while(|(left, right)| left == right).count()
}

fn common_suffix(one: &[u8], other: &[u8]) -> usize {
    const STEP: usize = 64;
    let mut count = 0;
    for (left, right) in one.rchunks_exact(STEP).zip(other.rchunks_exact(STEP)) {
        if left != right {
            break;
        }
        count += STEP;
    }
    let rest = |bytes: &[u8]| bytes.len() - count;
    let (one, other) = (&one[..rest(one)], &other[..rest(other)]);
    count + one.iter().rev().zip(other.iter().rev()).take_while(|(left, right)| left == right).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The bytes of a tree with these entries: a name and a byte of which the id is made.
    fn tree(entries: &[(u16, u8)]) -> Vec<u8> {
        let mut raw = Vec::new();
        for (name, id) in entries {
            raw.extend_from_slice(format!("100644 f{name:05}{}\0", "x".repeat(usize::from(name % 7))).as_bytes());
            raw.extend_from_slice(&[*id; 20]);
        }
        raw
    }

    fn kept(raw: Vec<u8>) -> KeptTree {
        let mut starts = Vec::new();
        differ(Algorithm::Sha1, None, &raw, &mut starts).unwrap();
        let numbers = (0..starts.len() as u32).collect();
        KeptTree { number: 0, raw, starts, numbers, below: HashMap::new() }
    }

    #[test]
    fn what_differs_between_two_trees_is_found_and_nothing_far_from_it() {
        let mut seed = 1_u64;
        let mut random = |below: u64| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (seed >> 33) % below
        };
        for round in 0..3_000 {
            let count = random(40) as u16;
            let old: Vec<(u16, u8)> = (0..count).map(|name| (name * 3, (name % 250) as u8)).collect();
            let mut new = old.clone();
            for _ in 0..random(4) {
                let at = random(new.len() as u64 + 1) as usize;
                match random(3) {
                    0 if at < new.len() => new[at].1 = 251 + random(4) as u8,
                    1 if at < new.len() => _ = new.remove(at),
                    _ => {
                        let name = random(130) as u16;
                        if let Err(place) = new.binary_search_by_key(&name, |entry| entry.0) {
                            new.insert(place, (name, 255));
                        }
                    }
                }
            }
            let (before, raw) = (kept(tree(&old)), tree(&new));
            let mut starts = Vec::new();
            let middle = differ(Algorithm::Sha1, Some(&before), &raw, &mut starts).unwrap();
            assert_eq!(starts, kept(raw).starts, "round {round}: {old:?} {new:?}");
            assert_eq!(old[..middle.old.start], new[..middle.new.start]);
            assert_eq!(old[middle.old.end..], new[middle.new.end..]);
            let changed = old.iter().zip(&new).take_while(|(old, new)| old == new).count();
            assert!(middle.new.start + 1 >= changed.min(new.len()), "round {round}: {old:?} {new:?}");
            assert_eq!(tree(&old[middle.old.clone()]), before.raw[middle.old_bytes.clone()]);
        }
    }

    #[test]
    fn bytes_that_are_no_tree_are_refused() {
        let good = tree(&[(1, 1), (2, 2), (3, 3)]);
        let before = kept(good.clone());
        for length in 1..good.len() {
            let mut starts = Vec::new();
            let found = differ(Algorithm::Sha1, Some(&before), &good[..length], &mut starts);
            assert_eq!(found.is_ok(), before.starts.contains(&(length as u32)), "{length}");
        }
    }
}
