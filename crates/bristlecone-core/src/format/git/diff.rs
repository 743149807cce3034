//! What differs between two trees: both are walked in the order of names.

use alloc::sync::Arc;
use core::{cmp::Ordering, ops::Range};

use super::{RawEntry, bad, list::Listed};
use crate::{DecodeError, Entry, Kind, Next, ObjRef, Source, Walk, Window};

type Pair<'a> = (Option<Entry<'a>>, Option<Entry<'a>>);

/// A walk over the bindings that differ between two directories, in order of names: before, after. A mode that is
/// spelled in another way is a difference.
#[derive(Clone, Debug)]
pub struct Comparison<'a> {
    oid_bytes: usize,
    before: Side<'a>,
    after: Side<'a>,
    from: Option<Arc<[u8]>>,
    to: Option<Arc<[u8]>>,
    // Whether pairs matter.
    items: bool,
}

#[derive(Clone, Debug)]
enum Side<'a> {
    /// The tree is not read yet.
    Start(ObjRef),
    /// It is, and so many places in the order are still to come.
    Listed(Listed<'a>, Range<usize>),
    /// There is none.
    Nothing,
    /// A scout passed over it.
    Unknown,
}

impl<'a> Side<'a> {
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

impl<'a> Comparison<'a> {
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
            before: Side::new(before),
            after: Side::new(after),
            from: from.map(Arc::from),
            to: to.map(Arc::from),
            items: true,
        }
    }

    fn pair(&mut self) -> Result<Option<Pair<'a>>, DecodeError> {
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

impl<'a, S: Source> Walk<'a, S> for Comparison<'a> {
    type Item = Pair<'a>;

    fn next(&mut self, window: &mut Window<'a, S>) -> Result<Next<Pair<'a>>, S::Error> {
        for side in [&mut self.before, &mut self.after] {
            if let Side::Start(at) = side {
                let Some(object) = window.get(Kind::Node, at) else { return Ok(Next::Wants(Kind::Node, *at)) };
                let listed = Listed::new(self.oid_bytes, object).map_err(bad)?;
                let rest = listed.range(self.from.as_deref(), self.to.as_deref()).map_err(bad)?;
                *side = Side::Listed(listed, rest);
            }
        }
        let unknown = [&self.before, &self.after].iter().any(|side| matches!(side, Side::Unknown));
        if unknown || !self.items {
            return Ok(Next::End);
        }
        Ok(self.pair().map_err(bad)?.map_or(Next::End, Next::Item))
    }

    fn scout(&self, items: bool) -> Self {
        Self { items, ..self.clone() }
    }

    fn skip(&mut self) {
        if let Some(side) = [&mut self.before, &mut self.after].into_iter().find(|side| matches!(side, Side::Start(_)))
        {
            *side = Side::Unknown;
        }
    }
}
