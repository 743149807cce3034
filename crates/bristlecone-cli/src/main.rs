//! The command `cone`: Bristlecone stores from the command line.
//!
//! Data goes to standard output, everything else to standard error. Exit codes: 0 done, 1 a negative answer,
//! 2 wrong usage, 3 failure. `docs/cli.md` documents the commands and the shapes of their JSON.
#![deny(clippy::print_stderr, clippy::print_stdout)]

use std::process::ExitCode;

mod argument;
mod begin;
mod cmd;
mod commit;
mod differences;
mod ending;
mod entry;
mod failure;
mod follow;
mod moment;
mod newfile;
mod open;
mod output;
mod progress;
mod repeated;
mod stdin;
mod streams;
mod text;
mod who;

fn main() -> ExitCode {
    cmd::run(std::env::args_os())
}
