//! Files that this process wrote and has not synced, open as they were written.
//!
//! A system tells of a write that failed later only once, to whoever syncs the file next and to those who had it open by
//! then. So a file is synced through the handle that wrote it: one that is opened anew may be told that all is well.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
};

use bristlecone::{Result, storage::StorageFile};

use super::shared::lock;
use crate::files::{Files, Unsynced};

/// So many files stay open at most before everything is made durable.
const FILES_MAX: usize = 256;

/// Open files by their names.
#[derive(Debug, Default)]
pub(super) struct OpenFiles(Mutex<HashMap<String, Arc<dyn StorageFile>>>);

impl OpenFiles {
    pub(super) fn add(&self, files: Vec<Unsynced>) {
        lock(&self.0).extend(files);
    }

    /// Forgets the files of packs that are durable in another place.
    pub(super) fn forget_packs(&self, packs: &[String]) {
        let of = |name: &str, pack: &String| name.rsplit('/').next().is_some_and(|file| file.starts_with(&**pack));
        lock(&self.0).retain(|name, _| !packs.iter().any(|pack| of(name, pack)));
    }

    /// Whether no more should be added.
    pub(super) fn is_full(&self) -> bool {
        lock(&self.0).len() >= FILES_MAX
    }

    pub(super) fn is_empty(&self) -> bool {
        lock(&self.0).is_empty()
    }

    /// Makes all of them durable, and returns their names. After an error nothing is known of any.
    pub(super) fn sync(&self, files: &Files) -> Result<Vec<String>> {
        let open: Vec<Unsynced> = lock(&self.0).drain().collect();
        files.sync_all(&open)?;
        Ok(open.into_iter().map(|(name, _)| name).collect())
    }
}
