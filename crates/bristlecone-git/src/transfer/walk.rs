//! The thread that reads: trees and values of commits, newest first, each object once.
//!
//! A tree is compared with the version of the same path that was read last, so that only what differs is looked at:
//! the rest has its numbers already. Newest first is also the order in which Git packs objects, where an older
//! version is a delta against a newer one that was read just before.

use std::{
    collections::HashMap,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
};

use bristlecone::{
    EntryKind, Kind, Location, Oid,
    core::git::{self, Algorithm},
};

use super::{
    channel::{Base, Closed, Message, NO_NUMBER, Named, Outlet},
    error::{Lost, Origin, TransferError},
    graph::read,
    ids::Ids,
    objects::Objects,
    reader::{CommitOut, Walker},
};

/// How deep directories may be nested.
pub(super) const DEPTH_MAX: usize = 2048;
/// Bytes of trees that are kept to compare others with.
const SHADOW_BYTES_MAX: usize = 32 << 20;

/// Why a thread ends early.
#[derive(Debug)]
pub(super) enum Halt {
    /// The other thread has ended; it says why.
    Closed,
    Failed(TransferError),
}

impl<E: Into<TransferError>> From<E> for Halt {
    fn from(error: E) -> Self {
        Self::Failed(error.into())
    }
}

impl From<Closed> for Halt {
    fn from(_: Closed) -> Self {
        Self::Closed
    }
}

/// What was done so far, for whoever watches.
#[derive(Debug, Default)]
pub(super) struct Meters {
    pub(super) commits_found: AtomicU64,
    pub(super) commits_total: AtomicU64,
    pub(super) commits: AtomicU64,
    pub(super) objects: AtomicU64,
    pub(super) bytes: AtomicU64,
}

impl Meters {
    pub(super) fn object(&self, bytes: usize) {
        self.objects.fetch_add(1, Relaxed);
        self.bytes.fetch_add(bytes as u64, Relaxed);
    }
}

/// What is where the rest is to go.
pub(super) trait There: Sync {
    /// Returns where an object is; `None` if it is not there.
    fn find(&self, kind: Kind, oid: &Oid) -> Result<Option<Location>, TransferError>;

    /// Whether a commit is there, with all that it leads to; `number` is the one that it has.
    fn commit(&self, number: u32, oid: &Oid) -> Result<bool, TransferError>;

    /// Whether an object that is there has all that it leads to there.
    fn closed(&self) -> bool;

    /// Called for an object that had a number from the beginning, before that is used.
    fn confirm(&self, number: u32) -> Result<(), TransferError>;
}

/// A tree that was read, with those below it.
#[derive(Debug)]
struct Shadow {
    number: u32,
    raw: Vec<u8>,
    // Where entries begin, and the numbers of their objects.
    starts: Vec<u32>,
    numbers: Vec<u32>,
    below: HashMap<Box<[u8]>, Box<Shadow>>,
}

impl Shadow {
    fn own_bytes(&self) -> usize {
        self.raw.capacity() + (self.starts.capacity() + self.numbers.capacity()) * 4 + 128
    }

    fn bytes(&self) -> usize {
        self.own_bytes() + self.below.values().map(|below| below.bytes()).sum::<usize>()
    }
}

/// The thread's state.
pub(super) struct Walk<'a, O> {
    pub(super) objects: &'a O,
    pub(super) algorithm: Algorithm,
    pub(super) there: &'a dyn There,
    pub(super) ids: Ids,
    // Numbers below were given before this transfer began.
    pub(super) first: u32,
    pub(super) outlet: Outlet,
    pub(super) meters: &'a Meters,
    /// Whether the rest comes without what is missing.
    pub(super) skip: bool,
    // The commit whose tree is walked, and the path in it.
    commit: Option<Oid>,
    path: Vec<u8>,
    shadow: Option<Box<Shadow>>,
    shadow_bytes: usize,
}

/// The part in which two trees differ.
struct Middle {
    // In entries.
    old: std::ops::Range<usize>,
    new: std::ops::Range<usize>,
    // In bytes.
    old_bytes: std::ops::Range<usize>,
}

