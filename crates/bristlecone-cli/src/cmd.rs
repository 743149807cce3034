//! The command line: one file for each subcommand.

use std::{ffi::OsString, process::ExitCode};

use bristlecone::core::FormatError;
use clap::{CommandFactory, Parser, Subcommand, error::ErrorKind};

use crate::{
    ending,
    failure::{Code, Failure, Result},
    formats::Tree,
    open::{Globals, Opened},
    output::{Fields, Output, fields},
};

mod bench;
mod branches;
mod check;
mod checkout;
mod completions;
mod del;
mod diff;
mod export;
mod export_git;
mod get;
mod import;
mod import_git;
mod info;
mod init;
mod list;
mod log;
mod man;
mod repair;
mod replay;
mod set;
mod show;
mod subtree;
mod tag;
mod trace;
mod tree;

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
    Import(import::ImportArgs),
    Export(export::ExportArgs),
    Subtree(subtree::SubtreeCommand),
    Info(info::InfoArgs),
    #[command(visible_alias = "fsck")]
    Check(check::CheckArgs),
    Repair(repair::RepairArgs),
    Trace(trace::TraceCommand),
    Bench(Box<bench::BenchCommand>),
    Replay(Box<replay::ReplayCommand>),
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
    let cli = match Cli::try_parse_from(arguments) {
        Ok(cli) => cli,
        Err(error) => {
            let help = matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion);
            // Nobody is left to tell if this fails.
            let _ = error.print();
            return ExitCode::from(if help { 0 } else { Code::Usage as u8 });
        }
    };
    let mut context = Context { out: Output::new(cli.globals.output), globals: cli.globals };
    let result = dispatch(cli.command, &mut context);
    // What was written before a failure belongs to the reader, too.
    let flushed = context.out.flush();
    match result.and(flushed) {
        Ok(()) => {
            ending::well();
            ExitCode::SUCCESS
        }
        Err(failure) => ending::badly(failure).report(),
    }
}

fn dispatch(command: Command, context: &mut Context) -> Result<()> {
    match command {
        Command::Init(args) => init::run(args, context),
        Command::Set(args) => set::run(args, context),
        Command::Get(args) => get::run(args, context),
        Command::Del(args) => del::run(args, context),
        Command::List(args) => list::run(args, context),
        Command::Tree(args) => tree::run(args, context),
        Command::Log(args) => log::run(args, context),
        Command::Show(args) => show::run(args, context),
        Command::Branches(args) => branches::run(args, context),
        Command::Checkout(args) => checkout::run(args, context),
        Command::Tag(args) => tag::run(args, context),
        Command::Diff(args) => diff::run(args, context),
        Command::Import(args) => import::run(args, context),
        Command::Export(args) => export::run(args, context),
        Command::Subtree(args) => subtree::run(args, context),
        Command::Info(args) => info::run(args, context),
        Command::Check(args) => check::run(args, context),
        Command::Repair(args) => repair::run(args, context),
        Command::Trace(args) => trace::run(args, context),
        Command::Bench(args) => bench::run(*args, context),
        Command::Replay(args) => replay::run(*args, context),
        Command::Completions(args) => completions::run(args, context),
        Command::Man(args) => man::run(args, context),
    }
}

/// Returns the command line as completions and manual pages describe it.
fn description() -> clap::Command {
    let mut command = Cli::command();
    command.build();
    command
}

/// How often a commit is tried again when others are faster.
const TRIES: usize = 100;

/// Edits the tree of the branch to change and commits it, again from the start if somebody else was faster.
/// Returns the commit, or `None` if nothing has changed; and whether the branch is new.
///
/// In a Git repository the edit is first made without writing anything, and refused where it may not be made
/// ([`crate::follow`]).
fn commit(
    opened: &Opened,
    commit: &bristlecone::Info,
    allow_empty: bool,
    edit: &mut dyn FnMut(&mut Tree) -> Result<()>,
) -> Result<Committed> {
    commit_edit(opened, commit, allow_empty, false, edit)
}

/// As [`commit`], where what the edit adds is in the store already, and much.
fn commit_written(
    opened: &Opened,
    commit: &bristlecone::Info,
    allow_empty: bool,
    edit: &mut dyn FnMut(&mut Tree) -> Result<()>,
) -> Result<Committed> {
    commit_edit(opened, commit, allow_empty, true, edit)
}

fn commit_edit(
    opened: &Opened,
    commit: &bristlecone::Info,
    allow_empty: bool,
    written: bool,
    edit: &mut dyn FnMut(&mut Tree) -> Result<()>,
) -> Result<Committed> {
    let branch = opened.branch_to_change()?;
    let mut leave = opened.ask_leave(branch.ref_name())?;
    for _ in 0..TRIES {
        let mut tree = branch.tree()?;
        let (parent, old) = (tree.origin(), tree.clone());
        let before = root_of(&tree)?;
        edit(&mut tree)?;
        let root = root_of(&tree)?;
        if root.is_none() && (before.is_some() || allow_empty) {
            let name = opened.repo.format().name();
            let way = "set something else first, or remove the whole branch with `cone branches -d`";
            return Err(Failure::usage(format!(
                "nothing would be left, and the format {name} cannot hold an empty tree; {way}"
            )));
        }
        if root == before && !allow_empty {
            return Ok(Committed { branch: branch.name().to_owned(), at: None, root });
        }
        if written {
            leave.check(opened, old, tree.clone())?;
        } else {
            leave.check_edit(opened, parent, edit)?;
        }
        match branch.commit(&mut tree, commit) {
            Err(bristlecone::Error::Conflict { .. }) => {}
            done => {
                if parent.is_none() && branch.name() != crate::open::FIRST_BRANCH {
                    eprintln!("began the branch {}", branch.name());
                }
                let at = done?;
                leave.follow(&at, commit.durability)?;
                opened.close()?;
                return Ok(Committed { branch: branch.name().to_owned(), at: Some(at), root });
            }
        }
    }
    Err(Failure::failed(format!("the branch {} moves too fast; try again when it is quieter", branch.name())))
}

/// Returns the root of a tree; `None` if it is empty and the format has no empty directory.
fn root_of(tree: &Tree) -> Result<Option<bristlecone::Oid>> {
    match tree.root() {
        Err(bristlecone::Error::Format(FormatError::Unsupported { .. })) if tree.is_empty()? => Ok(None),
        root => Ok(Some(root?)),
    }
}

/// What [`commit`] did.
struct Committed {
    branch: String,
    // `None` if nothing has changed.
    at: Option<bristlecone::ObjRef>,
    root: Option<bristlecone::Oid>,
}

impl Committed {
    /// Returns the JSON fields that say so.
    fn fields(&self, opened: &Opened) -> Fields {
        let mut all = fields! { "branch": self.branch.as_str() };
        opened.put_commit(&mut all, self.at.as_ref());
        all.extend(fields! { "root": self.root.map(|root| root.to_string()), "changed": self.at.is_some() });
        all
    }

    /// Says so for people.
    fn line(&self, what: &str) -> String {
        match &self.at {
            Some(at) => format!("{what} on {} as commit {}", self.branch, crate::open::short(at)),
            None => format!("nothing changed on {}, so nothing was committed", self.branch),
        }
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
