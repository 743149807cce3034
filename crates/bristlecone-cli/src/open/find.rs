//! Finding the store: a `.bristlecone`, or a Git repository of any shape.

use std::{
    env,
    path::{Path as FilePath, PathBuf},
    sync::Arc,
};

use bristlecone::{
    Error,
    disk::DiskBackend,
    storage::{RealStorage, Storage},
};
use bristlecone_git::layout::Layout;

use super::STORE_DIR;
use crate::{
    failure::{Failure, Result},
    text::show,
};

/// A store that was found and is not open yet.
pub(super) enum Found {
    /// A store in this folder.
    Disk(PathBuf),
    /// A Git repository.
    Git(Box<Layout>),
}

/// Returns the store that is named, or the nearest one: here or in a folder above.
pub(super) fn find(named: Option<&FilePath>) -> Result<bristlecone::Result<Found>> {
    match named {
        Some(dir) => find_in(dir),
        None => find_above(),
    }
}

fn find_in(dir: &FilePath) -> Result<bristlecone::Result<Found>> {
    let inner = dir.join(STORE_DIR);
    if inner.is_dir() {
        return Ok(Ok(Found::Disk(inner)));
    }
    // A store may have another name; its header tells.
    let storage: Arc<dyn Storage> = Arc::new(RealStorage::new(dir));
    if !matches!(DiskBackend::header(&storage), Err(Error::NoStore { .. } | Error::Io { .. })) {
        return Ok(Ok(Found::Disk(dir.to_owned())));
    }
    match git_at(dir) {
        None => {
            let shown = show(dir);
            Err(Failure::failed(format!("no store in {shown}; make one with `cone init {shown}`")))
        }
        Some(found) => Ok(found),
    }
}

fn find_above() -> Result<bristlecone::Result<Found>> {
    let here = env::current_dir().map_err(|error| Failure::file("find", "the folder we are in", &error))?;
    for dir in here.ancestors() {
        let inner = dir.join(STORE_DIR);
        if inner.is_dir() {
            return Ok(Ok(Found::Disk(inner)));
        }
        if let Some(found) = git_at(dir) {
            return Ok(found);
        }
    }
    let way = "make one here with `cone init` or `git init`, or name one with --repo DIR";
    Err(Failure::failed(format!("no store in {} or any folder above it; {way}", show(&here))))
}

/// Returns the Git repository that a folder is or has, if it does.
fn git_at(dir: &FilePath) -> Option<bristlecone::Result<Found>> {
    match Layout::open(dir) {
        Err(Error::NoStore { .. }) => None,
        found => Some(found.map(|layout| Found::Git(Box::new(layout)))),
    }
}
