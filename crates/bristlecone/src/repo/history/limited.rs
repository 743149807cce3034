//! Logs that are found as a whole before their first commit is given, in the order in which Git finds them.
//!
//! The walk takes commits by date, newest first. What is left out spreads down from the commits that the caller named, as
//! the walk comes by. A commit is simplified when it is taken, with what is known to be left out at that moment: a merge
//! that has the same at the path as one of its parents becomes that parent's child alone, even if the parent turns
//! out to be left out later. Which commits are listed therefore depends on this order, and agrees with `git rev-list`
//! only because the order is the same. `docs/git.md` describes it.
//!
//! No generation numbers are needed. The walk ends some commits after everything in its queue is left out, so that a
//! clock that was wrong does little harm; in a store with generation numbers what is left of that is found by them.

use std::{
    cmp::Reverse,
    collections::{BinaryHeap, VecDeque},
    sync::Arc,
};

use bristlecone_core::{AHEAD_OBJECTS_MAX, Format, ObjRef, Oid};
use smallvec::SmallVec;

use super::{
    LogEntry, LogOptions, LogOrder,
    excluded::Excluded,
    graph::{CommitGraph, LOOK_AHEAD_MAX},
    watch::Watch,
};
use crate::{
    Result,
    oid_map::{OidMap, OidSet},
    store::StoreView,
};

/// How many commits are still taken once all that wait are left out and no one of them is newer than the last one listed.
const BEYOND: u32 = 5;

/// The commits of a log, all known.
#[derive(Debug)]
pub(super) struct Limited<F: Format> {
    walk: LimitedWalk<F>,
    listed: VecDeque<Oid>,
}

impl<F: Format> Limited<F> {
    pub(super) fn new(store: Arc<StoreView<F>>, heads: &[ObjRef], options: LogOptions) -> Result<Self> {
        let order = options.order;
        let exclude = store.commit_refs(&options.exclude);
        let watch = Watch::over(&store, &options.paths);
        let mut walk = LimitedWalk {
            graph: CommitGraph::new(store).beside(watch.as_ref()),
            watch,
            first_parent: options.first_parent,
            since: options.since.unwrap_or(i64::MIN),
            until: options.until.unwrap_or(i64::MAX),
            met: OidMap::default(),
            named: exclude.iter().map(|at| at.oid).collect(),
            excluded: exclude.iter().map(|at| at.oid).collect(),
            queue: DateQueue::default(),
        };
        walk.start(heads, &exclude, options.heads_before)?;
        let mut listed = walk.limit()?;
        if walk.watch.is_none() && walk.graph.numbered()? {
            walk.leave_out(&mut listed, exclude)?;
        }
        match order {
            LogOrder::Date => {}
            LogOrder::Topological => listed = walk.sort(&listed, LineQueue::default()),
            LogOrder::TopologicalByDate => listed = walk.sort(&listed, DateQueue::default()),
        }
        Ok(Self { walk, listed: listed.into() })
    }

    pub(super) fn next(&mut self) -> Result<Option<LogEntry>> {
        while let Some(oid) = self.listed.pop_front() {
            let LimitedWalk { graph, met, excluded, .. } = &mut self.walk;
            let is_listed = |oid: &Oid| !met[oid].same && !excluded.contains(oid);
            if is_listed(&oid) {
                let others = self.listed.iter().take(LOOK_AHEAD_MAX).filter(|oid| is_listed(oid));
                graph.look_ahead(&met[&oid].at, others.map(|oid| met[oid].at))?;
                return graph.read(&met[&oid].at).map(Some);
            }
        }
        Ok(None)
    }
}

/// A commit that was read.
#[derive(Debug)]
struct Met {
    at: ObjRef,
    tree: ObjRef,
    seconds: i64,
    // Where commits carry it.
    generation: Option<u64>,
    // Those that history goes on with: one alone once the commit was simplified to it.
    parents: SmallVec<[ObjRef; 2]>,
    // Whether it was put into the queue, and taken out again.
    queued: bool,
    taken: bool,
    // Whether it has the same at the path as its parents.
    same: bool,
}

#[derive(Debug)]
struct LimitedWalk<F: Format> {
    graph: CommitGraph<F>,
    watch: Option<Watch<F>>,
    first_parent: bool,
    since: i64,
    until: i64,
    met: OidMap<Met>,
    // What the caller named to be left out, and what is known to be.
    named: OidSet,
    excluded: OidSet,
    queue: DateQueue,
}

impl<F: Format> LimitedWalk<F> {
    /// Reads what the caller named, and leaves out what that says at once.
    fn start(&mut self, heads: &[ObjRef], exclude: &[ObjRef], heads_before: usize) -> Result<()> {
        let (before, after) = heads.split_at(heads_before.min(heads.len()));
        let named: Vec<ObjRef> = [before, exclude, after].concat();
        for (index, at) in named.iter().enumerate() {
            self.graph.look_ahead(at, named[index..].iter().copied())?;
            self.meet(at)?;
        }
        for at in &named {
            if self.excluded.contains(&at.oid) {
                self.exclude_parents(&at.oid);
            }
            self.enqueue(&at.oid);
        }
        Ok(())
    }

