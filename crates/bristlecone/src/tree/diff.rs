//! What differs between two trees, touching only what does.

use bristlecone_core::{AsPath, Entry, EntryKind, Format, ObjRef, Path, Target, native::Native};

use super::{Binding, DirEntry, Tree};
use crate::Result;

/// One path at which two trees differ.
#[derive(Clone, Debug)]
pub struct Difference<'t, F: Format = Native> {
    /// Where.
    pub path: Path,
    /// What was there; `None` if it was added. Never a directory.
    pub before: Option<DirEntry<'t, F>>,
    /// What is there; `None` if it was removed. Never a directory.
    pub after: Option<DirEntry<'t, F>>,
}

impl<F: Format> Tree<F> {
    /// Returns the values that differ between `self` (before) and `after`, below `path`, in order of paths.
    ///
    /// Subtrees, and pieces of wide directories, that both share are skipped by their ids. Pending edits
    /// of either tree are hashed and written first, as [`Tree::write`] does.
    ///
    /// # Errors
    /// As [`Tree::find`] and [`Tree::write`].
    pub fn diff<'t>(
        &'t mut self,
        after: &'t mut Self,
        path: impl AsPath,
        each: &mut dyn FnMut(Difference<'_, F>) -> Result<()>,
    ) -> Result<()> {
        let path = path.as_path()?;
        let sides = (stored_at(self, &path)?, stored_at(after, &path)?);
        let mut walk = Walk { before: self, after, each };
        walk.dirs(&path, sides.0.as_ref(), sides.1.as_ref())
    }
}

/// Writes what was edited, and returns the directory at a path.
fn stored_at<F: Format>(tree: &mut Tree<F>, path: &Path) -> Result<Option<ObjRef>> {
    if tree.is_edited() {
        // There are formats that have no empty root to write.
        if tree.is_empty()? {
            return Ok(None);
        }
        tree.write()?;
    }
    Ok(tree.walk(path.as_bytes())?.and_then(|place| place.base))
}

struct Walk<'t, 'e, F: Format> {
    before: &'t Tree<F>,
    after: &'t Tree<F>,
    each: &'e mut dyn FnMut(Difference<'_, F>) -> Result<()>,
}

impl<F: Format> Walk<'_, '_, F> {
    fn dirs(&mut self, path: &Path, before: Option<&ObjRef>, after: Option<&ObjRef>) -> Result<()> {
        let store = self.before.store.clone();
        for pair in store.format.diff(&*store, before, after, None, None)? {
            let (before, after) = pair?;
            let Some(step) = before.as_ref().or(after.as_ref()).map(|entry| entry.step.to_vec()) else { continue };
            self.pair(&path.join(&step)?, before, after)?;
        }
        Ok(())
    }

    fn pair(&mut self, path: &Path, before: Option<Entry<'_>>, after: Option<Entry<'_>>) -> Result<()> {
        let (old_dir, new_dir) = (dir_of(before.as_ref()), dir_of(after.as_ref()));
        let old = before.filter(|entry| entry.kind != EntryKind::Dir);
        let new = after.filter(|entry| entry.kind != EntryKind::Dir);
        // A value in place of a directory comes before what was in it.
        if old.is_some() || new.is_some() {
            (self.each)(Difference {
                path: path.clone(),
                before: old.map(|entry| dir_entry(self.before, entry)),
                after: new.map(|entry| dir_entry(self.after, entry)),
            })?;
        }
        if old_dir.is_some() || new_dir.is_some() {
            self.dirs(path, old_dir.as_ref(), new_dir.as_ref())?;
        }
        Ok(())
    }
}

fn dir_of(entry: Option<&Entry<'_>>) -> Option<ObjRef> {
    match entry {
        Some(Entry { kind: EntryKind::Dir, target: Target::Object { at, .. }, .. }) => Some(*at),
        _ => None,
    }
}

fn dir_entry<'t, F: Format>(tree: &'t Tree<F>, entry: Entry<'t>) -> DirEntry<'t, F> {
    DirEntry::new(tree, entry.step, Binding::of((entry.kind, entry.target)))
}
