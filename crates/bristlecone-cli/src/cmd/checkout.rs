//! `cone checkout`: which branch or commit commands work on.

use std::ffi::OsString;

use bristlecone::{Durability, Expected, RefMove};
use clap::Args;

use super::{Context, branches};
use crate::{
    failure::{Failure, Result},
    open::{Access, Opened, short},
    output::fields,
    text::show,
};
use bristlecone_any::{Head, check_new_branch, revision, short_branch};

/// Choose the branch or commit that other commands work on
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  cone checkout trial           work on the branch trial from now on
  cone checkout -c trial        make it here first
  cone checkout -c trial v~2    make it there first
  cone checkout HEAD~3          look at an older commit; to change something, name a branch with -b
  cone checkout --git           in a Git repository: work on what Git has checked out again

Nothing but the store's HEAD moves: a store has no working files. In a Git repository that is a HEAD of
cone's own; Git's, its files and its index stay as they are.")]
pub(super) struct CheckoutArgs {
    /// Make the branch first
    #[arg(short, long)]
    create: bool,
    /// A branch, or a revision
    #[arg(value_name = "NAME|REV", required_unless_present = "git")]
    name: Option<OsString>,
    /// Where a new branch begins [default: the branch's head]
    #[arg(value_name = "START", requires = "create")]
    start: Option<OsString>,
    /// Follow what Git has checked out, from now on and as at first
    #[arg(long, conflicts_with_all = ["name", "create"])]
    git: bool,
}

pub(super) fn run(args: CheckoutArgs, context: &mut Context) -> Result<()> {
    // With -c and no START it is where the new branch begins.
    if context.globals.branch()?.is_some() && (!args.create || args.start.is_some()) {
        return Err(Failure::usage(
            "-b names no branch to check out; make a branch with -c NAME [START], or leave -b out",
        ));
    }
    let opened = context.globals.open(Access::Write)?;
    let Some(name) = args.name else { return follow_git(&opened, context) };
    let branch = match name.to_str().map(short_branch) {
        Some(name) if args.create => {
            create(&opened, name, args.start.as_ref())?;
            Some(name)
        }
        // The branch that is checked out may have no commits yet.
        Some(name) if is_branch(&opened, name)? || opened.repo.checked_out()? == Head::Branch(name.to_owned()) => {
            Some(name)
        }
        Some(_) => None,
        None if args.create => return Err(Failure::usage("the name of a branch is UTF-8; choose another")),
        None => None,
    };
    if let Some(name) = branch {
        opened.repo.set_head(name)?;
        let at = opened.repo.branch(name)?.head()?;
        context.out.made(format!("on the branch {}", show(name)))?;
        let mut all = fields! { "head": name, "detached": () };
        opened.put_commit(&mut all, at.as_ref());
        return context.out.document(all);
    }
    let at = revision::commit(&opened.repo, &name)?;
    opened.repo.detach_head(at)?;
    context.out.made(format!("at commit {}, on no branch", short(&at)))?;
    let mut all = fields! { "head": (), "detached": at.oid().to_string() };
    opened.put_commit(&mut all, Some(&at));
    context.out.document(all)
}

/// Gives up the HEAD that is cone's own.
fn follow_git(opened: &Opened, context: &mut Context) -> Result<()> {
    if opened.repo.git().is_none() {
        return Err(Failure::usage("--git is for Git repositories; name a branch to check out"));
    }
    let own = RefMove { name: "HEAD".to_owned(), expected: Expected::Any, to: None };
    opened.repo.move_refs(&[own], Durability::Synced)?;
    let head = opened.repo.checked_out()?;
    let at = opened.repo.checked_out_commit()?;
    let (name, line) = match &head {
        Head::Branch(name) => (Some(name.as_str()), format!("on the branch {}, as Git is", show(name))),
        Head::Detached(at) => (None, format!("at commit {}, on no branch, as Git is", short(at))),
    };
    context.out.made(line)?;
    let detached = at.filter(|_| name.is_none()).map(|at| at.oid().to_string());
    let mut all = fields! { "head": name, "detached": detached };
    opened.put_commit(&mut all, at.as_ref());
    context.out.document(all)
}

fn is_branch(opened: &Opened, name: &str) -> Result<bool> {
    let found = bristlecone::check_ref_name(&format!("refs/heads/{name}")).is_ok();
    Ok(found && opened.repo.branch(name)?.head()?.is_some())
}

/// Makes the branch where there are commits; else it begins with the first.
fn create(opened: &Opened, name: &str, start: Option<&OsString>) -> Result<()> {
    let at = match start {
        Some(start) => Some(revision::commit(&opened.repo, start)?),
        None => opened.commit_to_read(None)?,
    };
    match at {
        Some(at) => branches::begin(opened, name, at),
        None => Ok(_ = opened.repo.branch(check_new_branch(name)?)?),
    }
}
