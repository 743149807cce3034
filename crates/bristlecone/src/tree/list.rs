//! Listing: the entries of one directory within bounds, and walks over everything below.

use std::{cmp::Ordering, iter::Peekable, ops::Bound};

use bristlecone_core::{
    Ahead, AsPath, Bytes, Direction, Entry, EntryKind, Format, Kind, Next, ObjRef, Oid, Path, Target, Walk as _,
    Window, native::Native,
};

use super::{Binding, Edit, Leaf, Place, Tree};
use crate::{Result, store::Store};

/// Which entries of a directory to list.
///
/// ```
/// # use bristlecone::{Listing, Repo};
/// # let mut tree = Repo::memory().tree();
/// for n in 0..100 {
///     tree.add(&format!("dir/{n:02}"), b"x")?;
/// }
/// let page = tree.list_with("dir", &Listing::new().after(b"49").limit(3))?;
/// let steps: Vec<_> = page.map(|entry| entry.map(|entry| entry.step().to_vec())).collect::<Result<_, _>>()?;
/// assert_eq!(steps, [b"50", b"51", b"52"]);
/// # Ok::<(), bristlecone::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Listing {
    from: Option<Vec<u8>>,
    to: Option<Vec<u8>>,
    limit: Option<usize>,
    direction: Direction,
}

impl Listing {
    /// The whole directory, in order.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Starts at `step`, where it is an entry, or at the next one.
    #[must_use]
    pub fn from(mut self, step: &[u8]) -> Self {
        self.from = Some(step.to_vec());
        self
    }

    /// Starts after `step`: the next page after one that ended with it.
    #[must_use]
    pub fn after(self, step: &[u8]) -> Self {
        let mut next = step.to_vec();
        next.push(0);
        self.from(&next)
    }

    /// Ends before `step`.
    #[must_use]
    pub fn to(mut self, step: &[u8]) -> Self {
        self.to = Some(step.to_vec());
        self
    }

    /// Only steps that start with `prefix`, within the bounds set so far.
    #[must_use]
    pub fn prefix(mut self, prefix: &[u8]) -> Self {
        if self.from.as_deref().is_none_or(|from| from < prefix) {
            self.from = Some(prefix.to_vec());
        }
        if let Bound::Excluded(end) = prefix_end(prefix)
            && self.to.as_ref().is_none_or(|to| *to > end)
        {
            self.to = Some(end);
        }
        self
    }

    /// At most so many entries.
    #[must_use]
    pub fn limit(mut self, count: usize) -> Self {
        self.limit = Some(count);
        self
    }

    /// Against the order of steps.
    #[must_use]
    pub fn reverse(mut self) -> Self {
        self.direction = Direction::Reverse;
        self
    }
}

/// Returns the first step after all that start with `prefix`.
pub(super) fn prefix_end(prefix: &[u8]) -> Bound<Vec<u8>> {
    let mut end = prefix.to_vec();
    while let Some(last) = end.pop() {
        if last < u8::MAX {
            end.push(last + 1);
            return Bound::Excluded(end);
        }
    }
    Bound::Unbounded
}

/// An entry of a directory.
#[derive(Clone, Debug)]
pub struct DirEntry<'t, F: Format = Native> {
    tree: &'t Tree<F>,
    step: Bytes<'t>,
    binding: Binding<'t>,
    // The value of an object, if it was read ahead.
    value: Option<Bytes<'t>>,
}

impl<'t, F: Format> DirEntry<'t, F> {
    pub(super) const fn new(tree: &'t Tree<F>, step: Bytes<'t>, binding: Binding<'t>) -> Self {
        Self { tree, step, binding, value: None }
    }

    /// Returns the step that it is bound to.
    #[must_use]
    pub fn step(&self) -> &[u8] {
        &self.step
    }

    /// Returns what it is.
    #[must_use]
    pub const fn kind(&self) -> EntryKind {
        self.binding.kind()
    }