    /// Reads a commit if that was not done.
    fn meet(&mut self, at: &ObjRef) -> Result<()> {
        if !self.met.contains_key(&at.oid) {
            let entry = self.graph.read(at)?;
            let parents = self.graph.parents(&at.oid, &entry.commit)?;
            let (tree, seconds) = (entry.commit.tree.into(), entry.commit.committer.seconds);
            self.met.insert(
                at.oid,
                Met {
                    at: entry.id.into(),
                    tree,
                    seconds,
                    generation: entry.generation,
                    parents,
                    queued: false,
                    taken: false,
                    same: false,
                },
            );
        }
        Ok(())
    }

    fn enqueue(&mut self, oid: &Oid) {
        if let Some(met) = self.met.get_mut(oid)
            && !std::mem::replace(&mut met.queued, true)
        {
            self.queue.put(met.seconds, *oid);
        }
    }

    /// Takes commits until no more can be listed; returns those to list, some of which may have been left out since.
    fn limit(&mut self) -> Result<Vec<Oid>> {
        let (mut listed, mut last, mut beyond) = (Vec::new(), i64::MAX, BEYOND);
        let mut waiting = None;
        while let Some((seconds, oid)) = self.queue.take_dated() {
            self.met.get_mut(&oid).into_iter().for_each(|met| met.taken = true);
            if seconds < self.since {
                self.excluded.insert(oid);
            }
            if !self.excluded.contains(&oid) {
                self.simplify(&oid)?;
                self.follow(&oid)?;
                if seconds <= self.until {
                    last = seconds;
                    listed.push(oid);
                }
                continue;
            }
            self.follow_excluded(&oid)?;
            let Some(next) = self.queue.newest() else { break };
            beyond = if last <= next || self.is_waiting(&mut waiting) { BEYOND } else { beyond - 1 };
            if beyond == 0 {
                break;
            }
        }
        Ok(listed)
    }

    /// Takes those off the list that what the caller named leads to, by generation numbers: where clocks were wrong, the walk by
    /// date ends before it has met all of them.
    fn leave_out(&mut self, listed: &mut Vec<Oid>, exclude: Vec<ObjRef>) -> Result<()> {
        let generation = |oid: &Oid| self.met[oid].generation.unwrap_or_default();
        let waiting = self.queue.0.iter().map(|(_, _, oid)| generation(oid)).max();
        let lowest = listed.iter().filter(|oid| !self.excluded.contains(*oid)).map(generation).min();
        // Those that wait lead to commits below themselves alone.
        if waiting.is_none_or(|waiting| lowest.is_none_or(|lowest| waiting <= lowest)) {
            return Ok(());
        }
        let mut excluded = Excluded::new(exclude);
        let mut kept = Vec::with_capacity(listed.len());
        for oid in listed.drain(..) {
            let generation = self.met[&oid].generation.unwrap_or_default();
            if !self.excluded.contains(&oid) && !excluded.contains(&mut self.graph, &oid, generation)? {
                kept.push(oid);
            }
        }
        *listed = kept;
        Ok(())
    }

    /// Whether a commit that is not left out is in the queue. `found` remembers one, since it is asked again and again.
    fn is_waiting(&self, found: &mut Option<Oid>) -> bool {
        let waits = |oid: &Oid| !self.excluded.contains(oid) && !self.met[oid].taken;
        if !found.as_ref().is_some_and(waits) {
            *found = self.queue.0.iter().map(|(_, _, oid)| *oid).find(waits);
        }
        found.is_some()
    }

    /// Puts the parents of a commit that is listed into the queue.
    fn follow(&mut self, oid: &Oid) -> Result<()> {
        let mut parents = self.met[oid].parents.clone();
        if self.first_parent {
            parents.truncate(1);
        }
        for parent in parents {
            self.meet_with_others(&parent)?;
            self.enqueue(&parent.oid);
        }
        Ok(())
    }

    /// Reads a commit if that was not done, with the parents of those that wait.
    fn meet_with_others(&mut self, at: &ObjRef) -> Result<()> {
        if !self.met.contains_key(&at.oid) && self.graph.looks_ahead(at) {
            let Self { graph, met, queue, .. } = self;
            let parents = queue.0.iter().flat_map(|(_, _, oid)| &met[oid].parents).take(LOOK_AHEAD_MAX);
            graph.look_ahead(at, parents.filter(|parent| !met.contains_key(&parent.oid)).copied())?;
        }
        self.meet(at)
    }

    /// Leaves out the parents of a commit that is left out, and puts them into the queue.
    fn follow_excluded(&mut self, oid: &Oid) -> Result<()> {
        for parent in self.met[oid].parents.clone() {
            self.excluded.insert(parent.oid);
            self.meet_with_others(&parent)?;
            self.exclude_parents(&parent.oid);
            self.enqueue(&parent.oid);
        }
        Ok(())
    }

