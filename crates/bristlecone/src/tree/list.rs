//! Listing: the entries of one directory within bounds, from either end.

use std::{cmp::Ordering, fmt, iter::Peekable, ops::RangeBounds};

use bristlecone_core::{Ahead, AsPath, Bytes, Direction, Entry, Format, Next, ObjectWalk as _, Window, native::Native};

use super::{Binding, DirEntry, DirRef, Listing, PatchEdit, Tree};
use crate::{Result, store::StoreView};

/// The entries of a listing, loaded as they are asked for, from either end.
pub struct Entries<'t, F: Format = Native> {
    tree: &'t Tree<F>,
    // `None` where there is no directory, and once all entries were given.
    dir: Option<DirRef<'t>>,
    listing: Listing,
    front: ListRun<'t, F>,
    // The other end, where that is wanted, and the step that it gave last; then also the next entry of the front, to tell
    // where they meet.
    back: Option<(Box<ListRun<'t, F>>, Vec<u8>)>,
    peeked: Option<DirEntry<'t, F>>,
}

impl<F: Format> fmt::Debug for Entries<'_, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Entries").field("listing", &self.listing).finish_non_exhaustive()
    }
}

/// The entries of a directory in one direction, read ahead.
pub(super) enum ListRun<'t, F: Format> {
    Stored(Ahead<'t, StoreView<F>, F::Listing<'t, StoreView<F>>>),
    Edited(Box<Ahead<'t, StoreView<F>, DirWalk<'t, F>>>),
}

impl<'t, F: Format> ListRun<'t, F> {
    /// Begins a run, leaving out as many of its first entries as `skip` says; what it cannot pass over unread is left in it.
    pub(super) fn new(tree: &'t Tree<F>, dir: DirRef<'t>, listing: &Listing, skip: &mut u64) -> Result<Self> {
        let mut dir = DirWalk::new(tree, dir, listing);
        if let DirWalk { stored: Some(stored), edits: None, .. } = &mut dir
            && *skip > 0
            && stored.skip_items(*skip)
        {
            *skip = 0;
        }
        Ok(match dir {
            DirWalk { stored: Some(stored), edits: None, .. } => Self::Stored(Ahead::new(&*tree.store, stored)?),
            dir => Self::Edited(Box::new(Ahead::new(&*tree.store, dir)?)),
        })
    }

    #[inline]
    pub(super) fn next(&mut self, tree: &'t Tree<F>) -> Option<Result<DirEntry<'t, F>>> {
        match self {
            Self::Stored(entries) => Some(entries.next()?.map(|entry| tree.dir_entry(entry))),
            Self::Edited(entries) => entries.next(),
        }
    }
}

impl<'t, F: Format> Entries<'t, F> {
    pub(super) fn new(tree: &'t Tree<F>, dir: Option<DirRef<'t>>, listing: &Listing) -> Result<Self> {
        let mut listing = listing.clone();
        let front = ListRun::new(tree, dir.unwrap_or(DirRef::stored(None)), &listing.clone(), &mut listing.skip)?;
        Ok(Self { tree, dir, listing, front, back: None, peeked: None })
    }

    /// Returns the next entry of the front.
    #[inline]
    fn pull(&mut self) -> Option<Result<DirEntry<'t, F>>> {
        loop {
            match self.front.next(self.tree)? {
                Ok(_) if self.listing.skip > 0 => self.listing.skip -= 1,
                found => return Some(found),
            }
        }
    }

    fn pull_back(&mut self) -> Result<Option<DirEntry<'t, F>>> {
        let Some(dir) = self.dir else { return Ok(None) };
        if self.peeked.is_none() {
            let peeked = self.next();
            // What is only looked at does not count.
            self.listing.limit.iter_mut().for_each(|limit| *limit += 1);
            self.peeked = peeked.transpose()?;
        }
        let Some(front) = &self.peeked else { return Ok(None) };
        let (back, last) = match &mut self.back {
            Some(back) => back,
            None => {
                let listing = Listing { skip: 0, ..self.listing.clone() }.reverse();
                self.back.insert((Box::new(ListRun::new(self.tree, dir, &listing, &mut 0)?), Vec::new()))
            }
        };
        let Some(entry) = back.next(self.tree).transpose()? else { return Ok(None) };
        last.clear();
        last.extend_from_slice(entry.step());
        if front.step() == entry.step() {
            (self.dir, self.peeked) = (None, None);
        }
        Ok(Some(entry))
    }
}