    /// Returns the value's length in bytes, without loading it; `None` if it is no value, and where the format's
    /// directories do not say how long values are, as Git's do not.
    #[must_use]
    pub fn bytes(&self) -> Option<u64> {
        match &self.binding {
            Binding::Stored(_, Target::Inline(bytes)) => Some(bytes.len() as u64),
            Binding::Stored(kind, Target::Object { bytes, .. }) if kind.has_contents() => {
                Some(*bytes).filter(|&bytes| bytes != Target::UNKNOWN_BYTES)
            }
            Binding::Leaf(Leaf::Short { bytes, .. }) => Some(bytes.len() as u64),
            Binding::Leaf(Leaf::Shared { value, .. }) => Some(value.as_bytes().len() as u64),
            Binding::Leaf(Leaf::Stored { bytes, .. }) => Some(*bytes),
            _ => None,
        }
    }

    /// Returns the value's length in bytes, loading the value if nothing else tells; `None` if it is no value.
    ///
    /// # Errors
    /// As [`Tree::find`].
    pub fn length(&self) -> Result<Option<u64>> {
        match self.bytes() {
            Some(bytes) => Ok(Some(bytes)),
            None => Ok(self.contents()?.map(|bytes| bytes.len() as u64)),
        }
    }

    /// Returns the value; `None` if it is none.
    ///
    /// # Errors
    /// As [`Tree::find`].
    pub fn contents(&self) -> Result<Option<Bytes<'t>>> {
        match &self.value {
            Some(value) => Ok(Some(value.clone())),
            None => self.tree.contents(&self.binding),
        }
    }

    /// Returns `range` of the value, loading only the pieces of a large one that it touches. What lies
    /// beyond the end is left out; a range that ends before it starts is empty.
    ///
    /// # Errors
    /// As [`Tree::find`].
    pub fn read(&self, range: std::ops::Range<u64>) -> Result<Option<Bytes<'t>>> {
        match &self.binding {
            Binding::Stored(kind, Target::Object { at, .. }) if kind.has_contents() && self.value.is_none() => {
                self.tree.read_value(at, range).map(Some)
            }
            Binding::Leaf(Leaf::Stored { at, .. }) => self.tree.read_value(at, range).map(Some),
            _ => Ok(self.contents()?.map(|bytes| {
                let end = range.end.min(bytes.len() as u64);
                bytes.slice(range.start.min(end) as usize..end as usize)
            })),
        }
    }

    /// Returns the directory as a tree of its own; `None` if it is none.
    #[must_use]
    pub fn tree(&self) -> Option<Tree<F>> {
        match &self.binding {
            Binding::Dir(place) => Some(self.tree.subtree(place)),
            _ => None,
        }
    }

    /// Returns the foreign id; `None` if it is none.
    #[must_use]
    pub const fn foreign(&self) -> Option<Oid> {
        match &self.binding {
            Binding::Stored(_, Target::Foreign(oid)) | Binding::Leaf(Leaf::Foreign(oid)) => Some(*oid),
            _ => None,
        }
    }

    /// Returns the object that the entry is stored as; `None` for inline values and pending edits.
    #[must_use]
    pub const fn object(&self) -> Option<ObjRef> {
        match &self.binding {
            Binding::Stored(_, Target::Object { at, .. }) => Some(*at),
            Binding::Dir(Place { patch: None, base, .. }) => *base,
            _ => None,
        }
    }
}

/// The entries of a listing, loaded as they are asked for.
pub struct Entries<'t, F: Format = Native>(Box<dyn Iterator<Item = Result<DirEntry<'t, F>>> + 't>);

impl<'t, F: Format> Iterator for Entries<'t, F> {
    type Item = Result<DirEntry<'t, F>>;

    fn next(&mut self) -> Option<Self::Item> {
        self.0.next()
    }
}

