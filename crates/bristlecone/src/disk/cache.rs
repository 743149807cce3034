//! Objects that were read without a map.

use std::sync::Arc;

use quick_cache::{Weighter, sync::Cache};

/// Objects read without a map, by location, within a budget of bytes.
pub(super) type RecordCache = Cache<u64, Arc<[u8]>, RecordWeight>;

/// Weighs a cached record.
#[derive(Clone, Debug)]
pub(super) struct RecordWeight;

impl Weighter<u64, Arc<[u8]>> for RecordWeight {
    fn weight(&self, _: &u64, bytes: &Arc<[u8]>) -> u64 {
        // 64: the key, the table's row and the counters of the allocation.
        bytes.len() as u64 + 64
    }
}

/// Returns an empty cache for `bytes` bytes.
pub(super) fn record_cache(bytes: u64) -> RecordCache {
    Cache::with_weighter((bytes / 512).clamp(16, 1 << 24) as usize, bytes, RecordWeight)
}
