//! The native format: BLAKE3 ids, ordered wide directories. `docs/formats/native.md` lists the bytes.
//!
//! A directory is a sequence of items sorted by step, cut into pieces (`cut`), each piece an object
//! (`node`), the pieces listed by pieces of the next level, up to one root. Where the cuts fall depends on
//! the steps alone, so equal directories have equal roots whatever led to them (`update`), and what two
//! directories share they share by id (`diff`).

use alloc::{format, string::String, vec::Vec};
use core::ops::Range;

use self::node::{NodeLookup, NodeView};
use super::{Direction, Format, FormatError};
use crate::{
    ByteReader, Bytes, Change, ChangeList, Checked, Commit, EntryKind, Kind, Location, ObjRef, Object, Oid, Sink,
    Source, Tag, Target, codec::DecodeError, format::descend,
};

mod check;
mod commit;
mod contents;
mod cursor;
mod cut;
mod diff;
mod fast;
mod id;
mod lanes;
mod lend;
mod list;
mod load;
mod node;
mod rank;
mod shape;
mod steps;
mod tag;
mod update;

pub use contents::ValueBuilder;
pub use cut::step_hash;
pub use diff::NativeComparison;
pub use lend::{EntryCursor, LentEntry};
pub use list::NativeListing;
pub use load::DirBuilder;
pub use rank::Rank;
pub use shape::{Piece, PieceChild};

/// The longest inlining that the option allows, in bytes.
pub const INLINE_BYTES_MAX: usize = 512;
/// Values of more bytes are cut into pieces.
pub const WHOLE_BYTES_MAX: usize = contents::WHOLE_BYTES_MAX;
/// The largest weight of a piece of a directory: as many entries with short steps.
pub const PIECE_WEIGHT_MAX: u64 = cut::WEIGHT_MAX;

/// The native format with its options.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Native {
    inline: u16,
    split: bool,
    group: u8,
}

impl Native {
    /// The standard options: values up to 48 bytes inline, wide directories split, entries committed to in
    /// pairs.
    #[must_use]
    pub const fn new() -> Self {
        Self { inline: 48, split: true, group: 2 }
    }

    /// Sets the longest value that lives in its directory, 0 to 512 bytes. Changes roots.
    ///
    /// # Panics
    /// If it is over 512 bytes.
    #[must_use]
    pub const fn inline(mut self, bytes_max: usize) -> Self {
        assert!(bytes_max <= INLINE_BYTES_MAX, "at most 512 bytes are inlined");
        self.inline = bytes_max as u16;
        self
    }

    /// Sets whether wide directories are split. Changes roots.
    #[must_use]
    pub const fn split(mut self, split: bool) -> Self {
        self.split = split;
        self
    }

    /// Sets how many entries share a leaf of the hash tree in a node; 0 hashes a node flat. Changes roots.
    /// It exists to measure what the commitment costs (`docs/decisions/0002-commitment.md`).
    #[must_use]
    pub const fn group(mut self, entries: u8) -> Self {
        self.group = entries;
        self
    }

    const fn weight_max(&self) -> u64 {
        if self.split { cut::WEIGHT_MAX } else { u64::MAX }
    }
}

impl Default for Native {
    fn default() -> Self {
        Self::new()
    }
}

fn bad(kind: Kind) -> impl Fn(DecodeError) -> FormatError {
    move |source| FormatError::Decode { kind, source }
}

impl Format for Native {
    const NAME: &'static str = "native";
    const VERSION: u32 = 1;

    type Listing<'a, S: Source + 'a> = NativeListing<'a>;
    type Comparison<'a, S: Source + 'a> = NativeComparison<'a>;

    fn options(&self) -> String {
        format!("inline={} split={} group={}", self.inline, if self.split { "on" } else { "off" }, self.group)
    }

    fn from_options(options: &str) -> Result<Self, FormatError> {
        let unknown = || FormatError::Options { format: Self::NAME, options: options.into() };
        let mut native = Self::new();
        for word in options.split_whitespace() {
            match word.split_once('=').ok_or_else(unknown)? {
                ("inline", bytes) => {
                    native.inline = bytes.parse().map_err(|_| unknown())?;
                    if usize::from(native.inline) > INLINE_BYTES_MAX {
                        return Err(unknown());
                    }
                }
                ("split", "on") => native.split = true,
                ("split", "off") => native.split = false,
                ("group", entries) => native.group = entries.parse().map_err(|_| unknown())?,
                _ => return Err(unknown()),
            }
        }
        Ok(native)
    }

    fn inline_bytes_max(&self) -> usize {
        usize::from(self.inline)
    }

