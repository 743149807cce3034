//! The format of Git: trees, blobs, commits and annotated tags with Git's own ids. `docs/formats/git.md` lists the
//! bytes.
//!
//! What is hashed is what Git hashes: a header (`tree 123` and a zero byte) and Git's bytes of the object. What is
//! stored are the same bytes, except of trees: a table before those finds an entry without a search.

use alloc::{format, string::String, vec::Vec};
use core::ops::Range;

use self::table::GitTable;
use super::{Direction, Format, FormatError};
use crate::{
    Bytes, Change, Commit, DecodeError, EntryKind, Kind, Location, ObjRef, Object, Oid, Signature, Sink, Source, Tag,
    Target, format::descend,
};

mod commit;
mod diff;
mod fast;
mod hash;
mod list;
mod name;
mod raw;
mod table;
mod tag;
mod update;
mod who;

pub use crate::Algorithm;
pub use commit::{decode_commit, encode_commit, is_canonical_commit};
pub use diff::GitComparison;
pub use hash::{kind_of, type_name};
pub use list::GitListing;
pub use name::refused_name;
pub use raw::{RawEntries, RawEntry, raw_entries};
pub use tag::{decode_tag, encode_tag, is_canonical_tag};

/// The longest value, in bytes: it is one object, of which records give the length in 32 bits.
const VALUE_BYTES_MAX: usize = u32::MAX as usize;

/// Appends the stored body of the tree whose bytes, as Git has them, are `raw`: a table, and those bytes.
///
/// Modes that Git would not write today are taken as Git takes them, and so is a `.git`: histories hold them.
///
/// # Errors
/// [`DecodeError`] if an entry is malformed, two have one name, or they are not in Git's order; for the names `.`
/// and `..` and those that hold a slash; for more than 2 GiB. Nothing is appended then.
pub fn tree_body(algorithm: Algorithm, raw: &[u8], out: &mut Vec<u8>) -> Result<(), DecodeError> {
    table::put_body(algorithm, raw, out, &mut |_| {})
}

/// Returns Git's bytes of an object within its stored body.
///
/// # Errors
/// [`DecodeError`] if the body of a tree is too short for its table. What the table says is not checked.
#[inline]
pub fn raw(kind: Kind, body: &[u8]) -> Result<&[u8], DecodeError> {
    // The parts of a table do not depend on the length of ids.
    if kind == Kind::Node { Ok(GitTable::parse(0, body)?.raw) } else { Ok(body) }
}

/// The format of Git: its trees, blobs, commits and annotated tags, with its ids.
///
/// Trees are stored with a table in front of Git's bytes that finds an entry without a search. Names that Git
/// refuses (`.`, `..`, `.git` however it is spelled) are refused where they are set, and read where old histories
/// hold them. Git's trees do not say how long values are: [`Target::UNKNOWN_BYTES`] stands for that.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Git {
    algorithm: Algorithm,
}

impl Git {
    /// The format with this hash.
    #[must_use]
    pub const fn new(algorithm: Algorithm) -> Self {
        Self { algorithm }
    }

    /// The format with ids of SHA-1, as most repositories have them.
    #[must_use]
    pub const fn sha1() -> Self {
        Self::new(Algorithm::Sha1)
    }

    /// The format with ids of SHA-256.
    #[must_use]
    pub const fn sha256() -> Self {
        Self::new(Algorithm::Sha256)
    }

    /// Returns the hash that makes ids.
    #[must_use]
    pub const fn algorithm(&self) -> Algorithm {
        self.algorithm
    }

    const fn oid_bytes(&self) -> usize {
        self.algorithm.oid_bytes()
    }

    /// Gives an object whose bytes, as Git has them, are `raw` to the sink, as they are.
    ///
    /// # Errors
    /// [`FormatError::Decode`] if they are not an object of this kind, [`FormatError::Unsupported`] for one that is
    /// too long.
    pub fn put_raw<K: Sink>(&self, sink: &mut K, kind: Kind, raw: &[u8]) -> Result<ObjRef, FormatError> {
        if type_name(kind).is_none() {
            return Err(unsupported("a piece of a value"));
        }
        let oid = self.algorithm.object_id(kind, raw);
        if let Some(at) = sink.known(&oid) {
            return Ok(ObjRef::new(oid, at));
        }
        self.put_checked(sink, kind, oid, raw, |sink, oid| sink.known(oid).unwrap_or(Location::NONE))
    }

    /// The same for bytes whose id is known, and was checked. `place` tells where children are.
    ///
    /// # Errors
    /// As [`Git::put_raw`].
    pub fn put_raw_as<K: Sink>(
        &self,
        sink: &mut K,
        kind: Kind,
        oid: Oid,
        raw: &[u8],
        place: &mut dyn FnMut(&Oid) -> Location,
    ) -> Result<ObjRef, FormatError> {
        self.put_checked(sink, kind, oid, raw, |_, oid| place(oid))
    }

