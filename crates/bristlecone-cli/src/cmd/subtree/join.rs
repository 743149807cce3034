//! `cone subtree add` and `cone subtree pull`.

use std::{ffi::OsString, path::PathBuf};

use bristlecone::{
    CommitId, Info, Path,
    merge::{Conflict, Version},
    subtree::{Joined, Pulled},
};
use clap::Args;
use serde_json::Value;

use super::{super::Context, Prefix, Subtree, explained, no_directory, open_other};
use crate::{
    failure::{Failure, Result},
    open::{Access, Opened, no_branch, short},
    output::{Fields, fields, put_name},
    progress::{Done, Progress},
    text::{self, show},
    who::{DurabilityArg, WhyArgs},
};
use bristlecone_any::{AnyFormat, Branch, path, revision};

/// What is joined, and how.
#[derive(Args, Debug)]
struct JoinArgs {
    #[command(flatten)]
    prefix: Prefix,
    /// Another store or Git repository
    #[arg(value_name = "REPO")]
    other: PathBuf,
    /// The commit there: a branch, a tag, or any other revision
    #[arg(value_name = "REV")]
    rev: OsString,
    /// Let one commit stand for all of the other history that is new
    #[arg(long)]
    squash: bool,
    /// When the commit is done
    #[arg(long, value_enum, default_value_t)]
    durability: DurabilityArg,
    #[command(flatten)]
    why: WhyArgs,
}

/// Join the history of another repository below a new directory, as one merge
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  cone subtree add -P vendor/lib ../lib main
  cone subtree add -P vendor/lib ../lib v1.0 --squash     one commit stands for their history

Nothing may be at the directory yet. The merge is committed to the branch that is checked out, or to the one that -b names.")]
pub(super) struct AddArgs {
    #[command(flatten)]
    join: JoinArgs,
}

/// Merge what is new in another repository into a directory
///
/// What both sides changed differently is named, and nothing is changed then.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  cone subtree pull -P vendor/lib ../lib main
  cone subtree pull -P vendor/lib ../lib v1.1 --squash    one commit stands for what is new there

Exit code 1 if both sides changed something differently, or there is no such directory.")]
pub(super) struct PullArgs {
    #[command(flatten)]
    join: JoinArgs,
}

/// Both repositories, open, with what is to be joined.
struct Join {
    opened: Opened,
    prefix: Path,
    subtree: Subtree,
    branch: Branch,
    other: Opened,
    ours: CommitId,
    theirs: CommitId,
    info: Info,
    squash: bool,
}

pub(super) fn add(args: AddArgs, context: &mut Context) -> Result<()> {
    let mut join = Join::new(args.join, context)?;
    let tree = join.opened.repo.checkout(join.ours)?;
    let prefix = &join.prefix;
    let way = "choose another prefix, or bring in what is new with `cone subtree pull`";
    if let Some(above) = path::value_above(&tree, prefix)? {
        return Err(Failure::usage(format!("{above} is a value, so nothing can lie below it; {way}")));
    }
    if tree.kind(prefix)?.is_some() {
        return Err(Failure::usage(format!("there is something at {prefix} already; {way}")));
    }
    join.bring()?;
    let joined = join.subtree.add(join.ours, join.theirs, join.squashed(), join.message().as_deref())?;
    join.commit(joined, "added", context)
}

pub(super) fn pull(args: PullArgs, context: &mut Context) -> Result<()> {
    let mut join = Join::new(args.join, context)?;
    if !join.opened.repo.checkout(join.ours)?.contains_tree(&join.prefix)? {
        return Err(no_directory(&join.prefix, join.ours));
    }
    join.bring()?;
    let pulled = join.subtree.pull(join.ours, join.theirs, join.squashed(), join.message().as_deref());
    match pulled.map_err(|error| explained(&join.opened, error))? {
        Pulled::Joined(joined) => join.commit(*joined, "pulled", context),
        Pulled::Already => {
            let theirs = short(&join.theirs);
            context.out.made(format!("commit {theirs} is in {} already; nothing changed", join.prefix))?;
            let all = join.fields(None);
            join.opened.repo.close()?;
            context.out.document(all)
        }
        Pulled::Conflicts(conflicts) => join.refuse(&conflicts, context),
    }
}

