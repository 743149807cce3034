//! Going to and fro in a directory: a stack of nodes from the root down to a chosen level.

use alloc::vec::Vec;

use super::{Direction, bad, inconsistent, node::NodeView};
use crate::{FormatError, Kind, ObjRef, Object, Source};

/// A position in the items of one level of a directory.
pub(super) struct LevelCursor<'a, S> {
    source: &'a S,
    // From the root down to a node of level `floor`; each with the index of the item that is current.
    stack: Vec<(Object<'a>, usize)>,
    floor: u8,
}

impl<S> Clone for LevelCursor<'_, S> {
    fn clone(&self) -> Self {
        Self { source: self.source, stack: self.stack.clone(), floor: self.floor }
    }
}

pub(super) fn view<'b>(object: &'b Object<'_>) -> Result<NodeView<'b>, FormatError> {
    NodeView::parse(object.body()).map_err(bad(Kind::Node))
}

impl<'a, S: Source> LevelCursor<'a, S> {
    /// Starts at the root, which must not be below `floor`; no item is current before a seek.
    pub(super) fn new(source: &'a S, root: Object<'a>, floor: u8) -> Self {
        Self { source, stack: alloc::vec![(root, 0)], floor }
    }

    /// Returns the node whose item is current.
    pub(super) fn node(&self) -> Result<NodeView<'_>, FormatError> {
        view(&self.top().0)
    }

    pub(super) fn object(&self) -> &Object<'a> {
        &self.top().0
    }

    pub(super) fn index(&self) -> usize {
        self.top().1
    }

    fn top(&self) -> &(Object<'a>, usize) {
        self.stack.last().expect("a cursor has its root")
    }

    /// Goes to the last item at most `step`, or to the first item if all are greater.
    pub(super) fn seek(&mut self, step: &[u8]) -> Result<(), S::Error> {
        self.stack.truncate(1);
        self.seek_below(step)
    }

    /// Goes down from the last node of the stack.
    fn seek_below(&mut self, step: &[u8]) -> Result<(), S::Error> {
        loop {
            let node = self.node()?;
            let level = node.level;
            let index = node.last_at_most(step).map_err(bad(Kind::Node))?.unwrap_or(0);
            self.set_index(index);
            if level <= self.floor {
                return Ok(());
            }
            self.descend()?;
        }
    }

    /// As [`LevelCursor::seek`], behind one of a step that is not greater: what is still right on the way down is kept.
    pub(super) fn seek_on(&mut self, step: &[u8]) -> Result<(), S::Error> {
        let wrong = bad(Kind::Node);
        for depth in 0..self.stack.len() {
            let (object, index) = &self.stack[depth];
            let node = view(object)?;
            if index + 1 >= node.len() || node.step(index + 1).map_err(&wrong)? > step {
                continue;
            }
            let (level, index) = (node.level, node.last_at_most(step).map_err(&wrong)?.unwrap_or(0));
            self.stack.truncate(depth + 1);
            self.set_index(index);
            if level <= self.floor {
                return Ok(());
            }
            self.descend()?;
            return self.seek_below(step);
        }
        Ok(())
    }

    /// Goes to the first or last item; returns whether there is one.
    pub(super) fn seek_end(&mut self, direction: Direction) -> Result<bool, S::Error> {
        self.stack.truncate(1);
        loop {
            let node = self.node()?;
            let (level, count) = (node.level, node.len());
            if count == 0 {
                return Ok(false);
            }
            self.set_index(if direction == Direction::Forward { 0 } else { count - 1 });
            if level <= self.floor {
                return Ok(true);
            }
            self.descend()?;
        }
    }

    /// Goes to the next item; returns whether there is one. At the end the cursor stays where it is.
    pub(super) fn next(&mut self) -> Result<bool, S::Error> {
        self.step(Direction::Forward)
    }

    /// Goes to the item before; returns whether there is one. At the start the cursor stays where it is.
    pub(super) fn previous(&mut self) -> Result<bool, S::Error> {
        self.step(Direction::Reverse)
    }

    pub(super) fn step(&mut self, direction: Direction) -> Result<bool, S::Error> {
        let mut depth = self.stack.len();
        loop {
            let Some((object, index)) = depth.checked_sub(1).map(|at| &self.stack[at]) else { return Ok(false) };
            let last = match direction {
                Direction::Forward => index + 1 >= view(object)?.len(),
                Direction::Reverse => *index == 0,
            };
            if !last {
                break;
            }
            depth -= 1;
        }
        let mut left = self.stack.split_off(depth).into_iter();
        let index = self.index();
        self.set_index(if direction == Direction::Forward { index + 1 } else { index - 1 });
        while self.node()?.level > self.floor {
            self.descend()?;
            // The piece that it was in on that level.
            if let Some((before, _)) = left.next() {
                check_behind(&view(&before)?, &self.node()?, direction)?;
            }
            if direction == Direction::Reverse {
                let last = self.node()?.len().saturating_sub(1);
                self.set_index(last);
            }
        }
        Ok(true)
    }

    fn set_index(&mut self, index: usize) {
        self.stack.last_mut().expect("a cursor has its root").1 = index;
    }

    /// Pushes the child that is current, at its first item.
    fn descend(&mut self) -> Result<(), S::Error> {
        let (object, index) = self.top();
        let child = load_child(self.source, object, *index)?;
        self.stack.push((child, 0));
        Ok(())
    }
}

