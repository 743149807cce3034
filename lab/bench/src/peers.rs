//! Other programs and libraries that do what the suite does: those that keep Git repositories, measured beside ours in the
//! same run, and Irmin, measured in turns with ours.

pub(crate) mod git;
pub(crate) mod irmin;
pub(crate) mod program;

/// The cache of fjall and of RocksDB, wherever they are measured: the documentation of fjall advises a fifth to a quarter of memory,
/// or more where all fits, that of RocksDB a third; the default of both is 32 MiB. What stands beside them may take the machine's
/// memory.
#[cfg(feature = "rust-peers")]
pub(crate) const PEER_CACHE_BYTES: u64 = 512 << 20;
