//! What differs between two trees, touching only what does.

use std::{fmt, iter::Peekable, sync::Arc};

use bristlecone_core::{
    AsPath, Bytes, Direction, Entry, Format, Mode, Next, ObjectWalk, Path, Target, Window, native::Native,
};

use super::{
    Binding, DirEntry, DirRef, Tree,
    patch::{NewLeaf, PatchEdits},
};
use crate::{Error, Result, store::StoreView};

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
    /// Subtrees, and pieces of wide directories, that both share are skipped by their ids. Pending edits of both trees
    /// count, and nothing is written.
    ///
    /// ```
    /// # use bristlecone::Repo;
    /// let mut before = Repo::memory().tree();
    /// before.set("fruit/apple", "red")?;
    /// let mut after = before.clone();
    /// after.set("fruit/plum", "blue")?;
    /// for difference in before.diff(&after, "")? {
    ///     let difference = difference?;
    ///     assert_eq!(difference.path.to_string(), "fruit/plum");
    ///     assert!(difference.before.is_none() && difference.after.is_some());
    /// }
    /// # Ok::<(), bristlecone::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Tree::get`], here and from the iterator, which then ends; [`Error::Usage`] for trees of different stores.
    /// [`Error::Path`] for each key of a map that differs and is no step of a path: the iterator goes on behind it.
    pub fn diff<'t>(&'t self, after: &'t Self, path: impl AsPath) -> Result<Differences<'t, F>> {
        if !Arc::ptr_eq(&self.store.backend, &after.store.backend) {
            return Err(Error::Usage { reason: "trees of different stores are not compared: copy the objects first" });
        }
        let path = path.as_path()?.into_owned();
        let dirs = (self.walk(path.as_bytes())?, after.walk(path.as_bytes())?);
        let sides = Sides { before: self, after };
        let open = sides.compare(&path, dirs.0, dirs.1).into_iter().collect();
        let below = DiffWalk { sides, open, old: None, new: None, path, inside: false, scouting: false };
        Ok(Differences { window: sides.window(), below })
    }
}

/// The values that differ between two trees, found as they are asked for.
pub struct Differences<'t, F: Format = Native> {
    window: Window<'t, StoreView<F>>,
    below: DiffWalk<'t, F>,
}

impl<F: Format> fmt::Debug for Differences<'_, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Differences").field("path", &self.below.path).finish_non_exhaustive()
    }
}

impl<'t, F: Format> Iterator for Differences<'t, F> {
    type Item = Result<Difference<'t, F>>;

    fn next(&mut self) -> Option<Self::Item> {
        let found = self.window.advance(&mut self.below);
        // A key that is no step is passed over.
        if found.as_ref().is_err_and(|error| !matches!(error, Error::Path(_))) {
            self.below.open.clear();
        }
        let below = &mut self.below;
        found.map(|found| found.map(|()| below.difference())).transpose()
    }
}

/// What is bound to a step on one side.
pub(super) type SideBinding<'t> = Option<(Bytes<'t>, Binding<'t>)>;

/// The trees that are compared.
pub(super) struct Sides<'t, F: Format> {
    pub(super) before: &'t Tree<F>,
    pub(super) after: &'t Tree<F>,
}

impl<F: Format> Clone for Sides<'_, F> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<F: Format> Copy for Sides<'_, F> {}

