//! What holds between objects: that what is stored is what its contents are made into, and nothing else. Section 11 of
//! the format's page.
//!
//! Each object is checked together with what it names, one level down, and with the edges of that where two pieces meet
//! (`seams`). What must hold at the edges of the object itself is checked with the one above it, or where the object is
//! named as a whole directory. So if every object of a directory passes, the directory is the one that its entries make,
//! and what versions of a directory share needs no second look.

use super::{
    Native, bad,
    cursor::view,
    cut,
    node::{NodeView, Said},
};
use crate::{Checked, Format, FormatError, Kind, ObjRef, Object, Oid, Source, format::prefetch::Foreseen};

mod ahead;
mod seams;
mod values;

use self::ahead::Ahead;

/// What a fact is about.
const PAIR: u8 = 0;
const WHOLE: u8 = 1;
const PIECE: u8 = 2;

/// What is checked, with what is read ahead of that.
type Read<'s, 'o, S> = Foreseen<'s, S, Ahead<'o>>;

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
    source: &Read<'_, 'o, S>,
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

/// Returns a number that two ids determine.
fn place(one: &Oid, other: &Oid) -> u64 {
    let word = |oid: &Oid| oid.as_bytes().first_chunk().map_or(0, |word| u64::from_le_bytes(*word));
    word(one) ^ word(other).rotate_left(21)
}

/// Checks a leaf: its weight, which values are in it, and that what it names is what it says.
fn check_leaf<'o, S: Source>(
    native: &Native,
    source: &Read<'_, 'o, S>,
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
    let (place, fact) = (place(&dir.oid, &dir.oid), [&[WHOLE][..], dir.oid.as_bytes()]);
    if checked.knows(place, &fact) {
        return Ok(());
    }
    let root = source.read(Kind::Node, dir)?;
    if view(&root)?.level > 0 {
        seams::check_root(source, &root, |kind, reason| misfit(kind, dir.oid, reason))?;
        checked.learn(place, &fact);
    }
    Ok(())
}
