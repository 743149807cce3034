//! `cone export`: a tree as a folder of files.

use std::{ffi::OsString, path::PathBuf, time::Instant};

use clap::Args;

use super::Context;
use crate::{
    entry, export,
    failure::Result,
    open::Access,
    output::{fields, put_name},
    text::{self, show},
};

/// Write a tree into a folder of files
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  cone export out                          the branch's head
  cone export out --at HEAD~3 --path fruit a part of an older commit
  cone export out --force                  into a folder that holds something: files in the way are replaced,
                                           whatever else is there stays

Files are made anew, with executable bits and links as they were imported. No link is followed, and nothing
outside the folder is touched. Names that no file can have are refused before anything is written.")]
pub(super) struct ExportArgs {
    /// The folder, which is made unless it is there
    #[arg(value_name = "DIR")]
    dir: PathBuf,
    /// Which revision [default: the branch's head]
    #[arg(long, value_name = "REV")]
    at: Option<OsString>,
    /// Only what is below this path
    #[arg(long, value_name = "PATH", default_value = "", hide_default_value = true)]
    path: OsString,
    /// Write into a folder that is not empty
    #[arg(long)]
    force: bool,
}

pub(super) fn run(args: ExportArgs, context: &mut Context) -> Result<()> {
    let began = Instant::now();
    let path = text::path(&args.path)?;
    let opened = context.globals.open(Access::Read)?;
    let tree = opened.tree_to_read(args.at.as_ref())?;
    let commit = tree.origin();
    entry::check_dir(&tree, &path)?;
    let Some(tree) = tree.find_tree(&path)? else { return Err(entry::nothing_at(&tree, &path)?) };
    let plan = export::folder(&tree, &args.dir, args.force, &opened.dir)?;
    let seconds = began.elapsed().as_secs_f64();
    for left_out in &plan.foreign {
        eprintln!("left out: {left_out} (id of another store)");
    }
    let files = plan.files + plan.executables;
    let shown = [
        text::count(files, "file", "files"),
        text::count(plan.links, "link", "links"),
        text::count(plan.dirs, "folder", "folders"),
    ];
    let rate = text::bytes((plan.bytes as f64 / seconds) as u64);
    eprintln!(
        "{}, {} in {seconds:.2} s: {:.0} files/s, {rate}/s",
        shown.join(", "),
        text::bytes(plan.bytes),
        (files + plan.links) as f64 / seconds
    );
    context.out.line(format_args!("exported to {}", show(&args.dir)))?;
    let mut all = fields! {};
    opened.put_commit(&mut all, commit.as_ref());
    put_name(&mut all, "path", path.as_bytes());
    let foreign = plan.foreign.iter().map(|path| {
        let mut one = fields! {};
        put_name(&mut one, "path", path.as_bytes());
        one.insert("what".to_owned(), "id of another store".into());
        serde_json::Value::Object(one)
    });
    let foreign: Vec<_> = foreign.collect();
    all.extend(fields! {
        "files": plan.files,
        "executables": plan.executables,
        "links": plan.links,
        "dirs": plan.dirs,
        "bytes": plan.bytes,
        "seconds": seconds,
        "left_out": foreign,
    });
    context.out.document(all)
}
