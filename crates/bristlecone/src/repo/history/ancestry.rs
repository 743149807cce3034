//! Which commits descend from which: ancestors, merge bases, counts.
//!
//! Commits are taken in order of generations, highest first, and hand their colours down to their parents: bit
//! `n` says "reachable from the n-th tip". When a commit is taken all its descendants were, so its colours
//! are final. A walk ends when nothing in the queue can matter any more.

use std::{collections::BinaryHeap, sync::atomic::AtomicBool};

use bristlecone_core::{CommitId, Format, ObjRef, Oid};
use smallvec::SmallVec;

use super::{
    super::Repo,
    graph::{CommitGraph, Parents, QueuedCommit, is_numbered},
    positions::{Positions, Reader, SAVED_MIN, Stop, Sweep},
};
use crate::{
    Error, Result,
    oid_map::{OidMap, OidSet},
};

/// So many commits that have no positions are looked at before they are given some,
pub(super) const WALKED_MAX: u32 = 1 << 13;
/// and so many where few others lack them.
pub(super) const WALKED_FEW: u32 = 1 << 9;
/// So much further than the graph a commit may be for that, by generation numbers.
const FEW: u64 = 1 << 16;
/// What no question sets.
pub(super) static GOES_ON: AtomicBool = AtomicBool::new(false);

impl<F: Format> Repo<F> {
    /// Whether `descendant` can be followed back to `ancestor`. A commit is its own ancestor.
    ///
    /// Along first parents it takes logarithmic time. Elsewhere it takes a few nanoseconds for each commit above the ancestor
    /// that has a position in the stored graph of commits; without that, each is read.
    ///
    /// # Errors
    /// As [`Repo::read_commit`].
    pub fn is_ancestor(&self, ancestor: CommitId, descendant: CommitId) -> Result<bool> {
        let (ancestor, descendant) = (self.shared.commit_ref(ancestor), self.shared.commit_ref(descendant));
        self.ask(&[ancestor, descendant], |walk| walk.leads(&descendant, &ancestor))
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
        let tips = self.shared.commit_refs(commits);
        let bases = self.ask(&tips, |walk| {
            let mut bases = Vec::new();
            let mut paint = Paint::new(walk, all + 1, |colours: &Colours| !colours.has(stale));
            paint.start(&tips)?;
            let mut each = |found: Found, colours: &mut Colours| {
                if !colours.has(stale) && colours.count_below(all) == all {
                    bases.push(found);
                    colours.set(stale);
                }
            };
            paint.run_read(&mut each)?;
            match if all == 2 { paint.on_one_line()? } else { None } {
                Some(lower) => bases.push(Found::Position(lower)),
                None => paint.run_stored(&mut each)?,
            }
            let mut bases = bases.into_iter().map(|base| paint.resolve(base)).collect::<Result<Vec<_>, _>>()?;
            bases.sort_unstable_by(|one, other| other.cmp(one));
            Ok(bases)
        })?;
        Ok(bases.into_iter().map(|base| self.shared.commit_id(base.at)).collect())
    }

    /// Returns the number of commits that are reachable from `to` and not from `from`.
    ///
    /// # Errors
    /// As [`Repo::read_commit`].
    pub fn count_between(&self, from: CommitId, to: CommitId) -> Result<u64> {
        let tips = self.shared.commit_refs(&[from, to]);
        let only = |colours: &Colours| !colours.has(0);
        self.ask(&tips, |walk| {
            let mut count = 0;
            Paint::new(walk, 2, only).all(&tips, |colours| count += u64::from(only(colours)))?;
            Ok(count)
        })
    }

    /// Returns how many commits `branch` has that `upstream` lacks, and the reverse, in one walk.
    ///
    /// `ahead_behind(a, b) == (count_between(b, a), count_between(a, b))`.
    ///
    /// # Errors
    /// As [`Repo::read_commit`].
    pub fn ahead_behind(&self, branch: CommitId, upstream: CommitId) -> Result<(u64, u64)> {
        let tips = self.shared.commit_refs(&[branch, upstream]);
        self.ask(&tips, |walk| {
            let (mut ahead, mut behind) = (0, 0);
            let one_sided = |colours: &Colours| colours.count_below(2) < 2;
            Paint::new(walk, 2, one_sided).all(&tips, |colours| match (colours.has(0), colours.has(1)) {
                (true, false) => ahead += 1,
                (false, true) => behind += 1,
                _ => {}
            })?;
            Ok((ahead, behind))
        })
    }

    /// Whether few commits that led to these lack positions.
    fn lacks_few(&self, tips: &[ObjRef], positions: &Positions) -> bool {
        let few = |tip: &ObjRef| {
            let generation = self.generation(self.shared.commit_id(*tip));
            generation.is_ok_and(|generation| generation <= positions.highest() + FEW)
        };
        // What generation numbers are where commits do not carry them takes as long.
        let numbered = is_numbered(&*self.shared.backend);
        numbered.is_ok_and(|numbered| !numbered) || positions.len() > 0 && tips.iter().all(few)
    }

