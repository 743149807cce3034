//! Packs: indexes, entries, deltas, and how they are written.
//!
//! A pack holds many objects, each deflated, whole or as a delta against another one; its index says where each lies.
//! [`Pack`] reads one, [`Builder`] makes one in memory, [`fold()`] makes one out of many.

mod build;
pub mod delta;
mod fold;
mod index;

pub use build::{Builder, BuiltPack, Compression};
pub use fold::{FoldOptions, Folded, fold};
pub use index::Index;
