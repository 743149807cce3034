//! What differs between two directories: two walks side by side that skip what both hold by id.

use alloc::{sync::Arc, vec::Vec};
use core::cmp::Ordering;

use super::{
    Direction, bad,
    cursor::{PassedPieces, check_below, view},
    list::entry_at,
};
use crate::{Entry, FormatError, Kind, Next, ObjRef, Object, ObjectWalk, Oid, Source, Window, format::EntryPair};

/// A walk over the bindings that differ between two directories, in order: before, after.
#[derive(Clone, Debug)]
pub struct NativeComparison<'a> {
    before: NativeDiffSide<'a>,
    after: NativeDiffSide<'a>,
    from: Arc<[u8]>,
    to: Option<Arc<[u8]>>,
    // The side whose piece was wanted last.
    wants_after: bool,
    scout: Option<NativeDiffScout>,
}

/// What a scout remembers.
#[derive(Clone, Copy, Debug)]
struct NativeDiffScout {
    /// Whether a piece was passed over. From there on what one side lacks may be in it, so that pairs mean nothing, and
    /// nothing is in them.
    lacking: bool,
    /// Whether a root was: what the other side has below its own says nothing of what will be wanted.
    rootless: bool,
}

/// A walk that may stand at an entry or at a whole piece.
#[derive(Clone, Debug)]
struct NativeDiffSide<'a> {
    // Until it is read.
    root: Option<ObjRef>,
    stack: Vec<(Object<'a>, usize)>,
    passed: PassedPieces<'a>,
}

/// Where a side stands.
struct DiffHead<'h> {
    level: u8,
    step: &'h [u8],
    // The id of the piece, at levels above the leaves.
    piece: Option<Oid>,
}

/// What the heads of both sides call for.
enum Turn {
    End,
    /// Both stand at the same piece.
    Pass,
    /// Entries of these sides.
    Take {
        before: bool,
        after: bool,
    },
    /// Pieces of these sides.
    Expand {
        before: bool,
        after: bool,
    },
}

impl<'a> NativeDiffSide<'a> {
    fn head(&self) -> Result<Option<DiffHead<'_>>, FormatError> {
        let Some((object, index)) = self.stack.last() else { return Ok(None) };
        let node = view(object)?;
        let wrong = bad(Kind::Node);
        let piece = if node.level > 0 { Some(node.child(*index).map_err(&wrong)?.oid) } else { None };
        Ok(Some(DiffHead { level: node.level, step: node.step(*index).map_err(&wrong)?, piece }))
    }

    /// Goes past what is current.
    fn advance(&mut self) -> Result<(), FormatError> {
        while let Some((object, index)) = self.stack.last_mut() {
            *index += 1;
            if *index < view(object)?.len() {
                return Ok(());
            }
            if let Some((object, _)) = self.stack.pop() {
                self.passed.note(self.stack.len(), object);
            }
        }
        Ok(())
    }

    fn push(&mut self, object: Object<'a>, from: &[u8]) -> Result<(), FormatError> {
        let node = view(&object)?;
        self.passed.check(self.stack.len(), &node, Direction::Forward)?;
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

    /// Replaces what is to be read next, the root or the piece that is current, by its items; returns what is wanted if
    /// it is not there.
    fn expand<S: Source>(&mut self, window: &mut Window<'a, S>, from: &[u8]) -> Result<Option<ObjRef>, FormatError> {
        let at = match (self.root, self.stack.last()) {
            (Some(root), _) => root,
            (None, Some((object, index))) => {
                ObjRef::new(view(object)?.child(*index).map_err(bad(Kind::Node))?.oid, object.child(*index))
            }
            (None, None) => return Ok(None),
        };
        let Some(object) = window.get(Kind::Node, &at) else { return Ok(Some(at)) };
        if self.root.take().is_none()
            && let Some((parent, _)) = self.stack.last()
        {
            check_below(&view(parent)?, &view(&object)?)?;
        }
        self.push(object, from)?;
        Ok(None)
    }

    fn take(&mut self) -> Result<Option<Entry<'a>>, FormatError> {
        let Some((object, index)) = self.stack.last() else { return Ok(None) };
        let entry = entry_at(&view(object)?, object, *index)?;
        self.advance()?;
        Ok(Some(entry))
    }
}

