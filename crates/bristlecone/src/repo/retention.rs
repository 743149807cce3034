//! Retention: which commits the next sweep drops although others name them.

use std::{
    collections::BTreeSet,
    time::{SystemTime, UNIX_EPOCH},
};

use bristlecone_core::{Commit, Format, Kind, ObjRef, Oid};

use super::{PeeledTags, Repo, history::circle::LineCheck};
use crate::{
    AbsentCommits, Cut, CutRules, CutSize, Error, Keep, RefTarget, Result, Retention,
    backend::{DroppedCommit, Keeping},
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

    /// Sets which commits the store keeps, durably, whatever its rules were. The next [`Repo::sweep`] drops what is kept no longer.
    ///
    /// Commits keep their ids. A parent that was dropped is absent on purpose: [`crate::Backend::absent`] lists such, logs go on
    /// with the next commit that is kept, and reading one fails with [`Error::Absent`].
    ///
    /// # Errors
    /// [`Error::Usage`] where the backend keeps everything ([`crate::Capabilities::retention`]), and for a rule that cannot be
    /// written ([`Retention::set`]); those of the backend.
    pub fn set_retention(&self, retention: &Retention) -> Result<()> {
        self.shared.backend.replace_retention(None, retention).map(|_| ())
    }

    /// Sets which commits the store keeps, if its rules are the expected ones until then; returns whether they were. So of two
    /// processes that change a rule each, neither takes back what the other one did.
    ///
    /// ```no_run
    /// # use bristlecone::{Native, Repo};
    /// # let repo: Repo<Native> = unimplemented!();
    /// loop {
    ///     let expected = repo.retention()?;
    ///     let mut retention = expected.clone();
    ///     retention.set("refs/heads/*", Some("last 100".parse()?));
    ///     if repo.replace_retention(&expected, &retention)? {
    ///         break;
    ///     }
    /// }
    /// # Ok::<(), bristlecone::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Repo::set_retention`].
    pub fn replace_retention(&self, expected: &Retention, retention: &Retention) -> Result<bool> {
        self.shared.backend.replace_retention(Some(expected), retention)
    }

    /// Returns what the next sweep drops by these rules, if they drop anything; `now` is in seconds since 1970.
    pub(super) fn cut(&self, retention: &Retention, now: i64) -> Result<Option<Cut>> {
        let before = self.shared.backend.absent()?;
        if retention.is_all() && before.is_empty() {
            return Ok(None);
        }
        let shallow = self.shared.backend.shallow()?;
        let view = self.now();
        let commits = Commits { view: &view, shallow: &shallow };
        let heads = self.heads(&view, retention)?;
        let mut kept = OidSet::default();
        // What those that are kept name: places are known for them.
        let mut parents = Vec::new();
        for &(head, keep) in &heads {
            commits.each_of_line(head, keep, now, &|_, _| false, &mut |here, commit| {
                if kept.insert(here.oid) {
                    parents.extend(commits.parents(&here.oid, commit));
                }
            })?;
        }
        // What is kept whole, as far as it was not cut before.
        let mut open: Vec<ObjRef> =
            heads.iter().filter(|(_, keep)| *keep == Keep::All).map(|(head, _)| *head).collect();
        let mut whole = OidSet::default();
        while let Some(at) = open.pop() {
            if !whole.contains(&at.oid)
                && let Some(commit) = commits.read(&at)?
            {
                whole.insert(at.oid);
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
            dropped.insert(oid, DroppedCommit { parent: named.peek().map(|parent| parent.oid), at: at.at });
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
        let keeping = Keeping::new(retention.clone(), now, shallow, whole);
        heads.iter().filter(|(_, keep)| *keep != Keep::All).for_each(|(head, keep)| keeping.note_line(head.oid, *keep));
        Ok(Some(Cut::new(dropped, loose, before.as_ref().clone(), size).keeping(keeping)))
    }

    /// Takes out of a cut what a ref keeps that leads to an object since, and returns these commits. Where the ref only went on, as
    /// with a commit, it looks at what is new alone. A sweep calls it under locks of the backend: it reads objects and nothing else.
    pub(super) fn keep_moved(&self, cut: &Cut, name: &str, to: &ObjRef) -> Result<Vec<Oid>> {
        let (view, keeping) = (self.now(), &cut.keeping);
        let commits = Commits { view: &view, shallow: &keeping.shallow };
        let Some(head) = commits.peel(*to, &mut |target| target)? else { return Ok(Vec::new()) };
        let mut kept = Vec::new();
        let keep = keeping.retention.keep(name);
        if keep != Keep::All {
            let is_known = |oid: &Oid, before| keeping.has_line(oid, keep, before);
            commits.each_of_line(head, keep, keeping.now, &is_known, &mut |here, _| {
                kept.extend(cut.restore(&here.oid).then_some(here.oid));
            })?;
            keeping.note_line(head.oid, keep);
            return Ok(kept);
        }
        let mut open = vec![head];
        while let Some(at) = open.pop() {
            if keeping.note_whole(at.oid)
                && let Some(commit) = commits.read(&at)?
            {
                kept.extend(cut.restore(&at.oid).then_some(at.oid));
                open.extend(commits.parents(&at.oid, &commit));
            }
        }
        Ok(kept)
    }

    /// Returns the commits to which refs lead, and what each keeps.
    fn heads(&self, view: &StoreView<F>, retention: &Retention) -> Result<Vec<(ObjRef, Keep)>> {
        let commits = Commits { view, shallow: &BTreeSet::new() };
        let (mut heads, mut tags) = (Vec::new(), PeeledTags::default());
        for (name, target) in self.shared.backend.list_refs("")? {
            let RefTarget::Object(at) = target else { continue };
            let head = tags.follow(at, |at, next| commits.peel(at, next))?;
            heads.extend(head.map(|head| (head, retention.keep(&name))));
        }
        Ok(heads)
    }
}

/// The rules by which a sweep of a repository drops commits.
pub(super) struct SweepRules<'a, F: Format> {
    pub(super) repo: &'a Repo<F>,
    /// The store's own if there are none.
    pub(super) given: Option<&'a Retention>,
}

impl<F: Format> CutRules for SweepRules<'_, F> {
    fn cut(&self) -> Result<Option<Cut>> {
        let retention = match self.given {
            Some(given) => given.clone(),
            None => self.repo.retention()?,
        };
        self.repo.cut(&retention, now_seconds())
    }

    fn keep(&self, cut: &Cut, name: &str, to: &ObjRef) -> Result<Vec<Oid>> {
        self.repo.keep_moved(cut, name, to)
    }
}