    fn put_checked<K: Sink>(
        &self,
        sink: &mut K,
        kind: Kind,
        oid: Oid,
        raw: &[u8],
        mut place: impl FnMut(&K, &Oid) -> Location,
    ) -> Result<ObjRef, FormatError> {
        if raw.len() > VALUE_BYTES_MAX {
            return Err(unsupported("an object of 4 GiB and more"));
        }
        let mut children = Vec::new();
        let mut body = sink.take_buffer();
        body.clear();
        let checked = if kind == Kind::Node {
            let mut each = |entry: &RawEntry<'_>| entry_child(entry, &mut |_, oid| children.push(oid));
            table::put_body(self.algorithm, raw, &mut body, &mut each).map_err(bad)
        } else {
            self.each_raw_child(kind, raw, &mut |_, oid| children.push(oid))
        };
        let put = checked.map(|()| {
            let places: Vec<Location> = children.iter().map(|oid| place(sink, oid)).collect();
            let stored = if kind == Kind::Node { &body } else { raw };
            ObjRef::new(oid, sink.put(kind, oid, stored, some_places(&places), &[]))
        });
        body.clear();
        sink.give_buffer(body);
        put
    }

    /// Calls `each` with kind and id of every child of an object in Git's bytes, in order.
    fn each_raw_child(&self, kind: Kind, raw: &[u8], each: &mut dyn FnMut(Kind, Oid)) -> Result<(), FormatError> {
        let wrong = |source| FormatError::Decode { kind, source };
        match kind {
            Kind::Contents => {}
            Kind::Node => {
                table::checked_ends(self.algorithm, raw, &mut |entry| entry_child(entry, each)).map_err(wrong)?;
            }
            Kind::Commit => {
                let commit = decode_commit(self.algorithm, raw).map_err(wrong)?;
                each(Kind::Node, commit.tree.oid());
                commit.parents.iter().for_each(|parent| each(Kind::Commit, parent.oid()));
            }
            Kind::Tag => {
                let tag = decode_tag(self.algorithm, raw).map_err(wrong)?;
                each(tag.kind, tag.target.oid);
            }
            Kind::Pieces => return Err(unsupported("a piece of a value")),
        }
        Ok(())
    }

    fn read_find<'a, S: Source>(
        &self,
        source: &'a S,
        dir: &ObjRef,
        step: &[u8],
    ) -> Result<Option<(EntryKind, Target<'a>)>, S::Error> {
        let object = source.read(Kind::Node, dir)?;
        let table = GitTable::parse(self.oid_bytes(), object.body()).map_err(bad)?;
        let Some(index) = table.find(step).map_err(bad)? else { return Ok(None) };
        let entry = table.entry(index).map_err(bad)?;
        Ok(Some(target(entry.kind(), entry.oid(), || table.location(&object, index))))
    }
}

/// Calls `each` for the object that an entry leads to, if it is of this store.
fn entry_child(entry: &RawEntry<'_>, each: &mut dyn FnMut(Kind, Oid)) {
    match entry.kind() {
        EntryKind::Foreign => {}
        EntryKind::Dir => each(Kind::Node, entry.oid()),
        _ => each(Kind::Contents, entry.oid()),
    }
}

#[inline(always)]
fn target<'a>(kind: EntryKind, oid: Oid, at: impl FnOnce() -> Location) -> (EntryKind, Target<'a>) {
    let bytes = if kind == EntryKind::Dir { 0 } else { Target::UNKNOWN_BYTES };
    match kind {
        EntryKind::Foreign => (kind, Target::Foreign(oid)),
        _ => (kind, Target::Object { at: ObjRef::new(oid, at()), bytes }),
    }
}

/// Returns the locations of children as records keep them: none where there is no hint.
fn some_places(places: &[Location]) -> &[Location] {
    if places.iter().any(|at| at.is_some()) { places } else { &[] }
}

fn bad(source: DecodeError) -> FormatError {
    FormatError::Decode { kind: Kind::Node, source }
}

fn unsupported(what: &'static str) -> FormatError {
    FormatError::Unsupported { format: Git::NAME, what }
}

impl Format for Git {
    const NAME: &'static str = "git";
    const VERSION: u32 = 1;

    type Listing<'a, S: Source + 'a> = GitListing<'a>;
    type Comparison<'a, S: Source + 'a> = GitComparison<'a>;

    fn options(&self) -> String {
        format!("hash={}", self.algorithm.name())
    }

    fn from_options(options: &str) -> Result<Self, FormatError> {
        let unknown = || FormatError::Options { format: Self::NAME, options: options.into() };
        let mut git = Self::sha1();
        for word in options.split_whitespace() {
            let name = word.strip_prefix("hash=").ok_or_else(unknown)?;
            git.algorithm = Algorithm::from_name(name).ok_or_else(unknown)?;
        }
        Ok(git)
    }

