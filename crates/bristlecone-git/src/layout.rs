//! Where a repository is and what its configuration says.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use bristlecone::Result;
use bristlecone::core::git::Algorithm;
use bristlecone::storage::{RealStorage, Storage};

mod config;

pub use config::Config;

/// The folders of a repository.
///
/// The environment is not asked: `GIT_DIR` and its like have no say here.
#[derive(Clone, Debug)]
pub struct Layout {
    /// The folder of `HEAD` and of the index: of this working tree alone, where there are several.
    pub git_dir: PathBuf,
    /// The folder of objects, refs and configuration. The same as `git_dir` but in a linked working tree.
    pub common_dir: PathBuf,
    /// The folder of the files, unless the repository is bare.
    pub worktree: Option<PathBuf>,
    /// The hash of the ids.
    pub algorithm: Algorithm,
    /// The configuration of the repository.
    pub config: Config,
}

impl Layout {
    /// Looks for a repository in `from` and the folders above it.
    ///
    /// # Errors
    /// As [`Layout::open`], for the first that is found.
    pub fn discover(_from: &Path) -> Result<Option<Self>> {
        todo!()
    }

    /// Opens the repository at `path`: a working tree, its `.git`, or a bare repository.
    ///
    /// # Errors
    /// [`bristlecone::Error::NoStore`] if there is none; [`bristlecone::Error::Incompatible`] for an extension that is not known here.
    pub fn open(_path: &Path) -> Result<Self> {
        todo!()
    }

    /// Makes a repository that Git accepts, and makes it durable.
    ///
    /// # Errors
    /// [`bristlecone::Error::Exists`] if there is one; those of the system.
    pub fn init(_path: &Path, _bare: bool, _algorithm: Algorithm) -> Result<Self> {
        todo!()
    }

    /// Whether there is no working tree.
    #[must_use]
    pub fn is_bare(&self) -> bool {
        self.worktree.is_none()
    }

    /// Returns the storage rooted at the common folder.
    #[must_use]
    pub fn storage(&self) -> Arc<dyn Storage> {
        Arc::new(RealStorage::new(&self.common_dir))
    }

    /// Returns the storage rooted at the folder of `HEAD` and of the index.
    #[must_use]
    pub fn git_storage(&self) -> Arc<dyn Storage> {
        Arc::new(RealStorage::new(&self.git_dir))
    }
}
