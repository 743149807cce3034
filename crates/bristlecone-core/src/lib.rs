//! The pure half of Bristlecone: how a directory becomes objects and ids.
//!
//! This crate holds ids, paths, entries, commits and the [`Format`]s that encode them. It knows no I/O,
//! clock, thread or randomness, forbids `unsafe` and builds without `std`, so that a light client can
//! check what a store says without a store. Objects come in through [`Source`] and go out through
//! [`Sink`]; the crate `bristlecone` stands above and provides both.
//!
//! The bytes are listed in `docs/formats/`; the code follows those pages.

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
mod object;
mod path;
mod record;
mod tag;

pub use codec::{DecodeError, Reader};
pub use commit::{Commit, Signature, Zone};
pub use entry::{Change, ChangeTarget, Entry, EntryKind, Mode, Target};
pub use format::{
    AHEAD_BYTES_MAX, AHEAD_OBJECTS_MAX, Ahead, Checked, Direction, Format, FormatError, Next, Walk, Window, git,
    native, tezos,
};
pub use hash::{Oid, OidError, to_hex};
pub use object::{Bytes, Kind, Location, NoSource, ObjRef, Object, Sink, Source};
pub use path::{AsPath, PATH_STEPS_MAX, Path, PathError, STEP_BYTES_MAX, escape};
pub use record::{RECORD_HEADER_BYTES, Record, RecordError, record_bytes, record_length, record_span, write_record};
pub use tag::Tag;
