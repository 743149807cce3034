//! `cone branches`: listing, making and removing branches.

use std::ffi::OsString;

use bristlecone::{CommitId, Durability, Expected, LogOptions, Oid, RefMove, RefTarget};
use clap::Args;

use super::{Context, log};
use crate::{
    failure::{Failure, Result, is_won},
    open::{Access, Opened, no_branch, short},
    output::{fields, put_text},
    text::{self, show},
};
use bristlecone_any::{Branch, Head, check_new_branch, short_branch};

/// What Git itself has checked out, whose moves it keeps, too.
const GIT_HEAD: &str = "HEAD";
/// How many symbolic refs are followed in a row.
const SYMBOLIC_MAX: usize = 8;

/// List branches, make one or remove one
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  cone branches                     all branches; * before the one checked out
  cone branches trial --at HEAD~2   make a branch there
  cone branches -d trial            remove one that another branch has the commits of
  cone branches main --moves        in a Git repository: what main held, main@{0} first, and why it moved

In a Git repository the branches that Git has checked out are marked; they are neither made nor removed here.")]
pub(super) struct BranchesArgs {
    /// Make a branch of this name; with --moves the one that is looked at
    #[arg(value_name = "NAME")]
    name: Option<String>,
    /// Where it begins [default: the branch's head]
    #[arg(long, value_name = "REV", requires = "name")]
    at: Option<OsString>,
    /// Remove this branch
    #[arg(short, long, value_name = "NAME", conflicts_with_all = ["name", "at"])]
    delete: Option<String>,
    /// In a Git repository: list what the branch (or HEAD) held, newest first, and why it moved [default: the one checked out]
    #[arg(long, conflicts_with_all = ["at", "delete"])]
    moves: bool,
    /// Remove it also if no other branch has its commits
    #[arg(long, requires = "delete")]
    force: bool,
}

pub(super) fn run(args: BranchesArgs, context: &mut Context) -> Result<()> {
    // A conflict of NAME or --moves with -d takes the demand for it away.
    if args.force && args.delete.is_none() {
        return Err(Failure::usage("--force is for removing a branch; give -d NAME, or leave it out"));
    }
    let idle = match args.moves {
        true => args.name.is_some().then_some("names the branch whose moves are listed, where NAME does not"),
        false => (args.name.is_none() || args.at.is_some())
            .then_some("says at the head of which branch another one is made, where --at does not"),
    };
    if let Some(meaning) = idle {
        context.globals.refuse_idle_branch(meaning)?;
    }
    match (args.name, args.delete) {
        (name, _) if args.moves => moves(name.as_deref(), context),
        (Some(name), _) => make(&name, args.at.as_ref(), context),
        (None, Some(name)) => delete(&name, args.force, context),
        (None, None) => list(context),
    }
}

