//! Listing a directory: from the root down to each leaf, in order or against it.

use alloc::{sync::Arc, vec::Vec};
use core::ops::Range;

use super::{
    Direction, bad,
    cursor::{PassedPieces, check_below, view},
    node::NodeView,
};
use crate::{Entry, FormatError, Kind, Next, ObjRef, Object, ObjectWalk, Source, Window};

/// A walk over the entries of a directory within bounds.
#[derive(Clone, Debug)]
pub struct NativeListing<'a> {
    // Until it is read.
    root: Option<ObjRef>,
    // From the root down to a leaf; each with the places of the items that are still to come, of which the next may be
    // a piece that is not read yet.
    stack: Vec<(Object<'a>, Range<usize>)>,
    passed: PassedPieces<'a>,
    from: Option<Arc<[u8]>>,
    to: Option<Arc<[u8]>>,
    direction: Direction,
    // How many of the first items are left out.
    skip: u64,
    // Whether leaves matter.
    items: bool,
}

impl<'a> NativeListing<'a> {
    pub(super) fn new(dir: &ObjRef, from: Option<&[u8]>, to: Option<&[u8]>, direction: Direction) -> Self {
        let (from, to) = (from.map(Arc::from), to.map(Arc::from));
        let (stack, passed) = (Vec::new(), PassedPieces::default());
        Self { root: Some(*dir), stack, passed, from, to, direction, skip: 0, items: true }
    }

    /// Puts a piece on the stack, with those of its items that are within the bounds.
    fn push(&mut self, object: Object<'a>) -> Result<(), FormatError> {
        let node = view(&object)?;
        let wrong = bad(Kind::Node);
        let start = match &self.from {
            None => 0,
            Some(from) if node.level > 0 => node.last_at_most(from).map_err(&wrong)?.unwrap_or(0),
            Some(from) => node.first_at_least(from).map_err(&wrong)?,
        };
        let end = match &self.to {
            None => node.len(),
            Some(to) => node.first_at_least(to).map_err(&wrong)?,
        };
        self.stack.push((object, start..end.max(start)));
        Ok(())
    }
}

/// Returns the place that is next.
fn peek(rest: &Range<usize>, direction: Direction) -> Option<usize> {
    match direction {
        _ if rest.is_empty() => None,
        Direction::Forward => Some(rest.start),
        Direction::Reverse => Some(rest.end - 1),
    }
}

fn pass(rest: &mut Range<usize>, direction: Direction) {
    match direction {
        Direction::Forward => _ = rest.next(),
        Direction::Reverse => _ = rest.next_back(),
    }
}

impl<'a, S: Source> ObjectWalk<'a, S> for NativeListing<'a> {
    type Item = Entry<'a>;

    #[inline]
    fn next(&mut self, window: &mut Window<'a, S>) -> Result<Next<Entry<'a>>, S::Error> {
        loop {
            let depth = self.stack.len();
            let Some((object, rest)) = self.stack.last_mut() else {
                let Some(root) = self.root else { return Ok(Next::End) };
                let Some(object) = window.get(Kind::Node, &root) else { return Ok(Next::Wants(Kind::Node, root)) };
                self.root = None;
                self.push(object)?;
                continue;
            };
            let node = view(object)?;
            let place = peek(rest, self.direction).filter(|_| self.items || node.level > 0);
            let Some(place) = place else {
                if let Some((object, _)) = self.stack.pop() {
                    self.passed.note(depth - 1, object);
                }
                continue;
            };
            if self.skip > 0 {
                let (from, to) = (self.from.as_deref(), self.to.as_deref());
                let count = if node.level == 0 { Some(1) } else { within(&node, place, from, to)? };
                if let Some(count) = count.filter(|&count| count <= self.skip) {
                    self.skip -= count;
                    pass(rest, self.direction);
                    continue;
                }
            }
            if node.level == 0 {
                pass(rest, self.direction);
                return Ok(Next::Item(entry_at(&node, object, place)?));
            }
            let child = ObjRef::new(node.child(place).map_err(bad(Kind::Node))?.oid, object.child(place));
            let Some(piece) = window.get(Kind::Node, &child) else { return Ok(Next::Wants(Kind::Node, child)) };
            let below = view(&piece)?;
            check_below(&node, &below)?;
            self.passed.check(depth, &below, self.direction)?;
            pass(rest, self.direction);
            self.push(piece)?;
        }
    }

    fn scout(&self, items: bool) -> Self {
        Self { items, ..self.clone() }
    }

    fn skip(&mut self) {
        self.root = None;
        if let Some((_, rest)) = self.stack.last_mut() {
            pass(rest, self.direction);
        }
    }

    fn skip_items(&mut self, count: u64) -> bool {
        self.skip = count;
        true
    }
}

/// Returns how many entries are below a piece, if all of them are known to lie within the bounds.
fn within(
    node: &NodeView<'_>,
    place: usize,
    from: Option<&[u8]>,
    to: Option<&[u8]>,
) -> Result<Option<u64>, FormatError> {
    let wrong = bad(Kind::Node);
    if let Some(from) = from
        && node.step(place).map_err(&wrong)? < from
    {
        return Ok(None);
    }
    // The next piece's first step ends this one.
    if let Some(to) = to
        && (place + 1 == node.len() || node.step(place + 1).map_err(&wrong)? > to)
    {
        return Ok(None);
    }
    node.child(place).map_err(&wrong).map(|child| Some(child.count))
}

/// Returns item `index` of a leaf, of which `node` is the view.
#[inline]
pub(super) fn entry_at<'a>(node: &NodeView<'_>, object: &Object<'a>, index: usize) -> Result<Entry<'a>, FormatError> {
    let (kind, mode, target) = node.bound(object, index).map_err(bad(Kind::Node))?;
    let step = object.body_slice(node.step_range(index).map_err(bad(Kind::Node))?);
    Ok(Entry { step, kind, mode, target })
}
