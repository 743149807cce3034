//! What is at a path, commit after commit, without loading values.

use std::sync::Arc;

use bristlecone_core::{EntryKind, Format, ObjRef, Path, Target};

use super::ahead::{self, Far, Paths};
use crate::{Result, oid_map::OidMap, store::StoreView};

/// How many roots are remembered at a time.
const ROOTS_MAX: usize = 1024;

/// Compares trees at some paths: two are the same if they are at each of them.
#[derive(Debug)]
pub(super) struct Watch<F: Format> {
    store: Arc<StoreView<F>>,
    source: Arc<Far<F>>,
    paths: Paths,
    places: Vec<WatchedPath<F>>,
}

impl<F: Format> Watch<F> {
    pub(super) fn new(store: &Arc<StoreView<F>>, paths: &[Path]) -> Self {
        let source = Arc::new(Far::new(store.clone(), None));
        let paths: Paths = paths.iter().map(|path| path.steps().map(<[u8]>::to_vec).collect()).collect();
        let places = paths.iter().map(|steps| WatchedPath::new(store.clone(), source.clone(), steps.clone())).collect();
        Self { store: store.clone(), source, paths, places }
    }

    /// Returns what compares trees at these paths; `None` without paths, since all of history is meant then.
    pub(super) fn over(store: &Arc<StoreView<F>>, paths: &[Path]) -> Option<Self> {
        (!paths.is_empty()).then(|| Self::new(store, paths))
    }

    /// Returns what commits and trees are read from together.
    pub(super) const fn source(&self) -> &Arc<Far<F>> {
        &self.source
    }

    /// Says which commits a walk will reach, if one more object may have to be read for them.
    pub(super) fn expect<I: IntoIterator<Item = ObjRef>>(&self, first_parent: bool, commits: impl FnOnce() -> I) {
        self.source.expect_anew(|| ahead::commits(&self.store, &self.paths, first_parent, commits()));
    }

    /// Whether two trees have the same at the paths.
    pub(super) fn same(&mut self, one: &ObjRef, other: &ObjRef) -> Result<bool> {
        for place in &mut self.places {
            if !place.same(one, other)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Whether a tree has anything at one of the paths.
    pub(super) fn is_there(&mut self, root: &ObjRef) -> Result<bool> {
        for place in &mut self.places {
            if place.is_there(root)? {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// Compares trees at one path: two are the same there if kind and id (or inline value) are equal.
#[derive(Debug)]
struct WatchedPath<F: Format> {
    store: Arc<StoreView<F>>,
    source: Arc<Far<F>>,
    steps: Vec<Vec<u8>>,
    // For each root what lies at the path's prefixes, as far as that was asked for.
    chains: OidMap<Vec<WatchedEntry>>,
}

/// What lies at a path.
type WatchedEntry = Option<(EntryKind, Target<'static>)>;

impl<F: Format> WatchedPath<F> {
    fn new(store: Arc<StoreView<F>>, source: Arc<Far<F>>, steps: Vec<Vec<u8>>) -> Self {
        Self { store, source, steps, chains: OidMap::default() }
    }

    /// Whether two trees have the same at the path. Stops at the first directory on the way that both share.
    fn same(&mut self, one: &ObjRef, other: &ObjRef) -> Result<bool> {
        if self.chains.len() >= ROOTS_MAX {
            self.chains.clear();
        }
        for level in 0..=self.steps.len() {
            self.reach(one, level)?;
            self.reach(other, level)?;
            if self.chains[&one.oid][level] == self.chains[&other.oid][level] {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Whether a tree has anything at the path.
    fn is_there(&mut self, root: &ObjRef) -> Result<bool> {
        if self.steps.is_empty() {
            return Ok(self.store.format.count(&*self.source, root)? > 0);
        }
        self.reach(root, self.steps.len())?;
        Ok(self.chains[&root.oid][self.steps.len()].is_some())
    }

    /// Follows the path `level` steps down.
    fn reach(&mut self, root: &ObjRef, level: usize) -> Result<()> {
        let chain = self.chains.entry(root.oid).or_insert_with(|| vec![dir(*root)]);
        while chain.len() <= level {
            let below = match chain.last() {
                Some(Some((EntryKind::Dir, Target::Object { at, .. }))) => {
                    self.store.format.find(&*self.source, at, &self.steps[chain.len() - 1])?
                }
                _ => None,
            };
            chain.push(below.map(|(kind, target)| (kind, target.into_static())));
        }
        Ok(())
    }
}

const fn dir(at: ObjRef) -> WatchedEntry {
    Some((EntryKind::Dir, Target::Object { at, bytes: 0 }))
}
