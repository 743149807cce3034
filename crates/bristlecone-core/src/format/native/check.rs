//! What holds between objects: that what is stored is what its contents are made into, and nothing else. Section 11 of
//! the format's page.
//!
//! Each object is checked together with what it names, one level down, and with the edges of that where two pieces meet
//! (`seams`). What must hold at the edges of the object itself is checked with the one above it, or where the object is
//! named as a whole directory. So if every object of a directory passes, the directory is the one that its entries make,
//! and what versions of a directory share needs no second look.

use alloc::vec::{self, Vec};

use super::{
    Native, bad, contents,
    cursor::view,
    cut,
    node::{NodeView, Said},
};
use crate::{Checked, Format, FormatError, Kind, ObjRef, Object, Oid, Source, Task, format::prefetch::Foreseen};

mod ahead;
mod facts;
mod seams;
mod values;

use self::ahead::CheckTask;

/// What is checked, with what is read ahead of that.
type CheckSource<'s, 'o, S> = Foreseen<'s, S, CheckTask<'o>>;

/// Checks an object with what it names; `whole` if it stands for a whole directory or value.
pub(super) fn check<S: Source>(
    native: &Native,
    source: &S,
    object: &Object<'_>,
    whole: bool,
    checked: &mut Checked,
) -> Result<(), S::Error> {
    let source = &Foreseen::new(source, checked.call());
    let sound = check_object(native, source, object, whole, checked);
    checked.set_call(source.call());
    sound
}

fn check_object<'o, S: Source>(
    native: &Native,
    source: &CheckSource<'_, 'o, S>,
    object: &'o Object<'_>,
    whole: bool,
    checked: &mut Checked,
) -> Result<(), S::Error> {
    match object.kind() {
        Kind::Contents => Ok(values::check_whole_size(object)?),
        Kind::Pieces => values::check(source, object, whole, checked),
        Kind::Node => {
            let node = view(object)?;
            if node.level == 0 {
                return check_leaf(native, source, object, &node, checked);
            }
            check_weight(native, &node, node.survey().map_err(bad(Kind::Node))?.weight)?;
            seams::check(source, object, whole, checked)
        }
        Kind::Commit => check_dir(source, &native.commit_tree(object)?, checked),
        Kind::Tag => {
            let tag = native.decode_tag(object)?;
            match tag.kind {
                Kind::Node => check_dir(source, &tag.target, checked),
                Kind::Pieces => values::check_value(source, &tag.target, None),
                _ => Ok(()),
            }
        }
    }
}

fn broken(kind: Kind, reason: &'static str) -> FormatError {
    FormatError::Structure { kind, reason }
}

fn misfit(kind: Kind, oid: Oid, reason: &'static str) -> FormatError {
    FormatError::Misfit { kind, oid, reason }
}

/// Checks a leaf: its weight, which values are in it, and that what it names is what it says.
fn check_leaf<'o, S: Source>(
    native: &Native,
    source: &CheckSource<'_, 'o, S>,
    object: &'o Object<'_>,
    node: &NodeView<'_>,
    checked: &mut Checked,
) -> Result<(), S::Error> {
    let inline = native.inline_bytes_max();
    let (mut weight, mut children) = (0_u64, 0);
    let mut child = |oid| {
        children += 1;
        ObjRef::new(oid, object.child(children - 1))
    };
    for index in 0..node.len() {
        source.expect_once(|| ahead::of_leaf(object, node, index, checked));
        let (step, said) = node.said(index).map_err(bad(Kind::Node))?;
        weight = weight.saturating_add(cut::weight(0, step));
        match said {
            Said::Inline { bytes } if bytes > inline => {
                return Err(broken(Kind::Node, "a value is inline that is longer than the store's options say").into());
            }
            Said::Value { bytes, .. } if bytes <= inline as u64 => {
                return Err(broken(Kind::Node, "a value is an object that is short enough to be inline").into());
            }
            Said::Value { bytes, oid } => values::check_value(source, &child(oid), Some(bytes))?,
            Said::Dir(oid) => check_dir(source, &child(oid), checked)?,
            Said::Inline { .. } | Said::Foreign => {}
        }
    }
    Ok(check_weight(native, node, weight)?)
}

/// Checks that a node is no heavier than a piece may be, and that there are pieces at all.
fn check_weight(native: &Native, node: &NodeView<'_>, weight: u64) -> Result<(), FormatError> {
    if node.level > 0 && !native.split {
        return Err(broken(Kind::Node, "the store's options cut no directory into pieces"));
    }
    match node.len() > 1 && weight > native.weight_max() {
        true => Err(broken(Kind::Node, "it weighs more than a piece may")),
        false => Ok(()),
    }
}

/// Checks that the node at `dir` stands for a whole directory. That its pieces are sound is checked with them.
fn check_dir<S: Source>(source: &S, dir: &ObjRef, checked: &mut Checked) -> Result<(), S::Error> {
    if facts::with_dir(&dir.oid, |place, fact| checked.knows(place, fact)) {
        return Ok(());
    }
    let root = source.read(Kind::Node, dir)?;
    if view(&root)?.level > 0 {
        seams::check_root(source, &root, |kind, reason| misfit(kind, dir.oid, reason))?;
        facts::with_dir(&dir.oid, |place, fact| checked.learn(place, fact));
    }
    Ok(())
}

impl Task for CheckTask<'_> {
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
