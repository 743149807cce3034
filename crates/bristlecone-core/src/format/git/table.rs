//! The stored body of a tree: a table that finds entries, and Git's bytes. Section 3 of the format's page.

use alloc::vec::Vec;

use super::{
    Algorithm,
    raw::{NameOrder, RawEntries, RawEntry, compare, mode_of, usual},
};
use crate::{DecodeError, EntryKind, Location, Object, format::native::step_hash};

/// Trees of this many entries and more have slots; in smaller ones a lookup goes by halves.
pub(super) const SLOTS_MIN: usize = 16;
/// How many slots are tried for a name.
pub(super) const PROBES: usize = 32;
/// Set in the count if ends have four bytes instead of two.
pub(super) const WIDE: u32 = 1 << 31;
/// In trees of up to this many entries, slots have two bytes.
pub(super) const SHORT_SLOTS_MAX: usize = 65_534;

/// The longest tree, in bytes as Git has them: with its table it fits into a record.
pub(super) const RAW_BYTES_MAX: usize = 2 << 30;

const fn wrong(offset: usize, reason: &'static str) -> DecodeError {
    DecodeError { offset, reason }
}

/// How large the parts of a table are.
#[derive(Clone, Copy)]
struct TableSizes {
    end_bytes: usize,
    slot_bytes: usize,
    // A power of two, or none.
    slots: usize,
}

impl TableSizes {
    #[inline]
    const fn new(count: usize, wide: bool) -> Self {
        Self {
            end_bytes: if wide { 4 } else { 2 },
            slot_bytes: if count <= SHORT_SLOTS_MAX { 2 } else { 4 },
            slots: if count < SLOTS_MIN { 0 } else { (2 * count).next_power_of_two() },
        }
    }

    #[inline]
    const fn table_bytes(&self, count: usize) -> usize {
        4 + count * self.end_bytes + self.slots * self.slot_bytes
    }
}

/// The stored body of a tree, in place.
#[derive(Clone, Copy)]
pub(super) struct GitTable<'b> {
    pub(super) count: usize,
    wide: bool,
    ends: &'b [u8],
    slots: &'b [u8],
    /// Git's bytes.
    pub(super) raw: &'b [u8],
    /// Where those begin.
    pub(super) raw_at: usize,
    pub(super) oid_bytes: usize,
}

impl<'b> GitTable<'b> {
    /// Takes a body apart. What the table says is checked when it is used.
    #[inline]
    pub(super) fn parse(oid_bytes: usize, body: &'b [u8]) -> Result<Self, DecodeError> {
        let (head, rest) = body.split_first_chunk::<4>().ok_or(wrong(0, "it is shorter than its header"))?;
        let head = u32::from_le_bytes(*head);
        let (count, wide) = ((head & !WIDE) as usize, head & WIDE != 0);
        // Each entry has an end of two bytes, so that the sizes below cannot overflow.
        if count > rest.len() / 2 {
            return Err(wrong(0, "it has more entries than bytes"));
        }
        let sizes = TableSizes::new(count, wide);
        let parts = rest.split_at_checked(count * sizes.end_bytes);
        let (ends, rest) = parts.ok_or(wrong(4, "it ends within its table"))?;
        let parts = rest.split_at_checked(sizes.slots * sizes.slot_bytes);
        let (slots, raw) = parts.ok_or(wrong(4, "it ends within its table"))?;
        Ok(Self { count, wide, ends, slots, raw, raw_at: body.len() - raw.len(), oid_bytes })
    }

    /// Returns where entry `index` ends in Git's bytes. It is not checked.
    #[inline(always)]
    pub(super) fn end(&self, index: usize) -> usize {
        if self.wide {
            self.ends.get(index * 4..).and_then(|rest| rest.first_chunk()).map_or(0, |end| u32::from_le_bytes(*end))
                as usize
        } else {
            usize::from(
                self.ends
                    .get(index * 2..)
                    .and_then(|rest| rest.first_chunk())
                    .map_or(0, |end| u16::from_le_bytes(*end)),
            )
        }
    }

    /// Returns where entry `index` begins in Git's bytes. It is not checked.
    #[inline]
    pub(super) fn start(&self, index: usize) -> usize {
        if index == 0 { 0 } else { self.end(index - 1) }
    }

    /// Calls `each` for the ends of entries. They are not checked.
    #[inline]
    pub(super) fn each_end(&self, entries: core::ops::Range<usize>, mut each: impl FnMut(usize)) {
        if self.wide {
            let (words, _) = self.ends.as_chunks::<4>();
            words[entries].iter().for_each(|end| each(u32::from_le_bytes(*end) as usize));
        } else {
            let (words, _) = self.ends.as_chunks::<2>();
            words[entries].iter().for_each(|end| each(usize::from(u16::from_le_bytes(*end))));
        }
    }

