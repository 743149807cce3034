//! The bytes of a filter: for each id in a run of segments, a few bits of it and the segment. `docs/formats/disk.md` section 5.4.
//!
//! Ids are digests, so they are spread evenly over buckets by their first bits, and a bucket takes a line or two of the
//! processor's cache. A lookup compares the check of one bucket; head, members and where buckets begin are compared when a
//! filter is opened. What is read here may be any bytes.

use std::{
    hash::Hasher,
    io,
    ops::RangeInclusive,
    sync::atomic::{AtomicBool, Ordering::Relaxed},
};

use twox_hash::XxHash3_64;

use crate::disk::{
    files::CHUNK_BYTES,
    frame::{word32, word64},
    sealed::{IndexBytes, IndexFault, Tie},
};

const MAGIC: u64 = u64::from_le_bytes(*b"BCONEFLT");
const FIRST_AT: usize = 8;
const MEMBERS_AT: usize = FIRST_AT + 4;
const COUNT_AT: usize = MEMBERS_AT + 4;
const BUCKETS_AT: usize = COUNT_AT + 8;
const CHECK_AT: usize = BUCKETS_AT + 8;
/// 40 = 8 magic + 4 first segment + 4 members + 8 entries + 8 buckets + 8 check.
pub(super) const HEAD_BYTES: usize = CHECK_AT + 8;
const _: () = assert!(HEAD_BYTES == 40, "the fields of a filter's head add up");
/// 4 segment number + 4 zero + 8 tie + 8 end.
const MEMBER_BYTES: usize = 24;
/// Segments are told apart by a byte.
pub(super) const MEMBERS_MAX: usize = 256;
/// Entries in a bucket, on average.
const BUCKET_ENTRIES: u64 = 64;
/// A bucket of more entries than this shows that ids are not spread evenly, and a filter would not serve.
const BUCKET_ENTRIES_MAX: u32 = 1024;
/// Two bytes of an id, and one for the place of its member.
const ENTRY_BYTES: u64 = 3;

/// A segment whose ids are in a filter, and the index that they were taken from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::disk) struct Member {
    pub(in crate::disk) number: u32,
    pub(super) tie: Tie,
}

/// An open filter.
#[derive(Debug)]
pub(in crate::disk) struct Filter {
    bytes: IndexBytes,
    pub(super) members: Vec<Member>,
    count: u64,
    buckets: u64,
    // Binds buckets to this filter.
    seed: u64,
    /// Whether a bucket was met that is not what was written.
    damaged: AtomicBool,
}

impl Filter {
    /// Returns how long a filter with this head is that begins at segment `first`; `None` if it is no head of one.
    pub(super) fn bytes_of(head: &[u8], first: u32) -> Option<u64> {
        let (members, count) = (word32(head, MEMBERS_AT) as usize, word64(head, COUNT_AT));
        let right = word64(head, 0) == MAGIC
            && word32(head, FIRST_AT) == first
            && (1..=MEMBERS_MAX).contains(&members)
            && count <= u64::from(u32::MAX)
            && word64(head, BUCKETS_AT) == buckets_for(count);
        right.then(|| buckets_at(members, buckets_for(count)) + buckets_for(count) * 8 + count * ENTRY_BYTES)
    }

    /// Returns how many entries a filter with this head has.
    pub(super) fn count_of(head: &[u8]) -> u64 {
        word64(head, COUNT_AT)
    }

    /// Looks at the bytes of the filter that begins at segment `first`; `None` if it is damaged or no such filter.
    pub(super) fn read(bytes: IndexBytes, end: u64, first: u32) -> io::Result<Option<Self>> {
        if end < HEAD_BYTES as u64 {
            return Ok(None);
        }
        let head = bytes.get(0, HEAD_BYTES as u64)?.into_owned();
        if Self::bytes_of(&head, first) != Some(end) {
            return Ok(None);
        }
        let (members, count) = (word32(&head, MEMBERS_AT) as usize, word64(&head, COUNT_AT));
        let (buckets, check) = (word64(&head, BUCKETS_AT), word64(&head, CHECK_AT));
        let rows = bytes.get(HEAD_BYTES as u64, (members * MEMBER_BYTES) as u64)?.into_owned();
        let seed = seed(&head, &rows);
        let (mut state, mut last) = (XxHash3_64::with_seed(seed), 0);
        let (mut at, upto) = (begins_at(members), buckets_at(members, buckets));
        let starts_at_0 = word32(&bytes.get(at, 4)?, 0) == 0;
        while at < upto {
            let chunk = bytes.get(at, CHUNK_BYTES.min(upto - at))?;
            state.write(&chunk);
            for begin in chunk.chunks_exact(4).map(|begin| word32(begin, 0)) {
                if begin < last || begin - last > BUCKET_ENTRIES_MAX {
                    return Ok(None);
                }
                last = begin;
            }
            at += chunk.len() as u64;
        }
        if state.finish() != check || u64::from(last) != count || !starts_at_0 {
            return Ok(None);
        }
        let member =
            |row: &[u8]| Member { number: word32(row, 0), tie: Tie { word: word64(row, 8), end: word64(row, 16) } };
        let members = rows.chunks_exact(MEMBER_BYTES).map(member).collect();
        Ok(Some(Self { bytes, members, count, buckets, seed, damaged: AtomicBool::new(false) }))
    }

