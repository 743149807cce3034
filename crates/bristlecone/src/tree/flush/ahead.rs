//! What the edits that are still pending will read.

use bristlecone_core::{EntryKind, Format, ObjRef, Source, Target, Task};

use super::super::{
    PatchEdit, Tree,
    patch::{Patch, PatchEdits},
};

/// The edits of a directory.
pub(super) struct PendingEdits<'t, F: Format> {
    pub(super) tree: &'t Tree<F>,
    pub(super) base: Option<ObjRef>,
    pub(super) edits: PatchEdits<'t>,
    /// What is edited below a directory comes before the directory itself.
    pub(super) dir: Option<&'t [u8]>,
}

/// An edit of a directory, or the edits below one.
pub(super) struct PendingEdit<'t, F: Format> {
    tree: &'t Tree<F>,
    base: Option<ObjRef>,
    step: &'t [u8],
    edit: EditPart<'t>,
}

enum EditPart<'t> {
    Below(&'t Patch),
    Step { removes: bool },
}

impl<'t, F: Format> Iterator for PendingEdits<'t, F> {
    type Item = PendingEdit<'t, F>;

    fn next(&mut self) -> Option<Self::Item> {
        let (tree, base) = (self.tree, self.base);
        if let Some(step) = self.dir.take() {
            return Some(PendingEdit { tree, base, step, edit: EditPart::Step { removes: false } });
        }
        let (step, edit) = self.edits.next()?;
        let below: Option<&Patch> = match edit {
            PatchEdit::Dir(below) => Some(below),
            PatchEdit::Detached => Some(tree.active_patch()),
            PatchEdit::Leaf(_) | PatchEdit::Over(_) | PatchEdit::Remove => None,
        };
        let edit = match below {
            Some(below) => {
                self.dir = Some(step);
                EditPart::Below(below)
            }
            None => EditPart::Step { removes: matches!(edit, PatchEdit::Remove) },
        };
        Some(PendingEdit { tree, base, step, edit })
    }
}

impl<'t, F: Format> Task for PendingEdit<'t, F> {
    type Below = PendingEdits<'t, F>;

    fn try_out<S: Source>(&self, source: &S) -> Result<Self::Below, S::Error> {
        let Self { tree, base, step, .. } = *self;
        let nothing = PendingEdits { tree, base, edits: PatchEdits::default(), dir: None };
        let below = match (&self.edit, &base) {
            (EditPart::Step { removes }, Some(dir)) => {
                tree.store.format.read_for_update(source, dir, step, *removes)?;
                return Ok(nothing);
            }
            (EditPart::Step { .. }, None) => return Ok(nothing),
            (EditPart::Below(below), _) => *below,
        };
        let base = match (below.base.own(), &base) {
            (Some(base), _) => base,
            (None, None) => None,
            (None, Some(dir)) => match tree.store.format.find(source, dir, step)? {
                Some((EntryKind::Dir, Target::Object { at, .. })) => tree.store.unless_empty(at),
                _ => None,
            },
        };
        Ok(PendingEdits { tree, base, edits: below.iter(), dir: None })
    }
}
