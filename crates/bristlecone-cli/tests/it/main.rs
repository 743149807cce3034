//! The command `cone` as people meet it: the real binary in folders of its own.

mod bad_use;
mod bench_io;
mod branches;
mod damage;
mod folders;
mod formats;
mod generate;
mod harness;
mod histories;
mod hostile;
mod json;
mod replay;
mod trace;
mod values;