impl<'a, O: Objects> Walk<'a, O> {
    pub(super) fn new(
        objects: &'a O,
        algorithm: Algorithm,
        there: &'a dyn There,
        ids: Ids,
        outlet: Outlet,
        meters: &'a Meters,
        skip: bool,
    ) -> Self {
        Self {
            first: ids.len(),
            objects,
            algorithm,
            there,
            ids,
            outlet,
            meters,
            skip,
            commit: None,
            path: Vec::new(),
            shadow: None,
            shadow_bytes: 0,
        }
    }
}

impl<O: Objects> Walker for Walk<'_, O> {
    fn outlet(&mut self) -> &mut Outlet {
        &mut self.outlet
    }

    fn commit_tree(&mut self, commit: &Oid, oid: &Oid) -> Result<u32, Halt> {
        self.commit = Some(*commit);
        let mut shadow = self.shadow.take();
        let number = self.tree(oid, &mut shadow)?;
        self.commit = None;
        self.shadow = shadow;
        if self.shadow_bytes > SHADOW_BYTES_MAX {
            (self.shadow, self.shadow_bytes) = (None, 0);
        }
        Ok(number)
    }

    fn lone_tree(&mut self, oid: &Oid) -> Result<u32, Halt> {
        self.tree(oid, &mut None)
    }

    fn lone_blob(&mut self, oid: &Oid) -> Result<u32, Halt> {
        if let Some(number) = self.known(oid)? {
            self.outlet.send(Message::Whole { number })?;
            return Ok(number);
        }
        self.blob(oid, NO_NUMBER, true)
    }

    fn known(&self, oid: &Oid) -> Result<Option<u32>, Halt> {
        let number = self.ids.get(oid)?;
        if let Some(number) = number.filter(|&number| number < self.first) {
            self.there.confirm(number)?;
        }
        Ok(number)
    }

    fn lost(&mut self, kind: Kind, oid: &Oid, damage: Option<String>, from: Origin) -> Result<u32, Halt> {
        let lost = Lost { kind, oid: *oid, damage, from };
        if !self.skip {
            return Err(TransferError::Lost(Box::new(lost)).into());
        }
        let number = self.ids.insert(oid)?;
        self.outlet.send(Message::Lost { number, lost })?;
        Ok(number)
    }

    fn commit_there(&mut self, number: u32, oid: &Oid) -> Result<(), Halt> {
        Ok(self.outlet.send(Message::CommitThere { number, oid: *oid })?)
    }

    fn commit(&mut self, commit: CommitOut) -> Result<(), Halt> {
        let CommitOut { number, oid, raw, tree, parents, cut } = commit;
        Ok(self.outlet.send(Message::Commit { number, oid, raw, tree, parents, cut })?)
    }

    fn tag(&mut self, oid: &Oid, raw: Vec<u8>, target: Named) -> Result<u32, Halt> {
        let number = self.ids.insert(oid)?;
        let there = self.there.find(Kind::Tag, oid)?;
        self.outlet.send(Message::Tag { number, oid: *oid, raw, target, there })?;
        Ok(number)
    }

    fn git_oid(&self, _: Named, oid: &Oid) -> Result<Oid, Halt> {
        Ok(*oid)
    }
}