impl<'t, F: Format> Iterator for Entries<'t, F> {
    type Item = Result<DirEntry<'t, F>>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.dir.is_none() || self.listing.limit == Some(0) {
            return None;
        }
        let found = match self.peeked.take() {
            Some(entry) => Some(Ok(entry)),
            None => self.pull(),
        };
        let met = match (&found, &self.back) {
            (Some(Ok(entry)), Some((_, last))) => !self.listing.direction.is_before(entry.step(), last),
            (found, _) => !matches!(found, Some(Ok(_))),
        };
        if met {
            self.dir = None;
        }
        self.listing.limit.iter_mut().for_each(|limit| *limit -= 1);
        found.filter(|found| !met || found.is_err())
    }
}

impl<F: Format> DoubleEndedIterator for Entries<'_, F> {
    /// Returns the last entry that was not given yet. A limit counts what both ends give.
    fn next_back(&mut self) -> Option<Self::Item> {
        if self.dir.is_none() || self.listing.limit == Some(0) {
            return None;
        }
        let found = self.pull_back();
        if !matches!(found, Ok(Some(_))) {
            self.dir = None;
        }
        self.listing.limit.iter_mut().for_each(|limit| *limit -= 1);
        found.transpose()
    }
}

impl<F: Format> Tree<F> {
    /// Returns the entries of the directory at `path`, in order; none if there is no directory.
    ///
    /// # Errors
    /// As [`Tree::get`].
    pub fn list(&self, path: impl AsPath) -> Result<Entries<'_, F>> {
        self.list_with(path, &Listing::new())
    }

    /// Returns the entries of the directory at `path` that `listing` asks for.
    ///
    /// Loads only the pieces of a wide directory that hold them.
    ///
    /// # Errors
    /// As [`Tree::get`].
    pub fn list_with(&self, path: impl AsPath, listing: &Listing) -> Result<Entries<'_, F>> {
        Entries::new(self, self.walk(path.as_path()?.as_bytes())?, listing)
    }

    /// Returns the entries of the directory at `path` whose steps lie within bounds, in order, from either end.
    ///
    /// ```
    /// # use bristlecone::Repo;
    /// # let mut tree = Repo::memory().tree();
    /// for month in ["apr", "feb", "jan", "mar"] {
    ///     tree.set(["months", month], b"x")?;
    /// }
    /// let mut found = tree.range("months", "feb"..="mar")?.map(|entry| entry.map(|entry| entry.step().to_vec()));
    /// assert_eq!(found.next().transpose()?.as_deref(), Some(&b"feb"[..]));
    /// assert_eq!(found.next_back().transpose()?.as_deref(), Some(&b"mar"[..]));
    /// assert_eq!(found.next().transpose()?.as_deref(), Some(&b"jan"[..]));
    /// assert!(found.next().is_none());
    /// # Ok::<(), bristlecone::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Tree::get`].
    pub fn range<K: AsRef<[u8]>>(&self, path: impl AsPath, bounds: impl RangeBounds<K>) -> Result<Entries<'_, F>> {
        self.list_with(path, &Listing::new().range(bounds))
    }

    /// Returns the number of entries of the directory at `path`; one object is loaded if nothing is edited.
    ///
    /// # Errors
    /// As [`Tree::get`].
    pub fn count(&self, path: impl AsPath) -> Result<u64> {
        let path = path.as_path()?;
        match self.walk(path.as_bytes())? {
            Some(DirRef { patch: None, base: Some(base), .. }) => self.store.format.count(&*self.store, &base),
            Some(_) => {
                let mut count = 0;
                for entry in self.list(&*path)? {
                    entry?;
                    count += 1;
                }
                Ok(count)
            }
            None => Ok(0),
        }
    }

    #[inline]
    fn dir_entry<'t>(&'t self, entry: Entry<'t>) -> DirEntry<'t, F> {
        DirEntry::new(self, entry.step, Binding::of((entry.kind, entry.target)))
    }
}

