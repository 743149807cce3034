//! A cursor that lends entries: nothing is copied and nothing is allocated where the backend lends the map's pieces.

use bristlecone_core::{
    Bytes, Kind, Source as _, Target, lent,
    native::{EntryCursor, LentEntry, Native},
};

use super::{Map, not_a_value};
use crate::{Cursor, DirEntry, Error, Result, store::StoreView, tree::Tree};

/// A position among the entries of a map: on an entry, or between two of them.
///
/// ```
/// # use bristlecone::Repo;
/// let mut map = Repo::memory().map();
/// map.apply([(b"a", Some(b"1")), (b"c", Some(b"3")), (b"e", Some(b"5"))])?;
/// let mut cursor = map.cursor()?;
/// cursor.seek(b"b")?;
/// assert_eq!(cursor.next()?.map(|item| item.key()), Some(&b"c"[..]));
/// assert_eq!(cursor.next()?.map(|item| item.value()).transpose()?.as_deref(), Some(&b"5"[..]));
/// assert!(cursor.next()?.is_none());
/// assert_eq!(cursor.previous()?.map(|item| item.key()), Some(&b"e"[..]));
/// # Ok::<(), bristlecone::Error>(())
/// ```
pub struct MapCursor<'m> {
    tree: &'m Tree<Native>,
    run: Run<'m>,
}

enum Run<'m> {
    /// Over a stored map whose pieces are lent.
    Lent(EntryCursor<'m, StoreView<Native>>),
    /// Over what is stored with pending edits above it, or over pieces that are read ahead.
    Merged(Box<Cursor<'m, Native>>),
}

/// An entry that a cursor lends until it moves.
pub struct MapItem<'c>(ItemOf<'c>);

enum ItemOf<'c> {
    Lent(LentEntry<'c, 'c>, &'c Tree<Native>),
    Merged(&'c DirEntry<'c, Native>),
}

impl<'c> MapItem<'c> {
    /// Returns the key.
    #[must_use]
    #[inline]
    pub fn key(&self) -> &'c [u8] {
        match &self.0 {
            ItemOf::Lent(entry, _) => entry.step(),
            ItemOf::Merged(entry) => entry.step(),
        }
    }

    /// Returns the value, borrowed where it lives in the directory itself. Any other is read now.
    ///
    /// # Errors
    /// As [`Map::get`].
    #[inline]
    pub fn value(&self) -> Result<Bytes<'c>> {
        match &self.0 {
            ItemOf::Lent(entry, tree) => match entry.inline() {
                Some(value) => Ok(Bytes::Borrowed(value)),
                None => far_value(entry, tree),
            },
            ItemOf::Merged(entry) => entry.contents()?.ok_or_else(|| not_a_value(entry.step())),
        }
    }
}

/// Returns a value that does not live in the directory.
#[cold]
fn far_value<'c>(entry: &LentEntry<'c, 'c>, tree: &'c Tree<Native>) -> Result<Bytes<'c>> {
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
                return Ok(MapCursor { tree, run: Run::Lent(EntryCursor::new(store, stored)) });
            }
        }
        Ok(MapCursor { tree, run: Run::Merged(Box::new(tree.step_cursor()?)) })
    }
}

impl MapCursor<'_> {
    /// Goes before the first entry whose key is at least `key`.
    ///
    /// # Errors
    /// As [`Map::get`]; then the cursor is before the first entry.
    pub fn seek(&mut self, key: &[u8]) -> Result<()> {
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
    /// As [`Map::get`]; then the cursor stays where it was.
    #[allow(clippy::should_implement_trait, reason = "an iterator cannot lend")]
    #[inline]
    pub fn next(&mut self) -> Result<Option<MapItem<'_>>> {
        match &mut self.run {
            Run::Lent(cursor) => {
                if !cursor.next()? {
                    return Ok(None);
                }
                item(cursor, self.tree)
            }
            Run::Merged(cursor) => Ok(cursor.next()?.map(|entry| MapItem(ItemOf::Merged(entry)))),
        }
    }

    /// Goes back to the entry before and lends it; `None` before the first one, where the cursor stays.
    ///
    /// # Errors
    /// As [`MapCursor::next`].
    #[inline]
    pub fn previous(&mut self) -> Result<Option<MapItem<'_>>> {
        match &mut self.run {
            Run::Lent(cursor) => {
                if !cursor.previous()? {
                    return Ok(None);
                }
                item(cursor, self.tree)
            }
            Run::Merged(cursor) => Ok(cursor.previous()?.map(|entry| MapItem(ItemOf::Merged(entry)))),
        }
    }

    /// Returns the entry that the cursor is on; `None` between entries.
    ///
    /// # Errors
    /// As [`Map::get`].
    #[inline]
    pub fn item(&self) -> Result<Option<MapItem<'_>>> {
        match &self.run {
            Run::Lent(cursor) => item(cursor, self.tree),
            Run::Merged(cursor) => Ok(cursor.entry().map(|entry| MapItem(ItemOf::Merged(entry)))),
        }
    }
}

#[inline]
fn item<'c>(cursor: &'c EntryCursor<'_, StoreView<Native>>, tree: &'c Tree<Native>) -> Result<Option<MapItem<'c>>> {
    match cursor.entry() {
        Ok(entry) => Ok(entry.map(|entry| MapItem(ItemOf::Lent(entry, tree)))),
        Err(error) => Err(Error::Format(error)),
    }
}