impl<'t, F: Format> Sides<'t, F> {
    /// Returns a window that holds nothing over what both are read from.
    pub(super) fn window(self) -> Window<'t, StoreView<F>> {
        let (before, after) = (&*self.before.store, &*self.after.store);
        // Where no sweep is between them, either shows all.
        Window::over(before, after.shows_more_than(before).then_some(after))
    }

    /// Returns what compares two directories; `None` where nothing can differ.
    pub(super) fn compare(
        self,
        path: &Path,
        before: Option<DirRef<'t>>,
        after: Option<DirRef<'t>>,
    ) -> Option<ComparedDirs<'t, F>> {
        let nothing = DirRef::stored(None);
        let dirs = (before.unwrap_or(nothing), after.unwrap_or(nothing));
        let [old, new] = [&dirs.0, &dirs.1].map(|dir| dir.patch.map(Arc::as_ptr));
        if old == new && dirs.0.base == dirs.1.base && (old.is_none() || !self.has_detached(path)) {
            return None;
        }
        let stored = self.before.store.format.comparison(dirs.0.base.as_ref(), dirs.1.base.as_ref(), None, None);
        let edited = (old.is_some() || new.is_some()).then(|| {
            let edits = |dir: &DirRef<'t>| dir.patch.map(|patch| patch.iter()).unwrap_or_default().peekable();
            Box::new(Edited { before: edits(&dirs.0), after: edits(&dirs.1), dirs, stored: None })
        });
        Some(ComparedDirs { stored: Some(stored), edited })
    }

    /// Whether anything differs below two directories at a path: what is edited there may change nothing.
    pub(super) fn differs_below(self, path: Path, before: DirRef<'t>, after: DirRef<'t>) -> Result<bool> {
        let open = self.compare(&path, Some(before), Some(after)).into_iter().collect();
        let below = DiffWalk { sides: self, open, old: None, new: None, path, inside: false, scouting: false };
        match (Differences { window: self.window(), below }).next() {
            None => Ok(false),
            Some(Ok(_) | Err(Error::Path(_))) => Ok(true),
            Some(Err(error)) => Err(error),
        }
    }

    /// Whether edits at or below a path are in a detached directory. Then equal patches say nothing of them.
    fn has_detached(self, path: &Path) -> bool {
        let active = [&self.before.active, &self.after.active];
        active.into_iter().flatten().any(|active| active.parent.starts_with(path.as_bytes()))
    }

    /// Whether both sides have the same at a step that one of them edited.
    fn same(self, dirs: &(DirRef<'t>, DirRef<'t>), step: &[u8], old: &Binding<'t>, new: &Binding<'t>) -> Result<bool> {
        let same = old.kind() == new.kind()
            && match (old, new) {
                (Binding::Dir(_), _) | (_, Binding::Dir(_)) => false,
                (Binding::Stored(_, one), Binding::Stored(_, other)) if one == other => true,
                (Binding::Leaf(NewLeaf::Stored { at, .. }), Binding::Stored(_, Target::Object { at: other, .. }))
                | (Binding::Stored(_, Target::Object { at: other, .. }), Binding::Leaf(NewLeaf::Stored { at, .. }))
                | (Binding::Leaf(NewLeaf::Stored { at, .. }), Binding::Leaf(NewLeaf::Stored { at: other, .. })) => {
                    at == other
                }
                _ => foreign(old) == foreign(new) && self.same_value(old, new)?,
            };
        Ok(same && self.before.mode(&dirs.0, step, old)? == self.after.mode(&dirs.1, step, new)?)
    }

    fn same_value(self, old: &Binding<'t>, new: &Binding<'t>) -> Result<bool> {
        let entry = |tree, binding: &Binding<'t>| DirEntry::new(tree, Bytes::from(&[][..]), binding.clone());
        let (old, new) = (entry(self.before, old), entry(self.after, new));
        match (old.bytes(), new.bytes()) {
            (Some(one), Some(other)) if one != other => Ok(false),
            _ => Ok(old.contents()? == new.contents()?),
        }
    }
}

impl<F: Format> Tree<F> {
    /// Returns how the mode of an entry is spelled: an edit spells it as usual.
    fn mode(&self, dir: &DirRef<'_>, step: &[u8], binding: &Binding<'_>) -> Result<Mode> {
        let (Binding::Stored(..), Some(base)) = (binding, &dir.base) else { return Ok(Mode::USUAL) };
        let end = [step, &[0]].concat();
        let mut found = self.store.format.entries(&*self.store, base, Some(step), Some(&end), Direction::Forward)?;
        Ok(found.next().transpose()?.map_or(Mode::USUAL, |entry| entry.mode))
    }
}

/// Two directories that are compared.
pub(super) struct ComparedDirs<'t, F: Format> {
    // What is stored; `None` once all of that was given.
    stored: Option<F::Comparison<'t, StoreView<F>>>,
    edited: Option<Box<Edited<'t>>>,
}

/// The edits of two directories that are compared.
struct Edited<'t> {
    dirs: (DirRef<'t>, DirRef<'t>),
    before: Peekable<PatchEdits<'t>>,
    after: Peekable<PatchEdits<'t>>,
    // The stored entries that come next, once they are known.
    stored: Option<(Option<Entry<'t>>, Option<Entry<'t>>)>,
}

impl<'t> Edited<'t> {
    /// Returns the next step that either side edited, if no stored difference comes before it; a stored one at that step is
    /// passed over, since the edit decides.
    fn next_step(&mut self) -> Option<&'t [u8]> {
        let edits = (self.before.peek().map(|edit| edit.0), self.after.peek().map(|edit| edit.0));
        let step = edits.0.into_iter().chain(edits.1).min()?;
        let stored = self.stored.as_ref().and_then(|pair| pair.0.as_ref().or(pair.1.as_ref()));
        if let Some(entry) = stored {
            if entry.step[..] < *step {
                return None;
            }
            if entry.step[..] == *step {
                self.stored = None;
            }
        }
        self.before.next_if(|edit| edit.0 == step);
        self.after.next_if(|edit| edit.0 == step);
        Some(step)
    }
}

