//! Reflogs after a power cut: lines that lead to what is lost would fail every `git fsck`.

use bristlecone::{Oid, Result};

use super::{Refs, lock::RefLock, locked::MoveRules, reflog};
use crate::repository::files::{folder, passing_name};

/// Where worktrees have their folders.
pub(super) const WORKTREES: &str = "worktrees";

impl Refs {
    /// Takes those lines out of the reflogs of these refs, and of every working tree's HEAD, that lead to objects which
    /// are not there; durable. The lock of the store must be held. For `trusted` and `is_there` see [`reflog::mended`].
    ///
    /// # Errors
    /// Those of the locks and of the system.
    pub(crate) fn mend_logs<'n>(
        &self,
        names: impl Iterator<Item = &'n String>,
        rules: &MoveRules,
        trusted: &dyn Fn(&Oid) -> bool,
        is_there: &mut dyn FnMut(&Oid, bool) -> Result<bool>,
    ) -> Result<()> {
        let own = names.filter(|name| *name != super::STORE_HEAD).map(|name| (self.path(name), self.log_path(name)));
        let trees = self.files.list(WORKTREES)?.into_iter().map(|tree| format!("{WORKTREES}/{tree}"));
        let heads = trees
            .chain([String::new()])
            .map(|dir| (crate::repository::files::below(&dir, "HEAD"), reflog::log_path(&dir, "HEAD")));
        for (path, log) in own.chain(heads) {
            self.mend_log(&path, &log, rules, trusted, is_there)?;
        }
        Ok(())
    }

    fn mend_log(
        &self,
        path: &str,
        log: &str,
        rules: &MoveRules,
        trusted: &dyn Fn(&Oid) -> bool,
        is_there: &mut dyn FnMut(&Oid, bool) -> Result<bool>,
    ) -> Result<()> {
        let mut mended = || match self.files.read(log)? {
            Some(bytes) => reflog::mended(&bytes, self.algorithm, trusted, is_there).map(Some),
            None => Ok(None),
        };
        if !mended()?.is_some_and(|mended| mended.changed) {
            return Ok(());
        }
        let lock = RefLock::take(&self.files, path, rules.wait)?;
        // A Git may have added lines before the lock was ours.
        if let Some(mended) = mended()?.filter(|mended| mended.changed) {
            if mended.bytes.is_empty() && self.files.stat(path)?.is_none() {
                reflog::remove(&self.files, log)?;
            } else {
                let new = passing_name(super::locked::STAGED);
                let file = self.files.write(&new, &mended.bytes)?;
                self.files.sync_open(&new, &*file)?;
                self.files.rename(&new, log)?;
            }
            self.files.sync_dir(folder(log))?;
        }
        lock.release()
    }
}
