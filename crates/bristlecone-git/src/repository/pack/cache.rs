//! Objects that deltas are against, kept for the next delta.

use std::sync::Arc;

use bristlecone::Kind;
use quick_cache::Weighter;
use quick_cache::sync::Cache;

/// What a kept object costs beyond its bytes, about.
const OVERHEAD_BYTES: u64 = 128;

/// Recently used objects of packs, by pack and offset, up to a number of bytes. It is shared by threads.
///
/// An object larger than a part of the cache (an eighth, or less with many processors) is not kept.
#[derive(Debug)]
pub struct BaseCache(Option<Cache<(u32, u64), Base, Weight>>);

/// An object and its kind.
pub(crate) type Base = (Kind, Arc<Vec<u8>>);

#[derive(Clone, Debug)]
struct Weight;

impl Weighter<(u32, u64), Base> for Weight {
    fn weight(&self, _: &(u32, u64), base: &Base) -> u64 {
        base.1.capacity() as u64 + OVERHEAD_BYTES
    }
}

impl BaseCache {
    /// Returns a cache of at most `bytes_max` bytes; 0 for no cache.
    #[must_use]
    pub fn new(bytes_max: u64) -> Self {
        // An object of a tree or a commit has a few kilobytes.
        let items = (bytes_max >> 12).clamp(16, 1 << 20) as usize;
        Self((bytes_max > 0).then(|| Cache::with_weighter(items, bytes_max, Weight)))
    }

    pub(crate) fn get(&self, pack: u32, offset: u64) -> Option<Base> {
        self.0.as_ref()?.get(&(pack, offset))
    }

    pub(crate) fn insert(&self, pack: u32, offset: u64, base: Base) {
        if let Some(cache) = &self.0 {
            cache.insert((pack, offset), base);
        }
    }

    /// Whether anything is kept at all.
    pub(crate) fn is_on(&self) -> bool {
        self.0.is_some()
    }

    /// Drops everything.
    pub fn clear(&self) {
        if let Some(cache) = &self.0 {
            cache.clear();
        }
    }
}
