//! The thread that writes: it verifies what comes and gives it to the destination. It alone knows what is missing: an
//! object that leads to a missing one counts as missing, too, and is not written. So a destination that has an object
//! has all that it leads to.

use std::collections::{HashMap, HashSet};

use bristlecone::{Kind, ObjRef, Oid, core::git::Algorithm};

use super::{
    channel::{Message, Named, Receiver},
    contract::{HistoryWriter, IncomingCommit, IncomingTree},
    origin,
};
use crate::{
    history::{
        error::{Missing, Origin, TransferError},
        objects::Objects,
        report::{Counts, Respelled},
    },
    repository::hash::check_id,
};

/// How many missing objects are listed, at most.
const MISSING_MAX: usize = 10_000;

/// What came of a transfer.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    pub(crate) counts: Counts,
    /// What each tip leads to, in their order; the reason where it leads to something missing.
    pub(crate) tips: Vec<Result<ObjRef, Missing>>,
    pub(crate) missing: Vec<Missing>,
    pub(crate) missing_more: u64,
    /// Commits whose parents were never fetched.
    pub(crate) shallow: Vec<(Oid, ObjRef)>,
    /// Names that the walk through a store spells otherwise.
    pub(crate) respelled: Respelled,
}

/// The thread that writes.
pub(super) struct WriteThread<'t, 'o, T, O> {
    target: &'t mut T,
    algorithm: Algorithm,
    objects: &'o O,
    skip: bool,
    verify: bool,
    outcome: Outcome,
    // Numbers of what is missing, or leads to something missing.
    missing: HashSet<u32>,
    missing_commits: HashSet<u32>,
    shallow: Vec<(Oid, u32)>,
    // For each of those, the index in `outcome.missing` of an object that it leads to; commits have `OF_COMMITS` set.
    roots: HashMap<u64, usize>,
}

/// Tells the numbers of commits from others.
const OF_COMMITS: u64 = 1 << 32;

impl<'t, 'o, T: HistoryWriter, O: Objects> WriteThread<'t, 'o, T, O> {
    /// Returns a writer that has nothing yet. `verify`: ids are checked against bytes.
    pub(super) fn new(target: &'t mut T, objects: &'o O, algorithm: Algorithm, skip: bool, verify: bool) -> Self {
        Self {
            target,
            algorithm,
            objects,
            skip,
            verify,
            outcome: Outcome::default(),
            missing: HashSet::new(),
            missing_commits: HashSet::new(),
            shallow: Vec::new(),
            roots: HashMap::new(),
        }
    }

    /// Makes everything durable once both threads have ended; `named` is what each tip leads to, with Git's id of it.
    pub(super) fn finish(mut self, named: Vec<(Named, Oid)>) -> Result<Outcome, TransferError> {
        self.target.finish()?;
        for (oid, number) in std::mem::take(&mut self.shallow) {
            let at = self.target.named(Named::Commit(number), &oid)?;
            self.outcome.shallow.push((oid, at));
        }
        for (named, oid) in named {
            let tip = self.tip(named, &oid)?;
            self.outcome.tips.push(tip);
        }
        Ok(self.outcome)
    }

    pub(super) fn run(&mut self, receiver: Receiver) -> Result<(), TransferError> {
        receiver.drain(|message| self.take(message))
    }

    fn take(&mut self, message: Message) -> Result<(), TransferError> {
        match message {
            Message::Blob { number, oid, raw, base, whole, from } => {
                if self.has_valid_id(number, Kind::Contents, &oid, &raw, from)? {
                    self.outcome.counts.blobs += 1;
                    self.outcome.counts.bytes += raw.len() as u64;
                    self.target.blob(number, &oid, raw, base, whole)?;
                }
                Ok(())
            }
            Message::Tree { number, oid, raw, children, base, from } => {
                if self.has_valid_id(number, Kind::Node, &oid, &raw, from)? && self.whole(u64::from(number), &children)
                {
                    // What was left out may have been in the newer version.
                    let base = base.as_ref().filter(|base| !self.missing.contains(&base.number));
                    let tree = IncomingTree { number, oid: &oid, raw: &raw, children: &children, base, from };
                    match self.target.tree(tree)? {
                        Ok(()) => {
                            self.outcome.counts.trees += 1;
                            self.outcome.counts.bytes += raw.len() as u64;
                        }
                        Err(damage) => self.note_missing(u64::from(number), Kind::Node, &oid, Some(damage), from)?,
                    }
                }
                Ok(())
            }
            Message::Existing { number, at, children } => {
                if self.whole(u64::from(number), &children) {
                    self.target.existing(number, at)
                } else {
                    Ok(())
                }
            }
            Message::Missing { number, missing } => self.add_missing(u64::from(number), missing),
            Message::Commit { number, oid, raw, tree, parents, shallow } => {
                self.commit(number, &oid, &raw, tree, &parents, shallow)
            }
            Message::CommitExisting { number, oid } => self.target.commit_existing(number, &oid),
            Message::CommitMissing { number, missing } => self.add_missing(OF_COMMITS | u64::from(number), missing),
            Message::Tag { number, oid, raw, target, existing } => {
                if self.has_valid_id(number, Kind::Tag, &oid, &raw, None)? {
                    if let Some(&root) = self.root_of(target) {
                        self.leads(u64::from(number), root);
                        return Ok(());
                    }
                    if let Some(at) = existing {
                        return self.target.existing(number, at);
                    }
                    match self.target.tag(number, &oid, &raw, target)? {
                        Ok(()) => {
                            self.outcome.counts.tags += 1;
                            self.outcome.counts.bytes += raw.len() as u64;
                        }
                        Err(damage) => self.note_missing(u64::from(number), Kind::Tag, &oid, Some(damage), None)?,
                    }
                }
                Ok(())
            }
            Message::Whole { number } if self.missing.contains(&number) => Ok(()),
            Message::Whole { number } => self.target.whole(number),
        }
    }

