//! Which commits descend from which: ancestors, merge bases, counts.
//!
//! Commits are taken in order of generations, highest first, and hand their colours down to their parents: bit
//! `n` says "reachable from the n-th tip". When a commit is taken all its descendants were, so its colours
//! are final. A walk ends when nothing in the queue can matter any more.

use std::collections::BinaryHeap;

use bristlecone_core::{CommitId, Format, ObjRef, Oid};
use smallvec::SmallVec;

use super::{
    super::Repo,
    graph::{CommitGraph, QueuedCommit},
};
use crate::{
    Result,
    oid_map::{OidMap, OidSet},
};

impl<F: Format> Repo<F> {
    /// Whether `descendant` can be followed back to `ancestor`. A commit is its own ancestor.
    ///
    /// Visits only commits whose generation numbers are above the ancestor's.
    ///
    /// # Errors
    /// As [`Repo::read_commit`].
    pub fn is_ancestor(&self, ancestor: CommitId, descendant: CommitId) -> Result<bool> {
        let (ancestor, descendant) = (self.shared.commit_ref(ancestor), self.shared.commit_ref(descendant));
        let mut graph = CommitGraph::new(self.now());
        let floor = graph.node(&ancestor)?.generation;
        let mut seen = OidSet::default();
        let mut stack = vec![descendant];
        while let Some(at) = stack.pop() {
            if at == ancestor {
                return Ok(true);
            }
            if !seen.insert(at.oid) {
                continue;
            }
            let node = graph.node(&at)?;
            if node.generation > floor {
                // The first parent on top: the main line is the likeliest way.
                stack.extend(node.parents.iter().rev().filter(|parent| !seen.contains(&parent.oid)));
            }
        }
        Ok(false)
    }

    /// Returns all best common ancestors of two commits: those that are no ancestors of another common one.
    /// None if the histories are unrelated; several after criss-cross merges.
    ///
    /// # Errors
    /// As [`Repo::read_commit`].
    pub fn merge_bases(&self, one: CommitId, other: CommitId) -> Result<Vec<CommitId>> {
        self.merge_bases_many(&[one, other])
    }

    /// Returns all best common ancestors of all these commits, highest generation first; none for no commits.
    ///
    /// `merge_bases_many(&[a]) == [a]`; the order of the commits does not matter.
    ///
    /// # Errors
    /// As [`Repo::read_commit`].
    pub fn merge_bases_many(&self, commits: &[CommitId]) -> Result<Vec<CommitId>> {
        // One more colour for ancestors of what was found.
        let (all, stale) = (commits.len(), commits.len());
        let mut bases = Vec::new();
        let mut paint = Paint::new(CommitGraph::new(self.now()), |colours: &Colours| !colours.has(stale));
        paint.start(&self.shared.commit_refs(commits))?;
        paint.run(|at, colours| {
            if !colours.has(stale) && colours.count_below(all) == all {
                bases.push(self.shared.commit_id(*at));
                colours.set(stale);
            }
        })?;
        Ok(bases)
    }

    /// Returns the number of commits that are reachable from `to` and not from `from`.
    ///
    /// # Errors
    /// As [`Repo::read_commit`].
    pub fn count_between(&self, from: CommitId, to: CommitId) -> Result<u64> {
        let mut count = 0;
        let only = |colours: &Colours| !colours.has(0);
        let mut paint = Paint::new(CommitGraph::new(self.now()), only);
        paint.start(&self.shared.commit_refs(&[from, to]))?;
        paint.run(|_, colours| count += u64::from(only(colours)))?;
        Ok(count)
    }

    /// Returns how many commits `branch` has that `upstream` lacks, and the reverse, in one walk.
    ///
    /// `ahead_behind(a, b) == (count_between(b, a), count_between(a, b))`.
    ///
    /// # Errors
    /// As [`Repo::read_commit`].
    pub fn ahead_behind(&self, branch: CommitId, upstream: CommitId) -> Result<(u64, u64)> {
        let (mut ahead, mut behind) = (0, 0);
        let one_sided = |colours: &Colours| colours.count_below(2) < 2;
        let mut paint = Paint::new(CommitGraph::new(self.now()), one_sided);
        paint.start(&self.shared.commit_refs(&[branch, upstream]))?;
        paint.run(|_, colours| match (colours.has(0), colours.has(1)) {
            (true, false) => ahead += 1,
            (false, true) => behind += 1,
            _ => {}
        })?;
        Ok((ahead, behind))
    }
}

