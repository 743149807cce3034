//! What differs between two maps, touching only what does.

use std::fmt;

use bristlecone_core::{Bytes, native::Native};

use super::{Map, not_a_value};
use crate::{DirEntry, Result, tree::StepDifferences};

/// One key at which two maps differ.
#[derive(Clone, Debug)]
pub struct MapDifference<'m> {
    /// The key.
    pub key: Bytes<'m>,
    /// The value that was there; `None` if the key was added.
    pub before: Option<Bytes<'m>>,
    /// The value that is there; `None` if the key was removed.
    pub after: Option<Bytes<'m>>,
}

/// The keys at which two maps differ, found as they are asked for.
pub struct MapDifferences<'m>(StepDifferences<'m, Native>);

impl Map {
    /// Returns the entries that differ between `self` (before) and `after`, in the order of keys.
    ///
    /// Pieces that both share are skipped by their ids, so the walk costs what differs. Pending edits of both maps count,
    /// and nothing is written.
    ///
    /// ```
    /// # use bristlecone::Repo;
    /// let mut before = Repo::memory().map();
    /// before.apply([(b"a", Some(b"1")), (b"b", Some(b"2"))])?;
    /// let mut after = before.clone();
    /// after.insert(b"b", b"3")?;
    /// for difference in before.diff(&after)? {
    ///     let difference = difference?;
    ///     assert_eq!(difference.key, b"b");
    ///     assert_eq!(difference.before.as_deref(), Some(&b"2"[..]));
    ///     assert_eq!(difference.after.as_deref(), Some(&b"3"[..]));
    /// }
    /// # Ok::<(), bristlecone::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Map::get`], here and from the iterator: after an error of the walk it ends, and after one of a value it goes on with the
    /// next key. [`crate::Error::Usage`] for maps of different stores.
    pub fn diff<'m>(&'m self, after: &'m Self) -> Result<MapDifferences<'m>> {
        Ok(MapDifferences(self.tree.diff_steps(&after.tree)?))
    }
}

impl fmt::Debug for MapDifferences<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MapDifferences").finish_non_exhaustive()
    }
}

impl<'m> Iterator for MapDifferences<'m> {
    type Item = Result<MapDifference<'m>>;

    fn next(&mut self) -> Option<Self::Item> {
        Some(self.0.next()?.and_then(|(before, after)| {
            let (old, before) = side(before)?;
            let (new, after) = side(after)?;
            let key = old.or(new).unwrap_or_default();
            Ok(MapDifference { key, before, after })
        }))
    }
}

/// Returns key and value of one side.
fn side(entry: Option<DirEntry<'_, Native>>) -> Result<(Option<Bytes<'_>>, Option<Bytes<'_>>)> {
    let Some(entry) = entry else { return Ok((None, None)) };
    match entry.into_step()? {
        (key, Some(value)) => Ok((Some(key), Some(value))),
        (key, None) => Err(not_a_value(&key)),
    }
}
