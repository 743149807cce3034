//! The two orders of a log, both computed as the walk goes.

use std::{
    cmp::Reverse,
    collections::{BinaryHeap, HashMap},
};

use bristlecone_core::{Format, Oid};

use super::{LogEntry, lazy::LazyWalk};
use crate::{Result, oid_map::OidMap};

/// By date, newest first; those of one second in the order in which they were met.
#[derive(Debug, Default)]
pub(super) struct ByDate {
    queue: BinaryHeap<(i64, Reverse<u64>, Oid)>,
    met: u64,
}

impl ByDate {
    pub(super) fn new<F: Format>(walk: &mut LazyWalk<F>, heads: Vec<Oid>) -> Result<Self> {
        let mut order = Self::default();
        heads.into_iter().for_each(|oid| order.push(walk, oid));
        Ok(order)
    }

    fn push<F: Format>(&mut self, walk: &LazyWalk<F>, oid: Oid) {
        self.met += 1;
        self.queue.push((walk.seconds(&oid), Reverse(self.met), oid));
    }

    pub(super) fn next<F: Format>(&mut self, walk: &mut LazyWalk<F>) -> Result<Option<LogEntry>> {
        while let Some((_, _, oid)) = self.queue.pop() {
            walk.expand(&oid)?;
            for index in 0..walk.parents(&oid).len() {
                let parent = walk.parents(&oid)[index];
                if walk.discover(&parent) {
                    self.push(walk, parent);
                }
            }
            if let Some(entry) = walk.take(&oid) {
                return Ok(Some(entry));
            }
        }
        Ok(None)
    }
}

/// No commit before its children, lines kept together.
///
/// Children are counted ahead of the walk in order of generations: once everything above a commit's generation was
/// counted, all its children were, and when the last of them is given it is ready.
#[derive(Debug)]
pub(super) struct Topological {
    ready: Vec<Oid>,
    uncounted: BinaryHeap<(u64, Oid)>,
    // How many children a commit waits for.
    children: OidMap<u32>,
}

impl Topological {
    pub(super) fn new<F: Format>(walk: &mut LazyWalk<F>, heads: Vec<Oid>) -> Result<Self> {
        let mut order = Self { ready: Vec::new(), uncounted: BinaryHeap::new(), children: HashMap::default() };
        for oid in &heads {
            order.uncounted.push((walk.generation(oid), *oid));
            order.children.insert(*oid, 0);
        }
        let lowest = heads.iter().map(|oid| walk.generation(oid)).min().unwrap_or(0);
        order.count_above(walk, lowest)?;
        // The first head comes out of the stack first.
        order.ready = heads.into_iter().rev().filter(|oid| order.children[oid] == 0).collect();
        Ok(order)
    }

    /// Counts the children that commits above this generation are.
    fn count_above<F: Format>(&mut self, walk: &mut LazyWalk<F>, generation: u64) -> Result<()> {
        while self.uncounted.peek().is_some_and(|(above, _)| *above > generation) {
            self.count_one(walk)?;
        }
        Ok(())
    }

    fn count_one<F: Format>(&mut self, walk: &mut LazyWalk<F>) -> Result<()> {
        let Some((_, oid)) = self.uncounted.pop() else { return Ok(()) };
        walk.expand(&oid)?;
        for index in 0..walk.parents(&oid).len() {
            let parent = walk.parents(&oid)[index];
            *self.children.entry(parent).or_insert(0) += 1;
            if walk.discover(&parent) {
                self.uncounted.push((walk.generation(&parent), parent));
            }
        }
        Ok(())
    }

    pub(super) fn next<F: Format>(&mut self, walk: &mut LazyWalk<F>) -> Result<Option<LogEntry>> {
        while let Some(oid) = self.ready.pop() {
            // Its own parents are known once it was counted itself.
            self.count_above(walk, walk.generation(&oid) - 1)?;
            for index in 0..walk.parents(&oid).len() {
                let parent = walk.parents(&oid)[index];
                // Absent only where generation numbers lie and the parent was given before.
                if self.children.contains_key(&parent) {
                    self.count_above(walk, walk.generation(&parent))?;
                }
                let Some(waits) = self.children.get_mut(&parent) else { continue };
                *waits -= 1;
                if *waits == 0 {
                    self.ready.push(parent);
                }
            }
            self.children.remove(&oid);
            if let Some(entry) = walk.take(&oid) {
                return Ok(Some(entry));
            }
        }
        Ok(None)
    }
}
