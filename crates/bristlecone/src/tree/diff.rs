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
        while window.advance(&mut below)?.is_some() {
            // A value in place of a directory comes before what was in it.
            let old = below.old.take().filter(|entry| entry.kind != EntryKind::Dir);
            let new = below.new.take().filter(|entry| entry.kind != EntryKind::Dir);
            if old.is_some() || new.is_some() {
                each(Difference {
                    path: below.path.clone(),
                    before: old.map(|entry| dir_entry(self, entry)),
                    after: new.map(|entry| dir_entry(after, entry)),
                })?;
            }
        }
        Ok(())
    }
}

/// A walk over the bindings that differ between two directories and all below them. Directories that differ come before what is
/// in them.
struct Below<'s, F: Format> {
    format: &'s F,
    // Directories that differ, each in the one before: a list, since trees are deep.
    open: Vec<F::Comparison<'s, Store<F>>>,
    // What was come to last, which is large, and its path.
    old: Option<Entry<'s>>,
    new: Option<Entry<'s>>,
    path: Path,
    // Whether that is in the last directory, and none itself.
    inside: bool,
    // Scouts know no paths.
    scouting: bool,
}

impl<'s, F: Format> Below<'s, F> {
    fn new(format: &'s F, before: Option<&ObjRef>, after: Option<&ObjRef>, path: Path) -> Self {
        let open = vec![format.comparison(before, after, None, None)];
        Self { format, open, old: None, new: None, path, inside: false, scouting: false }
    }
}

impl<'s, F: Format> Walk<'s, Store<F>> for Below<'s, F> {
    type Item = ();

    #[inline]
    fn next(&mut self, window: &mut Window<'s, Store<F>>) -> Result<Next<()>> {
        if std::mem::take(&mut self.inside) {
            self.path.pop();
        }
        while let Some(dir) = self.open.last_mut() {
            match dir.next(window)? {
                Next::Item(pair) => (self.old, self.new) = pair,
                Next::Wants(kind, at) => return Ok(Next::Wants(kind, at)),
                Next::End => {
                    self.open.pop();
                    self.path.pop();
                    continue;
                }
            }
            if let Some(entry) = self.old.as_ref().or(self.new.as_ref()).filter(|_| !self.scouting) {
                self.path.push(&entry.step)?;
            }
            let dirs = (dir_of(self.old.as_ref()), dir_of(self.new.as_ref()));
            if dirs.0.is_some() || dirs.1.is_some() {
                let below = self.format.comparison(dirs.0.as_ref(), dirs.1.as_ref(), None, None);
                self.open.push(if self.scouting { below.scout(true) } else { below });
            } else {
                self.inside = true;
            }
            return Ok(Next::Item(()));
        }
        Ok(Next::End)
    }

    fn scout(&self, _: bool) -> Self {
        let open = self.open.iter().map(|dir| dir.scout(true)).collect();
        let (path, inside) = (Path::root(), false);
        Self { format: self.format, open, old: None, new: None, path, inside, scouting: true }
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
