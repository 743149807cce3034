//! Counting without listing: pieces above the leaves keep how many entries are below each child.

use std::ops::RangeBounds;

use bristlecone_core::{Bytes, Format as _, native::EntryCursor};

use super::{Map, cursor::lent_value};
use crate::{Listing, Result, tree::StepChange};

impl Map {
    /// Returns the number of entries. One object is read, and one lookup made for each pending edit.
    ///
    /// # Errors
    /// As [`Map::get`].
    pub fn len(&self) -> Result<u64> {
        let stored = match self.tree.stored_root()? {
            Some(root) => self.tree.view().format.count(self.tree.view(), &root)?,
            None => 0,
        };
        self.with_edits(stored, None, None)
    }

    /// Whether there are no entries.
    ///
    /// # Errors
    /// As [`Map::get`].
    pub fn is_empty(&self) -> Result<bool> {
        self.tree.is_empty()
    }

    /// Returns how many entries have keys within bounds, without listing them: one object is read for each level of the
    /// map at either bound, and one lookup made for each pending edit within.
    ///
    /// ```
    /// # use bristlecone::Repo;
    /// let mut map = Repo::memory().map();
    /// map.apply((0..1000_u32).map(|n| (n.to_be_bytes(), Some([]))))?;
    /// assert_eq!(map.count(250_u32.to_be_bytes()..750_u32.to_be_bytes())?, 500);
    /// # Ok::<(), bristlecone::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Map::get`].
    pub fn count<K: AsRef<[u8]>>(&self, bounds: impl RangeBounds<K>) -> Result<u64> {
        let listing = Listing::new().range(bounds);
        let (from, to) = listing.bounds();
        if from.zip(to).is_some_and(|(from, to)| from >= to) {
            return Ok(0);
        }
        let end = match to {
            Some(to) => self.stored_rank(to)?,
            None => match self.tree.stored_root()? {
                Some(root) => self.tree.view().format.count(self.tree.view(), &root)?,
                None => 0,
            },
        };
        let start = from.map_or(Ok(0), |from| self.stored_rank(from))?;
        self.with_edits(end.saturating_sub(start), from, to)
    }

    /// Returns how many keys are smaller than `key`, whether it is one itself or not. Costs what [`Map::count`] does.
    ///
    /// # Errors
    /// As [`Map::get`].
    pub fn rank(&self, key: &[u8]) -> Result<u64> {
        self.count(..key)
    }

    /// Returns entry `index` in the order of keys, counted from zero; `None` if there are fewer. One object is read for each
    /// level of the map, and the value if it is not in there; with pending edits, two lookups are made for each of those before it.
    ///
    /// `map.nth(map.rank(k)?)? == Some((k, v))` for each entry.
    ///
    /// # Errors
    /// As [`Map::get`].
    pub fn nth(&self, index: u64) -> Result<Option<(Bytes<'_>, Bytes<'_>)>> {
        // How many entries more, or fewer, edits leave before the next one.
        let (mut more, mut fewer) = (0u64, 0u64);
        for edit in self.tree.edited_steps(None, None)? {
            let (key, change) = edit?;
            let (before, is_stored) = self.stored_place(key)?;
            let place = (before.saturating_add(more)).saturating_sub(fewer);
            if place > index {
                break;
            }
            if place == index && change == StepChange::Bound {
                let value = self.get(key)?;
                return Ok(value.map(|value| (key.to_vec().into(), value)));
            }
            more += u64::from(change == StepChange::Bound && !is_stored);
            fewer += u64::from(change == StepChange::Removed && is_stored);
        }
        let Some(root) = self.tree.stored_root()? else { return Ok(None) };
        let mut cursor = EntryCursor::new(self.tree.view(), Some(root));
        cursor.seek_nth(index.saturating_add(fewer).saturating_sub(more))?;
        if !cursor.next()? {
            return Ok(None);
        }
        let Some(entry) = cursor.entry()? else { return Ok(None) };
        let value = lent_value(&self.tree, &entry)?;
        Ok(Some((entry.step().to_vec().into(), value)))
    }

    fn stored_rank(&self, key: &[u8]) -> Result<u64> {
        Ok(self.stored_place(key)?.0)
    }

    /// Returns how many stored entries come before `key`, and whether it is one of them.
    fn stored_place(&self, key: &[u8]) -> Result<(u64, bool)> {
        let Some(root) = self.tree.stored_root()? else { return Ok((0, false)) };
        let rank = self.tree.view().format.rank(self.tree.view(), &root, key)?;
        Ok((rank.before, rank.is_bound))
    }

    /// Returns how many entries there are in `from..to` with pending edits, where `stored` are without.
    fn with_edits(&self, stored: u64, from: Option<&[u8]>, to: Option<&[u8]>) -> Result<u64> {
        let (mut more, mut fewer) = (0u64, 0u64);
        let root = self.tree.stored_root()?;
        for edit in self.tree.edited_steps(from, to)? {
            let (key, change) = edit?;
            let is_stored = match &root {
                Some(root) => self.tree.view().format.find(self.tree.view(), root, key)?.is_some(),
                None => false,
            };
            more += u64::from(change == StepChange::Bound && !is_stored);
            fewer += u64::from(change == StepChange::Removed && is_stored);
        }
        Ok((stored.saturating_add(more)).saturating_sub(fewer))
    }
}
