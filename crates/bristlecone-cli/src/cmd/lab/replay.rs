//! `cone replay`: recorded operations done again, which the laboratory does.

use bristlecone_bench::replay;
use clap::{Args, Subcommand};

use crate::{cmd::Context, failure::Result};

/// Replay a recorded trace into a store and check every answer
#[derive(Args, Debug)]
pub(crate) struct ReplayCommand {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// A trace of the operations of a Tezos node, with the commit hashes that it saw
    #[command(after_help = "\
Examples:
  cone replay tezos trace.repr                            in memory; nothing is left
  cone replay tezos trace.repr --commits 13315 --backend disk --durability synced
  cone -r chain replay tezos trace.repr                   into a store that stays, for `cone log`
  cone replay tezos trace.repr --json rows.json --runs 3  the median of three; the row is merged into a file

Exit code 1 for a wrong answer or commit hash, 3 for a damaged trace or a store that fails, 130 when interrupted:
what was committed until then stays, and is summed up.")]
    Tezos(replay::ReplayArgs),
}

pub(crate) fn run(command: ReplayCommand, context: &mut Context) -> Result<()> {
    let What::Tezos(args) = command.what;
    let branch = context.globals.branch()?;
    Ok(replay::run(&args, context.globals.repo(), branch.as_deref(), context.out.json())?)
}
