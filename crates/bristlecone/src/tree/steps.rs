//! The root directory of a tree by steps, such as maps have for keys: any bytes, also those that no path can have.

use std::sync::Arc;

use bristlecone_core::{Bytes, EntryKind, Format, ObjRef, Path, Target};

use super::{
    Binding, Cursor, Entries, Listing, Tree,
    parts::edit_bytes,
    patch::{Patch, PatchBase, PatchEdit, StepEdit, sort_steps},
};
use crate::{Error, NewValue, Result, store::StoreView};

/// What a pending edit makes of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StepChange {
    /// Something is bound to it.
    Bound,
    /// Nothing is.
    Removed,
}

/// What a step is bound to, as far as values go.
#[derive(Clone, Debug)]
pub(crate) enum StepValue<'t> {
    /// The value.
    Bytes(Bytes<'t>),
    /// A directory or a foreign id.
    Other,
}

impl<F: Format> Tree<F> {
    /// Returns what `step` of the root is bound to.
    #[inline]
    pub(crate) fn get_step(&self, step: &[u8]) -> Result<Option<StepValue<'_>>> {
        if self.patch.is_none() && self.in_flight.is_empty() {
            let Some(base) = &self.base else { return Ok(None) };
            return match self.store.format.find(&*self.store, base, step)? {
                None => Ok(None),
                Some((_, Target::Inline(bytes))) => Ok(Some(StepValue::Bytes(bytes))),
                Some((kind, Target::Object { at, .. })) if kind.has_contents() => {
                    Ok(Some(StepValue::Bytes(self.store.format.read_contents(&*self.store, &at, 0..u64::MAX)?)))
                }
                Some(_) => Ok(Some(StepValue::Other)),
            };
        }
        let Some(binding) = self.find_step(step)? else { return Ok(None) };
        Ok(Some(self.contents(&binding)?.map_or(StepValue::Other, StepValue::Bytes)))
    }

    /// Returns the kind of what `step` of the root is bound to.
    pub(crate) fn step_kind(&self, step: &[u8]) -> Result<Option<EntryKind>> {
        Ok(self.find_step(step)?.map(|binding| binding.kind()))
    }

    fn find_step(&self, step: &[u8]) -> Result<Option<Binding<'_>>> {
        let root = if self.in_flight.is_empty() { self.root_dir()? } else { self.root_in_flight() };
        self.resolved(&root, step)
    }

    /// Binds `step` of the root to a value.
    pub(crate) fn set_step(&mut self, step: &[u8], value: NewValue<'_>) -> Result<()> {
        let leaf = self.leaf(EntryKind::Value, value)?;
        let edit = PatchEdit::Leaf(leaf);
        self.count_pending(edit_bytes(step, &edit))?;
        let PatchEdit::Leaf(leaf) = edit else { unreachable!("just made") };
        let Some(leaf) = self.root_patch().set_leaf(step, leaf) else { return Ok(()) };
        self.check_no_dir(step)?;
        self.root_patch().set_over(step, leaf);
        Ok(())
    }

    /// Fails where edits below a directory at `step` are pending that leave something there. A path led to it.
    fn check_no_dir(&self, step: &[u8]) -> Result<()> {
        match self.step_kind(step)? {
            Some(EntryKind::Dir) => Err(Error::IsDirectory { path: Path::from_bytes(step)? }),
            _ => Ok(()),
        }
    }

    /// Removes `step` of the root.
    pub(crate) fn remove_step(&mut self, step: &[u8]) -> Result<()> {
        self.count_pending(edit_bytes(step, &PatchEdit::Remove))?;
        self.root_patch().set(step, PatchEdit::Remove);
        Ok(())
    }

    /// Makes a value ready to be bound, by [`Tree::edit_steps`].
    pub(crate) fn step_edit(&mut self, step: &[u8], value: Option<NewValue<'_>>) -> Result<StepEdit> {
        let edit = match value {
            Some(value) => PatchEdit::Leaf(self.leaf(EntryKind::Value, value)?),
            None => PatchEdit::Remove,
        };
        Ok(StepEdit::new(step, edit))
    }

    /// Makes many edits of the root, all or none; of those of one step the last counts.
    pub(crate) fn edit_steps(&mut self, edits: Vec<StepEdit>) -> Result<()> {
        if edits.is_empty() {
            return Ok(());
        }
        let edits = sort_steps(edits);
        self.count_pending(edits.iter().map(|edit| edit_bytes(edit.step(), edit.edit())).sum())?;
        self.attach_active();
        if self.patch.as_ref().is_some_and(|patch| patch.levels > 1) {
            edits.iter().filter(|edit| edit.is_leaf()).try_for_each(|edit| self.check_no_dir(edit.step()))?;
        }
        self.root_patch().set_many(edits);
        Ok(())
    }

    fn root_patch(&mut self) -> &mut Patch {
        self.attach_active();
        let base = self.base;
        Arc::make_mut(self.patch.get_or_insert_with(|| Arc::new(Patch::new(PatchBase::Own(base)))))
    }

    /// Returns the entries of the root.
    pub(crate) fn list_steps(&self, listing: &Listing) -> Result<Entries<'_, F>> {
        Entries::new(self, Some(self.root_dir()?), listing)
    }

    /// Returns a cursor over the entries of the root.
    pub(crate) fn step_cursor(&self) -> Result<Cursor<'_, F>> {
        Ok(Cursor::new(self, self.root_dir()?))
    }

    /// Returns the stored root, which pending edits apply to; `None` for an empty one.
    pub(crate) fn stored_root(&self) -> Result<Option<ObjRef>> {
        self.written_base()
    }

    /// Returns the steps of the root that were edited and lie in `from..to`, in order, with what they become.
    pub(crate) fn edited_steps(
        &self,
        from: Option<&[u8]>,
        to: Option<&[u8]>,
    ) -> Result<impl DoubleEndedIterator<Item = Result<(&[u8], StepChange)>>> {
        let root = self.root_dir()?;
        let edits = self.patch.as_ref().map(|patch| patch.range(from, to)).unwrap_or_default();
        Ok(edits.map(move |(step, edit)| {
            let bound = match edit {
                PatchEdit::Remove => false,
                PatchEdit::Leaf(_) | PatchEdit::Over(_) => true,
                PatchEdit::Dir(_) | PatchEdit::Detached => self.resolved(&root, step)?.is_some(),
            };
            Ok((step, if bound { StepChange::Bound } else { StepChange::Removed }))
        }))
    }

    /// Returns what the tree reads from.
    pub(crate) fn view(&self) -> &StoreView<F> {
        &self.store
    }

    /// Returns the value of an object that the root names.
    pub(crate) fn read_stored(&self, at: &ObjRef) -> Result<Bytes<'_>> {
        self.read_value(at, 0..u64::MAX)
    }
}
