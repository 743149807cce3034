//! A cursor that lends entries: nothing is copied and nothing is allocated where the backend lends the map's pieces.

use std::{cell::OnceCell, fmt};

use bristlecone_core::{
    Bytes, Kind, Source as _, Target, lent,
    native::{EntryCursor, LentEntry, Native},
};

use super::{Map, not_a_value};
use crate::{Cursor, Result, store::StoreView, tree::Tree};

/// A position among the entries of a map: on an entry, or between two of them.
///
/// ```
/// # use bristlecone::Repo;
/// let mut map = Repo::memory().map();
/// map.apply([(b"a", Some(b"1")), (b"c", Some(b"3")), (b"e", Some(b"5"))])?;
/// let mut cursor = map.cursor()?;
/// cursor.seek(b"b")?;
/// assert_eq!(cursor.next()?.map(|item| item.key()), Some(&b"c"[..]));
/// assert_eq!(cursor.next()?.map(|item| item.value()).transpose()?, Some(&b"5"[..]));
/// assert!(cursor.next()?.is_none());
/// assert_eq!(cursor.previous()?.map(|item| item.key()), Some(&b"e"[..]));
/// # Ok::<(), bristlecone::Error>(())
/// ```
pub struct MapCursor<'m> {
    tree: &'m Tree<Native>,
    run: Run<'m>,
    // The value of the current entry, if it was read from elsewhere.
    far: OnceCell<Bytes<'m>>,
}

#[allow(clippy::large_enum_variant, reason = "a box would be one load more for each entry")]
enum Run<'m> {
    /// Over a stored map whose pieces are lent.
    Lent(EntryCursor<'m, StoreView<Native>>),
    /// Over what is stored with pending edits above it, or over pieces that are read ahead.
    Merged(Box<Cursor<'m, Native>>),
}

/// An entry that a cursor lends until it moves.
#[derive(Clone, Copy)]
pub struct MapItem<'c, 'm> {
    key: &'c [u8],
    // The value, where it lives in the directory and is short.
    inline: Option<&'c [u8]>,
    cursor: &'c MapCursor<'m>,
}

impl fmt::Debug for MapCursor<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.run {
            Run::Lent(cursor) => f.debug_tuple("MapCursor").field(cursor).finish(),
            Run::Merged(cursor) => f.debug_tuple("MapCursor").field(cursor).finish(),
        }
    }
}

impl fmt::Debug for MapItem<'_, '_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MapItem").field("key", &Bytes::from(self.key())).finish_non_exhaustive()
    }
}

impl<'c, 'm> MapItem<'c, 'm> {
    /// Returns the key.
    #[must_use]
    #[inline]
    pub const fn key(&self) -> &'c [u8] {
        self.key
    }

    /// Returns the value, lent as the key is. One that does not live in the directory itself is read now, and kept until the
    /// cursor moves.
    ///
    /// # Errors
    /// As [`Map::get`].
    #[inline]
    pub fn value(&self) -> Result<&'c [u8]> {
        match self.inline {
            Some(value) => Ok(value),
            None => self.cursor.far_value(),
        }
    }

    /// Returns the value, to be kept beyond the cursor's next move; it is not copied where the backend lends or shares it.
    ///
    /// # Errors
    /// As [`Map::get`].
    pub fn contents(&self) -> Result<Bytes<'m>> {
        self.cursor.contents()
    }
}

/// Returns the value of an entry that a cursor lends, which is read if it is an object.
pub(super) fn lent_value<'m>(tree: &'m Tree<Native>, entry: &LentEntry<'_, 'm>) -> Result<Bytes<'m>> {
    match entry.bound()? {
        (_, Target::Inline(bytes)) => Ok(bytes),
        (kind, Target::Object { at, .. }) if kind.has_contents() => tree.read_stored(&at),
        _ => Err(not_a_value(entry.step())),
    }
}

impl Map {
    /// Returns a cursor before the first entry.
    ///
    /// # Errors
    /// As [`Map::get`].
    pub fn cursor(&self) -> Result<MapCursor<'_>> {
        let tree = &self.tree;
        let stored = tree.stored_root()?;
        if !tree.is_edited() {
            let store = tree.view();
            let is_lent = match &stored {
                // A record is lent once it was checked.
                Some(root) => store.read(Kind::Node, root).map(|_| lent(store, Kind::Node, root).is_some())?,
                None => true,
            };
            if is_lent {
                return Ok(MapCursor { tree, run: Run::Lent(EntryCursor::new(store, stored)), far: OnceCell::new() });
            }
        }
        Ok(MapCursor { tree, run: Run::Merged(Box::new(tree.step_cursor()?)), far: OnceCell::new() })
    }
}

