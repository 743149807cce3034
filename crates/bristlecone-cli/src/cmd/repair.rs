//! `cone repair`: what can be put right after files were lost.

use bristlecone::disk::Repaired;
use clap::Args;

use super::Context;
use crate::{failure::Result, open::Access, output::fields, text};

/// Restore a store's header, or go on from where its log ends now
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  cone repair                put the header back from its copy
  cone repair --accept-end   give up what was lost at the end of the log, and go on

The header, a file named store, is restored from segments/store.copy if that copy belongs to the segments which
are there. A frame of the log is put right by what stands around it, if no more than its head and trailer is damaged, or
its end by a byte or so; and the head of a segment of the log, if no more than a byte of it is damaged.
Where the log was durable beyond its end, a segment was lost or cut: put the file back from a backup if you can. With
--accept-end the store goes on without what is lost; all bytes behind the end are first copied to a file beside the
segments. `cone check` tells what is damaged otherwise.")]
pub(super) struct RepairArgs {
    /// Give up what was lost behind the end of the log
    #[arg(long)]
    accept_end: bool,
}

pub(super) fn run(args: RepairArgs, context: &mut Context) -> Result<()> {
    context.globals.refuse_branch("repair")?;
    let found = context.globals.find()??;
    let repaired = context.globals.options(Access::Write)?.repair(found, args.accept_end)?;
    let out = &mut context.out;
    if repaired.header_restored {
        out.made("the header was restored from its copy")?;
    }
    if repaired.copy_restored {
        out.made("the copy of the header was written anew")?;
    }
    match repaired.heads_restored {
        0 => {}
        1 => out.made("the damaged head of a segment was put right by its checksum")?,
        heads => out.made(format!("{heads} damaged heads of segments were put right by their checksums"))?,
    }
    match repaired.frames_restored {
        0 => {}
        1 => out.made("a damaged frame of the log was put right by what stands around it")?,
        frames => out.made(format!("{frames} damaged frames of the log were put right by what stands around them"))?,
    }
    for file in &repaired.segments_lengthened {
        out.made(format!("{file} was cut and is as long as it was, with zeroes; `cone check` tells what is lost"))?;
    }
    if let Some(accepted) = &repaired.accepted {
        let lost = &accepted.lost;
        out.made(format!("given up: {} at byte {}: {}", lost.file, lost.offset, lost.reason))?;
        match &*accepted.kept_in {
            [] => out.line("nothing stood behind the end")?,
            files => {
                let (bytes, files) = (text::bytes(accepted.bytes), files.join(", "));
                out.line(format_args!("{bytes} behind the end are kept in {files}"))?;
            }
        }
    }
    if repaired == Repaired::default() {
        out.made("there was nothing to repair; `cone check` looks at every object")?;
    }
    let accepted = repaired.accepted.map(|accepted| {
        serde_json::Value::Object(fields! {
            "file": accepted.lost.file,
            "offset": accepted.lost.offset,
            "reason": accepted.lost.reason,
            "kept_in": accepted.kept_in,
            "kept_bytes": accepted.bytes,
        })
    });
    out.document(fields! {
        "header_restored": repaired.header_restored,
        "copy_restored": repaired.copy_restored,
        "heads_restored": repaired.heads_restored,
        "frames_restored": repaired.frames_restored,
        "segments_lengthened": repaired.segments_lengthened,
        "accepted": accepted,
    })
}
