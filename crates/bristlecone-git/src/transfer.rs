//! Whole histories: from a repository into a store, and out again.
//!
//! [`import`] brings commits, trees, values, tags and refs of a [`Repository`] into a store of the format `git`, byte
//! for byte, or `native`, from which the same bytes can be made again. [`export`] writes a repository.
//!
//! **The idea.** Commits are found first; then their trees are walked newest first, each compared with the one before,
//! so that an object is read once and what two trees share is not looked at. One thread reads, the other verifies,
//! encodes and appends. Commits come last, parents first, and refs at the very end: nothing leads to half of a history.
//! What is there already is not read again, so a transfer that was interrupted goes on, and one that is repeated
//! brings what is new.
//!
//! Memory is bounded whatever the size of the history: of each object a dozen bytes stay in memory, and what else is
//! noted goes to a scratch file.
//!
//! What it does not do: read over a network. `git clone` or `git fetch` come before it.

use std::collections::HashSet;

use bristlecone::{Backend, Oid, Result};

mod canonical;
mod channel;
mod error;
mod export;
mod find;
mod from_native;
mod graph;
mod ids;
mod import;
mod into_git;
mod into_native;
mod into_packs;
mod map;
mod objects;
mod outlet;
mod patterns;
mod pool;
mod present;
mod pump;
mod reader;
mod refs;
mod repository;
mod table;
mod walk;

pub use error::{Lost, Origin, TransferError};
pub use export::{ExportOptions, ExportReport, export};
pub use import::{ImportOptions, ImportReport, Store, import};
pub use patterns::matches;
pub use pump::Counts;
pub use refs::{MovedRef, RefState};
pub use repository::Repository;

/// Returns the commits of a store whose parents were not in the repository that it was imported from.
///
/// # Errors
/// Those of the backend.
pub fn shallow(backend: &dyn Backend) -> Result<HashSet<Oid>> {
    Ok(backend.shallow()?.into_iter().collect())
}

/// How far a transfer is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Status {
    /// Commits found so far.
    pub commits_found: u64,
    /// Commits to be transferred; 0 until all are found.
    pub commits_total: u64,
    /// Commits whose trees were walked.
    pub commits: u64,
    /// Trees, values and tags read.
    pub objects: u64,
    /// Bytes of these.
    pub bytes: u64,
}

/// A ref that stays behind, because what it leads to is missing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftOut {
    /// The ref.
    pub name: String,
    /// What it names.
    pub oid: Oid,
    /// What is missing.
    pub lost: Lost,
}
