//! `cone import --git`: whole histories out of a Git repository.

use std::{ffi::OsStr, os::unix::ffi::OsStrExt, path::Path, sync::Arc, time::Instant};

use bristlecone::{
    Oid,
    storage::{RealStorage, Storage},
};
use bristlecone_git::history::{self, Counts, ImportOptions, ImportReport, MovedRef, RefState, Repository, Status};

use super::Context;
use crate::{
    failure::{Failure, Result},
    open::{Access, Opened, refuse_url},
    output::{Fields, fields, put_text, say},
    progress::Progress,
    text::{self, count, show},
};
use bristlecone_any::AnyFormat;

/// How many things that were left out are named on standard error.
pub(super) const NAMED_MAX: usize = 20;

/// What to import, and how.
pub(super) struct Wanted<'a> {
    pub(super) from: &'a Path,
    pub(super) refs: Vec<String>,
    pub(super) skip_missing: bool,
    pub(super) force: bool,
    /// Whether what clearly does not fit is refused.
    pub(super) check_room: bool,
}

pub(super) fn run(wanted: Wanted<'_>, context: &mut Context) -> Result<()> {
    let began = Instant::now();
    refuse_url(wanted.from, "bring it with `git clone --mirror URL DIR`, and import DIR")?;
    let opened = context.globals.open(Access::Write)?;
    let store = store_of(opened.repo.format())?;
    let from = Repository::open(wanted.from)?;
    if wanted.check_room && wanted.refs.is_empty() {
        check_room(&opened, &from)?;
    }
    let source = begin_work(&opened, &from);
    let options = ImportOptions::default()
        .refs(wanted.refs)
        .skip_missing(wanted.skip_missing)
        .force(wanted.force)
        .scratch(scratch(&opened))
        .layout(opened.repo.git().map(|(_, layout)| (**layout).clone()));
    let mut progress = Progress::new("imported", None);
    let report = history::import(&from, store, opened.repo.backend(), &options, &mut |status| {
        progress.tick_with(|seconds| line(&status, seconds));
    })?;
    drop(progress);
    let kept = report.refs.iter().any(|moved| matches!(moved.state, RefState::Kept | RefState::CheckedOut));
    let whole = !kept && report.left_out.is_empty() && report.missing.is_empty();
    if let (Some(disk), true) = (opened.repo.disk(), whole) {
        disk.forget_work(&source)?;
    }
    opened.repo.close()?;
    let seconds = began.elapsed().as_secs_f64();
    tell(&report, seconds);
    context.out.made(format!("imported {}", show(wanted.from)))?;
    let mut all = describe(&report, seconds);
    put_text(&mut all, "from", wanted.from.as_os_str().as_encoded_bytes());
    context.out.document(all)?;
    if whole && report.unnamed.is_empty() { Ok(()) } else { Err(Failure::answered()) }
}

/// Refuses to begin where a whole history clearly does not fit: one that takes no more room than the packs it comes from,
/// as one of values that cannot be compressed does. Others take several times as much. What the store holds may be part
/// of it.
fn check_room(opened: &Opened, from: &Repository) -> Result<()> {
    let Some(disk) = opened.repo.disk() else { return Ok(()) };
    let held = opened.backend().stats().store_bytes;
    Ok(disk.check_room(from.pack_bytes()?.saturating_sub(held))?)
}

/// Says what is appended from now on is for: an import that is started again finds what an earlier one left.
fn begin_work(opened: &Opened, from: &Repository) -> String {
    let source = format!("git {}", from.common_dir().display());
    if let Some(disk) = opened.repo.disk() {
        disk.begin_work(&source);
    }
    source
}

/// Returns the store of a history, if the format can hold one.
pub(super) fn store_of(format: &AnyFormat) -> Result<history::StoreFormat> {
    format.transfer_store().ok_or_else(|| {
        let way = "use a store of the format git or native, such as `cone init --format git` makes";
        Failure::usage(format!("the format {} cannot hold a history of Git; {way}", format.name()))
    })
}

/// Returns the folder for what does not fit in memory: that of the store, which has room for the history itself. A Git repository has a
/// place of its own for that.
fn scratch(opened: &Opened) -> Option<Arc<dyn Storage>> {
    let dir = opened.repo.dir().filter(|_| opened.repo.git().is_none());
    dir.map(|dir| Arc::new(RealStorage::new(dir)) as Arc<dyn Storage>)
}

/// Returns the name of a ref that did not move although it should, and why.
pub(super) fn stayed(moved: &MovedRef) -> Option<(&str, &'static str)> {
    let why = match moved.state {
        RefState::Kept => "what it names would be let go of; --force moves it",
        RefState::CheckedOut => {
            "Git has it checked out in a working tree, or will come back to it, and files would not follow; check another \
             branch out there first"
        }
        RefState::New | RefState::Moved | RefState::Same => return None,
    };
    Some((&moved.name, why))
}

