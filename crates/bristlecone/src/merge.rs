//! Merging three directories: what two sides made of a common one.
//!
//! Directories are compared by their ids, so that what only one side touched is taken as it is, unread, and a merge
//! costs what theirs differs from the base. A name holds a value, a directory or nothing; the value of a name and the
//! directory under it are merged each for itself, the directory entry by entry. Contents are not looked into: a value
//! that both sides changed to different ones is a [`Conflict`]. The caller gets it; it is not resolved here.
//! Where conflicts are does not depend on which side is ours.

use std::vec;

use bristlecone_core::{
    Change, ChangeTarget, Entry, EntryKind, Format, Mode, ObjRef, Path, Source, Target, native::Native,
};

use self::ahead::MergeTask;
use crate::{
    Error, Result, Tree,
    prefetched::Prefetched,
    store::{FlushSink, StoreView},
    swept::retry_swept,
};

mod ahead;

/// What a merge comes to.
#[derive(Clone, Debug)]
pub struct Merged<F: Format = Native> {
    /// The merged tree. At the path of a conflict, and below it, it holds what ours holds.
    pub tree: Tree<F>,
    /// Where both sides changed something, and differently: in the order of paths ([`Path`]).
    pub conflicts: Vec<Conflict>,
}

/// A path where both sides changed something, and differently.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict {
    /// Where.
    pub path: Path,
    /// What was there before; `None` for nothing.
    pub base: Option<Version>,
    /// What ours made of it.
    pub ours: Option<Version>,
    /// What theirs made of it.
    pub theirs: Option<Version>,
}

/// What a side of a merge has at a path.
#[derive(Clone, Debug)]
pub struct Version {
    /// What it is.
    pub kind: EntryKind,
    /// How Git spelled that, if not as usual.
    pub mode: Mode,
    /// What it leads to.
    pub target: Target<'static>,
}

impl PartialEq for Version {
    /// Two are the same if kind and contents are, however the mode is spelled.
    fn eq(&self, other: &Self) -> bool {
        self.kind == other.kind && self.same_contents(other)
    }
}

impl Eq for Version {}

impl Version {
    pub(crate) fn new(kind: EntryKind, target: Target<'_>) -> Self {
        Self { kind, mode: Mode::USUAL, target: target.into_static() }
    }

    fn of(entry: Entry<'_>) -> Self {
        Self { kind: entry.kind, mode: entry.mode, target: entry.target.into_static() }
    }

    fn same_contents(&self, other: &Self) -> bool {
        match (&self.target, &other.target) {
            (Target::Object { at: one, .. }, Target::Object { at: other, .. }) => one == other,
            (one, other) => one == other,
        }
    }

    /// Returns the directory that it is.
    fn dir(&self) -> Option<ObjRef> {
        match self.target {
            Target::Object { at, .. } if self.kind == EntryKind::Dir => Some(at),
            _ => None,
        }
    }

    /// Whether it is a file, whose executable bit is merged by itself.
    const fn is_file(&self) -> bool {
        matches!(self.kind, EntryKind::Value | EntryKind::Executable)
    }
}

/// Merges what `ours` and `theirs` made of `base` (`None`: nothing in common, so that whatever both have differently is
/// a conflict). All three are of one repository.
///
/// Contents and executable bit of a file are merged separately. A directory that one side removed and the other
/// changed is removed but for what was changed, and that is in conflict. Where one side has a value and the other changed
/// something in a directory of that name, the name is in conflict, not what is below it.
///
/// `merge::trees(Some(b), o, b)? == o` and `merge::trees(Some(b), b, t)? == t`, without conflicts; and
/// `merge::trees(b, o, t)` has its conflicts at the paths of those of `merge::trees(b, t, o)`.
///
/// Pending edits are hashed and written first, and the merged tree is written, as [`Tree::write`] does; the merged
/// tree has the origin of `ours`.
///
/// # Errors
/// [`Error::Usage`] if the trees are of different stores; [`Error::Path`] for a conflict at the key of a map that is no step of a
/// path, which [`crate::Map::merge`] can tell of; as [`Tree::get`] and [`Tree::write`].
pub fn trees<F: Format>(base: Option<&Tree<F>>, ours: &Tree<F>, theirs: &Tree<F>) -> Result<Merged<F>> {
    let (tree, conflicts) = trees_by(base, ours, theirs, roots)?;
    Ok(Merged { tree, conflicts })
}

