//! Reading a map as it is at one moment.

use std::{
    cmp::Ordering,
    fmt,
    ops::{Bound, RangeBounds},
};

use super::{
    Mode,
    error::{OkraError, Result},
    lmdb::{Cursor, Item, Txn},
    node::{HASH_BYTES, KEY_BYTES_MAX, METADATA_KEY, NodeHash, NodeKey, OkraNode, OkraRoot},
};

/// An entry: its key, and its value or, in index mode, its hash.
pub type Entry<'a> = (&'a [u8], &'a [u8]);

/// A map as it is at one moment.
///
/// Later commits do not change what it reads. It keeps LMDB from using the pages of that moment again, so that the
/// file grows while it lives and others write.
pub struct OkraSnapshot<'m> {
    pub(super) txn: Txn<'m>,
    pub(super) mode: Mode,
}

impl fmt::Debug for OkraSnapshot<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OkraSnapshot").field("file", &self.file()).field("mode", &self.mode).finish_non_exhaustive()
    }
}

impl OkraSnapshot<'_> {
    /// Returns the value at `key`; in index mode, its hash of 16 bytes. The bytes lie in the map itself.
    ///
    /// # Errors
    /// [`OkraError::KeyEmpty`] and [`OkraError::KeyTooLong`] for what can be no key; [`OkraError::Damaged`].
    #[inline]
    pub fn get(&self, key: &[u8]) -> Result<Option<&[u8]>> {
        check_key(key)?;
        // Short keys, the usual ones, are put together in a few bytes.
        let value = if key.len() < 32 {
            let mut bytes = [0; 32];
            bytes[1..=key.len()].copy_from_slice(key);
            self.txn.get(&bytes[..=key.len()])?
        } else {
            self.txn.get(NodeKey::new(0, key).bytes())?
        };
        value.map(|value| self.value(key, value)).transpose()
    }

    /// Tells whether there is an entry at `key`.
    ///
    /// # Errors
    /// As [`OkraSnapshot::get`].
    pub fn contains(&self, key: &[u8]) -> Result<bool> {
        Ok(self.get(key)?.is_some())
    }

    /// Returns the entry with the smallest key.
    ///
    /// # Errors
    /// [`OkraError::Damaged`], and those of LMDB.
    pub fn first(&self) -> Result<Option<Entry<'_>>> {
        self.entries()?.next().transpose()
    }

    /// Returns the entry with the greatest key.
    ///
    /// # Errors
    /// [`OkraError::Damaged`], and those of LMDB.
    pub fn last(&self) -> Result<Option<Entry<'_>>> {
        self.entries()?.next_back().transpose()
    }

    /// Returns all entries in the order of their keys, from both ends.
    ///
    /// # Errors
    /// Those of LMDB.
    pub fn entries(&self) -> Result<Entries<'_>> {
        self.range::<&[u8]>(..)
    }

    /// Returns the entries within bounds in the order of their keys, from both ends.
    ///
    /// # Errors
    /// [`OkraError::KeyTooLong`] for a bound, and those of LMDB.
    pub fn range<K: AsRef<[u8]>>(&self, bounds: impl RangeBounds<K>) -> Result<Entries<'_>> {
        Ok(Entries {
            front: self.cursor()?,
            back: self.cursor()?,
            from: Some(owned(bounds.start_bound())?),
            to: owned(bounds.end_bound())?,
            first: None,
            last: None,
            done: false,
        })
    }

    /// Returns a cursor that stands before the first entry.
    ///
    /// # Errors
    /// Those of LMDB.
    pub fn cursor(&self) -> Result<OkraCursor<'_>> {
        Ok(OkraCursor { cursor: self.txn.cursor()?, place: Place::Start, ahead: None, snapshot: self })
    }

    /// Returns the root: equal for equal entries, and different for others; in index mode, where hashes depend on their keys
    /// ([`Mode::Index`]).
    ///
    /// # Errors
    /// [`OkraError::Damaged`] where there is no root, and those of LMDB.
    pub fn root(&self) -> Result<OkraRoot> {
        let damaged = |reason| OkraError::damaged(self.file(), 0, &[], reason);
        let mut cursor = self.txn.cursor()?;
        cursor.seek(&METADATA_KEY)?.ok_or_else(|| damaged("the metadata are missing"))?;
        let (key, value) = cursor.prev()?.ok_or_else(|| damaged("there is no anchor"))?;
        // The name of a database would be an entry of the same form; what it leads to is longer than a hash.
        let (&[level], HASH_BYTES, Some(hash)) = (key, value.len(), NodeHash::at(value)) else {
            return Err(damaged("the highest level does not end with an anchor"));
        };
        if level == 1
            && let Some(([0], value)) = cursor.prev()?
        {
            // Okra leaves a level above the anchor of a map whose last entry it deletes.
            let hash = NodeHash::at(value).ok_or_else(|| damaged("the anchor has no hash"))?;
            return Ok(OkraRoot { level: 0, hash });
        }
        Ok(OkraRoot { level, hash })
    }

    /// Returns the hash of the node of `level` at `key`; an anchor has no key.
    ///
    /// # Errors
    /// [`OkraError::KeyTooLong`]; [`OkraError::Damaged`]; those of LMDB.
    pub fn node(&self, level: u8, key: Option<&[u8]>) -> Result<Option<NodeHash>> {
        let Some(key) = node_key(level, key)? else { return Ok(None) };
        let value = self.txn.get(key.bytes())?;
        value.map(|value| self.hash(level, key.key(), value)).transpose()
    }

    /// Returns the children of the node of `level` at `key`, in the order of their keys; those of level 0 with
    /// their values. There is `None` where there is no such node, and at level 0.
    ///
    /// The list is as long as the longest run without a boundary: 32 on average, a few hundred at worst for hashes
    /// that nobody chose.
    ///
    /// # Errors
    /// As [`OkraSnapshot::node`].
    pub fn children(&self, level: u8, key: Option<&[u8]>) -> Result<Option<Vec<OkraNode>>> {
        let Some(below) = level.checked_sub(1) else { return Ok(None) };
        let Some(mut from) = node_key(level, key)? else { return Ok(None) };
        if self.txn.get(from.bytes())?.is_none() {
            return Ok(None);
        }
        from.set_level(below);
        let mut cursor = self.txn.cursor()?;
        let mut item = cursor.seek(from.bytes())?;
        let mut children = Vec::new();
        while let Some(([at, key @ ..], value)) = item.filter(|(key, _)| key.first() == Some(&below)) {
            debug_assert_eq!(*at, below);
            let hash = self.hash(below, key, value)?;
            if children.is_empty() {
                if key != from.key() {
                    break;
                }
            } else if hash.is_boundary() {
                break;
            }
            let is_entry = below == 0 && !key.is_empty() && self.mode == Mode::Store;
            children.push(OkraNode {
                key: (!key.is_empty()).then(|| key.to_vec()),
                hash,
                value: is_entry.then(|| value[HASH_BYTES..].to_vec()),
            });
            item = cursor.next()?;
        }
        if children.is_empty() {
            return Err(OkraError::damaged(self.file(), level, from.key(), "it has no children"));
        }
        Ok(Some(children))
    }

    /// Returns the count of nodes of all levels, entries and anchors among them, and the count of LMDB's pages that
    /// hold them.
    ///
    /// # Errors
    /// Those of LMDB.
    pub fn node_count(&self) -> Result<(u64, u64)> {
        let (entries, pages) = self.txn.stat()?;
        Ok((entries.saturating_sub(1), pages))
    }

    /// The mode of the map.
    #[must_use]
    pub fn mode(&self) -> Mode {
        self.mode
    }

    pub(super) fn file(&self) -> &str {
        self.txn.file()
    }

    /// The hash in the value of a node.
    pub(super) fn hash(&self, level: u8, key: &[u8], value: &[u8]) -> Result<NodeHash> {
        NodeHash::at(value).ok_or_else(|| OkraError::damaged(self.file(), level, key, "it is shorter than a hash"))
    }

    /// What a caller sees of the value of an entry.
    #[inline]
    fn value<'a>(&self, key: &[u8], value: &'a [u8]) -> Result<&'a [u8]> {
        let range = match self.mode {
            Mode::Store => value.get(HASH_BYTES..),
            Mode::Index => value.get(..HASH_BYTES),
        };
        range.ok_or_else(|| OkraError::damaged(self.file(), 0, key, "it is shorter than a hash"))
    }
}