impl<'t, F: Format> ComparedDirs<'t, F> {
    /// Goes on to the next step at which the directories differ, and sets what is there on each side.
    #[inline]
    pub(super) fn next(
        &mut self,
        sides: Sides<'t, F>,
        window: &mut Window<'t, StoreView<F>>,
        old: &mut SideBinding<'t>,
        new: &mut SideBinding<'t>,
    ) -> Result<Next<()>> {
        let bound = |entry: Entry<'t>| (entry.step, Binding::of((entry.kind, entry.target)));
        let Some(edited) = &mut self.edited else {
            let Some(stored) = &mut self.stored else { return Ok(Next::End) };
            return Ok(match stored.next(window)? {
                Next::Item(pair) => {
                    (*old, *new) = (pair.0.map(bound), pair.1.map(bound));
                    Next::Item(())
                }
                Next::Wants(kind, at) => Next::Wants(kind, at),
                Next::End => Next::End,
            });
        };
        loop {
            if let (None, Some(stored)) = (&edited.stored, &mut self.stored) {
                match stored.next(window)? {
                    Next::Item(pair) => edited.stored = Some(pair),
                    Next::Wants(kind, at) => return Ok(Next::Wants(kind, at)),
                    Next::End => self.stored = None,
                }
            }
            let Some(step) = edited.next_step() else {
                let Some(pair) = edited.stored.take() else { return Ok(Next::End) };
                (*old, *new) = (pair.0.map(bound), pair.1.map(bound));
                return Ok(Next::Item(()));
            };
            let found = (sides.before.resolved(&edited.dirs.0, step)?, sides.after.resolved(&edited.dirs.1, step)?);
            let same = match &found {
                (Some(old), Some(new)) => sides.same(&edited.dirs, step, old, new)?,
                (old, new) => old.is_none() && new.is_none(),
            };
            if !same {
                let bound = |binding| (Bytes::from(step), binding);
                (*old, *new) = (found.0.map(bound), found.1.map(bound));
                return Ok(Next::Item(()));
            }
        }
    }

    /// What is edited is in memory.
    pub(super) fn scout(&self) -> Self {
        Self { stored: self.stored.as_ref().map(|stored| stored.scout(true)), edited: None }
    }

    /// Passes over the object that was wanted last.
    pub(super) fn skip(&mut self) {
        self.stored.iter_mut().for_each(ObjectWalk::skip);
    }
}

/// A walk over the values that differ between two directories and all below them.
struct DiffWalk<'t, F: Format> {
    sides: Sides<'t, F>,
    // Directories that differ, each in the one before: a list, since trees are deep.
    open: Vec<ComparedDirs<'t, F>>,
    // What the walk found last, which is large, and its path.
    old: SideBinding<'t>,
    new: SideBinding<'t>,
    path: Path,
    // Whether that is in the last directory, and none itself.
    inside: bool,
    // Scouts know no paths.
    scouting: bool,
}

impl<'t, F: Format> DiffWalk<'t, F> {
    /// Returns what the walk found last.
    fn difference(&mut self) -> Difference<'t, F> {
        let entry =
            |tree, bound: &mut SideBinding<'t>| bound.take().map(|(step, binding)| DirEntry::new(tree, step, binding));
        Difference {
            path: self.path.clone(),
            before: entry(self.sides.before, &mut self.old),
            after: entry(self.sides.after, &mut self.new),
        }
    }
}

impl<'t, F: Format> ObjectWalk<'t, StoreView<F>> for DiffWalk<'t, F> {
    type Item = ();

    #[inline]
    fn next(&mut self, window: &mut Window<'t, StoreView<F>>) -> Result<Next<()>> {
        loop {
            if std::mem::take(&mut self.inside) {
                self.path.pop();
            }
            let Some(dir) = self.open.last_mut() else { return Ok(Next::End) };
            match dir.next(self.sides, window, &mut self.old, &mut self.new)? {
                Next::Item(()) => {}
                Next::Wants(kind, at) => return Ok(Next::Wants(kind, at)),
                Next::End => {
                    self.open.pop();
                    self.path.pop();
                    continue;
                }
            }
            if let Some((step, _)) = self.old.as_ref().or(self.new.as_ref()).filter(|_| !self.scouting) {
                self.path.push(step)?;
            }
            let dirs = (take_dir(&mut self.old), take_dir(&mut self.new));
            if dirs.0.is_some() || dirs.1.is_some() {
                match self.sides.compare(&self.path, dirs.0, dirs.1) {
                    Some(below) => self.open.push(if self.scouting { below.scout() } else { below }),
                    None => self.inside = true,
                }
            } else {
                self.inside = true;
            }
            // A value in place of a directory comes before what was in it.
            if self.old.is_some() || self.new.is_some() || self.scouting {
                return Ok(Next::Item(()));
            }
        }
    }

    fn scout(&self, _: bool) -> Self {
        let open = self.open.iter().map(ComparedDirs::scout).collect();
        let (path, inside) = (Path::root(), false);
        Self { sides: self.sides, open, old: None, new: None, path, inside, scouting: true }
    }

    fn skip(&mut self) {
        self.open.last_mut().into_iter().for_each(ComparedDirs::skip);
    }
}

/// Takes the directory that is bound, if it is one.
fn take_dir<'t>(bound: &mut SideBinding<'t>) -> Option<DirRef<'t>> {
    match bound {
        Some((_, Binding::Dir(dir))) => {
            let dir = *dir;
            *bound = None;
            Some(dir)
        }
        _ => None,
    }
}

fn foreign(binding: &Binding<'_>) -> Option<bristlecone_core::Oid> {
    match binding {
        Binding::Stored(_, Target::Foreign(oid)) | Binding::Leaf(NewLeaf::Foreign(oid)) => Some(*oid),
        _ => None,
    }
}
