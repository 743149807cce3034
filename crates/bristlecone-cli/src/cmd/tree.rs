//! `cone tree`: everything below a directory, drawn.

use std::ffi::OsString;

use bristlecone::{EntryKind, Listing, Path};
use clap::Args;

use super::Context;
use crate::{
    entry,
    failure::Result,
    open::Access,
    output::{Output, fields, put_name},
    text,
};
use bristlecone_any::{AnyRepo, Tree, path};

/// Draw everything below a directory
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  cone tree
  cone tree fruit --depth 2
  cone tree --at HEAD~1 -o json")]
pub(super) struct TreeArgs {
    /// Which directory [default: the root]
    #[arg(value_name = "PATH", default_value = "", hide_default_value = true)]
    path: OsString,
    /// In which revision [default: the branch's head]
    #[arg(long, value_name = "REV")]
    at: Option<OsString>,
    /// At most this many levels [default: all]
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    depth: Option<usize>,
}

pub(super) fn run(args: TreeArgs, context: &mut Context) -> Result<()> {
    let path = path::parse(&args.path)?;
    let opened = context.globals.open(Access::Read)?;
    let tree = opened.tree_to_read(args.at.as_ref())?;
    path::check_dir(&tree, &path)?;
    let Some(tree) = tree.get_tree(&path)? else { return Ok(()) };
    let mut head = fields! {};
    put_name(&mut head, "path", path.as_bytes());
    context.out.begin(&head, "entries")?;
    let shown = path.to_string();
    context.out.line(if shown.is_empty() { "." } else { &shown })?;
    let (out, depth) = (&mut context.out, args.depth.unwrap_or(usize::MAX));
    let mut drawing = Drawing { repo: &opened.repo, out, depth, dirs: 0, values: 0 };
    drawing.below(&tree)?;
    let (dirs, values) = (drawing.dirs, drawing.values);
    let (dirs_text, values_text) =
        (text::count(dirs, "directory", "directories"), text::count(values, "value", "values"));
    context.out.line(format_args!("\n{dirs_text}, {values_text}"))?;
    context.out.end(&fields! { "dirs": dirs, "values": values })
}

struct Drawing<'a> {
    repo: &'a AnyRepo,
    out: &'a mut Output,
    depth: usize,
    dirs: u64,
    values: u64,
}

/// A directory that is being drawn.
struct Level {
    tree: Tree,
    path: Path,
    // What stands before its entries' names.
    indent: String,
    after: Option<Vec<u8>>,
}

impl Drawing<'_> {
    /// Draws without recursion: trees may be deep.
    fn below(&mut self, tree: &Tree) -> Result<()> {
        let mut stack = vec![Level { tree: tree.clone(), path: Path::root(), indent: String::new(), after: None }];
        while let Some(level) = stack.last_mut() {
            match self.next(level)? {
                Some(Some(below)) if stack.len() < self.depth => stack.push(below),
                Some(_) => {}
                None => _ = stack.pop(),
            }
        }
        Ok(())
    }

    /// Draws the entries of a level up to the next directory, which it returns; `None` at the end.
    fn next(&mut self, level: &mut Level) -> Result<Option<Option<Level>>> {
        if self.depth == 0 {
            return Ok(None);
        }
        let listing = match &level.after {
            Some(step) => Listing::new().after(step),
            None => Listing::new(),
        };
        let mut entries = level.tree.list_with("", &listing)?.peekable();
        while let Some(found) = entries.next() {
            let found = found?;
            let last = entries.peek().is_none();
            // A key of a map may be no step of a path.
            let path = level.path.join(found.step()).ok();
            if self.out.json() {
                let mut item = fields! { "depth": level.path.len() + 1 };
                match &path {
                    Some(path) => put_name(&mut item, "path", path.as_bytes()),
                    None => {
                        item.insert("path".to_owned(), ().into());
                        put_name(&mut item, "step", found.step());
                    }
                }
                entry::put_entry(&mut item, self.repo, &found);
                self.out.item(item)?;
            } else {
                let branch = if last { "└── " } else { "├── " };
                self.out.line(format_args!("{}{branch}{}", level.indent, entry::name(found.step(), found.kind())))?;
            }
            if found.kind() != EntryKind::Dir {
                self.values += 1;
                continue;
            }
            self.dirs += 1;
            if let (Some(tree), Some(path)) = (found.tree(), path) {
                let indent = format!("{}{}", level.indent, if last { "    " } else { "│   " });
                let step = found.step().to_vec();
                drop((found, entries));
                level.after = Some(step);
                return Ok(Some(Some(Level { tree, path, indent, after: None })));
            }
        }
        Ok(None)
    }
}