    /// Answers a question about what led to some commits. Where that takes many commits without positions, they get some.
    fn ask<T>(&self, tips: &[ObjRef], question: impl Fn(Walk<'_, F>) -> Result<T, Stop>) -> Result<T> {
        let (store, graph) = (self.now(), &self.shared.graph);
        // Where each commit takes a call, all of them would take too long.
        let near = tips.iter().all(|tip| !CommitGraph::new(store.clone()).looks_ahead(tip));
        let mut budget = near.then_some(WALKED_FEW);
        loop {
            let positions = graph.latest(&store)?;
            let reader = Reader::new(&*store.backend, &positions);
            match question(Walk { graph: CommitGraph::new(store.clone()), reader: Some(reader), budget }) {
                Ok(answer) => return Ok(answer),
                Err(Stop::Failed(error)) => return Err(error),
                Err(Stop::Lost(part)) => graph.forget(&positions, part),
                Err(Stop::Far) if budget == Some(WALKED_FEW) && !self.lacks_few(tips, &positions) => {
                    budget = Some(WALKED_MAX);
                }
                Err(Stop::Far) if graph.extend(&store, tips, SAVED_MIN, &GOES_ON).unwrap_or(false) => budget = None,
                Err(Stop::Far) => break,
            }
        }
        match question(Walk { graph: CommitGraph::new(store.clone()), reader: None, budget: None }) {
            Ok(answer) => Ok(answer),
            Err(Stop::Failed(error)) => Err(error),
            Err(Stop::Lost(_) | Stop::Far) => Err(Error::Unanswered),
        }
    }
}

/// What a question reads.
struct Walk<'a, F: Format> {
    graph: CommitGraph<F>,
    reader: Option<Reader<'a>>,
    // How many commits without positions may yet be looked at.
    budget: Option<u32>,
}

/// A commit, by what is known of it.
enum Found {
    Read(QueuedCommit),
    Position(u32),
}

impl<F: Format> Walk<'_, F> {
    /// Looks at a commit.
    fn look(&mut self, at: &ObjRef) -> Result<Found, Stop> {
        let numbered = self.graph.numbered()?;
        if !numbered && let Some(reader) = &mut self.reader {
            if let Some(position) = reader.find(&at.oid, None)? {
                return Ok(Found::Position(position));
            }
            // What its generation number is takes all of history.
            if self.budget.is_some() {
                return Err(Stop::Far);
            }
        }
        let node = self.graph.node(at)?;
        if numbered
            && let Some(reader) = &mut self.reader
            && let Some(position) = reader.find(&at.oid, Some(node.generation))?
        {
            return Ok(Found::Position(position));
        }
        if let Some(budget) = &mut self.budget {
            *budget = budget.checked_sub(1).ok_or(Stop::Far)?;
        }
        Ok(Found::Read(node))
    }

    /// Whether `from` can be followed back to `to`.
    fn leads(mut self, from: &ObjRef, to: &ObjRef) -> Result<bool, Stop> {
        let (target, floor) = match self.look(to)? {
            Found::Read(node) => (None, node.generation),
            Found::Position(position) => (Some(position), self.generation(position)?),
        };
        let (mut seen, mut stack, mut entries) = (OidSet::default(), vec![*from], Vec::new());
        while let Some(at) = stack.pop() {
            if at.oid == to.oid {
                return Ok(true);
            }
            if !seen.insert(at.oid) {
                continue;
            }
            match (self.look(&at)?, target) {
                (Found::Read(node), _) if node.generation > floor => {
                    // The first parent on top: the main line is the likeliest way.
                    stack.extend(node.parents.iter().rev().filter(|parent| !seen.contains(&parent.oid)));
                }
                // What led to a commit with a position has one, too.
                (Found::Position(position), Some(target)) => {
                    if let Some(reader) = &mut self.reader
                        && reader.on_first_parents(target, position)?
                    {
                        return Ok(true);
                    }
                    entries.push(position);
                }
                _ => {}
            }
        }
        let (Some(reader), Some(_)) = (&mut self.reader, target) else { return Ok(false) };
        let mut sweep = Sweep::new(reader.graph.len(), |_| true);
        entries.into_iter().for_each(|position| sweep.add(position, 1));
        sweep.run(reader, target, |_, _| ())
    }

    fn generation(&mut self, position: u32) -> Result<u64, Stop> {
        self.reader.as_mut().map_or(Ok(0), |reader| reader.generation(position))
    }
}

