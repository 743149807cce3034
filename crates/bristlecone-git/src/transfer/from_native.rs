//! Out of a store of the format `native`: Git's bytes of every object, made again.
//!
//! As trees of Git are walked, newest first, each compared with the version of the same path that was made before:
//! what differs between two directories is told by the format, and their bytes are spliced.

use std::{collections::HashMap, collections::HashSet, sync::Arc};

use bristlecone::{
    Backend, EntryKind, Error, Format, Kind, Location, Native, ObjRef, Oid, Result, Snapshot,
    core::{
        Direction, Entry, FormatError, Source, Target as Bound,
        git::{self, Algorithm, Git},
    },
};

use super::{
    Status,
    canonical::{commit_bytes, tag_bytes, take_raw},
    channel::{Base, Message, NO_NUMBER, Named, Outlet},
    error::{Origin, TransferError},
    ids::Ids,
    into_packs::IntoPacks,
    map::{Bound as Record, Known},
    objects::Objects,
    pool::Pool,
    pump::{self, Outcome},
    reader::{CommitOut, Walker},
    table::{Scratch, Table},
    walk::{DEPTH_MAX, Halt, Meters, There},
};

/// Native ids have so many bytes, as those of SHA-256.
const NATIVE: Algorithm = Algorithm::Sha256;
/// Bytes of trees that are kept to compare others with.
const SHADOW_BYTES_MAX: usize = 32 << 20;

/// What is to be exported.
pub(super) struct Job<'a> {
    pub(super) native: Native,
    pub(super) backend: Arc<dyn Backend>,
    /// The hash of Git's ids.
    pub(super) algorithm: Algorithm,
    pub(super) tips: &'a [(String, Oid)],
    pub(super) cut: &'a HashSet<Oid>,
    /// What is in the repository, by Git's ids.
    pub(super) there: &'a dyn There,
    pub(super) scratch: &'a Scratch,
}

/// Writes a history into packs.
pub(super) fn run(
    job: Job<'_>,
    target: &mut IntoPacks<'_>,
    progress: &mut dyn FnMut(Status),
) -> Result<Outcome, TransferError> {
    let meters = Meters::default();
    let exported = Exported::find(&job.native, &*job.backend, job.there, job.algorithm, job.scratch)?;
    let objects = NativeObjects { native: job.native, snapshot: job.backend.snapshot(&[]) };
    let (width, backend) = (NATIVE.oid_bytes(), job.backend.clone());
    let walker = |outlet, meters| WalkNative {
        native: job.native,
        git: Git::new(job.algorithm),
        source: Pool::new(backend, None),
        there: job.there,
        exported: &exported,
        natives: Ids::new(width, job.scratch),
        numbers: Vec::new(),
        gits: Ids::new(job.algorithm.oid_bytes(), job.scratch),
        commits: Table::new(job.algorithm.oid_bytes(), job.scratch),
        cut: job.cut,
        outlet,
        meters,
        commit: None,
        path: Vec::new(),
        shadow: None,
        shadow_bytes: 0,
    };
    let inner = pump::Job {
        objects: &objects,
        algorithm: NATIVE,
        tips: job.tips,
        // Whose parents are not in the store has none there.
        cut: &HashSet::new(),
        there: &exported,
        commits: Ids::new(width, job.scratch),
        walker,
        scratch: job.scratch,
        skip: false,
        verify: false,
    };
    let mut outcome = pump::run(inner, &meters, target, progress)?;
    outcome.cut.extend(job.cut.iter().map(|oid| (*oid, ObjRef::from(*oid))));
    Ok(outcome)
}

/// Commits that were imported from where they are to go: by native ids.
pub(super) struct Exported {
    natives: Ids,
    gits: Table,
    width: usize,
}

