//! What a check will read of what is named behind the place where it stands.

use alloc::vec::{self, Vec};

use super::{
    super::{
        Direction,
        contents::{self, List, kind_of},
        cursor::view,
        node::{NodeView, Said},
    },
    WHOLE, place, seams, values,
};
use crate::{Checked, Kind, ObjRef, Object, Source, Task};

/// A part of a check that is still to come.
pub(super) enum Ahead<'o> {
    /// A value.
    Value {
        kind: Kind,
        at: ObjRef,
    },
    /// A directory, and one end of a level below it.
    Dir {
        at: ObjRef,
    },
    Edge {
        root: ObjRef,
        level: u8,
        end: Direction,
    },
    /// Two pieces of a directory that meet.
    Pair {
        above: &'o Object<'o>,
        index: usize,
    },
    /// What a list of this level names; `ended` if there is more of the value behind it.
    Piece {
        at: ObjRef,
        level: u8,
        ended: bool,
    },
}

/// Returns what is checked with the items of a leaf from `first` on.
pub(super) fn of_leaf<'o>(
    object: &Object<'_>,
    node: &NodeView<'_>,
    first: usize,
    checked: &Checked,
) -> vec::IntoIter<Ahead<'o>> {
    let (mut tasks, mut children) = (Vec::new(), 0);
    for index in 0..node.len() {
        // What is wrong with an item the check will find itself.
        let Ok((_, said)) = node.said(index) else { break };
        let (oid, kind) = match said {
            Said::Inline { .. } | Said::Foreign => continue,
            Said::Value { bytes, oid } => (oid, kind_of(bytes)),
            Said::Dir(oid) => (oid, Kind::Node),
        };
        let at = ObjRef::new(oid, object.child(children));
        children += 1;
        let is_known = || checked.knows(place(&oid, &oid), &[&[WHOLE], oid.as_bytes()]);
        if index < first || kind == Kind::Node && is_known() {
            continue;
        }
        tasks.push(if kind == Kind::Node { Ahead::Dir { at } } else { Ahead::Value { kind, at } });
    }
    tasks.into_iter()
}

/// Returns what is checked with the pieces that a node names, from `first` on.
pub(super) fn of_pairs<'o>(
    above: &'o Object<'o>,
    node: &NodeView<'_>,
    first: usize,
    checked: &Checked,
) -> vec::IntoIter<Ahead<'o>> {
    let is_known = |index: &usize| seams::with_pair(node, *index, |place, fact| checked.knows(place, fact));
    let pairs = (first..node.len().saturating_sub(1)).filter(|index| is_known(index).is_ok_and(|known| !known));
    pairs.map(|index| Ahead::Pair { above, index }).collect::<Vec<_>>().into_iter()
}

/// Returns what is checked with the pieces that a list names, from `first` on.
pub(super) fn of_list<'o>(
    object: &Object<'_>,
    list: &List,
    first: usize,
    checked: &Checked,
) -> vec::IntoIter<Ahead<'o>> {
    let count = list.pieces.len();
    let is_known = |index: &usize| values::with_piece(list, *index, |place, fact| checked.knows(place, fact));
    let piece = |index: usize| {
        let at = ObjRef::new(list.pieces[index].1, object.child(index));
        Ahead::Piece { at, level: list.level, ended: index + 1 < count }
    };
    (first..count).filter(|index| !is_known(index)).map(piece).collect::<Vec<_>>().into_iter()
}

impl Task for Ahead<'_> {
    type Below = vec::IntoIter<Self>;

    fn try_out<S: Source>(&self, source: &S) -> Result<Self::Below, S::Error> {
        let mut below = Vec::new();
        match self {
            Self::Value { kind, at } => _ = source.read(*kind, at)?,
            Self::Dir { at } => {
                let root = source.read(Kind::Node, at)?;
                below.extend(seams::edges(&view(&root)?).map(|(level, end)| Self::Edge { root: *at, level, end }));
            }
            Self::Edge { root, level, end } => {
                let root = source.read(Kind::Node, root)?;
                seams::edge(source, &root, *level, *end)?;
            }
            Self::Pair { above, index } => seams::read_pair(source, above, *index)?,
            Self::Piece { at, level: 0, .. } => _ = source.read(Kind::Contents, at)?,
            Self::Piece { at, level, ended } => {
                let object = source.read(Kind::Pieces, at)?;
                let list = contents::list(&object)?;
                if let Some((index, (_, oid))) = list.pieces.iter().enumerate().next_back()
                    && *ended
                    && list.level < *level
                {
                    below.push(Self::Piece {
                        at: ObjRef::new(*oid, object.child(index)),
                        level: list.level,
                        ended: true,
                    });
                }
            }
        }
        Ok(below.into_iter())
    }
}
