//! Going to and fro among the entries of a directory, which are lent: no entry is copied, and nothing is allocated but
//! where a piece is read.

use alloc::vec::Vec;
use core::fmt;

use super::{
    Direction, bad,
    cursor::{check_behind, check_below, view},
    inconsistent,
    node::{INLINE, MODE, NodeView},
};
use crate::{
    ByteReader, Bytes, EntryKind, FormatError, Kind, ObjRef, Object, Source, Target, codec::DecodeError, lent,
};

/// A position among the entries of one directory: on an entry, or between two of them.
///
/// What it stands on is lent ([`EntryCursor::entry`]) until it moves. It reads one piece of each level at a time.
pub struct EntryCursor<'a, S> {
    source: &'a S,
    root: Option<ObjRef>,
    // From the root down to the piece above the leaf; each with the index of the item that is current.
    above: Vec<(Object<'a>, usize)>,
    leaf: Option<LentLeaf<'a>>,
    // The place in the leaf, and whether the cursor is on that entry or before it.
    at: usize,
    on: bool,
}

impl<S> fmt::Debug for EntryCursor<'_, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EntryCursor").field("root", &self.root).field("at", &self.at).finish_non_exhaustive()
    }
}

/// A leaf, of which the header was read.
struct LentLeaf<'a> {
    object: Object<'a>,
    count: usize,
    // Where the ends of the items are in the body, and the items.
    ends_at: usize,
    items_at: usize,
    is_wide: bool,
    // The ends, of two bytes each, and the items, where the source lends both.
    narrow: Option<(&'a [u8], &'a [u8])>,
}

impl<'a> LentLeaf<'a> {
    fn new(object: Object<'a>) -> Result<Self, FormatError> {
        let node = view(&object)?;
        let (count, items_at) = (node.len(), node.items_at());
        let is_wide = node.is_wide();
        let ends_at = items_at - count * if is_wide { 4 } else { 2 };
        let lent = object.lent_body().filter(|_| !is_wide);
        let narrow = lent.and_then(|body| Some((body.get(ends_at..items_at)?, body.get(items_at..)?)));
        Ok(Self { object, count, ends_at, items_at, is_wide, narrow })
    }

    /// Returns an item of a leaf that is lent and narrow, as most are: of each, both ends lie in four bytes side by side.
    #[inline]
    fn narrow_item(&self, index: usize) -> Option<&'a [u8]> {
        let (ends, items) = self.narrow?;
        let (start, end) = match index.checked_sub(1) {
            Some(before) => {
                let [a, b, c, d] = *ends.get(before * 2..)?.first_chunk()?;
                (u16::from_le_bytes([a, b]), u16::from_le_bytes([c, d]))
            }
            None => (0, u16::from_le_bytes(*ends.first_chunk()?)),
        };
        items.get(usize::from(start)..usize::from(end))
    }

    #[inline]
    fn end(&self, body: &[u8], index: usize) -> Option<usize> {
        if self.is_wide {
            let end = body.get(self.ends_at + index * 4..)?.first_chunk()?;
            return Some(u32::from_le_bytes(*end) as usize);
        }
        let end = body.get(self.ends_at + index * 2..)?.first_chunk()?;
        Some(usize::from(u16::from_le_bytes(*end)))
    }

    #[inline]
    fn item(&self, index: usize) -> Option<&[u8]> {
        let body = self.object.body();
        let start = if index == 0 { 0 } else { self.end(body, index - 1)? };
        body.get(self.items_at + start..self.items_at + self.end(body, index)?)
    }
}

/// An entry that a cursor lends.
pub struct LentEntry<'c, 'a> {
    step: &'c [u8],
    tag: u8,
    // What follows the step.
    rest: &'c [u8],
    leaf: &'c LentLeaf<'a>,
    index: usize,
}

impl fmt::Debug for LentEntry<'_, '_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LentEntry").field("step", &Bytes::from(self.step)).finish_non_exhaustive()
    }
}

impl<'c, 'a> LentEntry<'c, 'a> {
    /// Returns the step that it is bound to.
    #[must_use]
    #[inline]
    pub const fn step(&self) -> &'c [u8] {
        self.step
    }

    /// Returns the value, if it lives in the directory itself.
    #[must_use]
    #[inline]
    pub fn inline(&self) -> Option<&'c [u8]> {
        if self.tag & (INLINE | MODE) != INLINE {
            return None;
        }
        if let Some((&length, value)) = self.rest.split_first()
            && length < 0x80
            && value.len() == usize::from(length)
        {
            return Some(value);
        }
        ByteReader::new(self.rest).prefixed().ok()
    }

    /// Returns what the entry is and what it leads to.
    ///
    /// # Errors
    /// [`FormatError::Decode`] if the item makes no sense.
    pub fn bound(&self) -> Result<(EntryKind, Target<'a>), FormatError> {
        let node = view(&self.leaf.object)?;
        let (kind, _, target) = node.bound(&self.leaf.object, self.index).map_err(bad(Kind::Node))?;
        Ok((kind, target))
    }
}