/// Merges trees by a merge of their roots, which gives new objects to the sink and returns the root with conflicts.
pub(crate) fn trees_by<F: Format, C>(
    base: Option<&Tree<F>>,
    ours: &Tree<F>,
    theirs: &Tree<F>,
    merge: impl Fn(
        &StoreView<F>,
        &mut FlushSink<'_>,
        Option<ObjRef>,
        Option<ObjRef>,
        Option<ObjRef>,
    ) -> Result<(Option<ObjRef>, Vec<C>)>,
) -> Result<(Tree<F>, Vec<C>)> {
    let mut store = ours.store.clone();
    for other in base.iter().copied().chain([theirs]) {
        if !std::sync::Arc::ptr_eq(&other.store.backend, &store.backend) {
            return Err(Error::Usage { reason: "trees of different stores are not merged: copy the objects first" });
        }
        store = store.joined(other.store.snapshots()).unwrap_or(store);
    }
    let base = base.map(stored_root).transpose()?.flatten();
    let sides = (stored_root(ours)?, stored_root(theirs)?);
    // What was written now may lie behind a sweep that the trees do not know.
    store = store.joined(&[store.backend.snapshot(&[])]).unwrap_or(store);
    let merged = |store: &mut std::sync::Arc<StoreView<F>>| {
        let mut sink = store.sink();
        let (root, conflicts) = merge(store, &mut sink, base, sides.0, sides.1)?;
        Ok((root.map(|root| store.append(&mut sink, root)).transpose()?, conflicts))
    };
    let (root, conflicts) = retry_swept(&mut store, |store| store, merged)?;
    if let Some(root) = &root {
        store.snapshot.keep(&root.oid);
    }
    let mut tree = Tree::at(store, root);
    // A commit in flight is one, too: it has a root, so it is waited for no more.
    tree.origin = ours.written_origin()?;
    Ok((tree, conflicts))
}

/// Merges directories into a sink, where the place of the one that results may be pending; `None` is an empty one.
pub(crate) fn roots<F: Format>(
    store: &StoreView<F>,
    sink: &mut FlushSink<'_>,
    base: Option<ObjRef>,
    ours: Option<ObjRef>,
    theirs: Option<ObjRef>,
) -> Result<(Option<ObjRef>, Vec<Conflict>)> {
    // What of ours stays as it is lies below this.
    ours.iter().for_each(|ours| sink.builds_on(&ours.oid));
    let source = Prefetched::new(store, None);
    let mut merge = Merge { store, source, sink, path: Path::root(), conflicts: Vec::new(), looks_ahead: false };
    let root = merge.dirs(base, ours, theirs)?;
    Ok((root, merge.conflicts))
}

/// Returns the root of a tree with all its edits, written; `None` if it is empty.
pub(crate) fn stored_root<F: Format>(tree: &Tree<F>) -> Result<Option<ObjRef>> {
    tree.clone().append_edits()
}

struct Merge<'m, 'b, F: Format> {
    store: &'m StoreView<F>,
    source: Prefetched<&'m StoreView<F>, MergeTask<'m, F>>,
    sink: &'m mut FlushSink<'b>,
    // About the name that is being merged.
    path: Path,
    conflicts: Vec<Conflict>,
    // What is to come is known to the source.
    looks_ahead: bool,
}

/// What theirs changed under a name: the step, before and after.
type Changed = (Vec<u8>, Option<Version>, Option<Version>);

/// Directories that are being merged name by name.
struct OpenMerge {
    ours: Option<ObjRef>,
    theirs: Option<ObjRef>,
    /// What theirs changed and is still to come, by step, whatever the format's own order is.
    changed: vec::IntoIter<Changed>,
    /// What is to change in ours.
    taken: Vec<(Vec<u8>, Option<Version>)>,
    /// The name in the directories above.
    name: Name,
}

/// A name that is being merged: what it is bound to, and the merged value.
struct Name {
    step: Vec<u8>,
    base: Option<Version>,
    ours: Option<Version>,
    theirs: Option<Version>,
    /// `Err`: both sides changed it, and differently.
    value: std::result::Result<Option<Version>, Differ>,
    /// How many conflicts there were before.
    earlier: usize,
}

