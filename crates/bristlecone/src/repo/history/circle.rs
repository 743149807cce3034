//! Histories that go in a circle, and tags that do. No object can name one that leads to it, but forged bytes can say so: whoever
//! follows them comes to an end all the same.

use bristlecone_core::{FormatError, Kind, Oid};

use crate::{Error, Result};

/// Returns the error of a commit that is its own ancestor.
#[cold]
pub(super) fn circular(oid: Oid) -> Error {
    let source = FormatError::Inconsistent { kind: Kind::Commit, reason: "its parents lead back to it" };
    Error::BadObject { oid, source }
}

/// Notices that a line of objects, each named by the one before, comes back to where it was.
#[derive(Debug, Default)]
pub(in crate::repo) struct LineCheck {
    passed: u64,
    // The object after each power of two of others: a circle comes back to one of these.
    marked: Option<Oid>,
}

impl LineCheck {
    /// Notes the next object of the line, and says whether it was there before: true in time, if the line is a circle.
    pub(in crate::repo) fn comes_back(&mut self, oid: Oid) -> bool {
        if self.marked == Some(oid) {
            return true;
        }
        self.passed += 1;
        if self.passed.is_power_of_two() {
            self.marked = Some(oid);
        }
        false
    }

    /// Notes the next commit of a line of ancestors.
    ///
    /// # Errors
    /// [`Error::BadObject`] for one that was there before, in time.
    pub(super) fn pass(&mut self, oid: Oid) -> Result<()> {
        if self.comes_back(oid) { Err(circular(oid)) } else { Ok(()) }
    }
}
