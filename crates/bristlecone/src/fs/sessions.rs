//! Which processes have a store open: each holds the lock of a file in `open/`, the first that is free.

use std::sync::Arc;

use super::files::{Files, OPEN};
use crate::{
    Error,
    storage::{OpenMode, StorageFile},
};

/// The file that this process holds the lock of, until dropped.
#[derive(Debug)]
pub(super) struct Session {
    name: String,
    _file: Arc<dyn StorageFile>,
}

impl Session {
    /// Takes the first file that no process holds. The caller holds the store's lock.
    pub(super) fn begin(files: &Files) -> Result<Self, Error> {
        for number in 1u64.. {
            let name = format!("{OPEN}/{number}");
            let file = files.open(&name, OpenMode::Create)?;
            if files.call(&name, || file.try_lock())? {
                return Ok(Self { name, _file: file });
            }
        }
        unreachable!("processes are fewer than numbers")
    }

    /// Returns the file that another process holds and that process, if one does. The caller holds the store's lock.
    pub(super) fn other(&self, files: &Files) -> Result<Option<(String, String)>, Error> {
        for name in files.list(OPEN)? {
            let name = format!("{OPEN}/{name}");
            if name == self.name {
                continue;
            }
            let Some(file) = files.open_if_there(&name)? else { continue };
            if !files.call(&name, || file.try_lock())? {
                let holder = file.lock_holder().unwrap_or_else(|| "another process".to_owned());
                return Ok(Some((files.describe(&name), holder)));
            }
        }
        Ok(None)
    }
}
