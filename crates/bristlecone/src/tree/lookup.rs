//! Lookups: from the root down through layers of edits into stored objects.

use std::{ops::Range, sync::Arc};

use bristlecone_core::{Bytes, EntryKind, Format, Kind, ObjRef, Source, Target};
use smallvec::SmallVec;

use super::{
    Tree,
    patch::{DirRef, NewLeaf, Patch, PatchEdit, PatchEdits, PatchLayers},
};
use crate::{Result, waiting::read_waiting};

/// Returns how many bytes precede the next `/`. Steps are short: a search by words would spend its time on starting.
#[inline(always)]
fn slash(path: &[u8]) -> usize {
    path.iter().position(|&byte| byte == b'/').unwrap_or(path.len())
}

impl<F: Format> Tree<F> {
    /// Returns the root with all its edits in one layer, waiting for what this tree goes on from.
    pub(super) fn root_dir(&self) -> Result<DirRef<'_>> {
        let base = self.written_base()?;
        Ok(self.patch.as_ref().map_or(DirRef::stored(base), |patch| DirRef::patched(patch, base)))
    }

    /// Walks the steps of `parent` (joined by `/`) down from the root, to a directory with one layer of edits; `None`
    /// where there is no directory.
    pub(super) fn walk(&self, parent: &[u8]) -> Result<Option<DirRef<'_>>> {
        let root = self.root_dir()?;
        self.walk_from(root, parent)
    }

    /// As [`Tree::walk`], but does not wait for commits in flight; the directory may have several layers of edits.
    #[inline]
    pub(super) fn walk_in_flight(&self, parent: &[u8]) -> Result<Option<DirRef<'_>>> {
        let root = if self.in_flight.is_empty() { self.root_dir()? } else { self.root_in_flight() };
        self.walk_from(root, parent)
    }

    #[inline]
    fn walk_from<'t>(&'t self, root: DirRef<'t>, parent: &[u8]) -> Result<Option<DirRef<'t>>> {
        if root.is_layered() {
            return self.walk_layers(root.layers(), root.base, parent);
        }
        let (mut patch, mut base, mut rest) = (root.patch, root.base, parent);
        while let Some(edits) = patch
            && !rest.is_empty()
        {
            let length = slash(rest);
            let step = &rest[..length];
            match edits.get(step) {
                Some(edit) => {
                    let Some(below) = self.edited_dir(edit) else { return Ok(None) };
                    base = match below.base.own() {
                        Some(base) => base,
                        None => self.stored_dir(base.as_ref(), step)?,
                    };
                    patch = Some(below);
                    rest = rest.get(length + 1..).unwrap_or_default();
                }
                // From here on everything is as stored.
                None => patch = None,
            }
        }
        match patch {
            Some(patch) => Ok(Some(DirRef::patched(patch, base))),
            None => self.walk_stored(base, rest),
        }
    }

    /// The same through several layers of edits, the newest first.
    fn walk_layers<'t>(
        &'t self,
        mut layers: PatchLayers<'t>,
        mut base: Option<ObjRef>,
        parent: &[u8],
    ) -> Result<Option<DirRef<'t>>> {
        let mut rest = parent;
        while !rest.is_empty() && !layers.is_empty() {
            let length = slash(rest);
            let step = &rest[..length];
            let (mut kept, mut inherits) = (0, true);
            for index in 0..layers.len() {
                let Some(edit) = layers[index].get(step) else { continue };
                match self.edited_dir(edit) {
                    Some(below) => {
                        layers[kept] = below;
                        kept += 1;
                        if let Some(own) = below.base.own() {
                            (base, inherits) = (own, false);
                            break;
                        }
                    }
                    // A value or nothing: what is edited above it begins empty.
                    None if kept == 0 => return Ok(None),
                    None => {
                        (base, inherits) = (None, false);
                        break;
                    }
                }
            }
            layers.truncate(kept);
            if layers.is_empty() {
                break;
            }
            if inherits {
                base = self.stored_dir(base.as_ref(), step)?;
            }
            rest = rest.get(length + 1..).unwrap_or_default();
        }
        if layers.is_empty() { self.walk_stored(base, rest) } else { Ok(Some(DirRef::layered(&layers, base))) }
    }

    /// Walks on where nothing is edited.
    #[inline]
    fn walk_stored<'t>(&'t self, base: Option<ObjRef>, rest: &[u8]) -> Result<Option<DirRef<'t>>> {
        if rest.is_empty() {
            return Ok(Some(DirRef::stored(base)));
        }
        let Some(base) = base else { return Ok(None) };
        let dir = self.store.format.descend(&*self.store, &base, rest)?;
        Ok(dir.map(|at| DirRef::stored(Some(at))))
    }

    /// Returns the edits of a directory, if an edit is that.
    #[inline]
    fn edited_dir<'t>(&'t self, edit: &'t PatchEdit) -> Option<&'t Arc<Patch>> {
        match edit {
            PatchEdit::Dir(below) => Some(below),
            PatchEdit::Detached => Some(self.active_patch()),
            PatchEdit::Remove | PatchEdit::Leaf(_) | PatchEdit::Over(_) => None,
        }
    }

    #[inline]
    fn stored_dir(&self, dir: Option<&ObjRef>, step: &[u8]) -> Result<Option<ObjRef>> {
        let Some(dir) = dir else { return Ok(None) };
        Ok(match self.store.format.find(&*self.store, dir, step)? {
            Some((EntryKind::Dir, Target::Object { at, .. })) => Some(at),
            _ => None,
        })
    }

    pub(super) fn active_patch(&self) -> &Arc<Patch> {
        &self.active.as_ref().expect("a detached directory is the active one").patch
    }
}

