//! The command `cone` as people meet it: the real binary in folders of its own.

mod aborted;
mod bad_use;
mod bench_git;
mod bench_io;
mod branches;
mod damage;
mod folders;
mod formats;
mod generate;
mod git_harness;
mod git_partial;
mod git_read;
mod git_revisions;
mod git_worktree;
mod git_write;
mod harness;
mod histories;
mod hostile;
mod json;
mod replay;
mod subtree;
mod trace;
mod values;
