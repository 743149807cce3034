//! A repository inside a working tree: Git keeps the commit that is checked out there, and not its files.

use std::path::Path;

use bristlecone::{Error, Oid, RefTarget, Result, core::git::Algorithm};

use super::heads::{WorktreeHead, head};
use crate::repository::{layout::Layout, refs::Refs};

/// How many symbolic refs are followed in a row. Git follows as many.
const SYMBOLIC_MAX: usize = 5;

/// A repository whose working tree a folder is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Submodule {
    /// With this commit checked out.
    At(Oid),
    /// Without a commit.
    Unborn,
    /// One that the repository cannot hold: why.
    Unfit(String),
}

/// Returns the repository whose working tree `dir` is; `None` if it is a folder as any other, also where its `.git`
/// leads nowhere.
///
/// `algorithm`: of the repository that is to have the id.
///
/// # Errors
/// [`Error::Corrupt`] if its refs cannot be read; those of the system.
pub fn submodule(dir: &Path, algorithm: Algorithm) -> Result<Option<Submodule>> {
    if dir.join(".git").symlink_metadata().is_err() {
        return Ok(None);
    }
    let layout = match Layout::open(dir) {
        // The folder itself has the shape of a bare repository, which Git takes for any other folder.
        Ok(layout) if layout.git_dir == dir => return Ok(None),
        Ok(layout) => layout,
        Err(Error::NoStore { .. } | Error::Corrupt { .. }) => return Ok(None),
        Err(Error::Incompatible { found, .. }) => return Ok(Some(Submodule::Unfit(found))),
        Err(error) => return Err(error),
    };
    if layout.algorithm != algorithm {
        return Ok(Some(Submodule::Unfit(format!("ids of {}", layout.algorithm.name()))));
    }
    Ok(Some(checked_out(&layout)?.map_or(Submodule::Unborn, Submodule::At)))
}

/// Returns the commit that the HEAD of a working tree leads to.
fn checked_out(layout: &Layout) -> Result<Option<Oid>> {
    let mut name = match head(&layout.git_dir)? {
        WorktreeHead::Commit(oid) => return Ok(Some(oid)),
        WorktreeHead::Ref(name) => name,
        WorktreeHead::Unknown => return Ok(None),
    };
    let refs = Refs::open(layout.storage(), layout.algorithm, "");
    for _ in 0..SYMBOLIC_MAX {
        match refs.get(&name)? {
            Some(RefTarget::Object(at)) => return Ok(Some(at.oid)),
            Some(RefTarget::Symbolic(next)) => name = next,
            None => return Ok(None),
        }
    }
    Ok(None)
}