/// Returns the time in seconds since 1970.
pub(super) fn now_seconds() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(now.as_secs()).unwrap_or(i64::MAX)
}

/// The commits of a store, as far as they are there.
struct Commits<'a, F: Format> {
    view: &'a StoreView<F>,
    shallow: &'a BTreeSet<Oid>,
}

impl<F: Format> Commits<'_, F> {
    /// Returns a commit; `None` if it is absent.
    fn read(&self, at: &ObjRef) -> Result<Option<Commit>> {
        match self.view.snapshot.read(at)? {
            Some(object) if object.kind() == Kind::Commit => Ok(Some(self.view.decode_commit(&object, at.oid)?)),
            _ => Ok(None),
        }
    }

    /// Returns the commit to which an object leads, itself or through tags, however many; `None` if to none: a tag of something else has
    /// no history. `next`: with what to go on behind a tag that names an object.
    fn peel(&self, mut at: ObjRef, next: &mut dyn FnMut(ObjRef) -> ObjRef) -> Result<Option<ObjRef>> {
        let mut line = LineCheck::default();
        // Forged tags may go in a circle, which leads to no commit.
        while !line.comes_back(at.oid) {
            let Some(object) = self.view.snapshot.read(&at)? else { return Ok(None) };
            match object.kind() {
                Kind::Commit if object.location().is_some() => {
                    return Ok(Some(ObjRef::new(at.oid, object.location())));
                }
                Kind::Commit => return Ok(Some(at)),
                Kind::Tag => {}
                _ => return Ok(None),
            }
            let tag = self.view.format.decode_tag(&object);
            at = next(tag.map_err(|source| Error::BadObject { oid: at.oid, source })?.target);
        }
        Ok(None)
    }

    fn parents<'c>(&self, oid: &Oid, commit: &'c Commit) -> impl Iterator<Item = ObjRef> + use<'c, F> {
        let parents = if self.shallow.contains(oid) { &[][..] } else { &commit.parents[..] };
        parents.iter().map(|&parent| parent.into())
    }

    /// Calls `each` with the commits that a ref keeps which does not keep all, along first parents; up to one of which `is_known` is
    /// true, with how many came before it.
    fn each_of_line(
        &self,
        head: ObjRef,
        keep: Keep,
        now: i64,
        is_known: &dyn Fn(&Oid, u32) -> bool,
        each: &mut dyn FnMut(ObjRef, &Commit),
    ) -> Result<()> {
        let (mut at, mut marked) = (Some(head), None::<Oid>);
        let mut commits = 0_u32;
        while let Some(here) = at {
            let stays = match keep {
                Keep::All => false,
                Keep::Last(most) => commits < most.get(),
                Keep::Within(_) => true,
            };
            // A forged history may go in a circle.
            if !stays || is_known(&here.oid, commits) || marked == Some(here.oid) {
                break;
            }
            let Some(commit) = self.read(&here)? else { break };
            if let Keep::Within(seconds) = keep
                && commits > 0
                && commit.committer.seconds < now.saturating_sub(i64::from(seconds))
            {
                break;
            }
            each(here, &commit);
            commits += 1;
            if commits.is_power_of_two() {
                marked = Some(here.oid);
            }
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
