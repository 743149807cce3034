//! What a check remembers to hold, so that it is checked once: facts, and where each is kept.

use super::super::{bad, contents::List, node::NodeView};
use crate::{FormatError, Kind, Oid};

/// What a fact is about.
const PAIR: u8 = 0;
const WHOLE: u8 = 1;
const PIECE: u8 = 2;

/// Calls `with` with the fact that a node stands for a whole directory.
pub(super) fn with_dir<T>(dir: &Oid, with: impl FnOnce(u64, &[&[u8]]) -> T) -> T {
    with(place(dir, dir), &[&[WHOLE], dir.as_bytes()])
}

/// Calls `with` with the fact that a piece and the next one are sound where they meet.
pub(super) fn with_pair<T>(
    node: &NodeView<'_>,
    index: usize,
    with: impl FnOnce(u64, &[&[u8]]) -> T,
) -> Result<T, FormatError> {
    let wrong = bad(Kind::Node);
    let (one, other) = (node.child(index).map_err(&wrong)?.oid, node.child(index + 1).map_err(&wrong)?.oid);
    let items = [node.item(index).map_err(&wrong)?, node.item(index + 1).map_err(&wrong)?];
    Ok(with(place(&one, &other), &[&[PAIR, node.level], items[0], items[1]]))
}

/// Calls `with` with the fact that what a list names is sound.
pub(super) fn with_piece<T>(list: &List, index: usize, with: impl FnOnce(u64, &[&[u8]]) -> T) -> T {
    let ((bytes, oid), more) = (&list.pieces[index], index + 1 < list.pieces.len());
    with(place(oid, oid), &[&[PIECE, list.level, u8::from(more)], &bytes.to_le_bytes(), oid.as_bytes()])
}

/// Returns a number that two ids determine.
fn place(one: &Oid, other: &Oid) -> u64 {
    let word = |oid: &Oid| oid.as_bytes().first_chunk().map_or(0, |word| u64::from_le_bytes(*word));
    word(one) ^ word(other).rotate_left(21)
}
