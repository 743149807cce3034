//! `cone diff`: what differs between two revisions.

use std::ffi::OsString;

use clap::Args;

use super::Context;
use crate::{
    differences,
    failure::{Failure, Result},
    open::{Access, Opened},
    output::{fields, put_name},
    text::show,
};
use bristlecone_any::{Tree, path, revision};

/// List what differs between two revisions
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  cone diff                           what the last commit changed
  cone diff HEAD~5                    what changed since then
  cone diff main trial --path fruit   between two branches, below a path
  cone diff main trial --exit-code    exit code 1 if anything differs
  cone diff main..trial               the same two; main...trial: what trial changed since it left main

A means added, M changed, T changed in kind, D removed.")]
pub(super) struct DiffArgs {
    /// Before [default: the parent of AFTER]; or both, as BEFORE..AFTER
    #[arg(value_name = "BEFORE")]
    before: Option<OsString>,
    /// After [default: the branch's head]
    #[arg(value_name = "AFTER")]
    after: Option<OsString>,
    /// Only what is at or below this path
    #[arg(long, value_name = "PATH", default_value = "", hide_default_value = true)]
    path: OsString,
    /// Exit with code 1 if anything differs
    #[arg(long)]
    exit_code: bool,
}

pub(super) fn run(args: DiffArgs, context: &mut Context) -> Result<()> {
    let path = path::parse(&args.path)?;
    let opened = context.globals.open(Access::Read)?;
    let (before, after) = sides(&opened, args.before.as_ref(), args.after.as_ref())?;
    let id = |tree: &Tree| tree.origin().map(|at| at.oid().to_string());
    let mut head = fields! { "before": id(&before), "after": id(&after) };
    put_name(&mut head, "path", path.as_bytes());
    context.out.begin(&head, "differences")?;
    let count = differences::write(&mut context.out, &opened.repo, &before, &after, &path)?;
    context.out.end(&fields! {})?;
    if args.exit_code && count > 0 { Err(Failure::answered()) } else { Ok(()) }
}

/// Returns the two trees that are compared: before, or both as `A..B`, and after.
pub(super) fn sides(opened: &Opened, before: Option<&OsString>, after: Option<&OsString>) -> Result<(Tree, Tree)> {
    if let (Some(word), None) = (before, after)
        && let Some((before, after)) = revision::pair(&opened.repo, word)?
    {
        opened.refuse_branch_beside(show(word))?;
        return Ok((opened.repo.checkout(before)?, opened.repo.checkout(after)?));
    }
    let after = opened.tree_to_read(after)?;
    if let Some(before) = before {
        return Ok((revision::tree(&opened.repo, before)?, after));
    }
    let before = match after.origin() {
        Some(at) => opened.tree_before(&at, &opened.repo.read_commit(at)?)?,
        None => opened.repo.tree(),
    };
    Ok((before, after))
}
