//! The place of one key: looked at once, then filled, changed or emptied.

use bristlecone_core::Bytes;

use super::Map;
use crate::{NewValue, Result};

/// The place of a key in a map ([`Map::entry`]).
#[derive(Debug)]
pub struct MapSlot<'m> {
    map: &'m mut Map,
    key: Vec<u8>,
    is_occupied: bool,
}

impl<'m> MapSlot<'m> {
    pub(super) fn new(map: &'m mut Map, key: &[u8]) -> Result<Self> {
        let is_occupied = map.contains(key)?;
        Ok(Self { map, key: key.to_vec(), is_occupied })
    }

    /// Returns the key.
    #[must_use]
    pub fn key(&self) -> &[u8] {
        &self.key
    }

    /// Whether there is a value.
    #[must_use]
    pub const fn is_occupied(&self) -> bool {
        self.is_occupied
    }

    /// Returns the value, if there is one.
    ///
    /// # Errors
    /// As [`Map::get`].
    pub fn get(&self) -> Result<Option<Bytes<'_>>> {
        if self.is_occupied { self.map.get(&self.key) } else { Ok(None) }
    }

    /// Changes the value, if there is one.
    ///
    /// # Errors
    /// As [`Map::get`] and [`Map::insert`].
    pub fn and_modify(self, change: impl FnOnce(&mut Vec<u8>)) -> Result<Self> {
        if let Some(value) = self.get()? {
            let mut value = value.to_vec();
            change(&mut value);
            self.map.insert(&self.key, &value)?;
        }
        Ok(self)
    }

    /// Sets a value if there is none, and returns the one that is there then.
    ///
    /// # Errors
    /// As [`Map::insert`].
    pub fn or_insert<'v>(self, value: impl Into<NewValue<'v>>) -> Result<Bytes<'m>> {
        self.or_insert_with(|| value)
    }

    /// As [`MapSlot::or_insert`], of a value that is made only where it is needed.
    ///
    /// # Errors
    /// As [`Map::insert`].
    pub fn or_insert_with<'v, V: Into<NewValue<'v>>>(self, make: impl FnOnce() -> V) -> Result<Bytes<'m>> {
        if !self.is_occupied {
            self.map.insert(&self.key, make())?;
        }
        Ok(self.map.get(&self.key)?.unwrap_or_default())
    }

    /// Sets the value, whether there is one or not.
    ///
    /// # Errors
    /// As [`Map::insert`].
    pub fn insert<'v>(self, value: impl Into<NewValue<'v>>) -> Result<()> {
        self.map.insert(&self.key, value)
    }

    /// Removes the key with its value, if there is one.
    ///
    /// # Errors
    /// As [`Map::remove`].
    pub fn remove(self) -> Result<()> {
        if self.is_occupied { self.map.remove(&self.key) } else { Ok(()) }
    }
}