    #[inline]
    fn find<'a, S: Source>(
        &self,
        source: &'a S,
        dir: &ObjRef,
        step: &[u8],
    ) -> Result<Option<(EntryKind, Target<'a>)>, S::Error> {
        match fast::find(source, dir.oid.as_bytes(), dir.at, step) {
            fast::Peek::Nothing => return Ok(None),
            fast::Peek::Item { tag, rest, child } => {
                if let Some(found) = node::borrowed_target(tag, rest, child) {
                    return Ok(Some(found));
                }
            }
            fast::Peek::Declined => {}
        }
        find_in_objects(source, dir, step)
    }

    #[inline]
    fn find_value<'a, S: Source>(
        &self,
        source: &'a S,
        dir: &ObjRef,
        step: &[u8],
    ) -> Result<Option<Bytes<'a>>, S::Error> {
        let found = match fast::find(source, dir.oid.as_bytes(), dir.at, step) {
            fast::Peek::Nothing => return Ok(None),
            fast::Peek::Item { tag, rest, child } => {
                if let Some(bytes) = node::borrowed_value(tag, rest) {
                    return Ok(Some(Bytes::Borrowed(bytes)));
                }
                node::borrowed_target(tag, rest, child)
            }
            fast::Peek::Declined => None,
        };
        let found = match found {
            None => find_in_objects(source, dir, step)?,
            found => found,
        };
        super::found_value(self, source, found)
    }

    #[inline]
    fn descend<S: Source>(&self, source: &S, dir: &ObjRef, path: &[u8]) -> Result<Option<ObjRef>, S::Error> {
        descend::descend(
            dir,
            path,
            |dir, rest| descend::owned(fast::descend(source, (dir.oid.as_bytes(), dir.at), rest)),
            |dir, step| self.find(source, dir, step),
        )
    }

    fn listing<'a, S: Source + 'a>(
        &self,
        dir: &ObjRef,
        from: Option<&[u8]>,
        to: Option<&[u8]>,
        direction: Direction,
    ) -> NativeListing<'a> {
        NativeListing::new(dir, from, to, direction)
    }

    fn count<S: Source>(&self, source: &S, dir: &ObjRef) -> Result<u64, S::Error> {
        let object = source.read(Kind::Node, dir)?;
        let node = NodeView::parse(object.body()).map_err(bad(Kind::Node))?;
        Ok(node.count().map_err(bad(Kind::Node))?)
    }

    fn comparison<'a, S: Source + 'a>(
        &self,
        before: Option<&ObjRef>,
        after: Option<&ObjRef>,
        from: Option<&[u8]>,
        to: Option<&[u8]>,
    ) -> NativeComparison<'a> {
        NativeComparison::new(before, after, from, to)
    }

    fn update<S: Source + Sync, K: Sink>(
        &self,
        source: &S,
        sink: &mut K,
        base: Option<&ObjRef>,
        changes: &[Change<'_>],
    ) -> Result<Option<ObjRef>, S::Error> {
        update::update(self, source, sink, base, changes)
    }

    fn update_list<S: Source + Sync, K: Sink, C: ChangeList>(
        &self,
        source: &S,
        sink: &mut K,
        base: Option<&ObjRef>,
        changes: &C,
    ) -> Result<Option<ObjRef>, S::Error> {
        update::update_list(self, source, sink, base, changes)
    }

    fn divides_dirs(&self) -> bool {
        true
    }

    fn read_for_update<S: Source>(
        &self,
        source: &S,
        base: &ObjRef,
        step: &[u8],
        removes: bool,
    ) -> Result<(), S::Error> {
        update::read(self, source, base, step, removes)
    }

    fn empty_dir<K: Sink>(&self, sink: &mut K) -> Result<ObjRef, FormatError> {
        Ok(update::put_empty(self, sink))
    }

    fn put_contents<K: Sink>(&self, sink: &mut K, value: &[u8]) -> Result<ObjRef, FormatError> {
        Ok(contents::put(sink, value))
    }

    fn hashed_together(&self) -> Range<usize> {
        lanes::WHOLE_BYTES
    }

    fn contents_ids(&self, values: &[&[u8]], ids: &mut Vec<Oid>) {
        id::all_contents(values, ids);
    }

    fn put_contents_as<K: Sink>(&self, sink: &mut K, id: Oid, value: &[u8]) -> Result<ObjRef, FormatError> {
        Ok(contents::put_as(sink, id, value))
    }

    fn value_builder(&self) -> Option<ValueBuilder> {
        Some(ValueBuilder::default())
    }

    fn read_contents<'a, S: Source>(
        &self,
        source: &'a S,
        at: &ObjRef,
        range: Range<u64>,
    ) -> Result<Bytes<'a>, S::Error> {
        contents::read(source, at, range)
    }

    fn put_commit<K: Sink>(&self, sink: &mut K, commit: &Commit, generation: u64) -> Result<ObjRef, FormatError> {
        commit::put(sink, commit, generation)
    }

    fn decode_commit(&self, object: &Object<'_>) -> Result<Commit, FormatError> {
        commit::decode(object.body(), |index| object.child(index)).map_err(bad(Kind::Commit))
    }

    fn commit_tree(&self, object: &Object<'_>) -> Result<ObjRef, FormatError> {
        let oid = read_oid(&mut ByteReader::new(object.body())).map_err(bad(Kind::Commit))?;
        Ok(ObjRef::new(oid, object.child(0)))
    }

    fn put_tag<K: Sink>(&self, sink: &mut K, tag: &Tag) -> Result<ObjRef, FormatError> {
        tag::put(sink, tag)
    }

    fn decode_tag(&self, object: &Object<'_>) -> Result<Tag, FormatError> {
        tag::decode(object.body(), object.child(0)).map_err(bad(Kind::Tag))
    }

    fn children(&self, kind: Kind, body: &[u8], each: &mut dyn FnMut(Kind, Oid)) -> Result<(), FormatError> {
        match kind {
            Kind::Contents => Ok(()),
            Kind::Node => node::children(body, each).map_err(bad(kind)),
            Kind::Pieces => contents::children(body, each).map_err(bad(kind)),
            Kind::Commit => {
                let commit = commit::decode(body, |_| Location::NONE).map_err(bad(kind))?;
                each(Kind::Node, commit.tree.oid());
                commit.parents.iter().for_each(|parent| each(Kind::Commit, parent.oid()));
                Ok(())
            }
            Kind::Tag => {
                let tag = tag::decode(body, Location::NONE).map_err(bad(kind))?;
                each(tag.kind, tag.target.oid);
                Ok(())
            }
        }
    }

    fn child_ids(&self, kind: Kind, body: &[u8], each: &mut dyn FnMut(Oid)) -> Result<(), FormatError> {
        match kind {
            Kind::Node => node::child_ids(body, each).map_err(bad(kind)),
            _ => self.children(kind, body, &mut |_, child| each(child)),
        }
    }

    fn object_id<S: Source>(&self, _: &S, object: &Object<'_>) -> Result<Oid, S::Error> {
        let (kind, body) = (object.kind(), object.body());
        match kind {
            Kind::Contents => Ok(id::contents(body)),
            Kind::Pieces => Ok(id::pieces(body)),
            Kind::Commit => Ok(id::commit(body)),
            Kind::Node => {
                let node = NodeView::parse(body).map_err(bad(kind))?;
                Ok(node.id(self.group).map_err(bad(kind))?)
            }
            Kind::Tag => Ok(id::tag(body)),
        }
    }

    fn check_structure<S: Source>(
        &self,
        source: &S,
        object: &Object<'_>,
        whole: bool,
        checked: &mut Checked,
    ) -> Result<(), S::Error> {
        check::check(self, source, object, whole, checked)
    }
}

