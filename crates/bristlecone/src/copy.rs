//! Copying objects from one store to another: everything that heads lead to and that is not there yet.
//!
//! What is copied goes children before parents, and refs are moved behind it, so an object that is there has
//! everything below it: the walk stops at it. Where a backend does not promise that ([`Capabilities::atomic_commits`]),
//! as a Git repository, it stops at commits to which refs lead, and looks at all that is below others. Each object is
//! checked by itself when it is met, and together with what it names when that is here. Commits are found first, then
//! copied from the oldest on, some together with what is new in their trees. Objects are found level by level and read
//! many a call, so that slow stores overlap the waits, and values are copied as they are met; of all others only ids
//! are held, what one call brings, and a batch of bounded size.

use std::sync::Arc;

use bristlecone_core::{
    AHEAD_BYTES_MAX, AHEAD_OBJECTS_MAX, Checked, Format, FormatError, Kind, Location, ObjRef, Object, Oid, Sink,
};

use crate::{
    AbsentCommits, Durability, Error, Expected, Repo, Result, SHALLOW, Snapshot,
    backend::{Backend, Capabilities, RefMove, RefTarget},
    oid_map::{OidMap, OidSet},
    store::{FlushSink, StoreView, check_kind},
    swept::SWEPT_RETRIES_MAX,
    waiting::Arrived,
};

/// Bytes of a batch that is appended.
const BATCH_BYTES: usize = 4 << 20;
/// How many ids that were met are remembered; an id that is met again later is looked up.
const SEEN_MAX: usize = 1 << 20;

/// What was copied.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Copied {
    /// Objects.
    pub objects: u64,
    /// Bytes of their bodies.
    pub bytes: u64,
}

impl<F: Format> Repo<F> {
    /// Copies everything that is reachable from `heads`, commits or any other objects of `from`, and not here yet. No ref
    /// leads to it, and nothing is made durable: [`Repo::flush`] does, or the move of a ref. A history that is shallow there
    /// ([`crate::Backend::shallow`]) is copied as far as it goes, and a ref below [`SHALLOW`] says so here, from the same append
    /// on; a Git repository keeps these notes itself, and gets none. What retention has cut there is absent here, too
    /// ([`crate::Backend::note_absent`]), and is noted before anything is copied. Where another thread sweeps,
    /// hold a tree of this repository from before the copy until a ref leads to what was copied.
    ///
    /// The id of every object is computed again and compared, and what must hold between an object and those below it is
    /// checked ([`Format::check_structure`]). Memory is bounded by the ids of new commits and of the new directories of 256
    /// commits, by what one call brings, and by a batch.
    ///
    /// # Errors
    /// [`Error::Usage`] if `from` has another format or other options; [`Error::Missing`] if it lacks an object,
    /// [`Error::Absent`] or [`Error::Promised`] where that is on purpose; [`Error::BadObject`] for one whose bytes have another id,
    /// or that is not what the format makes of its contents; what was copied before it stays, and nothing names it. Those of both
    /// backends.
    pub fn copy_objects<I: Into<ObjRef> + std::marker::Copy>(&self, from: &Self, heads: &[I]) -> Result<Copied> {
        self.copy_objects_watched(from, heads, &mut |_| ())
    }

    /// As [`Repo::copy_objects`]; `watch` hears with each object what was copied so far.
    ///
    /// # Errors
    /// As [`Repo::copy_objects`].
    pub fn copy_objects_watched<I: Into<ObjRef> + std::marker::Copy>(
        &self,
        from: &Self,
        heads: &[I],
        watch: &mut dyn FnMut(&Copied),
    ) -> Result<Copied> {
        let heads: Vec<ObjRef> = heads.iter().map(|&head| head.into()).collect();
        if !self.shared.takes_objects_of(&from.shared) {
            return Err(Error::Usage { reason: "objects go between stores of the same format and options alone" });
        }
        self.copy_shown(&from.now(), &heads, watch)
    }

    /// As [`Repo::copy_objects_watched`], from what is shown of another store with the same format and options.
    pub(crate) fn copy_shown(
        &self,
        source: &StoreView<F>,
        heads: &[ObjRef],
        watch: &mut dyn FnMut(&Copied),
    ) -> Result<Copied> {
        let mut copied = Copied::default();
        for _ in 1..SWEPT_RETRIES_MAX {
            // What went that was copied, or that was there, is copied once more: each time another sweep has begun.
            match self.copy_once(source, heads, &mut copied, watch) {
                Err(Error::Gone { .. }) => {}
                done => return done.map(|()| copied),
            }
        }
        self.copy_once(source, heads, &mut copied, watch).map(|()| copied)
    }

