//! `cone trace`: replayable traces of Tezos contexts. Files in, files out; no store of the user's is opened.

use std::{fmt::Display, io::Write};

use clap::{Args, Subcommand};

use crate::{cmd::Context, failure::Result};

mod convert;
mod generate;
mod info;

/// Look at replayable traces of Tezos contexts, rewrite them, and make them up
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  cone trace info data4.repr                                      what is in it
  cone trace convert data4.repr --out small.repr --commits 100    its first hundred commits
  cone trace generate --commits 10310 --out made.repr             one made up, in the proportions of real ones

Traces are files of rows, each an operation that a Tezos node did on its state; they begin with IrmRepBT.")]
pub(crate) struct TraceCommand {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    Info(info::InfoArgs),
    Convert(convert::ConvertArgs),
    Generate(generate::GenerateArgs),
}

pub(crate) fn run(args: TraceCommand, context: &mut Context) -> Result<()> {
    match args.verb {
        Verb::Info(args) => info::run(args, context),
        Verb::Convert(args) => convert::run(args, context),
        Verb::Generate(args) => generate::run(args, context),
    }
}

/// Writes to standard error what is to be known of a trace, and is no failure. Nor is a closed standard error.
fn note(what: &dyn Display) {
    let _ = writeln!(std::io::stderr(), "note: {what}");
}