/// What a step leads to.
#[derive(Clone, Debug)]
pub(super) enum Binding<'t> {
    Dir(DirRef<'t>),
    Stored(EntryKind, Target<'t>),
    Leaf(&'t NewLeaf),
}

impl<'t> Binding<'t> {
    pub(super) fn of((kind, target): (EntryKind, Target<'t>)) -> Self {
        match (kind, target) {
            (EntryKind::Dir, Target::Object { at, .. }) => Self::Dir(DirRef::stored(Some(at))),
            (kind, target) => Self::Stored(kind, target),
        }
    }

    pub(super) const fn kind(&self) -> EntryKind {
        match self {
            Self::Dir(_) => EntryKind::Dir,
            Self::Stored(kind, _) => *kind,
            Self::Leaf(leaf) => leaf.kind(),
        }
    }
}

impl<F: Format> Tree<F> {
    /// Returns the value that `step` is bound to.
    #[inline]
    pub(super) fn find_in<'t>(&'t self, dir: &DirRef<'t>, step: &[u8]) -> Result<Option<Bytes<'t>>> {
        if dir.patch.is_some() {
            return match self.resolved(dir, step)? {
                Some(binding) => self.contents(&binding),
                None => Ok(None),
            };
        }
        match &dir.base {
            Some(dir) => self.find_stored(dir, step),
            None => Ok(None),
        }
    }

    #[inline]
    pub(super) fn find_stored(&self, dir: &ObjRef, step: &[u8]) -> Result<Option<Bytes<'_>>> {
        self.store.format.find_value(&*self.store, dir, step)
    }

    /// Returns the bytes of a binding that is a value.
    pub(super) fn contents<'t>(&'t self, binding: &Binding<'t>) -> Result<Option<Bytes<'t>>> {
        Ok(match binding {
            Binding::Dir(_) | Binding::Stored(_, Target::Foreign(_)) => None,
            Binding::Stored(_, Target::Inline(bytes)) => Some(bytes.clone()),
            Binding::Stored(EntryKind::Dir, _) => None,
            Binding::Stored(_, Target::Object { at, .. }) => Some(self.read_value(at, 0..u64::MAX)?),
            Binding::Leaf(leaf) => match leaf {
                NewLeaf::Short { bytes, .. } => Some(Bytes::from(&bytes[..])),
                NewLeaf::Shared { value, .. } => Some(Bytes::from(value.as_bytes())),
                NewLeaf::Stored { at, .. } => Some(self.read_value(at, 0..u64::MAX)?),
                NewLeaf::Foreign(_) => None,
            },
        })
    }

    /// Reads a range of a stored value, also of a prewritten one.
    pub(super) fn read_value(&self, at: &ObjRef, range: Range<u64>) -> Result<Bytes<'_>> {
        if let Some(prewritten) = &self.prewritten
            && !at.at.is_some()
            && let Some(bytes) = read_waiting(&self.store, prewritten, at, range.clone())?
        {
            return Ok(bytes);
        }
        self.store.format.read_contents(&*self.store, at, range)
    }

    /// Returns what `step` is bound to once all edits are taken into account. A directory that edits left empty is not
    /// there.
    pub(super) fn resolved<'t>(&'t self, dir: &DirRef<'t>, step: &[u8]) -> Result<Option<Binding<'t>>> {
        if dir.is_layered() {
            return self.resolved_in(&dir.layers(), dir.base.as_ref(), step);
        }
        match dir.patch.and_then(|patch| patch.get(step)) {
            Some(edit) => self.resolved_edit(edit, &[], dir.base.as_ref(), step),
            None => Ok(self.stored(dir.base.as_ref(), step)?.map(Binding::of)),
        }
    }

    /// The same through layers, the newest first.
    fn resolved_in<'t>(
        &'t self,
        layers: &[&'t Arc<Patch>],
        base: Option<&ObjRef>,
        step: &[u8],
    ) -> Result<Option<Binding<'t>>> {
        let edited = layers.iter().enumerate().find_map(|(index, patch)| Some((index, patch.get(step)?)));
        match edited {
            Some((index, edit)) => self.resolved_edit(edit, &layers[index + 1..], base, step),
            None => Ok(self.stored(base, step)?.map(Binding::of)),
        }
    }

    /// The same of a step that was edited; `lower` are the layers below the edit.
    fn resolved_edit<'t>(
        &'t self,
        edit: &'t PatchEdit,
        lower: &[&'t Arc<Patch>],
        base: Option<&ObjRef>,
        step: &[u8],
    ) -> Result<Option<Binding<'t>>> {
        let below = match edit {
            PatchEdit::Remove => return Ok(None),
            PatchEdit::Leaf(leaf) | PatchEdit::Over(leaf) => return Ok(Some(Binding::Leaf(leaf))),
            PatchEdit::Dir(below) => below,
            PatchEdit::Detached => self.active_patch(),
        };
        let (inner, over) = self.edited(below, lower, base, step)?;
        Ok(if self.is_empty_at(&inner)? { over } else { Some(Binding::Dir(inner)) })
    }

    /// Returns the directory at `step` whose edits are `below`, above those of the layers `lower`; and what stands there
    /// if nothing is left in it. Recurses by layers, of which there are few.
    fn edited<'t>(
        &'t self,
        below: &'t Arc<Patch>,
        lower: &[&'t Arc<Patch>],
        base: Option<&ObjRef>,
        step: &[u8],
    ) -> Result<(DirRef<'t>, Option<Binding<'t>>)> {
        let (base, over) = match below.base.own() {
            Some(base) => return Ok((DirRef::patched(below, base), None)),
            None if lower.is_empty() => match self.stored(base, step)? {
                Some((EntryKind::Dir, Target::Object { at, .. })) if Some(at.oid) != self.store.empty => {
                    return Ok((DirRef::patched(below, Some(at)), None));
                }
                over => (None, over.map(Binding::of)),
            },
            None => match self.resolved_in(lower, base, step)? {
                // One that was stored empty stands; one that the edits above leave empty does not.
                Some(Binding::Dir(DirRef { patch: None, base: Some(at), .. })) if Some(at.oid) == self.store.empty => {
                    (None, Some(Binding::Dir(DirRef::stored(Some(at)))))
                }
                Some(Binding::Dir(dir)) => {
                    let mut layers: PatchLayers<'_> = SmallVec::from_slice(&[below]);
                    layers.extend(dir.layers());
                    return Ok((DirRef::layered(&layers, dir.base), None));
                }
                over => (None, over),
            },
        };
        // Removals below a value leave the value alone, and so a directory that was stored empty.
        Ok((DirRef::patched(below, base), over.filter(|_| !below.replaces_value)))
    }

    fn stored(&self, dir: Option<&ObjRef>, step: &[u8]) -> Result<Option<(EntryKind, Target<'_>)>> {
        match dir {
            Some(dir) => self.store.format.find(&*self.store, dir, step),
            None => Ok(None),
        }
    }

    /// Whether nothing is left in a directory.
    pub(super) fn is_empty_at(&self, dir: &DirRef<'_>) -> Result<bool> {
        // The empty directory is one object, known by its id.
        if dir.patch.is_none() {
            return Ok(dir.base.is_none_or(|at| Some(at.oid) == self.store.empty));
        }
        // Directories that were put into each other lie deep, so those above wait in a list.
        let mut above = Vec::new();
        let mut dir = Searched::new(dir);
        loop {
            match self.search(&mut dir)? {
                Remaining::Something => return Ok(false),
                Remaining::Perhaps(below) => above.push(std::mem::replace(&mut dir, Searched::new(&below))),
                Remaining::Nothing => match above.pop() {
                    Some(back) => dir = back,
                    None => return Ok(true),
                },
            }
        }
    }

    /// Goes on to search a directory for something that is left in it.
    fn search<'t>(&'t self, dir: &mut Searched<'t>) -> Result<Remaining<'t>> {
        loop {
            let Some((step, edit)) = dir.edits.next() else {
                if let Some(next) = dir.layers.get(dir.layer + 1) {
                    (dir.edits, dir.layer) = (next.iter(), dir.layer + 1);
                    continue;
                }
                return Ok(if self.has_unedited(dir)? { Remaining::Something } else { Remaining::Nothing });
            };
            dir.seen += 1;
            // An edit in a newer layer decides.
            if dir.layers[..dir.layer].iter().any(|above| above.get(step).is_some()) {
                continue;
            }
            let below = match edit {
                PatchEdit::Leaf(_) | PatchEdit::Over(_) => return Ok(Remaining::Something),
                PatchEdit::Remove => continue,
                PatchEdit::Dir(below) => below,
                PatchEdit::Detached => self.active_patch(),
            };
            let (inner, over) = self.edited(below, &dir.layers[dir.layer + 1..], dir.base.as_ref(), step)?;
            return Ok(if over.is_some() { Remaining::Something } else { Remaining::Perhaps(inner) });
        }
    }

    /// Whether there is an entry below all edits that none of them touches.
    fn has_unedited(&self, dir: &Searched<'_>) -> Result<bool> {
        let Some(base) = &dir.base else { return Ok(false) };
        // More entries than edits can remove: no need to see which.
        if self.store.format.count(&*self.store, base)? > dir.seen {
            return Ok(true);
        }
        for entry in self.store.format.entries(&*self.store, base, None, None, Default::default())? {
            let entry = entry?;
            if dir.layers.iter().all(|layer| layer.get(&entry.step).is_none()) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Reads a directory's object, for its kind to be checked early.
    pub(crate) fn check_root(&self) -> Result<()> {
        match &self.written_base()? {
            Some(base) => self.store.read(Kind::Node, base).map(|_| ()),
            None => Ok(()),
        }
    }
}

/// A directory with edits that is searched for anything that is left in it.
struct Searched<'t> {
    layers: PatchLayers<'t>,
    base: Option<ObjRef>,
    /// The rest of the edits of this layer.
    edits: PatchEdits<'t>,
    layer: usize,
    /// How many edits there were so far, in all layers.
    seen: u64,
}

impl<'t> Searched<'t> {
    /// Begins with the newest layer of a directory that has one.
    fn new(dir: &DirRef<'t>) -> Self {
        let layers = dir.layers();
        Self { edits: layers[0].iter(), layers, base: dir.base, layer: 0, seen: 0 }
    }
}

/// What a search found.
enum Remaining<'t> {
    /// Something is left.
    Something,
    /// Something is left if it is in this directory.
    Perhaps(DirRef<'t>),
    /// The directory is done, and nothing is left in it.
    Nothing,
}
