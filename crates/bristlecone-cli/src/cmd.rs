//! The command line: one file for each subcommand.

use std::{
    ffi::OsString,
    io::{self, Write},
    process::ExitCode,
};

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand, error::ErrorKind};

use description::description;

use crate::{
    ending,
    failure::{Code, Failure, Result},
    open::Globals,
    output::Output,
    streams,
};

mod batch;
mod branches;
mod check;
mod checkout;
mod complete;
mod completions;
mod copy;
mod del;
mod description;
mod diff;
mod export;
mod export_git;
mod gc;
mod get;
mod import;
mod import_git;
mod info;
mod init;
#[cfg(feature = "lab")]
mod lab;
mod list;
mod log;
mod man;
mod map;
mod repair;
mod retention;
mod set;
mod show;
mod subtree;
mod tag;
mod tree;
mod upgrade;

const EXAMPLES: &str = "\
Examples:
  cone init                                  make a store in .bristlecone here
  cone set fruit/apple red -m \"An apple\"     set a value, as one commit
  cone get fruit/apple                       read it
  cone import photos --path backup/photos    take in a folder of files, as one commit
  cone log -n 5                              the last commits
  cone get fruit/apple --at HEAD~1           read it as it was one commit before
  cone checkout -c trial                     begin a branch and work on it
  cone diff main trial --exit-code           what differs; exit code 1 if anything does

Paths are steps separated by single slashes, with %XX for any byte. Revisions are HEAD, the name of a
branch or tag, or at least four digits of an id, each with ~N (the N-th commit before) or ^N (the N-th parent).

Inside a Git repository all of this works on Git's own branches; paths are from the top of the tree, wherever in
it one is. A branch that Git has checked out changes only with --worktree, and its files and index with it.

Exit codes: 0 done; 1 a negative answer (not found, differs where asked, damage); 2 wrong usage; 3 failure.";

/// Versioned, crash-safe stores: Git semantics for your data, at the speed of a database
#[derive(Debug, Parser)]
#[command(name = "cone", version, after_help = EXAMPLES, max_term_width = 110, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
    #[command(flatten)]
    globals: Globals,
}

#[derive(Debug, Subcommand)]
enum Command {
    Init(init::InitArgs),
    Set(set::SetArgs),
    #[command(visible_alias = "cat")]
    Get(get::GetArgs),
    #[command(visible_alias = "rm")]
    Del(del::DelArgs),
    Batch(batch::BatchArgs),
    #[command(visible_alias = "ls")]
    List(list::ListArgs),
    Tree(tree::TreeArgs),
    Log(log::LogArgs),
    Show(show::ShowArgs),
    #[command(visible_alias = "branch")]
    Branches(branches::BranchesArgs),
    #[command(visible_alias = "switch")]
    Checkout(checkout::CheckoutArgs),
    Tag(tag::TagArgs),
    Diff(diff::DiffArgs),
    Map(Box<map::MapCommand>),
    Import(import::ImportArgs),
    Export(export::ExportArgs),
    Copy(copy::CopyArgs),
    Subtree(subtree::SubtreeCommand),
    Info(info::InfoArgs),
    #[command(visible_alias = "fsck")]
    Check(check::CheckArgs),
    Repair(repair::RepairArgs),
    Gc(gc::GcArgs),
    Retention(retention::RetentionCommand),
    Upgrade(upgrade::UpgradeArgs),
    #[cfg(feature = "lab")]
    Trace(lab::trace::TraceCommand),
    #[cfg(feature = "lab")]
    Bench(Box<lab::bench::BenchCommand>),
    #[cfg(feature = "lab")]
    Replay(Box<lab::replay::ReplayCommand>),
    #[cfg(feature = "lab")]
    Utxo(lab::utxo::UtxoCommand),
    Completions(completions::CompletionsArgs),
    Man(man::ManArgs),
}

/// What every subcommand is given.
struct Context {
    globals: Globals,
    out: Output,
}