    /// Calls `each` for the members in which an id with these first bytes may be, until it returns false. In no other
    /// member there is one.
    pub(in crate::disk) fn each_member(
        &self,
        prefix: u64,
        mut each: impl FnMut(Member) -> bool,
    ) -> Result<(), IndexFault> {
        let key = prefix.swap_bytes();
        let bucket = bucket_of(key, self.buckets);
        let begins = self.bytes.get(begins_at(self.members.len()) + bucket * 4, 8)?;
        let (begin, end) = (u64::from(word32(&begins, 0)), u64::from(word32(&begins, 4)));
        // Checked when the filter was opened; a map may change under us all the same.
        if begin > end || end > self.count || end - begin > u64::from(BUCKET_ENTRIES_MAX) {
            return Err(self.is_damaged());
        }
        let count = (end - begin) as usize;
        let at = buckets_at(self.members.len(), self.buckets) + bucket * 8 + begin * ENTRY_BYTES;
        let bytes = self.bytes.get(at, 8 + count as u64 * ENTRY_BYTES)?;
        if XxHash3_64::oneshot_with_seed(self.seed.wrapping_add(bucket), &bytes[8..]) != word64(&bytes, 0) {
            return Err(self.is_damaged());
        }
        let (fingerprints, places) = bytes[8..].split_at(count * 2);
        let wanted = fingerprint(key);
        for (index, bytes) in fingerprints.chunks_exact(2).enumerate() {
            if u16::from_le_bytes([bytes[0], bytes[1]]) == wanted {
                let member = self.members.get(usize::from(places[index]));
                if !each(*member.ok_or_else(|| self.is_damaged())?) {
                    break;
                }
            }
        }
        Ok(())
    }

    fn is_damaged(&self) -> IndexFault {
        self.damaged.store(true, Relaxed);
        IndexFault::Damaged
    }

    /// Whether nothing was wrong with it so far.
    pub(super) fn is_sound(&self) -> bool {
        !self.damaged.load(Relaxed)
    }

    /// Returns the bytes of memory that the filter takes, maps left out.
    pub(super) fn memory_bytes(&self) -> u64 {
        self.bytes.memory_bytes() + (self.members.len() * size_of::<Member>()) as u64
    }

    /// As [`IndexBytes::forget_pages`].
    pub(super) fn forget_pages(&self) {
        self.bytes.forget_pages();
    }

    /// Returns the bytes of it that are mapped.
    pub(super) fn mapped_bytes(&self) -> u64 {
        self.bytes.mapped_bytes()
    }
}

/// Returns what buckets are bound to: the head before its check, and the members.
fn seed(head: &[u8], rows: &[u8]) -> u64 {
    XxHash3_64::oneshot_with_seed(XxHash3_64::oneshot_with_seed(0, &head[..CHECK_AT]), rows)
}

fn buckets_for(count: u64) -> u64 {
    count.div_ceil(BUCKET_ENTRIES).max(1)
}

/// Where the counts of entries before each bucket begin.
const fn begins_at(members: usize) -> u64 {
    (HEAD_BYTES + members * MEMBER_BYTES) as u64
}

const fn buckets_at(members: usize, buckets: u64) -> u64 {
    begins_at(members) + (buckets + 1) * 4
}

/// Returns the bucket of an id with these first bytes, as a big-endian integer.
fn bucket_of(key: u64, buckets: u64) -> u64 {
    ((u128::from(key) * u128::from(buckets)) >> 64) as u64
}

const fn fingerprint(key: u64) -> u16 {
    key as u16
}

/// Where the bytes of a filter go: called with bytes and where they begin.
pub(super) type WriteAt<'w> = &'w mut dyn FnMut(&[u8], u64) -> io::Result<()>;

/// Makes a filter bucket by bucket, from the ids of a range at a time.
pub(super) struct FilterWriter<'w> {
    // The head before its check, and the members.
    head: Vec<u8>,
    members: usize,
    count: u64,
    seed: u64,
    begins: Vec<u32>,
    write: WriteAt<'w>,
}

