//! Replayable traces of Tezos contexts: what a node did to its state, operation by operation, block by block.
//!
//! A trace is a list of [`Row`]s. [`Reader`] lends them one after the other, [`Writer`] writes them; the byte format
//! is `docs/formats/trace.md`. Contexts are named by ids, commits by their base58 text, and each mention says
//! whether it is the last one, so that a replay can forget in time. [`Recorder`] makes a trace of what is
//! done to a repository, [`PathConversion`] rewrites keys, [`TraceInfo`] tells what a trace consists of, [`Generator`] makes traces up.

mod convert;
mod cursor;
mod decode;
mod encode;
mod error;
mod generate;
mod hashes;
mod info;
mod key;
mod reader;
mod recorder;
pub mod replay;
mod row;
mod scoped;
mod writer;

pub use convert::{PathConversion, UnknownConversion};
pub use error::TraceError;
pub use generate::{GenerateError, GenerateOptions, Generator};
pub use hashes::{Hashes, HashesBuf};
pub use info::{Depth, LargeCommit, Percentiles, Shape, TraceInfo, VALUE_BUCKETS, ValueBucket};
pub use key::{Key, KeyBuf};
pub use reader::Reader;
pub use recorder::{RecordError, RecordedCommit, RecordedTree, Recorder};
pub use replay::CommitHash;
pub use row::{Row, RowKind};
pub use scoped::{ContextId, Scoped};
pub use writer::Writer;