/// Runs a command line and returns its exit code.
pub(crate) fn run(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let arguments: Vec<OsString> = arguments.into_iter().collect();
    if let Some(code) = completions::answer(&arguments) {
        return code;
    }
    let (cli, verb) = match parse(&arguments) {
        Ok(parsed) => parsed,
        Err(error) => {
            let help = matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion);
            let lacks_verb = error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand;
            // Describing every verb takes longer than parsing, so only help does it.
            let described =
                if help || lacks_verb { description().try_get_matches_from(&arguments).err() } else { None };
            let error = described.unwrap_or(error);
            let open = if help { streams::check_output() } else { Ok(()) };
            let printed = error.print().and_then(|()| io::stdout().flush());
            return match open.and(printed.map_err(Failure::from)) {
                Err(failure) if help => failure.report(),
                // There is no place left to report a failure of this.
                _ => ExitCode::from(if help { 0 } else { Code::Usage as u8 }),
            };
        }
    };
    let mut context = Context { out: Output::new(cli.globals.output), globals: cli.globals };
    let idle = description::refuse_idle(&verb, &context.globals);
    let result = idle.and_then(|()| dispatch(cli.command, &mut context));
    // What was written before a failure belongs to the reader, too.
    let ended = result.as_ref().err().map_or(Ok(()), |failure| context.out.end_after(failure));
    let flushed = ended.and(context.out.flush());
    match result.and(flushed) {
        Ok(()) => {
            ending::well();
            ExitCode::SUCCESS
        }
        Err(failure) => ending::badly(failure).report(),
    }
}

/// Parses a command line; beside it stand the words that name its verb.
fn parse(arguments: &[OsString]) -> Result<(Cli, Vec<String>), clap::Error> {
    let mut matches = Cli::command().try_get_matches_from(arguments)?;
    let (mut verb, mut below) = (Vec::new(), matches.subcommand());
    while let Some((name, matches)) = below {
        verb.push(name.to_owned());
        below = matches.subcommand();
    }
    let cli = Cli::from_arg_matches_mut(&mut matches).map_err(|error| error.format(&mut Cli::command()))?;
    Ok((cli, verb))
}

fn dispatch(command: Command, context: &mut Context) -> Result<()> {
    match command {
        Command::Init(args) => init::run(args, context),
        Command::Set(args) => set::run(args, context),
        Command::Get(args) => get::run(args, context),
        Command::Del(args) => del::run(args, context),
        Command::Batch(args) => batch::run(args, context),
        Command::List(args) => list::run(args, context),
        Command::Tree(args) => tree::run(args, context),
        Command::Log(args) => log::run(args, context),
        Command::Show(args) => show::run(args, context),
        Command::Branches(args) => branches::run(args, context),
        Command::Checkout(args) => checkout::run(args, context),
        Command::Tag(args) => tag::run(args, context),
        Command::Diff(args) => diff::run(args, context),
        Command::Map(args) => map::run(*args, context),
        Command::Import(args) => import::run(args, context),
        Command::Export(args) => export::run(args, context),
        Command::Copy(args) => copy::run(args, context),
        Command::Subtree(args) => subtree::run(args, context),
        Command::Info(args) => info::run(args, context),
        Command::Check(args) => check::run(args, context),
        Command::Repair(args) => repair::run(args, context),
        Command::Gc(args) => gc::run(args, context),
        Command::Retention(args) => retention::run(args, context),
        Command::Upgrade(args) => upgrade::run(args, context),
        #[cfg(feature = "lab")]
        Command::Trace(args) => lab::trace::run(args, context),
        #[cfg(feature = "lab")]
        Command::Bench(args) => lab::bench::run(*args, context),
        #[cfg(feature = "lab")]
        Command::Replay(args) => lab::replay::run(*args, context),
        #[cfg(feature = "lab")]
        Command::Utxo(args) => lab::utxo::run(args, context),
        Command::Completions(args) => completions::run(args, context),
        Command::Man(args) => man::run(args, context),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }
}
