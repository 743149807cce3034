//! The walk through Git's trees: trees and values of commits, newest first, each object once.
//!
//! A tree is compared with the version of the same path that was read last, so that only what differs is looked at:
//! the rest has its numbers already. Newest first is also the order in which Git packs objects, where an older
//! version is a delta against a newer one that was read just before.

use std::{cmp::Ordering, collections::HashMap};

use bristlecone::{
    EntryKind, Kind, Oid,
    core::git::{self, Algorithm},
};

use crate::history::{
    error::{Missing, Origin, TransferError},
    ids::Ids,
    objects::{Objects, read_as},
    pipeline::{
        channel::{Message, NO_NUMBER, Named, Sender, TreeBase},
        contract::{DEPTH_MAX, Existing, KEPT_TREES_BYTES_MAX, Meters, OutgoingCommit, Stopped, Walker},
        tree_diff::{KeptTree, Middle, differ, git_order, old_middle, same_sort},
    },
};

/// A walk, with the numbers of all objects that it met.
pub(crate) struct TreeWalk<'a, O> {
    pub(crate) objects: &'a O,
    pub(crate) algorithm: Algorithm,
    pub(crate) existing: &'a dyn Existing,
    pub(crate) ids: Ids,
    // Numbers below were given before this transfer began.
    pub(crate) first: u32,
    // What the others are of; nothing for what is missing.
    kinds: Vec<Option<Kind>>,
    pub(crate) sender: Sender,
    pub(crate) meters: &'a Meters,
    /// Whether missing objects are left out and the rest is transferred.
    pub(crate) skip: bool,
    // The commit whose tree is walked, and the path in it.
    commit: Option<Oid>,
    path: Vec<u8>,
    kept: Option<Box<KeptTree>>,
    kept_bytes: usize,
}

impl<'a, O: Objects> TreeWalk<'a, O> {
    pub(crate) fn new(
        objects: &'a O,
        algorithm: Algorithm,
        existing: &'a dyn Existing,
        ids: Ids,
        sender: Sender,
        meters: &'a Meters,
        skip: bool,
    ) -> Self {
        Self {
            first: ids.len(),
            kinds: Vec::new(),
            objects,
            algorithm,
            existing,
            ids,
            sender,
            meters,
            skip,
            commit: None,
            path: Vec::new(),
            kept: None,
            kept_bytes: 0,
        }
    }
}

impl<O: Objects> Walker for TreeWalk<'_, O> {
    fn sender(&mut self) -> &mut Sender {
        &mut self.sender
    }

    fn commit_tree(&mut self, commit: &Oid, oid: &Oid) -> Result<u32, Stopped> {
        self.commit = Some(*commit);
        let mut kept = self.kept.take();
        let number = self.tree(oid, &mut kept)?;
        self.commit = None;
        self.kept = kept;
        if self.kept_bytes > KEPT_TREES_BYTES_MAX {
            (self.kept, self.kept_bytes) = (None, 0);
        }
        Ok(number)
    }

    fn lone_tree(&mut self, oid: &Oid) -> Result<u32, Stopped> {
        self.tree(oid, &mut None)
    }

    fn lone_blob(&mut self, oid: &Oid) -> Result<u32, Stopped> {
        if let Some(number) = self.known(oid, Some(Kind::Contents))? {
            self.sender.send(Message::Whole { number })?;
            return Ok(number);
        }
        self.blob(oid, NO_NUMBER, true)
    }

    fn known(&self, oid: &Oid, kind: Option<Kind>) -> Result<Option<u32>, Stopped> {
        let Some(number) = self.ids.get(oid)? else { return Ok(None) };
        match (number.checked_sub(self.first), kind) {
            (None, Some(kind)) => self.existing.confirm(number, kind)?,
            (None, None) => return Ok(None),
            // One that is missing is missing whatever it should be.
            (Some(place), _) => {
                let found = self.kinds.get(place as usize).copied().flatten();
                if found.is_some() && found != kind {
                    // No object is of two kinds.
                    return kind.map_or(Ok(None), |kind| Err(self.is_other(oid, kind)));
                }
            }
        }
        Ok(Some(number))
    }

    fn missing(&mut self, kind: Kind, oid: &Oid, damage: Option<String>, from: Origin) -> Result<u32, Stopped> {
        let missing = Missing { kind, oid: *oid, damage, from };
        // What is there as something else has a number already.
        if !self.skip || self.ids.get(oid)?.is_some() {
            return Err(TransferError::Missing(Box::new(missing)).into());
        }
        let number = self.insert(oid, None)?;
        self.sender.send(Message::Missing { number, missing })?;
        Ok(number)
    }

    fn commit_existing(&mut self, number: u32, oid: &Oid) -> Result<(), Stopped> {
        Ok(self.sender.send(Message::CommitExisting { number, oid: *oid })?)
    }

    fn commit(&mut self, commit: OutgoingCommit) -> Result<(), Stopped> {
        let OutgoingCommit { number, oid, raw, tree, parents, shallow } = commit;
        Ok(self.sender.send(Message::Commit { number, oid, raw, tree, parents, shallow })?)
    }

    fn tag(&mut self, oid: &Oid, raw: Vec<u8>, target: Named) -> Result<u32, Stopped> {
        let number = self.insert(oid, Some(Kind::Tag))?;
        let existing = self.existing.find(Kind::Tag, oid)?;
        self.sender.send(Message::Tag { number, oid: *oid, raw, target, existing })?;
        Ok(number)
    }

    fn git_oid(&self, _: Named, oid: &Oid) -> Result<Oid, Stopped> {
        Ok(*oid)
    }
}

