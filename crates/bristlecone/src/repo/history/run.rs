//! A run: up to 4,096 commits, each the first parent of the next, with what each of them changed.
//!
//! A run keeps the hashes of changed paths themselves, so that it can be extended without a look at its commits,
//! and filters over aligned groups of 2^4 and 2^8 of them. The filter over all of it is in the manifest.
//! `docs/formats/history.md` section 2 lists the bytes.

use bristlecone_core::Oid;
use twox_hash::XxHash3_64;

use super::{
    changes::ChangedPaths,
    filter::{ALWAYS, build, may_hold},
};

/// The most commits in a run: 2^12.
pub(super) const COMMITS_MAX: usize = 1 << 12;
/// A run with this many hashes, 512 KiB, takes no more commits.
pub(super) const HASHES_MAX: usize = 1 << 17;
/// The groups that have filters, by the binary logarithm of their commits, widest first.
const GROUPS: [usize; 2] = [8, 4];
/// A filter over more paths says "maybe" to all.
const PATHS_MAX: usize = 1 << 15;

const MAGIC: &[u8; 8] = b"BCONERN1";
/// 32 = 8 magic + 8 check + 4 commits + 4 bytes of an id + 4 hashes + 4 bytes of filters.
const HEADER_BYTES: usize = 32;
/// In the table of hashes: the commit changed too many paths.
const TOO_MANY: u32 = 1 << 31;

const _: () = assert!(HEADER_BYTES == 8 + 8 + 4 + 4 + 4 + 4);

/// One commit of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Indexed {
    pub(super) oid: Oid,
    pub(super) generation: u64,
    pub(super) changes: ChangedPaths,
}

/// A run as it is stored, checked.
#[derive(Debug)]
pub(super) struct FilterRun {
    bytes: Vec<u8>,
    layout: RunLayout,
}

/// Where the parts of a run's file begin.
#[derive(Clone, Copy, Debug)]
struct RunLayout {
    count: usize,
    id_bytes: usize,
    oids: usize,
    // Ends of each commit's hashes, in hashes.
    ends: usize,
    hashes: usize,
    // Ends of each filter, in bytes, for each group.
    filter_ends: [usize; GROUPS.len()],
    filters: usize,
    end: usize,
}

impl RunLayout {
    fn new(count: usize, id_bytes: usize, hash_count: usize, filter_bytes: usize) -> Self {
        let oids = HEADER_BYTES + 8 * count;
        let ends = oids + id_bytes * count;
        let hashes = ends + 4 * count;
        let mut at = hashes + 4 * hash_count;
        let filter_ends = GROUPS.map(|group| {
            let table = at;
            at += 4 * count.div_ceil(1 << group);
            table
        });
        Self { count, id_bytes, oids, ends, hashes, filter_ends, filters: at, end: at + filter_bytes }
    }
}

impl FilterRun {
    /// Encodes commits, oldest first: at least one, at most [`COMMITS_MAX`], their ids of one length.
    pub(super) fn encode(commits: &[Indexed]) -> Vec<u8> {
        let id_bytes = commits.first().map_or(0, |commit| commit.oid.as_bytes().len());
        let (mut generations, mut oids, mut ends, mut hashes) = (vec![], vec![], vec![], Vec::<u8>::new());
        for commit in commits {
            generations.extend_from_slice(&commit.generation.to_le_bytes());
            oids.extend_from_slice(commit.oid.as_bytes());
            for hash in commit.changes.iter().flatten() {
                hashes.extend_from_slice(&hash.to_le_bytes());
            }
            let mark = if commit.changes.is_none() { TOO_MANY } else { 0 };
            ends.extend_from_slice(&((hashes.len() / 4) as u32 | mark).to_le_bytes());
        }
        let (mut filter_ends, mut filters) = (vec![], Vec::<u8>::new());
        for group in GROUPS {
            // Each group's table counts on from the one before.
            for chunk in commits.chunks(1 << group) {
                filters.extend_from_slice(&union_filter(chunk));
                filter_ends.extend_from_slice(&(filters.len() as u32).to_le_bytes());
            }
        }
        let mut bytes = [&MAGIC[..], &[0; 8]].concat();
        for word in [commits.len(), id_bytes, hashes.len() / 4, filters.len()] {
            bytes.extend_from_slice(&(word as u32).to_le_bytes());
        }
        for part in [generations, oids, ends, hashes, filter_ends, filters] {
            bytes.extend_from_slice(&part);
        }
        let check = checksum(&bytes).to_le_bytes();
        bytes[8..16].copy_from_slice(&check);
        bytes
    }

