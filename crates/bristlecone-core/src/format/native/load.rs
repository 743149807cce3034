//! A directory made of entries that come in order: pieces are written as soon as it is sure where they end.
//!
//! Whether an item begins a piece depends on no item beyond a weight of W on either side (`cut`). So each level holds the
//! items of its last pieces, and what hashes and weights a little before them were; memory does not grow with the directory.

use alloc::vec::Vec;

use smallvec::SmallVec;

use super::{
    Native, cut,
    cut::{Token, step_hash},
    node::{
        EncodeItem, NodeChild, check_length, encode, has_child, item_child, item_step, leaf_item_bytes,
        write_inner_item, write_leaf_item,
    },
    update::check_target,
};
use crate::{ChangeTarget, EntryKind, FormatError, Kind, Location, Mode, ObjRef, Oid, STEP_BYTES_MAX, Sink, escape};

/// A level looks for ends of pieces when it holds this many items or bytes more than it had to keep. Each time it looks at
/// those that it kept again, which are few.
const ITEMS_MORE: usize = 1024;
const BYTES_MORE: usize = 1 << 20;

/// Makes a directory of entries that come in the order of their steps.
///
/// **Law.** The directory is the one that [`Format::update`](crate::Format::update) makes of the same entries.
#[derive(Debug)]
pub struct DirBuilder {
    native: Native,
    levels: Vec<LevelBuilder>,
    last: Vec<u8>,
    count: u64,
    body: Vec<u8>,
}

/// The end of a level that is being made.
#[derive(Debug, Default)]
struct LevelBuilder {
    // The items that are not written yet; the first begins a piece.
    buffer: Vec<u8>,
    items: Vec<LoadedItem>,
    // One for each item, behind those of as many items that were written as weigh more than a piece.
    tokens: Vec<Token>,
    written: usize,
    // Whether there were items before the first token.
    is_open: bool,
    // When to look for ends of pieces again.
    items_due: usize,
    bytes_due: usize,
    pieces: u64,
    // The first piece: the root, if no other comes.
    first: Option<ObjRef>,
}

#[derive(Clone, Copy, Debug)]
struct LoadedItem {
    end: u32,
    at: Location,
    count: u64,
    fingerprint: u8,
}

/// An item as it is written into a piece.
struct PieceItem<'i> {
    bytes: &'i [u8],
    fingerprint: u8,
}

impl EncodeItem for PieceItem<'_> {
    fn bytes(&self) -> &[u8] {
        self.bytes
    }

    fn fingerprint(&self) -> u8 {
        self.fingerprint
    }
}

impl LevelBuilder {
    fn new() -> Self {
        Self { items_due: ITEMS_MORE, bytes_due: BYTES_MORE, ..Self::default() }
    }

    /// Records the item that was just written to the buffer.
    fn push(&mut self, token: Token, at: Location, count: u64, fingerprint: u8) {
        self.items.push(LoadedItem { end: self.buffer.len() as u32, at, count, fingerprint });
        self.tokens.push(token);
    }

    fn is_due(&self) -> bool {
        self.items.len() >= self.items_due || self.buffer.len() >= self.bytes_due
    }

    /// Returns where pieces begin, as far as that is sure, and then where the last of them ends: at the start of one that is
    /// not written yet, or, if `whole`, behind the last item.
    fn cuts(&self, weight_max: u64, whole: bool) -> Vec<usize> {
        let starts = cut::starts(&self.tokens, weight_max, self.is_open, !whole);
        let mut sure = self.tokens.len();
        let mut weight = 0u64;
        // An item with more than a piece's weight from it on is decided, whatever follows.
        while !whole && weight <= weight_max && sure > 0 {
            sure -= 1;
            weight = weight.saturating_add(self.tokens[sure].weight);
        }
        let sure = if !whole && weight <= weight_max { 0 } else { sure + usize::from(!whole) };
        // The first item begins a piece: it was found to when those before it were written.
        let later = (self.written + 1..sure).filter(|&token| starts[token]).map(|token| token - self.written);
        let mut cuts: Vec<usize> = core::iter::once(0).chain(later).collect();
        if whole && !self.items.is_empty() {
            cuts.push(self.items.len());
        }
        cuts
    }

    /// Forgets the first items, which were written.
    fn forget(&mut self, count: usize, weight_max: u64) {
        let bytes = start(&self.items, count);
        self.buffer.drain(..bytes);
        self.items.drain(..count);
        self.items.iter_mut().for_each(|item| item.end -= bytes as u32);
        self.written += count;
        let (mut kept, mut weight) = (self.written, 0u64);
        while kept > 0 && weight <= weight_max {
            kept -= 1;
            weight = weight.saturating_add(self.tokens[kept].weight);
        }
        self.is_open |= kept > 0;
        self.tokens.drain(..kept);
        self.written -= kept;
        self.items_due = self.items.len() + ITEMS_MORE;
        self.bytes_due = self.buffer.len() + BYTES_MORE;
    }
}

/// Returns where an item begins in the buffer.
fn start(items: &[LoadedItem], index: usize) -> usize {
    index.checked_sub(1).map_or(0, |before| items[before].end as usize)
}

impl DirBuilder {
    /// Begins a directory.
    #[must_use]
    pub const fn new(native: Native) -> Self {
        Self { native, levels: Vec::new(), last: Vec::new(), count: 0, body: Vec::new() }
    }

    /// Returns the number of entries so far.
    #[must_use]
    pub const fn count(&self) -> u64 {
        self.count
    }