impl<F: Format> Tree<F> {
    /// Returns the entries of the directory at `path`, in order; none if there is no directory.
    ///
    /// # Errors
    /// As [`Tree::find`].
    pub fn list(&self, path: impl AsPath) -> Result<Entries<'_, F>> {
        self.list_with(path, &Listing::new())
    }

    /// Returns the entries of the directory at `path` that `listing` asks for.
    ///
    /// Loads only the pieces of a wide directory that hold them.
    ///
    /// # Errors
    /// As [`Tree::find`].
    pub fn list_with(&self, path: impl AsPath, listing: &Listing) -> Result<Entries<'_, F>> {
        let entries = match self.walk(path.as_path()?.as_bytes())? {
            Some(place) => self.entries(place, listing)?,
            None => Entries(Box::new(std::iter::empty())),
        };
        Ok(match listing.limit {
            Some(count) => Entries(Box::new(entries.take(count))),
            None => entries,
        })
    }

    /// Returns the number of entries of the directory at `path`; one object is loaded if nothing is edited.
    ///
    /// # Errors
    /// As [`Tree::find`].
    pub fn count(&self, path: impl AsPath) -> Result<u64> {
        let path = path.as_path()?;
        match self.walk(path.as_bytes())? {
            Some(Place { patch: None, base: Some(base), .. }) => self.store.format.count(&*self.store, &base),
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

    /// Returns everything below `path` in the order of paths ([`Path`]): depth first, directories before what is in
    /// them.
    ///
    /// # Errors
    /// As [`Tree::find`].
    pub fn walk_all(&self, path: impl AsPath) -> Result<Walk<'_, F>> {
        let path = path.as_path()?;
        let place = self.walk(path.as_bytes())?;
        let open = place.map(|place| Dir::new(self, place, &Listing::new())).into_iter().collect();
        let below = Below { tree: self, open, path: Some(Path::root()), values: false, waiting: None };
        Ok(Walk { window: Window::new(&*self.store), below })
    }

    /// As [`Tree::walk_all`], for who will want every value: where the store does not lend them, they are read ahead
    /// with the directories, many a call. Of a value that is cut into pieces only the list of them is.
    ///
    /// # Errors
    /// As [`Tree::find`].
    pub fn walk_values(&self, path: impl AsPath) -> Result<Walk<'_, F>> {
        let mut walk = self.walk_all(path)?;
        walk.below.values = true;
        Ok(walk)
    }

    /// Folds `each` over everything below `path`, in the order of [`Tree::walk_all`].
    ///
    /// # Errors
    /// As [`Tree::find`]; what `each` returns.
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

    pub(super) fn entries<'t>(&'t self, place: Place<'t>, listing: &Listing) -> Result<Entries<'t, F>> {
        let dir = Dir::new(self, place, listing);
        if let Dir { stored: Some(stored), edits: None, .. } = dir {
            let entries = Ahead::new(&*self.store, stored)?;
            return Ok(Entries(Box::new(entries.map(|entry| Ok(self.dir_entry(entry?))))));
        }
        Ok(Entries(Box::new(Ahead::new(&*self.store, dir)?)))
    }

    #[inline]
    fn dir_entry<'t>(&'t self, entry: Entry<'t>) -> DirEntry<'t, F> {
        DirEntry::new(self, entry.step, Binding::of((entry.kind, entry.target)))
    }
}

/// Edits in the order of the listing.
type BoxedEdits<'t> = Box<dyn Iterator<Item = (&'t [u8], &'t Edit)> + Send + 't>;

/// A walk over the entries of one directory: what is stored, with edits over it.
struct Dir<'t, F: Format> {
    tree: &'t Tree<F>,
    stored: Option<F::Listing<'t, Store<F>>>,
    edits: Option<Edits<'t>>,
}

/// The edits of a directory.
struct Edits<'t> {
    place: Place<'t>,
    rest: Peekable<BoxedEdits<'t>>,
    direction: Direction,
    /// The stored entry that comes next, once it is known.
    stored: Option<Entry<'t>>,
}

