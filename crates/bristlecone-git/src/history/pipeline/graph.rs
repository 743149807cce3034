//! The commits of a transfer, and their order. All are found first, by reading them once. The graph keeps some dozens
//! of bytes of each, so that a million commits fit. It keeps their own bytes as long as they take little memory; others
//! are read again when their turn comes.

use std::collections::{BinaryHeap, HashMap, HashSet};

use bristlecone::{Kind, Oid};

use crate::history::{
    error::{Missing, Origin, TransferError},
    ids::Ids,
    objects::{CommitHead, Objects, read_as},
    pipeline::contract::Existing,
    table::{Scratch, Table},
};

/// Bytes of commits that are kept for their second use.
const KEPT_BYTES: usize = 16 << 20;
/// Marks the last parent in the list of all.
const LAST: u32 = 1 << 31;
const NONE: u32 = u32::MAX;

/// What is known of a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CommitState {
    /// To be transferred.
    New,
    /// To be transferred, and taken as if it had no parents: one of them is not there, on purpose.
    Shallow,
    /// The destination has it, with all that it leads to.
    Existing,
    /// Absent on purpose: its children are shallow.
    Absent,
    /// Missing or damaged.
    Missing,
}

/// Commits by number.
#[derive(Debug)]
pub(crate) struct Graph {
    pub(crate) ids: Ids,
    // Commits with smaller numbers existed before: they are `CommitState::Existing`.
    first: u32,
    states: Vec<CommitState>,
    seconds: Vec<i64>,
    trees: Table,
    // Where a commit's parents begin in `list`; `NONE` if it has no parents.
    starts: Vec<u32>,
    list: Vec<u32>,
    kept: Vec<u8>,
    // Where the bytes of a commit begin and end in `kept`.
    ranges: Vec<(u32, u32)>,
    width: usize,
    queue: BinaryHeap<(i64, std::cmp::Reverse<u32>)>,
    waiting: HashMap<u32, Vec<Oid>>,
    missing: Vec<(u32, Missing)>,
}

/// Where a history ends although its commits name parents.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ends {
    /// Commits whose parents were never fetched.
    pub(crate) shallow: HashSet<Oid>,
    /// Commits that are absent on purpose; what the destination has is followed all the same.
    pub(crate) absent: HashSet<Oid>,
}

impl Ends {
    /// Returns the ends of a history of which nothing else is absent.
    pub(crate) fn of_shallow(shallow: &HashSet<Oid>) -> Self {
        Self { shallow: shallow.clone(), absent: HashSet::new() }
    }

    /// Returns the ends of a history for a destination that has parents of shallow commits: those commits are not shallow
    /// there, else Git would not see what it had before them.
    pub(crate) fn without_whole(
        &self,
        objects: &impl Objects,
        width: usize,
        existing: &dyn Existing,
    ) -> Result<Self, TransferError> {
        let (mut shallow, mut raw) = (HashSet::new(), Vec::new());
        for oid in &self.shallow {
            let read = read_as(objects, oid, Kind::Commit, &mut raw)?.is_ok();
            let head = if read { CommitHead::parse(width, &raw) } else { None };
            if !has_all(existing, &head.map_or(Vec::new(), |head| head.parents))? {
                shallow.insert(*oid);
            }
        }
        Ok(Self { shallow, absent: self.absent.clone() })
    }
}

/// Whether the destination has each of these commits, with all that it leads to; not if there are none.
pub(crate) fn has_all(existing: &dyn Existing, commits: &[Oid]) -> Result<bool, TransferError> {
    for oid in commits {
        if !existing.commit(u32::MAX, oid)? {
            return Ok(false);
        }
    }
    Ok(!commits.is_empty())
}

/// How far commits are followed.
pub(crate) struct GraphBounds<'a> {
    /// Whether the destination has a commit; called once for each.
    pub(crate) existing: &'a mut dyn FnMut(u32, &Oid) -> Result<bool, TransferError>,
    pub(crate) ends: &'a Ends,
    /// Called with the number of commits that were found.
    pub(crate) progress: &'a mut dyn FnMut(u64),
}

impl Graph {
    /// Begins with commits that have numbers already, all of which the destination has.
    pub(crate) fn new(ids: Ids, width: usize, scratch: &Scratch) -> Self {
        Self {
            first: ids.len(),
            ids,
            states: Vec::new(),
            seconds: Vec::new(),
            trees: Table::new(width, scratch),
            starts: Vec::new(),
            list: Vec::new(),
            kept: Vec::new(),
            ranges: Vec::new(),
            width,
            queue: BinaryHeap::new(),
            waiting: HashMap::new(),
            missing: Vec::new(),
        }
    }

