//! Both earlier layouts of a segment's index: sorted prefixes behind a table of steps, under one check that is compared, with
//! the order, when the index is opened. They are written no more, but stores have them.
//!
//! What a file or a map of one shows later may be something else. So checks over parts are kept from then on, and no answer that
//! something is not there is given by a part that has changed.

use std::{hash::Hasher, io};

use twox_hash::XxHash3_64;

use super::{Form, INDEX_IDS, IndexBytes, IndexEntry, IndexFault, RECORD_BYTES_MIN, Tie};
use crate::disk::{
    files::CHUNK_BYTES,
    frame::{word32, word64},
};

const NUMBER_AT: usize = 8;
const BITS_AT: usize = NUMBER_AT + 4;
const COUNT_AT: usize = BITS_AT + 4;
const TIE_AT: usize = COUNT_AT + 8;
/// Where the two forms part: 32 = 8 magic + 4 segment number + 4 bits + 8 count + 8 tie.
const END_AT: usize = TIE_AT + 8;
const _: () = assert!(END_AT == 32, "the fields that both forms share add up");
const BITS_MAX: u32 = 24;
/// Bytes that are compared at a time once the index is open.
const PART_BYTES: u64 = 4096;
const _: () = assert!(CHUNK_BYTES.is_multiple_of(PART_BYTES), "parts begin where chunks do");

const fn magic(form: Form) -> u64 {
    match form {
        Form::Head => u64::from_le_bytes(*b"BCONEIDX"),
        Form::Seal => INDEX_IDS,
    }
}

/// Returns where the check is: behind what is tied to, and, in the newer form, the offset behind the seal.
const fn check_at(form: Form) -> usize {
    match form {
        Form::Head => END_AT,
        Form::Seal => END_AT + 8,
    }
}

const fn head_bytes(form: Form) -> usize {
    check_at(form) + 8
}

fn bucket(prefix: u64, bits: u32) -> usize {
    if bits == 0 { 0 } else { (prefix >> (64 - bits)) as usize }
}

/// Where the parts of such an index are.
#[derive(Debug)]
pub(super) struct Steps {
    bits: u32,
    pub(super) count: u64,
    table_at: u64,
    prefixes_at: u64,
    offsets_at: u64,
    // Checks over parts of all from the table on, as it was when all was compared; none where the whole index is in memory.
    parts: Vec<u64>,
}

impl Steps {
    /// Looks at the bytes of an index of a segment of `segment_bytes`, and returns what it is tied to; `None` if it is damaged or
    /// no such index.
    pub(super) fn read(
        bytes: &IndexBytes,
        end: u64,
        form: Form,
        number: u32,
        segment_bytes: u64,
    ) -> io::Result<Option<(Self, Tie)>> {
        let (check_at, head_bytes) = (check_at(form), head_bytes(form));
        if end < head_bytes as u64 {
            return Ok(None);
        }
        let head = bytes.get(0, head_bytes as u64)?;
        let (bits, count) = (word32(&head, BITS_AT), word64(&head, COUNT_AT));
        let tie = Tie { word: word64(&head, TIE_AT), end: if form == Form::Seal { word64(&head, END_AT) } else { 0 } };
        if word64(&head, 0) != magic(form)
            || word32(&head, NUMBER_AT) != number
            || bits > BITS_MAX
            || count > u64::from(u32::MAX).min(segment_bytes / RECORD_BYTES_MIN)
        {
            return Ok(None);
        }
        let table_at = head_bytes as u64;
        let prefixes_at = (table_at + table_bytes(bits)).next_multiple_of(8);
        let offsets_at = prefixes_at + count * 8;
        let mut steps = Self { bits, count, table_at, prefixes_at, offsets_at, parts: Vec::new() };
        let used = steps.used();
        if used > end {
            return Ok(None);
        }
        let may_change = !matches!(bytes, IndexBytes::Owned(_));
        let (mut state, mut at) =
            (XxHash3_64::with_seed(XxHash3_64::oneshot_with_seed(0, &head[..check_at])), table_at);
        while at < used {
            let chunk = bytes.get(at, CHUNK_BYTES.min(used - at))?;
            state.write(&chunk);
            if may_change {
                steps.parts.extend(chunk.chunks(PART_BYTES as usize).map(XxHash3_64::oneshot));
            }
            at += chunk.len() as u64;
        }
        let right = state.finish() == word64(&head, check_at) && steps.is_ordered(bytes)?;
        Ok(right.then_some((steps, tie)))
    }

