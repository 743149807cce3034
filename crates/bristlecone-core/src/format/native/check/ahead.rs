//! What a check will read of what is named behind the place where it stands.

use alloc::vec::{self, Vec};

use super::{
    super::{
        Direction,
        contents::{List, kind_of},
        node::{NodeView, Said},
    },
    facts,
};
use crate::{Checked, Kind, ObjRef, Object};

/// A part of a check that is still to come.
pub(super) enum CheckTask<'o> {
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
) -> vec::IntoIter<CheckTask<'o>> {
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
        let is_known = || facts::with_dir(&oid, |place, fact| checked.knows(place, fact));
        if index < first || kind == Kind::Node && is_known() {
            continue;
        }
        tasks.push(if kind == Kind::Node { CheckTask::Dir { at } } else { CheckTask::Value { kind, at } });
    }
    tasks.into_iter()
}

/// Returns what is checked with the pieces that a node names, from `first` on.
pub(super) fn of_pairs<'o>(
    above: &'o Object<'o>,
    node: &NodeView<'_>,
    first: usize,
    checked: &Checked,
) -> vec::IntoIter<CheckTask<'o>> {
    let is_known = |index: &usize| facts::with_pair(node, *index, |place, fact| checked.knows(place, fact));
    let pairs = (first..node.len().saturating_sub(1)).filter(|index| is_known(index).is_ok_and(|known| !known));
    pairs.map(|index| CheckTask::Pair { above, index }).collect::<Vec<_>>().into_iter()
}

/// Returns what is checked with the pieces that a list names, from `first` on.
pub(super) fn of_list<'o>(
    object: &Object<'_>,
    list: &List,
    first: usize,
    checked: &Checked,
) -> vec::IntoIter<CheckTask<'o>> {
    let count = list.pieces.len();
    let is_known = |index: &usize| facts::with_piece(list, *index, |place, fact| checked.knows(place, fact));
    let piece = |index: usize| {
        let at = ObjRef::new(list.pieces[index].1, object.child(index));
        CheckTask::Piece { at, level: list.level, ended: index + 1 < count }
    };
    (first..count).filter(|index| !is_known(index)).map(piece).collect::<Vec<_>>().into_iter()
}
