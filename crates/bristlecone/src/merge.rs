//! Merging three directories: what two sides made of a common one.
//!
//! Directories are compared by their ids, so that what only one side touched is taken as it is, unread, and a merge
//! costs what theirs differs from the base. A name holds a value, a directory or nothing; the value of a name and the
//! directory under it are merged each for itself, the directory entry by entry. Contents are not looked into: a value
//! that both sides changed to different ones is a [`Conflict`], which the caller is told of and nobody resolves here.

use std::collections::BTreeMap;

use bristlecone_core::{Change, ChangeTarget, Entry, EntryKind, Format, Mode, ObjRef, Path, Target, native::Native};

use crate::{
    Batch, Durability, Error, Result, Tree,
    store::{FlushSink, Store},
};

/// What a merge comes to.
#[derive(Clone, Debug)]
pub struct Merged<F: Format = Native> {
    /// The merged tree. At the path of a conflict, and below it, it holds what ours holds.
    pub tree: Tree<F>,
    /// Where both sides changed something, and differently: in order of paths.
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
    fn new(kind: EntryKind, target: Target<'_>) -> Self {
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
/// Of a file, contents and executable bit are merged each for itself. A directory that one side removed and the other
/// changed is removed but for what was changed, and that is in conflict.
///
/// `merge::trees(Some(b), o, b)? == o` and `merge::trees(Some(b), b, t)? == t`, without conflicts.
///
/// Pending edits are hashed and written first, and the merged tree is written, as [`Tree::write`] does; the merged
/// tree has the origin of `ours`.
///
/// # Errors
/// [`Error::Usage`] if the trees are of different stores; as [`Tree::find`] and [`Tree::write`].
pub fn trees<F: Format>(base: Option<&Tree<F>>, ours: &Tree<F>, theirs: &Tree<F>) -> Result<Merged<F>> {
    let store = &ours.store;
    for other in base.iter().copied().chain([theirs]) {
        if !std::sync::Arc::ptr_eq(&other.store.backend, &store.backend) {
            return Err(Error::Usage { reason: "trees of different stores are not merged: copy the objects first" });
        }
    }
    let base = base.map(stored_root).transpose()?.flatten();
    let sides = (stored_root(ours)?, stored_root(theirs)?);
    let mut sink = FlushSink::new(Batch::new(), &*store.backend);
    let (root, conflicts) = roots(store, &mut sink, base, sides.0, sides.1)?;
    let batch = sink.batch;
    let root = match root {
        Some(root) if !batch.is_empty() => {
            let place = store.backend.append(batch, &[], Durability::None)?;
            Some(ObjRef::new(root.oid, root.at.resolve(place)))
        }
        root => root,
    };
    let mut tree = Tree::at(store.clone(), root);
    tree.origin = ours.origin;
    Ok(Merged { tree, conflicts })
}

/// Merges directories into a sink, where the place of the one that results may be pending; `None` is an empty one.
pub(crate) fn roots<F: Format>(
    store: &Store<F>,
    sink: &mut FlushSink<'_>,
    base: Option<ObjRef>,
    ours: Option<ObjRef>,
    theirs: Option<ObjRef>,
) -> Result<(Option<ObjRef>, Vec<Conflict>)> {
    let mut merge = Merge { store, sink, conflicts: Vec::new() };
    let root = merge.dirs(&Path::default(), base, ours, theirs)?;
    Ok((root, merge.conflicts))
}

/// Returns the root of a tree with all its edits, written; `None` if it is empty.
pub(crate) fn stored_root<F: Format>(tree: &Tree<F>) -> Result<Option<ObjRef>> {
    // There are formats that have no empty root to write.
    if tree.is_empty()? { Ok(None) } else { Ok(Some(tree.clone().write()?)) }
}

struct Merge<'m, 'b, F: Format> {
    store: &'m Store<F>,
    sink: &'m mut FlushSink<'b>,
    conflicts: Vec<Conflict>,
}

impl<F: Format> Merge<'_, '_, F> {
    /// Merges directories, of which each may be nothing. The depth is bounded by that of a path.
    fn dirs(
        &mut self,
        path: &Path,
        base: Option<ObjRef>,
        ours: Option<ObjRef>,
        theirs: Option<ObjRef>,
    ) -> Result<Option<ObjRef>> {
        if theirs == base || ours == theirs {
            return Ok(ours);
        }
        if ours == base {
            return Ok(theirs);
        }
        let store = self.store;
        // By step, whatever the format's own order is.
        let mut changed = BTreeMap::new();
        for pair in store.format.diff(store, base.as_ref(), theirs.as_ref(), None, None)? {
            let (before, after) = pair?;
            let Some(step) = before.as_ref().or(after.as_ref()).map(|entry| entry.step.to_vec()) else { continue };
            changed.insert(step, (before.map(Version::of), after.map(Version::of)));
        }
        let mut taken = Vec::new();
        for (step, (before, after)) in &changed {
            let here = match &ours {
                Some(dir) => store.format.find(store, dir, step)?.map(|(kind, target)| Version::new(kind, target)),
                None => None,
            };
            let path = path.join(step)?;
            // Where only a mode is spelled anew, there is nothing to merge.
            let respelled = before == after && here == *after;
            let to = if respelled {
                after.clone()
            } else {
                self.name(&path, before.as_ref(), here.as_ref(), after.as_ref())?
            };
            if respelled || to != here {
                taken.push((step, to));
            }
        }
        let changes: Vec<Change<'_>> = taken.iter().map(|(step, to)| change(step, to.as_ref())).collect();
        if changes.is_empty() {
            return Ok(ours);
        }
        store.format.update(store, self.sink, ours.as_ref(), &changes)
    }

    /// Merges what is at one name.
    fn name(
        &mut self,
        path: &Path,
        base: Option<&Version>,
        ours: Option<&Version>,
        theirs: Option<&Version>,
    ) -> Result<Option<Version>> {
        let earlier = self.conflicts.len();
        let value = match values(as_value(base), as_value(ours), as_value(theirs)) {
            Ok(value) => value,
            Err(Differ) => {
                self.conflict(path, base, ours, theirs);
                as_value(ours).cloned()
            }
        };
        let dirs = [base, ours, theirs].map(|version| version.and_then(Version::dir));
        let dir = self.dirs(path, dirs[0], dirs[1], dirs[2])?;
        Ok(match (value, dir) {
            (Some(_), Some(_)) => {
                // A value and a directory want one name. What lies below is part of the same conflict.
                self.conflicts.truncate(earlier);
                self.conflict(path, base, ours, theirs);
                ours.cloned()
            }
            (None, Some(at)) => Some(Version::new(EntryKind::Dir, Target::Object { at, bytes: 0 })),
            (value, None) => value,
        })
    }

    fn conflict(&mut self, path: &Path, base: Option<&Version>, ours: Option<&Version>, theirs: Option<&Version>) {
        let (base, ours, theirs) = (base.cloned(), ours.cloned(), theirs.cloned());
        self.conflicts.push(Conflict { path: path.clone(), base, ours, theirs });
    }
}

/// Both sides changed a value, and differently.
struct Differ;

/// Merges values, of which each may be nothing.
fn values(
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

fn as_value(version: Option<&Version>) -> Option<&Version> {
    version.filter(|version| version.kind != EntryKind::Dir)
}

fn change<'c>(step: &'c [u8], to: Option<&'c Version>) -> Change<'c> {
    let target = |version: &'c Version| match &version.target {
        Target::Inline(bytes) => ChangeTarget::Inline(bytes),
        Target::Object { at, bytes } => ChangeTarget::Object { at: *at, bytes: *bytes },
        Target::Foreign(oid) => ChangeTarget::Foreign(*oid),
    };
    let mode = to.map_or(Mode::USUAL, |version| version.mode);
    Change { step, mode, to: to.map(|version| (version.kind, target(version))) }
}
