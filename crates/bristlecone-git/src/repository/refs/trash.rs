//! Files that are no longer needed, under names of their own until they are removed: where the system discards blocks,
//! removing what has reached the disk takes milliseconds.

use std::sync::MutexGuard;

use bristlecone::{Error, Result, storage::Reach};

use super::{
    Refs, lock,
    locked::{STAGED, STAGED_MAX},
    mend::WORKTREES,
    packed,
};
use crate::repository::{
    files::{DAY, below, is_absent, passing_name},
    mutex,
};

/// What the names of files begin with that are to be removed.
const TRASH: &str = "bristlecone/gone-";
/// The folder of everything of ours in a repository.
const OURS: &str = "bristlecone";

impl Refs {
    /// Takes the name of a file away, if there is one: [`Refs::empty_trash`] removes the file, which may take long.
    pub(crate) fn unlink_later(&self, file: &str) -> Result<()> {
        let name = passing_name(TRASH);
        match self.files.rename(file, &name) {
            Err(Error::Io { source, .. }) if is_absent(&source) => return Ok(()),
            renamed => renamed?,
        }
        self.trash().push(name);
        Ok(())
    }

    /// Returns how many files wait to be removed.
    pub(crate) fn trash_len(&self) -> usize {
        self.trash().len()
    }

    /// Removes files that are no longer needed, at most `files_max` of them.
    pub(crate) fn empty_trash(&self, files_max: usize) -> Result<()> {
        let some: Vec<String> = {
            let mut trash = self.trash();
            let from = trash.len().saturating_sub(files_max);
            trash.drain(from..).collect()
        };
        some.iter().try_for_each(|name| self.files.remove(name).map(drop))
    }

    /// Removes the files that processes left when they ended, also the locks of `packed-refs` and of each `HEAD`: any Git
    /// needs those, and no move of ours may need them for long. The lock of the store must be held.
    pub(crate) fn sweep(&self) -> Result<()> {
        // Other machines have clocks of their own.
        let old = if self.files.reach() == Reach::Local { STAGED_MAX } else { DAY };
        for name in self.files.list(OURS)? {
            let name = below(OURS, &name);
            let passing = [STAGED, TRASH, lock::FRESH].iter().any(|prefix| name.starts_with(prefix));
            if passing && self.files.is_older(&name, old)? {
                self.files.remove(&name)?;
            }
        }
        packed::sweep(&self.files)?;
        let trees = self.files.list(WORKTREES)?.into_iter().map(|tree| format!("{WORKTREES}/{tree}/HEAD"));
        trees.chain(["HEAD".to_owned()]).try_for_each(|head| lock::remove_left(&self.files, &head))
    }

    pub(super) fn trash(&self) -> MutexGuard<'_, Vec<String>> {
        mutex::lock(&self.trash)
    }
}
