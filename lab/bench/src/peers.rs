//! Other programs and libraries that do what the suite does: those that keep Git repositories, measured beside ours in the
//! same run, and Irmin, measured in turns with ours.

pub(crate) mod git;
pub(crate) mod irmin;
pub(crate) mod program;

/// The cache of fjall, wherever it is measured: its documentation advises a fifth to a quarter of memory, or more where
/// all fits; the default is 32 MiB. What stands beside it may take the machine's memory.
#[cfg(feature = "rust-peers")]
pub(crate) const FJALL_CACHE_BYTES: u64 = 512 << 20;
