//! `cone check`: is everything as it was written?

use std::num::NonZero;

use bristlecone_any::{
    AnyRepo,
    check::{self, Finding, Report},
};
use clap::Args;

use super::Context;
use crate::{
    failure::{Failure, Result, by_commands},
    open::Access,
    output::{Fields, Output, fields},
    progress::{Done, meanwhile},
    text,
};

/// Check every frame, the hash of every object, every reference and how directories are cut
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  cone check
  cone check -o json

Damage is named with file, offset, object and the refs that lead to it; exit code 1. Nothing is changed.
In a Git repository every object is checked against its id, and all that refs and checked-out commits lead to
must be there; what nothing leads to need not be complete. Index and reflogs are not looked at: `git fsck` does.")]
pub(super) struct CheckArgs {
    /// How many threads check a store of the disk engine or a Git repository at most: up to 256; one checks those of other
    /// backends [default: as many as there are processors]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..), allow_negative_numbers = true)]
    threads: Option<u16>,
}

impl CheckArgs {
    /// Refuses threads for a store that one checks.
    fn check(&self, opened: &AnyRepo) -> Result<()> {
        if self.threads.is_none_or(|threads| threads == 1) || opened.disk().is_some() || opened.git().is_some() {
            return Ok(());
        }
        Err(Failure::usage(format!(
            "--threads is for stores of the disk engine and Git repositories, and this one is of the backend {}, which \
             one thread checks; leave it out",
            opened.backend().name()
        )))
    }
}

pub(super) fn run(args: CheckArgs, context: &mut Context) -> Result<()> {
    context.globals.refuse_branch("check")?;
    let report = match context.globals.open_repo(Access::Read)? {
        Ok(repo) => {
            args.check(&repo)?;
            let done = Done::default();
            let mut tell = |objects, bytes| done.set(objects, bytes);
            let threads = args.threads.and_then(|threads| NonZero::new(usize::from(threads)));
            let check = || match threads {
                Some(threads) => check::check_with(&repo, threads, &mut tell),
                None => check::check(&repo, &mut tell),
            };
            // The files of a store of the disk engine come before its objects.
            let line = |seconds| done.line(seconds, "checking files", "checked", ["object", "objects"]);
            meanwhile(line, check)?
        }
        Err(error) => Report::unopened(&error).ok_or(error)?,
    };
    let out = &mut context.out;
    write_human(out, &report)?;
    out.document(describe(&report))?;
    if report.findings.is_empty() { Ok(()) } else { Err(Failure::answered()) }
}

fn write_human(out: &mut Output, report: &Report) -> Result<()> {
    let places = places(report);
    for findings in &places {
        out.line(format_args!("damage: {}", shown(findings)))?;
    }
    for name in &report.affected {
        out.line(format_args!("affected: {}", text::show(name)))?;
    }
    if let Some(torn) = &report.engine.torn_tail {
        out.line(format_args!("note: {} at byte {}: {}", torn.file, torn.offset, torn.reason))?;
    }
    for file in &report.engine.stale_index_files {
        out.line(format_args!(
            "note: {file} is not the index of its segment: lookups pass it over, and it may be removed; it is made again"
        ))?;
    }
    let engine = &report.engine;
    if !report.opened {
        let way = "`cone repair --help` says what can be done without a backup";
        return out.line(format_args!("the store cannot be opened; nothing else was checked; {way}"));
    }
    let mut checked = vec![
        text::count(report.objects, "object", "objects"),
        text::count(report.references, "reference", "references"),
        text::count(report.refs, "ref", "refs"),
    ];
    if engine.segments > 0 {
        let segments = text::count(engine.segments, "segment", "segments");
        checked.splice(..0, [segments, text::count(engine.frames, "frame", "frames")]);
        checked.push(text::bytes(engine.bytes));
    }
    out.line(format_args!("checked {}", checked.join(", ")))?;
    if report.promised > 0 {
        let objects = text::count(report.promised, "object", "objects");
        out.line(format_args!("{objects} promised by the remote and not here"))?;
    }
    if report.findings.is_empty() {
        return out.line("no damage");
    }
    out.line(format_args!("{} of damage", text::count(places.len() as u64, "place", "places")))
}

/// Returns the findings, those together that are one damage to many objects: a pack, say, that is cut off.
fn places(report: &Report) -> Vec<Vec<&Finding>> {
    let mut places: Vec<Vec<&Finding>> = Vec::new();
    for finding in &report.findings {
        match places.last_mut() {
            Some(same) if finding.place.is_some() && same[0].is_same_damage(finding) => same.push(finding),
            _ => places.push(vec![finding]),
        }
    }
    places
}

/// Describes one damage; there is at least one finding of it.
fn shown(findings: &[&Finding]) -> String {
    let mut text = String::new();
    if let Some((file, offset)) = &findings[0].place {
        text.push_str(&format!("{file} at byte {offset}: "));
    }
    match (findings.len(), &findings[0].oid) {
        (1, None) => {}
        (1, Some(oid)) => text.push_str(&format!("object {oid}: ")),
        (objects, _) => text.push_str(&format!("{objects} objects: ")),
    }
    text + &by_commands(&findings[0].reason)
}

fn describe(report: &Report) -> Fields {
    let damage = report.findings.iter().map(|finding| {
        let (file, offset) = finding.place.clone().unzip();
        let oid = finding.oid.map(|oid| oid.to_string());
        let reason = by_commands(&finding.reason);
        serde_json::Value::Object(fields! { "file": file, "offset": offset, "oid": oid, "reason": reason })
    });
    let damage: Vec<_> = damage.collect();
    let torn = report.engine.torn_tail.as_ref().map(|torn| {
        serde_json::Value::Object(fields! {
            "file": torn.file.as_str(), "offset": torn.offset, "reason": torn.reason.as_str(),
        })
    });
    fields! {
        "sound": report.findings.is_empty(),
        "segments": report.engine.segments,
        "frames": report.engine.frames,
        "records": report.engine.records,
        "bytes": report.engine.bytes,
        "objects": report.objects,
        "references": report.references,
        "refs": report.refs,
        "promised": report.promised,
        "damage": damage,
        "affected": report.affected.clone(),
        "torn_tail": torn,
        "stale_indexes": report.engine.stale_index_files.clone(),
    }
}
