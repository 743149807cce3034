//! The walk through a `native` store: which of its objects were met, and which of Git's objects they are.

use std::{
    collections::{HashMap, HashSet},
    sync::{Mutex, PoisonError},
};

use bristlecone::{
    CommitId, Error, Format, Kind, Native, ObjRef, Oid,
    core::{
        FormatError, Source,
        git::{self, Git},
    },
};

use super::exported::Exported;
use crate::history::{
    canonical::{commit_bytes, is_respelled, kind_in_git, tag_bytes, take_raw},
    error::{Missing, Origin, TransferError},
    ids::Ids,
    pipeline::{
        channel::{Message, NO_NUMBER, Named, Sender, TreeBase},
        contract::{Existing, KEPT_TREES_BYTES_MAX, Meters, OutgoingCommit, Stopped, Walker},
        graph::has_all,
    },
    report::Respelled,
    staging::Staging,
    table::Table,
};

/// A directory of which Git's bytes were made, with those below it.
pub(super) struct KeptDir {
    pub(super) number: u32,
    pub(super) root: ObjRef,
    pub(super) raw: Vec<u8>,
    pub(super) below: HashMap<Box<[u8]>, Box<KeptDir>>,
}

impl KeptDir {
    pub(super) fn bytes(&self) -> usize {
        self.raw.capacity() + 160
    }
}

/// The thread's state.
pub(super) struct NativeWalk<'a> {
    pub(super) native: Native,
    pub(super) git: Git,
    pub(super) source: Staging,
    pub(super) existing: &'a dyn Existing,
    pub(super) exported: &'a Exported,
    // Native objects that were met, and the numbers of what Git has for them.
    pub(super) natives: Ids,
    pub(super) numbers: Vec<u32>,
    // Git's objects; commits, too, of which two of the store may be one in Git.
    pub(super) gits: Ids,
    // Git's ids of commits, by their numbers.
    pub(super) commits: Table,
    pub(super) shallow: &'a HashSet<Oid>,
    pub(super) respelled: &'a Mutex<Respelled>,
    pub(super) sender: Sender,
    pub(super) meters: &'a Meters,
    pub(super) commit: Option<Oid>,
    pub(super) path: Vec<u8>,
    pub(super) kept: Option<Box<KeptDir>>,
    pub(super) kept_bytes: usize,
}

impl NativeWalk<'_> {
    pub(super) fn note(&mut self, native: &Oid, number: u32) -> Result<(), Stopped> {
        self.natives.insert(native)?;
        self.numbers.push(number);
        Ok(())
    }

    pub(super) fn refused(&self, reason: impl std::fmt::Display) -> Stopped {
        let path = bristlecone::escape(self.path.strip_suffix(b"/").unwrap_or(&self.path));
        let commit = self.commit.map(|oid| format!(" of commit {oid}")).unwrap_or_default();
        TransferError::refused(format!("\"{path}\"{commit}"), reason).into()
    }

    /// Sends an object of Git unless that was done, and returns its number.
    pub(super) fn send(&mut self, kind: Kind, raw: Vec<u8>, base: u32) -> Result<u32, Stopped> {
        let oid = self.git.algorithm().object_id(kind, &raw);
        if let Some(number) = self.gits.get(&oid)? {
            return Ok(number);
        }
        let number = self.gits.insert(&oid)?;
        self.meters.object(raw.len());
        let from = self.commit;
        self.sender.send(match self.existing.find(kind, &oid)? {
            Some(at) => Message::Existing { number, at, children: Vec::new() },
            None if kind == Kind::Contents => Message::Blob { number, oid, raw, base, whole: false, from },
            None => {
                let base = (base != NO_NUMBER).then(|| TreeBase { number: base, changed: 0..0, replaced: Vec::new() });
                Message::Tree { number, oid, raw, children: Vec::new(), base, from }
            }
        })?;
        Ok(number)
    }

    pub(super) fn value(&mut self, at: &ObjRef, base: u32) -> Result<u32, Stopped> {
        if let Some(number) = self.known(&at.oid, None)? {
            return Ok(number);
        }
        let raw = self.native.read_contents(&self.source, at, 0..u64::MAX)?.to_vec();
        let number = self.send(Kind::Contents, raw, base)?;
        self.note(&at.oid, number)?;
        Ok(number)
    }

    fn count_respelled(&self, commit: Option<CommitId>, place: impl FnOnce() -> String) {
        self.respelled.lock().unwrap_or_else(PoisonError::into_inner).add(commit, place);
    }

    fn commit_oid(&self, number: u32) -> Result<Oid, Stopped> {
        let mut bytes = [0; Oid::BYTES_MAX];
        let bytes = &mut bytes[..self.git.algorithm().oid_bytes()];
        self.commits.read(number, bytes)?;
        Ok(Oid::new(bytes).expect("ids have a valid length"))
    }
}

