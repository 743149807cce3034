//! The errors of an Okra map.

use std::{error, fmt, io, sync::Arc};

use super::node::{KEY_BYTES_MAX, VALUE_BYTES_MAX, hex};

/// What the calls of a map return.
pub type Result<T> = std::result::Result<T, OkraError>;

/// What can go wrong with an Okra map.
///
/// The text of an error does not have what its source says ([`bristlecone::report`] has both).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum OkraError {
    // The caller's mistakes.
    /// The empty key, which is that of the anchors.
    KeyEmpty,
    /// A key of more than [`KEY_BYTES_MAX`] bytes.
    KeyTooLong {
        /// Its size.
        bytes: usize,
    },
    /// A value of more than [`VALUE_BYTES_MAX`] bytes.
    ValueTooLong {
        /// Its size.
        bytes: usize,
    },
    /// A value of a map in index mode that is no hash of 16 bytes.
    NoHash {
        /// Its size.
        bytes: usize,
    },
    /// Keys that a bulk load was given out of order, or twice.
    Unsorted {
        /// The first key that is not greater than the one before it.
        key: Vec<u8>,
    },
    /// A bulk load into a map that has entries.
    NotEmpty {
        /// The file of the map.
        file: String,
    },
    /// Writing to a map that is open for reading only.
    ReadOnly {
        /// The file of the map.
        file: String,
    },
    /// A transaction in which a call failed; all it can do is end.
    Failed {
        /// The file of the map.
        file: String,
    },
    /// A map that was opened by the process that this one was forked from.
    Forked {
        /// The file of the map.
        file: String,
    },
    /// A map that this process has open already.
    AlreadyOpen {
        /// The file of the map.
        file: String,
    },
    /// A map where one should be made.
    Exists {
        /// The file of the map.
        file: String,
    },

    // Not found, or another thing.
    /// There is no map at this place.
    NoMap {
        /// Where.
        file: String,
    },
    /// A file of another program, of another version, or of a map with other constants or another mode.
    Incompatible {
        /// The file.
        file: String,
        /// What it has.
        found: String,
        /// What was expected.
        expected: String,
    },

    // Damage.
    /// A file of which a page cannot be right, or is missing.
    Corrupt {
        /// The file of the map.
        file: String,
        /// Where the page begins, in bytes.
        offset: u64,
        /// What is wrong with it.
        reason: String,
    },
    /// A node that is not what the entries make it.
    Damaged {
        /// The file of the map.
        file: String,
        /// The level of the node; 0 is that of the entries.
        level: u8,
        /// The key of the node; an anchor has none.
        key: Option<Vec<u8>>,
        /// What is wrong with it.
        reason: String,
    },
    /// An answer of the source of a sync that does not have the hash that was asked for.
    Source {
        /// The level of the node.
        level: u8,
        /// The key of the node.
        key: Option<Vec<u8>>,
        /// What is wrong with the answer.
        reason: String,
    },

    // The outside world.
    /// The map is as large as it was allowed to be.
    MapFull {
        /// The file of the map.
        file: String,
        /// The bound.
        bytes_max: u64,
    },
    /// Another process has made the file larger than this one shows of it.
    MapResized {
        /// The file of the map.
        file: String,
        /// How much of it is shown.
        bytes: u64,
    },
    /// No space on the device.
    NoSpace {
        /// The file of the map.
        file: String,
    },
    /// The system failed.
    Io {
        /// The file.
        file: String,
        /// Why.
        source: Arc<io::Error>,
    },
    /// LMDB failed in a way of its own.
    Lmdb {
        /// The file of the map.
        file: String,
        /// LMDB's code.
        code: i32,
        /// LMDB's text.
        reason: String,
    },
}

impl OkraError {
    /// Wraps a failure of the system; a full device is an error of its own.
    pub(super) fn io(file: String, source: io::Error) -> Self {
        match source.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Self::NoSpace { file },
            io::ErrorKind::NotFound => Self::NoMap { file },
            _ => Self::Io { file, source: Arc::new(source) },
        }
    }

    pub(super) fn damaged(file: &str, level: u8, key: &[u8], reason: impl Into<String>) -> Self {
        Self::Damaged { file: file.to_owned(), level, key: node_key(key), reason: reason.into() }
    }

    pub(super) fn source(level: u8, key: Option<&[u8]>, reason: impl Into<String>) -> Self {
        Self::Source { level, key: key.map(<[u8]>::to_vec), reason: reason.into() }
    }
}

/// The key of a node for people and errors: the empty one is an anchor's.
fn node_key(key: &[u8]) -> Option<Vec<u8>> {
    (!key.is_empty()).then(|| key.to_vec())
}

