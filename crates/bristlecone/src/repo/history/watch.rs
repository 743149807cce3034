//! What is at a path, commit after commit, without loading values.

use std::sync::Arc;

use bristlecone_core::{EntryKind, Format, ObjRef, Path, Target};

use super::graph::OidMap;
use crate::{Result, store::Store};

/// So many roots are remembered at a time.
const ROOTS_MAX: usize = 1024;

/// Compares trees at one path: two are the same there if kind and id (or inline value) are equal.
#[derive(Debug)]
pub(super) struct Watch<F: Format> {
    store: Arc<Store<F>>,
    steps: Vec<Vec<u8>>,
    // For each root what lies at the path's prefixes, as far as that was asked for.
    chains: OidMap<Vec<Item>>,
}

/// What lies at a path.
type Item = Option<(EntryKind, Target<'static>)>;

impl<F: Format> Watch<F> {
    pub(super) fn new(store: Arc<Store<F>>, path: &Path) -> Self {
        Self { store, steps: path.steps().map(<[u8]>::to_vec).collect(), chains: OidMap::default() }
    }

    /// Whether two trees have the same at the path. Stops at the first directory on the way that both share.
    pub(super) fn same(&mut self, one: &ObjRef, other: &ObjRef) -> Result<bool> {
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
    pub(super) fn is_there(&mut self, root: &ObjRef) -> Result<bool> {
        if self.steps.is_empty() {
            return Ok(self.store.format.count(&*self.store, root)? > 0);
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
                    self.store.format.find(&*self.store, at, &self.steps[chain.len() - 1])?
                }
                _ => None,
            };
            chain.push(below.map(|(kind, target)| (kind, target.into_static())));
        }
        Ok(())
    }
}

const fn dir(at: ObjRef) -> Item {
    Some((EntryKind::Dir, Target::Object { at, bytes: 0 }))
}
