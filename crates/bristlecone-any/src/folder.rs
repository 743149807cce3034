//! Folders of files into a store, and out of it.
//!
//! What is kept: bytes, executable bits and links. A tree that was imported is exported byte for byte.
//!
//! ```
//! use bristlecone::Info;
//! use bristlecone_any::{AnyRepo, folder::{self, ImportOptions}};
//!
//! let (from, to) = (tempfile::tempdir()?, tempfile::tempdir()?);
//! std::fs::write(from.path().join("apple"), "red")?;
//!
//! let repo = AnyRepo::open("memory:")?;
//! let (mut tree, imported) = folder::import(&repo, from.path(), &ImportOptions::default(), &mut |_| {})?;
//! assert_eq!((imported.files, imported.bytes), (1, 3));
//! let main = repo.branch("main")?;
//! main.commit(&mut tree, &Info::message("a folder"))?;
//!
//! folder::export(&repo, &main.tree()?, to.path(), false, &mut |_| {})?;
//! assert_eq!(std::fs::read(to.path().join("apple"))?, b"red");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

mod export;
mod hidden;
mod import;

pub use crate::error::FolderError;
pub use bristlecone_git::worktree::rename_new;
pub use export::{Exported, export, export_while};
pub use hidden::hidden_name;
pub use import::{Ignored, ImportOptions, Imported, LeftOut, TakenSubmodule, import};

/// How far an import or export is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Status {
    /// What is being done.
    pub step: Step,
    /// Files, links and folders done in this step.
    pub items: u64,
    /// How many there are, where that is known.
    pub items_total: Option<u64>,
    /// Bytes in them.
    pub bytes: u64,
}

/// What is being done with a folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Looking at what is there.
    Scan,
    /// Reading it.
    Import,
    /// Writing files.
    Export,
}

/// What was done so far; counted by all threads.
#[derive(Debug, Default)]
struct Done {
    items: AtomicU64,
    bytes: AtomicU64,
}

impl Done {
    /// Counts one more file, and its bytes.
    fn add(&self, bytes: u64) {
        self.items.fetch_add(1, Relaxed);
        self.bytes.fetch_add(bytes, Relaxed);
    }

    fn status(&self, step: Step, items_total: u64) -> Status {
        let (items, bytes) = (self.items.load(Relaxed), self.bytes.load(Relaxed));
        Status { step, items, items_total: Some(items_total), bytes }
    }
}
