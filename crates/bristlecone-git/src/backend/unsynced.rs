//! Files that this process wrote and has not synced, open as they were written.
//!
//! A system reports a write that failed later only once: to the process that syncs the file next, and to those that had
//! it open by then. So a file is synced through the handle that wrote it: a handle that is opened later may learn of no
//! failure.
//!
//! There are many small loose objects: only the first of them stay open, and the others are read after their sync and
//! compared with their ids.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
};

use bristlecone::{Result, storage::StorageFile};

use super::pack_files::PACKS;
use crate::repository::{
    files::{Files, Unsynced},
    mutex::lock,
};

/// Files that stay open, at most, before everything is made durable.
const FILES_MAX: usize = 256;

/// Open files by their names.
#[derive(Debug, Default)]
pub(super) struct OpenFiles(Mutex<HashMap<String, Arc<dyn StorageFile>>>);

impl OpenFiles {
    /// Keeps files open. Beyond the limit loose objects are closed.
    pub(super) fn add(&self, files: Vec<Unsynced>) {
        let mut open = lock(&self.0);
        for (name, file) in files {
            if open.len() < FILES_MAX || name.starts_with(PACKS) {
                open.insert(name, file);
            }
        }
    }

    /// Forgets the files of packs that are durable in another place.
    pub(super) fn forget_packs(&self, packs: &[String]) {
        let of = |name: &str, pack: &String| name.rsplit('/').next().is_some_and(|file| file.starts_with(&**pack));
        lock(&self.0).retain(|name, _| !packs.iter().any(|pack| of(name, pack)));
    }

    /// Whether packs need room: then everything is made durable. There are few packs, and they are repacked long
    /// before.
    pub(super) fn is_full(&self) -> bool {
        let open = lock(&self.0);
        open.len() >= FILES_MAX && open.keys().any(|name| name.starts_with(PACKS))
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
