//! What to list of a directory.

use std::ops::{Bound, RangeBounds};

use bristlecone_core::Direction;

/// Which entries of a directory to list.
///
/// ```
/// # use bristlecone::{Listing, Repo};
/// # let mut tree = Repo::memory().tree();
/// for n in 0..100 {
///     tree.set(&format!("dir/{n:02}"), b"x")?;
/// }
/// let page = tree.list_with("dir", &Listing::new().after(b"49").limit(3))?;
/// let steps: Vec<_> = page.map(|entry| entry.map(|entry| entry.step().to_vec())).collect::<Result<_, _>>()?;
/// assert_eq!(steps, [b"50", b"51", b"52"]);
/// # Ok::<(), bristlecone::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Listing {
    pub(super) from: Option<Vec<u8>>,
    pub(super) to: Option<Vec<u8>>,
    pub(super) skip: u64,
    pub(super) limit: Option<usize>,
    pub(super) direction: Direction,
}

impl Listing {
    /// The whole directory, in order.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Starts at `step`, where it is an entry, or at the next one.
    #[must_use]
    pub fn starting_at(mut self, step: &[u8]) -> Self {
        self.from = Some(step.to_vec());
        self
    }

    /// Starts after `step`: the next page after one that ended with it.
    #[must_use]
    pub fn after(self, step: &[u8]) -> Self {
        let mut next = step.to_vec();
        next.push(0);
        self.starting_at(&next)
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

    /// Only steps within these bounds, which take the place of those set so far.
    #[must_use]
    pub fn range<K: AsRef<[u8]>>(self, bounds: impl RangeBounds<K>) -> Self {
        let next = |step: &K| [step.as_ref(), &[0]].concat();
        let from = match bounds.start_bound() {
            Bound::Included(step) => Some(step.as_ref().to_vec()),
            Bound::Excluded(step) => Some(next(step)),
            Bound::Unbounded => None,
        };
        let to = match bounds.end_bound() {
            Bound::Included(step) => Some(next(step)),
            Bound::Excluded(step) => Some(step.as_ref().to_vec()),
            Bound::Unbounded => None,
        };
        Self { from, to, ..self }
    }

    /// Returns the bounds: the first step within, and the first one behind.
    pub(crate) fn bounds(&self) -> (Option<&[u8]>, Option<&[u8]>) {
        (self.from.as_deref(), self.to.as_deref())
    }

    /// Leaves out the first entries. Where nothing in the directory was edited and the format counts, as the native one
    /// does, one object is read for each level of the directory, however many are left out.
    #[must_use]
    pub const fn skip(mut self, count: u64) -> Self {
        self.skip = count;
        self
    }

    /// At most this many entries.
    #[must_use]
    pub fn limit(mut self, count: usize) -> Self {
        self.limit = Some(count);
        self
    }

    /// The other way round: against the order of steps.
    #[must_use]
    pub fn reverse(mut self) -> Self {
        self.direction = self.direction.reversed();
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
