//! The store of a transfer: its format, and which of its commits have parents that it does not have.

use std::collections::HashSet;

use bristlecone::{Backend, Native, Oid, Result, core::git::Git};

/// The format of the store that takes a history or gives it.
#[derive(Clone, Copy, Debug)]
pub enum StoreFormat {
    /// The format `git`, with ids of the same hash as the repository's.
    Git(Git),
    /// The format `native`.
    Native(Native),
}

/// Names, outside of `refs/`, that tell which commits have parents that were never fetched.
pub(crate) const SHALLOW: &str = bristlecone::SHALLOW;

/// Returns the commits of a store whose parents were not in the repository that it was imported from.
///
/// # Errors
/// Those of the backend.
pub fn shallow(backend: &dyn Backend) -> Result<HashSet<Oid>> {
    Ok(backend.shallow()?.into_iter().collect())
}