impl Name {
    /// The root, which is bound to no name.
    const fn root() -> Self {
        Self { step: Vec::new(), base: None, ours: None, theirs: None, value: Ok(None), earlier: 0 }
    }
}

impl<'m, F: Format> Merge<'m, '_, F> {
    /// Merges directories, of which each may be nothing. Those above wait in a list: trees are deep.
    fn dirs(&mut self, base: Option<ObjRef>, ours: Option<ObjRef>, theirs: Option<ObjRef>) -> Result<Option<ObjRef>> {
        if let Some(side) = unchanged(base, ours, theirs) {
            return Ok(side);
        }
        let mut above = Vec::new();
        let mut open = self.open(Name::root(), base, ours, theirs)?;
        loop {
            if self.source.is_far() && !self.looks_ahead {
                self.looks_ahead = true;
                above.iter().chain([&open]).for_each(|dir| self.source.expect(self.to_come(dir)));
            }
            let Some((step, before, after)) = open.changed.next() else {
                let dir = self.close(&open)?;
                let Some(back) = above.pop() else { return Ok(dir) };
                let done = std::mem::replace(&mut open, back);
                self.settle(&mut open.taken, done.name, dir);
                continue;
            };
            let here = match &open.ours {
                Some(dir) => self.store.format.find(&self.source, dir, &step)?,
                None => None,
            };
            let here = here.map(|(kind, target)| Version::new(kind, target));
            // Where only the spelling of a mode changed, there is nothing to merge.
            if before == after && here == after {
                open.taken.push((step, after));
                continue;
            }
            if let Err(error) = self.path.push(&step) {
                // A key of a map is perhaps no step of a path: no conflict could name it, nor what is below it.
                let to = values(before.as_ref(), here.as_ref(), after.as_ref()).map_err(|Differ| error)?;
                if to != here {
                    open.taken.push((step, to));
                }
                continue;
            }
            let value = values(as_value(&before), as_value(&here), as_value(&after));
            let [base, ours, theirs] = [&before, &here, &after].map(|one| one.as_ref().and_then(Version::dir));
            let earlier = self.conflicts.len();
            let name = Name { step, base: before, ours: here, theirs: after, value, earlier };
            match unchanged(base, ours, theirs) {
                Some(dir) => self.settle(&mut open.taken, name, dir),
                None => {
                    let below = self.open(name, base, ours, theirs)?;
                    if self.looks_ahead {
                        self.source.expect(self.to_come(&below));
                    }
                    above.push(std::mem::replace(&mut open, below));
                }
            }
        }
    }

    /// Begins to merge directories.
    fn open(
        &self,
        name: Name,
        base: Option<ObjRef>,
        ours: Option<ObjRef>,
        theirs: Option<ObjRef>,
    ) -> Result<OpenMerge> {
        let changed = changes(&self.store.format, &self.source, base, theirs)?;
        Ok(OpenMerge { ours, theirs, changed: changed.into_iter(), taken: Vec::new(), name })
    }

    /// Returns what of a directory is still to come.
    fn to_come(&self, open: &OpenMerge) -> vec::IntoIter<MergeTask<'m, F>> {
        ahead::names(self.store, open.ours, open.changed.as_slice())
    }

    /// Returns the directory that results.
    fn close(&mut self, open: &OpenMerge) -> Result<Option<ObjRef>> {
        let changes: Vec<Change<'_>> = open.taken.iter().map(|(step, to)| change(step, to.as_ref())).collect();
        let made = if changes.is_empty() {
            open.ours
        } else {
            name_taken(self.store, self.sink, &changes);
            let made = self.store.format.update(&self.source, self.sink, open.ours.as_ref(), &changes)?;
            // What one side replaced, it replaced on purpose.
            self.sink.take_replaced();
            made
        };
        // A directory that was stored empty is one, whichever side has it.
        Ok(made.or(open.theirs.filter(|&theirs| self.store.unless_empty(theirs).is_none())))
    }

    /// Takes the merged binding of a name, now that its directories were merged to `dir`.
    fn settle(&mut self, taken: &mut Vec<(Vec<u8>, Option<Version>)>, name: Name, dir: Option<ObjRef>) {
        let below = dir.is_some() || self.conflicts.len() > name.earlier;
        let to = match name.value {
            // A value and a directory want one name. What lies below is part of the same conflict.
            Ok(Some(_)) if below => Err(Differ),
            Ok(Some(value)) => Ok(Some(value)),
            // A directory that is theirs is taken as they spelled it; one that is ours stays.
            Ok(None) => Ok(dir.map(|at| match &name.theirs {
                Some(theirs) if theirs.dir() == Some(at) => theirs.clone(),
                _ => Version::new(EntryKind::Dir, Target::Object { at, bytes: 0 }),
            })),
            Err(Differ) => Err(Differ),
        };
        let to = to.unwrap_or_else(|Differ| {
            self.conflicts.truncate(name.earlier);
            let (base, ours, theirs) = (name.base, name.ours.clone(), name.theirs);
            self.conflicts.push(Conflict { path: self.path.clone(), base, ours: ours.clone(), theirs });
            ours
        });
        self.path.pop();
        if to != name.ours {
            taken.push((name.step, to));
        }
    }
}

