//! Why the database cannot go on, where no other error says it.

use std::{error, fmt};

/// Why the database cannot go on, where no other error says it: the source of a [`bristlecone::Error::Backend`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LsmError {
    /// The database writes and merges tables more slowly than changes come, and had no room for this one in time
    /// (`LsmOptions::room_wait_ms`). Nothing was changed, and the store goes on once there is room. Of a sweep, what earlier steps dropped
    /// is gone, and the next sweep goes on.
    Busy {
        /// How long the change waited, in milliseconds.
        waited_ms: u64,
    },
}

impl fmt::Display for LsmError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Busy { waited_ms } => write!(
                f,
                "tables were not written and merged for {waited_ms} ms, and until they are there is no room for another \
                 change; this one was not made, try again later"
            ),
        }
    }
}

impl error::Error for LsmError {}
