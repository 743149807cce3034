//! The command `cone` as people meet it: the real binary in folders of its own.

mod aborted;
mod backends;
mod bad_use;
mod batch;
#[cfg(feature = "lab")]
mod bench_chain;
mod bench_git;
#[cfg(feature = "lab")]
mod bench_io;
#[cfg(feature = "lab")]
mod bench_map;
#[cfg(feature = "lab")]
mod bench_rows;
mod branches;
#[cfg(feature = "lab")]
mod cardano;
mod copy;
mod damage;
mod failed;
mod folders;
mod formats;
#[cfg(feature = "lab")]
mod generate;
mod git_harness;
mod git_import;
mod git_partial;
mod git_read;
mod git_revisions;
mod git_worktree;
mod git_write;
mod harness;
mod help;
mod histories;
mod hostile;
mod json;
mod map;
mod messages;
mod places;
mod progress;
mod replay;
mod retention;
mod subtree;
#[cfg(feature = "lab")]
mod trace;
mod values;
