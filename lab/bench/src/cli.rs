//! The command `bench` and its parts: the options, and what is done with them.

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};

pub use crate::all::{AllArgs, TraceArgs};
use crate::{
    all,
    error::Result,
    gitimport, io,
    job::{Job, Sizes, Switches, Target, Work},
};

mod plain;

pub use plain::BenchArgs;
pub(crate) use plain::show;

/// The command `bench`: the tree suite, or one of its parts by name.
#[derive(Args, Clone, Debug)]
#[command(args_conflicts_with_subcommands = true)]
pub struct Bench {
    /// What is measured, if not the tree suite.
    #[command(subcommand)]
    pub part: Option<Part>,
    /// The options of the tree suite.
    #[command(flatten)]
    pub suite: BenchArgs,
}

/// What `bench` does beside the tree suite.
#[derive(Subcommand, Clone, Debug)]
pub enum Part {
    /// Everything in one command: suite, optimisations, trace, task counts, peers, charts, pages
    All(Box<AllArgs>),
    /// Measure raw reads: short random reads of a file, by system calls and from a map, beside fio
    #[command(after_help = "\
Examples:
  cone bench io                                the usual job: 50 to 300 bytes, 20 MiB of a file of 3.7 GiB, 100 loops
  cone bench io --file data.bin --span 1G      of your own file
  cone bench io --cold --loops 5               from the disk, not from the page cache
  cone bench io --export job.fio               also write the job for fio
  cone bench io --job job.fio                  a job for fio, or a recording of a store's reads")]
    Io(Box<io::IoArgs>),
    /// Measure the import of a whole Git history, beside git fast-export and fast-import, and git clone
    #[command(after_help = "\
Examples:
  cone bench git-import .                      the repository here
  cone bench git-import repo.git --runs 5 --dir /mnt/disk --json rows.json

Exit code 1 if what was imported is not what was there.")]
    GitImport(Box<gitimport::GitImportArgs>),
}

/// How much is done, and where: common to the parts that measure the tree suite.
#[derive(Args, Clone, Debug)]
pub struct Common {
    /// Commits of a scenario
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = positive)]
    pub ncommits: usize,
    /// Entries of the wide directory
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = positive)]
    pub tree_add: usize,
    /// Directories above an entry
    #[arg(long, value_name = "N", default_value_t = 10)]
    pub depth: usize,
    /// Lookups of `reads`, and rounds of `concurrent`
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = positive)]
    pub nreads: usize,
    /// What rows are called, before the backend
    #[arg(long, value_name = "NAME", default_value = "bristlecone")]
    pub name: String,
    /// Where stores are made and removed again; a real disk
    #[arg(long, value_name = "DIR")]
    pub dir: Option<PathBuf>,
    /// Runs of each row, of which the median counts
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = positive)]
    pub runs: usize,
    /// One run of each row, and not the longest rows
    #[arg(long)]
    pub quick: bool,
    /// Do every run in this process: for profilers. Memory is then that of all runs together
    #[arg(long)]
    pub in_process: bool,
}

impl Common {
    /// Returns what every job of a run has in common.
    pub(crate) fn job(&self, dir: &Path) -> Job {
        let Self { ncommits, tree_add, depth, nreads, .. } = *self;
        Job {
            work: Work::Commits,
            target: Target::Memory,
            value_bytes: 20,
            sizes: Sizes { ncommits, tree_add, depth, nreads, ..Sizes::default() },
            switches: Switches::default(),
            dir: dir.to_owned(),
            name: self.name.clone(),
            label: None,
            judged: false,
        }
    }
}

pub(crate) fn positive(text: &str) -> std::result::Result<usize, String> {
    match text.parse() {
        Ok(0) => Err("at least 1".into()),
        Ok(count) => Ok(count),
        Err(error) => Err(format!("{error}")),
    }
}

/// Runs what the options ask for. Tables, or with `json` the rows, go to standard output, progress to
/// standard error.
///
/// # Errors
/// [`BenchError::Usage`](crate::BenchError::Usage) for options that make no sense;
/// [`BenchError::Wrong`](crate::BenchError::Wrong) after everything was reported, if a check found something
/// wrong; others of the stores and the system.
pub fn run(bench: &Bench, json: bool) -> Result<()> {
    match &bench.part {
        None => plain::run(&bench.suite, json),
        Some(Part::All(args)) => all::run(args, json),
        Some(Part::Io(args)) => io::run(args, json),
        Some(Part::GitImport(args)) => gitimport::run(args, json),
    }
}
