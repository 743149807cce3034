//! The format of Tezos contexts: BLAKE2b ids exactly as a Tezos node computes them. `docs/formats/tezos.md` lists
//! the bytes.
//!
//! What is hashed and what is stored differ. A directory of up to 256 entries is hashed flat, but stored in
//! pieces as soon as it has more than 32, so that what does not change is shared; larger ones are also hashed in
//! pieces. Those spread entries over 32 buckets by a seeded hash of their names, again and again until each bucket
//! has at most 32. A flat hash takes all entries anyway, so there the pieces are few and large: 8 leaves. Either
//! way the pieces depend on the set of names alone (`update`). Listing such a directory gathers and sorts all of
//! it (`gather`).
//!
//! Short values live in their directory beside their hash, which changes no id.

use alloc::{format, string::String};
use core::ops::Range;

use self::node::{PieceLookup, PieceView};
use super::{Direction, Format, FormatError};
use crate::{
    Bytes, Change, Commit, EntryKind, Kind, Location, ObjRef, Object, Oid, Signature, Sink, Source, Target,
    codec::DecodeError, format::descend,
};

mod commit;
mod diff;
mod edits;
mod fast;
mod gather;
mod hash;
mod id;
mod list;
mod node;
mod update;

pub use diff::TezosComparison;
pub use id::{commit_text, parse_commit_text, seeded_hash};
pub use list::TezosListing;

/// The longest inlining that the option allows, in bytes.
pub const INLINE_BYTES_MAX: usize = 512;
/// The longest value, in bytes: it is one object, of which records give the length in 32 bits.
const VALUE_BYTES_MAX: usize = 2 << 30;
/// How many bits of seeded hashes the reference uses for a name: its depth is bounded by it.
const DEPTH_BITS: u32 = 50;

/// The format of Tezos contexts with its options.
///
/// Inlining and splitting are matters of storage: they change no hash. The configuration of hashing
/// ([`Tezos::hashing`]) does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tezos {
    inline: u16,
    split: bool,
    // The binary logarithm of the number of buckets.
    bits: u8,
    stable: u16,
}

impl Tezos {
    /// The configuration of Tezos: pieces of 32 entries, flat hashing up to 256; values up to 48 bytes inline.
    #[must_use]
    pub const fn new() -> Self {
        Self { inline: 48, split: true, bits: 5, stable: 256 }
    }

    /// Sets the longest value that lives in its directory, 0 to 512 bytes. Changes no hash.
    ///
    /// # Panics
    /// If it is over 512 bytes.
    #[must_use]
    pub const fn inline(mut self, bytes_max: usize) -> Self {
        assert!(bytes_max <= INLINE_BYTES_MAX, "at most 512 bytes are inlined");
        self.inline = bytes_max as u16;
        self
    }

    /// Sets whether wide directories are stored in pieces. Changes no hash.
    #[must_use]
    pub const fn split(mut self, split: bool) -> Self {
        self.split = split;
        self
    }

    /// Sets how many entries a leaf piece holds and how many buckets an inner one has (a power of two from 2 to
    /// 64), and up to how many entries (`entries` to 65,535) a directory is hashed flat. Changes hashes: Tezos
    /// uses 32 and 256.
    ///
    /// # Panics
    /// If `entries` is another number, or `stable` is below it: a directory and a piece of another one could then
    /// have one id.
    #[must_use]
    pub const fn hashing(mut self, entries: u8, stable: u16) -> Self {
        assert!(entries.is_power_of_two() && 2 <= entries && entries <= 64, "2, 4, 8, 16, 32 or 64 entries");
        assert!(stable >= entries as u16, "a directory that is no larger than a piece is hashed flat");
        self.bits = entries.trailing_zeros() as u8;
        self.stable = stable;
        self
    }

    /// Whether hashes are those of Tezos.
    #[must_use]
    pub const fn is_standard(&self) -> bool {
        self.bits == 5 && self.stable == 256
    }

    /// The number of buckets of an inner piece.
    const fn buckets(&self) -> u32 {
        1 << self.bits
    }

    /// The number of buckets of a directory that is hashed flat, each one leaf: its pieces have no part in the hash,
    /// so they may be larger, and fewer of them must be read for it. It divides that of other directories, so names
    /// that share a bucket there share one here (`hash::check_spread`).
    const fn flat_buckets(&self) -> u32 {
        if self.bits > 3 { 1 << (self.bits - 2) } else { 2 }
    }

    /// The number of buckets of an inner piece, whose entries are hashed flat or not.
    const fn buckets_of(&self, flat: bool) -> u32 {
        if flat { self.flat_buckets() } else { self.buckets() }
    }

