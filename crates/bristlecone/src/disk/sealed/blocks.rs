//! The layout of a segment's index that is written today: entries in the order of ids, in blocks with a check each, and the first
//! prefix of each block in front. A lookup reads the blocks that it needs, and compares only their checks; ids that
//! begin with the same digits lie together.

use std::{io, ops::RangeInclusive};

use twox_hash::XxHash3_64;

use super::{IndexBytes, IndexEntry, IndexFault, RECORD_BYTES_MIN, Tie};
use crate::disk::frame::{word32, word64};

pub(super) const MAGIC: u64 = u64::from_le_bytes(*b"BCONEID2");
const NUMBER_AT: usize = 8;
const COUNT_AT: usize = NUMBER_AT + 8;
const TIE_AT: usize = COUNT_AT + 8;
const END_AT: usize = TIE_AT + 8;
const CHECK_AT: usize = END_AT + 8;
/// Bytes before the fences: 48 = 8 magic + 4 segment number + 4 zero + 8 count + 8 tie + 8 end + 8 check.
const HEAD_BYTES: usize = CHECK_AT + 8;
const _: () = assert!(HEAD_BYTES == 48, "the fields of an index's head add up");
/// Entries in a block, except in the last.
const BLOCK_ENTRIES: u64 = 84;
/// A full block: 8 check + 84 × (8 prefix + 4 offset).
const BLOCK_BYTES: u64 = 8 + BLOCK_ENTRIES * 12;
const _: () = assert!(BLOCK_BYTES.is_multiple_of(8), "blocks begin at multiples of 8");

/// Returns the bytes of the index over these entries of a segment.
pub(super) fn encode(number: u32, tie: Tie, entries: &[IndexEntry]) -> Vec<u8> {
    // Ids are ordered by their bytes, and of equal prefixes the newest is first, as the tail's table answers.
    let mut entries: Vec<_> = entries.iter().map(|&(prefix, offset)| (prefix.swap_bytes(), !offset)).collect();
    entries.sort_unstable();
    let mut out = Vec::with_capacity(HEAD_BYTES + entries.len() * 13);
    out.extend_from_slice(&MAGIC.to_le_bytes());
    out.extend_from_slice(&number.to_le_bytes());
    out.extend_from_slice(&[0; 4]);
    out.extend_from_slice(&(entries.len() as u64).to_le_bytes());
    out.extend_from_slice(&tie.word.to_le_bytes());
    out.extend_from_slice(&tie.end.to_le_bytes());
    out.extend_from_slice(&[0; 8]);
    for block in entries.chunks(BLOCK_ENTRIES as usize) {
        out.extend_from_slice(&block[0].0.to_le_bytes());
    }
    let check = XxHash3_64::oneshot_with_seed(XxHash3_64::oneshot_with_seed(0, &out[..CHECK_AT]), &out[HEAD_BYTES..]);
    out[CHECK_AT..HEAD_BYTES].copy_from_slice(&check.to_le_bytes());
    for (place, block) in entries.chunks(BLOCK_ENTRIES as usize).enumerate() {
        let at = out.len();
        out.extend_from_slice(&[0; 8]);
        block.iter().for_each(|(prefix, _)| out.extend_from_slice(&prefix.to_le_bytes()));
        block.iter().for_each(|(_, offset)| out.extend_from_slice(&(!offset).to_le_bytes()));
        let check = XxHash3_64::oneshot_with_seed(check.wrapping_add(place as u64), &out[at + 8..]);
        out[at..at + 8].copy_from_slice(&check.to_le_bytes());
    }
    out
}

/// Where the parts of such an index are.
#[derive(Debug)]
pub(super) struct Blocks {
    pub(super) count: u64,
    check: u64,
    // The first prefix of each block, as they were compared with the check: what a file or a map of one shows later is not. `None` where
    // the whole index is in memory.
    fences: Option<Vec<u8>>,
}