    /// Whether the prefixes ascend and the table says where each step of them begins: what a search relies on.
    fn is_ordered(&self, bytes: &IndexBytes) -> io::Result<bool> {
        let table = bytes.get(self.table_at, table_bytes(self.bits))?;
        let steps = 1_usize << self.bits;
        let begins = |step: usize| u64::from(word32(&table, step * 4));
        if begins(0) != 0 || begins(steps) != self.count {
            return Ok(false);
        }
        let (mut at, mut last, mut step) = (0, 0, 0);
        while at < self.count {
            let chunk = bytes.get(self.prefixes_at + at * 8, (CHUNK_BYTES / 8).min(self.count - at) * 8)?;
            for word in chunk.chunks_exact(8) {
                let prefix = word64(word, 0);
                if prefix < last {
                    return Ok(false);
                }
                last = prefix;
                while step < bucket(prefix, self.bits) {
                    step += 1;
                    if begins(step) != at {
                        return Ok(false);
                    }
                }
                at += 1;
            }
        }
        Ok((step + 1..steps).all(|step| begins(step) == self.count))
    }

    /// Returns the first offset under this prefix that `is_it` accepts.
    pub(super) fn find(
        &self,
        bytes: &IndexBytes,
        prefix: u64,
        mut is_it: impl FnMut(u32) -> bool,
    ) -> Result<Option<u32>, IndexFault> {
        let step_at = self.table_at + bucket(prefix, self.bits) as u64 * 4;
        let step = bytes.get(step_at, 8)?;
        let (mut low, end) = (u64::from(word32(&step, 0)), u64::from(word32(&step, 4)).min(self.count));
        let (first, mut high) = (low, end);
        while low < high {
            let middle = low + (high - low) / 2;
            if self.prefix(bytes, middle)? < prefix { low = middle + 1 } else { high = middle }
        }
        let equal = low;
        while low < end && self.prefix(bytes, low)? == prefix {
            let offset = word32(&bytes.get(self.offsets_at + low * 4, 4)?, 0);
            if is_it(offset) {
                return Ok(Some(offset));
            }
            low += 1;
        }
        let prefixes = (self.prefixes_at + first * 8, self.prefixes_at + end * 8);
        let offsets = (self.offsets_at + equal * 4, self.offsets_at + low * 4);
        // Without the step that is right it is not known where the prefixes are.
        self.refuse_changed(bytes, step_at, step_at + 8)?;
        self.refuse_changed(bytes, prefixes.0, prefixes.1)?;
        self.refuse_changed(bytes, offsets.0, offsets.1)?;
        Ok(None)
    }

    /// Fails unless what lies between two places is what it was when all was compared.
    fn refuse_changed(&self, bytes: &IndexBytes, from: u64, to: u64) -> Result<(), IndexFault> {
        if self.parts.is_empty() || from >= to {
            return Ok(());
        }
        for part in (from - self.table_at) / PART_BYTES..(to - self.table_at).div_ceil(PART_BYTES) {
            let at = self.table_at + part * PART_BYTES;
            let found = bytes.get(at, PART_BYTES.min(self.used().saturating_sub(at)))?;
            if self.parts.get(part as usize) != Some(&XxHash3_64::oneshot(&found)) {
                return Err(IndexFault::Damaged);
            }
        }
        Ok(())
    }

    /// Returns where the last offset ends.
    const fn used(&self) -> u64 {
        self.offsets_at + self.count * 4
    }

    /// Returns the bytes of memory that this takes.
    pub(super) fn memory_bytes(&self) -> u64 {
        (self.parts.capacity() * size_of::<u64>()) as u64
    }

    /// Calls `each` for every entry, in their order.
    pub(super) fn each(&self, bytes: &IndexBytes, each: &mut dyn FnMut(IndexEntry)) -> Result<(), IndexFault> {
        // The table, too: who compares all entries takes the index for right.
        self.refuse_changed(bytes, self.table_at, self.used())?;
        let mut at = 0;
        while at < self.count {
            let take = (CHUNK_BYTES / 8).min(self.count - at);
            let prefixes = bytes.get(self.prefixes_at + at * 8, take * 8)?;
            let offsets = bytes.get(self.offsets_at + at * 4, take * 4)?;
            for (prefix, offset) in prefixes.chunks_exact(8).zip(offsets.chunks_exact(4)) {
                each((word64(prefix, 0), word32(offset, 0)));
            }
            at += take;
        }
        Ok(())
    }

    fn prefix(&self, bytes: &IndexBytes, index: u64) -> io::Result<u64> {
        Ok(word64(&bytes.get(self.prefixes_at + index * 8, 8)?, 0))
    }
}

