//! `cone subtree`: a directory whose history is shared with other repositories.

use std::{ffi::OsString, os::unix::ffi::OsStrExt, path::PathBuf};

use bristlecone::{CommitId, Error, Format, Kind, Oid, Path};
use clap::{Args, Subcommand};

use super::Context;
use crate::{
    argument,
    failure::{Failure, Result},
    open::{Access, Opened, short},
    progress::meanwhile,
    text,
};
use bristlecone_any::{AnyFormat, Branch, check_new_branch};

mod join;
mod look;
mod push;

/// A directory of the store as `cone` knows it.
type Subtree = bristlecone::subtree::Subtree<AnyFormat>;

/// Share the history of a directory with other repositories
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  cone subtree add -P vendor/lib ../lib main       the history of another repository, below a directory
  cone subtree pull -P vendor/lib ../lib main      what is new there since
  cone subtree push -P vendor/lib ../lib main      what is new here, as commits of that repository
  cone subtree split -P vendor/lib -b lib          the directory's history as a branch of its own
  cone subtree status -P vendor/lib ../lib main    how the two stand

REPO is the path of another store or Git repository, of the same format. Commits are those of git subtree, which
goes on from there and the other way round.")]
pub(super) struct SubtreeCommand {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    Split(look::SplitArgs),
    Add(join::AddArgs),
    Pull(join::PullArgs),
    Push(push::PushArgs),
    Status(look::StatusArgs),
}

/// Where the subtree is.
#[derive(Args, Debug)]
struct Prefix {
    /// The directory: steps separated by slashes
    #[arg(short = 'P', long, value_name = "PATH")]
    prefix: OsString,
}

/// Does something that goes through the history of a directory, and shows for how long it has been at it.
fn through_history<T>(does: impl FnOnce() -> T) -> T {
    meanwhile(|seconds| format!("going through the history, {}", text::span(seconds as u64)), does)
}

pub(super) fn run(args: SubtreeCommand, context: &mut Context) -> Result<()> {
    match args.verb {
        Verb::Split(args) => look::split(args, context),
        Verb::Add(args) => join::add(args, context),
        Verb::Pull(args) => join::pull(args, context),
        Verb::Push(args) => push::run(args, context),
        Verb::Status(args) => look::status(args, context),
    }
}

impl Prefix {
    /// Returns the path; a slash behind it is forgiven, as shells write it.
    fn path(&self) -> Result<Path> {
        let bytes = self.prefix.as_bytes();
        argument::entry_path(std::ffi::OsStr::from_bytes(bytes.strip_suffix(b"/").unwrap_or(bytes)))
    }
}

/// Opens the other repository, which must keep the same objects as ours.
fn open_other(context: &Context, opened: &Opened, dir: PathBuf, access: Access) -> Result<Opened> {
    let other = context.globals.elsewhere(Some(dir.clone())).open(access)?;
    let (ours, theirs) = (opened.repo.format(), other.repo.format());
    if (ours.name(), ours.options()) == (theirs.name(), theirs.options()) {
        return Ok(other);
    }
    let name_of = |format: &AnyFormat| format!("{} ({})", format.name(), format.options());
    let (shown, ours, theirs) = (text::show(&dir), name_of(ours), name_of(theirs));
    let way = "objects go between stores of one format alone; `cone import --git` and `cone export --git` change it";
    Err(Failure::usage(format!("{shown} keeps objects of the format {theirs}, this store of {ours}; {way}")))
}

/// Returns the branch of a name, which is given as people write it.
fn subtree_branch(opened: &Opened, name: &str) -> Result<Branch> {
    Ok(opened.repo.branch(check_new_branch(name)?)?)
}

/// Says that a commit has no such directory.
fn no_directory(prefix: &Path, at: CommitId) -> Failure {
    let commit = short(&at);
    let way = "begin one where nothing is with `cone subtree add`";
    Failure::negative(format!("there is no directory {prefix} in commit {commit}; {way}"))
}

/// Says what to do where a squashed commit is not here, or history ends before its beginning: what a directory's own history would
/// begin with there has another id than what others have made of it.
fn explained(opened: &Opened, error: Error) -> Failure {
    match error {
        Error::Absent { .. } => Failure::failed(format!(
            "{error}, and a directory's own history takes all of it; work in a store that keeps it"
        )),
        Error::Missing { kind: Kind::Commit, oid } if was_never_fetched(opened, oid) => Failure::failed(format!(
            "commit {oid} was never fetched, since the history is shallow, and a directory's own history takes all of it; bring the \
             rest, in a Git repository with `git fetch --unshallow`"
        )),
        Error::Missing { kind: Kind::Commit, oid } => {
            let way = "name the repository that has it: `cone subtree push` and `pull` do, and so does `status REPO`";
            Failure::failed(format!("commit {oid} is missing here: it was squashed, or history was cut; {way}"))
        }
        error => error.into(),
    }
}

/// Whether history was cut off before this commit when it was fetched.
fn was_never_fetched(opened: &Opened, oid: Oid) -> bool {
    let leads_there = |at: Oid| {
        let commit = opened.repo.read_commit(at.into());
        commit.is_ok_and(|commit| commit.parents.iter().any(|parent| parent.oid() == oid))
    };
    opened.repo.shallow().is_ok_and(|shallow| shallow.into_iter().any(leads_there))
}
