//! `cone branches`: listing, making and removing branches.

use std::ffi::OsString;

use bristlecone::{Durability, ObjRef};
use bristlecone_git::worktree::{CheckedOut, WorktreeHead};
use clap::Args;

use super::Context;
use crate::{
    failure::{Failure, Result},
    open::{Access, Head, Opened, Store, no_branch, short},
    output::fields,
};

/// List branches, make one or remove one
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  cone branches                     all branches; * before the one checked out
  cone branches trial --at HEAD~2   make a branch there
  cone branches -d trial            remove one; its commits stay

In a Git repository the branches that Git has checked out are marked; they are neither made nor removed here.")]
pub(super) struct BranchesArgs {
    /// Make a branch of this name
    #[arg(value_name = "NAME")]
    name: Option<String>,
    /// Where it begins [default: the branch's head]
    #[arg(long, value_name = "REV", requires = "name")]
    at: Option<OsString>,
    /// Remove this branch
    #[arg(short, long, value_name = "NAME", conflicts_with_all = ["name", "at"])]
    delete: Option<String>,
}

pub(super) fn run(args: BranchesArgs, context: &mut Context) -> Result<()> {
    match (args.name, args.delete) {
        (Some(name), _) => make(&name, args.at.as_ref(), context),
        (None, Some(name)) => delete(&name, context),
        (None, None) => list(context),
    }
}

fn list(context: &mut Context) -> Result<()> {
    let opened = context.globals.open(Access::Read)?;
    let head = opened.head()?;
    let places = opened.checked_out()?;
    let git = matches!(opened.store, Store::Git { .. });
    let (current, detached) = match &head {
        Head::Branch(name) => (Some(name.clone()), None),
        Head::Detached(at) => (None, Some(at.oid.to_string())),
    };
    if let Head::Detached(at) = &head {
        context.out.line(format_args!("* (commit {})", short(at)))?;
    }
    context.out.begin(&fields! { "head": current.clone(), "detached": detached }, "branches")?;
    for name in opened.repo.branches()? {
        let at = opened.repo.branch(&name)?.head()?;
        let here = current.as_ref() == Some(&name);
        let sign = if here { '*' } else { ' ' };
        let shown = bristlecone::escape(name.as_bytes());
        let git_has = git_has(&opened, &places, &name)?;
        let note = if git_has { " (checked out by Git)" } else { "" };
        context.out.line(format_args!("{sign} {shown} {}{note}", at.as_ref().map(short).unwrap_or_default()))?;
        let mut item = fields! { "name": name };
        opened.put_commit(&mut item, at.as_ref());
        item.insert("checked_out".to_owned(), here.into());
        if git {
            item.insert("git_checked_out".to_owned(), git_has.into());
        }
        context.out.item(item)?;
    }
    context.out.end(&fields! {})
}

/// Whether some working tree has the branch checked out.
fn git_has(opened: &Opened, places: &[CheckedOut], name: &str) -> Result<bool> {
    let wanted = format!("refs/heads/{name}");
    for place in places {
        if let WorktreeHead::Ref(head) = &place.head
            && opened.leads_to(head, &wanted)?
        {
            return Ok(true);
        }
    }
    Ok(false)
}

fn make(name: &str, at: Option<&OsString>, context: &mut Context) -> Result<()> {
    let opened = context.globals.open(Access::Write)?;
    let Some(at) = opened.commit_to_read(at)? else {
        let way = "make one first with `cone set` or `cone import`";
        return Err(Failure::usage(format!("there is no commit yet where \"{name}\" could begin; {way}")));
    };
    begin(&opened, name, at)?;
    context.out.line(format_args!("made the branch {name} at commit {}", short(&at)))?;
    tell(name, at, &opened, context)
}

/// Makes a branch that must be new.
pub(super) fn begin(opened: &Opened, name: &str, at: ObjRef) -> Result<()> {
    let branch = opened.repo.branch(name)?;
    opened.check_not_checked_out(branch.ref_name())?;
    if branch.compare_and_set(None, Some(at), Durability::Synced)? {
        return Ok(());
    }
    Err(Failure::usage(format!("there is a branch \"{name}\" already; choose another name, or check it out")))
}

fn delete(name: &str, context: &mut Context) -> Result<()> {
    let opened = context.globals.open(Access::Write)?;
    if opened.head()? == Head::Branch(name.to_owned()) {
        let way = "check another one out first with `cone checkout`";
        return Err(Failure::usage(format!("the branch \"{name}\" is checked out; {way}")));
    }
    let branch = opened.repo.branch(name)?;
    let Some(at) = branch.head()? else { return Err(no_branch(name)) };
    opened.check_not_checked_out(branch.ref_name())?;
    if !branch.compare_and_set(Some(at), None, Durability::Synced)? {
        return Err(Failure::failed(format!("the branch \"{name}\" has moved meanwhile; look again")));
    }
    context.out.line(format_args!("removed the branch {name}, which was at commit {}", at.oid))?;
    tell(name, at, &opened, context)
}

/// Names a branch and its commit in JSON.
fn tell(name: &str, at: ObjRef, opened: &Opened, context: &mut Context) -> Result<()> {
    let mut all = fields! { "branch": name };
    opened.put_commit(&mut all, Some(&at));
    context.out.document(all)
}
