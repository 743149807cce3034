//! What the edits that are still pending will read.

use bristlecone_core::{EntryKind, Format, ObjRef, Source, Target, Task};

use super::super::{
    Edit, Tree,
    patch::{Base, Edits, Patch},
};

/// The edits of a directory.
pub(super) struct Pending<'t, F: Format> {
    pub(super) tree: &'t Tree<F>,
    pub(super) base: Option<ObjRef>,
    pub(super) edits: Edits<'t>,
    /// What is edited below a directory comes before the directory itself.
    pub(super) dir: Option<&'t [u8]>,
}

/// An edit of a directory, or the edits below one.
pub(super) struct PendingEdit<'t, F: Format> {
    tree: &'t Tree<F>,
    base: Option<ObjRef>,
    step: &'t [u8],
    edit: Part<'t>,
}

enum Part<'t> {
    Below(&'t Patch),
    Step { removes: bool },
}

impl<'t, F: Format> Iterator for Pending<'t, F> {
    type Item = PendingEdit<'t, F>;

    fn next(&mut self) -> Option<Self::Item> {
        let (tree, base) = (self.tree, self.base);
        if let Some(step) = self.dir.take() {
            return Some(PendingEdit { tree, base, step, edit: Part::Step { removes: false } });
        }
        let (step, edit) = self.edits.next()?;
        let below: Option<&Patch> = match edit {
            Edit::Dir(below) => Some(below),
            Edit::Detached => Some(tree.active_patch()),
            Edit::Leaf(_) | Edit::Over(_) | Edit::Remove => None,
        };
        let edit = match below {
            Some(below) => {
                self.dir = Some(step);
                Part::Below(below)
            }
            None => Part::Step { removes: matches!(edit, Edit::Remove) },
        };
        Some(PendingEdit { tree, base, step, edit })
    }
}

impl<'t, F: Format> Task for PendingEdit<'t, F> {
    type Below = Pending<'t, F>;

    fn try_out<S: Source>(&self, source: &S) -> Result<Self::Below, S::Error> {
        let Self { tree, base, step, .. } = *self;
        let nothing = Pending { tree, base, edits: Edits::default(), dir: None };
        let below = match (&self.edit, &base) {
            (Part::Step { removes }, Some(dir)) => {
                tree.store.format.read_for_update(source, dir, step, *removes)?;
                return Ok(nothing);
            }
            (Part::Step { .. }, None) => return Ok(nothing),
            (Part::Below(below), _) => *below,
        };
        let base = match (below.base, &base) {
            (Base::Own(base), _) => base,
            (Base::Inherit, None) => None,
            (Base::Inherit, Some(dir)) => match tree.store.format.find(source, dir, step)? {
                Some((EntryKind::Dir, Target::Object { at, .. })) => tree.store.unless_empty(at),
                _ => None,
            },
        };
        Ok(Pending { tree, base, edits: below.iter(), dir: None })
    }
}