    /// Checks stored bytes; `None` if they are damaged, of another version, or not those that have this check.
    pub(super) fn parse(bytes: Vec<u8>, check: u64) -> Option<Self> {
        if bytes.len() < HEADER_BYTES || bytes[..8] != MAGIC[..] || stored_check(&bytes) != check {
            return None;
        }
        let [count, id_bytes, hashes, filters] = [16, 20, 24, 28].map(|at| word32(&bytes, at) as usize);
        if !(1..=COMMITS_MAX).contains(&count) || !(1..=Oid::BYTES_MAX).contains(&id_bytes) {
            return None;
        }
        let layout = RunLayout::new(count, id_bytes, hashes, filters);
        if bytes.len() != layout.end || checksum(&bytes) != check {
            return None;
        }
        let tables = (layout.filters - layout.filter_ends[0]) / 4;
        let sound = ascends(&bytes, layout.ends, count, !TOO_MANY, hashes)
            && ascends(&bytes, layout.filter_ends[0], tables, u32::MAX, filters);
        sound.then_some(Self { bytes, layout })
    }

    /// Returns the position of a commit.
    pub(super) fn position(&self, oid: &Oid, generation: u64) -> Option<usize> {
        // Generations only grow from the oldest commit to the newest.
        let (mut low, mut high) = (0, self.layout.count);
        while low < high {
            let middle = (low + high) / 2;
            if self.generation(middle) < generation {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        (low < self.layout.count && self.id(low) == oid.as_bytes()).then_some(low)
    }

    /// Returns the last commit up to `position` that may have changed a path.
    pub(super) fn last_touch(&self, position: usize, hash: u32) -> Option<usize> {
        let mut end = position.min(self.layout.count - 1) + 1;
        'commits: while end > 0 {
            // At a group's end, or where the search begins, ask the group.
            for (table, group) in GROUPS.into_iter().enumerate() {
                let from = (end - 1) >> group << group;
                if (end == position + 1 || end.is_multiple_of(1 << group))
                    && !may_hold(self.filter(table, (end - 1) >> group), hash)
                {
                    end = from;
                    continue 'commits;
                }
            }
            if self.touches(end - 1, hash) {
                return Some(end - 1);
            }
            end -= 1;
        }
        None
    }

    /// Returns the id at a position.
    pub(super) fn oid(&self, position: usize) -> Oid {
        Oid::new(self.id(position)).expect("the length was checked")
    }

    /// Returns how many commits it holds.
    pub(super) const fn count(&self) -> usize {
        self.layout.count
    }

    /// Returns how many hashes it holds.
    pub(super) const fn hashes(&self) -> usize {
        (self.layout.filter_ends[0] - self.layout.hashes) / 4
    }

    /// Returns everything, to be extended.
    pub(super) fn commits(&self) -> Vec<Indexed> {
        let changes = |position| {
            let (range, too_many) = self.range(position);
            (!too_many).then(|| range.map(|at| self.hash(at)).collect())
        };
        (0..self.layout.count)
            .map(|position| Indexed {
                oid: self.oid(position),
                generation: self.generation(position),
                changes: changes(position),
            })
            .collect()
    }

    fn id(&self, position: usize) -> &[u8] {
        let at = self.layout.oids + self.layout.id_bytes * position;
        &self.bytes[at..at + self.layout.id_bytes]
    }

    fn generation(&self, position: usize) -> u64 {
        word64(&self.bytes, HEADER_BYTES + 8 * position)
    }

    fn touches(&self, position: usize, hash: u32) -> bool {
        let (range, too_many) = self.range(position);
        too_many || range.into_iter().any(|at| self.hash(at) == hash)
    }

    /// Returns which hashes are a commit's, and whether it changed too many paths.
    fn range(&self, position: usize) -> (std::ops::Range<usize>, bool) {
        let end = |position: usize| word32(&self.bytes, self.layout.ends + 4 * position);
        let from = if position == 0 { 0 } else { end(position - 1) & !TOO_MANY };
        (from as usize..(end(position) & !TOO_MANY) as usize, end(position) & TOO_MANY != 0)
    }

    fn hash(&self, at: usize) -> u32 {
        word32(&self.bytes, self.layout.hashes + 4 * at)
    }

    fn filter(&self, table: usize, index: usize) -> &[u8] {
        // The tables stand one after another, so the entry before the first of a table is the last of another.
        let at = self.layout.filter_ends[table] + 4 * index;
        let from = if at == self.layout.filter_ends[0] { 0 } else { word32(&self.bytes, at - 4) };
        &self.bytes[self.layout.filters + from as usize..self.layout.filters + word32(&self.bytes, at) as usize]
    }
}

/// Whether a table of ends, under a mask, ascends to just `last`.
fn ascends(bytes: &[u8], table: usize, count: usize, mask: u32, last: usize) -> bool {
    let mut before = 0;
    for index in 0..count {
        let end = word32(bytes, table + 4 * index) & mask;
        if end < before {
            return false;
        }
        before = end;
    }
    before as usize == last
}

/// Returns the filter over everything that these commits changed.
pub(super) fn union_filter(commits: &[Indexed]) -> Vec<u8> {
    if commits.iter().any(|commit| commit.changes.is_none()) {
        return ALWAYS.to_vec();
    }
    let mut hashes: Vec<u32> = commits.iter().flat_map(|commit| commit.changes.iter().flatten()).copied().collect();
    hashes.sort_unstable();
    hashes.dedup();
    if hashes.len() > PATHS_MAX { ALWAYS.to_vec() } else { build(&hashes) }
}

/// Returns the check of a file of runs or of the manifest: over everything after it.
pub(super) fn checksum(bytes: &[u8]) -> u64 {
    XxHash3_64::oneshot(&bytes[16..])
}

/// Returns the check that a file says it has.
pub(super) fn stored_check(bytes: &[u8]) -> u64 {
    word64(bytes, 8)
}

pub(super) fn word32(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

pub(super) fn word64(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(count: usize) -> Vec<Indexed> {
        (0..count)
            .map(|n| Indexed {
                oid: Oid::from_array([n as u8 ^ (n >> 8) as u8; 32]),
                generation: 3 * n as u64 + 5,
                changes: (n % 97 != 96).then(|| vec![n as u32 % 50, 1000 + n as u32 / 300]),
            })
            .collect()
    }

    #[test]
    fn round_trips_and_finds_the_last_touch() {
        for count in [1, 2, 16, 17, 300, COMMITS_MAX] {
            let commits = sample(count);
            let bytes = FilterRun::encode(&commits);
            let run = FilterRun::parse(bytes.clone(), stored_check(&bytes)).unwrap();
            assert_eq!(run.commits(), commits);
            for position in [0, 1, 15, 16, 100, 255, 256, 4000, count - 1] {
                let position = position.min(count - 1);
                assert_eq!(run.position(&commits[position].oid, commits[position].generation), Some(position));
                assert_eq!(run.position(&commits[position].oid, commits[position].generation + 1), None);
                for hash in [0, 7, 49, 1000, 1001, 1013, 5000] {
                    let touched = |commit: &Indexed| commit.changes.as_ref().is_none_or(|list| list.contains(&hash));
                    let naive = (0..=position).rev().find(|&at| touched(&commits[at]));
                    assert_eq!(run.last_touch(position, hash), naive, "{count} {position} {hash}");
                }
            }
        }
    }

    #[test]
    fn damage_is_noticed_wherever_it_is() {
        let bytes = FilterRun::encode(&sample(40));
        let check = stored_check(&bytes);
        for at in 0..bytes.len() {
            let mut broken = bytes.clone();
            broken[at] ^= 4;
            assert!(FilterRun::parse(broken, check).is_none(), "byte {at}");
        }
        for length in 0..bytes.len() {
            assert!(FilterRun::parse(bytes[..length].to_vec(), check).is_none());
        }
        assert!(FilterRun::parse(bytes, check + 1).is_none());
    }
}