impl Blocks {
    /// Looks at the head and the fences of an index of a segment of `segment_bytes`, and returns what it is tied to; `None` if they
    /// are damaged or it is no such index.
    pub(super) fn read(
        bytes: &IndexBytes,
        end: u64,
        number: u32,
        segment_bytes: u64,
    ) -> io::Result<Option<(Self, Tie)>> {
        if end < HEAD_BYTES as u64 {
            return Ok(None);
        }
        let head = bytes.get(0, HEAD_BYTES as u64)?;
        let count = word64(&head, COUNT_AT);
        if word64(&head, 0) != MAGIC
            || word64(&head, NUMBER_AT) != u64::from(number)
            || count > u64::from(u32::MAX).min(segment_bytes / RECORD_BYTES_MIN)
        {
            return Ok(None);
        }
        let check = word64(&head, CHECK_AT);
        let mut blocks = Self { count, check, fences: None };
        if end != blocks.blocks_at() + count * 12 + blocks.len() * 8 {
            return Ok(None);
        }
        let fences = bytes.get(HEAD_BYTES as u64, blocks.len() * 8)?;
        let ascend = fences.chunks_exact(8).zip(fences.chunks_exact(8).skip(1));
        if XxHash3_64::oneshot_with_seed(XxHash3_64::oneshot_with_seed(0, &head[..CHECK_AT]), &fences) != check
            || !ascend.into_iter().all(|(one, next)| word64(one, 0) <= word64(next, 0))
        {
            return Ok(None);
        }
        let tie = Tie { word: word64(&head, TIE_AT), end: word64(&head, END_AT) };
        if !matches!(bytes, IndexBytes::Owned(_)) {
            blocks.fences = Some(fences.into_owned());
        }
        Ok(Some((blocks, tie)))
    }

    /// Returns the first offset under this prefix that `is_it` accepts.
    pub(super) fn find(
        &self,
        bytes: &IndexBytes,
        prefix: u64,
        mut is_it: impl FnMut(u32) -> bool,
    ) -> Result<Option<u32>, IndexFault> {
        let key = prefix.swap_bytes();
        let mut found = None;
        self.each_between(bytes, key..=key, &mut |(_, offset)| {
            let is_it = is_it(offset);
            found = is_it.then_some(offset);
            !is_it
        })?;
        Ok(found)
    }

    /// Calls `each` for every entry.
    pub(super) fn each(&self, bytes: &IndexBytes, each: &mut dyn FnMut(IndexEntry)) -> Result<(), IndexFault> {
        self.each_between(bytes, 0..=u64::MAX, &mut |entry| {
            each(entry);
            true
        })
    }

    /// Calls `each` for the entries whose ids begin with these words, read as ids are ordered, until it returns false.
    pub(super) fn each_between(
        &self,
        bytes: &IndexBytes,
        keys: RangeInclusive<u64>,
        each: &mut dyn FnMut(IndexEntry) -> bool,
    ) -> Result<(), IndexFault> {
        let fences = self.fences(bytes)?;
        // Equal prefixes may begin in the block before.
        let mut place = blocks_below(fences, *keys.start()).saturating_sub(1);
        while place < self.len() && fence(fences, place) <= *keys.end() {
            let (block, count) = self.block(bytes, fences, place)?;
            let prefixes = &block[8..8 + count * 8];
            let mut low = 0;
            let mut high = count;
            while low < high {
                let middle = low + (high - low) / 2;
                if word64(prefixes, middle * 8) < *keys.start() { low = middle + 1 } else { high = middle }
            }
            for index in low..count {
                let key = word64(prefixes, index * 8);
                if key > *keys.end() || !each((key.swap_bytes(), word32(&block, 8 + count * 8 + index * 4))) {
                    return Ok(());
                }
            }
            place += 1;
        }
        Ok(())
    }