impl<O: Objects> Walk<'_, O> {
    fn origin(&self) -> Origin {
        let path = self.path.strip_suffix(b"/").unwrap_or(&self.path).to_vec();
        match self.commit {
            Some(oid) => Origin::Path(oid, path),
            None => Origin::Tree(path),
        }
    }

    fn blob(&mut self, oid: &Oid, base: u32, whole: bool) -> Result<u32, Halt> {
        if let Some(number) = self.known(oid)? {
            return Ok(number);
        }
        if let Some(at) = self.there.find(Kind::Contents, oid)? {
            let number = self.ids.insert(oid)?;
            self.outlet.send(Message::There { number, at, children: Vec::new() })?;
            return Ok(number);
        }
        let mut raw = Vec::new();
        if let Err(damage) = read(self.objects, oid, Kind::Contents, &mut raw)? {
            return self.lost(Kind::Contents, oid, damage, self.origin());
        }
        let number = self.ids.insert(oid)?;
        self.meters.object(raw.len());
        let from = self.commit;
        self.outlet.send(Message::Blob { number, oid: *oid, raw, base, whole, from })?;
        Ok(number)
    }

    /// Walks a tree unless it was met before; `shadow` is the version of the same path that was read last, and
    /// becomes this one.
    fn tree(&mut self, oid: &Oid, shadow: &mut Option<Box<Shadow>>) -> Result<u32, Halt> {
        if let Some(number) = self.known(oid)? {
            return Ok(number);
        }
        let there = self.there.find(Kind::Node, oid)?;
        if let Some(at) = there.filter(|_| self.there.closed()) {
            let number = self.ids.insert(oid)?;
            self.outlet.send(Message::There { number, at, children: Vec::new() })?;
            return Ok(number);
        }
        if self.path.iter().filter(|&&byte| byte == b'/').count() > DEPTH_MAX {
            let reason = format!("directories are nested more than {DEPTH_MAX} deep");
            return Err(TransferError::refused(format!("the tree {oid}"), reason).into());
        }
        let mut raw = Vec::new();
        if let Err(damage) = read(self.objects, oid, Kind::Node, &mut raw)? {
            return self.lost(Kind::Node, oid, damage, self.origin());
        }
        if raw.len() > u32::MAX as usize / 2 {
            return Err(TransferError::refused(format!("the tree {oid}"), "it has more than 2 GiB").into());
        }
        let mut old = shadow.take();
        let mut starts = Vec::new();
        let middle = match differ(self.algorithm, old.as_deref(), &raw, &mut starts) {
            Ok(middle) => middle,
            Err(wrong) => return self.lost(Kind::Node, oid, Some(wrong.to_string()), self.origin()),
        };
        let before = old.as_ref().map_or(0, |old| old.own_bytes());
        let mut below = old.as_mut().map(|old| std::mem::take(&mut old.below)).unwrap_or_default();
        let numbers = self.children(old.as_deref(), &mut below, &raw, &starts, &middle)?;
        let number = self.ids.insert(oid)?;
        self.meters.object(raw.len());
        let from = self.commit;
        self.outlet.send(match there {
            Some(at) => Message::There { number, at, children: numbers.clone() },
            None => Message::Tree {
                number,
                oid: *oid,
                raw: raw.clone(),
                children: numbers.clone(),
                base: old.map(|old| Base {
                    number: old.number,
                    changed: middle.new.start as u32..middle.new.end as u32,
                    replaced: old.raw[middle.old_bytes].to_vec(),
                }),
                from,
            },
        })?;
        let now = Shadow { number, raw, starts, numbers, below };
        self.shadow_bytes = (self.shadow_bytes + now.own_bytes()).saturating_sub(before);
        *shadow = Some(Box::new(now));
        Ok(number)
    }

    /// Returns the numbers of a tree's objects; those of the entries in the middle are walked or read.
    fn children(
        &mut self,
        old: Option<&Shadow>,
        below: &mut HashMap<Box<[u8]>, Box<Shadow>>,
        raw: &[u8],
        starts: &[u32],
        middle: &Middle,
    ) -> Result<Vec<u32>, Halt> {
        let mut numbers = Vec::with_capacity(starts.len());
        let old_numbers = old.map_or(&[][..], |old| &old.numbers);
        numbers.extend_from_slice(&old_numbers[..middle.new.start]);
        let mut gone = old_middle(self.algorithm, old, middle).peekable();
        let first = starts.get(middle.new.start).map_or(raw.len(), |&start| start as usize);
        for entry in git::raw_entries(self.algorithm, &raw[first..]).take(middle.new.len()) {
            let entry = entry.map_err(|source| broken(&source))?;
            let (kind, name) = (entry.kind(), entry.name);
            // Both lists are in one order, so names that were passed do not come again, but where a directory and a
            // file took turns; then the comparison is with nothing.
            let mut replaced = None;
            while let Some((before, number, bytes)) = gone.peek() {
                match git_order(before, bytes, name, kind) {
                    std::cmp::Ordering::Less => {
                        self.forget(below, before);
                        gone.next();
                    }
                    std::cmp::Ordering::Equal => {
                        replaced = Some((*number, *bytes));
                        gone.next();
                        break;
                    }
                    std::cmp::Ordering::Greater => break,
                }
            }
            numbers.push(match replaced {
                Some((number, before)) if before.oid == entry.oid && same_sort(before.kind(), kind) => number,
                Some((number, _)) => self.child(&entry, number, below)?,
                None => self.child(&entry, NO_NUMBER, below)?,
            });
        }
        gone.for_each(|(before, ..)| self.forget(below, before));
        numbers.extend_from_slice(&old_numbers[middle.old.end..]);
        Ok(numbers)
    }

    fn child(
        &mut self,
        entry: &git::RawEntry<'_>,
        base: u32,
        below: &mut HashMap<Box<[u8]>, Box<Shadow>>,
    ) -> Result<u32, Halt> {
        let depth = self.path.len();
        let oid = entry.oid();
        let number = match entry.kind() {
            EntryKind::Foreign => return Ok(NO_NUMBER),
            EntryKind::Dir => {
                if let Some(number) = self.known(&oid)? {
                    return Ok(number);
                }
                self.path.extend_from_slice(entry.name);
                self.path.push(b'/');
                let mut shadow = below.remove(entry.name);
                let number = self.tree(&oid, &mut shadow)?;
                if let Some(shadow) = shadow {
                    below.insert(entry.name.into(), shadow);
                }
                number
            }
            _ => {
                self.path.extend_from_slice(entry.name);
                self.blob(&oid, base, false)?
            }
        };
        self.path.truncate(depth);
        Ok(number)
    }

    /// Lets go of a directory that is not there any more.
    fn forget(&mut self, below: &mut HashMap<Box<[u8]>, Box<Shadow>>, name: &[u8]) {
        if let Some(gone) = below.remove(name) {
            self.shadow_bytes = self.shadow_bytes.saturating_sub(gone.bytes());
        }
    }
}