impl<'m> MapCursor<'m> {
    /// Goes before the first entry whose key is at least `key`.
    ///
    /// # Errors
    /// As [`Map::get`]; then the cursor is before the first entry.
    pub fn seek(&mut self, key: &[u8]) -> Result<()> {
        self.forget();
        match &mut self.run {
            Run::Lent(cursor) => cursor.seek(key),
            Run::Merged(cursor) => {
                cursor.seek(key);
                Ok(())
            }
        }
    }

    /// Goes before the first entry.
    pub fn seek_start(&mut self) {
        self.forget();
        match &mut self.run {
            Run::Lent(cursor) => cursor.seek_start(),
            Run::Merged(cursor) => cursor.seek_start(),
        }
    }

    /// Goes behind the last entry.
    ///
    /// # Errors
    /// As [`MapCursor::seek`].
    pub fn seek_end(&mut self) -> Result<()> {
        self.forget();
        match &mut self.run {
            Run::Lent(cursor) => cursor.seek_end(),
            Run::Merged(cursor) => {
                cursor.seek_end();
                Ok(())
            }
        }
    }

    /// Goes on to the next entry and lends it; `None` behind the last one, where the cursor stays.
    ///
    /// # Errors
    /// As [`Map::get`]; then the cursor stays where it was, or on an entry that cannot be read, as [`MapCursor::item`] says again.
    #[allow(clippy::should_implement_trait, reason = "an iterator cannot lend")]
    #[inline]
    pub fn next(&mut self) -> Result<Option<MapItem<'_, 'm>>> {
        let is_here = match &mut self.run {
            Run::Lent(cursor) if self.far.get().is_none() => cursor.next_in_leaf(),
            _ => false,
        };
        if is_here || self.go_on()? { self.item() } else { Ok(None) }
    }

    /// As [`MapCursor::next`], in any case; returns whether there is an entry.
    #[inline(never)]
    fn go_on(&mut self) -> Result<bool> {
        self.forget();
        Ok(match &mut self.run {
            Run::Lent(cursor) => cursor.next()?,
            Run::Merged(cursor) => cursor.next()?.is_some(),
        })
    }

    /// Goes back to the entry before and lends it; `None` before the first one, where the cursor stays.
    ///
    /// # Errors
    /// As [`MapCursor::next`].
    #[inline]
    pub fn previous(&mut self) -> Result<Option<MapItem<'_, 'm>>> {
        self.forget();
        let is_on = match &mut self.run {
            Run::Lent(cursor) => cursor.previous()?,
            Run::Merged(cursor) => cursor.previous()?.is_some(),
        };
        if is_on { self.item() } else { Ok(None) }
    }

    /// Returns the entry that the cursor is on; `None` between entries.
    ///
    /// # Errors
    /// As [`Map::get`].
    #[inline]
    pub fn item(&self) -> Result<Option<MapItem<'_, 'm>>> {
        if let Run::Lent(cursor) = &self.run
            && let Some((key, value)) = cursor.short_entry()
        {
            return Ok(Some(MapItem { key, inline: Some(value), cursor: self }));
        }
        self.any_item()
    }

    /// As [`MapCursor::item`], in any case.
    #[inline(never)]
    fn any_item(&self) -> Result<Option<MapItem<'_, 'm>>> {
        let found = match &self.run {
            Run::Lent(cursor) => cursor.entry()?.map(|entry| (entry.step(), entry.inline())),
            Run::Merged(cursor) => cursor.entry().map(|entry| (entry.step(), None)),
        };
        Ok(found.map(|(key, inline)| MapItem { key, inline, cursor: self }))
    }

    /// Returns the value of the current entry, which is read once.
    fn far_value(&self) -> Result<&[u8]> {
        if let Some(value) = self.far.get() {
            return Ok(value);
        }
        let value = self.contents()?;
        Ok(self.far.get_or_init(|| value))
    }

    fn contents(&self) -> Result<Bytes<'m>> {
        match &self.run {
            Run::Lent(cursor) => match cursor.entry()? {
                Some(entry) => lent_value(self.tree, &entry),
                None => Err(not_a_value(b"")),
            },
            Run::Merged(cursor) => match cursor.entry() {
                Some(entry) => entry.contents()?.ok_or_else(|| not_a_value(entry.step())),
                None => Err(not_a_value(b"")),
            },
        }
    }

    #[inline]
    fn forget(&mut self) {
        if self.far.get().is_some() {
            self.far = OnceCell::new();
        }
    }
}