    /// The bucket of a name in an inner piece.
    #[inline]
    fn bucket_of(&self, flat: bool, depth: u8, name: &[u8]) -> u32 {
        seeded_hash(u32::from(depth), name) & (self.buckets_of(flat) - 1)
    }

    /// The most entries of a leaf piece.
    const fn leaf_max(&self) -> usize {
        1 << self.bits
    }

    #[inline]
    fn bucket(&self, depth: u8, name: &[u8]) -> u32 {
        seeded_hash(u32::from(depth), name) & (self.buckets() - 1)
    }

    /// Returns the depth from which on the reference refuses to spread entries.
    const fn depth_end(&self) -> u8 {
        (DEPTH_BITS / self.bits as u32) as u8
    }

    /// Refuses to spread entries at a depth that the reference refuses.
    fn check_depth(&self, depth: u8) -> Result<(), FormatError> {
        if depth < self.depth_end() {
            return Ok(());
        }
        Err(unsupported("too many names of one directory whose hashes collide"))
    }
}

impl Default for Tezos {
    fn default() -> Self {
        Self::new()
    }
}

fn bad(source: DecodeError) -> FormatError {
    FormatError::Decode { kind: Kind::Node, source }
}

fn inconsistent(reason: &'static str) -> FormatError {
    FormatError::Inconsistent { kind: Kind::Node, reason }
}

fn unsupported(what: &'static str) -> FormatError {
    FormatError::Unsupported { format: Tezos::NAME, what }
}

impl Tezos {
    fn read_find<'a, S: Source>(
        &self,
        source: &'a S,
        dir: &ObjRef,
        step: &[u8],
    ) -> Result<Option<(EntryKind, Target<'a>)>, S::Error> {
        let (mut at, mut flat) = (*dir, false);
        for depth in 0..u8::MAX {
            let object = source.read(Kind::Node, &at)?;
            let node = node::at_depth(self, &object, depth, flat)?;
            flat = matches!(&node, PieceView::Inner(inner) if inner.flat);
            match node.find(step, |flat, depth| self.bucket_of(flat, depth, step)).map_err(bad)? {
                PieceLookup::Nothing => return Ok(None),
                PieceLookup::Child { index, hash } => at = ObjRef::new(Oid::from_array(*hash), object.child(index)),
                PieceLookup::Item { index } => {
                    let PieceView::Leaf(leaf) = node else { break };
                    let found = leaf.target(index, |index| object.child(index), |range| object.body_slice(range));
                    return Ok(Some(found.map_err(bad)?));
                }
            }
        }
        Err(inconsistent("its depth is not that of its place").into())
    }
}

impl Format for Tezos {
    const NAME: &'static str = "tezos";
    const VERSION: u32 = 0;

    type Listing<'a, S: Source + 'a> = TezosListing<'a>;
    type Comparison<'a, S: Source + 'a> = TezosComparison<'a>;

    fn options(&self) -> String {
        let split = if self.split { "on" } else { "off" };
        format!("entries={} stable={} inline={} split={split}", self.buckets(), self.stable, self.inline)
    }

    fn from_options(options: &str) -> Result<Self, FormatError> {
        let unknown = || FormatError::Options { format: Self::NAME, options: options.into() };
        let mut tezos = Self::new();
        for word in options.split_whitespace() {
            let (key, value) = word.split_once('=').ok_or_else(unknown)?;
            let number = || value.parse::<u16>().map_err(|_| unknown());
            match (key, value) {
                ("entries", _) => match number()? {
                    entries @ (2 | 4 | 8 | 16 | 32 | 64) => tezos.bits = entries.trailing_zeros() as u8,
                    _ => return Err(unknown()),
                },
                ("stable", _) => tezos.stable = number()?,
                ("inline", _) => match number()? {
                    bytes if usize::from(bytes) <= INLINE_BYTES_MAX => tezos.inline = bytes,
                    _ => return Err(unknown()),
                },
                ("split", "on") => tezos.split = true,
                ("split", "off") => tezos.split = false,
                _ => return Err(unknown()),
            }
        }
        if usize::from(tezos.stable) < tezos.leaf_max() { Err(unknown()) } else { Ok(tezos) }
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
        match fast::find(self, source, dir, step) {
            Some(found) => Ok(found),
            None => self.read_find(source, dir, step),
        }
    }

