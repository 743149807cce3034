//! Ordered maps: one directory of the native format, with any bytes for keys.
//!
//! A map is the root directory of a tree, and is kept, committed, branched and merged as that. A path names entries
//! by steps of at least one byte and without `/`; a map has no such rule, since nodes take any step.
//! `docs/decisions/0031-maps.md` says why maps are what they are.

use std::ops::RangeBounds;

use bristlecone_core::{AsPath, Bytes, CommitId, EntryKind, STEP_BYTES_MAX, TreeId, escape, native::Native};

#[cfg(feature = "serde")]
pub use self::codec::Json;
pub use self::{
    codec::{CodecError, MapKey, MapValue},
    cursor::{MapCursor, MapItem},
    diff::{MapDifference, MapDifferences},
    load::MapLoader,
    merge::{MapConflict, MapMerged},
    range::MapRange,
    slot::MapSlot,
    typed::{TypedMap, TypedRange},
};
use crate::{
    Branch, Error, Info, NewValue, Repo, Result, Tree,
    tree::{StepEdit, StepValue},
};

mod codec;
mod count;
mod cursor;
mod diff;
mod load;
mod merge;
mod range;
mod slot;
mod typed;

/// The longest key of a map, in bytes.
pub const KEY_BYTES_MAX: usize = STEP_BYTES_MAX;

/// An ordered map from keys, any bytes up to 4,096 of them, to values.
///
/// A map is a value: cloning one shares what is stored and the pending edits until either is edited. Edits wait in memory
/// until a commit ([`Map::commit`]) hashes and writes what changed; every version that was committed stays.
///
/// **Law (roots).** The root of a map is a function of its entries and the format's options alone, whatever the order of
/// edits, batches and loads that led there; and it is the root of the [`Tree`] with the same entries.
///
/// ```
/// # use bristlecone::{Info, Repo};
/// let scores = Repo::memory().branch("scores")?;
/// let mut map = scores.map()?;
/// map.insert(b"ann/\0", b"7")?;
/// map.insert(b"", b"the empty key")?;
/// map.insert(b"bob", b"3")?;
/// map.commit(&scores, &Info::message("first"))?;
///
/// let map = scores.map()?;
/// assert_eq!(map.get(b"ann/\0")?.as_deref(), Some(&b"7"[..]));
/// assert_eq!((map.len()?, map.count(b"a".as_slice()..)?), (3, 2));
/// let keys: Vec<_> = map.range::<&[u8]>(..)?.rev().map(|entry| entry.map(|(key, _)| key.to_vec())).collect::<Result<_, _>>()?;
/// assert_eq!(keys, [&b"bob"[..], b"ann/\0", b""]);
/// # Ok::<(), bristlecone::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Map {
    tree: Tree<Native>,
}

impl From<Tree<Native>> for Map {
    /// Takes the root directory of a tree for a map.
    fn from(tree: Tree<Native>) -> Self {
        Self { tree }
    }
}

impl Repo<Native> {
    /// Returns an empty map.
    #[must_use]
    pub fn map(&self) -> Map {
        self.tree().into()
    }

    /// Returns the root directory of a commit as a map, with the commit as its origin.
    ///
    /// # Errors
    /// As [`Repo::read_commit`].
    pub fn checkout_map(&self, id: CommitId) -> Result<Map> {
        Ok(self.checkout(id)?.into())
    }
}

impl Branch<Native> {
    /// Checks the head's root directory out as a map; an empty map if the branch does not exist.
    ///
    /// # Errors
    /// As [`Branch::tree`].
    pub fn map(&self) -> Result<Map> {
        Ok(self.tree()?.into())
    }
}

