//! How a store of files is used.

/// How a store of files is used.
///
/// ```
/// # use bristlecone::fs::FsOptions;
/// let options = FsOptions::default().lock_wait_ms(100).background(false);
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct FsOptions {
    /// How long an append waits for the store's lock, in milliseconds.
    pub lock_wait_ms: u64,
    /// Within how many milliseconds a grouped append is durable.
    pub grouped_ms: u64,
    /// Whether a thread may work beside appends; without, the next call does what it would do.
    pub background: bool,
    /// So many objects of this process wait to be made durable, at most, beside those of one append: with more of them the next append
    /// makes them durable first. What keeps account of each takes about 200 bytes of memory.
    pub unsynced_max: usize,
    /// What is different after each start of the machine: what is not synced survives as long as it is the same. `None`: what
    /// the storage says ([`Storage::boot`](crate::storage::Storage::boot)). Where that is unknown too, every append is synced.
    pub boot: Option<String>,
}

setters! {
    FsOptions {
        lock_wait_ms: u64,
        grouped_ms: u64,
        background: bool,
        unsynced_max: usize,
        boot: into Option<String>,
    }
}

impl Default for FsOptions {
    fn default() -> Self {
        Self { lock_wait_ms: 10_000, grouped_ms: 10, background: true, unsynced_max: 1 << 19, boot: None }
    }
}
