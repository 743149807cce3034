//! Poisoning: the first failure after which it is not known what is on the medium, and nothing more is written.
//!
//! A system reports a failed write once. A later sync of the same file reports success. So a
//! backend goes on reading after a failed sync and refuses to write, until it is opened again.

use std::sync::OnceLock;

use crate::{Error, report};

/// Whether a backend is poisoned, and by what.
#[derive(Debug, Default)]
pub struct Poison(OnceLock<String>);

impl Poison {
    /// Fails if the backend is poisoned. A backend calls it before it writes, with its lock held, and before it
    /// syncs.
    ///
    /// # Errors
    /// [`Error::Poisoned`] with the first failure.
    pub fn check(&self) -> Result<(), Error> {
        match self.0.get() {
            None => Ok(()),
            Some(reason) => Err(Error::Poisoned { reason: reason.clone() }),
        }
    }

    /// Whether the backend is poisoned.
    #[must_use]
    pub fn is_set(&self) -> bool {
        self.0.get().is_some()
    }

    /// Poisons the backend, and returns the error that says so. The first failure stays the reason.
    pub fn set(&self, reason: impl Into<String>) -> Error {
        Error::Poisoned { reason: self.0.get_or_init(|| reason.into()).clone() }
    }

    /// Passes on the result of a step that ends in a sync. An [`Error::Io`] poisons the backend; other errors, such as a
    /// ref that moved, came before the sync.
    ///
    /// # Errors
    /// Those of the step.
    pub fn note<T>(&self, done: Result<T, Error>) -> Result<T, Error> {
        if let Err(error @ Error::Io { .. }) = &done {
            let _ = self.set(report(error));
        }
        done
    }
}
