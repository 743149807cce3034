//! What differs between two trees, touching only what does.

use bristlecone_core::{AsPath, Entry, EntryKind, Format, Next, ObjRef, Path, Target, Walk, Window, native::Native};

use super::{Binding, DirEntry, Tree};
use crate::{Result, store::Store};

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
        let path = path.as_path()?.into_owned();
        let sides = (stored_at(self, &path)?, stored_at(after, &path)?);
        let store = self.store.clone();
        let mut window = Window::new(&*store);
        let mut below = Below::new(&store.format, sides.0.as_ref(), sides.1.as_ref(), path);
        while let Some((path, old, new)) = window.advance(&mut below)? {
            let old = old.filter(|entry| entry.kind != EntryKind::Dir);
            let new = new.filter(|entry| entry.kind != EntryKind::Dir);
            // A value in place of a directory comes before what was in it.
            if old.is_some() || new.is_some() {
                each(Difference {
                    path,
                    before: old.map(|entry| dir_entry(self, entry)),
                    after: new.map(|entry| dir_entry(after, entry)),
                })?;
            }
        }
        Ok(())
    }
}

/// A walk over the bindings that differ between two directories and all below them, with their paths. Directories that differ
/// come before what is in them.
struct Below<'s, F: Format> {
    format: &'s F,
    // Directories that differ, each in the one before: a list, since trees are deep.
    open: Vec<F::Comparison<'s, Store<F>>>,
    // The path of the last of them, which scouts do not know.
    path: Option<Path>,
}

impl<'s, F: Format> Below<'s, F> {
    fn new(format: &'s F, before: Option<&ObjRef>, after: Option<&ObjRef>, path: Path) -> Self {
        Self { format, open: vec![format.comparison(before, after, None, None)], path: Some(path) }
    }
}

impl<'s, F: Format> Walk<'s, Store<F>> for Below<'s, F> {
    type Item = (Path, Option<Entry<'s>>, Option<Entry<'s>>);

    fn next(&mut self, window: &mut Window<'s, Store<F>>) -> Result<Next<Self::Item>> {
        while let Some(dir) = self.open.last_mut() {
            let (old, new) = match dir.next(window)? {
                Next::Item(pair) => pair,
                Next::Wants(kind, at) => return Ok(Next::Wants(kind, at)),
                Next::End => {
                    self.open.pop();
                    self.path.iter_mut().for_each(|path| _ = path.pop());
                    continue;
                }
            };
            let step = old.as_ref().or(new.as_ref()).map_or(&[][..], |entry| &entry.step);
            let path = self.path.as_ref().map_or_else(|| Ok(Path::root()), |path| path.join(step))?;
            let dirs = (dir_of(old.as_ref()), dir_of(new.as_ref()));
            if dirs.0.is_some() || dirs.1.is_some() {
                let below = self.format.comparison(dirs.0.as_ref(), dirs.1.as_ref(), None, None);
                self.open.push(if self.path.is_some() { below } else { below.scout(true) });
                self.path.iter_mut().for_each(|above| above.clone_from(&path));
            }
            return Ok(Next::Item((path, old, new)));
        }
        Ok(Next::End)
    }

    fn scout(&self, _: bool) -> Self {
        let open = self.open.iter().map(|dir| dir.scout(true)).collect();
        Self { format: self.format, open, path: None }
    }

    fn skip(&mut self) {
        self.open.last_mut().into_iter().for_each(Walk::skip);
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
