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
            RefClash { .. } | TooLarge { .. } | Format(FormatError::Unsupported { .. }) => Self::Mistake,
            NoRef { .. } | NoStore { .. } => Self::NotFound,
            _ => Self::Failed,
        }
    }
}

#[cfg(test)]
mod tests {
    use bristlecone::Error;

    use super::*;

    #[test]
    fn a_missing_store_is_not_found_and_what_is_too_large_is_a_mistake() {
        assert_eq!(ErrorKind::of(&Error::NoStore { file: "there".to_owned() }), ErrorKind::NotFound);
        let large = Error::TooLarge { what: "a value", bytes: 9, bytes_max: 8 };
        assert_eq!(ErrorKind::of(&large), ErrorKind::Mistake);
    }
}