/// Loads child `index` of an inner node and checks that it is one level below and not empty.
pub(super) fn load_child<'a, S: Source>(
    source: &'a S,
    parent: &Object<'_>,
    index: usize,
) -> Result<Object<'a>, S::Error> {
    let node = view(parent)?;
    let child = node.child(index).map_err(bad(Kind::Node))?;
    let object = source.read(Kind::Node, &ObjRef::new(child.oid, parent.child(index)))?;
    check_below(&node, &view(&object)?)?;
    Ok(object)
}

/// Checks that a piece is one level below its parent and not empty.
pub(super) fn check_below(parent: &NodeView<'_>, piece: &NodeView<'_>) -> Result<(), FormatError> {
    if piece.level + 1 != parent.level || piece.len() == 0 {
        return Err(inconsistent("it is not one level below its parent, or it is empty"));
    }
    Ok(())
}

/// Checks that a piece begins behind another one, in the direction of a walk. So none is gone through twice, and the walk ends, however
/// often pieces name the same ones.
pub(super) fn check_behind(
    before: &NodeView<'_>,
    piece: &NodeView<'_>,
    direction: Direction,
) -> Result<(), FormatError> {
    let wrong = bad(Kind::Node);
    if direction.is_before(before.step(0).map_err(&wrong)?, piece.step(0).map_err(&wrong)?) {
        return Ok(());
    }
    Err(inconsistent("it does not begin behind the piece before it"))
}

/// The pieces below the root that a walk went through last, one at each depth.
#[derive(Clone, Debug, Default)]
pub(super) struct PassedPieces<'a>(Vec<Option<Object<'a>>>);

impl<'a> PassedPieces<'a> {
    /// Notes a piece that was gone through; the root, at depth 0, has none beside it.
    pub(super) fn note(&mut self, depth: usize, object: Object<'a>) {
        let Some(place) = depth.checked_sub(1) else { return };
        if self.0.len() <= place {
            self.0.resize(place + 1, None);
        }
        self.0[place] = Some(object);
    }

    /// As [`check_behind`], for the piece that is to be gone through next.
    pub(super) fn check(&self, depth: usize, piece: &NodeView<'_>, direction: Direction) -> Result<(), FormatError> {
        match depth.checked_sub(1).and_then(|place| self.0.get(place)?.as_ref()) {
            Some(before) => check_behind(&view(before)?, piece, direction),
            None => Ok(()),
        }
    }
}