/// Returns what theirs changed in a directory, by step, whatever the format's own order is.
pub(crate) fn changes<F: Format, S: Source>(
    format: &F,
    source: &S,
    base: Option<ObjRef>,
    theirs: Option<ObjRef>,
) -> std::result::Result<Vec<Changed>, S::Error> {
    let mut changed: Vec<Changed> = Vec::new();
    for pair in format.diff(source, base.as_ref(), theirs.as_ref(), None, None)? {
        let (before, after) = pair?;
        let Some(step) = before.as_ref().or(after.as_ref()).map(|entry| entry.step.to_vec()) else { continue };
        changed.push((step, before.map(Version::of), after.map(Version::of)));
    }
    changed.sort_by(|(one, ..), (other, ..)| one.cmp(other));
    Ok(changed)
}

/// Returns the merged directory where one side left its own alone, or both did the same.
fn unchanged(base: Option<ObjRef>, ours: Option<ObjRef>, theirs: Option<ObjRef>) -> Option<Option<ObjRef>> {
    if theirs == base || ours == theirs {
        Some(ours)
    } else if ours == base {
        Some(theirs)
    } else {
        None
    }
}

/// Both sides changed a value, and differently.
pub(crate) struct Differ;

/// Merges values, of which each may be nothing.
pub(crate) fn values(
    base: Option<&Version>,
    ours: Option<&Version>,
    theirs: Option<&Version>,
) -> std::result::Result<Option<Version>, Differ> {
    if theirs == base || ours == theirs {
        return Ok(ours.cloned());
    }
    if ours == base {
        return Ok(theirs.cloned());
    }
    let (Some(base), Some(ours), Some(theirs)) = (base, ours, theirs) else { return Err(Differ) };
    if ![base, ours, theirs].iter().all(|version| version.is_file()) {
        return Err(Differ);
    }
    // There are two kinds, so a bit that both sides changed they changed to the same.
    let kind = if ours.kind == base.kind { theirs.kind } else { ours.kind };
    let contents = if theirs.same_contents(base) || theirs.same_contents(ours) {
        ours
    } else if ours.same_contents(base) {
        theirs
    } else {
        return Err(Differ);
    };
    Ok(Some(Version { kind, mode: Mode::USUAL, target: contents.target.clone() }))
}

fn as_value(version: &Option<Version>) -> Option<&Version> {
    version.as_ref().filter(|version| version.kind != EntryKind::Dir)
}

/// Names what changes take as it is: another process may have dropped it.
pub(crate) fn name_taken<F: Format>(store: &StoreView<F>, sink: &FlushSink<'_>, changes: &[Change<'_>]) {
    for change in changes {
        if let Some((_, ChangeTarget::Object { at, .. })) = &change.to
            && at.at.pending_offset().is_none()
            && let Some(at) = store.unless_empty(*at)
        {
            sink.builds_on(&at.oid);
        }
    }
}

pub(crate) fn change<'c>(step: &'c [u8], to: Option<&'c Version>) -> Change<'c> {
    let target = |version: &'c Version| match &version.target {
        Target::Inline(bytes) => ChangeTarget::Inline(bytes),
        Target::Object { at, bytes } => ChangeTarget::Object { at: *at, bytes: *bytes },
        Target::Foreign(oid) => ChangeTarget::Foreign(*oid),
    };
    let mode = to.map_or(Mode::USUAL, |version| version.mode);
    Change { step, mode, to: to.map(|version| (version.kind, target(version))) }
}
