//! What differs between two trees: both are walked in the order of names.

use alloc::sync::Arc;
use core::{cmp::Ordering, ops::Range};

use super::{RawEntry, bad, list::SortedTree};
use crate::{DecodeError, Entry, Kind, Next, ObjRef, ObjectWalk, Source, Window, format::EntryPair};

/// A walk over the bindings that differ between two directories, in order of names: before, after. A mode that is
/// spelled in another way is a difference.
#[derive(Clone, Debug)]
pub struct GitComparison<'a> {
    oid_bytes: usize,
    before: GitDiffSide<'a>,
    after: GitDiffSide<'a>,
    from: Option<Arc<[u8]>>,
    to: Option<Arc<[u8]>>,
    // Whether both trees were read.
    read: bool,
    // Whether pairs matter.
    items: bool,
}

#[derive(Clone, Debug)]
enum GitDiffSide<'a> {
    /// The tree is not read yet.
    Start(ObjRef),
    /// The tree is read; these places in the order are still to come.
    Listed(SortedTree<'a>, Range<usize>),
    /// There is no tree.
    Nothing,
    /// A scout passed over it.
    Unknown,
}

impl<'a> GitDiffSide<'a> {
    fn new(at: Option<&ObjRef>) -> Self {
        at.map_or(Self::Nothing, |at| Self::Start(*at))
    }

    fn peek(&self) -> Result<Option<RawEntry<'_>>, DecodeError> {
        match self {
            Self::Listed(listed, rest) if !rest.is_empty() => listed.raw(rest.start).map(Some),
            _ => Ok(None),
        }
    }

    /// Goes past the entry that is current and returns its place.
    fn pass(&mut self) -> Option<usize> {
        if let Self::Listed(_, rest) = self { rest.next() } else { None }
    }

    fn entry(&self, place: Option<usize>) -> Result<Option<Entry<'a>>, DecodeError> {
        match (self, place) {
            (Self::Listed(listed, _), Some(place)) => listed.entry(place).map(Some),
            _ => Ok(None),
        }
    }
}

impl<'a> GitComparison<'a> {
    pub(super) fn new(
        oid_bytes: usize,
        before: Option<&ObjRef>,
        after: Option<&ObjRef>,
        from: Option<&[u8]>,
        to: Option<&[u8]>,
    ) -> Self {
        let (before, after) = if before == after { (None, None) } else { (before, after) };
        Self {
            oid_bytes,
            before: GitDiffSide::new(before),
            after: GitDiffSide::new(after),
            from: from.map(Arc::from),
            to: to.map(Arc::from),
            read: false,
            items: true,
        }
    }

    /// Reads the trees; returns what is wanted.
    fn read<S: Source>(&mut self, window: &mut Window<'a, S>) -> Result<Option<ObjRef>, DecodeError> {
        for side in [&mut self.before, &mut self.after] {
            if let GitDiffSide::Start(at) = side {
                let Some(object) = window.get(Kind::Node, at) else { return Ok(Some(*at)) };
                let listed = SortedTree::new(self.oid_bytes, object)?;
                let rest = listed.range(self.from.as_deref(), self.to.as_deref())?;
                *side = GitDiffSide::Listed(listed, rest);
            }
        }
        // What one side lacks may be in a tree that a scout passed over.
        self.items &= ![&self.before, &self.after].iter().any(|side| matches!(side, GitDiffSide::Unknown));
        self.read = true;
        Ok(None)
    }

    #[inline]
    fn pair(&mut self) -> Result<Option<EntryPair<'a>>, DecodeError> {
        loop {
            let (old, new) = (self.before.peek()?, self.after.peek()?);
            let order = match (&old, &new) {
                (None, None) => return Ok(None),
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (Some(old), Some(new)) => old.name.cmp(new.name),
            };
            let same = old == new;
            let old = if order.is_le() { self.before.pass() } else { None };
            let new = if order.is_ge() { self.after.pass() } else { None };
            if !same {
                return Ok(Some((self.before.entry(old)?, self.after.entry(new)?)));
            }
        }
    }
}

impl<'a, S: Source> ObjectWalk<'a, S> for GitComparison<'a> {
    type Item = EntryPair<'a>;

    #[inline]
    fn next(&mut self, window: &mut Window<'a, S>) -> Result<Next<EntryPair<'a>>, S::Error> {
        if !self.read
            && let Some(at) = self.read(window).map_err(bad)?
        {
            return Ok(Next::Wants(Kind::Node, at));
        }
        if !self.items {
            return Ok(Next::End);
        }
        match self.pair().map_err(bad)? {
            Some(pair) => Ok(Next::Item(pair)),
            None => Ok(Next::End),
        }
    }

    fn scout(&self, items: bool) -> Self {
        Self { items, ..self.clone() }
    }

    fn skip(&mut self) {
        if let Some(side) =
            [&mut self.before, &mut self.after].into_iter().find(|side| matches!(side, GitDiffSide::Start(_)))
        {
            *side = GitDiffSide::Unknown;
        }
    }
}
