//! Which paths differ between commits and their first parents.

use bristlecone_core::{Entry, EntryKind, Format, Next, ObjRef, ObjectWalk, Oid, PATH_STEPS_MAX, Target, Window};

use super::filter::path_hash;
use crate::{Result, store::StoreView};

/// A commit that changed more paths counts as one that may have changed any.
pub(super) const CHANGES_MAX: usize = 512;

/// The hashes of the paths that changed, directories on the way included, sorted; `None` if there are too many.
pub(super) type ChangedPaths = Option<Vec<u32>>;

/// What a commit may have changed, by the edits that it was made of.
#[derive(Clone, Debug)]
pub(crate) struct EditedPaths {
    // The root that the edits were made over.
    base: Option<Oid>,
    hashes: Vec<u32>,
}

impl EditedPaths {
    /// Returns how many paths it lists.
    #[cfg(test)]
    pub(crate) const fn len(&self) -> usize {
        self.hashes.len()
    }

    /// Returns the changed paths, if the first parent has the root that the edits were made over.
    pub(super) fn over(self, parent: Option<Oid>) -> Option<Vec<u32>> {
        (self.base == parent).then_some(self.hashes)
    }
}

/// Paths of edits, while they are listed.
#[derive(Debug, Default)]
pub(crate) struct EditedPathsList(Vec<u32>);

impl EditedPathsList {
    /// Whether so many more would not be too many.
    pub(crate) const fn has_room(&self, more: usize) -> bool {
        self.0.len() + more <= CHANGES_MAX
    }

    /// Adds a path; `None` where there are too many.
    pub(crate) fn push(&mut self, path: &[u8]) -> Option<()> {
        self.has_room(1).then(|| self.0.push(path_hash(path)))
    }

    /// Returns the paths, with the root that the edits were made over.
    pub(crate) fn over(mut self, base: Option<Oid>) -> EditedPaths {
        self.0.sort_unstable();
        self.0.dedup();
        EditedPaths { base, hashes: self.0 }
    }
}

/// The root of a commit's first parent, and the commit's own.
pub(super) type RootPair = (Option<ObjRef>, ObjRef);

/// Returns what changed between the roots of each pair, in their order. The root itself is no path here.
///
/// Touches only what differs, and stops with a pair once there is too much of it.
pub(super) fn changes<F: Format>(store: &StoreView<F>, pairs: &[RootPair]) -> Result<Vec<ChangedPaths>> {
    let mut window = Window::new(store);
    let mut walk = RootDifferences {
        format: &store.format,
        pairs,
        open: Vec::new(),
        hashes: None,
        under_way: false,
        scouting: false,
    };
    let mut all = Vec::with_capacity(pairs.len());
    while let Some(found) = window.advance(&mut walk)? {
        all.extend(found);
    }
    Ok(all)
}

/// A walk over what differs between the roots of pair after pair. It gives nothing at each path, and what changed at the
/// end of each pair.
struct RootDifferences<'s, F: Format> {
    format: &'s F,
    // Those that are still to come.
    pairs: &'s [RootPair],
    // Directories of this pair that differ, each in the one before.
    open: Vec<ChangedDir<F::Comparison<'s, StoreView<F>>>>,
    // The changed paths of this pair; `None` if there are too many.
    hashes: ChangedPaths,
    under_way: bool,
    scouting: bool,
}

/// A directory that differs.
struct ChangedDir<C> {
    path: Vec<u8>,
    steps: usize,
    walk: C,
}

impl<F: Format> RootDifferences<'_, F> {
    /// Notes that a path differs, and opens the directories there.
    fn note(&mut self, before: Option<&Entry<'_>>, after: Option<&Entry<'_>>) {
        let (Some(dir), Some(entry), Some(hashes)) = (self.open.last(), before.or(after), &mut self.hashes) else {
            return;
        };
        if hashes.len() == CHANGES_MAX {
            self.hashes = None;
            self.open.clear();
            return;
        }
        let (mut path, steps) = (dir.path.clone(), dir.steps + 1);
        if dir.steps > 0 {
            path.push(b'/');
        }
        path.extend_from_slice(&entry.step);
        hashes.push(path_hash(&path));
        let (before, after) = (dir_of(before), dir_of(after));
        // No path that can be asked for is longer.
        if (before.is_some() || after.is_some()) && steps < PATH_STEPS_MAX {
            self.open(path, steps, before, after);
        }
    }

    fn open(&mut self, path: Vec<u8>, steps: usize, before: Option<ObjRef>, after: Option<ObjRef>) {
        let walk = self.format.comparison(before.as_ref(), after.as_ref(), None, None);
        let walk = if self.scouting { walk.scout(true) } else { walk };
        self.open.push(ChangedDir { path, steps, walk });
    }
}

impl<'s, F: Format> ObjectWalk<'s, StoreView<F>> for RootDifferences<'s, F> {
    type Item = Option<ChangedPaths>;

    fn next(&mut self, window: &mut Window<'s, StoreView<F>>) -> Result<Next<Self::Item>> {
        loop {
            if let Some(dir) = self.open.last_mut() {
                match dir.walk.next(window)? {
                    Next::Wants(kind, at) => return Ok(Next::Wants(kind, at)),
                    Next::End => _ = self.open.pop(),
                    Next::Item((before, after)) => {
                        self.note(before.as_ref(), after.as_ref());
                        return Ok(Next::Item(None));
                    }
                }
            } else if std::mem::take(&mut self.under_way) {
                let mut hashes = self.hashes.take();
                hashes.iter_mut().for_each(|hashes| {
                    hashes.sort_unstable();
                    hashes.dedup();
                });
                return Ok(Next::Item(Some(hashes)));
            } else {
                let Some(((before, after), rest)) = self.pairs.split_first() else { return Ok(Next::End) };
                (self.pairs, self.hashes, self.under_way) = (rest, Some(Vec::new()), true);
                self.open(Vec::new(), 0, *before, Some(*after));
            }
        }
    }

    fn scout(&self, _: bool) -> Self {
        let dir = |dir: &ChangedDir<F::Comparison<'s, StoreView<F>>>| ChangedDir {
            path: dir.path.clone(),
            steps: dir.steps,
            walk: dir.walk.scout(true),
        };
        let open = self.open.iter().map(dir).collect();
        Self { open, hashes: self.hashes.clone(), scouting: true, ..*self }
    }

    fn skip(&mut self) {
        self.open.last_mut().into_iter().for_each(|dir| dir.walk.skip());
    }
}

fn dir_of(entry: Option<&Entry<'_>>) -> Option<ObjRef> {
    match entry {
        Some(Entry { kind: EntryKind::Dir, target: Target::Object { at, .. }, .. }) => Some(*at),
        _ => None,
    }
}
