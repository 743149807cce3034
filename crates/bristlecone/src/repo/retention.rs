//! Retention: which commits the next sweep drops although others name them.

use bristlecone_core::{Commit, Format, Kind, ObjRef, Oid};

use super::Repo;
use crate::{
    AbsentCommits, Cut, CutSize, Error, Keep, RefTarget, Result, Retention,
    oid_map::{OidMap, OidSet},
    store::StoreView,
};

impl<F: Format> Repo<F> {
    /// Returns which commits the store keeps. It is kept in the store, and the same for every process.
    ///
    /// # Errors
    /// Those of the backend.
    pub fn retention(&self) -> Result<Retention> {
        self.shared.backend.retention()
    }

    /// Sets which commits the store keeps, durably. The next [`Repo::sweep`] drops what is kept no longer.
    ///
    /// Commits keep their ids. A parent that was dropped is absent on purpose: [`crate::Backend::absent`] lists such, logs go on
    /// with the next commit that is kept, and reading one fails with [`Error::Absent`].
    ///
    /// # Errors
    /// [`Error::Usage`] where the backend keeps everything ([`crate::Capabilities::retention`]); those of the backend.
    pub fn set_retention(&self, retention: &Retention) -> Result<()> {
        self.shared.backend.set_retention(retention)
    }

    /// Returns what the next sweep drops by these rules, if they drop anything; `now` is in seconds since 1970.
    pub(super) fn cut(&self, retention: &Retention, now: i64) -> Result<Option<Cut>> {
        let before = self.shared.backend.absent()?;
        if retention.is_all() && before.is_empty() {
            return Ok(None);
        }
        let shallow = self.shared.backend.shallow()?;
        let view = self.now();
        let commits = Commits { view: &view, shallow };
        let heads = self.heads(&view, retention)?;
        let mut kept = OidSet::default();
        // What those that are kept name: places are known for them.
        let mut parents = Vec::new();
        for &(head, keep) in &heads {
            commits.keep_line(head, keep, now, &mut kept, &mut parents)?;
        }
        // What is kept whole, as far as it was not cut before.
        let mut open: Vec<ObjRef> =
            heads.iter().filter(|(_, keep)| *keep == Keep::All).map(|(head, _)| *head).collect();
        let mut whole = OidSet::default();
        while let Some(at) = open.pop() {
            if whole.insert(at.oid)
                && let Some(commit) = commits.read(&at)?
            {
                open.extend(commits.parents(&at.oid, &commit));
            }
        }
        let mut dropped = OidMap::default();
        while let Some(at) = parents.pop() {
            let oid = at.oid;
            if kept.contains(&oid) || whole.contains(&oid) || dropped.contains_key(&oid) {
                continue;
            }
            let Some(commit) = commits.read(&at)? else { continue };
            let mut named = commits.parents(&oid, &commit).peekable();
            dropped.insert(oid, named.peek().map(|parent| parent.oid));
            parents.extend(named);
        }
        let mut loose = OidMap::default();
        for row in before.values() {
            let mut at = row.next.map(ObjRef::from);
            while let Some(here) = at.filter(|ObjRef { oid, .. }| {
                !(kept.contains(oid) || whole.contains(oid) || dropped.contains_key(oid) || loose.contains_key(oid))
            }) {
                let Some(commit) = commits.read(&here)? else { break };
                at = commits.parents(&here.oid, &commit).next();
                loose.insert(here.oid, at.map(|at| at.oid));
            }
        }
        let named: OidSet = heads.iter().map(|(head, _)| head.oid).collect();
        let size = CutSize {
            dropped: dropped.len() as u64,
            kept: whole.union(&kept).count() as u64,
            heads: named.len() as u64,
        };
        Ok(Some(Cut::new(dropped, loose, before.as_ref().clone(), size)))
    }

    /// Returns the commits to which refs lead, and what each keeps.
    fn heads(&self, view: &StoreView<F>, retention: &Retention) -> Result<Vec<(ObjRef, Keep)>> {
        let mut heads = Vec::new();
        for (name, target) in self.shared.backend.list_refs("")? {
            let RefTarget::Object(at) = target else { continue };
            let kind = view.snapshot.read(&at)?.map(|object| object.kind());
            match kind {
                Some(Kind::Commit) => heads.push((at, retention.keep(&name))),
                // A tag of something else has no history.
                Some(Kind::Tag) => match self.peel(at) {
                    Ok(commit) => heads.push((commit.into(), retention.keep(&name))),
                    Err(Error::WrongKind { .. } | Error::Missing { .. }) => {}
                    Err(error) => return Err(error),
                },
                _ => {}
            }
        }
        Ok(heads)
    }
}

/// The commits of a store, as far as they are there.
struct Commits<'a, F: Format> {
    view: &'a StoreView<F>,
    shallow: std::collections::BTreeSet<Oid>,
}

impl<F: Format> Commits<'_, F> {
    /// Returns a commit; `None` if it is absent.
    fn read(&self, at: &ObjRef) -> Result<Option<Commit>> {
        match self.view.snapshot.read(at)? {
            Some(object) if object.kind() == Kind::Commit => Ok(Some(self.view.decode_commit(&object, at.oid)?)),
            _ => Ok(None),
        }
    }

    fn parents<'c>(&self, oid: &Oid, commit: &'c Commit) -> impl Iterator<Item = ObjRef> + use<'c, F> {
        let parents = if self.shallow.contains(oid) { &[][..] } else { &commit.parents[..] };
        parents.iter().map(|&parent| parent.into())
    }

    /// Adds what a ref keeps that does not keep all, along first parents; and to `parents` what the commits name.
    fn keep_line(
        &self,
        head: ObjRef,
        keep: Keep,
        now: i64,
        kept: &mut OidSet,
        parents: &mut Vec<ObjRef>,
    ) -> Result<()> {
        let mut at = Some(head);
        let mut commits = 0_u32;
        while let Some(here) = at {
            let stays = |commits: u32| match keep {
                Keep::All => false,
                Keep::Last(most) => commits < most.get(),
                Keep::Within(_) => true,
            };
            if !stays(commits) {
                break;
            }
            let Some(commit) = self.read(&here)? else { break };
            if let Keep::Within(seconds) = keep
                && commits > 0
                && commit.committer.seconds < now.saturating_sub(i64::from(seconds))
            {
                break;
            }
            if kept.insert(here.oid) {
                parents.extend(self.parents(&here.oid, &commit));
            }
            commits += 1;
            at = self.parents(&here.oid, &commit).next();
        }
        Ok(())
    }
}

/// Returns the parents with which history goes on: what retention has cut is passed over to what is kept behind it.
pub(super) fn standing<F: Format>(
    view: &StoreView<F>,
    absent: &AbsentCommits,
    parent: ObjRef,
) -> Result<Option<ObjRef>> {
    match absent.get(&parent.oid) {
        // It may have come back, by a copy.
        Some(row) if view.snapshot.read(&parent)?.is_none() => Ok(row.next.map(ObjRef::from)),
        _ => Ok(Some(parent)),
    }
}
