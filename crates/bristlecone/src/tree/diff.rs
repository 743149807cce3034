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
    /// Returns the values that differ between `self` (before) and `after`, below `path`, in the order of paths ([`Path`]).
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
        let mut path = path.as_path()?.into_owned();
        let sides = (stored_at(self, &path)?, stored_at(after, &path)?);
        let store = self.store.clone();
        // Directories that differ, each in the one before: a list, since trees are deep.
        let mut open = vec![store.format.diff(&*store, sides.0.as_ref(), sides.1.as_ref(), None, None)?];
        while let Some(dir) = open.last_mut() {
            let Some(pair) = dir.next() else {
                open.pop();
                path.pop();
                continue;
            };
            let (old, new) = pair?;
            let Some(entry) = old.as_ref().or(new.as_ref()) else { continue };
            path.push(&entry.step)?;
            let dirs = (dir_of(old.as_ref()), dir_of(new.as_ref()));
            let old = old.filter(|entry| entry.kind != EntryKind::Dir);
            let new = new.filter(|entry| entry.kind != EntryKind::Dir);
            // A value in place of a directory comes before what was in it.
            if old.is_some() || new.is_some() {
                each(Difference {
                    path: path.clone(),
                    before: old.map(|entry| dir_entry(self, entry)),
                    after: new.map(|entry| dir_entry(after, entry)),
                })?;
            }
            if dirs.0.is_some() || dirs.1.is_some() {
                open.push(store.format.diff(&*store, dirs.0.as_ref(), dirs.1.as_ref(), None, None)?);
            } else {
                path.pop();
            }
        }
        Ok(())
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

fn dir_of(entry: Option<&Entry<'_>>) -> Option<ObjRef> {
    match entry {
        Some(Entry { kind: EntryKind::Dir, target: Target::Object { at, .. }, .. }) => Some(*at),
        _ => None,
    }
}

fn dir_entry<'t, F: Format>(tree: &'t Tree<F>, entry: Entry<'t>) -> DirEntry<'t, F> {
    DirEntry::new(tree, entry.step, Binding::of((entry.kind, entry.target)))
}
