//! Forgetting: what no ref leads to any more.

use std::ops::ControlFlow;

use bristlecone_core::{Format, ObjRef, Object, Oid};

use super::{
    Repo,
    retention::{SweepRules, now_seconds},
};
use crate::{CutSize, Error, Result, Retention, Roots, SweepLimits, SweepStatus, Swept};

impl<F: Format> Repo<F> {
    /// Drops objects that nothing leads to: no ref, no tree or walk that is held, and none of `roots`; at most as many as
    /// `limits` say. Commits that the store's retention keeps no longer ([`Repo::set_retention`]) go, too. Reading and edits go on
    /// meanwhile, and so do commits while it marks. While it removes something they wait: in memory and on the backend `lsm` from when it
    /// chooses what goes until that is gone, on `fs` and `lmdb` for some thousand objects at a time, on the disk engine not at all.
    ///
    /// ```
    /// # use bristlecone::{Info, Repo, SweepLimits};
    /// let repo = Repo::memory();
    /// repo.branch("trial")?.edit(&Info::message("a trial"), |tree| tree.set("a", vec![7; 100_000]))?;
    /// let held = repo.branch("trial")?.tree()?;
    /// repo.branch("trial")?.compare_and_set(held.origin(), None, Default::default())?;
    ///
    /// assert_eq!(repo.sweep(&[], &SweepLimits::default())?.objects, 0);
    /// drop(held);
    /// assert!(repo.sweep(&[], &SweepLimits::default())?.bytes > 100_000);
    /// # Ok::<(), bristlecone::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Usage`] where the backend cannot ([`crate::Capabilities::sweep`]); [`Error::BadObject`] for one that does not
    /// decode, and then nothing is dropped, unless it came after something was; those of the backend.
    pub fn sweep(&self, roots: &[ObjRef], limits: &SweepLimits) -> Result<Swept> {
        self.sweep_by(&self.retention()?, roots, limits)
    }

    /// Drops objects as [`Repo::sweep`] does, by these rules instead of the store's. Where they are the store's, it goes by these as
    /// they are when it begins.
    ///
    /// # Errors
    /// As [`Repo::sweep`].
    pub fn sweep_by(&self, retention: &Retention, roots: &[ObjRef], limits: &SweepLimits) -> Result<Swept> {
        self.sweep_watched(retention, roots, limits, &|_| ControlFlow::Continue(()))
    }

    /// Drops objects as [`Repo::sweep_by`] does, and tells `watch` now and then how far it is. Where that breaks, the sweep ends
    /// and nothing was dropped; or something was by then, which is returned ([`Swept::more`] says that the rest is left). Where the
    /// sweep fails, what was dropped is what `watch` was told last of [`SweepStep::Remove`](crate::SweepStep::Remove). `watch` may read
    /// the repository, and must not change it.
    ///
    /// ```
    /// # use std::ops::ControlFlow;
    /// # use bristlecone::{Error, Info, Repo, SweepLimits};
    /// let repo = Repo::memory();
    /// repo.branch("main")?.edit(&Info::message("many"), |tree| {
    ///     (0..1000_u32).try_for_each(|n| tree.set(format!("{n}").as_str(), vec![n as u8; 100 + n as usize]))
    /// })?;
    /// let stop = |status: &bristlecone::SweepStatus| match status.objects {
    ///     0..500 => ControlFlow::Continue(()),
    ///     _ => ControlFlow::Break(()),
    /// };
    /// let swept = repo.sweep_watched(&repo.retention()?, &[], &SweepLimits::default(), &stop);
    /// assert!(matches!(swept, Err(Error::Stopped)));
    /// # Ok::<(), bristlecone::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Stopped`] where `watch` breaks; as [`Repo::sweep`].
    pub fn sweep_watched(
        &self,
        retention: &Retention,
        roots: &[ObjRef],
        limits: &SweepLimits,
        watch: &dyn Fn(&SweepStatus) -> ControlFlow<()>,
    ) -> Result<Swept> {
        let own = *retention == self.retention()?;
        let rules = SweepRules { repo: self, given: (!own).then_some(retention) };
        let oids: Vec<Oid> = roots.iter().map(|at| at.oid).collect();
        let format = &self.shared.format;
        let children = |oid: &Oid, object: &Object<'_>, each: &mut dyn FnMut(Oid)| {
            let decoded = format.child_ids(object.kind(), object.body(), each);
            decoded.map_err(|source| Error::BadObject { oid: *oid, source })
        };
        let watch = |status: &SweepStatus| match watch(status) {
            ControlFlow::Continue(()) => Ok(()),
            ControlFlow::Break(()) => Err(Error::Stopped),
        };
        let roots = Roots::new(&oids, &children).cut(&rules).watch(&watch);
        self.shared.backend.sweep(&roots, limits)
    }

    /// Returns how much of history goes by these rules, where all else stays as it is.
    ///
    /// # Errors
    /// [`Error::BadObject`]; those of the backend.
    pub fn cut_size(&self, retention: &Retention) -> Result<CutSize> {
        Ok(self.cut(retention, now_seconds())?.map_or(CutSize::default(), |cut| cut.size()))
    }
}