impl Tree<Native> {
    /// Returns the directory at `path` as a map of its own; an empty map if there is no directory. Edits of the map reach
    /// the tree by [`Tree::set_tree`] with [`Map::tree`].
    ///
    /// ```
    /// # use bristlecone::Repo;
    /// let mut tree = Repo::memory().tree();
    /// tree.set("prices/apple", "3")?;
    /// let mut prices = tree.map("prices")?;
    /// prices.insert(b"plum/red", b"2")?;
    /// tree.set_tree("prices", prices.tree())?;
    /// assert_eq!(tree.count("prices")?, 2);
    /// # Ok::<(), bristlecone::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Tree::get_tree`].
    pub fn map(&self, path: impl AsPath) -> Result<Map> {
        let dir = self.get_tree(path)?;
        Ok(dir.unwrap_or_else(|| Self::at(self.store.clone(), None)).into())
    }
}

impl Map {
    /// Returns the tree whose root directory the map is. Steps with `/` and the empty one are found by
    /// [`Tree::list`] and [`Tree::cursor`] of it, not by paths.
    #[must_use]
    pub const fn tree(&self) -> &Tree<Native> {
        &self.tree
    }

    /// Returns the tree, to be committed or edited by paths.
    pub const fn tree_mut(&mut self) -> &mut Tree<Native> {
        &mut self.tree
    }

    /// Returns the tree.
    #[must_use]
    pub fn into_tree(self) -> Tree<Native> {
        self.tree
    }

    /// Returns the id of the root, hashing what was edited. Writes nothing.
    ///
    /// # Errors
    /// As [`Tree::root`].
    pub fn root(&self) -> Result<TreeId> {
        self.tree.root()
    }

    /// Commits the map as [`Branch::commit`] does its tree.
    ///
    /// # Errors
    /// As [`Branch::commit`].
    pub fn commit(&mut self, branch: &Branch<Native>, info: &Info) -> Result<CommitId> {
        branch.commit(&mut self.tree, info)
    }

