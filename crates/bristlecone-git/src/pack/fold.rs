//! Folding: one pack out of many.

use std::sync::Arc;

use bristlecone::core::git::Algorithm;
use bristlecone::storage::Storage;
use bristlecone::{Oid, Result};

/// How packs are folded.
#[derive(Clone, Copy, Debug)]
pub struct FoldOptions {
    /// How many neighbours an object is tried against, 0 for none.
    pub window: usize,
    /// At most so many bytes of neighbours are held.
    pub window_bytes: usize,
    /// How long a chain of deltas may become.
    pub depth: u32,
    /// The level at which entries are deflated, 1 to 9.
    pub level: u32,
}

impl Default for FoldOptions {
    fn default() -> Self {
        Self { window: 6, window_bytes: 32 << 20, depth: 50, level: 6 }
    }
}

/// What came of folding.
#[derive(Clone, Debug)]
pub struct Folded {
    /// The name of both files without their ending.
    pub name: String,
    /// How many objects the pack has.
    pub objects: u64,
    /// How many of them are deltas.
    pub deltas: u64,
    /// How many entries were copied as they were.
    pub reused: u64,
    /// The size of the pack in bytes.
    pub pack_bytes: u64,
    /// The size of its index in bytes.
    pub index_bytes: u64,
    /// The ids of the objects, in order.
    pub oids: Vec<Oid>,
}

/// Writes one pack with all objects of the packs `names` (`pack-…`, without ending) of the folder `objects/pack` and
/// makes it durable under its name, the index last. The packs stay; removing them is the caller's.
///
/// Objects that several packs have are written once. A pack that has all of them already is returned as it is.
///
/// # Errors
/// [`bristlecone::Error::Corrupt`] if a pack is damaged; nothing was renamed then. Those of the system.
pub fn fold(
    _storage: &Arc<dyn Storage>,
    _algorithm: Algorithm,
    _names: &[String],
    _options: &FoldOptions,
) -> Result<Folded> {
    todo!()
}
