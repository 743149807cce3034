//! Listing: the entries of one directory within bounds, and walks over everything below.

use std::{iter::Peekable, ops::Bound};

use bristlecone_core::{AsPath, Bytes, Direction, EntryKind, Format, ObjRef, Oid, Path, Target, native::Native};

use super::{Binding, Edit, Leaf, Place, Tree};
use crate::Result;

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
}

impl<'t, F: Format> DirEntry<'t, F> {
    pub(super) const fn new(tree: &'t Tree<F>, step: Bytes<'t>, binding: Binding<'t>) -> Self {
        Self { tree, step, binding }
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
        self.tree.contents(&self.binding)
    }

    /// Returns `range` of the value, loading only the pieces of a large one that it touches. What lies
    /// beyond the end is left out; a range that ends before it starts is empty.
    ///
    /// # Errors
    /// As [`Tree::find`].
    pub fn read(&self, range: std::ops::Range<u64>) -> Result<Option<Bytes<'t>>> {
        match &self.binding {
            Binding::Stored(kind, Target::Object { at, .. }) if kind.has_contents() => {
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
        let mut open = Vec::new();
        if let Some(place) = self.walk(path.as_bytes())? {
            open.push(self.entries(place, &Listing::new())?);
        }
        Ok(Walk { tree: self, open, path: Path::root() })
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
        let (from, to, direction) = (listing.from.as_deref(), listing.to.as_deref(), listing.direction);
        let stored = match &place.base {
            Some(base) => Some(self.store.format.entries(&*self.store, base, from, to, direction)?),
            None => None,
        };
        let stored = stored.into_iter().flatten();
        let Some(patch) = place.patch else {
            return Ok(Entries(Box::new(stored.map(move |entry| {
                let entry = entry?;
                Ok(DirEntry::new(self, entry.step, Binding::of((entry.kind, entry.target))))
            }))));
        };
        let edits: BoxedEdits<'t> = match direction {
            Direction::Forward => Box::new(patch.range(from, to)),
            Direction::Reverse => Box::new(patch.range(from, to).rev()),
        };
        let (stored, edits) = (stored.peekable(), edits.peekable());
        Ok(Entries(Box::new(Merged { tree: self, place, stored, edits, direction })))
    }
}

/// Edits in the order of the listing.
type BoxedEdits<'t> = Box<dyn Iterator<Item = (&'t [u8], &'t Edit)> + 't>;

/// Stored entries with edits over them.
struct Merged<'t, F: Format, I: Iterator> {
    tree: &'t Tree<F>,
    place: Place<'t>,
    stored: Peekable<I>,
    edits: Peekable<BoxedEdits<'t>>,
    direction: Direction,
}

impl<'t, F, I> Iterator for Merged<'t, F, I>
where
    F: Format,
    I: Iterator<Item = Result<bristlecone_core::Entry<'t>>>,
{
    type Item = Result<DirEntry<'t, F>>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let order = match (self.stored.peek(), self.edits.peek()) {
                (None, None) => return None,
                (Some(Err(_)), _) => std::cmp::Ordering::Less,
                (Some(_), None) => std::cmp::Ordering::Less,
                (None, Some(_)) => std::cmp::Ordering::Greater,
                (Some(Ok(entry)), Some((step, _))) => {
                    let order = entry.step[..].cmp(step);
                    if self.direction == Direction::Forward { order } else { order.reverse() }
                }
            };
            if order.is_lt() {
                let entry = self.stored.next()?;
                return Some(
                    entry.map(|entry| DirEntry::new(self.tree, entry.step, Binding::of((entry.kind, entry.target)))),
                );
            }
            if order.is_eq() {
                self.stored.next();
            }
            let (step, _) = self.edits.next()?;
            match self.tree.settled(&self.place, step) {
                Ok(Some(binding)) => return Some(Ok(DirEntry::new(self.tree, Bytes::from(step), binding))),
                Ok(None) => {}
                Err(error) => return Some(Err(error)),
            }
        }
    }
}

/// Everything below a directory, depth first.
pub struct Walk<'t, F: Format = Native> {
    tree: &'t Tree<F>,
    // Directories that are being listed, each in the one before, and the path of the last.
    open: Vec<Entries<'t, F>>,
    path: Path,
}

impl<'t, F: Format> Iterator for Walk<'t, F> {
    type Item = Result<(Path, DirEntry<'t, F>)>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            match self.open.last_mut()?.next() {
                Some(entry) => {
                    let found = entry.and_then(|entry| self.enter(entry));
                    if found.is_err() {
                        self.open.clear();
                    }
                    return Some(found);
                }
                None => {
                    self.open.pop();
                    self.path.pop();
                }
            }
        }
    }
}

impl<'t, F: Format> Walk<'t, F> {
    /// Returns the entry with its path, and goes on with what is below it.
    fn enter(&mut self, entry: DirEntry<'t, F>) -> Result<(Path, DirEntry<'t, F>)> {
        let Binding::Dir(place) = &entry.binding else { return Ok((self.path.join(entry.step())?, entry)) };
        let below = self.tree.entries(*place, &Listing::new())?;
        self.path.push(entry.step())?;
        self.open.push(below);
        Ok((self.path.clone(), entry))
    }
}
