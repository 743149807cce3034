//! Maps of typed keys and values.

use std::{
    fmt,
    marker::PhantomData,
    ops::{Bound, RangeBounds},
};

use bristlecone_core::{Bytes, CommitId, TreeId, escape, native::Native};

use super::{CodecError, Map, MapKey, MapRange, MapValue};
use crate::{Branch, Error, Info, Result};

/// A [`Map`] whose keys and values are of these types, each by its codec ([`MapKey`], [`MapValue`]).
///
/// ```
/// # use bristlecone::{Repo, TypedMap};
/// let mut balances: TypedMap<i64, String> = Repo::memory().map().into();
/// for n in [3, -7, 0] {
///     balances.insert(&n, &n.to_string())?;
/// }
/// let below: Vec<(i64, String)> = balances.range(..1)?.collect::<Result<_, _>>()?;
/// assert_eq!(below, [(-7, "-7".into()), (0, "0".into())]);
/// # Ok::<(), bristlecone::Error>(())
/// ```
pub struct TypedMap<K, V> {
    map: Map,
    types: PhantomData<fn() -> (K, V)>,
}

impl<K, V> Clone for TypedMap<K, V> {
    fn clone(&self) -> Self {
        Self { map: self.map.clone(), types: PhantomData }
    }
}

impl<K, V> fmt::Debug for TypedMap<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TypedMap").field("map", &self.map).finish()
    }
}

impl<K, V> From<Map> for TypedMap<K, V> {
    /// Takes a map for one of these types. Entries of other types are found when they are read.
    fn from(map: Map) -> Self {
        Self { map, types: PhantomData }
    }
}

impl<K: MapKey, V: MapValue> TypedMap<K, V> {
    /// Returns the map of bytes.
    #[must_use]
    pub const fn map(&self) -> &Map {
        &self.map
    }

    /// Returns the map of bytes, to be edited.
    pub const fn map_mut(&mut self) -> &mut Map {
        &mut self.map
    }

    /// Returns the map of bytes.
    #[must_use]
    pub fn into_map(self) -> Map {
        self.map
    }

    /// Returns the value of `key`; `None` if there is no such key.
    ///
    /// # Errors
    /// As [`Map::get`]; [`Error::Codec`] for bytes that are no value of the type.
    #[inline]
    pub fn get(&self, key: &K) -> Result<Option<V>> {
        let bytes = key.to_bytes();
        match self.map.get(bytes.as_ref())? {
            Some(value) => V::from_bytes(&value).map(Some).map_err(|error| codec(bytes.as_ref(), error)),
            None => Ok(None),
        }
    }

    /// Whether there is a value at `key`.
    ///
    /// # Errors
    /// As [`Map::contains`].
    pub fn contains(&self, key: &K) -> Result<bool> {
        self.map.contains(key.to_bytes().as_ref())
    }

    /// Binds `key` to a value.
    ///
    /// # Errors
    /// As [`Map::insert`].
    pub fn insert(&mut self, key: &K, value: &V) -> Result<()> {
        self.map.insert(key.to_bytes().as_ref(), value.to_bytes().as_ref())
    }

    /// Removes `key`.
    ///
    /// # Errors
    /// As [`Map::remove`].
    pub fn remove(&mut self, key: &K) -> Result<()> {
        self.map.remove(key.to_bytes().as_ref())
    }

    /// Makes many edits as one, as [`Map::apply`] does.
    ///
    /// # Errors
    /// As [`Map::apply`].
    pub fn apply(&mut self, edits: impl IntoIterator<Item = (K, Option<V>)>) -> Result<()> {
        let mut made = Vec::new();
        for (key, value) in edits {
            let key = key.to_bytes();
            let value = value.as_ref().map(V::to_bytes);
            let value = value.as_ref().map(|value| value.as_ref().into());
            made.push(self.map.edit_of(key.as_ref(), value)?);
        }
        self.map.tree.edit_steps(made)
    }