    fn copy_once(
        &self,
        source: &StoreView<F>,
        heads: &[ObjRef],
        copied: &mut Copied,
        watch: &mut dyn FnMut(&Copied),
    ) -> Result<()> {
        // Nothing leads to what is copied, until all of it is: the snapshot keeps it from sweeps of this process, and each batch
        // names what it hangs together with for those of others.
        let store = self.now();
        let sink = store.sink();
        let mut copy = Copy {
            to: self,
            store: &store,
            source,
            sink,
            seen: OidSet::default(),
            reached: None,
            promised: self.shared.backend.promised_to()?.is_some(),
            numbered: self.is_numbered()?,
            generations: OidMap::default(),
            shallow: source.backend.shallow()?.into_iter().collect(),
            notes: ShallowNotes::of(&*self.shared.backend)?,
            absent: source.absent()?,
            passed: AbsentCommits::new(),
            checked: self.shared.take_checked(),
            copied,
            watch,
        };
        let done = copy.run(heads);
        self.shared.keep_checked(copy.checked);
        done
    }
}

struct Copy<'c, F: Format> {
    to: &'c Repo<F>,
    // What is read of both.
    store: &'c StoreView<F>,
    source: &'c StoreView<F>,
    sink: FlushSink<'c>,
    // Objects that are there or are being copied.
    seen: OidSet,
    // Commits and tags to which refs lead here, once that is asked.
    reached: Option<OidSet>,
    // Whether what is missing here may be asked for elsewhere.
    promised: bool,
    // Whether commits here carry their generation numbers, and those of copied ones.
    numbered: bool,
    generations: OidMap<u64>,
    // Commits whose parents the other store never had.
    shallow: OidSet,
    notes: ShallowNotes,
    // Commits that the other store's retention has cut, and those of them that a copied commit names.
    absent: Arc<AbsentCommits>,
    passed: AbsentCommits,
    // Between objects that are there or are being copied.
    checked: Checked,
    copied: &'c mut Copied,
    watch: &'c mut dyn FnMut(&Copied),
}

/// Which commits are shallow here.
struct ShallowNotes {
    there: OidSet,
    /// Notes that go with the batch.
    next: Vec<RefMove>,
    /// How many go with one batch; none in a Git repository, whose own program keeps them.
    at_once: usize,
}

impl ShallowNotes {
    fn of(backend: &dyn Backend) -> Result<Self> {
        let there = backend.shallow()?.into_iter().collect();
        let at_once = match backend.capabilities() {
            Capabilities { git: Some(_), .. } => 0,
            Capabilities { several_refs: false, .. } => 1,
            _ => usize::MAX,
        };
        Ok(Self { there, next: Vec::new(), at_once })
    }

    fn add(&mut self, at: ObjRef) {
        if self.at_once > 0 && self.there.insert(at.oid) {
            let (name, to) = (format!("{SHALLOW}{}", at.oid), Some(RefTarget::Object(at)));
            self.next.push(RefMove { name, expected: Expected::Any, to });
        }
    }

    fn is_full(&self) -> bool {
        !self.next.is_empty() && self.next.len() >= self.at_once
    }
}

/// An object that names others, which are to be copied before it.
struct InnerObject {
    kind: Kind,
    at: ObjRef,
    /// What it names of the pass that it is of; also what need not be copied.
    children: Vec<Oid>,
    /// What it names of the pass below.
    roots: Vec<(Kind, ObjRef)>,
    /// Parents with which the other store's history does not go on, and this one's does where they are here.
    beyond: Vec<Oid>,
}

/// The objects of a pass that are to be copied.
#[derive(Default)]
struct ToCopy {
    inner: Vec<InnerObject>,
    index: OidMap<usize>,
    /// Heads that are of the pass below.
    roots: Vec<(Kind, ObjRef)>,
}

/// An object that is asked for, and its kind where that is known.
type CopyHead = (Option<Kind>, ObjRef);

