//! `cone bench`: the benchmark suite, which is a crate of its own.

use bristlecone_bench::{BenchError, cli, io};
use clap::{Args, Subcommand};

use super::Context;
use crate::failure::{Failure, Result};

/// Measure this machine and the store on it: the tree suite, with tables
#[derive(Args, Debug)]
#[command(args_conflicts_with_subcommands = true)]
#[command(after_help = "\
Examples:
  cone bench                                   the whole suite: under three minutes
  cone bench --quick                           each row once
  cone bench --only-scenario commits,reads     some rows
  cone bench --dir /mnt/disk --json rows.json  on another disk; rows are merged into a file
  cone bench io                                raw reads, beside fio where it is installed

Exit code 1 if a check of the results fails.")]
pub(super) struct BenchCommand {
    #[command(subcommand)]
    part: Option<Part>,
    #[command(flatten)]
    suite: cli::BenchArgs,
}

#[derive(Subcommand, Debug)]
enum Part {
    /// Measure raw reads: short random reads of a file, by system calls and from a map, beside fio
    #[command(after_help = "\
Examples:
  cone bench io                                the usual job: 50 to 300 bytes, 20 MiB of a file of 3.7 GiB, 100 loops
  cone bench io --file data.bin --span 1G      of your own file
  cone bench io --cold --loops 5               from the disk, not from the page cache
  cone bench io --export job.fio               also write the job for fio
  cone bench io --job job.fio                  a job for fio, or a recording of a store's reads")]
    Io(Box<io::IoArgs>),
}

pub(super) fn run(args: BenchCommand, context: &mut Context) -> Result<()> {
    let json = context.out.json();
    let done = match &args.part {
        None => cli::run(&args.suite, json),
        Some(Part::Io(args)) => io::run(args, json),
    };
    done.map_err(|error| match error {
        BenchError::Usage { reason } => Failure::usage(reason),
        BenchError::Store(error) => Failure::from(error).about("a benchmark could not be carried out"),
        wrong @ BenchError::Wrong { .. } => Failure::negative(wrong.to_string()),
        error => Failure::failed(error.to_string()),
    })
}
