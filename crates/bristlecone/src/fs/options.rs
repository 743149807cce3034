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
    /// What is different after each start of the machine: what is not synced survives as long as it is the same. `None`: what
    /// the storage says ([`Storage::boot`](crate::storage::Storage::boot)). Where that is unknown too, every append is synced.
    pub boot: Option<String>,
}

setters! {
    FsOptions {
        lock_wait_ms: u64,
        grouped_ms: u64,
        background: bool,
        boot: into Option<String>,
    }
}

impl Default for FsOptions {
    fn default() -> Self {
        Self { lock_wait_ms: 10_000, grouped_ms: 10, background: true, boot: None }
    }
}