fn broken(source: &bristlecone::core::DecodeError) -> TransferError {
    TransferError::refused("a tree", source)
}

/// Whether two entries of one id lead to the same sort of object.
fn same_sort(one: EntryKind, other: EntryKind) -> bool {
    let sort = |kind: EntryKind| (kind == EntryKind::Dir, kind == EntryKind::Foreign);
    sort(one) == sort(other)
}

/// Compares the names of entries as Git orders them.
fn git_order(one: &[u8], one_entry: &git::RawEntry<'_>, other: &[u8], other_kind: EntryKind) -> std::cmp::Ordering {
    let end = |dir: bool| if dir { &b"/"[..] } else { b"" };
    let one = one.iter().chain(end(one_entry.kind() == EntryKind::Dir));
    one.cmp(other.iter().chain(end(other_kind == EntryKind::Dir)))
}

/// Returns names, numbers and entries of the middle of the older tree.
fn old_middle<'s>(
    algorithm: Algorithm,
    old: Option<&'s Shadow>,
    middle: &Middle,
) -> impl Iterator<Item = (&'s [u8], u32, git::RawEntry<'s>)> {
    let (raw, numbers) = match old {
        Some(old) => (&old.raw[middle.old_bytes.clone()], &old.numbers[middle.old.clone()]),
        None => (&[][..], &[][..]),
    };
    let entries = git::raw_entries(algorithm, raw).filter_map(Result::ok);
    entries.zip(numbers).map(|(entry, &number)| (entry.name, number, entry))
}

/// Finds the entries in which a tree differs from an older one, and where its entries start.
///
/// What both begin with is compared as bytes, and what they end with, too: from the first entry on that begins
/// equally far from the end of both, and from where on all bytes are the same, they hold the same entries.
fn differ(
    algorithm: Algorithm,
    old: Option<&Shadow>,
    raw: &[u8],
    starts: &mut Vec<u32>,
) -> Result<Middle, bristlecone::core::DecodeError> {
    let (old_raw, old_starts) = old.map_or((&[][..], &[][..]), |old| (&old.raw[..], &old.starts[..]));
    let prefix = common_prefix(old_raw, raw);
    // The last entry that begins within the common bytes may end beyond them.
    let first = old_starts.partition_point(|&start| start as usize <= prefix).saturating_sub(1);
    let first = if prefix == old_raw.len() { old_starts.len() } else { first };
    let from = old_starts.get(first).map_or(old_raw.len(), |&start| start as usize);
    let suffix = common_suffix(&old_raw[from..], &raw[from..]);
    starts.extend_from_slice(&old_starts[..first]);
    let mut entries = git::raw_entries(algorithm, &raw[from..]);
    let mut last = old_starts.len();
    loop {
        let at = from + entries.offset();
        let left = raw.len() - at;
        if left <= suffix
            && let Ok(index) = old_starts[first..].binary_search(&((old_raw.len() - left) as u32))
        {
            last = first + index;
            break;
        }
        match entries.next() {
            None => break,
            Some(entry) => {
                _ = entry.map_err(|wrong| bristlecone::core::DecodeError { offset: wrong.offset + from, ..wrong })?
            }
        }
        starts.push(at as u32);
    }
    let new = first..starts.len();
    let moved = |start: u32| (u64::from(start) + raw.len() as u64 - old_raw.len() as u64) as u32;
    let end = old_starts.get(last).map_or(old_raw.len(), |&start| start as usize);
    starts.extend(old_starts[last..].iter().map(|&start| moved(start)));
    Ok(Middle { old: first..last, new, old_bytes: from..end })
}