/// A walk that hands colours down: first over the commits without positions, to which no commit with one leads, then over the
/// others.
struct Paint<'a, F: Format, W> {
    walk: Walk<'a, F>,
    queue: BinaryHeap<QueuedCommit>,
    reached: OidMap<ReachedCommit>,
    /// Whether a commit of these colours keeps the walk going.
    wanted: W,
    // How many in the queue do.
    waiting: usize,
    sweep: Sweep,
}

struct ReachedCommit {
    colours: Colours,
    queued: bool,
}

impl<'a, F: Format, W: Fn(&Colours) -> bool> Paint<'a, F, W> {
    fn new(mut walk: Walk<'a, F>, colours: usize, wanted: W) -> Self {
        if colours > 8 {
            (walk.reader, walk.budget) = (None, None);
        }
        let len = walk.reader.as_ref().map_or(0, |reader| reader.graph.len());
        let sweep = Sweep::new(len, |colours| wanted(&Colours::from(colours)));
        Self { walk, queue: BinaryHeap::new(), reached: OidMap::default(), wanted, waiting: 0, sweep }
    }

    /// Gives each tip its colour.
    fn start(&mut self, tips: &[ObjRef]) -> Result<(), Stop> {
        for (index, tip) in tips.iter().enumerate() {
            let mut colours = Colours::default();
            colours.set(index);
            self.add(tip, &colours)?;
        }
        Ok(())
    }

    fn add(&mut self, at: &ObjRef, colours: &Colours) -> Result<(), Stop> {
        if let Some(reached) = self.reached.get_mut(&at.oid) {
            let before = reached.queued && (self.wanted)(&reached.colours);
            reached.colours.add(colours);
            let after = reached.queued && (self.wanted)(&reached.colours);
            self.waiting = self.waiting + usize::from(after) - usize::from(before);
            return Ok(());
        }
        match self.walk.look(at)? {
            Found::Position(position) => self.sweep.add(position, colours.byte()),
            Found::Read(node) => {
                self.queue.push(node);
                self.waiting += usize::from((self.wanted)(colours));
                self.reached.insert(at.oid, ReachedCommit { colours: colours.clone(), queued: true });
            }
        }
        Ok(())
    }

    /// Calls `each` with the final colours of commits as long as it may matter.
    fn all(mut self, tips: &[ObjRef], mut each: impl FnMut(&Colours)) -> Result<(), Stop> {
        self.start(tips)?;
        self.run_read(&mut |_, colours| each(colours))?;
        self.run_stored(&mut |_, colours| each(colours))
    }

    /// Calls `each` with commits without positions and their final colours as long as it may matter; parents get the colours
    /// that `each` leaves.
    fn run_read(&mut self, each: &mut impl FnMut(Found, &mut Colours)) -> Result<(), Stop> {
        while self.waiting + self.sweep.waiting() > 0 {
            let Some(node) = self.queue.pop() else { break };
            let mut colours = self.leave(&node.at.oid);
            let parents = node.parents.clone();
            each(Found::Read(node), &mut colours);
            for parent in &parents {
                self.add(parent, &colours)?;
            }
        }
        Ok(())
    }

    /// Goes on with the commits that have positions.
    fn run_stored(&mut self, each: &mut impl FnMut(Found, &mut Colours)) -> Result<(), Stop> {
        let Some(reader) = &mut self.walk.reader else { return Ok(()) };
        self.sweep.run(reader, None, |position, byte| {
            let mut colours = Colours::from(*byte);
            each(Found::Position(position), &mut colours);
            *byte = colours.byte();
        })?;
        Ok(())
    }

    /// Where two commits with positions are left, one for each of two tips, and first parents lead from one of them to the
    /// other: returns that.
    fn on_one_line(&mut self) -> Result<Option<u32>, Stop> {
        let tips = self.sweep.tips();
        let (Some(reader), [(one, 1), (other, 2)] | [(other, 2), (one, 1)]) = (&mut self.walk.reader, &tips[..]) else {
            return Ok(None);
        };
        let (lower, upper) = (*one.min(other), *one.max(other));
        Ok(reader.on_first_parents(lower, upper)?.then_some(lower))
    }

    fn resolve(&mut self, found: Found) -> Result<QueuedCommit, Stop> {
        match (found, &mut self.walk.reader) {
            (Found::Read(node), _) => Ok(node),
            (Found::Position(position), Some(reader)) => {
                let (at, generation) = (reader.oid(position)?.into(), reader.generation(position)?);
                Ok(QueuedCommit { at, generation, parents: Parents::new() })
            }
            (Found::Position(_), None) => Err(Stop::Far),
        }
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

impl From<u8> for Colours {
    fn from(first: u8) -> Self {
        Self(SmallVec::from_slice(&[first.into()]))
    }
}

impl Colours {
    /// Returns the first eight.
    fn byte(&self) -> u8 {
        self.0.first().map_or(0, |&word| word as u8)
    }

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