    /// Returns a block whose check and order are right, and how many entries it has.
    fn block<'a>(
        &self,
        bytes: &'a IndexBytes,
        fences: &[u8],
        place: u64,
    ) -> Result<(std::borrow::Cow<'a, [u8]>, usize), IndexFault> {
        let count = BLOCK_ENTRIES.min(self.count - place * BLOCK_ENTRIES);
        let block = bytes.get(self.blocks_at() + place * BLOCK_BYTES, 8 + count * 12)?;
        if XxHash3_64::oneshot_with_seed(self.check.wrapping_add(place), &block[8..]) != word64(&block, 0) {
            return Err(IndexFault::Damaged);
        }
        let next = if place + 1 < self.len() { fence(fences, place + 1) } else { u64::MAX };
        let mut last = fence(fences, place);
        if word64(&block, 8) != last {
            return Err(IndexFault::Damaged);
        }
        let mut ascends = true;
        for key in block[8..8 + count as usize * 8].chunks_exact(8).map(|key| word64(key, 0)) {
            ascends &= last <= key;
            last = key;
        }
        if ascends && last <= next { Ok((block, count as usize)) } else { Err(IndexFault::Damaged) }
    }

    fn fences<'a>(&'a self, bytes: &'a IndexBytes) -> Result<&'a [u8], IndexFault> {
        if let Some(fences) = &self.fences {
            return Ok(fences);
        }
        let end = HEAD_BYTES + self.len() as usize * 8;
        bytes.map_or_owned().and_then(|bytes| bytes.get(HEAD_BYTES..end)).ok_or(IndexFault::Damaged)
    }

    /// Returns how many blocks there are.
    const fn len(&self) -> u64 {
        self.count.div_ceil(BLOCK_ENTRIES)
    }

    const fn blocks_at(&self) -> u64 {
        HEAD_BYTES as u64 + self.len() * 8
    }

    /// Returns the bytes of memory that this takes.
    pub(super) fn memory_bytes(&self) -> u64 {
        self.fences.as_ref().map_or(0, |fences| fences.len() as u64)
    }
}

fn fence(fences: &[u8], place: u64) -> u64 {
    word64(fences, place as usize * 8)
}

