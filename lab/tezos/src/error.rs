//! What can be wrong with a trace.

use std::io;

use thiserror::Error;

/// What can be wrong with a trace.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum TraceError {
    /// A file that is no trace.
    #[error("{file} is no replayable trace: {reason}")]
    NotATrace {
        /// The file.
        file: String,
        /// What is there instead.
        reason: &'static str,
    },
    /// A trace of the later format of the same family.
    #[error(
        "{file} is a trace of the later format \"TezosRep\", which records other operations; only traces that begin \
         with \"IrmRepBT\" are read"
    )]
    LaterFormat {
        /// The file.
        file: String,
    },
    /// A trace of an unknown version.
    #[error("{file} is a trace of version {version}; only version 0 is known")]
    Version {
        /// The file.
        file: String,
        /// What it says.
        version: i32,
    },
    /// Bytes that are not as they must be.
    #[error("{file} is damaged at byte {offset}, in row {row}: {reason}")]
    Corrupt {
        /// The file.
        file: String,
        /// The offset in the file, in bytes.
        offset: u64,
        /// The row, counted from 0.
        row: u64,
        /// What is wrong.
        reason: &'static str,
    },
    /// A trace that ends within a row. The rows before it are whole.
    #[error(
        "{file} is cut within row {row}, which begins at byte {offset} and of which {bytes} bytes are there; the rows \
         before it are whole"
    )]
    Cut {
        /// The file.
        file: String,
        /// The offset of the row in the file, in bytes.
        offset: u64,
        /// The row, counted from 0: the number of rows that are whole.
        row: u64,
        /// How many bytes of it are there, those of its length included.
        bytes: u64,
    },
    /// A row that is larger than what is held in memory.
    #[error("{file}: row {row} at byte {offset} has {bytes} bytes; at most {bytes_max} are read")]
    RowTooLarge {
        /// The file.
        file: String,
        /// The offset of the row in the file, in bytes.
        offset: u64,
        /// The row, counted from 0.
        row: u64,
        /// Its length in bytes.
        bytes: u64,
        /// The bound.
        bytes_max: u64,
    },
    /// Reading or writing failed.
    #[error("{file} cannot be read or written")]
    Io {
        /// The file.
        file: String,
        /// What the system says.
        source: io::Error,
    },
}

impl TraceError {
    /// Wraps a failure of the system with the file's name.
    pub(crate) fn io(file: &str, source: io::Error) -> Self {
        Self::Io { file: file.to_owned(), source }
    }
}
