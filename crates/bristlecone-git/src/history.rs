//! Whole histories: from a repository into a store, and out again.
//!
//! [`import`] brings commits, trees, values, tags and refs of a [`Repository`] into a store of the format `git`, byte
//! for byte, or `native`, from which the same bytes can be made again. [`export`] writes a repository.
//!
//! **The idea.** Commits are found first; then their trees are walked newest first, each compared with the one before,
//! so that an object is read once and what two trees share is not looked at. One thread reads, the other verifies,
//! encodes and appends. Commits come last, parents first, and refs at the very end: no ref leads to half of a history.
//! What the destination has is not read again, so an interrupted transfer goes on where it stopped, and a repeated one
//! brings what is new.
//!
//! Memory is bounded whatever the size of the history: of each object a dozen bytes stay in memory, and all other notes
//! go to a scratch file.
//!
//! **In and out.** `pipeline` has the two threads and the queue between them. `import` and `export` are its ends: each
//! opens both sides, says what exists at the destination, gives the pipeline a walk and a writer, and moves the refs at
//! the end. What both need stands beside them: objects by id (`objects`), the ids and notes of millions of them (`ids`,
//! `table`), objects on their way into a store (`staging`, `presence`), what a `native` store has imported (`known`).
//!
//! **Callers.** The command line and the laboratory, through the functions and types that are public here.
//!
//! What it does not do: read over a network. `git clone` or `git fetch` come before it.

mod canonical;
mod error;
mod export;
mod ids;
mod import;
mod known;
mod objects;
mod patterns;
mod pipeline;
mod presence;
mod report;
mod repository;
mod staging;
mod store;
mod table;

pub use canonical::RAW_HEADER;
pub use error::{Missing, Origin, TransferError};
pub use export::{ExportOptions, ExportReport, export};
pub use import::{ImportOptions, ImportReport, import, move_refs};
pub use patterns::{choose_refs, matches};
pub use report::{Counts, LeftOut, MovedRef, RefState, Respelled, Status};
pub use repository::Repository;
pub use store::{StoreFormat, shallow};
