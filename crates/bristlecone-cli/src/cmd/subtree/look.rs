//! `cone subtree split` and `cone subtree status`.

use std::{ffi::OsString, path::PathBuf};

use bristlecone::{CommitId, Durability, subtree::Status};
use bristlecone_any::revision;
use clap::Args;

use super::{super::Context, Prefix, explained, no_directory, open_other, subtree_branch, through_history};
use crate::{
    failure::{Failure, Result, is_won},
    open::{Access, Opened, short},
    output::{fields, put_name},
    streams,
    text::{self, show},
};

/// Make commits of a directory's history, and name the last
///
/// With -b NAME, the branch of that name is made, or moved forward, to the last.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  cone subtree split -P vendor/lib               prints a commit's id
  cone subtree split -P vendor/lib HEAD~3        as of three commits ago
  cone subtree split -P vendor/lib -b lib        and names it by a branch")]
pub(super) struct SplitArgs {
    #[command(flatten)]
    prefix: Prefix,
    /// The commit [default: the one checked out]
    #[arg(value_name = "REV")]
    rev: Option<OsString>,
    /// The commit of the other repository that the first one of the directory goes on from, where history does not tell
    #[arg(long, value_name = "REV")]
    onto: Option<OsString>,
}

pub(super) fn split(args: SplitArgs, context: &mut Context) -> Result<()> {
    let prefix = args.prefix.path()?;
    let branch = context.globals.branch()?;
    if branch.is_none() {
        // What is printed is all that names the commits.
        streams::check_output()?;
    }
    let opened = context.globals.elsewhere(None).open(Access::Write)?;
    let Some(head) = opened.commit_to_read(args.rev.as_ref())? else {
        return Err(Failure::negative("there is no commit yet; make one first"));
    };
    let onto = args.onto.as_ref().map(|rev| revision::commit(&opened.repo, rev)).transpose()?;
    let subtree = opened.repo.subtree(&prefix)?;
    let split = through_history(|| subtree.split(head, onto, None)).map_err(|error| explained(&opened, error))?;
    let split = split.ok_or_else(|| no_directory(&prefix, head))?;
    if let Some(name) = &branch {
        context.out.note_made(point(&opened, name, split.head)?);
    }
    opened.repo.close()?;
    context.out.line(split.head.oid())?;
    let mut all = fields! { "branch": branch, "written": split.written };
    put_name(&mut all, "prefix", prefix.as_bytes());
    opened.put_commit(&mut all, Some(&split.head));
    context.out.document(all)
}

/// Makes a branch, or moves it forward; returns what was done.
fn point(opened: &Opened, name: &str, to: CommitId) -> Result<String> {
    let branch = subtree_branch(opened, name)?;
    let from = branch.head()?;
    let (shown, at) = (show(name), short(&to));
    if from == Some(to) {
        return Ok(format!("the branch {shown} is at commit {at} already"));
    }
    opened.check_not_checked_out(branch.ref_name())?;
    if let Some(from) = from
        && !opened.repo.is_ancestor(from, to)?
    {
        let way = "choose another name, or remove it first with `cone branches -d`";
        return Err(Failure::usage(format!(
            "the branch \"{shown}\" has commits that the directory's history lacks; {way}"
        )));
    }
    opened.repo.flush()?;
    if is_won(branch.compare_and_set(from, Some(to), Durability::Synced))? {
        return Ok(match from {
            None => format!("made the branch {shown} at commit {at}"),
            Some(_) => format!("moved the branch {shown} to commit {at}"),
        });
    }
    Err(Failure::failed(format!(
        "the branch \"{shown}\" was moved by another process meanwhile; run the command again"
    )))
}

/// Tell what was joined to a directory last, and what came since
///
/// Nothing is written. With REPO and REV, the directory is compared with that commit.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  cone subtree status -P vendor/lib
  cone subtree status -P vendor/lib ../lib main    and how many commits each of the two lacks")]
pub(super) struct StatusArgs {
    #[command(flatten)]
    prefix: Prefix,
    /// Another store or Git repository
    #[arg(value_name = "REPO", requires = "rev")]
    other: Option<PathBuf>,
    /// A commit there
    #[arg(value_name = "REV")]
    rev: Option<OsString>,
}

pub(super) fn status(args: StatusArgs, context: &mut Context) -> Result<()> {
    let prefix = args.prefix.path()?;
    let opened = context.globals.open(Access::Read)?;
    let Some(head) = opened.commit_to_read(None)? else {
        return Err(Failure::negative("there is no commit yet; make one first"));
    };
    let other = match args.other.zip(args.rev) {
        Some((dir, rev)) => {
            let other = open_other(context, &opened, dir, Access::Read)?;
            let at = revision::commit(&other.repo, &rev)?;
            Some((other, at))
        }
        None => None,
    };
    let subtree = opened.repo.subtree(&prefix)?;
    let compared = other.as_ref().map(|(other, at)| (&*other.repo, *at));
    let status = through_history(|| subtree.status(head, compared)).map_err(|error| explained(&opened, error))?;
    let status = status.ok_or_else(|| no_directory(&prefix, head))?;
    let theirs = other.map(|(_, at)| at);
    let out = &mut context.out;
    out.line(format_args!(
        "{prefix} in commit {} is commit {} of its own history",
        short(&head),
        short(&status.split)
    ))?;
    let commits = text::count(status.since, "commit", "commits");
    match &status.joint {
        Some(joint) => {
            let (theirs, by) = (short(&joint.theirs.into()), short(&joint.by));
            out.line(format_args!("joined last: commit {theirs}, by commit {by}; {commits} of its own history since"))?;
        }
        None => out.line(format_args!("nothing was joined yet; {commits} in its own history"))?,
    }
    if let Some((compared, theirs)) = status.compared.zip(theirs) {
        let what = if compared.same { "holds the same as" } else { "differs from" };
        let (ahead, behind) = (compared.ahead, compared.behind);
        out.line(format_args!("{what} commit {} there: {ahead} ahead, {behind} behind", short(&theirs)))?;
    }
    let mut all = described(&status, theirs);
    put_name(&mut all, "prefix", prefix.as_bytes());
    opened.put_commit(&mut all, Some(&head));
    out.document(all)
}

fn described(status: &Status, theirs: Option<CommitId>) -> crate::output::Fields {
    let joint = status.joint.map(|joint| {
        let (theirs, here) = (joint.theirs.to_string(), joint.here.oid().to_string());
        fields! { "theirs": theirs, "here": here, "by": joint.by.oid().to_string() }
    });
    let compared = status.compared.zip(theirs).map(|(compared, theirs)| {
        let theirs = theirs.oid().to_string();
        fields! { "theirs": theirs, "same": compared.same, "ahead": compared.ahead, "behind": compared.behind }
    });
    fields! { "split": status.split.oid().to_string(), "joined": joint, "since": status.since, "compared": compared }
}