impl Exported {
    /// Finds which commits of the store are in the repository, as far as derived files tell.
    pub(super) fn find(
        native: &Native,
        backend: &dyn Backend,
        there: &dyn There,
        algorithm: Algorithm,
        scratch: &Scratch,
    ) -> Result<Self, TransferError> {
        let width = algorithm.oid_bytes();
        let mut found =
            Self { natives: Ids::new(NATIVE.oid_bytes(), scratch), gits: Table::new(width, scratch), width };
        let known = Known::read(backend, native, algorithm, scratch)?;
        let mut record = vec![0; Record::width(native)];
        for number in 0..known.commits.len() {
            let oid = known.commits.oid(number)?;
            known.bounds.commits.read(number, &mut record)?;
            if let Record::Object { oid: native, .. } = Record::decode(&record)
                && there.commit(number, &oid)?
                && found.natives.get(&native)?.is_none()
            {
                found.natives.insert(&native)?;
                found.gits.push(oid.as_bytes())?;
            }
        }
        Ok(found)
    }

    fn git_oid(&self, native: &Oid) -> Result<Oid, TransferError> {
        let mut bytes = [0; Oid::BYTES_MAX];
        let number = self.natives.get(native)?.unwrap_or(u32::MAX);
        self.gits.read(number, &mut bytes[..self.width])?;
        Ok(Oid::new(&bytes[..self.width]).expect("ids have a valid length"))
    }
}

impl There for Exported {
    fn find(&self, _: Kind, _: &Oid) -> Result<Option<Location>, TransferError> {
        Ok(None)
    }

    fn commit(&self, _: u32, oid: &Oid) -> Result<bool, TransferError> {
        Ok(self.natives.get(oid)?.is_some())
    }

    fn closed(&self) -> bool {
        true
    }

    fn confirm(&self, _: u32) -> Result<(), TransferError> {
        Ok(())
    }
}

/// Commits and tags of the store, spelled as Git would, with native ids.
struct NativeObjects {
    native: Native,
    snapshot: Arc<dyn Snapshot>,
}

impl Objects for NativeObjects {
    fn read(&self, oid: &Oid, out: &mut Vec<u8>) -> Result<Option<Kind>> {
        let Some(object) = self.snapshot.read(&ObjRef::from(*oid))? else { return Ok(None) };
        let bad = |source| Error::BadObject { oid: *oid, source };
        out.clear();
        Ok(Some(match object.kind() {
            Kind::Commit => {
                git::encode_commit(&self.native.decode_commit(&object).map_err(bad)?, out);
                Kind::Commit
            }
            Kind::Tag => {
                git::encode_tag(&self.native.decode_tag(&object).map_err(bad)?, out);
                Kind::Tag
            }
            Kind::Pieces => Kind::Contents,
            kind => kind,
        }))
    }
}

/// A directory of which Git's bytes were made, with those below it.
struct Shadow {
    number: u32,
    root: ObjRef,
    raw: Vec<u8>,
    below: HashMap<Box<[u8]>, Box<Shadow>>,
}

impl Shadow {
    fn bytes(&self) -> usize {
        self.raw.capacity() + 160
    }
}

/// The thread's state.
struct WalkNative<'a> {
    native: Native,
    git: Git,
    source: Pool,
    there: &'a dyn There,
    exported: &'a Exported,
    // Native objects that were met, and the numbers of what Git has for them.
    natives: Ids,
    numbers: Vec<u32>,
    // Git's objects.
    gits: Ids,
    // Git's ids of commits, by their numbers.
    commits: Table,
    cut: &'a HashSet<Oid>,
    outlet: Outlet,
    meters: &'a Meters,
    commit: Option<Oid>,
    path: Vec<u8>,
    shadow: Option<Box<Shadow>>,
    shadow_bytes: usize,
}

/// An entry of one of Git's trees.
struct Line<'e> {
    mode: &'e [u8],
    name: &'e [u8],
    dir: bool,
    oid: Oid,
}

