//! The thread that reads: trees and values of commits, newest first, each object once.
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
    error::{Lost, Origin, TransferError},
    ids::Ids,
    objects::{Objects, read_as},
    pipeline::{
        channel::{Base, Message, NO_NUMBER, Named, Outlet},
        contract::{CommitOut, DEPTH_MAX, Halt, Meters, SHADOW_BYTES_MAX, There, Walker},
        tree_diff::{Middle, Shadow, differ, git_order, old_middle, same_sort},
    },
};

/// The thread's state.
pub(crate) struct Walk<'a, O> {
    pub(crate) objects: &'a O,
    pub(crate) algorithm: Algorithm,
    pub(crate) there: &'a dyn There,
    pub(crate) ids: Ids,
    // Numbers below were given before this transfer began.
    pub(crate) first: u32,
    pub(crate) outlet: Outlet,
    pub(crate) meters: &'a Meters,
    /// Whether the rest comes without what is missing.
    pub(crate) skip: bool,
    // The commit whose tree is walked, and the path in it.
    commit: Option<Oid>,
    path: Vec<u8>,
    shadow: Option<Box<Shadow>>,
    shadow_bytes: usize,
}

impl<'a, O: Objects> Walk<'a, O> {
    pub(crate) fn new(
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
        if let Err(damage) = read_as(self.objects, oid, Kind::Contents, &mut raw)? {
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
        if let Err(damage) = read_as(self.objects, oid, Kind::Node, &mut raw)? {
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
