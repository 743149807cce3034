//! libgit2, by way of the crate `git2`: blobs and trees as loose objects, each on its way to its file at once.

use std::path::Path;

use git2::{Commit, ErrorCode, FileMode, Oid, Repository, Signature, Time, Tree};

use super::library::{Edit, Library, MAIN};
use crate::{
    BenchError,
    error::Result,
    workload::{Who, add_up, weight},
};

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
                sum = add_up(sum, weight(blob.content()));
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
        let before = parent.as_ref().map(Commit::tree).transpose()?;
        let name = |path: &'_ String| path.rsplit('/').next().unwrap_or(path).to_owned();
        let entries: Vec<(String, Oid)> = match *edit {
            Edit::One(entry, value) => vec![(name(&paths[entry]), repository.blob(value)?)],
            Edit::All(value) => {
                let blob = repository.blob(value)?;
                paths.iter().map(|path| (name(path), blob)).collect()
            }
            Edit::Each(values) => {
                let entry = |(path, value): (&String, &Vec<u8>)| Ok((name(path), repository.blob(value)?));
                paths.iter().zip(values).map(entry).collect::<std::result::Result<_, git2::Error>>()?
            }
        };
        let dir: Vec<&str> = paths[0].split('/').rev().skip(1).collect();
        let tree = repository.find_tree(self.edited(before, &dir, &entries)?)?;
        let who = Signature::new(Who::NAME, Who::ADDRESS, &Time::new(Who::SECONDS, 0))?;
        let parents: Vec<&Commit<'_>> = parent.iter().collect();
        repository.commit(Some(MAIN), &who, &who, message, &tree, &parents)?;
        Ok(())
    }

    /// Sets entries of the directory at `dir`, whose steps are given from the last to the first, and returns the root that
    /// results. `before` is the root before it, if there is one.
    ///
    /// Builders are twice as fast here as `TreeUpdateBuilder`, which takes whole paths.
    fn edited(
        &self,
        before: Option<Tree<'_>>,
        dir: &[&str],
        entries: &[(String, Oid)],
    ) -> std::result::Result<Oid, git2::Error> {
        let repository = &self.repository;
        let mut builder = repository.treebuilder(before.as_ref())?;
        let Some((step, below)) = dir.split_last() else {
            for (name, blob) in entries {
                builder.insert(name, *blob, FileMode::Blob.into())?;
            }
            return builder.write();
        };
        let child = before.as_ref().and_then(|before| before.get_name(step)).map(|child| child.id());
        let child = child.map(|child| repository.find_tree(child)).transpose()?;
        builder.insert(step, self.edited(child, below, entries)?, FileMode::Tree.into())?;
        builder.write()
    }
}

fn failed(error: git2::Error) -> BenchError {
    BenchError::Peer { peer: "libgit2", reason: error.to_string() }
}
