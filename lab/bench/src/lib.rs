//! The laboratory: the tree suite on every backend, with the limits of the machine in the same run.
//!
//! **The idea.** A [`Job`](job::Job) is one scenario at one value size on one backend. Every run of a job is
//! a process of its own ([`runner`]), so that memory is that of the scenario alone, and ends with a check
//! outside of the timed part: the store is opened again, every entry is read, and the root is compared with
//! that of the same contents built at once in memory. The first rows of every run are the limits of the
//! machine at that time ([`limits`]), and each result is shown as a share of the one that bounds it.
//!
//! Results are rows of JSON first ([`report`]); tables and the README's section come from them.
//! `docs/bench.md` says what each row means. The command line is [`cli`].
//!
//! Other stores are run in one case only: what keeps Git repositories makes the same commits as ours does.
#![deny(clippy::print_stderr)]

/// Writes a line to standard error, and goes on where nobody can be told.
macro_rules! say {
    ($($text:tt)*) => {{
        use std::io::Write as _;
        let _ = writeln!(std::io::stderr().lock(), $($text)*);
    }};
}
/// As `say`, without the end of the line.
macro_rules! say_part {
    ($($text:tt)*) => {{
        use std::io::Write as _;
        let _ = write!(std::io::stderr().lock(), $($text)*);
    }};
}

mod all;
mod big;
mod blocks;
pub mod cardano;
mod check;
pub mod cli;
mod engine;
mod error;
pub mod gc;
mod gitimport;
mod history;
pub mod io;
pub mod job;
mod judge;
pub mod limits;
mod machine;
mod map;
mod measure;
mod objects;
mod optims;
mod options;
mod peers;
mod refs;
pub mod replay;
pub mod report;
mod rss;
pub mod runner;
mod scenario;
mod scratch;
mod session;
mod suite;
mod sweep;
mod unrest;
mod utxo;
mod workload;

pub use error::BenchError;