/// Refuses what cannot be the key of an entry.
#[inline]
pub(super) fn check_key(key: &[u8]) -> Result<()> {
    match key.len() {
        1..=KEY_BYTES_MAX => Ok(()),
        0 => Err(OkraError::KeyEmpty),
        bytes => Err(OkraError::KeyTooLong { bytes }),
    }
}

/// The key of a node in LMDB, unless it is that of no node.
fn node_key(level: u8, key: Option<&[u8]>) -> Result<Option<NodeKey>> {
    key.map_or(Ok(()), check_key)?;
    Ok((level != METADATA_KEY[0]).then(|| NodeKey::new(level, key.unwrap_or_default())))
}

fn owned<K: AsRef<[u8]>>(bound: Bound<&K>) -> Result<Bound<Vec<u8>>> {
    let bound = bound.map(K::as_ref);
    if let Bound::Included(key) | Bound::Excluded(key) = bound
        && key.len() > KEY_BYTES_MAX
    {
        return Err(OkraError::KeyTooLong { bytes: key.len() });
    }
    Ok(bound.map(<[u8]>::to_vec))
}

/// Where a cursor stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// Before the first entry.
    Start,
    /// Before an entry that was looked for: LMDB's cursor stands on it.
    Before,
    /// On an entry: LMDB's cursor stands there.
    On,
    /// Behind the last entry.
    End,
}

