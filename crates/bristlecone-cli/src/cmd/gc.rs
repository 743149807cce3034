//! `cone gc`: room that nothing needs any more.

use bristlecone::{SweepLimits, Swept};
use clap::Args;

use super::Context;
use crate::{
    failure::{Failure, Result},
    open::Access,
    output::fields,
    text,
};

/// Remove what no ref leads to; in a Git repository, put all packs into one
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  cone gc
  cone gc -o json

Stores of the backends fs, lmdb and lsm lose every object that no ref leads to: commits of branches that were deleted or
moved back, imports that were given up. Nothing that a ref leads to changes, history included. Another process that has the
store open is in the way. A store of the disk engine does not collect: `cone copy` brings what refs lead to into a new one.
In a Git repository packs are put together, and what nothing leads to is left to `git gc` and its rules.")]
pub(super) struct GcArgs {}

pub(super) fn run(_: GcArgs, context: &mut Context) -> Result<()> {
    let opened = context.globals.open_repo(Access::Write)??;
    let (mut swept, repacked) = (Swept::default(), opened.git().is_some());
    if let Some((git, _)) = opened.git() {
        git.repack_all()?;
    } else if opened.backend().capabilities().sweep {
        swept = opened.sweep(&[], &SweepLimits::default())?;
    } else {
        return Err(Failure::usage(
            "a store of this backend does not collect; `cone copy` brings what refs lead to into a new one",
        ));
    }
    opened.close()?;
    let out = &mut context.out;
    match (repacked, swept.objects) {
        (true, _) => out.line("the packs were put together; `git gc` removes what nothing leads to")?,
        (false, 0) => out.line("there was nothing to remove")?,
        (false, objects) => out.line(format_args!(
            "removed {}, {}",
            text::count(objects, "object", "objects"),
            text::bytes(swept.bytes)
        ))?,
    }
    out.document(fields! {
        "objects": swept.objects,
        "bytes": swept.bytes,
        "repacked": repacked,
    })
}
