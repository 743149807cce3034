//! The pure half of Bristlecone: how a directory becomes objects and ids.
//!
//! This crate holds ids, paths, entries, commits and the [`Format`]s that encode them. It knows no I/O,
//! clock, thread or randomness, forbids `unsafe` and builds without `std`, so that a light client can
//! check what a store says without a store. Objects come in through [`Source`] and go out through
//! [`Sink`]; the crate `bristlecone` stands above and provides both.
//!
//! The bytes are listed in `docs/formats/`; the code follows those pages.
//!
//! # Features
//!
//! The native format is always there. The others bring hashes that it does not need:
//!
//! - `git` (default): the format of Git, with SHA-1 and SHA-256;
//! - `tezos` (default): the format of Tezos contexts, with BLAKE2b and base 58;
//! - `serde`: ids can be serialized, as text or as bytes;
//! - `std`: finds out at run time which vector instructions those hashes may use.

#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod codec;
mod commit;
mod entry;
mod format;
mod hash;
mod id;
mod object;
mod path;
mod record;
#[cfg(feature = "serde")]
mod serde;
mod tag;

pub use codec::{ByteReader, DecodeError};
pub use commit::{Commit, Signature, Zone};
pub use entry::{Change, ChangeList, ChangeTarget, Entry, EntryKind, Mode, Target};
#[cfg(feature = "git")]
pub use format::git;
#[cfg(feature = "tezos")]
pub use format::tezos;
pub use format::{
    AHEAD_BYTES_MAX, AHEAD_OBJECTS_MAX, Ahead, CallSize, Checked, Direction, Format, FormatError, Next, ObjectWalk,
    Prefetch, Task, Window, lent, native,
};
pub use hash::{Algorithm, Oid, OidError, OidPrefix, to_hex};
pub use id::{CommitId, TagId, TreeId};
pub use object::{Bytes, Kind, Location, NoSource, ObjRef, Object, SHARED_MIN, Sink, Source};
pub use path::{AsPath, PATH_STEPS_MAX, Path, PathError, STEP_BYTES_MAX, escape};
pub use record::{RECORD_HEADER_BYTES, Record, RecordError, RecordHeader, record_bytes, record_span, write_record};
pub use tag::Tag;
