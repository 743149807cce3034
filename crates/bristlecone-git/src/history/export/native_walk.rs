//! The walk through a `native` store: which of its objects were met, and which of Git's objects they are.

use std::collections::{HashMap, HashSet};

use bristlecone::{
    Error, Format, Kind, Native, ObjRef, Oid,
    core::{
        FormatError, Source,
        git::{self, Git},
    },
};

use super::exported::Exported;
use crate::history::{
    canonical::{commit_bytes, tag_bytes, take_raw},
    error::{Lost, Origin, TransferError},
    ids::Ids,
    pipeline::{
        channel::{Base, Message, NO_NUMBER, Named, Outlet},
        contract::{CommitOut, Halt, Meters, SHADOW_BYTES_MAX, There, Walker},
    },
    staging::Pool,
    table::Table,
};

/// A directory of which Git's bytes were made, with those below it.
pub(super) struct Shadow {
    pub(super) number: u32,
    pub(super) root: ObjRef,
    pub(super) raw: Vec<u8>,
    pub(super) below: HashMap<Box<[u8]>, Box<Shadow>>,
}

impl Shadow {
    pub(super) fn bytes(&self) -> usize {
        self.raw.capacity() + 160
    }
}

/// The thread's state.
pub(super) struct WalkNative<'a> {
    pub(super) native: Native,
    pub(super) git: Git,
    pub(super) source: Pool,
    pub(super) there: &'a dyn There,
    pub(super) exported: &'a Exported,
    // Native objects that were met, and the numbers of what Git has for them.
    pub(super) natives: Ids,
    pub(super) numbers: Vec<u32>,
    // Git's objects.
    pub(super) gits: Ids,
    // Git's ids of commits, by their numbers.
    pub(super) commits: Table,
    pub(super) cut: &'a HashSet<Oid>,
    pub(super) outlet: Outlet,
    pub(super) meters: &'a Meters,
    pub(super) commit: Option<Oid>,
    pub(super) path: Vec<u8>,
    pub(super) shadow: Option<Box<Shadow>>,
    pub(super) shadow_bytes: usize,
}

impl WalkNative<'_> {
    pub(super) fn note(&mut self, native: &Oid, number: u32) -> Result<(), Halt> {
        self.natives.insert(native)?;
        self.numbers.push(number);
        Ok(())
    }

    pub(super) fn refused(&self, reason: impl std::fmt::Display) -> Halt {
        let path = bristlecone::escape(self.path.strip_suffix(b"/").unwrap_or(&self.path));
        let commit = self.commit.map(|oid| format!(" of commit {oid}")).unwrap_or_default();
        TransferError::refused(format!("\"{path}\"{commit}"), reason).into()
    }

    /// Sends an object of Git unless that was done, and returns its number.
    pub(super) fn send(&mut self, kind: Kind, raw: Vec<u8>, base: u32) -> Result<u32, Halt> {
        let oid = self.git.algorithm().object_id(kind, &raw);
        if let Some(number) = self.gits.get(&oid)? {
            return Ok(number);
        }
        let number = self.gits.insert(&oid)?;
        self.meters.object(raw.len());
        let from = self.commit;
        self.outlet.send(match self.there.find(kind, &oid)? {
            Some(at) => Message::There { number, at, children: Vec::new() },
            None if kind == Kind::Contents => Message::Blob { number, oid, raw, base, whole: false, from },
            None => {
                let base = (base != NO_NUMBER).then(|| Base { number: base, changed: 0..0, replaced: Vec::new() });
                Message::Tree { number, oid, raw, children: Vec::new(), base, from }
            }
        })?;
        Ok(number)
    }

    pub(super) fn value(&mut self, at: &ObjRef, base: u32) -> Result<u32, Halt> {
        if let Some(number) = self.known(&at.oid)? {
            return Ok(number);
        }
        let raw = self.native.read_contents(&self.source, at, 0..u64::MAX)?.to_vec();
        let number = self.send(Kind::Contents, raw, base)?;
        self.note(&at.oid, number)?;
        Ok(number)
    }

    fn commit_oid(&self, number: u32) -> Result<Oid, Halt> {
        let mut bytes = [0; Oid::BYTES_MAX];
        let bytes = &mut bytes[..self.git.algorithm().oid_bytes()];
        self.commits.read(number, bytes)?;
        Ok(Oid::new(bytes).expect("ids have a valid length"))
    }
}