impl<'t, F: Format> Dir<'t, F> {
    fn new(tree: &'t Tree<F>, place: Place<'t>, listing: &Listing) -> Self {
        let (from, to, direction) = (listing.from.as_deref(), listing.to.as_deref(), listing.direction);
        let stored = place.base.map(|base| tree.store.format.listing(&base, from, to, direction));
        let edits = place.patch.map(|patch| {
            let rest: BoxedEdits<'t> = match direction {
                Direction::Forward => Box::new(patch.range(from, to)),
                Direction::Reverse => Box::new(patch.range(from, to).rev()),
            };
            Edits { place, rest: rest.peekable(), direction, stored: None }
        });
        Self { tree, stored, edits }
    }

    #[inline]
    fn next_stored(&mut self, window: &mut Window<'t, Store<F>>) -> Result<Next<Entry<'t>>> {
        self.stored.as_mut().map_or(Ok(Next::End), |stored| stored.next(window))
    }
}

impl<'t, F: Format> bristlecone_core::Walk<'t, Store<F>> for Dir<'t, F> {
    type Item = DirEntry<'t, F>;

    #[inline]
    fn next(&mut self, window: &mut Window<'t, Store<F>>) -> Result<Next<DirEntry<'t, F>>> {
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
            if let Some(binding) = self.tree.settled(&edits.place, step)? {
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
        self.stored.iter_mut().for_each(bristlecone_core::Walk::skip);
    }
}

/// Everything below a directory, depth first.
pub struct Walk<'t, F: Format = Native> {
    window: Window<'t, Store<F>>,
    below: Below<'t, F>,
}

impl<'t, F: Format> Iterator for Walk<'t, F> {
    type Item = Result<(Path, DirEntry<'t, F>)>;

    fn next(&mut self) -> Option<Self::Item> {
        let found = self.window.advance(&mut self.below);
        if found.is_err() {
            self.below.open.clear();
        }
        found.transpose()
    }
}

/// The same as a walk that takes objects from a window.
struct Below<'t, F: Format> {
    tree: &'t Tree<F>,
    // Directories that are being listed, each in the one before, and the path of the last, which scouts do not know.
    open: Vec<Dir<'t, F>>,
    path: Option<Path>,
    // Whether values are wanted, and the entry whose value is.
    values: bool,
    waiting: Option<(Path, DirEntry<'t, F>)>,
}

impl<'t, F: Format> Below<'t, F> {
    /// Gives the entry that waits its value; returns what is wanted if it is not there.
    fn fill(&mut self, window: &mut Window<'t, Store<F>>) -> Option<ObjRef> {
        let (_, entry) = self.waiting.as_mut()?;
        let Binding::Stored(kind, Target::Object { at, .. }) = &entry.binding else { return None };
        if kind.has_contents() {
            let Some(object) = window.get(Kind::Contents, at) else { return Some(*at) };
            entry.value = (object.kind() == Kind::Contents).then(|| object.into_body());
        }
        None
    }
}

impl<'t, F: Format> bristlecone_core::Walk<'t, Store<F>> for Below<'t, F> {
    type Item = (Path, DirEntry<'t, F>);

    #[inline]
    fn next(&mut self, window: &mut Window<'t, Store<F>>) -> Result<Next<Self::Item>> {
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
                    path.push(entry.step())?;
                    path.clone()
                }
                None => Path::root(),
            };
            if let Binding::Dir(place) = &entry.binding {
                let below = Dir::new(self.tree, *place, &Listing::new());
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
        Self { tree: self.tree, open, path: None, values: self.values, waiting: self.waiting.clone() }
    }

    fn skip(&mut self) {
        if self.waiting.take().is_some() {
            return;
        }
        self.open.last_mut().into_iter().for_each(bristlecone_core::Walk::skip);
    }
}