impl<'w> FilterWriter<'w> {
    /// Begins a filter of `count` entries; `None` if there are too many for one, or too many members.
    pub(super) fn new(first: u32, members: &[Member], count: u64, write: WriteAt<'w>) -> Option<Self> {
        if u32::try_from(count).is_err() || !(1..=MEMBERS_MAX).contains(&members.len()) {
            return None;
        }
        let mut head = Vec::new();
        head.extend_from_slice(&MAGIC.to_le_bytes());
        head.extend_from_slice(&first.to_le_bytes());
        head.extend_from_slice(&(members.len() as u32).to_le_bytes());
        head.extend_from_slice(&count.to_le_bytes());
        head.extend_from_slice(&buckets_for(count).to_le_bytes());
        let mut rows = Vec::new();
        for member in members {
            rows.extend_from_slice(&u64::from(member.number).to_le_bytes());
            rows.extend_from_slice(&member.tie.word.to_le_bytes());
            rows.extend_from_slice(&member.tie.end.to_le_bytes());
        }
        let seed = seed(&head, &rows);
        head.extend_from_slice(&[0; 8]);
        head.extend_from_slice(&rows);
        Some(Self { head, members: members.len(), count, seed, begins: vec![0], write })
    }

    /// Returns into how many ranges ids are cut so that each has about `entries`.
    pub(super) fn ranges(&self, entries: u64) -> u64 {
        self.count.div_ceil(entries).clamp(1, buckets_for(self.count))
    }

    /// Returns the first bytes of the ids in a range, as big-endian integers.
    pub(super) fn keys(&self, range: u64, ranges: u64) -> RangeInclusive<u64> {
        let (from, to) = (self.bucket(range, ranges), self.bucket(range + 1, ranges));
        let key = |bucket: u64| (u128::from(bucket) << 64).div_ceil(u128::from(buckets_for(self.count)));
        key(from) as u64..=(key(to) - 1) as u64
    }

    /// Returns the first bucket of a range.
    fn bucket(&self, range: u64, ranges: u64) -> u64 {
        (u128::from(range) * u128::from(buckets_for(self.count)) / u128::from(ranges)) as u64
    }

    /// Writes the buckets of a range, all ranges in turn, with the first bytes of its ids and the places of their
    /// members; `false` if they are not spread as digests are.
    pub(super) fn put(&mut self, range: u64, ranges: u64, entries: &mut [(u64, u8)]) -> io::Result<bool> {
        entries.sort_unstable();
        let (from, to) = (self.bucket(range, ranges), self.bucket(range + 1, ranges));
        let begun = u64::from(self.begins[self.begins.len() - 1]);
        let at = buckets_at(self.members, buckets_for(self.count)) + from * 8 + begun * ENTRY_BYTES;
        let (mut out, mut rest) = (Vec::new(), &*entries);
        for bucket in from..to {
            let count = rest.partition_point(|&(key, _)| bucket_of(key, buckets_for(self.count)) <= bucket);
            let (own, others) = rest.split_at(count);
            rest = others;
            let check_at = out.len();
            out.extend_from_slice(&[0; 8]);
            own.iter().for_each(|&(key, _)| out.extend_from_slice(&fingerprint(key).to_le_bytes()));
            out.extend(own.iter().map(|&(_, place)| place));
            let check = XxHash3_64::oneshot_with_seed(self.seed.wrapping_add(bucket), &out[check_at + 8..]);
            out[check_at..check_at + 8].copy_from_slice(&check.to_le_bytes());
            if count > BUCKET_ENTRIES_MAX as usize {
                return Ok(false);
            }
            self.begins.push(self.begins[self.begins.len() - 1].saturating_add(count as u32));
        }
        (self.write)(&out, at)?;
        Ok(true)
    }

    /// Writes the rest once all ranges are there; `false` if there were not as many entries as was said.
    pub(super) fn finish(mut self) -> io::Result<bool> {
        if self.begins.last().map(|&last| u64::from(last)) != Some(self.count) {
            return Ok(false);
        }
        let begins: Vec<u8> = self.begins.iter().flat_map(|begin| begin.to_le_bytes()).collect();
        let check = XxHash3_64::oneshot_with_seed(self.seed, &begins);
        self.head[CHECK_AT..HEAD_BYTES].copy_from_slice(&check.to_le_bytes());
        self.head.extend_from_slice(&begins);
        (self.write)(&self.head, 0)?;
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words() -> impl Iterator<Item = u64> {
        let mut state = 7_u64;
        std::iter::repeat_with(move || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            state ^ state >> 29
        })
    }