/// Returns how many fences are below a key. Ids are digests, so the search begins where the key would be if they were evenly
/// spread, and goes on from there in steps that double.
fn blocks_below(fences: &[u8], key: u64) -> u64 {
    let count = (fences.len() / 8) as u64;
    let guess = ((u128::from(key) * u128::from(count)) >> 64) as u64;
    let (mut low, mut high, mut step) = (guess, guess, 1);
    // All below `low` are below the key, and none from `high` on.
    if guess < count && fence(fences, guess) < key {
        while high < count && fence(fences, high) < key {
            low = high + 1;
            high = (high + step).min(count);
            step *= 2;
        }
    } else {
        while low > 0 && fence(fences, low - 1) >= key {
            high = low - 1;
            low = low.saturating_sub(step);
            step *= 2;
        }
    }
    while low < high {
        let middle = low + (high - low) / 2;
        if fence(fences, middle) < key { low = middle + 1 } else { high = middle }
    }
    low
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::sealed::{
        Form, SealedIndex, sort_entries,
        tests::{load, words},
    };

    const TIE: Tie = Tie { word: 78, end: 1234 };

    #[test]
    fn fences_below_a_key_are_counted() {
        for keys in [vec![], vec![5], vec![0, 0, 7, 7, 7, u64::MAX], (0..100).collect(), words().take(300).collect()] {
            let mut keys: Vec<u64> = keys;
            keys.sort_unstable();
            let fences: Vec<u8> = keys.iter().flat_map(|key| key.to_le_bytes()).collect();
            let asked = keys.iter().flat_map(|&key| [key.saturating_sub(1), key, key.saturating_add(1)]);
            for key in asked.chain([0, 1 << 63, u64::MAX]).chain(words().skip(1000).take(100)) {
                let below = keys.iter().filter(|&&other| other < key).count() as u64;
                assert_eq!(blocks_below(&fences, key), below, "{key} among {keys:?}");
            }
        }
    }

    #[test]
    fn an_index_finds_all_and_damage_is_never_an_answer() {
        for count in [0, 1, 83, 84, 85, 168, 400] {
            let entries: Vec<IndexEntry> = words().take(count).zip(100..).collect();
            let bytes = encode(3, TIE, &entries);
            let index = load(Form::Seal, bytes.clone()).unwrap();
            assert_eq!(index.tie, TIE);
            let mut sorted = entries.clone();
            sort_entries(&mut sorted);
            assert_eq!(index.entries().unwrap(), sorted);
            for &(prefix, offset) in &entries {
                assert_eq!(index.find(prefix, |found| found == offset).unwrap(), Some(offset));
                assert_eq!(index.find(prefix ^ 1, |_| true).unwrap(), None);
            }
            for byte in 0..bytes.len() {
                let mut flipped = bytes.clone();
                flipped[byte] ^= 4;
                let Some(index) = load(Form::Seal, flipped) else { continue };
                assert!(matches!(index.entries(), Err(IndexFault::Damaged)), "byte {byte} of {count}");
                // In a short run a fifth of them, others for the next byte.
                let step = bristlecone_testkit::crash::step(5, 1) as usize;
                for &(prefix, offset) in entries.iter().skip(byte % step).step_by(step) {
                    match index.find(prefix, |found| found == offset) {
                        Ok(found) => assert_eq!(found, Some(offset), "byte {byte} of {count}"),
                        Err(fault) => assert!(matches!(fault, IndexFault::Damaged)),
                    }
                }
            }
            for cut in 0..bytes.len() {
                assert!(load(Form::Seal, bytes[..cut].to_vec()).is_none(), "cut at {cut} of {count}");
            }
        }
    }

    #[test]
    fn equal_prefixes_answer_the_newest_first_across_blocks() {
        let entries: Vec<IndexEntry> = (0..200).map(|offset| (5, offset)).chain([(4, 900), (6, 901)]).collect();
        let index: SealedIndex = load(Form::Seal, encode(3, TIE, &entries)).unwrap();
        for upto in [200, 117, 116, 115, 1] {
            assert_eq!(index.find(5, |offset| offset < upto).unwrap(), Some(upto - 1));
        }
        assert_eq!(index.find(5, |offset| offset > 200).unwrap(), None);
        assert_eq!(index.find(6, |_| true).unwrap(), Some(901));
    }

    #[test]
    fn ids_that_begin_alike_lie_together() {
        let entries: Vec<IndexEntry> = words().take(500).zip(100..).collect();
        let index = load(Form::Seal, encode(3, TIE, &entries)).unwrap();
        for (prefix, bits) in entries.iter().map(|entry| entry.0).zip([0, 1, 4, 8, 11, 16, 64].into_iter().cycle()) {
            let mask = if bits == 0 { 0 } else { u64::MAX << (64 - bits) };
            let low = prefix.swap_bytes() & mask;
            let mut found = Vec::new();
            index.each_between(low..=low | !mask, &mut |entry| found.push(entry)).unwrap();
            let wanted = entries.iter().filter(|entry| entry.0.swap_bytes() & mask == low);
            sort_entries(&mut found);
            let mut wanted: Vec<IndexEntry> = wanted.copied().collect();
            sort_entries(&mut wanted);
            assert_eq!(found, wanted, "{bits} bits");
        }
    }

    #[test]
    fn an_index_out_of_order_is_no_answer_though_its_checks_are_right() {
        let entries: Vec<IndexEntry> = words().take(200).zip(100..).collect();
        let sound = encode(3, TIE, &entries);
        let forged = |change: &dyn Fn(&mut Vec<u8>)| {
            let mut bytes = sound.clone();
            change(&mut bytes);
            let blocks_at = HEAD_BYTES + 3 * 8;
            let check = XxHash3_64::oneshot_with_seed(
                XxHash3_64::oneshot_with_seed(0, &bytes[..CHECK_AT]),
                &bytes[HEAD_BYTES..blocks_at],
            );
            bytes[CHECK_AT..HEAD_BYTES].copy_from_slice(&check.to_le_bytes());
            for (place, block) in bytes[blocks_at..].chunks_mut(BLOCK_BYTES as usize).enumerate() {
                let check = XxHash3_64::oneshot_with_seed(check.wrapping_add(place as u64), &block[8..]);
                block[..8].copy_from_slice(&check.to_le_bytes());
            }
            load(Form::Seal, bytes).is_some_and(|index| index.entries().is_ok())
        };
        let block_at = |place: usize| HEAD_BYTES + 3 * 8 + place * BLOCK_BYTES as usize + 8;
        assert!(forged(&|_| {}));
        assert!(!forged(&|bytes| bytes[HEAD_BYTES..HEAD_BYTES + 16].rotate_left(8)), "fences in another order");
        for place in 0..3 {
            assert!(!forged(&|bytes| bytes[block_at(place)..block_at(place) + 16].rotate_left(8)), "block {place}");
            assert!(!forged(&|bytes| bytes[HEAD_BYTES + place * 8] ^= 1), "fence {place}");
        }
        assert!(!forged(&|bytes| bytes[block_at(1) - 8 - 84 * 4 - 8..][..8].fill(255)), "the last of a block");
        for count in [0_u64, 1, 199, 201, u64::from(u32::MAX), u64::MAX, 1 << 61] {
            let forged = forged(&|bytes| bytes[COUNT_AT..COUNT_AT + 8].copy_from_slice(&count.to_le_bytes()));
            assert!(!forged, "{count} entries");
        }
    }
}
