//! `cone gc`: room that nothing needs any more.

use bristlecone::{SweepLimits, Swept};
use bristlecone_any::AnyRepo;
use clap::Args;

use super::{Context, retention::would_go, upgrade};
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
  cone gc --grace 2h
  cone gc -o json

The store loses every object that no ref leads to: commits of branches that were deleted or moved back, imports that were given up;
and commits that its retention keeps no longer (`cone retention`). Nothing else changes.

On the disk engine other processes may read and write meanwhile. What was written without a ref, or lost its ref, within the last
day stays: another process may be about to use it. Files that a process still reads go once it is done with them. A store of
version 1 of the engine is made one of version 2 first, which earlier programs cannot open.

On the backends fs, lmdb and lsm another process that has the store open is in the way, and there is no grace. In a Git
repository packs are put together, and what nothing leads to is left to `git gc` and its rules.")]
pub(super) struct GcArgs {
    /// For how long what no ref leads to stays after it was written: a number with s, m, h or d
    #[arg(long, value_name = "DURATION", default_value = "1d", value_parser = seconds)]
    grace: u32,
    /// Change nothing; say what would go
    #[arg(long)]
    dry_run: bool,
}

pub(super) fn run(args: GcArgs, context: &mut Context) -> Result<()> {
    let opened = context.globals.open_repo(Access::Write)??;
    if args.dry_run {
        return dry_run(&args, &opened, context);
    }
    let (mut swept, repacked) = (Swept::default(), opened.git().is_some());
    let upgraded = upgrade::upgrade(&opened)?;
    if let Some((git, _)) = opened.git() {
        git.repack_all()?;
    } else if opened.backend().capabilities().sweep {
        swept = opened.sweep(&[], &SweepLimits::default().grace(args.grace))?;
    } else {
        return Err(Failure::usage(
            "a store of this backend does not collect; `cone copy` brings what refs lead to into a new one",
        ));
    }
    opened.close()?;
    let out = &mut context.out;
    if upgraded {
        out.line(upgrade::DONE)?;
    }
    match (repacked, swept.objects) {
        (true, _) => out.line("the packs were put together; `git gc` removes what nothing leads to")?,
        (false, 0) => out.line("there was nothing to remove")?,
        (false, objects) => {
            let cut = match swept.commits {
                0 => String::new(),
                commits => format!("; retention has cut {}", text::count(commits, "commit", "commits")),
            };
            let objects = text::count(objects, "object", "objects");
            out.line(format_args!("removed {objects}, {}{cut}", text::bytes(swept.bytes)))?;
        }
    }
    out.document(fields! {
        "objects": swept.objects,
        "bytes": swept.bytes,
        "commits": swept.commits,
        "repacked": repacked,
        "upgraded": upgraded,
    })
}

/// Says what would go.
fn dry_run(args: &GcArgs, opened: &AnyRepo, context: &mut Context) -> Result<()> {
    if !opened.backend().capabilities().sweep {
        return Err(Failure::usage("only a store that collects by itself can say before what would go"));
    }
    let swept = opened.sweep(&[], &SweepLimits::default().grace(args.grace).dry_run(true))?;
    context.out.line(would_go(swept.commits, Some(swept.bytes)))?;
    context.out.document(fields! { "objects": swept.objects, "bytes": swept.bytes, "commits": swept.commits })
}

/// Returns the seconds of a duration.
fn seconds(text: &str) -> std::result::Result<u32, String> {
    let wrong = || "give a number and s, m, h or d, such as 90m; at most 49,710 days".to_owned();
    let digits = text.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
    let unit = match &text[digits.len()..] {
        "" | "s" => 1,
        "m" => 60,
        "h" => 3600,
        "d" => 86_400,
        _ => return Err(wrong()),
    };
    digits.parse::<u32>().ok().and_then(|number| number.checked_mul(unit)).ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use super::seconds;

    #[test]
    fn durations_have_units() {
        for (text, wanted) in [("0", 0), ("90", 90), ("7s", 7), ("2m", 120), ("3h", 10_800), ("1d", 86_400)] {
            assert_eq!(seconds(text), Ok(wanted), "{text}");
        }
        for wrong in ["", "d", "-1", "1w", "1.5h", "99999d", "d1", "1 d"] {
            assert!(seconds(wrong).is_err(), "{wrong}");
        }
    }
}
