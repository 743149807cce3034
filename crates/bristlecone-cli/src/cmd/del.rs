//! `cone del`: removing a value or directory.

use std::ffi::OsString;

use bristlecone_any::path;
use clap::Args;

use super::Context;
use crate::{
    argument,
    commit::Change,
    failure::Result,
    open::Access,
    output::put_name,
    who::{CommitArgs, DurabilityArg},
};

/// Remove a value, or a directory with all below it, as one commit
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  cone del fruit/apple -m \"No more apples\"
  cone get fruit/apple --at HEAD~1             what was removed is still there, one commit before

Directories that become empty are gone, too. Exit code 1 if there is nothing to remove.")]
pub(super) struct DelArgs {
    /// What
    #[arg(value_name = "PATH")]
    path: OsString,
    /// When the commit is done
    #[arg(long, value_enum, default_value_t)]
    durability: DurabilityArg,
    #[command(flatten)]
    commit: CommitArgs,
}

pub(super) fn run(args: DelArgs, context: &mut Context) -> Result<()> {
    let path = argument::entry_path(&args.path)?;
    let opened = context.globals.open(Access::Write)?;
    let change = Change::new(&opened, &args.commit, &format!("Remove {path}"), args.durability)?;
    let done = change.commit(&mut |tree| {
        if tree.entry(&path)?.is_none() {
            return Err(path::nothing_at(tree, &path)?.into());
        }
        Ok(tree.remove(&path)?)
    })?;
    done.tell(&mut context.out, &format!("removed {path}"))?;
    let mut all = done.fields(&opened);
    put_name(&mut all, "path", path.as_bytes());
    context.out.document(all)
}