    fn commit(
        &mut self,
        number: u32,
        oid: &Oid,
        raw: &[u8],
        tree: u32,
        parents: &[u32],
        shallow: bool,
    ) -> Result<(), TransferError> {
        let key = OF_COMMITS | u64::from(number);
        if self.verify
            && let Err(damage) = check_id(self.algorithm, oid, Kind::Commit, raw)
        {
            return self.note_missing(key, Kind::Commit, oid, Some(damage), None);
        }
        let tree_root = self.roots.get(&u64::from(tree)).copied();
        let root = tree_root.or_else(|| {
            let mut above = parents.iter().filter(|parent| self.missing_commits.contains(parent));
            above.find_map(|&parent| self.roots.get(&(OF_COMMITS | u64::from(parent))).copied())
        });
        if let Some(root) = root {
            self.leads(key, root);
            return Ok(());
        }
        match self.target.commit(IncomingCommit { number, oid, raw, tree, parents, shallow })? {
            Ok(()) => {
                if shallow {
                    self.shallow.push((*oid, number));
                }
                self.outcome.counts.commits += 1;
                self.outcome.counts.bytes += raw.len() as u64;
                Ok(())
            }
            Err(damage) => self.note_missing(key, Kind::Commit, oid, Some(damage), None),
        }
    }

    /// Whether the bytes have this id.
    fn has_valid_id(
        &mut self,
        number: u32,
        kind: Kind,
        oid: &Oid,
        raw: &[u8],
        from: Option<Oid>,
    ) -> Result<bool, TransferError> {
        if !self.verify {
            return Ok(true);
        }
        match check_id(self.algorithm, oid, kind, raw) {
            Ok(()) => Ok(true),
            Err(damage) => {
                self.note_missing(u64::from(number), kind, oid, Some(damage), from)?;
                Ok(false)
            }
        }
    }

    /// Whether none of the children is missing; else what holds them counts as missing.
    fn whole(&mut self, key: u64, children: &[u32]) -> bool {
        if self.missing.is_empty() {
            return true;
        }
        let Some(child) = children.iter().find(|child| self.missing.contains(child)) else { return true };
        let root = self.roots[&u64::from(*child)];
        self.leads(key, root);
        false
    }

    fn leads(&mut self, key: u64, root: usize) {
        self.roots.insert(key, root);
        if key & OF_COMMITS == 0 {
            self.missing.insert(key as u32)
        } else {
            self.missing_commits.insert(key as u32)
        };
    }

    fn root_of(&self, named: Named) -> Option<&usize> {
        self.roots.get(&match named {
            Named::Commit(number) => OF_COMMITS | u64::from(number),
            Named::Tree(number) | Named::Blob(number) | Named::Tag(number) => u64::from(number),
        })
    }

    /// Notes an object that turned out to be damaged, and finds where in its commit it is.
    fn note_missing(
        &mut self,
        key: u64,
        kind: Kind,
        oid: &Oid,
        damage: Option<String>,
        from: Option<Oid>,
    ) -> Result<(), TransferError> {
        let from = match kind {
            Kind::Commit | Kind::Tag => Origin::History,
            _ => origin::origin(self.objects, self.algorithm, from.as_ref(), oid),
        };
        self.add_missing(key, Missing { kind, oid: *oid, damage, from })
    }

    fn add_missing(&mut self, key: u64, missing: Missing) -> Result<(), TransferError> {
        if !self.skip {
            return Err(TransferError::Missing(Box::new(missing)));
        }
        if self.outcome.missing.len() < MISSING_MAX {
            self.outcome.missing.push(missing);
        } else {
            self.outcome.missing_more += 1;
        }
        let root = self.outcome.missing.len() - 1;
        self.leads(key, root);
        Ok(())
    }

    fn tip(&mut self, named: Named, oid: &Oid) -> Result<Result<ObjRef, Missing>, TransferError> {
        if let Some(&root) = self.root_of(named) {
            return Ok(Err(self.outcome.missing[root].clone()));
        }
        self.target.named(named, oid).map(Ok)
    }
}