impl<'a, S: Source> EntryCursor<'a, S> {
    /// Returns a cursor before the first entry of a directory (`None`: one without entries). Nothing is read yet.
    pub const fn new(source: &'a S, dir: Option<ObjRef>) -> Self {
        Self { source, root: dir, above: Vec::new(), leaf: None, at: 0, on: false }
    }

    /// Goes before the first entry that is at least `step`.
    ///
    /// # Errors
    /// Those of the source; the cursor is then before the first entry.
    pub fn seek(&mut self, step: &[u8]) -> Result<(), S::Error> {
        self.seek_by(|node| Ok(node.last_at_most(step).map_err(bad(Kind::Node))?.unwrap_or(0)))?;
        let Some(leaf) = &self.leaf else { return Ok(()) };
        match view(&leaf.object).and_then(|node| node.first_at_least(step).map_err(bad(Kind::Node))) {
            Ok(at) => self.at = at,
            Err(error) => {
                self.seek_start();
                return Err(error.into());
            }
        }
        Ok(())
    }

    /// Goes before entry `index`, counted from zero, reading one piece of each level; behind the last one if there are
    /// fewer.
    ///
    /// # Errors
    /// As [`EntryCursor::seek`].
    pub fn seek_nth(&mut self, index: u64) -> Result<(), S::Error> {
        let mut rest = index;
        self.seek_by(|node| {
            for at in 0..node.len() {
                let below = node.child(at).map_err(bad(Kind::Node))?.count;
                if rest < below || at + 1 == node.len() {
                    return Ok(at);
                }
                rest -= below;
            }
            Err(inconsistent("an inner piece is empty"))
        })?;
        if let Some(leaf) = &self.leaf {
            self.at = usize::try_from(rest).map_or(leaf.count, |rest| rest.min(leaf.count));
        }
        Ok(())
    }

    /// Goes before the first entry. Nothing is read yet.
    pub fn seek_start(&mut self) {
        self.above.clear();
        (self.leaf, self.at, self.on) = (None, 0, false);
    }

    /// Goes behind the last entry.
    ///
    /// # Errors
    /// As [`EntryCursor::seek`].
    pub fn seek_end(&mut self) -> Result<(), S::Error> {
        self.seek_by(|node| Ok(node.len().saturating_sub(1)))?;
        self.at = self.leaf.as_ref().map_or(0, |leaf| leaf.count);
        Ok(())
    }

    /// Goes down from the root to a leaf, by the child that `choose` takes of each piece above the leaves.
    fn seek_by(&mut self, choose: impl FnMut(&NodeView<'_>) -> Result<usize, FormatError>) -> Result<(), S::Error> {
        self.seek_start();
        let Some(root) = self.root else { return Ok(()) };
        let root = self.read(&root)?;
        let done = self.descend(root, choose);
        if done.is_err() {
            self.seek_start();
        }
        done
    }

    #[inline]
    fn read(&self, at: &ObjRef) -> Result<Object<'a>, S::Error> {
        match lent(self.source, Kind::Node, at) {
            Some(object) => Ok(object),
            None => self.source.read(Kind::Node, at),
        }
    }

