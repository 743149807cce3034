//! The table of contexts: trees by the ids that a trace gives them.

use std::{
    collections::HashMap,
    hash::{BuildHasherDefault, Hasher},
};

use bristlecone::{Format, Repo, Tree};

use super::error::Fault;
use crate::{ContextId, Scoped};

/// Trees by id. Boxed, so that one passes from id to id without being copied.
#[derive(Debug)]
pub(super) struct Contexts<F: Format> {
    trees: HashMap<ContextId, Box<Tree<F>>, BuildHasherDefault<IdHasher>>,
}

impl<F: Format> Contexts<F> {
    /// Returns the table that a replay begins with: 0 is the empty tree.
    pub(super) fn new(repo: &Repo<F>) -> Self {
        let mut trees = HashMap::default();
        trees.insert(0, Box::new(repo.tree()));
        Self { trees }
    }

    /// Returns the tree of a context.
    #[inline]
    pub(super) fn get(&self, id: ContextId) -> Result<&Tree<F>, Fault> {
        self.trees.get(&id).map(|tree| &**tree).ok_or(Fault::Context { id })
    }

    /// Returns a tree to be edited: the context's own where it is not mentioned again, else a copy.
    #[inline]
    pub(super) fn take(&mut self, input: Scoped<ContextId>) -> Result<Box<Tree<F>>, Fault> {
        let tree = if input.keep { self.trees.get(&input.value).cloned() } else { self.trees.remove(&input.value) };
        tree.ok_or(Fault::Context { id: input.value })
    }

    /// Binds a tree to a context, and drops it again if that is not mentioned later.
    #[inline]
    pub(super) fn bind(&mut self, output: Scoped<ContextId>, tree: Box<Tree<F>>) {
        if output.keep {
            self.trees.insert(output.value, tree);
        } else {
            self.trees.remove(&output.value);
        }
    }

    /// Drops a context after its last mention.
    #[inline]
    pub(super) fn used(&mut self, input: Scoped<ContextId>) {
        if !input.keep {
            self.trees.remove(&input.value);
        }
    }

    /// Returns the number of contexts.
    pub(super) fn len(&self) -> usize {
        self.trees.len()
    }
}

/// Ids count upwards: one multiplication spreads them.
#[derive(Default)]
pub(super) struct IdHasher(u64);

impl Hasher for IdHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_i64(i64::from(byte));
        }
    }

    #[inline]
    fn write_i64(&mut self, id: i64) {
        let word = (self.0 ^ id as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = word ^ (word >> 32);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_forgotten_context_is_gone_and_a_kept_one_is_not_changed() {
        let repo = Repo::memory();
        let mut contexts = Contexts::new(&repo);
        let mut tree = contexts.take(Scoped::keep(0)).unwrap();
        tree.set("a", b"1").unwrap();
        contexts.bind(Scoped::keep(1), tree);
        assert!(contexts.get(0).unwrap().is_empty().unwrap());
        let tree = contexts.take(Scoped::forget(1)).unwrap();
        assert!(matches!(contexts.get(1), Err(Fault::Context { id: 1 })));
        contexts.bind(Scoped::forget(2), tree);
        assert!(matches!(contexts.take(Scoped::keep(2)), Err(Fault::Context { id: 2 })));
        contexts.used(Scoped::keep(0));
        assert_eq!(contexts.len(), 1);
        contexts.used(Scoped::forget(0));
        assert_eq!(contexts.len(), 0);
    }
}