    fn inline_bytes_max(&self) -> usize {
        0
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
            |dir, step| self.read_find(source, dir, step),
        )
    }

    fn listing<'a, S: Source + 'a>(
        &self,
        dir: &ObjRef,
        from: Option<&[u8]>,
        to: Option<&[u8]>,
        direction: Direction,
    ) -> GitListing<'a> {
        GitListing::new(self.oid_bytes(), dir, from, to, direction)
    }

    fn count<S: Source>(&self, source: &S, dir: &ObjRef) -> Result<u64, S::Error> {
        let object = source.read(Kind::Node, dir)?;
        Ok(GitTable::parse(self.oid_bytes(), object.body()).map_err(bad)?.count as u64)
    }

    fn comparison<'a, S: Source + 'a>(
        &self,
        before: Option<&ObjRef>,
        after: Option<&ObjRef>,
        from: Option<&[u8]>,
        to: Option<&[u8]>,
    ) -> GitComparison<'a> {
        GitComparison::new(self.oid_bytes(), before, after, from, to)
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

    fn empty_dir<K: Sink>(&self, sink: &mut K) -> Result<ObjRef, FormatError> {
        self.put_raw(sink, Kind::Node, b"")
    }

    fn put_contents<K: Sink>(&self, sink: &mut K, value: &[u8]) -> Result<ObjRef, FormatError> {
        if value.len() > VALUE_BYTES_MAX {
            return Err(unsupported("a value of 4 GiB and more"));
        }
        let oid = self.algorithm.object_id(Kind::Contents, value);
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
        if let Some(what) = commit::refused(self.algorithm, commit) {
            return Err(unsupported(what));
        }
        self.put_copied_commit(sink, commit, generation)
    }

    /// What `git fsck` would find fault with is in histories all the same.
    fn put_copied_commit<K: Sink>(
        &self,
        sink: &mut K,
        commit: &Commit,
        generation: u64,
    ) -> Result<ObjRef, FormatError> {
        let mut body = Vec::new();
        encode_commit(commit, &mut body);
        if body.len() > VALUE_BYTES_MAX {
            return Err(unsupported("a commit of 4 GiB and more"));
        }
        let oid = self.algorithm.object_id(Kind::Commit, &body);
        let places: smallvec::SmallVec<[Location; 4]> = commit.references().map(|at| at.at).collect();
        let words = [generation];
        let metadata = if generation > 0 { &words[..] } else { &[] };
        Ok(ObjRef::new(oid, sink.put(Kind::Commit, oid, &body, some_places(&places), metadata)))
    }

    fn decode_commit(&self, object: &Object<'_>) -> Result<Commit, FormatError> {
        commit::decode(self.algorithm, object.body(), |index| object.child(index))
            .map_err(|source| FormatError::Decode { kind: Kind::Commit, source })
    }

    fn commit_tree(&self, object: &Object<'_>) -> Result<ObjRef, FormatError> {
        commit::tree(self.algorithm, &mut who::HeaderLines::new(object.body()), object.child(0))
            .map_err(|source| FormatError::Decode { kind: Kind::Commit, source })
    }

    fn put_tag<K: Sink>(&self, sink: &mut K, tag: &Tag) -> Result<ObjRef, FormatError> {
        if let Some(what) = tag::refused(self.algorithm, tag) {
            return Err(unsupported(what));
        }
        let mut body = Vec::new();
        encode_tag(tag, &mut body);
        if body.len() > VALUE_BYTES_MAX {
            return Err(unsupported("a tag of 4 GiB and more"));
        }
        let oid = self.algorithm.object_id(Kind::Tag, &body);
        let place = [tag.target.at];
        let at = sink.known(&oid).unwrap_or_else(|| sink.put(Kind::Tag, oid, &body, some_places(&place), &[]));
        Ok(ObjRef::new(oid, at))
    }

    fn decode_tag(&self, object: &Object<'_>) -> Result<Tag, FormatError> {
        tag::decode(self.algorithm, object.body(), object.child(0))
            .map_err(|source| FormatError::Decode { kind: Kind::Tag, source })
    }

    fn children(&self, kind: Kind, body: &[u8], each: &mut dyn FnMut(Kind, Oid)) -> Result<(), FormatError> {
        if kind == Kind::Node {
            table::check(self.algorithm, body, &mut |entry| entry_child(entry, each)).map_err(bad)?;
            return Ok(());
        }
        self.each_raw_child(kind, body, each)
    }

    fn object_id<S: Source>(&self, _: &S, object: &Object<'_>) -> Result<Oid, S::Error> {
        let raw = match object.kind() {
            Kind::Node => table::check(self.algorithm, object.body(), &mut |_| {}).map_err(bad)?.raw,
            Kind::Pieces => return Err(unsupported("a piece of a value").into()),
            _ => object.body(),
        };
        // The caller did not make the object.
        let collides = FormatError::Inconsistent { kind: object.kind(), reason: "it was made to collide under SHA-1" };
        Ok(self.algorithm.received_id(object.kind(), raw).ok_or(collides)?)
    }

    fn signatures(&self, author: Signature, committer: Signature) -> (Signature, Signature) {
        (who::normalised(author), who::normalised(committer))
    }
}