    /// Returns an entry's bytes; `None` if the table is wrong about them.
    #[inline]
    pub(super) fn bytes(&self, index: usize) -> Option<&'b [u8]> {
        self.raw.get(self.start(index)..self.end(index))
    }

    /// Returns entry `index` in Git's order.
    #[inline]
    pub(super) fn entry(&self, index: usize) -> Result<RawEntry<'b>, DecodeError> {
        self.entry_or_none(index).ok_or(wrong(self.raw_at + self.start(index), "the table is not that of its entries"))
    }

    #[inline]
    pub(super) fn entry_or_none(&self, index: usize) -> Option<RawEntry<'b>> {
        let entry = self.bytes(index)?;
        let (named, oid) = entry.split_at_checked(entry.len().checked_sub(self.oid_bytes)?)?;
        let mode = mode_of(named)?;
        let (zero, name) = named.get(mode.len() + 1..)?.split_last()?;
        (*zero == 0).then_some(RawEntry { mode, name, oid })
    }

    /// Returns the index of the entry that is bound to a name.
    pub(super) fn find(&self, name: &[u8]) -> Result<Option<usize>, DecodeError> {
        if self.slots.is_empty() {
            for index in 0..self.count {
                if self.entry(index)?.name == name {
                    return Ok(Some(index));
                }
            }
            return Ok(None);
        }
        let mut slot = step_hash(name) as usize;
        for _ in 0..PROBES {
            let Some(index) = self.slot(slot) else { return Ok(None) };
            if self.entry(index)?.name == name {
                return Ok(Some(index));
            }
            slot = slot.wrapping_add(1);
        }
        self.search(name)
    }

    #[inline(always)]
    pub(super) const fn has_slots(&self) -> bool {
        !self.slots.is_empty()
    }

    /// Returns the index of the entry that a slot names; slots follow each other in a circle. `None`: it is empty.
    #[inline]
    pub(super) fn slot(&self, slot: usize) -> Option<usize> {
        let number = if self.count <= SHORT_SLOTS_MAX {
            let at = (slot & (self.slots.len() / 2 - 1)) * 2;
            u32::from(u16::from_le_bytes(*self.slots.get(at..)?.first_chunk()?))
        } else {
            let at = (slot & (self.slots.len() / 4 - 1)) * 4;
            u32::from_le_bytes(*self.slots.get(at..)?.first_chunk()?)
        };
        (number as usize).checked_sub(1)
    }

    /// Finds a name by halves: as that of a file, then as that of a directory.
    #[cold]
    pub(super) fn search(&self, name: &[u8]) -> Result<Option<usize>, DecodeError> {
        for dir in [false, true] {
            let index = self.first_at_least(name, dir, 0)?;
            if index < self.count && self.entry(index)?.name == name {
                return Ok(Some(index));
            }
        }
        Ok(None)
    }

    /// Returns the index of the first entry from `from` on that is not before this one in Git's order. The closer it
    /// is, the faster.
    pub(super) fn first_at_least(&self, name: &[u8], dir: bool, from: usize) -> Result<usize, DecodeError> {
        let before = |index: usize| {
            let entry = self.entry(index)?;
            Ok(compare(entry.name, entry.kind() == EntryKind::Dir, name, dir).is_lt())
        };
        let (mut low, mut stride) = (from, 1);
        while low + stride <= self.count && before(low + stride - 1)? {
            low += stride;
            stride *= 2;
        }
        let mut high = (low + stride - 1).min(self.count);
        while low < high {
            let middle = low + (high - low) / 2;
            if before(middle)? {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        Ok(low)
    }

    /// Whether entry `index` is no object of this store.
    #[inline]
    pub(super) fn is_foreign(&self, index: usize) -> bool {
        match self.raw.get(self.start(index)..).and_then(usual) {
            Some((kind, _)) => kind == EntryKind::Foreign,
            None => self.entry_or_none(index).is_some_and(|entry| entry.kind() == EntryKind::Foreign),
        }
    }

    /// Returns where the object of entry `index` is.
    #[inline]
    pub(super) fn location(&self, object: &Object<'_>, index: usize) -> Location {
        match object.children() {
            0 => Location::NONE,
            children if children == self.count => object.child(index),
            _ => object.child((0..index).filter(|&index| !self.is_foreign(index)).count()),
        }
    }
}

/// Appends the room for the table of a tree of `count` entries and `raw_bytes` bytes to `out`, and returns its length.
pub(super) fn reserve(out: &mut Vec<u8>, count: usize, raw_bytes: usize) -> usize {
    let bytes = TableSizes::new(count, raw_bytes > usize::from(u16::MAX)).table_bytes(count);
    out.reserve(bytes + raw_bytes);
    out.resize(out.len() + bytes, 0);
    bytes
}

/// Fills in the table of the entries that end at `ends` of `raw`. `table` is all zeroes, as [`reserve`] made it.
///
/// Fails where the bytes of an entry do not make one, as in a damaged tree.
pub(super) fn fill(oid_bytes: usize, table: &mut [u8], raw: &[u8], ends: &[u32]) -> Result<(), DecodeError> {
    let (count, wide) = (ends.len(), raw.len() > usize::from(u16::MAX));
    let sizes = TableSizes::new(count, wide);
    let (head, rest) = table.split_at_mut(4);
    let (ends_out, slots) = rest.split_at_mut(count * sizes.end_bytes);
    head.copy_from_slice(&(count as u32 | if wide { WIDE } else { 0 }).to_le_bytes());
    if wide {
        let (words, _) = ends_out.as_chunks_mut::<4>();
        words.iter_mut().zip(ends).for_each(|(word, end)| *word = end.to_le_bytes());
    } else {
        let (words, _) = ends_out.as_chunks_mut::<2>();
        words.iter_mut().zip(ends).for_each(|(word, end)| *word = (*end as u16).to_le_bytes());
    }
    let names = TableNames { oid_bytes, raw, ends };
    match (sizes.slots, sizes.slot_bytes) {
        (0, _) => Ok(()),
        (_, 2) => names.fill(slots.as_chunks_mut::<2>().0, |number| (number as u16).to_le_bytes()),
        _ => names.fill(slots.as_chunks_mut::<4>().0, u32::to_le_bytes),
    }
}

/// The names of sound entries.
struct TableNames<'b> {
    oid_bytes: usize,
    raw: &'b [u8],
    ends: &'b [u32],
}

