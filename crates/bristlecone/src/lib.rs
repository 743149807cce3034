//! Git semantics for your data, at the speed of a database.
//!
//! Bristlecone keeps versions of a tree of values: lookups load what they need and nothing else, edits wait
//! in memory until a commit hashes and writes exactly what changed, branches move by compare-and-set, and
//! every version stays, unless a rule of the store says otherwise. Equal contents have equal root hashes, whatever led to them.
//!
//! ```
//! use bristlecone::{Info, Repo};
//!
//! let repo = Repo::memory();
//! let main = repo.branch("main")?;
//! let mut tree = main.tree()?;
//! tree.set("fruit/apple", b"red")?;
//! tree.set("fruit/plum", b"blue")?;
//! main.commit(&mut tree, &Info::message("first fruit"))?;
//!
//! assert_eq!(main.tree()?.get("fruit/plum")?.as_deref(), Some(&b"blue"[..]));
//! # Ok::<(), bristlecone::Error>(())
//! ```
//!
//! One type parameter, the [`Format`], says how directories become objects; what keeps the objects is a
//! [`Backend`] behind a pointer: [`MemoryBackend`], the crash-safe [`disk`] engine, one file an object ([`fs`]), or one of
//! another crate. The byte formats themselves are in the crate `bristlecone-core`, which knows no I/O.
//!
//! # Features
//!
//! All of these but `serde` are on by default. Without them the native format remains, in memory and on disk, and at most
//! 25 crates are built, these two included.
//!
//! - `git`: the format of Git, `Git`, with SHA-1 and SHA-256;
//! - `tezos`: the format of Tezos contexts, `Tezos`, with BLAKE2b and base 58;
//! - `serde`: ids can be serialized, as text or as bytes, and values of maps as JSON, `Json`;
//! - `rayon`: a large commit that is made on a thread of a rayon pool is shared out within that pool.

#[macro_use]
mod setters;

mod backend;
mod copy;
pub mod disk;
pub mod engine;
mod error;
pub mod fs;
mod given_back;
mod map;
pub mod merge;
mod oid_map;
#[cfg(feature = "rayon")]
mod pool;
#[cfg(not(feature = "rayon"))]
#[path = "no_pool.rs"]
mod pool;
mod prefetched;
mod repo;
pub mod storage;
mod store;
pub mod subtree;
mod swept;
mod sync;
mod tree;
mod value;
mod waiting;

pub use backend::{
    AbsentCommit, AbsentCommits, AbsentReason, Backend, BackendStats, Batch, BatchRecord, CacheStats, Cached,
    Capabilities, Counted, Counts, Cut, CutRules, CutSize, DEEPENED, Damage, Durability, Expected, Keep, Latencies,
    Layered, MemoryBackend, ObjectChildren, Pin, Pins, Position, Reached, ReadOnly, RefMove, RefTarget, Retention,
    Roots, SHALLOW, Snapshot, SweepDue, SweepLimits, SweepList, SweepStatus, SweepStep, SweepWatch, Swept,
    absent_commits, check_moves,
};
pub use bristlecone_core as core;
#[cfg(feature = "git")]
pub use bristlecone_core::git::Git;
#[cfg(feature = "tezos")]
pub use bristlecone_core::tezos::Tezos;
pub use bristlecone_core::{
    AsPath, Bytes, Commit, CommitId, EntryKind, Format, Kind, Location, ObjRef, Object, Oid, OidPrefix, Path,
    PathError, Signature, Sink, Tag, TagId, TreeId, Zone, escape, native::Native, to_hex,
};
pub use copy::Copied;
pub use disk::DiskOptions;
pub use error::{Error, report};
#[cfg(feature = "serde")]
pub use map::Json;
pub use map::{
    CodecError, KEY_BYTES_MAX, Map, MapConflict, MapCursor, MapDifference, MapDifferences, MapItem, MapKey, MapLoader,
    MapMerged, MapRange, MapSlot, MapValue, TypedMap, TypedRange,
};
pub use repo::{
    Branch, IndexedCommits, Info, Log, LogEntry, LogOptions, LogOrder, PeeledTags, Prepared, Repo, StoredValue,
    check_ref_name, user_at_host,
};
pub use tree::{
    Cursor, Difference, Differences, DirEntry, Entries, Listing, PlainTree, Reader, Tree, TreeStats, Walk, WritingTree,
};
pub use value::{NewValue, VALUE_BYTES_MAX, Value};

/// A result of the store.
pub type Result<T, E = Error> = std::result::Result<T, E>;