/// A walk that hands colours down.
struct Paint<F: Format, W> {
    graph: CommitGraph<F>,
    queue: BinaryHeap<QueuedCommit>,
    reached: OidMap<ReachedCommit>,
    /// Whether a commit of these colours keeps the walk going.
    wanted: W,
    // How many in the queue do.
    waiting: usize,
}

struct ReachedCommit {
    colours: Colours,
    queued: bool,
}

impl<F: Format, W: Fn(&Colours) -> bool> Paint<F, W> {
    fn new(graph: CommitGraph<F>, wanted: W) -> Self {
        Self { graph, queue: BinaryHeap::new(), reached: OidMap::default(), wanted, waiting: 0 }
    }

    /// Gives each tip its colour.
    fn start(&mut self, tips: &[ObjRef]) -> Result<()> {
        for (index, tip) in tips.iter().enumerate() {
            let mut colours = Colours::default();
            colours.set(index);
            self.add(tip, &colours)?;
        }
        Ok(())
    }

    fn add(&mut self, at: &ObjRef, colours: &Colours) -> Result<()> {
        if let Some(reached) = self.reached.get_mut(&at.oid) {
            let before = reached.queued && (self.wanted)(&reached.colours);
            reached.colours.add(colours);
            let after = reached.queued && (self.wanted)(&reached.colours);
            self.waiting = self.waiting + usize::from(after) - usize::from(before);
            return Ok(());
        }
        self.queue.push(self.graph.node(at)?);
        self.waiting += usize::from((self.wanted)(colours));
        self.reached.insert(at.oid, ReachedCommit { colours: colours.clone(), queued: true });
        Ok(())
    }

    /// Calls `each` with commits and their final colours as long as it may matter; parents get the colours that
    /// `each` leaves.
    fn run(&mut self, mut each: impl FnMut(&ObjRef, &mut Colours)) -> Result<()> {
        while self.waiting > 0 {
            let Some(node) = self.queue.pop() else { break };
            let mut colours = self.leave(&node.at.oid);
            each(&node.at, &mut colours);
            for parent in &node.parents {
                self.add(parent, &colours)?;
            }
        }
        Ok(())
    }

    /// Marks a commit as out of the queue and returns its colours.
    fn leave(&mut self, oid: &Oid) -> Colours {
        let reached = self.reached.get_mut(oid).expect("what is queued was reached");
        reached.queued = false;
        self.waiting -= usize::from((self.wanted)(&reached.colours));
        reached.colours.clone()
    }
}

/// A set of small numbers.
#[derive(Clone, Debug, Default)]
struct Colours(SmallVec<[u64; 2]>);

impl Colours {
    fn set(&mut self, colour: usize) {
        if self.0.len() <= colour / 64 {
            self.0.resize(colour / 64 + 1, 0);
        }
        self.0[colour / 64] |= 1 << (colour % 64);
    }

    fn has(&self, colour: usize) -> bool {
        self.0.get(colour / 64).is_some_and(|word| word >> (colour % 64) & 1 == 1)
    }

    fn add(&mut self, other: &Self) {
        if self.0.len() < other.0.len() {
            self.0.resize(other.0.len(), 0);
        }
        for (word, more) in self.0.iter_mut().zip(&other.0) {
            *word |= more;
        }
    }

    /// Returns how many of the first `end` colours there are.
    fn count_below(&self, end: usize) -> usize {
        let whole: u32 = self.0.iter().take(end / 64).map(|word| word.count_ones()).sum();
        let rest = self.0.get(end / 64).map_or(0, |word| (word & ((1 << (end % 64)) - 1)).count_ones());
        (whole + rest) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_count_across_words() {
        let mut colours = Colours::default();
        for colour in [0, 63, 64, 130] {
            colours.set(colour);
        }
        assert_eq!([0, 1, 63, 64, 65, 130, 131, 500].map(|end| colours.count_below(end)), [0, 1, 1, 2, 3, 3, 4, 4]);
        let mut sum = Colours::default();
        sum.set(7);
        sum.add(&colours);
        assert!(sum.has(130) && sum.has(7) && !sum.has(8));
    }
}
