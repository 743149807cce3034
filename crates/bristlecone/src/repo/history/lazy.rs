//! The walk of a log whose commits are found as they are asked for: which commits belong to it, and with which parents
//! history goes on.

use std::{cmp::Reverse, collections::BTreeMap, sync::Arc};

use bristlecone_core::{AHEAD_OBJECTS_MAX, Format, ObjRef, Oid};

use super::{
    LogEntry, LogOptions,
    excluded::Excluded,
    graph::{CommitGraph, LOOK_AHEAD_MAX},
    watch::Watch,
};
use crate::{
    Result,
    oid_map::{OidMap, OidSet},
    store::StoreView,
};

/// The history that a log sees: commits that are left out are gone, parents that do not matter too.
#[derive(Debug)]
pub(super) struct LazyWalk<F: Format> {
    graph: CommitGraph<F>,
    excluded: Excluded,
    watch: Option<Watch<F>>,
    first_parent: bool,
    since: i64,
    until: i64,
    loaded: OidMap<WalkedCommit>,
    // Those of them that were not expanded, newest first, in the order in which they were loaded.
    waiting: BTreeMap<(Reverse<i64>, u64), Oid>,
    count: u64,
    seen: OidSet,
}

#[derive(Debug)]
struct WalkedCommit {
    entry: LogEntry,
    number: u64,
    // In the history as the log sees it; set by `expand`.
    parents: Vec<Oid>,
    shown: bool,
}

impl WalkedCommit {
    /// Its place among those that wait.
    const fn place(&self) -> (Reverse<i64>, u64) {
        (Reverse(self.entry.commit.committer.seconds), self.number)
    }
}

impl<F: Format> LazyWalk<F> {
    pub(super) fn new(store: Arc<StoreView<F>>, options: LogOptions) -> Self {
        let watch = Watch::over(&store, &options.paths);
        Self {
            excluded: Excluded::new(store.commit_refs(&options.exclude)),
            graph: CommitGraph::new(store).beside(watch.as_ref()),
            watch,
            first_parent: options.first_parent,
            since: options.since.unwrap_or(i64::MIN),
            until: options.until.unwrap_or(i64::MAX),
            loaded: OidMap::default(),
            waiting: BTreeMap::new(),
            count: 0,
            seen: OidSet::default(),
        }
    }

    /// Returns those heads that are not left out, newest first, each once.
    pub(super) fn heads(&mut self, heads: &[ObjRef]) -> Result<Vec<Oid>> {
        let mut kept = Vec::new();
        for (index, at) in heads.iter().enumerate() {
            self.graph.look_ahead(at, heads[index..].iter().copied())?;
            if self.load(at)? || !self.discover(&at.oid) {
                continue;
            }
            kept.push(at.oid);
        }
        kept.sort_by_key(|oid| Reverse(self.seconds(oid)));
        Ok(kept)
    }

    /// Whether a commit is met for the first time.
    pub(super) fn discover(&mut self, oid: &Oid) -> bool {
        self.seen.insert(*oid)
    }

    pub(super) fn seconds(&self, oid: &Oid) -> i64 {
        self.loaded[oid].entry.commit.committer.seconds
    }

    pub(super) fn generation(&self, oid: &Oid) -> u64 {
        self.loaded[oid].entry.number()
    }

    /// Returns the parents that `expand` found.
    pub(super) fn parents(&self, oid: &Oid) -> &[Oid] {
        &self.loaded[oid].parents
    }

    /// Takes a commit out of the walk; `None` if the log does not list it.
    pub(super) fn take(&mut self, oid: &Oid) -> Option<LogEntry> {
        self.forget(oid).filter(|loaded| loaded.shown).map(|loaded| loaded.entry)
    }

    fn forget(&mut self, oid: &Oid) -> Option<WalkedCommit> {
        let loaded = self.loaded.remove(oid)?;
        self.waiting.remove(&loaded.place());
        Some(loaded)
    }

