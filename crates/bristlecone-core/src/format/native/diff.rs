//! What differs between two directories: two walks side by side that skip what both hold by id.

use alloc::vec::Vec;
use core::cmp::Ordering;

use super::{
    bad,
    cursor::{entry_at, load_child, view},
};
use crate::{Entry, Kind, ObjRef, Object, Oid, Source};

/// The bindings that differ between two directories, in order: before, after.
pub struct Differences<'a, S> {
    source: &'a S,
    before: Side<'a>,
    after: Side<'a>,
    from: Vec<u8>,
    to: Option<Vec<u8>>,
    failed: bool,
}

type Pair<'a> = (Option<Entry<'a>>, Option<Entry<'a>>);

/// A walk that may stand at an entry or at a whole piece.
struct Side<'a> {
    stack: Vec<(Object<'a>, usize)>,
}

/// Where a side stands.
struct Head<'h> {
    level: u8,
    step: &'h [u8],
    // The id of the piece, at levels above the leaves.
    piece: Option<Oid>,
}

impl<'a> Side<'a> {
    fn head(&self) -> Result<Option<Head<'_>>, crate::FormatError> {
        let Some((object, index)) = self.stack.last() else { return Ok(None) };
        let node = view(object)?;
        let wrong = bad(Kind::Node);
        let piece = if node.level > 0 { Some(node.child(*index).map_err(&wrong)?.oid) } else { None };
        Ok(Some(Head { level: node.level, step: node.step(*index).map_err(&wrong)?, piece }))
    }

    /// Goes past what is current.
    fn advance(&mut self) -> Result<(), crate::FormatError> {
        while let Some((object, index)) = self.stack.last_mut() {
            *index += 1;
            if *index < view(object)?.len() {
                return Ok(());
            }
            self.stack.pop();
        }
        Ok(())
    }

    fn push(&mut self, object: Object<'a>, from: &[u8]) -> Result<(), crate::FormatError> {
        let node = view(&object)?;
        let wrong = bad(Kind::Node);
        let index = if node.level > 0 {
            node.last_at_most(from).map_err(wrong)?.unwrap_or(0)
        } else {
            node.first_at_least(from).map_err(wrong)?
        };
        let count = node.len();
        if index < count {
            self.stack.push((object, index));
        } else if !self.stack.is_empty() {
            self.advance()?;
        }
        Ok(())
    }

    /// Replaces the piece that is current by its items.
    fn expand<S: Source>(&mut self, source: &'a S, from: &[u8]) -> Result<(), S::Error> {
        let Some((object, index)) = self.stack.last() else { return Ok(()) };
        let child = load_child(source, object, *index)?;
        Ok(self.push(child, from)?)
    }

    fn take(&mut self) -> Result<Option<Entry<'a>>, crate::FormatError> {
        let Some((object, index)) = self.stack.last() else { return Ok(None) };
        let entry = entry_at(object, *index)?;
        self.advance()?;
        Ok(Some(entry))
    }
}

impl<'a, S: Source> Differences<'a, S> {
    pub(super) fn new(
        source: &'a S,
        before: Option<&ObjRef>,
        after: Option<&ObjRef>,
        from: Option<&[u8]>,
        to: Option<&[u8]>,
    ) -> Result<Self, S::Error> {
        let from = from.unwrap_or_default().to_vec();
        let same = before.map(|at| at.oid) == after.map(|at| at.oid);
        let side = |root: Option<&ObjRef>| -> Result<Side<'a>, S::Error> {
            let mut side = Side { stack: Vec::new() };
            if let Some(at) = root.filter(|_| !same) {
                side.push(source.read(Kind::Node, at)?, &from)?;
            }
            Ok(side)
        };
        let (before, after) = (side(before)?, side(after)?);
        Ok(Self { source, before, after, from, to: to.map(<[u8]>::to_vec), failed: false })
    }

    fn step(&mut self) -> Result<Option<Pair<'a>>, S::Error> {
        loop {
            let inside = |head: &Head<'_>| self.to.as_ref().is_none_or(|to| head.step < &to[..]);
            let before = self.before.head()?.filter(inside);
            let after = self.after.head()?.filter(inside);
            let (expand_before, expand_after) = match (&before, &after) {
                (None, None) => return Ok(None),
                (Some(head), None) if head.level > 0 => (true, false),
                (None, Some(head)) if head.level > 0 => (false, true),
                (Some(_), None) => return Ok(Some((self.before.take()?, None))),
                (None, Some(_)) => return Ok(Some((None, self.after.take()?))),
                (Some(old), Some(new)) => {
                    if old.piece.is_some() && old.piece == new.piece {
                        self.before.advance()?;
                        self.after.advance()?;
                        continue;
                    }
                    let order = old.step.cmp(new.step);
                    match (old.level > 0, new.level > 0) {
                        // An entry below everything in the other side's piece stands alone.
                        (false, _) if order == Ordering::Less => return Ok(Some((self.before.take()?, None))),
                        (_, false) if order == Ordering::Greater => return Ok(Some((None, self.after.take()?))),
                        (false, false) => {
                            let (old, new) = (self.before.take()?, self.after.take()?);
                            if old == new {
                                continue;
                            }
                            return Ok(Some((old, new)));
                        }
                        (true, true) if old.level == new.level => (order.is_le(), order.is_ge()),
                        _ => (old.level > new.level, new.level > old.level),
                    }
                }
            };
            if expand_before {
                self.before.expand(self.source, &self.from)?;
            }
            if expand_after {
                self.after.expand(self.source, &self.from)?;
            }
        }
    }
}

impl<'a, S: Source> Iterator for Differences<'a, S> {
    type Item = Result<Pair<'a>, S::Error>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.failed {
            return None;
        }
        let step = self.step();
        self.failed = step.is_err();
        step.transpose()
    }
}
