//! Forgetting: what no ref leads to any more.

use bristlecone_core::{Format, ObjRef, Object, Oid};

use super::Repo;
use crate::{Error, Result, Roots, SweepLimits, Swept};

impl<F: Format> Repo<F> {
    /// Drops objects that nothing leads to: no ref, no tree or walk that is held, and none of `roots`; at most as many as
    /// `limits` say. Reading and edits go on meanwhile; commits wait.
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
    /// decode, and then nothing is dropped; those of the backend.
    pub fn sweep(&self, roots: &[ObjRef], limits: &SweepLimits) -> Result<Swept> {
        let oids: Vec<Oid> = roots.iter().map(|at| at.oid).collect();
        let format = &self.shared.format;
        let children = |oid: &Oid, object: &Object<'_>, each: &mut dyn FnMut(Oid)| {
            let decoded = format.children(object.kind(), object.body(), &mut |_, child| each(child));
            decoded.map_err(|source| Error::BadObject { oid: *oid, source })
        };
        self.shared.backend.sweep(&Roots { oids: &oids, children: &children }, limits)
    }
}
