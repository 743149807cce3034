//! Walks over everything below a directory.

use std::{fmt, ops::RangeBounds};

use bristlecone_core::{AsPath, Format, Kind, Next, ObjRef, Path, Target, Window, native::Native};

use super::{Binding, DirEntry, Listing, Tree, list::DirWalk};
use crate::{Result, store::StoreView};

impl<F: Format> Tree<F> {
    /// Returns everything below `path` in the order of paths ([`Path`]): depth first, directories before what is in
    /// them.
    ///
    /// # Errors
    /// As [`Tree::get`].
    pub fn walk_all(&self, path: impl AsPath) -> Result<Walk<'_, F>> {
        let path = path.as_path()?;
        let dir = self.walk(path.as_bytes())?;
        let open = dir.map(|dir| DirWalk::new(self, dir, &Listing::new())).into_iter().collect();
        let path = Some(Path::root());
        let below = TreeWalk { tree: self, open, path, nameless: false, deep: true, values: false, waiting: None };
        Ok(Walk { window: Window::new(&*self.store), below })
    }

    /// Returns the entries of the directory at `path` whose steps are within `bounds`, in order, for callers that want
    /// every value: values are read ahead as those of [`Tree::walk_values`] are.
    ///
    /// ```
    /// # use bristlecone::Repo;
    /// # let mut tree = Repo::memory().tree();
    /// for n in 0..100 {
    ///     tree.set(format!("dir/{n:02}"), format!("value {n}"))?;
    /// }
    /// let some = tree.range_values("dir", "10".."13")?;
    /// let values: Vec<_> = some.map(|entry| entry?.contents()).collect::<Result<_, _>>()?;
    /// assert_eq!(values[2].as_deref(), Some(&b"value 12"[..]));
    /// # Ok::<(), bristlecone::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Tree::get`].
    pub fn range_values<K: AsRef<[u8]>>(
        &self,
        path: impl AsPath,
        bounds: impl RangeBounds<K>,
    ) -> Result<impl Iterator<Item = Result<DirEntry<'_, F>>>> {
        let dir = self.walk(path.as_path()?.as_bytes())?;
        let open = dir.map(|dir| DirWalk::new(self, dir, &Listing::new().range(bounds))).into_iter().collect();
        let path = None;
        let below = TreeWalk { tree: self, open, path, nameless: false, deep: false, values: true, waiting: None };
        let walk = Walk { window: Window::new(&*self.store), below };
        Ok(walk.map(|found| found.map(|(_, entry)| entry)))
    }

    /// As [`Tree::walk_all`], for callers that want every value: where the store does not lend values, they are read ahead
    /// with the directories, many a call. Of a value that is cut into pieces only the list of them is.
    ///
    /// # Errors
    /// As [`Tree::get`].
    pub fn walk_values(&self, path: impl AsPath) -> Result<Walk<'_, F>> {
        let mut walk = self.walk_all(path)?;
        walk.below.values = true;
        Ok(walk)
    }

    /// Folds `each` over everything below `path`, in the order of [`Tree::walk_all`].
    ///
    /// # Errors
    /// As [`Tree::get`]; what `each` returns.
    pub fn fold<A>(
        &self,
        path: impl AsPath,
        initial: A,
        mut each: impl FnMut(A, &Path, &DirEntry<'_, F>) -> Result<A>,
    ) -> Result<A> {
        let mut state = initial;
        for entry in self.walk_all(path)? {
            let (path, entry) = entry?;
            state = each(state, &path, &entry)?;
        }
        Ok(state)
    }

    /// Returns the steps of the longest path, walking all directories. Each key of a map counts as a step.
    pub(super) fn count_levels(&self) -> Result<usize> {
        let mut walk = self.walk_all("")?;
        walk.below.nameless = true;
        walk.try_fold(0, |depth: usize, entry| Ok(depth.max(entry?.0.len())))
    }
}

