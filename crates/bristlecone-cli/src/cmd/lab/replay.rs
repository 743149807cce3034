//! `cone replay`: recorded operations done again, which the laboratory does.

use bristlecone_bench::{cardano, replay};
use clap::{Args, Subcommand};

use crate::{
    cmd::Context,
    failure::{Failure, Result},
    streams,
};

/// Replay a recorded trace, or a chain, into a store and check every answer
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
    /// A Cardano chain as a node keeps it: blocks into an index, and what they spend and create into a versioned set
    #[command(after_help = "\
Examples:
  cone replay cardano db --genesis byron-genesis.json              a node's folder; nothing is left
  cone -r chain replay cardano db --genesis byron-genesis.json     into a store that stays; run again, it goes on
  cone replay cardano a.tar.zst b.tar.zst --allow-missing          archives of a part of a chain
  cone replay cardano db --genesis byron-genesis.json --compare    both profiles, and their differences
  cone -r chain get TRANSACTION#PLACE                              an unspent output, as its CBOR
  cone -r chain log                                                a commit for each block that changed something

Exit code 1 for a digest that is not that of --checkpoints, 3 for a damaged chain, a missing input or a store that fails,
130 when interrupted: the blocks before that are in the set, and the next run goes on behind them.")]
    Cardano(cardano::ChainArgs),
}

pub(crate) fn run(command: ReplayCommand, context: &mut Context) -> Result<()> {
    streams::check_output()?;
    let branch = context.globals.branch()?;
    let (keep, branch, json) = (context.globals.repo(), branch.as_deref(), context.out.json());
    if keep.is_none() && branch.is_some() {
        return Err(Failure::usage(
            "-b names a branch of a store that stays: name that with --repo DIR, or leave -b out",
        ));
    }
    match command.what {
        What::Tezos(args) => Ok(replay::run(&args, keep, branch, json)?),
        What::Cardano(args) => Ok(cardano::run(&args, keep, branch, json)?),
    }
}