fn list(context: &mut Context) -> Result<()> {
    let opened = context.globals.open(Access::Read)?;
    let head = opened.repo.checked_out()?;
    let held = opened.held_refs()?;
    let git = opened.repo.git().is_some();
    let (current, detached) = match &head {
        Head::Branch(name) => (Some(name.clone()), None),
        Head::Detached(at) => (None, Some(at.oid().to_string())),
    };
    if let Head::Detached(at) = &head {
        context.out.line(format_args!("* (commit {})", short(at)))?;
    }
    context.out.begin(&fields! { "head": current.clone(), "detached": detached }, "branches")?;
    for name in opened.repo.branches()? {
        let at = opened.repo.branch(&name)?.head()?;
        let here = current.as_ref() == Some(&name);
        let sign = if here { '*' } else { ' ' };
        let shown = show(&name);
        let git_has = opened.is_checked_out(&held, &format!("refs/heads/{name}"))?;
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

/// Lists what a reflog tells.
fn moves(name: Option<&str>, context: &mut Context) -> Result<()> {
    let opened = context.globals.open(Access::Read)?;
    let Some((git, _)) = opened.repo.git() else {
        let way = "`cone log` lists the commits that led to it";
        return Err(Failure::usage(format!("only Git repositories keep what a branch held before; {way}")));
    };
    let named = context.globals.branch()?;
    let name = match (name.or(named.as_deref()), opened.repo.checked_out()?) {
        (Some(name), _) => short_branch(name).to_owned(),
        (None, Head::Branch(name)) => name,
        (None, Head::Detached(_)) => GIT_HEAD.to_owned(),
    };
    let full = if name == GIT_HEAD { name.clone() } else { opened.repo.branch(&name)?.ref_name().to_owned() };
    let moves = git.refs().moves(&full)?;
    if moves.is_empty() && name != GIT_HEAD && opened.backend().get_ref(&full)?.is_none() {
        return Err(no_branch(&name));
    }
    context.out.begin(&fields! { "ref": full.as_str() }, "moves")?;
    for (back, one) in moves.iter().rev().enumerate() {
        let held = one.after.map_or_else(|| "nothing".to_owned(), |at| short(&at.into()));
        let (shown, when, why) = (show(&name), text::date(&one.who), log::escape_line(&one.reason));
        context.out.line(format_args!("{shown}@{{{back}}} {held} {when} {why}"))?;
        let id = |at: Option<Oid>| at.map(|at| at.to_string());
        let mut item = fields! { "back": back, "before": id(one.before), "after": id(one.after) };
        item.insert("who".to_owned(), log::describe_who(&one.who));
        put_text(&mut item, "reason", &one.reason);
        context.out.item(item)?;
    }
    context.out.end(&fields! {})
}

fn make(name: &str, at: Option<&OsString>, context: &mut Context) -> Result<()> {
    let name = check_new_branch(name)?;
    let opened = context.globals.open(Access::Write)?;
    let Some(at) = opened.commit_to_read(at)? else {
        let way = "make one first with `cone set` or `cone import`";
        return Err(Failure::usage(format!("there is no commit yet where \"{}\" could begin; {way}", show(name))));
    };
    begin(&opened, name, at)?;
    context.out.made(format!("made the branch {} at commit {}", show(name), short(&at)))?;
    tell(name, Some(&at), &opened, context)
}

/// Makes a branch that must be new.
pub(super) fn begin(opened: &Opened, name: &str, at: CommitId) -> Result<()> {
    let branch = opened.repo.branch(check_new_branch(name)?)?;
    opened.check_not_checked_out(branch.ref_name())?;
    if is_won(branch.compare_and_set(None, Some(at), Durability::Synced))? {
        return Ok(());
    }
    Err(Failure::usage(format!("there is a branch \"{}\" already; choose another name, or check it out", show(name))))
}

fn delete(name: &str, force: bool, context: &mut Context) -> Result<()> {
    let name = short_branch(name);
    let opened = context.globals.open(Access::Write)?;
    let (branch, now) = removable(&opened, name, force, &Moving::default())?;
    let at = branch.head()?;
    let gone = RefMove { name: branch.ref_name().to_owned(), expected: Expected::Is(now), to: None };
    if !is_won(opened.repo.move_refs(&[gone], Durability::Synced))? {
        return Err(Failure::failed(format!("the branch \"{}\" has moved meanwhile; look again", show(name))));
    }
    let was = at.map_or_else(|| "which led nowhere".to_owned(), |at| format!("which was at commit {}", at.oid()));
    context.out.made(format!("removed the branch {}, {was}", show(name)))?;
    tell(name, at.as_ref(), &opened, context)
}

/// Refs that move or go in one step, and where those that move lead then.
#[derive(Debug, Default)]
pub(super) struct Moving {
    pub(super) refs: Vec<String>,
    pub(super) to: Vec<CommitId>,
}

/// Returns a branch that may be removed, and what it names: it is not checked out, and unless with `force` other branches have
/// its commits. `moving`: what moves in the same step.
pub(super) fn removable(opened: &Opened, name: &str, force: bool, moving: &Moving) -> Result<(Branch, RefTarget)> {
    let branch = opened.repo.branch(name)?;
    if is_head_on(opened, &|one| one == branch.ref_name())? {
        let way = "check another one out first with `cone checkout`";
        return Err(Failure::usage(format!("the branch \"{}\" is checked out; {way}", show(name))));
    }
    let Some(now) = opened.backend().get_ref(branch.ref_name())? else { return Err(no_branch(name)) };
    opened.check_not_checked_out(branch.ref_name())?;
    // A symbolic ref goes alone: the branch that it leads to stays.
    if let (RefTarget::Object(at), false) = (&now, force) {
        let way = "move another branch there first, or remove it with --force";
        check_merged(opened, &branch, (*at).into(), moving, way)?;
    }
    Ok((branch, now))
}

/// Refuses to let go of commits that only a branch has, no other branch and not what is checked out; `way` says what helps. A
/// name that leads to the branch is no other branch, and what moves in the same step counts as where it leads then.
pub(super) fn check_merged(opened: &Opened, branch: &Branch, at: CommitId, moving: &Moving, way: &str) -> Result<()> {
    let own = branch.moving_ref()?;
    let goes = |name: &str| name == own || moving.refs.iter().any(|one| one == name);
    let mut others = moving.to.clone();
    if !is_head_on(opened, &goes)? {
        others.extend(opened.repo.checked_out_commit()?);
    }
    for prefix in ["refs/heads/", "refs/remotes/"] {
        for name in opened.backend().list_refs(prefix)?.into_keys() {
            if !leads_to(opened, &name, &goes)? {
                others.extend(opened.repo.resolve(&name)?.map(|at| opened.repo.commit_id(at)));
            }
        }
    }
    let lone = LogOptions::default().exclude(others).limit(1);
    match opened.repo.log(&[at], lone).next().transpose()? {
        None => Ok(()),
        Some(_) => Err(Failure::usage(format!(
            "the branch \"{}\" has commits that no other branch has; {way}",
            show(branch.name())
        ))),
    }
}

/// Whether a branch is checked out whose ref is one of those wanted, or leads to one.
fn is_head_on(opened: &Opened, wanted: &dyn Fn(&str) -> bool) -> Result<bool> {
    match opened.repo.checked_out()? {
        Head::Branch(name) => leads_to(opened, &format!("refs/heads/{name}"), wanted),
        Head::Detached(_) => Ok(false),
    }
}

/// Whether a ref is one of those wanted, or leads to one through symbolic refs.
fn leads_to(opened: &Opened, name: &str, wanted: &dyn Fn(&str) -> bool) -> Result<bool> {
    let mut name = name.to_owned();
    for _ in 0..SYMBOLIC_MAX {
        if wanted(&name) {
            return Ok(true);
        }
        match opened.backend().get_ref(&name)? {
            Some(RefTarget::Symbolic(next)) => name = next,
            _ => return Ok(false),
        }
    }
    Ok(false)
}

/// Names a branch and its commit in JSON.
fn tell(name: &str, at: Option<&CommitId>, opened: &Opened, context: &mut Context) -> Result<()> {
    let mut all = fields! { "branch": name };
    opened.put_commit(&mut all, at);
    context.out.document(all)
}
