//! What differs between the root directories of two trees, by steps, such as maps have for keys.

use std::sync::Arc;

use bristlecone_core::{Bytes, Format, Next, ObjectWalk, Path, Window};

use super::{
    Binding, DirEntry, Tree,
    diff::{ComparedDirs, SideBinding, Sides},
};
use crate::{Error, Result, store::StoreView};

/// The entries that differ between two roots, in the order of steps: before, after.
pub(crate) struct StepDifferences<'t, F: Format> {
    window: Window<'t, StoreView<F>>,
    walk: StepDiffWalk<'t, F>,
}

struct StepDiffWalk<'t, F: Format> {
    sides: Sides<'t, F>,
    dirs: Option<ComparedDirs<'t, F>>,
    // What the walk found last, which is large.
    old: SideBinding<'t>,
    new: SideBinding<'t>,
}

impl<F: Format> Tree<F> {
    /// Returns the entries of the root that differ between `self` (before) and `after`.
    pub(crate) fn diff_steps<'t>(&'t self, after: &'t Self) -> Result<StepDifferences<'t, F>> {
        if !Arc::ptr_eq(&self.store.backend, &after.store.backend) {
            return Err(Error::Usage { reason: "maps of different stores are not compared: copy the objects first" });
        }
        let sides = Sides { before: self, after };
        let dirs = sides.compare(&Path::root(), Some(self.root_dir()?), Some(after.root_dir()?));
        let walk = StepDiffWalk { sides, dirs, old: None, new: None };
        Ok(StepDifferences { window: sides.window(), walk })
    }
}

/// An entry of both sides: before, after.
type StepDifference<'t, F> = (Option<DirEntry<'t, F>>, Option<DirEntry<'t, F>>);

impl<'t, F: Format> Iterator for StepDifferences<'t, F> {
    type Item = Result<StepDifference<'t, F>>;

    fn next(&mut self) -> Option<Self::Item> {
        let found = self.window.advance(&mut self.walk);
        if !matches!(found, Ok(Some(()))) {
            self.walk.dirs = None;
        }
        let entry = |tree, bound: &mut SideBinding<'t>| {
            bound.take().map(|(step, binding): (Bytes<'t>, _)| DirEntry::new(tree, step, binding))
        };
        let walk = &mut self.walk;
        let (before, after) = (walk.sides.before, walk.sides.after);
        found.map(|found| found.map(|()| (entry(before, &mut walk.old), entry(after, &mut walk.new)))).transpose()
    }
}

impl<'t, F: Format> ObjectWalk<'t, StoreView<F>> for StepDiffWalk<'t, F> {
    type Item = ();

    #[inline]
    fn next(&mut self, window: &mut Window<'t, StoreView<F>>) -> Result<Next<()>> {
        let Some(dirs) = &mut self.dirs else { return Ok(Next::End) };
        loop {
            let next = dirs.next(self.sides, window, &mut self.old, &mut self.new)?;
            if !matches!(next, Next::Item(())) || !same_dirs(self.sides, &self.old, &self.new)? {
                return Ok(next);
            }
        }
    }

    fn scout(&self, _: bool) -> Self {
        Self { sides: self.sides, dirs: self.dirs.as_ref().map(ComparedDirs::scout), old: None, new: None }
    }

    fn skip(&mut self) {
        self.dirs.iter_mut().for_each(ComparedDirs::skip);
    }
}

/// Whether both sides have a directory that edits, of which there are some, leave the same.
fn same_dirs<'t, F: Format>(sides: Sides<'t, F>, old: &SideBinding<'t>, new: &SideBinding<'t>) -> Result<bool> {
    match (old, new) {
        (Some((step, Binding::Dir(before))), Some((_, Binding::Dir(after))))
            if before.patch.is_some() || after.patch.is_some() =>
        {
            // No path leads to a directory at another step, so there are no edits below it either.
            let path = Path::root().join(step).unwrap_or_default();
            Ok(!sides.differs_below(path, *before, *after)?)
        }
        _ => Ok(false),
    }
}