    /// Returns the value of `key`; `None` if there is no such key. A value that lives in its directory is borrowed, where
    /// the backend lends objects.
    ///
    /// Reads at most one object for each level of the map, of which there are four or five for a million keys.
    ///
    /// # Errors
    /// [`Error::NotAValue`] for a directory or a foreign id, which a tree can hold; [`Error::Missing`],
    /// [`Error::Corrupt`] and others of the backend.
    #[inline]
    pub fn get(&self, key: &[u8]) -> Result<Option<Bytes<'_>>> {
        match self.tree.get_step(key)? {
            None => Ok(None),
            Some(StepValue::Bytes(bytes)) => Ok(Some(bytes)),
            Some(StepValue::Other) => Err(not_a_value(key)),
        }
    }

    /// Whether there is a value at `key`. The value is not read.
    ///
    /// # Errors
    /// As [`Map::get`].
    pub fn contains(&self, key: &[u8]) -> Result<bool> {
        match self.tree.step_kind(key)? {
            None => Ok(false),
            Some(EntryKind::Dir | EntryKind::Foreign) => Err(not_a_value(key)),
            Some(_) => Ok(true),
        }
    }

    /// Binds `key` to a value, replacing the one that is there.
    ///
    /// Short values wait in memory; one of 4 KiB and more may be hashed and written ahead of the commit. A value has at
    /// most 2 GiB.
    ///
    /// # Errors
    /// [`Error::TooLarge`] for a key of more than 4,096 bytes, or a value; those of the backend for large values.
    /// [`Error::IsDirectory`] as [`Tree::set`].
    pub fn insert<'v>(&mut self, key: &[u8], value: impl Into<NewValue<'v>>) -> Result<()> {
        check_key(key)?;
        self.tree.set_step(key, value.into())
    }

    /// Removes `key` with its value; nothing happens where there is no such key.
    ///
    /// # Errors
    /// [`Error::TooLarge`] for a key of more than 4,096 bytes; those of the backend where pending edits are written
    /// ([`Repo::set_pending_max`]): the key is not removed then.
    pub fn remove(&mut self, key: &[u8]) -> Result<()> {
        check_key(key)?;
        self.tree.remove_step(key)
    }

    /// Returns the place of `key`, to be looked at and filled.
    ///
    /// ```
    /// # use bristlecone::Repo;
    /// let mut counts = Repo::memory().map();
    /// for word in ["a", "b", "a"] {
    ///     counts.entry(word.as_bytes())?.and_modify(|count| count[0] += 1)?.or_insert(&[1])?;
    /// }
    /// assert_eq!(counts.get(b"a")?.as_deref(), Some(&[2][..]));
    /// # Ok::<(), bristlecone::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Map::get`] and [`Map::insert`].
    pub fn entry<'m>(&'m mut self, key: &[u8]) -> Result<MapSlot<'m>> {
        check_key(key)?;
        MapSlot::new(self, key)
    }

    /// Makes many edits as one, in any order: a value binds its key, `None` removes it, and of those of one key the last
    /// counts. Nothing is hashed or written before the commit, but values of 4 KiB and more, and what takes more memory than
    /// edits may ([`Repo::set_pending_max`]).
    ///
    /// This is the fastest way to change many entries: edits that come while there are no others are sorted once.
    ///
    /// ```
    /// # use bristlecone::Repo;
    /// let mut map = Repo::memory().map();
    /// map.apply([(b"b", Some(b"2")), (b"a", Some(b"1")), (b"b", None)])?;
    /// assert_eq!((map.contains(b"a")?, map.contains(b"b")?), (true, false));
    /// # Ok::<(), bristlecone::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Map::insert`]; then nothing is changed.
    pub fn apply<'v, K, V>(&mut self, edits: impl IntoIterator<Item = (K, Option<V>)>) -> Result<()>
    where
        K: AsRef<[u8]>,
        V: Into<NewValue<'v>>,
    {
        let edits = edits.into_iter();
        let mut made = Vec::with_capacity(edits.size_hint().0);
        for (key, value) in edits {
            made.push(self.edit_of(key.as_ref(), value.map(Into::into))?);
        }
        self.tree.edit_steps(made)
    }

    /// Makes an edit of a key and its value, to be applied with others.
    fn edit_of(&mut self, key: &[u8], value: Option<NewValue<'_>>) -> Result<StepEdit> {
        check_key(key)?;
        self.tree.step_edit(key, value)
    }

    /// Returns the entries whose keys lie within bounds, in order, from either end.
    ///
    /// Reads only the pieces that hold them, when they are asked for.
    ///
    /// ```
    /// # use bristlecone::Repo;
    /// let mut map = Repo::memory().map();
    /// map.apply((0..100_u32).map(|n| (n.to_be_bytes(), Some([1]))))?;
    /// let mut few = map.range(10_u32.to_be_bytes()..=20_u32.to_be_bytes())?;
    /// assert_eq!(few.next().transpose()?.expect("the first").0, 10_u32.to_be_bytes());
    /// assert_eq!(few.next_back().transpose()?.expect("the last").0, 20_u32.to_be_bytes());
    /// assert_eq!(few.count(), 9);
    /// # Ok::<(), bristlecone::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Map::get`].
    pub fn range<K: AsRef<[u8]>>(&self, bounds: impl RangeBounds<K>) -> Result<MapRange<'_>> {
        MapRange::new(self, bounds)
    }

    /// Returns all entries, in order, from either end.
    ///
    /// # Errors
    /// As [`Map::get`].
    pub fn iter(&self) -> Result<MapRange<'_>> {
        self.range::<&[u8]>(..)
    }

    /// Returns the entry with the smallest key.
    ///
    /// # Errors
    /// As [`Map::get`].
    pub fn first(&self) -> Result<Option<(Bytes<'_>, Bytes<'_>)>> {
        self.iter()?.next().transpose()
    }

    /// Returns the entry with the greatest key.
    ///
    /// # Errors
    /// As [`Map::get`].
    pub fn last(&self) -> Result<Option<(Bytes<'_>, Bytes<'_>)>> {
        MapRange::last(self)
    }
}

/// Checks the length of a key.
#[inline]
fn check_key(key: &[u8]) -> Result<()> {
    if key.len() > KEY_BYTES_MAX {
        return Err(Error::TooLarge { what: "a key", bytes: key.len() as u64, bytes_max: KEY_BYTES_MAX as u64 });
    }
    Ok(())
}

#[cold]
fn not_a_value(key: &[u8]) -> Error {
    Error::NotAValue { key: escape(key) }
}
