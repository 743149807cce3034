//! `cone subtree push`.

use std::path::PathBuf;

use bristlecone::subtree::{PushOptions, Pushed, Split};
use clap::Args;

use super::{super::Context, Prefix, explained, no_directory, open_other, subtree_branch, through_history};
use crate::{
    failure::{Failure, Result},
    open::{Access, short},
    output::{fields, put_name},
    text::{self, show},
    who::DurabilityArg,
};

/// Bring what is new in a directory to another repository
///
/// Its branch moves forward, or begins; a branch that Git has checked out there is left alone.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  cone subtree push -P vendor/lib ../lib main
  cone subtree push -P vendor/lib ../lib ours    to a branch of its own there

Exit code 1 if the branch there has commits that the directory lacks: nothing is changed then, unless with --force.")]
pub(super) struct PushArgs {
    #[command(flatten)]
    prefix: Prefix,
    /// Another store or Git repository
    #[arg(value_name = "REPO")]
    other: PathBuf,
    /// The branch there
    #[arg(value_name = "BRANCH")]
    to: String,
    /// Move the branch also if it has commits that the directory lacks: they are left
    #[arg(long)]
    force: bool,
    /// When the push is done
    #[arg(long, value_enum, default_value_t)]
    durability: DurabilityArg,
}

pub(super) fn run(args: PushArgs, context: &mut Context) -> Result<()> {
    let prefix = args.prefix.path()?;
    let opened = context.globals.open(Access::Write)?;
    let Some(head) = opened.commit_to_read(None)? else {
        return Err(Failure::negative("there is no commit yet; make one first"));
    };
    if !opened.repo.checkout(head)?.contains_tree(&prefix)? {
        return Err(no_directory(&prefix, head));
    }
    let shown = text::show(&args.other);
    let other = open_other(context, &opened, args.other, Access::Write)?;
    let to = subtree_branch(&other, &args.to)?;
    other.check_not_checked_out(to.ref_name())?;
    let options = PushOptions::default().force(args.force).durability(args.durability.into());
    let subtree = opened.repo.subtree(&prefix)?;
    let pushed = through_history(|| subtree.push(head, &other.repo, to.name(), options));
    let pushed = pushed.map_err(|error| explained(&opened, error))?;
    opened.repo.close()?;
    other.repo.close()?;
    let (split, from, copied): (Split, _, _) = match pushed {
        Pushed::Already(split) => (split, Some(split.head), Default::default()),
        Pushed::Moved { split, from, copied } => (split, from, copied),
        Pushed::Behind(at) => {
            let way = format!(
                "`cone subtree pull -P {prefix} {shown} {}` first, or leave them with --force",
                show(to.name())
            );
            return Err(Failure::negative(format!(
                "the branch {} there is at commit {}, which {prefix} does not lead back to; {way}; nothing was changed",
                show(to.name()),
                short(&at)
            )));
        }
    };
    let changed = from != Some(split.head);
    let commit = short(&split.head);
    match (changed, from) {
        (false, _) => {
            context.out.made(format!("the branch {} there is at commit {commit} already", show(to.name())))?
        }
        (true, None) => context.out.made(format!("began the branch {} there at commit {commit}", show(to.name())))?,
        (true, Some(from)) => {
            let from = short(&from);
            context.out.made(format!("moved the branch {} there from commit {from} to {commit}", show(to.name())))?;
        }
    }
    let mut all = fields! {
        "repository": shown, "branch": to.name(), "from": from.map(|at| at.oid().to_string()), "changed": changed,
        "objects": copied.objects, "bytes": copied.bytes,
    };
    put_name(&mut all, "prefix", prefix.as_bytes());
    opened.put_commit(&mut all, Some(&split.head));
    context.out.document(all)
}