impl Walker for NativeWalk<'_> {
    fn sender(&mut self) -> &mut Sender {
        &mut self.sender
    }

    fn commit_tree(&mut self, commit: &Oid, tree: &Oid) -> Result<u32, Stopped> {
        self.commit = Some(*commit);
        let mut kept = self.kept.take();
        let number = self.dir(&ObjRef::from(*tree), &mut kept)?;
        (self.commit, self.kept) = (None, kept);
        if self.kept_bytes > KEPT_TREES_BYTES_MAX {
            (self.kept, self.kept_bytes) = (None, 0);
        }
        Ok(number)
    }

    fn lone_tree(&mut self, oid: &Oid) -> Result<u32, Stopped> {
        self.dir(&ObjRef::from(*oid), &mut None)
    }

    fn lone_blob(&mut self, oid: &Oid) -> Result<u32, Stopped> {
        self.value(&ObjRef::from(*oid), NO_NUMBER)
    }

    fn known(&self, oid: &Oid, _: Option<Kind>) -> Result<Option<u32>, Stopped> {
        Ok(self.natives.get(oid)?.map(|index| self.numbers[index as usize]))
    }

    fn missing(&mut self, kind: Kind, oid: &Oid, damage: Option<String>, from: Origin) -> Result<u32, Stopped> {
        let missing = Missing { kind, oid: *oid, damage, from };
        Err(TransferError::Missing(Box::new(missing)).into())
    }

    fn commit_existing(&mut self, number: u32, oid: &Oid) -> Result<(), Stopped> {
        let oid = self.exported.git_oid(oid)?;
        self.commits.set(number, oid.as_bytes())?;
        Ok(self.sender.send(Message::CommitExisting { number, oid })?)
    }

    fn commit(&mut self, commit: OutgoingCommit) -> Result<(), Stopped> {
        let object = self.source.read(Kind::Commit, &ObjRef::from(commit.oid))?;
        let bad = |source: FormatError| Error::BadObject { oid: commit.oid, source };
        let mut decoded = self.native.decode_commit(&object).map_err(bad)?;
        let kept = take_raw(&mut decoded.headers);
        decoded.tree = self.gits.oid(commit.tree)?.into();
        decoded.parents = Vec::with_capacity(commit.parents.len());
        for &parent in &commit.parents {
            decoded.parents.push(self.commit_oid(parent)?.into());
        }
        let (mut shallow, mut respelled) = (commit.shallow, Vec::new());
        let (oid, raw) = match kept {
            Some(raw) => {
                let oid = self.git.algorithm().object_id(Kind::Commit, &raw);
                let kept = git::decode_commit(self.git.algorithm(), &raw)
                    .map_err(|wrong| TransferError::refused(format!("the commit {}", commit.oid), wrong))?;
                let never_fetched = decoded.parents.is_empty() && self.shallow.contains(&oid);
                let parents =
                    kept.parents == decoded.parents || decoded.parents.is_empty() && (shallow || never_fetched);
                if kept.tree != decoded.tree || !parents {
                    let reason = "the bytes that Git had of it name another tree or other parents";
                    return Err(TransferError::refused(format!("the commit {}", commit.oid), reason).into());
                }
                let parents: Vec<Oid> = kept.parents.iter().map(|parent| parent.oid()).collect();
                // Where the repository has all parents, it would lose them from its history.
                shallow = (shallow || never_fetched) && !has_all(self.existing, &parents)?;
                (oid, raw)
            }
            None => {
                let people = [&decoded.author, &decoded.committer].into_iter();
                respelled.extend(people.filter(|who| is_respelled(self.git, who)).map(|who| who.ident.clone()));
                commit_bytes(self.git, decoded)
                    .map_err(|wrong| TransferError::refused(format!("the commit {}", commit.oid), wrong))?
            }
        };
        self.commits.set(commit.number, oid.as_bytes())?;
        let OutgoingCommit { number, tree, parents, oid: native, .. } = commit;
        let is_sent = self.gits.get(&oid)?.is_some();
        Ok(self.sender.send(if is_sent || self.existing.commit(number, &oid)? {
            Message::CommitExisting { number, oid }
        } else {
            self.gits.insert(&oid)?;
            for name in respelled {
                self.count_respelled(Some(CommitId::new(native)), || bristlecone::escape(&name));
            }
            Message::Commit { number, oid, raw, tree, parents, shallow }
        })?)
    }

    fn tag(&mut self, oid: &Oid, _: Vec<u8>, target: Named) -> Result<u32, Stopped> {
        let object = self.source.read(Kind::Tag, &ObjRef::from(*oid))?;
        let mut tag = self.native.decode_tag(&object).map_err(|source| Error::BadObject { oid: *oid, source })?;
        drop(object);
        let kept = take_raw(&mut tag.headers);
        (tag.target, tag.kind) = (ObjRef::from(self.git_oid(target, oid)?), kind_in_git(tag.kind));
        let refused = |wrong: &dyn std::fmt::Display| TransferError::refused(format!("the tag {oid}"), wrong);
        let mut respelled = None;
        let (git_oid, raw) = match kept {
            Some(raw) => {
                let kept = git::decode_tag(self.git.algorithm(), &raw).map_err(|wrong| refused(&wrong))?;
                if kept.target != tag.target || kept.kind != tag.kind {
                    return Err(refused(&"the bytes that Git had of it name another object").into());
                }
                (self.git.algorithm().object_id(Kind::Tag, &raw), raw)
            }
            None => {
                let tagger = tag.tagger.as_ref().filter(|who| is_respelled(self.git, who));
                let of = |name: &[u8]| format!("{} of {}", bristlecone::escape(name), bristlecone::escape(&tag.name));
                respelled = tagger.map(|who| of(&who.ident));
                tag_bytes(self.git, tag).map_err(|wrong| refused(&wrong))?
            }
        };
        let number = match self.gits.get(&git_oid)? {
            Some(number) => number,
            None => {
                let number = self.gits.insert(&git_oid)?;
                let existing = self.existing.find(Kind::Tag, &git_oid)?;
                if let (None, Some(place)) = (existing, respelled) {
                    self.count_respelled(None, || place);
                }
                self.sender.send(Message::Tag { number, oid: git_oid, raw, target, existing })?;
                number
            }
        };
        self.note(oid, number)?;
        Ok(number)
    }

    fn git_oid(&self, named: Named, _: &Oid) -> Result<Oid, Stopped> {
        match named {
            Named::Commit(number) => self.commit_oid(number),
            Named::Tree(number) | Named::Blob(number) | Named::Tag(number) => Ok(self.gits.oid(number)?),
        }
    }
}
