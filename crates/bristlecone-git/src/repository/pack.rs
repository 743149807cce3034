//! Packs: indexes, entries, deltas, and how they are written.
//!
//! A pack holds many objects, each deflated, whole or as a delta against another one; its index says where each lies.
//! [`Pack`] reads one, [`Builder`] makes one in memory, [`repack()`] makes one out of many.
//!
//! Multi-pack indexes are not read. Git writes them beside the indexes of the packs, which it keeps, so nothing is
//! missed.

mod build;
mod cache;
pub(crate) mod data;
pub mod delta;
mod entry;
mod index;
pub(crate) mod open;
mod read;
mod repack;

pub use build::{Builder, BuiltPack, Compression};
pub use cache::BaseCache;
pub use entry::{Entry, EntryKind};
pub use index::Index;
pub use read::Pack;
pub(crate) use repack::REPACKED_PREFIX;
pub use repack::{RepackOptions, Repacked, repack};