/// Edits in the order of the listing.
type BoxedEdits<'t> = Box<dyn Iterator<Item = (&'t [u8], &'t PatchEdit)> + Send + 't>;

/// A walk over the entries of one directory: what is stored, with edits over it.
pub(super) struct DirWalk<'t, F: Format> {
    tree: &'t Tree<F>,
    stored: Option<F::Listing<'t, StoreView<F>>>,
    edits: Option<ListedEdits<'t>>,
}

/// The edits of a directory.
struct ListedEdits<'t> {
    dir: DirRef<'t>,
    rest: Peekable<BoxedEdits<'t>>,
    direction: Direction,
    /// The stored entry that comes next, once it is known.
    stored: Option<Entry<'t>>,
}

impl<'t, F: Format> DirWalk<'t, F> {
    pub(super) fn new(tree: &'t Tree<F>, dir: DirRef<'t>, listing: &Listing) -> Self {
        let (from, to, direction) = (listing.from.as_deref(), listing.to.as_deref(), listing.direction);
        let stored = dir.base.map(|base| tree.store.format.listing(&base, from, to, direction));
        let edits = dir.patch.map(|patch| {
            let rest: BoxedEdits<'t> = match direction {
                Direction::Forward => Box::new(patch.range(from, to)),
                Direction::Reverse => Box::new(patch.range(from, to).rev()),
            };
            ListedEdits { dir, rest: rest.peekable(), direction, stored: None }
        });
        Self { tree, stored, edits }
    }

    #[inline]
    fn next_stored(&mut self, window: &mut Window<'t, StoreView<F>>) -> Result<Next<Entry<'t>>> {
        self.stored.as_mut().map_or(Ok(Next::End), |stored| stored.next(window))
    }
}

impl<'t, F: Format> bristlecone_core::ObjectWalk<'t, StoreView<F>> for DirWalk<'t, F> {
    type Item = DirEntry<'t, F>;

    #[inline]
    fn next(&mut self, window: &mut Window<'t, StoreView<F>>) -> Result<Next<DirEntry<'t, F>>> {
        loop {
            let Some(edits) = &mut self.edits else {
                return Ok(match self.next_stored(window)? {
                    Next::Item(entry) => Next::Item(self.tree.dir_entry(entry)),
                    Next::Wants(kind, at) => Next::Wants(kind, at),
                    Next::End => Next::End,
                });
            };
            if edits.stored.is_none() {
                match self.next_stored(window)? {
                    Next::Item(entry) => self.edits.iter_mut().for_each(|edits| edits.stored = Some(entry.clone())),
                    Next::Wants(kind, at) => return Ok(Next::Wants(kind, at)),
                    Next::End => self.stored = None,
                }
            }
            let Some(edits) = &mut self.edits else { continue };
            let order = match (&edits.stored, edits.rest.peek()) {
                (None, None) => return Ok(Next::End),
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (Some(entry), Some((step, _))) => {
                    let order = entry.step[..].cmp(step);
                    if edits.direction == Direction::Forward { order } else { order.reverse() }
                }
            };
            let stored = if order.is_le() { edits.stored.take() } else { None };
            if let Some(entry) = stored.filter(|_| order.is_lt()) {
                return Ok(Next::Item(self.tree.dir_entry(entry)));
            }
            let Some((step, _)) = edits.rest.next() else { return Ok(Next::End) };
            if let Some(binding) = self.tree.resolved(&edits.dir, step)? {
                return Ok(Next::Item(DirEntry::new(self.tree, Bytes::from(step), binding)));
            }
        }
    }

    /// What is stored under a name that was edited is wanted too where it is a directory: edits below apply to it.
    fn scout(&self, items: bool) -> Self {
        let stored = self.stored.as_ref().map(|stored| stored.scout(items));
        Self { tree: self.tree, stored, edits: None }
    }

    fn skip(&mut self) {
        self.stored.iter_mut().for_each(bristlecone_core::ObjectWalk::skip);
    }
}
