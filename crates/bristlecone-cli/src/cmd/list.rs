//! `cone list`: the entries of one directory.

use std::ffi::OsString;

use bristlecone::Listing;
use bristlecone_any::path;
use clap::Args;

use super::Context;
use crate::{
    argument, entry,
    failure::Result,
    open::Access,
    output::{fields, put_name},
};

/// List the entries of a directory, in order
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  cone list                            the root
  cone list fruit -l                   with kind, bytes and id
  cone list logs --prefix 2026-        steps that start so
  cone list logs --limit 100           a page; the next one with --after LAST
  cone list logs --reverse --limit 1   the last one

Behind a name, / means a directory, * an executable, @ a link and & an id of another store.
Exit code 1 if there is no such directory.")]
pub(super) struct ListArgs {
    /// Which directory [default: the root]
    #[arg(value_name = "PATH", default_value = "", hide_default_value = true)]
    path: OsString,
    /// In which revision [default: the branch's head]
    #[arg(long, value_name = "REV")]
    at: Option<OsString>,
    /// Only steps that start so
    #[arg(long, value_name = "STEP")]
    prefix: Option<OsString>,
    /// Only steps after this one, in the order of the listing
    #[arg(long, value_name = "STEP")]
    after: Option<OsString>,
    /// At most this many [default: all]
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    limit: Option<usize>,
    /// From the last to the first
    #[arg(long)]
    reverse: bool,
    /// With kind, bytes and id
    #[arg(short, long)]
    long: bool,
}

pub(super) fn run(args: ListArgs, context: &mut Context) -> Result<()> {
    let path = path::parse(&args.path)?;
    let listing = listing(&args)?;
    let opened = context.globals.open(Access::Read)?;
    let tree = opened.tree_to_read(args.at.as_ref())?;
    path::check_dir(&tree, &path)?;
    let mut head = fields! {};
    put_name(&mut head, "path", path.as_bytes());
    context.out.begin(&head, "entries")?;
    for found in tree.list_with(&path, &listing)? {
        let found = found?;
        if context.out.json() {
            let mut item = fields! {};
            put_name(&mut item, "step", found.step());
            entry::put_entry(&mut item, &opened.repo, &found);
            context.out.item(item)?;
        } else if args.long {
            context.out.line(entry::long(&opened.repo, &found))?;
        } else {
            context.out.line(entry::name(found.step(), found.kind()))?;
        }
    }
    context.out.end(&fields! {})
}

fn listing(args: &ListArgs) -> Result<Listing> {
    let mut listing = Listing::new();
    if let Some(step) = &args.after {
        let step = argument::step(step)?;
        listing = if args.reverse { listing.to(&step) } else { listing.after(&step) };
    }
    // Every step begins with nothing.
    if let Some(prefix) = args.prefix.as_ref().filter(|prefix| !prefix.is_empty()) {
        listing = listing.prefix(&argument::step(prefix)?);
    }
    if let Some(count) = args.limit {
        listing = listing.limit(count);
    }
    Ok(if args.reverse { listing.reverse() } else { listing })
}
