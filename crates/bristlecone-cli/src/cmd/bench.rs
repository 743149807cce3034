//! `cone bench`: the benchmark suite, which is a crate of its own.

use bristlecone_bench::{BenchError, cli};
use bristlecone_trace::replay::ReplayError;
use clap::Args;

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
  cone bench all                               also optimisations, task counts, charts and pages
  cone bench io                                raw reads, beside fio where it is installed
  cone bench git-import PATH                   a whole Git history brought in, beside what git does

Exit code 1 if a check of the results fails.")]
pub(super) struct BenchCommand {
    #[command(flatten)]
    bench: cli::Bench,
}

pub(super) fn run(args: BenchCommand, context: &mut Context) -> Result<()> {
    cli::run(&args.bench, context.out.json()).map_err(|error| match error {
        BenchError::Usage { reason } => Failure::usage(reason),
        BenchError::Store(error) => Failure::from(error).about("a benchmark could not be carried out"),
        BenchError::Stopped => Failure::interrupted(),
        BenchError::Replay(error) if error.is_wrong() => Failure::negative(error.to_string()),
        BenchError::Replay(ReplayError::Trace(error)) => error.into(),
        wrong @ BenchError::Wrong { .. } => Failure::negative(wrong.to_string()),
        error => Failure::failed(bristlecone::report(&error)),
    })
}