    fn members(count: u32) -> Vec<Member> {
        (0..count).map(|place| Member { number: 16 + place, tie: Tie { word: place.into(), end: 99 } }).collect()
    }

    /// Returns the bytes of a filter over these prefixes of ids and places.
    fn filter(members: &[Member], entries: &[(u64, u8)], at_a_time: u64) -> Option<Vec<u8>> {
        let mut bytes = Vec::new();
        let mut write = |part: &[u8], at: u64| {
            bytes.resize(bytes.len().max(at as usize + part.len()), 0);
            bytes[at as usize..at as usize + part.len()].copy_from_slice(part);
            Ok(())
        };
        let mut writer = FilterWriter::new(16, members, entries.len() as u64, &mut write)?;
        let ranges = writer.ranges(at_a_time);
        for range in 0..ranges {
            let keys = writer.keys(range, ranges);
            let own = entries.iter().map(|&(prefix, place)| (prefix.swap_bytes(), place));
            let mut own: Vec<_> = own.filter(|(key, _)| keys.contains(key)).collect();
            if !writer.put(range, ranges, &mut own).unwrap() {
                return None;
            }
        }
        writer.finish().unwrap().then_some(bytes)
    }

    fn load(bytes: Vec<u8>) -> Option<Filter> {
        let end = bytes.len() as u64;
        Filter::read(IndexBytes::Owned(bytes), end, 16).unwrap()
    }

    fn asked(filter: &Filter, prefix: u64) -> Result<Vec<u32>, IndexFault> {
        let mut numbers = Vec::new();
        filter.each_member(prefix, |member| {
            numbers.push(member.number);
            true
        })?;
        Ok(numbers)
    }

    #[test]
    fn a_filter_knows_all_and_rarely_more() {
        for (count, at_a_time) in [(0, 10), (1, 1), (63, 10), (64, 100), (65, 1), (20_000, 500), (20_000, 1 << 30)] {
            let entries: Vec<(u64, u8)> = words().take(count).zip((0..16).cycle()).collect();
            let bytes = filter(&members(16), &entries, at_a_time).unwrap();
            assert!(bytes.len() < 500 + count * 16 / 5, "{} bytes for {count}", bytes.len());
            let filter = load(bytes).unwrap();
            assert_eq!(filter.members, members(16));
            for &(prefix, place) in &entries {
                assert!(asked(&filter, prefix).unwrap().contains(&(16 + u32::from(place))));
            }
            let others = words().skip(count).take(20_000).map(|prefix| asked(&filter, prefix).unwrap().len());
            // One in a thousand, by 64 entries and 16 bits.
            assert!(others.sum::<usize>() < 60, "{count}");
        }
    }

    #[test]
    fn the_ranges_in_which_it_is_made_change_nothing() {
        let entries: Vec<(u64, u8)> = words().take(3_000).zip((0..5).cycle()).collect();
        let one = filter(&members(5), &entries, 1 << 20).unwrap();
        for at_a_time in [1, 17, 64, 1000] {
            assert!(filter(&members(5), &entries, at_a_time).unwrap() == one, "{at_a_time}");
        }
    }

    #[test]
    fn damage_to_a_filter_is_never_an_answer() {
        let entries: Vec<(u64, u8)> = words().take(300).zip((0..3).cycle()).collect();
        let sound = filter(&members(3), &entries, 100).unwrap();
        for byte in 0..sound.len() {
            let mut flipped = sound.clone();
            flipped[byte] ^= 2;
            let Some(filter) = load(flipped) else { continue };
            let mut noticed = false;
            for &(prefix, place) in &entries {
                match asked(&filter, prefix) {
                    Ok(numbers) => assert!(numbers.contains(&(16 + u32::from(place))), "byte {byte}"),
                    Err(fault) => noticed |= matches!(fault, IndexFault::Damaged),
                }
            }
            assert!(noticed && !filter.is_sound(), "byte {byte}");
        }
        for cut in 0..sound.len() {
            assert!(load(sound[..cut].to_vec()).is_none(), "cut at {cut}");
        }
    }

    #[test]
    fn ids_that_are_no_digests_and_too_many_have_no_filter() {
        let same: Vec<(u64, u8)> = (0..3_000).map(|number| (5 + (number << 40), 0)).collect();
        assert!(filter(&members(1), &same, 1 << 20).is_none());
        assert!(FilterWriter::new(16, &members(1), 1 << 32, &mut |_, _| Ok(())).is_none());
        assert!(FilterWriter::new(16, &members(257), 1, &mut |_, _| Ok(())).is_none());
        assert!(FilterWriter::new(16, &[], 0, &mut |_, _| Ok(())).is_none());
    }
}