    /// Loads a commit; returns whether it is left out.
    fn load(&mut self, at: &ObjRef) -> Result<bool> {
        if !self.loaded.contains_key(&at.oid) {
            let entry = self.graph.read(at)?;
            self.count += 1;
            let loaded = WalkedCommit { entry, number: self.count, parents: Vec::new(), shown: true };
            self.waiting.insert(loaded.place(), at.oid);
            self.loaded.insert(at.oid, loaded);
        }
        self.excluded.contains(&mut self.graph, &at.oid, self.loaded[&at.oid].entry.number())
    }

    /// Finds out which parents of a commit the walk goes on with, loading them, and whether the log lists it.
    pub(super) fn expand(&mut self, oid: &Oid) -> Result<()> {
        let commit = &self.loaded[oid].entry.commit;
        let seconds = commit.committer.seconds;
        self.waiting.remove(&self.loaded[oid].place());
        if seconds < self.since {
            // What lies before an older commit is not looked at.
            self.loaded.entry(*oid).and_modify(|loaded| loaded.shown = false);
            return Ok(());
        }
        let (root, mut parents) = (commit.tree, self.graph.parents(oid, commit)?.to_vec());
        if self.first_parent {
            parents.truncate(1);
        }
        if let Some(watch) = &self.watch {
            watch.expect(self.first_parent, || {
                let waiting = self.waiting.values().take(AHEAD_OBJECTS_MAX);
                let loaded = [oid].into_iter().chain(waiting).filter_map(|oid| self.loaded.get(oid));
                loaded.map(|loaded| loaded.entry.id.into()).collect::<Vec<_>>()
            });
        }
        self.look_ahead(&parents)?;
        let mut all = Vec::with_capacity(parents.len());
        for parent in &parents {
            let new = !self.loaded.contains_key(&parent.oid);
            all.push(Parent { oid: parent.oid, excluded: self.load(parent)?, new });
        }
        let (mut kept, shown) = match self.watch.take() {
            Some(mut watch) => {
                let simplified = self.simplify(&mut watch, &root.into(), &all);
                self.watch = Some(watch);
                simplified?
            }
            None => (all.clone(), true),
        };
        // One that was met before and is loaded again was given already.
        kept.retain(|parent| !(parent.excluded || parent.new && self.seen.contains(&parent.oid)));
        let kept: Vec<Oid> = kept.iter().map(|parent| parent.oid).collect();
        for parent in all.iter().filter(|parent| parent.new && !kept.contains(&parent.oid)) {
            self.forget(&parent.oid);
        }
        let loaded = self.loaded.get_mut(oid).expect("a commit is loaded before it is expanded");
        (loaded.parents, loaded.shown) = (kept, shown && seconds <= self.until);
        Ok(())
    }

    /// Reads those parents of a commit that are not there, with those of other commits that wait to be expanded.
    fn look_ahead(&mut self, parents: &[ObjRef]) -> Result<()> {
        let Self { graph, loaded, seen, waiting, since, .. } = self;
        let Some(first) = parents.iter().find(|at| !loaded.contains_key(&at.oid)) else { return Ok(()) };
        if !graph.looks_ahead(first) {
            return Ok(());
        }
        let mut others = parents.to_vec();
        for ((Reverse(seconds), _), oid) in waiting.iter().take(LOOK_AHEAD_MAX) {
            if let Some(waits) = loaded.get(oid).filter(|_| *seconds >= *since) {
                let followed = if self.first_parent { 1 } else { usize::MAX };
                others.extend(graph.parents(oid, &waits.entry.commit)?.into_iter().take(followed));
            }
        }
        let others = others.into_iter().filter(|at| !loaded.contains_key(&at.oid) && !seen.contains(&at.oid));
        graph.look_ahead(first, others)
    }

    /// Simplifies a commit: a parent that has the same at the path stands for all.
    fn simplify(&mut self, watch: &mut Watch<F>, root: &ObjRef, parents: &[Parent]) -> Result<(Vec<Parent>, bool)> {
        if parents.is_empty() {
            return Ok((Vec::new(), watch.is_there(root)?));
        }
        for parent in parents {
            if watch.same(root, &self.loaded[&parent.oid].entry.commit.tree.into())? {
                return Ok((vec![*parent], false));
            }
        }
        Ok((parents.to_vec(), true))
    }
}

#[derive(Clone, Copy, Debug)]
struct Parent {
    oid: Oid,
    excluded: bool,
    // Loaded for this commit.
    new: bool,
}