impl WalkNative<'_> {
    fn note(&mut self, native: &Oid, number: u32) -> Result<(), Halt> {
        self.natives.insert(native)?;
        self.numbers.push(number);
        Ok(())
    }

    fn refused(&self, reason: impl std::fmt::Display) -> Halt {
        let path = bristlecone::escape(self.path.strip_suffix(b"/").unwrap_or(&self.path));
        let commit = self.commit.map(|oid| format!(" of commit {oid}")).unwrap_or_default();
        TransferError::refused(format!("\"{path}\"{commit}"), reason).into()
    }

    /// Sends an object of Git unless that was done, and returns its number.
    fn send(&mut self, kind: Kind, raw: Vec<u8>, base: u32) -> Result<u32, Halt> {
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

    fn value(&mut self, at: &ObjRef, base: u32) -> Result<u32, Halt> {
        if let Some(number) = self.known(&at.oid)? {
            return Ok(number);
        }
        let raw = self.native.read_contents(&self.source, at, 0..u64::MAX)?.to_vec();
        let number = self.send(Kind::Contents, raw, base)?;
        self.note(&at.oid, number)?;
        Ok(number)
    }

    /// Makes Git's tree of a directory and returns its number; `shadow` is the version of the same path that was made
    /// last, and becomes this one.
    fn dir(&mut self, at: &ObjRef, shadow: &mut Option<Box<Shadow>>) -> Result<u32, Halt> {
        if let Some(number) = self.known(&at.oid)? {
            return Ok(number);
        }
        if self.path.iter().filter(|&&byte| byte == b'/').count() > DEPTH_MAX {
            return Err(self.refused(format!("directories are nested more than {DEPTH_MAX} deep")));
        }
        let old = shadow.take().map(|old| *old);
        let (before, old_number) =
            (old.as_ref().map_or(0, Shadow::bytes), old.as_ref().map_or(NO_NUMBER, |old| old.number));
        let mut below = HashMap::new();
        let raw = match old {
            None => self.whole(at, &mut below)?,
            Some(old) => {
                below = old.below;
                self.spliced(&old.root, &old.raw, at, &mut below)?
            }
        };
        let number = self.send(Kind::Node, raw.clone(), old_number)?;
        self.note(&at.oid, number)?;
        let now = Shadow { number, root: *at, raw, below };
        self.shadow_bytes = (self.shadow_bytes + now.bytes()).saturating_sub(before);
        *shadow = Some(Box::new(now));
        Ok(number)
    }

    /// Returns Git's bytes of a directory.
    fn whole(&mut self, at: &ObjRef, below: &mut HashMap<Box<[u8]>, Box<Shadow>>) -> Result<Vec<u8>, Halt> {
        let entries: Vec<Owned> = {
            let entries = self.native.entries(&self.source, at, None, None, Direction::Forward)?;
            entries.map(|entry| entry.map(Owned::from)).collect::<Result<_>>()?
        };
        let mut lines = Vec::with_capacity(entries.len());
        for entry in &entries {
            lines.push(self.line(entry, NO_NUMBER, below)?);
        }
        lines.sort_by(|one, other| git_order((one.name, one.dir), (other.name, other.dir)));
        let mut raw = Vec::new();
        lines.iter().for_each(|line| line.write(&mut raw));
        Ok(raw)
    }

    /// Returns Git's bytes of a directory, by its differences from one of which they are known.
    fn spliced(
        &mut self,
        old: &ObjRef,
        old_raw: &[u8],
        at: &ObjRef,
        below: &mut HashMap<Box<[u8]>, Box<Shadow>>,
    ) -> Result<Vec<u8>, Halt> {
        let mut differences: Vec<(Option<Owned>, Option<Owned>)> = Vec::new();
        for difference in self.native.diff(&self.source, Some(old), Some(at), None, None)? {
            let (before, after) = difference?;
            differences.push((before.map(Owned::from), after.map(Owned::from)));
        }
        let (mut gone, mut lines) = (HashSet::new(), Vec::with_capacity(differences.len()));
        for (before, after) in &differences {
            if let Some(before) = before {
                gone.insert((&before.step[..], before.kind == EntryKind::Dir));
                if after.as_ref().is_none_or(|after| after.kind != EntryKind::Dir) {
                    below.remove(&before.step[..]);
                }
            }
        }
        let mut numbers = HashMap::new();
        let algorithm = self.git.algorithm();
        for entry in git::raw_entries(algorithm, old_raw).map_while(Result::ok) {
            if gone.contains(&(entry.name, entry.kind() == EntryKind::Dir)) {
                numbers.insert(entry.name, self.gits.get(&entry.oid())?.unwrap_or(NO_NUMBER));
            }
        }
        for after in differences.iter().filter_map(|(_, after)| after.as_ref()) {
            let base = numbers.get(&after.step[..]).copied().unwrap_or(NO_NUMBER);
            lines.push(self.line(after, base, below)?);
        }
        lines.sort_by(|one, other| git_order((one.name, one.dir), (other.name, other.dir)));
        let mut raw = Vec::with_capacity(old_raw.len() + 64);
        let mut lines = lines.into_iter().peekable();
        for entry in git::raw_entries(algorithm, old_raw).map_while(Result::ok) {
            let dir = entry.kind() == EntryKind::Dir;
            if gone.contains(&(entry.name, dir)) {
                continue;
            }
            while let Some(line) = lines.next_if(|line| git_order((line.name, line.dir), (entry.name, dir)).is_lt()) {
                line.write(&mut raw);
            }
            write_entry(entry.mode, entry.name, entry.oid, &mut raw);
        }
        lines.for_each(|line| line.write(&mut raw));
        Ok(raw)
    }

    /// Sends what an entry leads to, and returns how Git writes the entry.
    fn line<'e>(
        &mut self,
        entry: &'e Owned,
        base: u32,
        below: &mut HashMap<Box<[u8]>, Box<Shadow>>,
    ) -> Result<Line<'e>, Halt> {
        let depth = self.path.len();
        self.path.extend_from_slice(&entry.step);
        if let Some(reason) = git::refused_name(&entry.step, entry.kind) {
            return Err(self.refused(format!("Git refuses {reason}")));
        }
        let dir = entry.kind == EntryKind::Dir;
        let oid = match &entry.target {
            Bound::Foreign(oid) if oid.as_bytes().len() != self.git.algorithm().oid_bytes() => {
                return Err(self.refused("it is an id of a repository with another hash"));
            }
            Bound::Foreign(oid) => *oid,
            Bound::Inline(value) => {
                let number = self.send(Kind::Contents, value.to_vec(), base)?;
                self.gits.oid(number)?
            }
            Bound::Object { at, .. } if dir => {
                self.path.push(b'/');
                let mut shadow = below.remove(&entry.step[..]);
                let number = self.dir(at, &mut shadow)?;
                if let Some(shadow) = shadow {
                    below.insert(entry.step.clone(), shadow);
                }
                self.gits.oid(number)?
            }
            Bound::Object { at, .. } => {
                let number = self.value(at, base)?;
                self.gits.oid(number)?
            }
        };
        self.path.truncate(depth);
        let mode = if entry.mode.is_usual() { entry.kind.git_mode().as_bytes() } else { entry.mode.as_bytes() };
        Ok(Line { mode, name: &entry.step, dir, oid })
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
        let lost = super::error::Lost { kind, oid: *oid, damage, from };
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

/// An entry that borrows nothing.
struct Owned {
    step: Box<[u8]>,
    kind: EntryKind,
    mode: bristlecone::core::Mode,
    target: Bound<'static>,
}

impl From<Entry<'_>> for Owned {
    fn from(entry: Entry<'_>) -> Self {
        Self { step: entry.step[..].into(), kind: entry.kind, mode: entry.mode, target: entry.target.into_static() }
    }
}

impl Line<'_> {
    fn write(&self, out: &mut Vec<u8>) {
        write_entry(self.mode, self.name, self.oid.as_bytes(), out);
    }
}

fn write_entry(mode: &[u8], name: &[u8], oid: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(mode);
    out.push(b' ');
    out.extend_from_slice(name);
    out.push(0);
    out.extend_from_slice(oid);
}

/// Compares names as Git orders them: those of directories as if they ended in a slash.
fn git_order((one, one_dir): (&[u8], bool), (other, other_dir): (&[u8], bool)) -> std::cmp::Ordering {
    let end = |dir: bool| if dir { &b"/"[..] } else { b"" };
    one.iter().chain(end(one_dir)).cmp(other.iter().chain(end(other_dir)))
}