/// Everything below a directory, depth first.
pub struct Walk<'t, F: Format = Native> {
    window: Window<'t, StoreView<F>>,
    below: TreeWalk<'t, F>,
}

impl<F: Format> fmt::Debug for Walk<'_, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Walk").field("path", &self.below.path).finish_non_exhaustive()
    }
}

impl<'t, F: Format> Iterator for Walk<'t, F> {
    type Item = Result<(Path, DirEntry<'t, F>)>;

    fn next(&mut self) -> Option<Self::Item> {
        let found = self.window.advance(&mut self.below);
        if found.is_err() {
            // The walk has ended. An entry whose value cannot be read would be asked for each time.
            self.below.open.clear();
            self.below.waiting = None;
        }
        found.transpose()
    }
}

/// The same as a walk that takes objects from a window.
struct TreeWalk<'t, F: Format> {
    tree: &'t Tree<F>,
    // Directories that are being listed, each in the one before, and the path of the last, which scouts do not know.
    open: Vec<DirWalk<'t, F>>,
    path: Option<Path>,
    // Whether the path is to have as many steps, whatever they are.
    nameless: bool,
    // Whether directories below are listed, too.
    deep: bool,
    // Whether values are wanted, and the entry whose value is.
    values: bool,
    waiting: Option<(Path, DirEntry<'t, F>)>,
}

impl<'t, F: Format> TreeWalk<'t, F> {
    /// Gives the entry that waits its value; returns what is wanted if it is not there.
    fn fill(&mut self, window: &mut Window<'t, StoreView<F>>) -> Option<ObjRef> {
        let (_, entry) = self.waiting.as_mut()?;
        let Binding::Stored(kind, Target::Object { at, .. }) = &entry.binding else { return None };
        if kind.has_contents() {
            let Some(object) = window.get(Kind::Contents, at) else { return Some(*at) };
            entry.value = (object.kind() == Kind::Contents).then(|| object.into_body());
        }
        None
    }
}

impl<'t, F: Format> bristlecone_core::ObjectWalk<'t, StoreView<F>> for TreeWalk<'t, F> {
    type Item = (Path, DirEntry<'t, F>);

    #[inline]
    fn next(&mut self, window: &mut Window<'t, StoreView<F>>) -> Result<Next<Self::Item>> {
        loop {
            if let Some(at) = self.fill(window) {
                return Ok(Next::Wants(Kind::Contents, at));
            }
            if let Some(filled) = self.waiting.take() {
                return Ok(Next::Item(filled));
            }
            let Some(dir) = self.open.last_mut() else { return Ok(Next::End) };
            let entry = match dir.next(window)? {
                Next::Item(entry) => entry,
                Next::Wants(kind, at) => return Ok(Next::Wants(kind, at)),
                Next::End => {
                    self.open.pop();
                    self.path.iter_mut().for_each(|path| _ = path.pop());
                    continue;
                }
            };
            let path = match &mut self.path {
                Some(path) => {
                    path.push(if self.nameless { &b"-"[..] } else { entry.step() })?;
                    path.clone()
                }
                None => Path::root(),
            };
            if let Binding::Dir(dir) = &entry.binding
                && self.deep
            {
                let below = DirWalk::new(self.tree, *dir, &Listing::new());
                self.open.push(if self.path.is_some() { below } else { below.scout(true) });
            } else {
                self.path.iter_mut().for_each(|path| _ = path.pop());
            }
            if self.values {
                self.waiting = Some((path, entry));
            } else {
                return Ok(Next::Item((path, entry)));
            }
        }
    }

    fn scout(&self, _: bool) -> Self {
        let open = self.open.iter().map(|dir| dir.scout(true)).collect();
        Self { open, path: None, waiting: self.waiting.clone(), ..*self }
    }

    fn skip(&mut self) {
        if self.waiting.take().is_some() {
            return;
        }
        self.open.last_mut().into_iter().for_each(bristlecone_core::ObjectWalk::skip);
    }
}