impl<'a> NativeComparison<'a> {
    pub(super) fn new(before: Option<&ObjRef>, after: Option<&ObjRef>, from: Option<&[u8]>, to: Option<&[u8]>) -> Self {
        let same = before.map(|at| at.oid) == after.map(|at| at.oid);
        let side = |root: Option<&ObjRef>| NativeDiffSide {
            root: root.copied().filter(|_| !same),
            stack: Vec::new(),
            passed: PassedPieces::default(),
        };
        Self {
            before: side(before),
            after: side(after),
            from: from.unwrap_or_default().into(),
            to: to.map(Arc::from),
            wants_after: false,
            scout: None,
        }
    }

    /// Decides by what both sides stand at.
    fn turn(&self) -> Result<Turn, FormatError> {
        let inside = |head: &DiffHead<'_>| self.to.as_ref().is_none_or(|to| head.step < &to[..]);
        let before = self.before.head()?.filter(inside);
        let after = self.after.head()?.filter(inside);
        Ok(match (&before, &after) {
            (None, None) => Turn::End,
            (Some(head), None) if head.level > 0 => Turn::Expand { before: true, after: false },
            (None, Some(head)) if head.level > 0 => Turn::Expand { before: false, after: true },
            (Some(_), None) => Turn::Take { before: true, after: false },
            (None, Some(_)) => Turn::Take { before: false, after: true },
            (Some(old), Some(new)) => {
                if old.piece.is_some() && old.piece == new.piece {
                    return Ok(Turn::Pass);
                }
                let order = old.step.cmp(new.step);
                match (old.level > 0, new.level > 0) {
                    // An entry below everything in the other side's piece stands alone.
                    (false, _) if order == Ordering::Less => Turn::Take { before: true, after: false },
                    (_, false) if order == Ordering::Greater => Turn::Take { before: false, after: true },
                    (false, false) => Turn::Take { before: true, after: true },
                    (true, true) if old.level == new.level => {
                        Turn::Expand { before: order.is_le(), after: order.is_ge() }
                    }
                    _ => Turn::Expand { before: old.level > new.level, after: new.level > old.level },
                }
            }
        })
    }
}

impl<'a, S: Source> ObjectWalk<'a, S> for NativeComparison<'a> {
    type Item = EntryPair<'a>;

    #[inline]
    fn next(&mut self, window: &mut Window<'a, S>) -> Result<Next<EntryPair<'a>>, S::Error> {
        loop {
            let turn = match (self.before.root.is_some(), self.after.root.is_some()) {
                (false, false) if self.scout.is_some_and(|scout| scout.rootless) => Turn::End,
                (false, false) => self.turn()?,
                (before, after) => Turn::Expand { before, after },
            };
            let (before, after) = match turn {
                Turn::End => return Ok(Next::End),
                Turn::Pass => {
                    self.before.advance()?;
                    self.after.advance()?;
                    continue;
                }
                Turn::Take { before, after } => {
                    let old = if before { self.before.take()? } else { None };
                    let new = if after { self.after.take()? } else { None };
                    if old == new {
                        continue;
                    }
                    if self.scout.is_some_and(|scout| scout.lacking) {
                        return Ok(Next::Item((None, None)));
                    }
                    return Ok(Next::Item((old, new)));
                }
                Turn::Expand { before, after } => (before, after),
            };
            for (side, wanted, is_after) in [(&mut self.before, before, false), (&mut self.after, after, true)] {
                if wanted && let Some(at) = side.expand(window, &self.from)? {
                    self.wants_after = is_after;
                    return Ok(Next::Wants(Kind::Node, at));
                }
            }
        }
    }

    fn scout(&self, _: bool) -> Self {
        Self { scout: Some(NativeDiffScout { lacking: false, rootless: false }), ..self.clone() }
    }

    fn skip(&mut self) {
        let side = if self.wants_after { &mut self.after } else { &mut self.before };
        let rootless = side.root.take().is_some();
        if !rootless && side.advance().is_err() {
            side.stack.clear();
        }
        if let Some(scout) = &mut self.scout {
            scout.lacking = true;
            scout.rootless |= rootless;
        }
    }
}