/// Looks a step up by whole objects, which says what is damaged.
fn find_in_objects<'a, S: Source>(
    source: &'a S,
    dir: &ObjRef,
    step: &[u8],
) -> Result<Option<(EntryKind, Target<'a>)>, S::Error> {
    let mut at = *dir;
    let mut above = u8::MAX;
    loop {
        let object = source.read(Kind::Node, &at)?;
        let node = NodeView::parse(object.body()).map_err(bad(Kind::Node))?;
        if node.level >= above {
            return Err(inconsistent("its level is not below its parent's").into());
        }
        above = node.level;
        match node.find(step).map_err(bad(Kind::Node))? {
            NodeLookup::Nothing => return Ok(None),
            NodeLookup::Child { index, oid } => at = ObjRef::new(oid, object.child(index)),
            NodeLookup::Item { index } => {
                let (kind, _, target) = node.bound(&object, index).map_err(bad(Kind::Node))?;
                return Ok(Some((kind, target)));
            }
        }
    }
}

fn inconsistent(reason: &'static str) -> FormatError {
    FormatError::Inconsistent { kind: Kind::Node, reason }
}

fn read_oid(reader: &mut ByteReader<'_>) -> Result<Oid, DecodeError> {
    Ok(Oid::from_array(reader.array()?))
}

#[cfg(test)]
mod tests;
