//! The commits that a log leaves out: those that some commits lead to, found as far down as is asked for.
//!
//! Commits with positions in the stored graph are found there, a few nanoseconds for each above the one that is asked for, and those on
//! a line of first parents by its jumps. What has no position yet is read, commit by commit; where that would be many, they get some.

use std::collections::BinaryHeap;

use bristlecone_core::{Format, ObjRef, Oid};

use super::{
    ancestry::{GOES_ON, WALKED_FEW, WALKED_MAX},
    graph::{CommitGraph, QueuedCommit},
    positions::{Reached, SAVED_MIN, Stop},
};
use crate::{
    Result,
    oid_map::{OidMap, OidSet},
};

/// So many positions of commits that will be asked for are remembered.
const EXPECTED_MAX: usize = 1 << 16;

/// The commits that are left out.
#[derive(Debug, Default)]
pub(super) struct Excluded {
    // What the caller named.
    named: Vec<ObjRef>,
    begun: bool,
    // Those without positions that were read, and those of them whose parents were not looked at.
    seen: OidSet,
    queue: BinaryHeap<QueuedCommit>,
    // Those with positions.
    reached: Option<Reached>,
    // Their highest generation number.
    highest: u64,
    // Positions of parents of commits that were asked for.
    expected: OidMap<u32>,
    // How many commits without positions may yet be read before they get some.
    budget: Option<u32>,
    // Whether they got some, if they could.
    extended: bool,
}

impl Excluded {
    pub(super) fn new(named: Vec<ObjRef>) -> Self {
        Self { named, ..Self::default() }
    }

    /// Whether a commit with this generation number is left out.
    pub(super) fn contains<F: Format>(
        &mut self,
        commits: &mut CommitGraph<F>,
        oid: &Oid,
        generation: u64,
    ) -> Result<bool> {
        if self.named.is_empty() {
            return Ok(false);
        }
        loop {
            match self.begin(commits).and_then(|()| self.find(commits, oid, generation)) {
                Ok(found) => return Ok(found),
                Err(stop) => self.go_on(commits, stop)?,
            }
        }
    }

    /// Begins anew after a question that the graph could not answer as it was.
    #[cold]
    fn go_on<F: Format>(&mut self, commits: &CommitGraph<F>, stop: Stop) -> Result<()> {
        self.begun = false;
        let store = &commits.store;
        match (stop, &self.reached) {
            (Stop::Failed(error), _) => return Err(error),
            (Stop::Lost(part), Some(reached)) => store.graph.forget(reached.graph(), part),
            (Stop::Lost(_), None) => {}
            // Where they can get none, or history cannot be read far below what is asked for, all that is needed is read.
            (Stop::Far, _) => {
                (self.extended, self.budget) = (true, None);
                let _ = store.graph.extend(store, &self.named, SAVED_MIN, &GOES_ON);
            }
        }
        Ok(())
    }

    /// Reads what the caller named, the first time and once the graph is another one.
    fn begin<F: Format>(&mut self, commits: &mut CommitGraph<F>) -> Result<(), Stop> {
        if std::mem::replace(&mut self.begun, true) {
            return Ok(());
        }
        let store = commits.store.clone();
        let graph = store.graph.latest(&store)?;
        // Where each commit takes a call, all of them would take too long.
        if !self.extended && self.named.iter().all(|at| !commits.looks_ahead(at)) {
            self.budget = Some(if graph.len() > 0 { WALKED_FEW } else { WALKED_MAX });
        }
        self.reached = (graph.len() > 0).then(|| Reached::new(graph));
        self.highest = 0;
        (self.seen, self.queue, self.expected) = Default::default();
        for at in self.named.clone() {
            self.add(commits, &at)?;
        }
        Ok(())
    }

    /// Once everything without a position and above a commit was looked at, all children of it were that have none.
    fn find<F: Format>(&mut self, commits: &mut CommitGraph<F>, oid: &Oid, generation: u64) -> Result<bool, Stop> {
        while self.queue.peek().is_some_and(|node| node.generation > generation) {
            for parent in self.queue.pop().map(|node| node.parents).unwrap_or_default() {
                self.add(commits, &parent)?;
            }
        }
        if self.seen.contains(oid) {
            return Ok(true);
        }
        let backend = &*commits.store.backend;
        let Some(reached) = self.reached.as_mut().filter(|_| generation <= self.highest) else { return Ok(false) };
        let position = match self.expected.remove(oid) {
            Some(position) => Some(position),
            None => reached.read(backend, |reader| reader.find(oid, Some(generation)))?,
        };
        // What leads to a commit without a position has none.
        let Some(position) = position else { return Ok(false) };
        if reached.has(backend, position)? {
            return Ok(true);
        }
        let parents = reached.read(backend, |reader| reader.parents(position))?;
        if self.expected.len() + parents.len() > EXPECTED_MAX {
            self.expected.clear();
        }
        self.expected.extend(parents);
        Ok(false)
    }

    fn add<F: Format>(&mut self, commits: &mut CommitGraph<F>, at: &ObjRef) -> Result<(), Stop> {
        if self.seen.contains(&at.oid) {
            return Ok(());
        }
        let node = commits.node(at)?;
        if let Some(reached) = &mut self.reached {
            let backend = &*commits.store.backend;
            if let Some(position) = reached.read(backend, |reader| reader.find(&at.oid, Some(node.generation)))? {
                reached.add(position);
                self.highest = self.highest.max(node.generation);
                return Ok(());
            }
        }
        if let Some(budget) = &mut self.budget {
            *budget = budget.checked_sub(1).ok_or(Stop::Far)?;
        }
        self.seen.insert(at.oid);
        self.queue.push(node);
        Ok(())
    }
}
