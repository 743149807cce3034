//! Histories that go in a circle. No commit can name one that leads to it, but forged bytes can say so: whoever follows such a
//! history comes to an error, not to no end.

use bristlecone_core::{FormatError, Kind, Oid};

use crate::{Error, Result};

/// Returns the error of a commit that is its own ancestor.
#[cold]
pub(super) fn circular(oid: Oid) -> Error {
    let source = FormatError::Inconsistent { kind: Kind::Commit, reason: "its parents lead back to it" };
    Error::BadObject { oid, source }
}

/// Notices that a line of commits, each an ancestor of the one before, comes back to where it was.
#[derive(Debug, Default)]
pub(super) struct LineCheck {
    passed: u64,
    // The commit after each power of two of others: a circle comes back to one of these.
    marked: Option<Oid>,
}

impl LineCheck {
    /// Notes the next commit of the line.
    ///
    /// # Errors
    /// [`Error::BadObject`] for one that was there before, in time.
    pub(super) fn pass(&mut self, oid: Oid) -> Result<()> {
        if self.marked == Some(oid) {
            return Err(circular(oid));
        }
        self.passed += 1;
        if self.passed.is_power_of_two() {
            self.marked = Some(oid);
        }
        Ok(())
    }
}