    /// Returns what is known of a commit.
    pub(crate) fn state(&self, number: u32) -> CommitState {
        match number.checked_sub(self.first) {
            Some(index) => self.states[index as usize],
            None => CommitState::Existing,
        }
    }

    /// Returns the root of a commit that the destination does not have.
    pub(crate) fn tree(&self, number: u32) -> Result<Oid, TransferError> {
        let mut bytes = [0; Oid::BYTES_MAX];
        self.trees.read(number - self.first, &mut bytes[..self.width])?;
        Ok(Oid::new(&bytes[..self.width]).expect("ids have a valid length"))
    }

    /// Returns the parents of a commit that the destination does not have, without those that were never fetched.
    pub(crate) fn parents(&self, number: u32) -> impl Iterator<Item = u32> + '_ {
        let start = number.checked_sub(self.first).map_or(NONE, |index| self.starts[index as usize]);
        let list = self.list.get(start as usize..).unwrap_or_default();
        let count = list.iter().position(|parent| parent & LAST != 0).map_or(0, |last| last + 1);
        list[..count].iter().map(|parent| parent & !LAST)
    }

    /// Returns the ids by number.
    pub(crate) fn into_ids(self) -> Ids {
        self.ids
    }

    /// Takes out the commits that are missing.
    pub(crate) fn take_missing(&mut self) -> Vec<(u32, Missing)> {
        std::mem::take(&mut self.missing)
    }

    /// Follows all commits to their ends.
    pub(crate) fn follow(&mut self, objects: &impl Objects, bounds: &mut GraphBounds<'_>) -> Result<(), TransferError> {
        while let Some((_, std::cmp::Reverse(number))) = self.queue.pop() {
            let parents = self.waiting.remove(&number).unwrap_or_default();
            if parents.is_empty() {
                continue;
            }
            let child = self.ids.oid(number)?;
            if self.is_cut(objects, bounds, child, &parents)? {
                self.states[(number - self.first) as usize] = CommitState::Shallow;
                continue;
            }
            let mut numbers = Vec::with_capacity(parents.len());
            for parent in &parents {
                numbers.push(self.visit(objects, bounds, parent, || Origin::Child(child))?);
            }
            let start = self.list.len() as u32;
            self.list.extend(numbers);
            if let Some(last) = self.list.last_mut() {
                *last |= LAST;
            }
            self.starts[(number - self.first) as usize] = start;
        }
        (bounds.progress)(self.states.len() as u64);
        Ok(())
    }

    /// Whether a parent is absent on purpose. Then none is followed: a commit in Git has all of its parents or is shallow.
    fn is_cut(
        &mut self,
        objects: &impl Objects,
        bounds: &mut GraphBounds<'_>,
        child: Oid,
        parents: &[Oid],
    ) -> Result<bool, TransferError> {
        for parent in parents.iter().filter(|parent| bounds.ends.absent.contains(parent)) {
            let number = self.visit(objects, bounds, parent, || Origin::Child(child))?;
            if self.missing.pop_if(|(missing, what)| *missing == number && what.damage.is_none()).is_some() {
                self.states[(number - self.first) as usize] = CommitState::Absent;
            }
            if self.state(number) == CommitState::Absent {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Adds a commit that a ref, a tag or another commit names, and returns its number.
    pub(crate) fn visit(
        &mut self,
        objects: &impl Objects,
        bounds: &mut GraphBounds<'_>,
        oid: &Oid,
        from: impl Fn() -> Origin,
    ) -> Result<u32, TransferError> {
        if let Some(number) = self.ids.get(oid)? {
            if number < self.first {
                (bounds.existing)(number, oid)?;
            }
            return Ok(number);
        }
        let number = self.ids.insert(oid)?;
        let (mut state, mut seconds, mut tree, mut range) = (CommitState::Existing, 0, *oid, (NONE, NONE));
        if !(bounds.existing)(number, oid)? {
            match self.load(objects, oid, &mut range)? {
                Ok(head) => {
                    (seconds, tree) = (head.seconds, head.tree);
                    let shallow = bounds.ends.shallow.contains(oid);
                    state = if shallow && !head.parents.is_empty() { CommitState::Shallow } else { CommitState::New };
                    if state == CommitState::New && !head.parents.is_empty() {
                        self.waiting.insert(number, head.parents);
                        self.queue.push((seconds, std::cmp::Reverse(number)));
                    }
                }
                Err(damage) => {
                    state = CommitState::Missing;
                    self.missing.push((number, Missing { kind: Kind::Commit, oid: *oid, damage, from: from() }));
                }
            }
        }
        self.states.push(state);
        self.seconds.push(seconds);
        self.trees.push(tree.as_bytes())?;
        self.starts.push(NONE);
        self.ranges.push(range);
        if self.states.len().is_multiple_of(256) {
            (bounds.progress)(self.states.len() as u64);
        }
        Ok(number)
    }

    /// Reads a commit; what is wrong with it, where it cannot be read.
    fn load(
        &mut self,
        objects: &impl Objects,
        oid: &Oid,
        range: &mut (u32, u32),
    ) -> Result<Result<CommitHead, Option<String>>, TransferError> {
        let mut raw = Vec::new();
        match read_as(objects, oid, Kind::Commit, &mut raw)? {
            Ok(()) => {}
            Err(damage) => return Ok(Err(damage)),
        }
        let Some(head) = CommitHead::parse(self.width, &raw) else {
            return Ok(Err(Some("its first lines are not those of a commit".to_owned())));
        };
        if self.kept.len() + raw.len() <= KEPT_BYTES {
            let start = self.kept.len() as u32;
            self.kept.extend_from_slice(&raw);
            *range = (start, self.kept.len() as u32);
        }
        Ok(Ok(head))
    }

    /// Replaces `out` by the bytes of a commit; what is wrong with it, where it cannot be read again.
    pub(crate) fn bytes(
        &self,
        objects: &impl Objects,
        number: u32,
        out: &mut Vec<u8>,
    ) -> Result<Result<(), Option<String>>, TransferError> {
        let range = number.checked_sub(self.first).map_or((NONE, NONE), |index| self.ranges[index as usize]);
        if range.0 != NONE {
            out.clear();
            out.extend_from_slice(&self.kept[range.0 as usize..range.1 as usize]);
            return Ok(Ok(()));
        }
        read_as(objects, &self.ids.oid(number)?, Kind::Commit, out)
    }

    /// Returns the commits that the destination does not have, newest first, and each after its children. Commits whose
    /// parents lead back to them are left out, with all that only they lead to.
    pub(crate) fn order(&self) -> Vec<u32> {
        let mut children = vec![0u32; self.states.len()];
        let index = |number: u32| (number - self.first) as usize;
        let all = || self.first..self.first + self.states.len() as u32;
        for parent in all().flat_map(|number| self.parents(number)).filter(|&parent| parent >= self.first) {
            children[index(parent)] += 1;
        }
        let mut ready: BinaryHeap<(i64, std::cmp::Reverse<u32>)> = (0..self.states.len())
            .filter(|&index| children[index] == 0)
            .map(|index| (self.seconds[index], std::cmp::Reverse(self.first + index as u32)))
            .collect();
        let mut order = Vec::with_capacity(self.states.len());
        while let Some((_, std::cmp::Reverse(number))) = ready.pop() {
            if self.is_to_send(number) {
                order.push(number);
            }
            for parent in self.parents(number).filter(|&parent| parent >= self.first) {
                let left = &mut children[index(parent)];
                *left -= 1;
                if *left == 0 {
                    ready.push((self.seconds[index(parent)], std::cmp::Reverse(parent)));
                }
            }
        }
        order
    }

    fn is_to_send(&self, number: u32) -> bool {
        !matches!(self.state(number), CommitState::Existing | CommitState::Absent)
    }

    /// Returns the commits that an order leaves out.
    pub(crate) fn left_out(&self, order: &[u32]) -> Vec<u32> {
        let mut left = vec![true; self.states.len()];
        order.iter().for_each(|&number| left[(number - self.first) as usize] = false);
        let numbers = (self.first..).zip(left).filter(|&(_, left)| left).map(|(number, _)| number);
        numbers.filter(|&number| self.is_to_send(number)).collect()
    }

    /// Returns one of these commits whose parents lead back to it. They are those that an order left out.
    pub(crate) fn cyclic(&self, left: &[u32]) -> Option<u32> {
        let child: HashMap<u32, u32> =
            left.iter().flat_map(|&number| self.parents(number).map(move |parent| (parent, number))).collect();
        let (mut at, mut seen) = (*left.first()?, HashSet::new());
        while seen.insert(at) {
            at = *child.get(&at)?;
        }
        Some(at)
    }

    /// Takes a commit for missing: it leads nowhere from now on.
    pub(crate) fn set_missing(&mut self, number: u32) {
        let index = (number - self.first) as usize;
        (self.states[index], self.starts[index]) = (CommitState::Missing, NONE);
    }
}