const fn table_bytes(bits: u32) -> u64 {
    ((1_u64 << bits) + 1) * 4
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::sealed::{
        SealedIndex, sort_entries,
        tests::{load, words},
    };

    const TIE: Tie = Tie { word: 77, end: 0 };

    /// Returns the bytes of an index over these entries.
    fn encode(form: Form, number: u32, tie: Tie, entries: &[IndexEntry]) -> Vec<u8> {
        let mut entries = entries.to_vec();
        sort_entries(&mut entries);
        let bits = (entries.len() / 16).max(1).ilog2().min(BITS_MAX);
        let steps = 1_usize << bits;
        let mut out = [&magic(form).to_le_bytes()[..], &number.to_le_bytes(), &bits.to_le_bytes()].concat();
        out.extend_from_slice(&(entries.len() as u64).to_le_bytes());
        out.extend_from_slice(&tie.word.to_le_bytes());
        if form == Form::Seal {
            out.extend_from_slice(&tie.end.to_le_bytes());
        }
        out.extend_from_slice(&[0; 8]);
        for step in 0..=steps {
            let below = entries.iter().filter(|entry| step == steps || bucket(entry.0, bits) < step).count();
            out.extend_from_slice(&(below as u32).to_le_bytes());
        }
        out.resize(out.len().next_multiple_of(8), 0);
        entries.iter().for_each(|(prefix, _)| out.extend_from_slice(&prefix.to_le_bytes()));
        entries.iter().for_each(|(_, offset)| out.extend_from_slice(&offset.to_le_bytes()));
        check(form, &mut out);
        out
    }

    fn check(form: Form, bytes: &mut [u8]) {
        let head_bytes = head_bytes(form).min(bytes.len());
        let check = XxHash3_64::oneshot_with_seed(
            XxHash3_64::oneshot_with_seed(0, &bytes[..check_at(form)]),
            &bytes[head_bytes..],
        );
        bytes[check_at(form)..head_bytes].copy_from_slice(&check.to_le_bytes());
    }

    #[test]
    fn an_index_finds_all_and_knows_when_it_is_damaged() {
        for (form, tie) in [(Form::Head, TIE), (Form::Seal, Tie { word: 78, end: 1234 })] {
            for count in [0, 1, 15, 16, 17, 1000] {
                let entries: Vec<IndexEntry> = words().take(count).zip(100..).collect();
                let bytes = encode(form, 3, tie, &entries);
                let index = load(form, bytes.clone()).unwrap();
                assert_eq!(index.tie, tie);
                for &(prefix, offset) in &entries {
                    assert_eq!(index.find(prefix, |found| found == offset).unwrap(), Some(offset));
                    assert_eq!(index.find(prefix ^ 1, |_| true).unwrap(), None);
                }
                let mut sorted = entries;
                sort_entries(&mut sorted);
                assert_eq!(index.entries().unwrap(), sorted);
                for byte in 0..bytes.len() {
                    let mut flipped = bytes.clone();
                    flipped[byte] ^= 4;
                    assert!(load(form, flipped).is_none(), "byte {byte} of {count}");
                }
                for cut in 0..bytes.len() {
                    assert!(load(form, bytes[..cut].to_vec()).is_none(), "cut at {cut} of {count}");
                }
            }
        }
    }

    #[test]
    fn equal_prefixes_answer_the_newest_first() {
        let index: SealedIndex = load(Form::Head, encode(Form::Head, 3, TIE, &[(5, 10), (5, 30), (5, 20)])).unwrap();
        assert_eq!(index.find(5, |_| true).unwrap(), Some(30));
        assert_eq!(index.find(5, |offset| offset < 30).unwrap(), Some(20));
    }

    #[test]
    fn an_index_out_of_order_is_none_though_its_check_is_right() {
        let entries: Vec<IndexEntry> = words().take(100).zip(100..).collect();
        let sound = encode(Form::Seal, 3, TIE, &entries);
        let (table_at, table_bytes) = (head_bytes(Form::Seal), 5 * 4);
        let prefixes_at = (table_at + table_bytes).next_multiple_of(8);
        let forged = |change: &dyn Fn(&mut Vec<u8>)| {
            let mut bytes = sound.clone();
            change(&mut bytes);
            check(Form::Seal, &mut bytes);
            load(Form::Seal, bytes)
        };
        assert!(forged(&|_| {}).is_some());
        assert!(forged(&|bytes| bytes[prefixes_at..prefixes_at + 16].rotate_left(8)).is_none(), "unsorted");
        for step in 0..5 {
            assert!(forged(&|bytes| bytes[table_at + step * 4] ^= 1).is_none(), "step {step}");
        }
        for bits in [0_u32, 1, 3, 24, 25, 63, 64, u32::MAX] {
            assert!(forged(&|bytes| bytes[BITS_AT..BITS_AT + 4].copy_from_slice(&bits.to_le_bytes())).is_none());
        }
        for count in [0_u64, 99, 101, u64::from(u32::MAX), u64::MAX, 1 << 61] {
            assert!(forged(&|bytes| bytes[COUNT_AT..COUNT_AT + 8].copy_from_slice(&count.to_le_bytes())).is_none());
        }
    }
}
