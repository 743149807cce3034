//! How a store is used.

/// How a store is used.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct LmdbOptions {
    /// The address space that is reserved for the file, in bytes. Where the process may not have so much, a half of it is
    /// tried, a quarter and so on. A file that outgrows it is mapped anew, twice as large.
    pub map_bytes: u64,
    /// How long a writer waits for other processes, in milliseconds.
    pub lock_wait_ms: u64,
    /// Within how many milliseconds a grouped append is durable.
    pub grouped_ms: u64,
    /// Whether a thread may sync beside appends; without, a grouped append is durable when it returns. Where that sync fails, the
    /// append is made all the same, and the next one makes the sync or fails.
    pub background: bool,
}

bristlecone::setters! {
    LmdbOptions {
        map_bytes: u64,
        lock_wait_ms: u64,
        grouped_ms: u64,
        background: bool,
    }
}

impl Default for LmdbOptions {
    fn default() -> Self {
        Self { map_bytes: 1 << 40, lock_wait_ms: 10_000, grouped_ms: 10, background: true }
    }
}
