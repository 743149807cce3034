//! How a store is used.

/// How a store is used. Nothing of it is kept in the store.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct LsmOptions {
    /// The budget in bytes for pages that were read or written lately, fjall's cache of blocks included. A snapshot that is
    /// held for long keeps at most half as much again.
    pub cache_bytes: u64,
    /// How long opening waits for another process that has the store open, in milliseconds.
    pub lock_wait_ms: u64,
    /// Within how many milliseconds a grouped append is durable.
    pub grouped_ms: u64,
    /// How long an append waits, in milliseconds, while the database writes and merges tables more slowly than appends come. Then
    /// it fails with [`LsmError::Busy`](crate::LsmError::Busy) and has changed nothing; later ones may have room.
    pub room_wait_ms: u64,
    /// After how many bytes of pages the index by id is written; so much is read again, at most, by the first search
    /// for an id after opening.
    pub index_bytes: u64,
    /// How many bytes of pages the database collects in memory until it writes a table, up to 128 MiB. While three such tables wait to
    /// be written, it collects up to four times as many, and no more than 128 MiB; then commits wait.
    pub memtable_bytes: u64,
    /// Whether threads of ours may work beside appends; without them, the next call does what they would do. The database
    /// has a thread of its own in any case, for compaction.
    pub background: bool,
}

bristlecone::setters! {
    LsmOptions {
        cache_bytes: u64,
        lock_wait_ms: u64,
        grouped_ms: u64,
        room_wait_ms: u64,
        index_bytes: u64,
        memtable_bytes: u64,
        background: bool,
    }
}

impl Default for LsmOptions {
    fn default() -> Self {
        Self {
            cache_bytes: 64 << 20,
            lock_wait_ms: 10_000,
            grouped_ms: 10,
            room_wait_ms: 60_000,
            index_bytes: 64 << 20,
            memtable_bytes: 32 << 20,
            background: true,
        }
    }
}