    #[inline]
    fn descend<S: Source>(&self, source: &S, dir: &ObjRef, path: &[u8]) -> Result<Option<ObjRef>, S::Error> {
        descend::descend(
            dir,
            path,
            |dir, rest| descend::owned(fast::descend(self, source, (dir.oid.as_bytes(), dir.at), rest)),
            |dir, step| self.find(source, dir, step),
        )
    }

    fn listing<'a, S: Source + 'a>(
        &self,
        dir: &ObjRef,
        from: Option<&[u8]>,
        to: Option<&[u8]>,
        direction: Direction,
    ) -> TezosListing<'a> {
        TezosListing::new(self, dir, from, to, direction)
    }

    fn count<S: Source>(&self, source: &S, dir: &ObjRef) -> Result<u64, S::Error> {
        let object = source.read(Kind::Node, dir)?;
        Ok(node::at_depth(self, &object, 0, false)?.count())
    }

    fn comparison<'a, S: Source + 'a>(
        &self,
        before: Option<&ObjRef>,
        after: Option<&ObjRef>,
        from: Option<&[u8]>,
        to: Option<&[u8]>,
    ) -> TezosComparison<'a> {
        TezosComparison::new(self, before, after, from, to)
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

    fn empty_dir<K: Sink>(&self, _: &mut K) -> Result<ObjRef, FormatError> {
        Err(unsupported("an empty directory"))
    }

    fn put_contents<K: Sink>(&self, sink: &mut K, value: &[u8]) -> Result<ObjRef, FormatError> {
        if value.len() > VALUE_BYTES_MAX {
            return Err(unsupported("a value of more than 2 GiB"));
        }
        let oid = Oid::from_array(id::contents(value));
        let at = sink.known(&oid).unwrap_or_else(|| sink.put(Kind::Contents, oid, value, &[], &[]));
        Ok(ObjRef::new(oid, at))
    }

    fn read_contents<'a, S: Source>(
        &self,
        source: &'a S,
        at: &ObjRef,
        range: Range<u64>,
    ) -> Result<Bytes<'a>, S::Error> {
        let body = source.read(Kind::Contents, at)?.into_body();
        let bound = |at: u64| usize::try_from(at).unwrap_or(usize::MAX).min(body.len());
        let (start, end) = (bound(range.start), bound(range.end));
        Ok(body.slice(start..end.max(start)))
    }

    fn put_commit<K: Sink>(&self, sink: &mut K, commit: &Commit, generation: u64) -> Result<ObjRef, FormatError> {
        commit::put(sink, commit, generation)
    }

    fn decode_commit(&self, object: &Object<'_>) -> Result<Commit, FormatError> {
        commit::decode(object.body(), |index| object.child(index))
            .map_err(|source| FormatError::Decode { kind: Kind::Commit, source })
    }

    fn children(&self, kind: Kind, body: &[u8], each: &mut dyn FnMut(Kind, Oid)) -> Result<(), FormatError> {
        match kind {
            Kind::Contents => Ok(()),
            Kind::Node => node::children(self, body, each).map_err(bad),
            Kind::Commit => {
                let wrong = |source| FormatError::Decode { kind, source };
                let commit = commit::decode(body, |_| Location::NONE).map_err(wrong)?;
                each(Kind::Node, commit.tree.oid());
                commit.parents.iter().for_each(|parent| each(Kind::Commit, parent.oid()));
                Ok(())
            }
            Kind::Pieces => Err(unsupported("an object of kind pieces")),
            Kind::Tag => Err(unsupported("an object of kind tag")),
        }
    }

    fn object_id<S: Source>(&self, source: &S, object: &Object<'_>) -> Result<Oid, S::Error> {
        Ok(Oid::from_array(match object.kind() {
            Kind::Contents => id::contents(object.body()),
            Kind::Commit => id::blake2b(object.body()),
            Kind::Node => hash::stored(self, source, object)?,
            Kind::Pieces => return Err(unsupported("an object of kind pieces").into()),
            Kind::Tag => return Err(unsupported("an object of kind tag").into()),
        }))
    }

    fn holds(&self, kind: EntryKind) -> bool {
        matches!(kind, EntryKind::Value | EntryKind::Dir)
    }

    fn signatures(&self, author: Signature, _: Signature) -> (Signature, Signature) {
        let author = Signature::new(author.ident, author.seconds);
        (author.clone(), author)
    }

    fn commit_text(&self, oid: &Oid) -> Option<String> {
        (oid.as_bytes().len() == id::ID_BYTES).then(|| commit_text(oid))
    }

    fn parse_commit_text(&self, text: &str) -> Option<Oid> {
        parse_commit_text(text.as_bytes())
    }
}
