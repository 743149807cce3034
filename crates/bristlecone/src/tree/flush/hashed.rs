//! Hashing values of a directory ahead of their turn, several at a time.

use std::ops::Range;

use bristlecone_core::{Format, Oid, Sink};

use super::{NewLeaf, PatchEdit};

/// Values of a directory with fewer edits are hashed one by one.
const HASHED_MIN: usize = 8;
/// So many values are hashed at a time.
const TOGETHER: usize = 64;

/// The ids of those of a directory's values that are hashed together, in the order of its edits.
pub(super) struct HashedValues<'t, I> {
    /// The edits whose values are not hashed yet.
    ahead: I,
    /// How long values are that are hashed so.
    bytes: Range<usize>,
    values: Vec<&'t [u8]>,
    /// The ids of the last values, and how many of them were given out.
    ids: Vec<Oid>,
    given: usize,
}

impl<'t, I: Iterator<Item = (&'t [u8], &'t PatchEdit)> + Clone> HashedValues<'t, I> {
    /// Begins with a directory's edits, which are so many; `None` where it is of no use.
    #[inline]
    pub(super) fn of<F: Format>(format: &F, edits: &I, count: usize) -> Option<Self> {
        if count < HASHED_MIN {
            return None;
        }
        let (together, inline) = (format.hashed_together(), format.inline_bytes_max());
        let bytes = together.start.max(inline + 1)..together.end;
        (!bytes.is_empty()).then(|| Self { ahead: edits.clone(), bytes, values: Vec::new(), ids: Vec::new(), given: 0 })
    }

    /// Returns the id of a value whose turn it is; `None` if it is not hashed ahead.
    #[inline]
    pub(super) fn next<F: Format>(&mut self, format: &F, sink: &impl Sink, leaf: &NewLeaf) -> Option<Oid> {
        self.value(leaf)?;
        if self.given == self.ids.len() {
            self.hash(format);
            sink.expect(&self.ids);
        }
        self.given += 1;
        self.ids.get(self.given - 1).copied()
    }

    /// Returns the value of a leaf if it is one of those that are hashed ahead.
    #[inline]
    fn value<'l>(&self, leaf: &'l NewLeaf) -> Option<&'l [u8]> {
        leaf.at_hand().filter(|value| self.bytes.contains(&value.len()))
    }

    fn hash<F: Format>(&mut self, format: &F) {
        self.values.clear();
        while self.values.len() < TOGETHER
            && let Some((_, edit)) = self.ahead.next()
        {
            if let PatchEdit::Leaf(leaf) | PatchEdit::Over(leaf) = edit
                && let Some(value) = self.value(leaf)
            {
                self.values.push(value);
            }
        }
        self.given = 0;
        self.ids.clear();
        format.contents_ids(&self.values, &mut self.ids);
    }
}
