//! `cone bench`: the benchmark suite, which is a crate of its own.

use bristlecone_bench::{BenchError, cli};
use clap::Args;

use crate::{
    cmd::Context,
    failure::{Failure, Result},
    streams,
};

/// Measure this machine and the store on it: the tree suite, with tables
#[derive(Args, Debug)]
#[command(args_conflicts_with_subcommands = true)]
#[command(after_help = "\
Examples:
  cone bench                                   the whole suite, five runs of each row: a quarter of an hour
  cone bench --quick                           each row once
  cone bench --only-scenario commits,reads     some rows
  cone bench --dir /mnt/disk --json rows.json  on another disk; rows are merged into a file
  cone bench all                               also optimisations, task counts, charts and pages
  cone bench io                                raw reads, beside fio where it is installed
  cone bench git-import PATH                   a whole Git history brought in, beside what git does

Exit code 1 if a check of the results fails.")]
pub(crate) struct BenchCommand {
    #[command(flatten)]
    bench: cli::Bench,
}

pub(crate) fn run(args: BenchCommand, context: &mut Context) -> Result<()> {
    streams::check_output()?;
    cli::run(&args.bench, context.out.json()).map_err(|error| match error {
        BenchError::Store(error) => Failure::from(error).about("a benchmark could not be carried out"),
        error => error.into(),
    })
}
