//! Whose fault an error is.

use bristlecone::core::FormatError;

/// Whose fault an error is, for exit codes, status codes and classes of exceptions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The caller asks for what makes no sense, or cannot be.
    Mistake,
    /// What was named is not there.
    NotFound,
    /// Damage, or the outside world.
    Failed,
}

impl ErrorKind {
    /// Returns whose fault an error of a store is.
    #[must_use]
    pub fn of(error: &bristlecone::Error) -> Self {
        use bristlecone::Error::*;
        match error {
            Path(_) | RootPath | IsDirectory { .. } | RefName { .. } | Usage { .. } | Exists { .. } => Self::Mistake,
            RefClash { .. } | Format(FormatError::Unsupported { .. }) => Self::Mistake,
            NoRef { .. } => Self::NotFound,
            _ => Self::Failed,
        }
    }
}
