//! `cone upgrade`: the newest version of a store's files.

use bristlecone_any::{AnyBackend, AnyRepo};
use clap::Args;

use super::Context;
use crate::{failure::Result, open::Access, output::fields};

/// Make a store one of the newest version of its engine's files
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  cone upgrade

A store of version 1 of the disk engine opens, reads and writes as before, but nothing is ever removed from it. One of version 2 can be
collected by `cone gc`. Programs that know only version 1 cannot open it any more; one that has it open ends with an error. The objects
and their ids stay as they are, and nothing is copied.")]
pub(super) struct UpgradeArgs {}

/// What is said where a store was upgraded.
pub(super) const DONE: &str =
    "the store is of version 2 of the disk engine now; earlier programs cannot open it any more";

pub(super) fn run(_: UpgradeArgs, context: &mut Context) -> Result<()> {
    context.globals.refuse_branch("upgrade")?;
    let opened = context.globals.open_repo(Access::Write)??;
    let upgraded = upgrade(&opened)?;
    opened.close()?;
    let out = &mut context.out;
    if upgraded {
        out.made(DONE)?;
    } else {
        out.made("the store is of the newest version of its engine")?;
    }
    out.document(fields! { "upgraded": upgraded })
}

/// Upgrades a store of the disk engine; returns whether that changed it.
pub(super) fn upgrade(opened: &AnyRepo) -> Result<bool> {
    match opened.any_backend() {
        AnyBackend::Disk(disk) => Ok(disk.upgrade()?),
        _ => Ok(false),
    }
}