/// What the progress line says.
pub(super) fn line(status: &Status, seconds: f64) -> String {
    if status.commits_total == 0 {
        return format!("found {}", count(status.commits_found, "commit", "commits"));
    }
    let rate = (status.objects as f64 / seconds) as u64;
    let (done, total) = (status.commits, status.commits_total);
    format!("{done} of {total} commits, {} objects ({rate}/s), {}", status.objects, text::bytes(status.bytes))
}

fn tell(report: &ImportReport, seconds: f64) {
    for left_out in report.left_out.iter().take(NAMED_MAX) {
        say!("left out: {} ({})", show(&left_out.name), left_out.missing);
    }
    more(report.left_out.len(), "left out");
    tell_unnamed(&report.unnamed);
    for missing in report.missing.iter().take(NAMED_MAX) {
        say!("missing: {missing}");
    }
    more(report.missing.len(), "missing");
    for (name, why) in report.refs.iter().filter_map(stayed).take(NAMED_MAX) {
        say!("left where it is: {} ({why})", show(name));
    }
    if !report.shallow.is_empty() {
        let many = count(report.shallow.len() as u64, "commit", "commits");
        say!("the history is cut off at {many}, whose parents were never fetched");
    }
    if let Some(head) = &report.head {
        say!("HEAD is {}", show(head.strip_prefix("refs/heads/").unwrap_or(head)));
    }
    let refs = report.refs.iter().filter(|moved| moved.state != RefState::Same).count();
    say!("{}, {}", summary(&report.counts, refs, seconds), text::bytes(report.counts.bytes));
}

/// Says which refs are left out for their names.
pub(super) fn tell_unnamed(unnamed: &[Vec<u8>]) {
    for name in unnamed.iter().take(NAMED_MAX) {
        let named = str::from_utf8(name).is_ok();
        let why = if named { "it names a ref whose name is not UTF-8" } else { "its name is not UTF-8" };
        say!("left out: {} ({why}; give it another in Git)", show(OsStr::from_bytes(name)));
    }
    more(unnamed.len(), "left out");
}

/// Describes refs that are left out for their names in JSON.
pub(super) fn describe_unnamed(unnamed: &[Vec<u8>]) -> Vec<serde_json::Value> {
    let unnamed = unnamed.iter().map(|name| {
        let mut one = Fields::new();
        put_text(&mut one, "name", name);
        serde_json::Value::Object(one)
    });
    unnamed.collect()
}

/// Says how many objects and refs went over, and how fast.
pub(super) fn summary(counts: &Counts, refs: usize, seconds: f64) -> String {
    format!(
        "{}, {}, {}, {}, {} in {seconds:.2} s: {:.0} objects/s",
        count(counts.commits, "commit", "commits"),
        count(counts.trees, "tree", "trees"),
        count(counts.blobs, "blob", "blobs"),
        count(counts.tags, "tag", "tags"),
        count(refs as u64, "ref", "refs"),
        counts.objects() as f64 / seconds,
    )
}

/// Returns the fields that an import and an export have in common.
pub(super) fn common(counts: &Counts, refs: &[MovedRef], cut: &[Oid], seconds: f64) -> Fields {
    let refs = refs.iter().map(|moved| fields! { "name": moved.name.as_str(), "state": moved.state.name() });
    let refs: Vec<_> = refs.map(serde_json::Value::Object).collect();
    fields! {
        "commits": counts.commits,
        "trees": counts.trees,
        "blobs": counts.blobs,
        "tags": counts.tags,
        "bytes": counts.bytes,
        "refs": refs,
        "cut": cut.iter().map(|oid| oid.to_string()).collect::<Vec<_>>(),
        "seconds": seconds,
    }
}

fn more(all: usize, what: &str) {
    if all > NAMED_MAX {
        say!("{what}: {} more; -o json names all", all - NAMED_MAX);
    }
}

fn describe(report: &ImportReport, seconds: f64) -> Fields {
    let left_out = report.left_out.iter().map(|left_out| {
        fields! {
            "name": left_out.name.as_str(),
            "oid": left_out.oid.to_string(),
            "missing": left_out.missing.oid.to_string(),
        }
    });
    let left_out: Vec<_> = left_out.map(serde_json::Value::Object).collect();
    let missing = report.missing.iter().map(|object| {
        fields! {
            "kind": bristlecone::core::git::type_name(object.kind),
            "oid": object.oid.to_string(),
            "damage": object.damage.as_deref(),
            "what": object.to_string(),
        }
    });
    let missing: Vec<_> = missing.map(serde_json::Value::Object).collect();
    let mut all = common(&report.counts, &report.refs, &report.shallow, seconds);
    all.extend(fields! {
        "left_out": left_out,
        "unnamed": describe_unnamed(&report.unnamed),
        "missing": missing,
        "missing_more": report.missing_more,
        "head": report.head.as_deref(),
    });
    all
}