fn common_prefix(one: &[u8], other: &[u8]) -> usize {
    const STEP: usize = 64;
    let mut at = 0;
    for (left, right) in one.chunks_exact(STEP).zip(other.chunks_exact(STEP)) {
        if left != right {
            break;
        }
        at += STEP;
    }
    at + one[at..].iter().zip(&other[at..]).take_while(|(left, right)| left == right).count()
}

fn common_suffix(one: &[u8], other: &[u8]) -> usize {
    const STEP: usize = 64;
    let mut count = 0;
    for (left, right) in one.rchunks_exact(STEP).zip(other.rchunks_exact(STEP)) {
        if left != right {
            break;
        }
        count += STEP;
    }
    let rest = |bytes: &[u8]| bytes.len() - count;
    let (one, other) = (&one[..rest(one)], &other[..rest(other)]);
    count + one.iter().rev().zip(other.iter().rev()).take_while(|(left, right)| left == right).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The bytes of a tree with these entries: a name and a byte of which the id is made.
    fn tree(entries: &[(u16, u8)]) -> Vec<u8> {
        let mut raw = Vec::new();
        for (name, id) in entries {
            raw.extend_from_slice(format!("100644 f{name:05}{}\0", "x".repeat(usize::from(name % 7))).as_bytes());
            raw.extend_from_slice(&[*id; 20]);
        }
        raw
    }

    fn shadow(raw: Vec<u8>) -> Shadow {
        let mut starts = Vec::new();
        differ(Algorithm::Sha1, None, &raw, &mut starts).unwrap();
        let numbers = (0..starts.len() as u32).collect();
        Shadow { number: 0, raw, starts, numbers, below: HashMap::new() }
    }

    #[test]
    fn what_differs_between_two_trees_is_found_and_nothing_far_from_it() {
        let mut seed = 1_u64;
        let mut random = |below: u64| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (seed >> 33) % below
        };
        for round in 0..3_000 {
            let count = random(40) as u16;
            let old: Vec<(u16, u8)> = (0..count).map(|name| (name * 3, (name % 250) as u8)).collect();
            let mut new = old.clone();
            for _ in 0..random(4) {
                let at = random(new.len() as u64 + 1) as usize;
                match random(3) {
                    0 if at < new.len() => new[at].1 = 251 + random(4) as u8,
                    1 if at < new.len() => _ = new.remove(at),
                    _ => {
                        let name = random(130) as u16;
                        if let Err(place) = new.binary_search_by_key(&name, |entry| entry.0) {
                            new.insert(place, (name, 255));
                        }
                    }
                }
            }
            let (before, raw) = (shadow(tree(&old)), tree(&new));
            let mut starts = Vec::new();
            let middle = differ(Algorithm::Sha1, Some(&before), &raw, &mut starts).unwrap();
            assert_eq!(starts, shadow(raw).starts, "round {round}: {old:?} {new:?}");
            assert_eq!(old[..middle.old.start], new[..middle.new.start]);
            assert_eq!(old[middle.old.end..], new[middle.new.end..]);
            let changed = old.iter().zip(&new).take_while(|(old, new)| old == new).count();
            assert!(middle.new.start + 1 >= changed.min(new.len()), "round {round}: {old:?} {new:?}");
            assert_eq!(tree(&old[middle.old.clone()]), before.raw[middle.old_bytes.clone()]);
        }
    }

    #[test]
    fn bytes_that_are_no_tree_are_said_to_be_none() {
        let good = tree(&[(1, 1), (2, 2), (3, 3)]);
        let before = shadow(good.clone());
        for cut in 1..good.len() {
            let mut starts = Vec::new();
            let found = differ(Algorithm::Sha1, Some(&before), &good[..cut], &mut starts);
            assert_eq!(found.is_ok(), before.starts.contains(&(cut as u32)), "{cut}");
        }
    }
}