impl<O: Objects> TreeWalk<'_, O> {
    fn origin(&self) -> Origin {
        let path = self.path.strip_suffix(b"/").unwrap_or(&self.path).to_vec();
        match self.commit {
            Some(oid) => Origin::Path(oid, path),
            None => Origin::Tree(path),
        }
    }

    /// Gives an object its number.
    fn insert(&mut self, oid: &Oid, kind: Option<Kind>) -> Result<u32, Stopped> {
        let number = self.ids.insert(oid)?;
        self.kinds.push(kind);
        Ok(number)
    }

    /// Returns the error of an object that was met as one of another kind.
    fn is_other(&self, oid: &Oid, kind: Kind) -> Stopped {
        let damage = Some(format!("it is no {}", git::type_name(kind).unwrap_or("object")));
        TransferError::Missing(Box::new(Missing { kind, oid: *oid, damage, from: self.origin() })).into()
    }

    fn blob(&mut self, oid: &Oid, base: u32, whole: bool) -> Result<u32, Stopped> {
        if let Some(number) = self.known(oid, Some(Kind::Contents))? {
            return Ok(number);
        }
        if let Some(at) = self.existing.find(Kind::Contents, oid)? {
            let number = self.insert(oid, Some(Kind::Contents))?;
            self.sender.send(Message::Existing { number, at, children: Vec::new() })?;
            return Ok(number);
        }
        let mut raw = Vec::new();
        if let Err(damage) = read_as(self.objects, oid, Kind::Contents, &mut raw)? {
            return self.missing(Kind::Contents, oid, damage, self.origin());
        }
        let number = self.insert(oid, Some(Kind::Contents))?;
        self.meters.object(raw.len());
        let from = self.commit;
        self.sender.send(Message::Blob { number, oid: *oid, raw, base, whole, from })?;
        Ok(number)
    }

    /// Walks a tree unless it was met before; `kept` is the version of the same path that was read last, and
    /// becomes this one.
    fn tree(&mut self, oid: &Oid, kept: &mut Option<Box<KeptTree>>) -> Result<u32, Stopped> {
        if let Some(number) = self.known(oid, Some(Kind::Node))? {
            return Ok(number);
        }
        let existing = self.existing.find(Kind::Node, oid)?;
        if let Some(at) = existing.filter(|_| self.existing.closed()) {
            let number = self.insert(oid, Some(Kind::Node))?;
            self.sender.send(Message::Existing { number, at, children: Vec::new() })?;
            return Ok(number);
        }
        if self.path.iter().filter(|&&byte| byte == b'/').count() > DEPTH_MAX {
            let reason = format!("directories are nested more than {DEPTH_MAX} deep");
            return Err(TransferError::refused(format!("the tree {oid}"), reason).into());
        }
        let mut raw = Vec::new();
        if let Err(damage) = read_as(self.objects, oid, Kind::Node, &mut raw)? {
            return self.missing(Kind::Node, oid, damage, self.origin());
        }
        if raw.len() > u32::MAX as usize / 2 {
            return Err(TransferError::refused(format!("the tree {oid}"), "it has more than 2 GiB").into());
        }
        let mut old = kept.take();
        let mut starts = Vec::new();
        let middle = match differ(self.algorithm, old.as_deref(), &raw, &mut starts) {
            Ok(middle) => middle,
            Err(wrong) => return self.missing(Kind::Node, oid, Some(wrong.to_string()), self.origin()),
        };
        let before = old.as_ref().map_or(0, |old| old.own_bytes());
        let mut below = old.as_mut().map(|old| std::mem::take(&mut old.below)).unwrap_or_default();
        let numbers = self.children(old.as_deref(), &mut below, &raw, &starts, &middle)?;
        let number = self.insert(oid, Some(Kind::Node))?;
        self.meters.object(raw.len());
        let from = self.commit;
        self.sender.send(match existing {
            Some(at) => Message::Existing { number, at, children: numbers.clone() },
            None => Message::Tree {
                number,
                oid: *oid,
                raw: raw.clone(),
                children: numbers.clone(),
                base: old.map(|old| TreeBase {
                    number: old.number,
                    changed: middle.new.start as u32..middle.new.end as u32,
                    replaced: old.raw[middle.old_bytes].to_vec(),
                }),
                from,
            },
        })?;
        let now = KeptTree { number, raw, starts, numbers, below };
        self.kept_bytes = (self.kept_bytes + now.own_bytes()).saturating_sub(before);
        *kept = Some(Box::new(now));
        Ok(number)
    }

    /// Returns the numbers of a tree's objects; those of the entries in the middle are walked or read.
    fn children(
        &mut self,
        old: Option<&KeptTree>,
        below: &mut HashMap<Box<[u8]>, Box<KeptTree>>,
        raw: &[u8],
        starts: &[u32],
        middle: &Middle,
    ) -> Result<Vec<u32>, Stopped> {
        let mut numbers = Vec::with_capacity(starts.len());
        let old_numbers = old.map_or(&[][..], |old| &old.numbers);
        numbers.extend_from_slice(&old_numbers[..middle.new.start]);
        let mut gone = old_middle(self.algorithm, old, middle).peekable();
        let first = starts.get(middle.new.start).map_or(raw.len(), |&start| start as usize);
        for entry in git::raw_entries(self.algorithm, &raw[first..]).take(middle.new.len()) {
            let entry = entry.map_err(|source| broken(&source))?;
            let (kind, name) = (entry.kind(), entry.name);
            // Both lists are in one order, so a name that was passed does not come again, unless a directory became a
            // file or the other way round; then there is nothing to compare with.
            let mut replaced = None;
            while let Some((before, number, bytes)) = gone.peek() {
                match git_order((before, bytes.kind() == EntryKind::Dir), (name, kind == EntryKind::Dir)) {
                    Ordering::Less => {
                        self.forget(below, before);
                        gone.next();
                    }
                    Ordering::Equal => {
                        replaced = Some((*number, *bytes));
                        gone.next();
                        break;
                    }
                    Ordering::Greater => break,
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
        below: &mut HashMap<Box<[u8]>, Box<KeptTree>>,
    ) -> Result<u32, Stopped> {
        let depth = self.path.len();
        let oid = entry.oid();
        let number = match entry.kind() {
            EntryKind::Foreign => return Ok(NO_NUMBER),
            EntryKind::Dir => {
                if let Some(number) = self.known(&oid, Some(Kind::Node))? {
                    return Ok(number);
                }
                self.path.extend_from_slice(entry.name);
                self.path.push(b'/');
                let mut kept = below.remove(entry.name);
                let number = self.tree(&oid, &mut kept)?;
                if let Some(kept) = kept {
                    below.insert(entry.name.into(), kept);
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

    /// Forgets a directory that the newer tree does not have.
    fn forget(&mut self, below: &mut HashMap<Box<[u8]>, Box<KeptTree>>, name: &[u8]) {
        if let Some(gone) = below.remove(name) {
            self.kept_bytes = self.kept_bytes.saturating_sub(gone.bytes());
        }
    }
}

fn broken(source: &bristlecone::core::DecodeError) -> TransferError {
    TransferError::refused("a tree", source)
}