    /// Fails where no entry with this step can be added next: for a caller that makes a target only for one that can.
    ///
    /// # Errors
    /// As [`DirBuilder::push`], for the step.
    pub fn check_step(&self, step: &[u8]) -> Result<(), FormatError> {
        if step.len() > STEP_BYTES_MAX {
            return Err(FormatError::Unsupported { format: "native", what: "a step of more than 4096 bytes" });
        }
        if self.count > 0 && step <= &self.last[..] {
            return Err(FormatError::Unsorted { index: self.count, step: escape(step) });
        }
        Ok(())
    }

    /// Adds an entry behind those there are, and gives the sink the pieces that are complete. The target is inline if and
    /// only if it is a value that the format inlines, as for [`Format::update`](crate::Format::update).
    ///
    /// # Errors
    /// [`FormatError::Unsorted`] for a step that does not come after the one before; [`FormatError::Unsupported`] for one
    /// of more than 4,096 bytes, for an inline value of more than 16 MiB where the directory is split, and where one that is not would
    /// have 4 GiB. The builder stays as it was.
    pub fn push<K: Sink>(
        &mut self,
        sink: &mut K,
        step: &[u8],
        kind: EntryKind,
        target: &ChangeTarget<'_>,
    ) -> Result<(), FormatError> {
        self.check_step(step)?;
        check_target(&self.native, target)?;
        if !self.native.split {
            let (items, bytes) =
                self.levels.first().map_or((0, 0), |leaves| (leaves.items.len(), leaves.buffer.len() as u64));
            check_length(items + 1, leaf_item_bytes(step, Mode::USUAL, kind, target).saturating_add(bytes))?;
        }
        self.last.clear();
        self.last.extend_from_slice(step);
        self.count += 1;
        if self.levels.is_empty() {
            self.levels.push(LevelBuilder::new());
        }
        let leaves = &mut self.levels[0];
        write_leaf_item(&mut leaves.buffer, step, Mode::USUAL, kind, target);
        let at = if let ChangeTarget::Object { at, .. } = target { at.at } else { Location::NONE };
        let hash = step_hash(step);
        leaves.push(Token { hash, weight: cut::weight(0, step) }, at, 1, hash as u8);
        // Without cuts a directory is one piece, however long.
        if leaves.is_due() && self.native.split {
            self.write_sure(sink, 0, false);
        }
        Ok(())
    }

    /// Goes on after what the sink took was appended at `base`: places that were pending are known now.
    pub fn resolve(&mut self, base: Location) {
        for level in &mut self.levels {
            level.items.iter_mut().for_each(|item| item.at = item.at.resolve(base));
            if let Some(first) = &mut level.first {
                first.at = first.at.resolve(base);
            }
        }
    }

    /// Calls `each` with the objects that pieces still to come will name and that were appended before: a store that drops them
    /// meanwhile must not take those pieces.
    pub fn each_appended(&self, each: &mut dyn FnMut(Oid)) {
        for (level, number) in self.levels.iter().zip(0..) {
            for (index, item) in level.items.iter().enumerate() {
                let bytes = &level.buffer[start(&level.items, index)..item.end as usize];
                // An item of our own making can be read.
                if item.at.pending_offset().is_none()
                    && has_child(number, bytes)
                    && let Ok(child) = item_child(number, bytes)
                {
                    each(child);
                }
            }
        }
    }

    /// Gives the rest to the sink and returns the directory; `None` if it is empty.
    pub fn finish<K: Sink>(mut self, sink: &mut K) -> Option<ObjRef> {
        let mut level = 0;
        while level < self.levels.len() {
            self.write_sure(sink, level, true);
            if self.levels[level].pieces == 1 {
                return self.levels[level].first;
            }
            level += 1;
        }
        None
    }

    /// Writes the pieces of a level of which it is sure where they end; all of them, if the level is whole.
    fn write_sure<K: Sink>(&mut self, sink: &mut K, index: usize, whole: bool) {
        if self.levels.len() == index + 1 {
            self.levels.push(LevelBuilder::new());
        }
        let (native, level_number) = (self.native, index as u8);
        let (levels, above) = self.levels.split_at_mut(index + 1);
        let (level, above) = (&mut levels[index], &mut above[0]);
        let cuts = level.cuts(native.weight_max(), whole);
        for piece in cuts.windows(2) {
            let (from, to) = (piece[0], piece[1]);
            let own = &level.items[from..to];
            let items: SmallVec<[PieceItem<'_>; 64]> = (from..to)
                .map(|at| PieceItem {
                    bytes: &level.buffer[start(&level.items, at)..level.items[at].end as usize],
                    fingerprint: level.items[at].fingerprint,
                })
                .collect();
            let oid = encode(&mut self.body, level_number, &items, native.group);
            let children = own.iter().zip(&items).filter(|(_, item)| has_child(level_number, item.bytes));
            let locations: SmallVec<[Location; 64]> = children.map(|(own, _)| own.at).collect();
            let at = sink.put(Kind::Node, oid, &self.body, &locations, &[]);
            level.pieces += 1;
            level.first.get_or_insert(ObjRef::new(oid, at));
            let tokens = &level.tokens[level.written + from..level.written + to];
            let weight = tokens.iter().map(|token| token.weight).fold(0, u64::saturating_add);
            let count = own.iter().map(|item| item.count).fold(0, u64::saturating_add);
            // An item of our own making has a step.
            let step = item_step(level_number, items[0].bytes).unwrap_or_default();
            write_inner_item(&mut above.buffer, &NodeChild { step, oid, count, weight });
            let hash = cut::level_hash(level_number + 1, step);
            above.push(Token { hash, weight: cut::weight(level_number + 1, step) }, at, count, 0);
        }
        let done = cuts.last().copied().unwrap_or(0);
        level.forget(done, native.weight_max());
        if above.is_due() {
            self.write_sure(sink, index + 1, false);
        }
    }
}