impl Join {
    fn new(args: JoinArgs, context: &Context) -> Result<Self> {
        let prefix = args.prefix.path()?;
        let opened = context.globals.open(Access::Write)?;
        let branch = opened.branch_to_work_for()?;
        let Some(ours) = branch.head()? else {
            if opened.names_another_branch()? {
                return Err(no_branch(branch.name()));
            }
            let way = "make its first commit with `cone set` or `cone import`";
            return Err(Failure::usage(format!(
                "the branch {} has no commit to join anything to; {way}",
                show(branch.name())
            )));
        };
        let other = open_other(context, &opened, args.other, Access::Read)?;
        let theirs = revision::commit(&other.repo, &args.rev)?;
        let info = args.why.info(&opened, "", args.durability)?;
        let subtree = opened.repo.subtree(&prefix)?;
        Ok(Self { prefix, subtree, branch, other, ours, theirs, info, squash: args.squash, opened })
    }

    /// Copies the objects of what is to be joined.
    fn bring(&mut self) -> Result<()> {
        let (done, mut progress) = (Done::default(), Progress::new("copied", None));
        self.opened.repo.copy_objects_watched(&self.other.repo, &[self.theirs], &mut |copied| {
            done.set(copied.objects, copied.bytes);
            progress.tick(&done);
        })?;
        // The place was one in the other repository.
        self.theirs = self.theirs.oid().into();
        Ok(())
    }

    fn squashed(&self) -> Option<&Info> {
        self.squash.then_some(&self.info)
    }

    /// What the caller says in place of the usual message; on lines of its own.
    fn message(&self) -> Option<Vec<u8>> {
        let mut message = Some(self.info.message.clone()).filter(|message| !message.is_empty())?;
        if message.last() != Some(&b'\n') {
            message.push(b'\n');
        }
        Some(message)
    }

    /// Commits what was joined, and lets files follow where they are to.
    fn commit(self, mut joined: Joined<AnyFormat>, did: &str, context: &mut Context) -> Result<()> {
        let mut guard = self.opened.guard_worktree(&self.branch.moving_ref()?)?;
        let before = self.opened.repo.checkout(self.ours)?;
        guard.check(&self.opened, before, joined.tree.clone())?;
        let mut info = self.info.clone();
        info.message = std::mem::take(&mut joined.message);
        let at = self.branch.commit_with_parents(&mut joined.tree, &joined.parents, &info)?;
        let all = self.fields(Some(at));
        guard.follow(&at, info.durability)?;
        self.opened.repo.close()?;
        let (branch, theirs) = (show(self.branch.name()), short(&self.theirs));
        context.out.made(format!("{did} {theirs} at {} on {branch} as commit {}", self.prefix, short(&at)))?;
        context.out.document(all)
    }

    fn fields(&self, at: Option<CommitId>) -> Fields {
        let mut all = fields! {
            "branch": self.branch.name(), "theirs": self.theirs.oid().to_string(), "squashed": self.squash,
            "changed": at.is_some(), "conflicts": Vec::<Value>::new(),
        };
        put_name(&mut all, "prefix", self.prefix.as_bytes());
        self.opened.put_commit(&mut all, at.as_ref());
        all
    }

    /// Names what both sides changed.
    fn refuse(self, conflicts: &[Conflict], context: &mut Context) -> Result<()> {
        let mut all = self.fields(None);
        let mut listed = Vec::with_capacity(conflicts.len());
        for conflict in conflicts {
            let mut path = self.prefix.clone();
            for step in conflict.path.steps() {
                path = path.join(step)?;
            }
            context.out.line(format_args!("conflict: {path}"))?;
            let mut item = fields! {};
            put_name(&mut item, "path", path.as_bytes());
            for (side, version) in [("base", &conflict.base), ("ours", &conflict.ours), ("theirs", &conflict.theirs)] {
                item.insert(side.to_owned(), version.as_ref().map_or(Value::Null, described));
            }
            listed.push(Value::Object(item));
        }
        let count = text::count(listed.len() as u64, "path", "paths");
        all.insert("conflicts".to_owned(), listed.into());
        context.out.document(all)?;
        self.opened.repo.close()?;
        let way = "make them the same on one side, commit, and pull again";
        Err(Failure::negative(format!("both sides changed {count}, and differently; nothing was changed; {way}")))
    }
}

fn described(version: &Version) -> Value {
    use bristlecone::core::Target;
    let oid = match &version.target {
        Target::Inline(_) => None,
        Target::Object { at, .. } => Some(at.oid.to_string()),
        Target::Foreign(oid) => Some(oid.to_string()),
    };
    Value::Object(fields! { "kind": version.kind.name(), "oid": oid })
}