    /// Returns the entries whose keys lie within bounds, in order, from either end.
    ///
    /// # Errors
    /// As [`Map::range`]; the iterator gives [`Error::Codec`] for an entry of other types, and goes on.
    pub fn range(&self, bounds: impl RangeBounds<K>) -> Result<TypedRange<'_, K, V>> {
        Ok(TypedRange { range: self.map.range(encoded(&bounds))?, types: PhantomData })
    }

    /// Returns all entries, in order, from either end.
    ///
    /// # Errors
    /// As [`TypedMap::range`].
    pub fn iter(&self) -> Result<TypedRange<'_, K, V>> {
        self.range(..)
    }

    /// Returns the entry with the smallest key.
    ///
    /// # Errors
    /// As [`TypedMap::range`].
    pub fn first(&self) -> Result<Option<(K, V)>> {
        self.iter()?.next().transpose()
    }

    /// Returns the entry with the greatest key.
    ///
    /// # Errors
    /// As [`TypedMap::range`].
    pub fn last(&self) -> Result<Option<(K, V)>> {
        self.map.last()?.map(decode).transpose()
    }

    /// Returns the number of entries, as [`Map::len`] does.
    ///
    /// # Errors
    /// As [`Map::len`].
    pub fn len(&self) -> Result<u64> {
        self.map.len()
    }

    /// Whether there are no entries.
    ///
    /// # Errors
    /// As [`Map::len`].
    pub fn is_empty(&self) -> Result<bool> {
        self.map.is_empty()
    }

    /// Returns how many entries have keys within bounds, as [`Map::count`] does.
    ///
    /// # Errors
    /// As [`Map::count`].
    pub fn count(&self, bounds: impl RangeBounds<K>) -> Result<u64> {
        self.map.count(encoded(&bounds))
    }

    /// Returns how many keys are smaller than `key`.
    ///
    /// # Errors
    /// As [`Map::rank`].
    pub fn rank(&self, key: &K) -> Result<u64> {
        self.map.rank(key.to_bytes().as_ref())
    }

    /// Returns entry `index`, counted from zero; `None` if there are fewer.
    ///
    /// # Errors
    /// As [`Map::nth`]; [`Error::Codec`].
    pub fn nth(&self, index: u64) -> Result<Option<(K, V)>> {
        self.map.nth(index)?.map(decode).transpose()
    }

    /// Returns the id of the root, as [`Map::root`] does.
    ///
    /// # Errors
    /// As [`Map::root`].
    pub fn root(&self) -> Result<TreeId> {
        self.map.root()
    }

    /// Commits the map, as [`Map::commit`] does.
    ///
    /// # Errors
    /// As [`Map::commit`].
    pub fn commit(&mut self, branch: &Branch<Native>, info: &Info) -> Result<CommitId> {
        self.map.commit(branch, info)
    }
}

/// Entries of a typed map, from either end.
pub struct TypedRange<'m, K, V> {
    range: MapRange<'m>,
    types: PhantomData<fn() -> (K, V)>,
}

impl<K, V> fmt::Debug for TypedRange<'_, K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TypedRange").field("range", &self.range).finish()
    }
}

impl<K: MapKey, V: MapValue> Iterator for TypedRange<'_, K, V> {
    type Item = Result<(K, V)>;

    fn next(&mut self) -> Option<Self::Item> {
        Some(self.range.next()?.and_then(decode))
    }
}

impl<K: MapKey, V: MapValue> DoubleEndedIterator for TypedRange<'_, K, V> {
    fn next_back(&mut self) -> Option<Self::Item> {
        Some(self.range.next_back()?.and_then(decode))
    }
}

fn encoded<K: MapKey>(bounds: &impl RangeBounds<K>) -> (Bound<Vec<u8>>, Bound<Vec<u8>>) {
    let bytes = |key: &K| key.to_bytes().as_ref().to_vec();
    (bounds.start_bound().map(bytes), bounds.end_bound().map(bytes))
}

fn decode<K: MapKey, V: MapValue>((key, value): (Bytes<'_>, Bytes<'_>)) -> Result<(K, V)> {
    let typed = K::from_bytes(&key).and_then(|typed| Ok((typed, V::from_bytes(&value)?)));
    typed.map_err(|error| codec(&key, error))
}

#[cold]
fn codec(key: &[u8], source: CodecError) -> Error {
    Error::Codec { key: escape(key), source }
}
