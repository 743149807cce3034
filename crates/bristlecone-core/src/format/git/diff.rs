//! What differs between two trees: both are walked in the order of names.

use core::{cmp::Ordering, marker::PhantomData, ops::Range};

use super::{Git, bad, list::Listed};
use crate::{DecodeError, Entry, Kind, ObjRef, Source};

type Pair<'a> = (Option<Entry<'a>>, Option<Entry<'a>>);

/// The bindings that differ between two directories, in order of names: before, after. A mode that is spelled in
/// another way is a difference.
#[derive(Debug)]
pub struct Differences<'a, S> {
    before: Option<Side<'a>>,
    after: Option<Side<'a>>,
    source: PhantomData<fn() -> S>,
}

#[derive(Debug)]
struct Side<'a> {
    listed: Listed<'a>,
    rest: Range<usize>,
}

impl<'a, S: Source> Differences<'a, S> {
    pub(super) fn new(
        git: &Git,
        source: &'a S,
        before: Option<&ObjRef>,
        after: Option<&ObjRef>,
        from: Option<&[u8]>,
        to: Option<&[u8]>,
    ) -> Result<Self, S::Error> {
        if before == after {
            return Ok(Self { before: None, after: None, source: PhantomData });
        }
        let side = |at: Option<&ObjRef>| -> Result<Option<Side<'a>>, S::Error> {
            let Some(at) = at else { return Ok(None) };
            let listed = Listed::new(git.oid_bytes(), source.read(Kind::Node, at)?).map_err(bad)?;
            let rest = listed.range(from, to).map_err(bad)?;
            Ok(Some(Side { listed, rest }))
        };
        Ok(Self { before: side(before)?, after: side(after)?, source: PhantomData })
    }

    fn pair(&mut self) -> Result<Option<Pair<'a>>, DecodeError> {
        loop {
            let (old, new) = (peek(self.before.as_ref())?, peek(self.after.as_ref())?);
            let order = match (&old, &new) {
                (None, None) => return Ok(None),
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (Some(old), Some(new)) => old.name.cmp(new.name),
            };
            let same = old == new;
            let old = if order.is_le() { take(self.before.as_mut()) } else { None };
            let new = if order.is_ge() { take(self.after.as_mut()) } else { None };
            if same {
                continue;
            }
            let entry = |side: &Option<Side<'a>>, place: Option<usize>| match (side, place) {
                (Some(side), Some(place)) => side.listed.entry(place).map(Some),
                _ => Ok(None),
            };
            return Ok(Some((entry(&self.before, old)?, entry(&self.after, new)?)));
        }
    }
}

fn peek<'s>(side: Option<&'s Side<'_>>) -> Result<Option<super::RawEntry<'s>>, DecodeError> {
    side.filter(|side| !side.rest.is_empty()).map(|side| side.listed.raw(side.rest.start)).transpose()
}

fn take(side: Option<&mut Side<'_>>) -> Option<usize> {
    side?.rest.next()
}

impl<'a, S: Source> Iterator for Differences<'a, S> {
    type Item = Result<Pair<'a>, S::Error>;

    fn next(&mut self) -> Option<Self::Item> {
        match self.pair() {
            Ok(pair) => pair.map(Ok),
            Err(source) => {
                (self.before, self.after) = (None, None);
                Some(Err(bad(source).into()))
            }
        }
    }
}
