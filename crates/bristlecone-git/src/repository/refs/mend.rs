//! Reflogs after a power cut: lines that lead to what is lost would fail every `git fsck`, and others tell what a Git
//! did.

use bristlecone::{Oid, RefTarget, Result};

use super::{Loose, Refs, STORE_HEAD, lock::RefLock, locked::MoveRules, reflog};
use crate::repository::files::{folder, passing_name};

/// Where worktrees have their folders.
pub(super) const WORKTREES: &str = "worktrees";

impl Refs {
    /// Takes those lines out of the reflogs of these refs, and of every working tree's HEAD, that lead to objects which
    /// are not there; durable. The lock of the store must be held. For `trusted` and `is_there` see [`reflog::mended`].
    ///
    /// `names`: with whether the ref stays. The reflog of one that does is not removed, also if no line is left of it.
    ///
    /// # Errors
    /// Those of the locks and of the system.
    pub(crate) fn mend_logs<'n>(
        &self,
        names: impl Iterator<Item = (&'n String, bool)>,
        rules: &MoveRules,
        trusted: &dyn Fn(&Oid) -> bool,
        is_there: &mut dyn FnMut(&Oid, bool) -> Result<bool>,
    ) -> Result<()> {
        let own = names
            .filter(|(name, _)| *name != STORE_HEAD)
            .map(|(name, stays)| (self.path(name), self.log_path(name), stays));
        let trees = self.files.list(WORKTREES)?.into_iter().map(|tree| format!("{WORKTREES}/{tree}"));
        let heads = trees
            .chain([String::new()])
            .map(|dir| (crate::repository::files::below(&dir, "HEAD"), reflog::log_path(&dir, "HEAD"), false));
        for (path, log, stays) in own.chain(heads) {
            self.mend_log((&path, stays), &log, rules, trusted, is_there)?;
        }
        Ok(())
    }

    /// Whether a ref is gone together with its reflog, as a Git removes both. A ref whose moves are not logged tells
    /// nothing.
    pub(crate) fn is_removed(&self, name: &str, rules: &MoveRules) -> Result<bool> {
        if name == STORE_HEAD || !rules.log.begins(name) {
            return Ok(false);
        }
        let slot = self.slot(name)?;
        let gone = slot.value.is_none() && !matches!(slot.loose, Loose::Broken(_));
        Ok(gone && self.files.stat(&self.log_path(name))?.is_none_or(|stat| stat.dir))
    }

    /// Whether the reflog of a ref ends with a move from one value to another.
    pub(crate) fn ends_with_move(&self, name: &str, from: Option<&RefTarget>, to: Option<&RefTarget>) -> Result<bool> {
        let (Some(RefTarget::Object(from)), Some(RefTarget::Object(to))) = (from, to) else { return Ok(false) };
        // The store's own HEAD has no reflog.
        Ok(name != STORE_HEAD && self.logged(name)?.ends_with(&[from.oid, to.oid]))
    }

    fn mend_log(
        &self,
        (path, stays): (&str, bool),
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
            if mended.bytes.is_empty() && !stays && self.files.stat(path)?.is_none() {
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
