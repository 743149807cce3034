//! `cone import`: a folder of files as one commit.

use std::{ffi::OsString, path::PathBuf, time::Instant};

use clap::Args;

use super::{Context, set};
use crate::{
    failure::Result,
    formats::Tree,
    import::{self, Summary},
    open::Access,
    output::{Fields, fields, put_name},
    text::{self, show},
    who::{CommitArgs, DurabilityArg},
};

/// How many things that were left out are named on standard error.
const NAMED_MAX: usize = 20;

/// Take in a folder of files, as one commit
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  cone import photos                            the whole tree becomes what is in the folder
  cone import photos --path backup/photos       only what is below that path
  cone import . -b snapshots -m \"Before lunch\"  on another branch, which begins if it is new

Executable bits and links are kept; times, owners and other permissions are not. Empty folders, pipes,
sockets and devices are left out, counted and named; so is the store itself. A format that has no executables
or links refuses them, unless they are to be --plain. In a Git repository whatever has the name .git is left
out, too, and what Git ignores is not. The branch moves at the very end:
whatever stops an import before, the store holds what it held.")]
pub(super) struct ImportArgs {
    /// The folder
    #[arg(value_name = "DIR")]
    dir: PathBuf,
    /// Where in the tree [default: the root]
    #[arg(long, value_name = "PATH", default_value = "", hide_default_value = true)]
    path: OsString,
    /// Replace a value on the way to that path, or at it
    #[arg(long)]
    force: bool,
    /// Take executables as plain values, and links, too, as their targets
    #[arg(long)]
    plain: bool,
    #[command(flatten)]
    commit: CommitArgs,
}

pub(super) fn run(args: ImportArgs, context: &mut Context) -> Result<()> {
    let began = Instant::now();
    let path = text::path(&args.path)?;
    let dir = import::checked_folder(&args.dir)?;
    let opened = context.globals.open(Access::Write)?;
    let message = format!("Import {}", show(&dir));
    let info = args.commit.info(&opened, &message, DurabilityArg::Synced)?;
    // What cannot be bound is better said before the work than after.
    let check = |tree: &Tree| {
        if args.force || path.is_root() || tree.mem_tree(&path)? {
            return Ok(());
        }
        set::check_place(tree, &path.join(b"x")?)
    };
    let branch = opened.branch_to_change()?;
    drop(opened.ask_leave(branch.ref_name())?);
    check(&branch.tree()?)?;
    let (mut imported, summary) = import::folder(&opened, &dir, args.plain)?;
    if !imported.is_empty()? {
        imported.write()?;
    }
    let done = super::commit_written(&opened, &info, args.commit.allow_empty, &mut |tree| {
        check(tree)?;
        Ok(tree.add_tree(&path, &imported)?)
    })?;
    let seconds = began.elapsed().as_secs_f64();
    tell(&summary, seconds);
    context.out.line(done.line(&format!("imported {}", show(&dir))))?;
    let mut all = done.fields(&opened);
    put_name(&mut all, "path", path.as_bytes());
    all.extend(describe(&summary, seconds));
    context.out.document(all)
}

fn tell(summary: &Summary, seconds: f64) {
    for left_out in summary.left_out.iter().take(NAMED_MAX) {
        eprintln!("left out: {} ({})", left_out.path, left_out.what);
    }
    let more = summary.left_out.len().saturating_sub(NAMED_MAX);
    if more > 0 {
        eprintln!("left out: {more} more; -o json names all");
    }
    if summary.plain > 0 {
        let many = text::count(summary.plain, "executable or link", "executables and links");
        eprintln!("taken as plain values: {many}");
    }
    let files = summary.files + summary.executables;
    let rate = (files + summary.links) as f64 / seconds;
    eprintln!(
        "{}, {}, {}, {} in {seconds:.2} s: {rate:.0} files/s, {}/s",
        text::count(files, "file", "files"),
        text::count(summary.links, "link", "links"),
        text::count(summary.dirs, "folder", "folders"),
        text::bytes(summary.bytes),
        text::bytes((summary.bytes as f64 / seconds) as u64),
    );
}

fn describe(summary: &Summary, seconds: f64) -> Fields {
    let left_out = summary.left_out.iter().map(|left_out| {
        let mut one = fields! {};
        put_name(&mut one, "path", left_out.path.as_bytes());
        one.insert("what".to_owned(), left_out.what.into());
        serde_json::Value::Object(one)
    });
    let left_out: Vec<_> = left_out.collect();
    fields! {
        "files": summary.files,
        "executables": summary.executables,
        "links": summary.links,
        "plain": summary.plain,
        "dirs": summary.dirs,
        "bytes": summary.bytes,
        "seconds": seconds,
        "left_out": left_out,
    }
}