    fn descend(
        &mut self,
        mut object: Object<'a>,
        mut choose: impl FnMut(&NodeView<'_>) -> Result<usize, FormatError>,
    ) -> Result<(), S::Error> {
        loop {
            let node = view(&object)?;
            if node.level == 0 {
                break;
            }
            let index = choose(&node)?;
            let child = ObjRef::new(node.child(index).map_err(bad(Kind::Node))?.oid, object.child(index));
            let below = self.read(&child)?;
            check_below(&node, &view(&below)?)?;
            self.above.push((object, index));
            object = below;
        }
        (self.leaf, self.at, self.on) = (Some(LentLeaf::new(object)?), 0, false);
        Ok(())
    }

    /// Goes on to the next entry; returns whether there is one. Behind the last entry the cursor stays.
    ///
    /// # Errors
    /// Those of the source. The cursor stays where it was.
    #[inline]
    #[allow(clippy::should_implement_trait, reason = "an iterator cannot lend")]
    pub fn next(&mut self) -> Result<bool, S::Error> {
        if self.next_in_leaf() { Ok(true) } else { self.next_leaf() }
    }

    /// Goes on to the next entry if it is in the same piece, so that nothing is read; returns whether it is. Else the cursor
    /// stays where it was.
    #[inline]
    pub fn next_in_leaf(&mut self) -> bool {
        let next = self.at + usize::from(self.on);
        let is_here = self.leaf.as_ref().is_some_and(|leaf| next < leaf.count);
        if is_here {
            (self.at, self.on) = (next, true);
        }
        is_here
    }

    /// Goes back to the entry before; returns whether there is one. Before the first entry the cursor stays.
    ///
    /// # Errors
    /// As [`EntryCursor::next`].
    #[inline]
    pub fn previous(&mut self) -> Result<bool, S::Error> {
        if self.at > 0 {
            (self.at, self.on) = (self.at - 1, true);
            return Ok(true);
        }
        self.previous_leaf()
    }

    #[inline(never)]
    fn next_leaf(&mut self) -> Result<bool, S::Error> {
        if self.leaf.is_none() {
            self.seek_by(|_| Ok(0))?;
        } else if !self.turn(Direction::Forward, |node, index| (index + 1 < node.len()).then_some(index + 1), |_| 0)? {
            (self.at, self.on) = (self.leaf.as_ref().map_or(0, |leaf| leaf.count), false);
            return Ok(false);
        }
        self.on = self.leaf.as_ref().is_some_and(|leaf| leaf.count > 0);
        Ok(self.on)
    }

    fn previous_leaf(&mut self) -> Result<bool, S::Error> {
        let last = |node: &NodeView<'_>| node.len().saturating_sub(1);
        if self.leaf.is_none() || !self.turn(Direction::Reverse, |_, index| index.checked_sub(1), last)? {
            (self.at, self.on) = (0, false);
            return Ok(false);
        }
        // No leaf below another piece is empty.
        self.at = self.leaf.as_ref().map_or(0, |leaf| leaf.count.saturating_sub(1));
        self.on = true;
        Ok(true)
    }

    /// Goes to the leaf beside, in a direction: up to the first piece where `beside` names another child, and down again by
    /// `choose`. Returns whether there is one.
    fn turn(
        &mut self,
        direction: Direction,
        beside: impl Fn(&NodeView<'_>, usize) -> Option<usize>,
        choose: impl Fn(&NodeView<'_>) -> usize,
    ) -> Result<bool, S::Error> {
        let mut found = None;
        for (depth, (object, index)) in self.above.iter().enumerate().rev() {
            if let Some(index) = beside(&view(object)?, *index) {
                found = Some((depth, index));
                break;
            }
        }
        let Some((depth, index)) = found else { return Ok(false) };
        // What cannot be read leaves the cursor where it was.
        let mut below: Vec<(Object<'a>, usize)> = Vec::new();
        let mut next = self.above[depth].0.clone();
        let mut taken = index;
        loop {
            let node = view(&next)?;
            let child = ObjRef::new(node.child(taken).map_err(bad(Kind::Node))?.oid, next.child(taken));
            let object = self.read(&child)?;
            let piece = view(&object)?;
            check_below(&node, &piece)?;
            if piece.level == 0 {
                if let Some(leaf) = &self.leaf {
                    check_behind(&view(&leaf.object)?, &piece, direction)?;
                }
                let leaf = LentLeaf::new(object)?;
                self.above.truncate(depth);
                self.above.extend(below);
                self.above.push((next, taken));
                (self.leaf, self.at, self.on) = (Some(leaf), 0, false);
                return Ok(true);
            }
            let choice = choose(&piece);
            below.push((next, taken));
            (next, taken) = (object, choice);
        }
    }

    /// Returns the step and the value of the entry that the cursor is on, where both are short and the value lives in the
    /// directory, in a piece that the source lends; `None` in any other case. The fast way of [`EntryCursor::entry`], which
    /// answers for the rest.
    #[inline]
    pub fn short_entry(&self) -> Option<(&'a [u8], &'a [u8])> {
        let leaf = self.leaf.as_ref().filter(|_| self.on)?;
        let [tag, length, rest @ ..] = leaf.narrow_item(self.at)? else { return None };
        if tag & (INLINE | MODE) != INLINE || *length >= 0x80 {
            return None;
        }
        let (step, rest) = rest.split_at_checked(usize::from(*length))?;
        let (&length, value) = rest.split_first()?;
        (length < 0x80 && value.len() == usize::from(length)).then_some((step, value))
    }

    /// Returns the entry that the cursor is on; `None` between entries.
    ///
    /// # Errors
    /// [`FormatError::Decode`] if the item makes no sense.
    #[inline]
    pub fn entry(&self) -> Result<Option<LentEntry<'_, 'a>>, FormatError> {
        let Some(leaf) = self.leaf.as_ref().filter(|_| self.on) else { return Ok(None) };
        let found = leaf.item(self.at).and_then(|item| {
            let (&tag, tail) = item.split_first()?;
            let (step, rest) = split_step(tail)?;
            Some(LentEntry { step, tag, rest, leaf, index: self.at })
        });
        found.map(Some).ok_or_else(|| {
            bad(Kind::Node)(DecodeError { offset: leaf.items_at, reason: "an item ends before its step does" })
        })
    }
}

#[inline]
fn split_step(item: &[u8]) -> Option<(&[u8], &[u8])> {
    let (&length, rest) = item.split_first()?;
    if length < 0x80 {
        return rest.split_at_checked(usize::from(length));
    }
    let mut reader = ByteReader::new(item);
    let step = reader.prefixed().ok()?;
    Some((step, item.get(reader.offset()..)?))
}