impl Walker for WalkNative<'_> {
    fn outlet(&mut self) -> &mut Outlet {
        &mut self.outlet
    }

    fn commit_tree(&mut self, commit: &Oid, tree: &Oid) -> Result<u32, Halt> {
        self.commit = Some(*commit);
        let mut shadow = self.shadow.take();
        let number = self.dir(&ObjRef::from(*tree), &mut shadow)?;
        (self.commit, self.shadow) = (None, shadow);
        if self.shadow_bytes > SHADOW_BYTES_MAX {
            (self.shadow, self.shadow_bytes) = (None, 0);
        }
        Ok(number)
    }

    fn lone_tree(&mut self, oid: &Oid) -> Result<u32, Halt> {
        self.dir(&ObjRef::from(*oid), &mut None)
    }

    fn lone_blob(&mut self, oid: &Oid) -> Result<u32, Halt> {
        self.value(&ObjRef::from(*oid), NO_NUMBER)
    }

    fn known(&self, oid: &Oid) -> Result<Option<u32>, Halt> {
        Ok(self.natives.get(oid)?.map(|index| self.numbers[index as usize]))
    }

    fn lost(&mut self, kind: Kind, oid: &Oid, damage: Option<String>, from: Origin) -> Result<u32, Halt> {
        let lost = Lost { kind, oid: *oid, damage, from };
        Err(TransferError::Lost(Box::new(lost)).into())
    }

    fn commit_there(&mut self, number: u32, oid: &Oid) -> Result<(), Halt> {
        let oid = self.exported.git_oid(oid)?;
        self.commits.set(number, oid.as_bytes())?;
        Ok(self.outlet.send(Message::CommitThere { number, oid })?)
    }

    fn commit(&mut self, commit: CommitOut) -> Result<(), Halt> {
        let object = self.source.read(Kind::Commit, &ObjRef::from(commit.oid))?;
        let bad = |source: FormatError| Error::BadObject { oid: commit.oid, source };
        let mut decoded = self.native.decode_commit(&object).map_err(bad)?;
        let kept = take_raw(&mut decoded.headers);
        decoded.tree = self.gits.oid(commit.tree)?.into();
        decoded.parents = Vec::with_capacity(commit.parents.len());
        for &parent in &commit.parents {
            decoded.parents.push(self.commit_oid(parent)?.into());
        }
        let (oid, raw) = match kept {
            Some(raw) => {
                let oid = self.git.algorithm().object_id(Kind::Commit, &raw);
                let kept = git::decode_commit(self.git.algorithm(), &raw)
                    .map_err(|wrong| TransferError::refused(format!("the commit {}", commit.oid), wrong))?;
                let parents =
                    kept.parents == decoded.parents || (decoded.parents.is_empty() && self.cut.contains(&oid));
                if kept.tree != decoded.tree || !parents {
                    let reason = "the bytes that Git had of it name another tree or other parents";
                    return Err(TransferError::refused(format!("the commit {}", commit.oid), reason).into());
                }
                (oid, raw)
            }
            None => commit_bytes(self.git, decoded)
                .map_err(|wrong| TransferError::refused(format!("the commit {}", commit.oid), wrong))?,
        };
        self.commits.set(commit.number, oid.as_bytes())?;
        let CommitOut { number, tree, parents, cut, .. } = commit;
        Ok(self.outlet.send(if self.there.commit(number, &oid)? {
            Message::CommitThere { number, oid }
        } else {
            Message::Commit { number, oid, raw, tree, parents, cut }
        })?)
    }

    fn tag(&mut self, oid: &Oid, _: Vec<u8>, target: Named) -> Result<u32, Halt> {
        let object = self.source.read(Kind::Tag, &ObjRef::from(*oid))?;
        let mut tag = self.native.decode_tag(&object).map_err(|source| Error::BadObject { oid: *oid, source })?;
        drop(object);
        let kept = take_raw(&mut tag.headers);
        tag.target = ObjRef::from(self.git_oid(target, oid)?);
        let refused = |wrong: &dyn std::fmt::Display| TransferError::refused(format!("the tag {oid}"), wrong);
        let (git_oid, raw) = match kept {
            Some(raw) => {
                let kept = git::decode_tag(self.git.algorithm(), &raw).map_err(|wrong| refused(&wrong))?;
                if kept.target != tag.target || kept.kind != tag.kind {
                    return Err(refused(&"the bytes that Git had of it name another object").into());
                }
                (self.git.algorithm().object_id(Kind::Tag, &raw), raw)
            }
            None => tag_bytes(self.git, tag).map_err(|wrong| refused(&wrong))?,
        };
        let number = match self.gits.get(&git_oid)? {
            Some(number) => number,
            None => {
                let number = self.gits.insert(&git_oid)?;
                let there = self.there.find(Kind::Tag, &git_oid)?;
                self.outlet.send(Message::Tag { number, oid: git_oid, raw, target, there })?;
                number
            }
        };
        self.note(oid, number)?;
        Ok(number)
    }

    fn git_oid(&self, named: Named, _: &Oid) -> Result<Oid, Halt> {
        match named {
            Named::Commit(number) => self.commit_oid(number),
            Named::Tree(number) | Named::Blob(number) | Named::Tag(number) => Ok(self.gits.oid(number)?),
        }
    }
}
