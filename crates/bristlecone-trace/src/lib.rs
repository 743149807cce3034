//! Replayable traces of Tezos contexts.

mod row;

pub use row::{ContextId, Hashes, Key, Row, Scoped};

/// What can be wrong with a trace.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TraceError {
    /// Reading or writing failed.
    #[error("{file}: {source}")]
    Io {
        /// The file.
        file: String,
        /// What the system says.
        source: std::io::Error,
    },
}