/// A position among the entries of a map: on an entry, or between two of them. What it gives lies in the map itself: it
/// copies and allocates nothing.
pub struct OkraCursor<'s> {
    cursor: Cursor<'s>,
    place: Place,
    // The entry that the cursor stands before.
    ahead: Option<Entry<'s>>,
    snapshot: &'s OkraSnapshot<'s>,
}

impl fmt::Debug for OkraCursor<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OkraCursor").field("map", &self.snapshot).field("place", &self.place).finish_non_exhaustive()
    }
}

impl<'s> OkraCursor<'s> {
    /// Goes on to the next entry; `None` behind the last one, where the cursor stays.
    ///
    /// # Errors
    /// [`OkraError::Damaged`], and those of LMDB.
    #[allow(clippy::should_implement_trait, reason = "a result of an option, as other cursors give")]
    #[inline]
    pub fn next(&mut self) -> Result<Option<Entry<'s>>> {
        let item = match self.place {
            Place::On => self.cursor.next()?,
            Place::Start => {
                self.cursor.seek(&[0])?;
                self.cursor.next()?
            }
            Place::Before => {
                self.place = Place::On;
                return Ok(self.ahead.take());
            }
            Place::End => return Ok(None),
        };
        self.arrive(item, Place::End)
    }

    /// Goes back to the entry before; `None` before the first one, where the cursor stays.
    ///
    /// # Errors
    /// [`OkraError::Damaged`], and those of LMDB.
    #[inline]
    pub fn previous(&mut self) -> Result<Option<Entry<'s>>> {
        let item = match self.place {
            Place::On | Place::Before => self.cursor.prev()?,
            Place::Start => return Ok(None),
            Place::End => {
                self.cursor.seek(&[1])?;
                self.cursor.prev()?
            }
        };
        self.arrive(item, Place::Start)
    }

    /// Goes before the first entry whose key is at least `key`.
    ///
    /// # Errors
    /// [`OkraError::KeyTooLong`]; [`OkraError::Damaged`]; those of LMDB. Then the cursor is before the first entry.
    pub fn seek(&mut self, key: &[u8]) -> Result<()> {
        let found = self.find(key);
        self.place = match found {
            Ok(Some(_)) => Place::Before,
            Ok(None) => Place::End,
            Err(_) => Place::Start,
        };
        self.ahead = found?;
        Ok(())
    }

    /// Goes before the first entry.
    pub fn seek_start(&mut self) {
        self.place = Place::Start;
    }

    /// Goes behind the last entry.
    pub fn seek_end(&mut self) {
        self.place = Place::End;
    }

    /// Goes to the first entry whose key is at least `key`; `None` behind the last one.
    pub(super) fn find(&mut self, key: &[u8]) -> Result<Option<Entry<'s>>> {
        if key.is_empty() {
            self.place = Place::Start;
            return self.next();
        }
        check_key(key)?;
        let item = self.cursor.seek(NodeKey::new(0, key).bytes())?;
        self.arrive(item, Place::End)
    }

    #[inline]
    fn arrive(&mut self, item: Option<Item<'s>>, beyond: Place) -> Result<Option<Entry<'s>>> {
        if let Some(([0, key @ ..], value)) = item
            && !key.is_empty()
        {
            self.place = Place::On;
            return Ok(Some((key, self.snapshot.value(key, value)?)));
        }
        self.place = beyond;
        Ok(None)
    }
}

