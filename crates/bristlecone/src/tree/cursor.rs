//! A cursor: the entries of a directory to and fro, each lent until the next is asked for.

use std::fmt;

use bristlecone_core::{AsPath, Bytes, Direction, Format, native::Native};

use super::{DirEntry, DirRef, Listing, Tree, list::ListRun};
use crate::Result;

/// A position among the entries of a directory.
///
/// The entry there is lent, not given away: a loop over a cursor copies less than one over [`Entries`](crate::Entries).
///
/// ```
/// # use bristlecone::Repo;
/// # let mut tree = Repo::memory().tree();
/// for step in ["a", "c", "e"] {
///     tree.set(["dir", step], b"x")?;
/// }
/// let mut cursor = tree.cursor("dir")?;
/// cursor.seek(b"b");
/// assert_eq!(cursor.next()?.map(|entry| entry.step()), Some(&b"c"[..]));
/// assert_eq!(cursor.next()?.map(|entry| entry.step()), Some(&b"e"[..]));
/// assert!(cursor.next()?.is_none());
/// assert_eq!(cursor.previous()?.map(|entry| entry.step()), Some(&b"e"[..]));
/// # Ok::<(), bristlecone::Error>(())
/// ```
pub struct Cursor<'t, F: Format = Native> {
    tree: &'t Tree<F>,
    dir: DirRef<'t>,
    // What comes next in this direction; `None` where it must be looked for.
    run: Option<(Direction, ListRun<'t, F>)>,
    at: At<'t, F>,
}

impl<F: Format> fmt::Debug for Cursor<'_, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let step = self.entry().map(|entry| Bytes::from(entry.step()));
        f.debug_struct("Cursor").field("step", &step).finish_non_exhaustive()
    }
}

/// Where a cursor stands.
enum At<'t, F: Format> {
    /// Before the first entry.
    Start,
    /// Before the first entry that is at least this step.
    Before(Vec<u8>),
    /// On an entry.
    On(DirEntry<'t, F>),
    /// Behind the last entry.
    End,
}

impl<F: Format> Tree<F> {
    /// Returns a cursor before the first entry of the directory at `path`; one without entries if there is no directory.
    ///
    /// # Errors
    /// As [`Tree::get`].
    pub fn cursor(&self, path: impl AsPath) -> Result<Cursor<'_, F>> {
        Ok(Cursor::new(self, self.walk(path.as_path()?.as_bytes())?.unwrap_or(DirRef::stored(None))))
    }
}

impl<'t, F: Format> Cursor<'t, F> {
    pub(super) const fn new(tree: &'t Tree<F>, dir: DirRef<'t>) -> Self {
        Self { tree, dir, run: None, at: At::Start }
    }

    /// Goes before the first entry that is at least `step`. Nothing is read yet.
    pub fn seek(&mut self, step: &[u8]) {
        (self.run, self.at) = (None, At::Before(step.to_vec()));
    }

    /// Goes before the first entry.
    pub fn seek_start(&mut self) {
        (self.run, self.at) = (None, At::Start);
    }

    /// Goes behind the last entry.
    pub fn seek_end(&mut self) {
        (self.run, self.at) = (None, At::End);
    }

    /// Returns the entry that the cursor is on; `None` beside them.
    #[must_use]
    pub const fn entry(&self) -> Option<&DirEntry<'t, F>> {
        match &self.at {
            At::On(entry) => Some(entry),
            _ => None,
        }
    }

    /// Goes on to the next entry and lends it; `None` behind the last one, where the cursor stays.
    ///
    /// # Errors
    /// As [`Tree::get`]; then the cursor stays where it was.
    #[allow(clippy::should_implement_trait, reason = "an iterator cannot lend")]
    #[inline]
    pub fn next(&mut self) -> Result<Option<&DirEntry<'t, F>>> {
        self.step(Direction::Forward)
    }

    /// Goes back to the entry before and lends it; `None` before the first one, where the cursor stays.
    ///
    /// # Errors
    /// As [`Cursor::next`].
    #[inline]
    pub fn previous(&mut self) -> Result<Option<&DirEntry<'t, F>>> {
        self.step(Direction::Reverse)
    }

    #[inline]
    fn step(&mut self, direction: Direction) -> Result<Option<&DirEntry<'t, F>>> {
        let run = match &mut self.run {
            Some((known, run)) if *known == direction => run,
            _ => {
                let run = ListRun::new(self.tree, self.dir, &self.rest(direction), &mut 0)?;
                &mut self.run.insert((direction, run)).1
            }
        };
        match run.next(self.tree) {
            Some(Ok(entry)) => self.at = At::On(entry),
            Some(Err(error)) => {
                self.run = None;
                return Err(error);
            }
            None => {
                self.run = None;
                self.at = if direction == Direction::Forward { At::End } else { At::Start };
            }
        }
        Ok(self.entry())
    }

    /// Returns what lies on from here.
    fn rest(&self, direction: Direction) -> Listing {
        let all = Listing::new();
        match (direction, &self.at) {
            (Direction::Forward, At::Start) => all,
            (Direction::Forward, At::Before(step)) => all.starting_at(step),
            (Direction::Forward, At::On(entry)) => all.after(entry.step()),
            (Direction::Forward, At::End) | (Direction::Reverse, At::Start) => all.to(b""),
            (Direction::Reverse, At::Before(step)) => all.to(step).reverse(),
            (Direction::Reverse, At::On(entry)) => all.to(entry.step()).reverse(),
            (Direction::Reverse, At::End) => all.reverse(),
        }
    }
}
