//! gitoxide, by way of the crate `gix`: an editor of trees, loose objects, and an edit of the ref.

use std::path::Path;

use gix::{ObjectId, Repository, actor::SignatureRef, object::tree::EntryKind};

use super::library::{Edit, Library, MAIN};
use crate::{
    BenchError,
    error::Result,
    workload::{Who, add_up, weight},
};

/// The version in the workspace's Cargo.toml.
pub(super) const VERSION: &str = "gix 0.90";

/// What its documentation advises for programs that read objects again and again.
const OBJECT_CACHE_BYTES: usize = 64 << 20;

pub(super) struct Gitoxide {
    repository: Repository,
}

impl Library for Gitoxide {
    fn create(dir: &Path, _synced: bool) -> Result<Self> {
        gix::init_bare(dir).map_err(failed)?;
        Self::open(dir)
    }

    fn open(dir: &Path) -> Result<Self> {
        let mut repository = gix::open_opts(dir, gix::open::Options::isolated()).map_err(failed)?;
        repository.object_cache_size(OBJECT_CACHE_BYTES);
        Ok(Self { repository })
    }

    fn commit(&self, paths: &[String], edit: &Edit<'_>, message: &str) -> Result<()> {
        let repository = &self.repository;
        let parent = self.main()?;
        let before = match parent {
            Some(parent) => repository.find_commit(parent).map_err(failed)?.tree_id().map_err(failed)?.detach(),
            None => repository.empty_tree().id,
        };
        let mut editor = repository.edit_tree(before).map_err(failed)?;
        let blob = |value: &[u8]| Ok::<_, BenchError>(repository.write_blob(value).map_err(failed)?.detach());
        match *edit {
            Edit::One(entry, value) => {
                editor.upsert(&paths[entry][..], EntryKind::Blob, blob(value)?).map_err(failed)?;
            }
            Edit::All(value) => {
                let blob = blob(value)?;
                for path in paths {
                    editor.upsert(&path[..], EntryKind::Blob, blob).map_err(failed)?;
                }
            }
            Edit::Each(values) => {
                for (path, value) in paths.iter().zip(values) {
                    editor.upsert(&path[..], EntryKind::Blob, blob(value)?).map_err(failed)?;
                }
            }
        }
        let tree = editor.write().map_err(failed)?;
        let time = format!("{} +0000", Who::SECONDS);
        let who = SignatureRef { name: Who::NAME.into(), email: Who::ADDRESS.into(), time: &time };
        repository.commit_as(who, who, MAIN, message, tree, parent).map_err(failed)?;
        Ok(())
    }

    fn look_up(&self, paths: &[String], lookups: &[u32]) -> Result<u64> {
        let Some(head) = self.main()? else { return Err(failed("there is no main")) };
        let tree = self.repository.find_commit(head).map_err(failed)?.tree().map_err(failed)?;
        let mut sum = 0;
        for &n in lookups {
            let path = &paths[n as usize];
            let Some(entry) = tree.lookup_entry_by_path(path).map_err(failed)? else {
                return Err(failed(format!("nothing was found at {path}")));
            };
            let blob = entry.object().map_err(failed)?;
            sum = add_up(sum, weight(&blob.data));
        }
        Ok(sum)
    }

    fn head(&self) -> Result<(String, String)> {
        let Some(head) = self.main()? else { return Err(failed("there is no main")) };
        let tree = self.repository.find_commit(head).map_err(failed)?.tree_id().map_err(failed)?;
        Ok((head.to_string(), tree.to_string()))
    }
}

impl Gitoxide {
    fn main(&self) -> Result<Option<ObjectId>> {
        let main = self.repository.try_find_reference(MAIN).map_err(failed)?;
        Ok(main.and_then(|main| main.try_id().map(gix::Id::detach)))
    }
}

fn failed(error: impl std::fmt::Display) -> BenchError {
    BenchError::Peer { peer: "gitoxide", reason: error.to_string() }
}