/// Entries in the order of their keys, from both ends. They lie in the map itself.
#[derive(Debug)]
pub struct Entries<'s> {
    front: OkraCursor<'s>,
    back: OkraCursor<'s>,
    /// The lower bound, until the cursor has gone there.
    from: Option<Bound<Vec<u8>>>,
    to: Bound<Vec<u8>>,
    /// The keys that the two ends gave last.
    first: Option<&'s [u8]>,
    last: Option<&'s [u8]>,
    done: bool,
}

impl<'s> Entries<'s> {
    fn step(&mut self) -> Result<Option<Entry<'s>>> {
        let entry = match self.from.take() {
            None | Some(Bound::Unbounded) => self.front.next()?,
            Some(Bound::Included(key)) => self.front.find(&key)?,
            Some(Bound::Excluded(key)) => match self.front.find(&key)? {
                Some((found, _)) if found == key => self.front.next()?,
                entry => entry,
            },
        };
        let Some((key, value)) = entry else { return Ok(None) };
        let within = match (&self.last, &self.to) {
            (Some(last), _) => key < *last,
            (None, Bound::Included(to)) => key <= to.as_slice(),
            (None, Bound::Excluded(to)) => key < to.as_slice(),
            (None, _) => true,
        };
        self.first = Some(key);
        Ok(within.then_some((key, value)))
    }

    fn step_back(&mut self) -> Result<Option<Entry<'s>>> {
        let entry = if self.last.is_some() { self.back.previous()? } else { self.go_to_end()? };
        let Some((key, value)) = entry else { return Ok(None) };
        let within = match (&self.first, &self.from) {
            (Some(first), _) => key > *first,
            (None, Some(Bound::Included(from))) => key >= from.as_slice(),
            (None, Some(Bound::Excluded(from))) => key > from.as_slice(),
            (None, _) => true,
        };
        self.last = Some(key);
        Ok(within.then_some((key, value)))
    }

    /// The last entry within the upper bound.
    fn go_to_end(&mut self) -> Result<Option<Entry<'s>>> {
        let (Bound::Included(key) | Bound::Excluded(key)) = &self.to else {
            self.back.seek_end();
            return self.back.previous();
        };
        match self.back.find(key)? {
            Some(entry) if entry.0.cmp(key) == Ordering::Equal && matches!(self.to, Bound::Included(_)) => {
                Ok(Some(entry))
            }
            _ => self.back.previous(),
        }
    }
}

impl<'s> Iterator for Entries<'s> {
    type Item = Result<Entry<'s>>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.done {
            return None;
        }
        let entry = self.step().transpose();
        self.done = !matches!(entry, Some(Ok(_)));
        entry
    }
}

impl DoubleEndedIterator for Entries<'_> {
    fn next_back(&mut self) -> Option<Self::Item> {
        if self.done {
            return None;
        }
        let entry = self.step_back().transpose();
        self.done = !matches!(entry, Some(Ok(_)));
        entry
    }
}