impl fmt::Display for OkraError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::KeyEmpty => f.write_str("a key of an Okra map has at least one byte"),
            Self::KeyTooLong { bytes } => {
                write!(f, "a key of an Okra map has at most {KEY_BYTES_MAX} bytes, and this one {bytes}")
            }
            Self::ValueTooLong { bytes } => {
                write!(
                    f,
                    "a value of an Okra map has at most {VALUE_BYTES_MAX} bytes, and this one {bytes}: LMDB's own bound is {}, but \
                     it writes a value with one call, which systems cut short at 2 GiB",
                    u32::MAX
                )
            }
            Self::NoHash { bytes } => {
                write!(f, "a map in index mode takes hashes of 16 bytes as values, and this one has {bytes}")
            }
            Self::Unsorted { key } => {
                write!(
                    f,
                    "the key {} is not greater than the one before; sort the entries, or set them as a batch",
                    hex(key)
                )
            }
            Self::NotEmpty { file } => {
                write!(f, "{file}: the map has entries, and a bulk load needs an empty one; set the entries as a batch")
            }
            Self::ReadOnly { file } => write!(f, "{file}: the map is open for reading only"),
            Self::Failed { file } => {
                write!(f, "{file}: an earlier call of this transaction failed; abort it and begin another one")
            }
            Self::Forked { file } => {
                write!(f, "{file}: the map was opened by the process that this one was forked from; open it anew here")
            }
            Self::AlreadyOpen { file } => {
                write!(f, "{file}: this process has the map open already, and LMDB allows that once; share that one")
            }
            Self::Exists { file } => write!(f, "{file}: there is a map already; open it, or choose another place"),
            Self::NoMap { file } => write!(f, "{file}: there is no Okra map here; create one, or name its place"),
            Self::Incompatible { file, found, expected } => {
                write!(f, "{file}: there is {found}, and {expected} was expected")
            }
            Self::Corrupt { file, offset, reason } => {
                write!(f, "{file} is damaged at byte {offset}: {reason}")
            }
            Self::Damaged { file, level, key, reason } => {
                write!(f, "{file} is damaged at level {level}, {}: {reason}", Place(key.as_deref()))
            }
            Self::Source { level, key, reason } => {
                write!(
                    f,
                    "the source's answer for level {level}, {}, is wrong: {reason}; nothing was changed",
                    Place(key.as_deref())
                )
            }
            Self::MapFull { file, bytes_max } => {
                write!(f, "{file}: the map is full with {bytes_max} bytes; open it with a larger map size")
            }
            Self::MapResized { file, bytes } => write!(
                f,
                "{file}: another process made it larger than the {bytes} bytes for which it was opened; open it again, with a larger map size"
            ),
            Self::NoSpace { file } => write!(f, "{file}: no space left on the device; nothing was committed"),
            Self::Io { file, .. } => write!(f, "{file} cannot be read or written"),
            Self::Lmdb { file, reason, .. } => write!(f, "{file}: LMDB failed: {reason}"),
        }
    }
}

/// The key of a node as errors name it.
struct Place<'a>(Option<&'a [u8]>);

impl fmt::Display for Place<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(key) => write!(f, "key {}", hex(key)),
            None => f.write_str("the anchor"),
        }
    }
}

impl error::Error for OkraError {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        match self {
            Self::Io { source, .. } => Some(&**source),
            _ => None,
        }
    }
}

impl From<OkraError> for bristlecone::Error {
    /// The nearest error of a store; what has no such is wrapped.
    fn from(error: OkraError) -> Self {
        match error {
            OkraError::KeyTooLong { bytes } => {
                Self::TooLarge { what: "a key of an Okra map", bytes: bytes as u64, bytes_max: KEY_BYTES_MAX as u64 }
            }
            OkraError::ValueTooLong { bytes } => Self::TooLarge {
                what: "a value of an Okra map",
                bytes: bytes as u64,
                bytes_max: VALUE_BYTES_MAX as u64,
            },
            OkraError::KeyEmpty => Self::Usage { reason: "a key of an Okra map has at least one byte" },
            OkraError::NoHash { .. } => {
                Self::Usage { reason: "a map in index mode takes hashes of 16 bytes as values" }
            }
            OkraError::ReadOnly { .. } => Self::ReadOnly,
            OkraError::Exists { file } => Self::Exists { file },
            OkraError::NoMap { file } => Self::NoStore { file },
            OkraError::Incompatible { file, found, expected } => Self::Incompatible { file, found, expected },
            OkraError::Corrupt { file, offset, reason } => Self::Corrupt { file, offset, oid: None, reason },
            OkraError::NoSpace { file } => Self::NoSpace { file },
            OkraError::Io { file, source } => Self::Io { file, source },
            OkraError::Unsorted { .. } => Self::backend("the bulk load", error),
            OkraError::Source { .. } => Self::backend("the source of the sync", error),
            OkraError::NotEmpty { ref file }
            | OkraError::Failed { ref file }
            | OkraError::Forked { ref file }
            | OkraError::AlreadyOpen { ref file }
            | OkraError::Damaged { ref file, .. }
            | OkraError::MapFull { ref file, .. }
            | OkraError::MapResized { ref file, .. }
            | OkraError::Lmdb { ref file, .. } => Self::backend(file.clone(), error),
        }
    }
}