impl TableNames<'_> {
    /// Gives every entry, in order, the first slot that is free for it; none if too many are taken.
    fn fill<const N: usize>(&self, slots: &mut [[u8; N]], encode: impl Fn(u32) -> [u8; N]) -> Result<(), DecodeError> {
        let mask = slots.len() - 1;
        let mut start = 0;
        for (index, &end) in self.ends.iter().enumerate() {
            let damaged = wrong(start, "the table is not that of its entries");
            let name = self.name(start, end as usize).ok_or(damaged)?;
            start = end as usize;
            let mut slot = step_hash(name) as usize & mask;
            for _ in 0..PROBES {
                if slots[slot] == [0; N] {
                    slots[slot] = encode(index as u32 + 1);
                    break;
                }
                slot = (slot + 1) & mask;
            }
        }
        Ok(())
    }

    #[inline]
    fn name(&self, start: usize, end: usize) -> Option<&[u8]> {
        let named = self.raw.get(start..end.checked_sub(self.oid_bytes + 1)?)?;
        named.get(mode_of(named)?.len() + 1..)
    }
}

/// Appends the stored body of the tree whose bytes, as Git has them, are `raw`, after checking those and calling
/// `each` for its entries.
pub(super) fn put_body(
    algorithm: Algorithm,
    raw: &[u8],
    out: &mut Vec<u8>,
    each: &mut dyn FnMut(&RawEntry<'_>),
) -> Result<(), DecodeError> {
    let ends = checked_ends(algorithm, raw, each)?;
    let at = out.len();
    let table = reserve(out, ends.len(), raw.len());
    fill(algorithm.oid_bytes(), &mut out[at..at + table], raw, &ends)?;
    out.extend_from_slice(raw);
    Ok(())
}

/// Checks Git's bytes of a tree, calls `each` for its entries, and returns where they end.
pub(super) fn checked_ends<'b>(
    algorithm: Algorithm,
    raw: &'b [u8],
    each: &mut dyn FnMut(&RawEntry<'b>),
) -> Result<Vec<u32>, DecodeError> {
    if raw.len() > RAW_BYTES_MAX {
        return Err(wrong(0, "a tree has at most 2 GiB"));
    }
    // The shortest entry has a digit, a space, one byte of name and a zero.
    let mut ends = Vec::with_capacity(raw.len() / (algorithm.oid_bytes() + 12));
    let mut order = NameOrder::default();
    let mut entries = RawEntries::new(algorithm.oid_bytes(), raw);
    loop {
        let offset = entries.offset();
        let Some(entry) = entries.next().transpose()? else { return Ok(ends) };
        order.next(entry.name, entry.kind() == EntryKind::Dir).map_err(|reason| wrong(offset, reason))?;
        each(&entry);
        ends.push(entries.offset() as u32);
    }
}

/// Checks every byte of a stored body and calls `each` for its entries.
pub(super) fn check<'b>(
    algorithm: Algorithm,
    body: &'b [u8],
    each: &mut dyn FnMut(&RawEntry<'b>),
) -> Result<GitTable<'b>, DecodeError> {
    let table = GitTable::parse(algorithm.oid_bytes(), body)?;
    let ends = checked_ends(algorithm, table.raw, each)?;
    let mut made = Vec::new();
    // The length first: a count that is wrong must not make a large table.
    if ends.len() != table.count {
        return Err(wrong(0, "it does not count its entries"));
    }
    reserve(&mut made, ends.len(), table.raw.len());
    fill(algorithm.oid_bytes(), &mut made, table.raw, &ends)?;
    if made != body[..table.raw_at] {
        return Err(wrong(4, "the table is not that of its entries"));
    }
    Ok(table)
}
