//! libgit2, by way of the crate `git2`: blobs and trees as loose objects, each on its way to its file at once.

use std::path::Path;

use git2::{Commit, ErrorCode, FileMode, Oid, Repository, Signature, Time, Tree, build::TreeUpdateBuilder};

use super::{Edit, Library, MAIN};
use crate::{BenchError, error::Result, workload::Who};

/// Returns the version of the C library.
pub(super) fn version() -> String {
    let (major, minor, patch) = git2::Version::get().libgit2_version();
    format!("libgit2 {major}.{minor}.{patch}")
}

pub(super) struct Libgit2 {
    repository: Repository,
}

impl Library for Libgit2 {
    fn create(dir: &Path, synced: bool) -> Result<Self> {
        let repository = Repository::init_bare(dir).map_err(failed)?;
        if synced {
            // It is asked once for each repository: what is open keeps what it found.
            let mut config = repository.config().map_err(failed)?;
            config.set_bool("core.fsyncObjectFiles", true).map_err(failed)?;
        }
        drop(repository);
        Self::open(dir)
    }

    fn open(dir: &Path) -> Result<Self> {
        Ok(Self { repository: Repository::open_bare(dir).map_err(failed)? })
    }

    fn commit(&self, paths: &[String], edit: &Edit<'_>, message: &str) -> Result<()> {
        self.commit_or_fail(paths, edit, message).map_err(failed)
    }

    fn look_up(&self, paths: &[String], lookups: &[u32]) -> Result<u64> {
        let found = || {
            let tree = self.repository.find_reference(MAIN)?.peel_to_tree()?;
            let mut sum = 0;
            for &n in lookups {
                let entry = tree.get_path(Path::new(&paths[n as usize]))?;
                let blob = self.repository.find_blob(entry.id())?;
                sum += blob.content().len() as u64 + u64::from(blob.content().first().copied().unwrap_or(0));
            }
            Ok(sum)
        };
        found().map_err(failed)
    }

    fn head(&self) -> Result<(String, String)> {
        let commit = self.repository.find_reference(MAIN).and_then(|main| main.peel_to_commit()).map_err(failed)?;
        Ok((commit.id().to_string(), commit.tree_id().to_string()))
    }
}

impl Libgit2 {
    fn commit_or_fail(&self, paths: &[String], edit: &Edit<'_>, message: &str) -> std::result::Result<(), git2::Error> {
        let repository = &self.repository;
        let parent = match repository.find_reference(MAIN) {
            Ok(main) => Some(main.peel_to_commit()?),
            Err(error) if error.code() == ErrorCode::NotFound => None,
            Err(error) => return Err(error),
        };
        let before = match &parent {
            Some(parent) => parent.tree()?,
            None => self.empty_tree()?,
        };
        let mut update = TreeUpdateBuilder::new();
        match *edit {
            Edit::One(entry, value) => {
                update.upsert(&paths[entry][..], repository.blob(value)?, FileMode::Blob);
            }
            Edit::All(value) => {
                let blob: Oid = repository.blob(value)?;
                for path in paths {
                    update.upsert(&path[..], blob, FileMode::Blob);
                }
            }
            Edit::Each(values) => {
                for (path, value) in paths.iter().zip(values) {
                    update.upsert(&path[..], repository.blob(value)?, FileMode::Blob);
                }
            }
        }
        let tree = repository.find_tree(update.create_updated(repository, &before)?)?;
        let who = Signature::new(Who::NAME, Who::ADDRESS, &Time::new(Who::SECONDS, 0))?;
        let parents: Vec<&Commit<'_>> = parent.iter().collect();
        repository.commit(Some(MAIN), &who, &who, message, &tree, &parents)?;
        Ok(())
    }

    fn empty_tree(&self) -> std::result::Result<Tree<'_>, git2::Error> {
        self.repository.find_tree(self.repository.treebuilder(None)?.write()?)
    }
}

fn failed(error: git2::Error) -> BenchError {
    BenchError::Peer { peer: "libgit2", reason: error.to_string() }
}