    /// Leaves out the parents of a commit, and what they lead to as far as it was read.
    fn exclude_parents(&mut self, oid: &Oid) {
        let mut stack = vec![*oid];
        while let Some(oid) = stack.pop() {
            let parents = self.met.get(&oid).map_or(&[][..], |met| &met.parents);
            stack.extend(parents.iter().map(|at| at.oid).filter(|parent| self.excluded.insert(*parent)));
        }
    }

    /// Compares a commit with its parents at the path. A parent that has the same there stands for all. One that is
    /// left out stands for nothing, unless the caller named it; it decides only where no other does.
    fn simplify(&mut self, oid: &Oid) -> Result<()> {
        let Some(watch) = &mut self.watch else { return Ok(()) };
        watch.expect(self.first_parent, || {
            let waiting = self.queue.0.iter().take(AHEAD_OBJECTS_MAX).map(|(_, _, oid)| oid);
            [oid].into_iter().chain(waiting).map(|oid| self.met[oid].at).collect::<Vec<_>>()
        });
        let (tree, parents) = (self.met[oid].tree, self.met[oid].parents.clone());
        if parents.is_empty() {
            let there = watch.is_there(&tree)?;
            self.set(oid, !there, None);
            return Ok(());
        }
        let (mut matter, mut changed, mut changed_else) = (false, false, false);
        for (nth, parent) in parents.iter().enumerate() {
            let matters = !self.excluded.contains(&parent.oid) || self.named.contains(&parent.oid);
            matter |= matters;
            if nth == 1 && self.first_parent {
                break;
            }
            self.meet(parent)?;
            let Some(watch) = &mut self.watch else { return Ok(()) };
            match (watch.same(&tree, &self.met[&parent.oid].tree)?, matters) {
                (true, true) => {
                    self.set(oid, true, Some(*parent));
                    return Ok(());
                }
                (true, false) => {}
                (false, true) => changed = true,
                (false, false) => changed_else = true,
            }
        }
        self.set(oid, !if matter { changed } else { changed_else }, None);
        Ok(())
    }

    fn set(&mut self, oid: &Oid, same: bool, parent: Option<ObjRef>) {
        if let Some(met) = self.met.get_mut(oid) {
            met.same = same;
            if let Some(parent) = parent {
                met.parents = SmallVec::from_slice(&[parent]);
            }
        }
    }

    /// Sorts commits so that none comes before its children; `ready` decides between those whose children all came.
    fn sort(&self, listed: &[Oid], mut ready: impl Ready) -> Vec<Oid> {
        // One for the commit itself, one for each child that waits.
        let mut waits: OidMap<u32> = listed.iter().map(|oid| (*oid, 1)).collect();
        for parent in listed.iter().flat_map(|oid| &self.met[oid].parents) {
            if let Some(waits) = waits.get_mut(&parent.oid) {
                *waits += 1;
            }
        }
        let tips = listed.iter().filter(|oid| waits[*oid] == 1);
        ready.begin(tips.map(|oid| (self.met[oid].seconds, *oid)).collect());
        let mut sorted = Vec::with_capacity(listed.len());
        while let Some(oid) = ready.take() {
            sorted.push(oid);
            waits.remove(&oid);
            for parent in &self.met[&oid].parents {
                if let Some(left) = waits.get_mut(&parent.oid) {
                    *left -= 1;
                    if *left == 1 {
                        ready.put(self.met[&parent.oid].seconds, parent.oid);
                    }
                }
            }
        }
        sorted
    }
}

/// Commits whose children all came.
trait Ready {
    /// Adds the first ones, which are in the order of the list.
    fn begin(&mut self, tips: Vec<(i64, Oid)>);
    fn put(&mut self, seconds: i64, oid: Oid);
    fn take(&mut self) -> Option<Oid>;
}

/// By date, newest first; those of one second in the order in which they came.
#[derive(Debug, Default)]
struct DateQueue(BinaryHeap<(i64, Reverse<u64>, Oid)>, u64);

impl DateQueue {
    fn take_dated(&mut self) -> Option<(i64, Oid)> {
        self.0.pop().map(|(seconds, _, oid)| (seconds, oid))
    }

    fn newest(&self) -> Option<i64> {
        self.0.peek().map(|(seconds, ..)| *seconds)
    }
}

impl Ready for DateQueue {
    fn begin(&mut self, tips: Vec<(i64, Oid)>) {
        tips.into_iter().for_each(|(seconds, oid)| self.put(seconds, oid));
    }

    fn put(&mut self, seconds: i64, oid: Oid) {
        self.1 += 1;
        self.0.push((seconds, Reverse(self.1), oid));
    }

    fn take(&mut self) -> Option<Oid> {
        self.take_dated().map(|(_, oid)| oid)
    }
}

/// Lines of history one after another: what came last is next.
#[derive(Debug, Default)]
struct LineQueue(Vec<Oid>);

impl Ready for LineQueue {
    fn begin(&mut self, tips: Vec<(i64, Oid)>) {
        self.0.extend(tips.into_iter().rev().map(|(_, oid)| oid));
    }

    fn put(&mut self, _: i64, oid: Oid) {
        self.0.push(oid);
    }

    fn take(&mut self) -> Option<Oid> {
        self.0.pop()
    }
}