/// Reads the first of some objects in one call, as many as go into one: one at least.
fn read_together(snapshot: &dyn Snapshot, wanted: impl Iterator<Item = ObjRef>) -> Result<Vec<Option<Object<'_>>>> {
    let wanted: Vec<ObjRef> = wanted.take(AHEAD_OBJECTS_MAX).collect();
    let mut found = snapshot.read_many(&wanted, AHEAD_BYTES_MAX)?;
    found.truncate(wanted.len());
    if found.is_empty() && !wanted.is_empty() {
        found.push(snapshot.read(&wanted[0])?);
    }
    Ok(found)
}

/// Commits and the tags on them, or directories and values.
#[derive(Clone, Copy, PartialEq, Eq)]
enum CopyPass {
    History,
    Trees,
}

impl CopyPass {
    const fn of(kind: Kind) -> Self {
        if matches!(kind, Kind::Commit | Kind::Tag) { Self::History } else { Self::Trees }
    }
}

impl<F: Format> Copy<'_, F> {
    fn run(&mut self, heads: &[ObjRef]) -> Result<()> {
        let history = self.find(CopyPass::History, heads.iter().map(|at| (None, *at)).collect())?;
        self.note_passed()?;
        self.trees(history.roots.clone())?;
        for commits in history.children_first().chunks(AHEAD_OBJECTS_MAX) {
            let roots = commits.iter().flat_map(|&index| &history.inner[index].roots);
            self.trees(roots.copied().collect())?;
            self.note_passed()?;
            self.put_inner(&history, commits)?;
        }
        self.append()?;
        self.note_passed()
    }

    /// Notes what copied commits name and retention has cut: before such a commit is there, since the process may be stopped at any
    /// point, and again where a sweep has dropped notes that nothing named yet.
    fn note_passed(&self) -> Result<()> {
        let backend = &self.to.shared.backend;
        if self.passed.is_empty() {
            return Ok(());
        }
        let there = backend.absent()?;
        let noted = self.passed.keys().all(|oid| there.contains_key(oid));
        if noted { Ok(()) } else { backend.note_absent(&self.passed) }
    }

    /// Copies directories and values with all that is below them.
    fn trees(&mut self, roots: Vec<(Kind, ObjRef)>) -> Result<()> {
        let found = self.find(CopyPass::Trees, roots.into_iter().map(|(kind, at)| (Some(kind), at)).collect())?;
        self.put_inner(&found, &found.children_first())
    }

    /// Finds what is to be copied of a pass, level by level, and copies what names nothing.
    fn find(&mut self, pass: CopyPass, heads: Vec<CopyHead>) -> Result<ToCopy> {
        let mut found = ToCopy::default();
        let mut level = self.new_ones(pass, heads, &mut found)?;
        while !level.is_empty() {
            let mut next = Vec::new();
            let source = self.source;
            let mut rest = &level[..];
            while !rest.is_empty() {
                let objects = read_together(&*source.snapshot, rest.iter().map(|(_, at)| *at))?;
                let (read, unread) = rest.split_at(objects.len());
                rest = unread;
                for ((kind, at), object) in read.iter().zip(objects) {
                    let object = object.ok_or_else(|| source.missing(kind.unwrap_or(Kind::Commit), at.oid))?;
                    if let Some(kind) = kind {
                        check_kind(*kind, &object, at.oid)?;
                    }
                    if pass == CopyPass::History && CopyPass::of(object.kind()) == CopyPass::Trees {
                        self.seen.remove(&at.oid);
                        found.roots.push((object.kind(), *at));
                        continue;
                    }
                    self.meet(pass, *at, &object, &mut found, &mut next)?;
                }
            }
            level = self.new_ones(pass, next, &mut found)?;
        }
        Ok(found)
    }

    /// Notes an object with what it names, or copies it if it names nothing.
    fn meet(
        &mut self,
        pass: CopyPass,
        at: ObjRef,
        object: &Object<'_>,
        found: &mut ToCopy,
        next: &mut Vec<CopyHead>,
    ) -> Result<()> {
        let children = self.children(&at.oid, object)?;
        if children.is_empty() {
            return self.put(&at.oid, object, None, None);
        }
        let (roots, beyond) = (Vec::new(), Vec::new());
        let mut inner = InnerObject { kind: object.kind(), at, children: Vec::new(), roots, beyond };
        for (index, &(kind, oid)) in children.iter().enumerate() {
            let child = ObjRef::new(oid, object.child(index));
            if CopyPass::of(kind) != pass {
                inner.roots.push((kind, child));
                continue;
            }
            if kind == Kind::Commit && self.shallow.contains(&at.oid) {
                inner.beyond.push(oid);
                continue;
            }
            let stands = self.standing(object, child)?;
            if stands.is_none_or(|child| child.oid != oid) {
                inner.beyond.push(oid);
            }
            let Some(child) = stands else { continue };
            inner.children.push(child.oid);
            next.push((Some(kind), child));
        }
        found.index.insert(at.oid, found.inner.len());
        found.inner.push(inner);
        Ok(())
    }

    /// Returns the child of an object, or what is kept behind it if retention has cut that from history.
    fn standing(&mut self, object: &Object<'_>, child: ObjRef) -> Result<Option<ObjRef>> {
        match self.absent.get(&child.oid) {
            Some(row) if object.kind() == Kind::Commit && self.source.snapshot.read(&child)?.is_none() => {
                self.passed.insert(child.oid, *row);
                Ok(row.next.map(ObjRef::from))
            }
            _ => Ok(Some(child)),
        }
    }

    /// Returns those objects that are neither there nor being copied, and where an object that is there does not say so of what it
    /// names, those below it; from now on they count as being copied.
    fn new_ones(&mut self, pass: CopyPass, objects: Vec<CopyHead>, found: &mut ToCopy) -> Result<Vec<CopyHead>> {
        let (mut new, mut open) = (Vec::new(), objects);
        while !open.is_empty() {
            let mut unknown = Vec::new();
            for head in open {
                if self.seen.len() >= SEEN_MAX {
                    self.seen.clear();
                }
                if self.seen.insert(head.1.oid) && !self.is_whole(&head) {
                    unknown.push(head);
                }
            }
            let (absent, there) = self.part(unknown)?;
            new.extend(absent);
            there.iter().for_each(|(_, at)| self.sink.keep(&at.oid));
            // Kept first and then looked up again: what is there now stays.
            let (absent, there) = self.part(there)?;
            there.iter().for_each(|(_, at)| self.sink.builds_on(&at.oid));
            new.extend(absent);
            open = self.below(pass, there, found)?;
        }
        Ok(new)
    }

    /// Whether an object is certainly there with all that is below it. That a place of it is known need not say so, see
    /// [`Self::below`].
    fn is_whole(&self, (kind, at): &CopyHead) -> bool {
        if self.to.shared.backend.capabilities().atomic_commits || self.is_single(*kind) {
            self.sink.known(&at.oid).is_some()
        } else {
            self.sink.batch.known(&at.oid).is_some()
        }
    }

    /// Whether a value is one object here: in a Git repository.
    fn is_single(&self, kind: Option<Kind>) -> bool {
        kind == Some(Kind::Contents) && self.to.shared.backend.capabilities().git.is_some()
    }

    /// Returns what objects name that are there, where that need not be there, too: after a power cut, or since another program
    /// has dropped it. What refs lead to is whole.
    fn below(&mut self, pass: CopyPass, there: Vec<CopyHead>, found: &mut ToCopy) -> Result<Vec<CopyHead>> {
        let mut below = Vec::new();
        if self.to.shared.backend.capabilities().atomic_commits || self.promised {
            return Ok(below);
        }
        for (kind, at) in there {
            if self.is_single(kind) || pass == CopyPass::History && self.is_reached(&at.oid)? {
                continue;
            }
            let Some(object) = self.store.snapshot.read(&at.oid.into())? else { continue };
            if CopyPass::of(object.kind()) != pass {
                self.seen.remove(&at.oid);
                found.roots.push((object.kind(), at));
                continue;
            }
            for (kind, child) in self.named(&at.oid, &object)? {
                if CopyPass::of(kind) != pass {
                    found.roots.push((kind, child.into()));
                } else if kind != Kind::Commit || !self.notes.there.contains(&at.oid) {
                    below.push((Some(kind), child.into()));
                }
            }
        }
        Ok(below)
    }

    /// Whether refs lead to a commit here.
    fn is_reached(&mut self, oid: &Oid) -> Result<bool> {
        if let Some(reached) = &self.reached {
            return Ok(reached.contains(oid));
        }
        let refs = self.to.shared.backend.list_refs("")?;
        let objects = refs.values().filter_map(|target| match target {
            RefTarget::Object(at) => Some(at.oid),
            RefTarget::Symbolic(_) => None,
        });
        let (mut reached, mut stack): (OidSet, Vec<Oid>) = (OidSet::default(), objects.collect());
        while let Some(oid) = stack.pop() {
            if reached.contains(&oid) {
                continue;
            }
            let Some(object) = self.store.snapshot.read(&oid.into())? else { continue };
            if CopyPass::of(object.kind()) == CopyPass::History {
                reached.insert(oid);
                let named = self.named(&oid, &object)?.into_iter();
                stack
                    .extend(named.filter(|(kind, _)| CopyPass::of(*kind) == CopyPass::History).map(|(_, child)| child));
            }
        }
        Ok(self.reached.insert(reached).contains(oid))
    }

    /// Returns those of some objects that are not there, and those that are.
    fn part(&self, objects: Vec<CopyHead>) -> Result<(Vec<CopyHead>, Vec<CopyHead>)> {
        let (mut absent, mut present) = (Vec::new(), Vec::new());
        let mut rest = &objects[..];
        while !rest.is_empty() {
            let found = read_together(&*self.store.snapshot, rest.iter().map(|(_, at)| ObjRef::from(at.oid)))?;
            let (asked, unasked) = rest.split_at(found.len());
            for (head, found) in asked.iter().zip(found) {
                let there = found.is_some() && !self.is_assumed(&head.1.oid);
                if there { &mut present } else { &mut absent }.push(*head);
            }
            rest = unasked;
        }
        Ok((absent, present))
    }

    /// Whether an object is read here also where nobody wrote it: the empty directory in a Git repository. `git fsck` asks for it.
    fn is_assumed(&self, oid: &Oid) -> bool {
        self.to.shared.empty == Some(*oid) && self.to.shared.backend.capabilities().git.is_some()
    }

    /// Checks the id of an object and returns what it names.
    fn children(&self, oid: &Oid, object: &Object<'_>) -> Result<Vec<(Kind, Oid)>> {
        if self.source.format.object_id(self.source, object)? != *oid {
            let source = FormatError::Inconsistent { kind: object.kind(), reason: "its bytes have another id" };
            return Err(Error::BadObject { oid: *oid, source });
        }
        self.named(oid, object)
    }

    fn named(&self, oid: &Oid, object: &Object<'_>) -> Result<Vec<(Kind, Oid)>> {
        let mut children = Vec::new();
        let format = &self.source.format;
        format
            .children(object.kind(), object.body(), &mut |kind, oid| children.push((kind, oid)))
            .map_err(|source| Error::BadObject { oid: *oid, source })?;
        Ok(children)
    }

    /// Copies these of the objects that were found, which are read a second time: none was kept.
    fn put_inner(&mut self, found: &ToCopy, order: &[usize]) -> Result<()> {
        let (source, mut rest) = (self.source, order);
        while !rest.is_empty() {
            let objects = read_together(&*source.snapshot, rest.iter().map(|&index| found.inner[index].at))?;
            let (read, unread) = rest.split_at(objects.len());
            for (inner, object) in read.iter().map(|&index| &found.inner[index]).zip(objects) {
                let object = object.ok_or(Error::Missing { kind: inner.kind, oid: inner.at.oid })?;
                check_kind(inner.kind, &object, inner.at.oid)?;
                let generation = self.generation(inner)?;
                self.put(&inner.at.oid, &object, Some(inner), generation)?;
            }
            rest = unread;
        }
        Ok(())
    }

    /// Returns the number of a commit that is about to be copied. Numbers are not hashed, so those of another store are not
    /// believed.
    fn generation(&mut self, inner: &InnerObject) -> Result<Option<u64>> {
        if inner.kind != Kind::Commit || !self.numbered {
            return Ok(None);
        }
        let mut above = 0;
        let arrived = Arrived { batch: &self.sink.batch, snapshot: &*self.store.snapshot };
        let mut here = Vec::new();
        for parent in &inner.beyond {
            if self.generations.contains_key(parent) || arrived.read_any(&(*parent).into())?.is_some() {
                here.push(parent);
            }
        }
        for parent in inner.children.iter().chain(here) {
            above = above.max(match self.generations.get(parent) {
                Some(known) => *known,
                None => self.to.generation((*parent).into())?,
            });
        }
        let number = above.saturating_add(1);
        self.generations.insert(inner.at.oid, number);
        Ok(Some(number))
    }

    /// Adds an object to the batch; `inner` says what of that which it names stands here.
    fn put(
        &mut self,
        oid: &Oid,
        object: &Object<'_>,
        inner: Option<&InnerObject>,
        generation: Option<u64>,
    ) -> Result<()> {
        let named = self.named(oid, object)?;
        let beyond = inner.map_or(&[][..], |inner| &inner.beyond);
        let known = |(_, child): &(Kind, Oid)| {
            if let Some(at) = self.sink.batch.known(child) {
                return at;
            }
            let place = if beyond.contains(child) {
                self.sink.known(child)
            } else {
                // It is in an earlier batch, or was there before and is kept by now; another process may have dropped it since.
                self.sink.builds_on(child);
                self.store.snapshot.locate(child)
            };
            place.unwrap_or(Location::NONE)
        };
        let children: Vec<Location> = named.iter().map(known).collect();
        if !beyond.is_empty() {
            // What history goes on with behind what is absent.
            let behind = inner.into_iter().flat_map(|inner| &inner.children);
            behind
                .filter(|oid| self.sink.batch.known(oid).is_none() && !named.iter().any(|(_, one)| one == *oid))
                .for_each(|oid| self.sink.builds_on(oid));
        }
        let at = self.sink.put(object.kind(), *oid, object.body(), &children, generation.as_slice());
        self.check_structure(ObjRef::new(*oid, at))?;
        if object.kind() == Kind::Commit && self.shallow.contains(oid) && self.lacks_parent(&named)? {
            self.notes.add(ObjRef::new(*oid, at));
        }
        self.copied.objects += 1;
        self.copied.bytes += object.body().len() as u64;
        (self.watch)(&*self.copied);
        if self.sink.batch.bytes().len() >= BATCH_BYTES || self.notes.is_full() { self.append() } else { Ok(()) }
    }

    /// Whether a parent among what a commit names is neither there nor in the batch.
    fn lacks_parent(&self, named: &[(Kind, Oid)]) -> Result<bool> {
        let arrived = Arrived { batch: &self.sink.batch, snapshot: &*self.store.snapshot };
        for (_, parent) in named.iter().filter(|(kind, _)| *kind == Kind::Commit) {
            if arrived.read_any(&(*parent).into())?.is_none() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Checks the object that was just put with what it names, which is there: as it is here, not as the other store has it.
    fn check_structure(&mut self, at: ObjRef) -> Result<()> {
        let arrived = Arrived { batch: &self.sink.batch, snapshot: &*self.store.snapshot };
        let object = arrived.read_any(&at)?.ok_or(Error::Missing { kind: Kind::Node, oid: at.oid })?;
        let done = self.to.format().check_structure(&arrived, &object, false, &mut self.checked);
        done.map_err(|error| match error {
            Error::Format(source) => Error::BadObject { oid: at.oid, source },
            error => error,
        })
    }

    fn append(&mut self) -> Result<()> {
        if self.sink.batch.is_empty() {
            return Ok(());
        }
        let (batch, notes) = (self.sink.take(), std::mem::take(&mut self.notes.next));
        self.to.shared.backend.append(batch, &notes, Durability::None).map(|_| ())
    }
}

impl ToCopy {
    /// Returns places in the list such that each object comes behind what it names. Without recursion: histories are
    /// deep.
    fn children_first(&self) -> Vec<usize> {
        let mut order = Vec::with_capacity(self.inner.len());
        let mut entered = vec![false; self.inner.len()];
        for start in 0..self.inner.len() {
            let mut stack = vec![(start, 0)];
            if std::mem::replace(&mut entered[start], true) {
                continue;
            }
            while let Some((index, child)) = stack.last_mut() {
                let Some(oid) = self.inner[*index].children.get(*child) else {
                    order.push(*index);
                    stack.pop();
                    continue;
                };
                *child += 1;
                if let Some(&below) = self.index.get(oid)
                    && !std::mem::replace(&mut entered[below], true)
                {
                    stack.push((below, 0));
                }
            }
        }
        order
    }
}
