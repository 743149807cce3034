//! Refs: loose and packed, moved under Git's locks, with reflogs.
//!
//! A ref is a file below `refs/`, or a line of `packed-refs` where there is no such file. [`Refs`] reads both as they
//! are at the time: another process may change either at any moment.

use std::{collections::BTreeMap, sync::Arc};

use bristlecone::{Oid, RefTarget, Result, core::git::Algorithm, storage::Storage};

/// The refs of a repository.
#[derive(Debug)]
pub struct Refs {
    _storage: Arc<dyn Storage>,
}

impl Refs {
    /// Returns the refs of the repository whose common folder `storage` is rooted at. `head_dir` is the folder below it
    /// of the working tree whose `HEAD` is meant: empty for the main one.
    #[must_use]
    pub fn open(storage: Arc<dyn Storage>, _algorithm: Algorithm, _head_dir: &str) -> Self {
        Self { _storage: storage }
    }

    /// Returns what a ref holds: `refs/…`, or a name of its own such as `HEAD`, which is Git's here.
    ///
    /// # Errors
    /// [`bristlecone::Error::Corrupt`] if it holds neither an id nor a name; [`bristlecone::Error::RefName`]; those of
    /// the system.
    pub fn get(&self, _name: &str) -> Result<Option<RefTarget>> {
        todo!()
    }

    /// Returns the refs below `refs/` whose names start with `prefix`, in order of names.
    ///
    /// # Errors
    /// As [`Refs::get`].
    pub fn list(&self, _prefix: &str) -> Result<BTreeMap<String, RefTarget>> {
        todo!()
    }

    /// Returns the object that a tag leads to in the end, where `packed-refs` notes it for this value of the ref.
    ///
    /// # Errors
    /// Those of the system.
    pub fn peeled(&self, _name: &str) -> Result<Option<Oid>> {
        todo!()
    }
}
