//! `cone set`: one value, one commit.

use std::{
    ffi::OsString,
    io::{self, Read},
    os::unix::ffi::OsStrExt,
};

use bristlecone::{EntryKind, Path};
use clap::Args;

use super::Context;
use crate::{
    entry,
    failure::{Failure, Result},
    formats::Tree,
    open::Access,
    output::put_name,
    text,
    who::{CommitArgs, DurabilityArg},
};

/// Set a value, as one commit
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  cone set fruit/apple red -m \"An apple\"
  cone set photos/one.jpg - < one.jpg          the value from standard input
  cone set a%2Fb/c%0Ad value                   %XX stands for any byte but the slash
  cone set -b trial fruit/plum blue            on another branch, which begins if it is new")]
pub(super) struct SetArgs {
    /// Where: steps separated by slashes
    #[arg(value_name = "PATH")]
    path: OsString,
    /// The value; from standard input if it is - or left out
    #[arg(value_name = "VALUE", allow_hyphen_values = true)]
    value: Option<OsString>,
    /// Replace a directory, or a value on the way, too
    #[arg(long)]
    force: bool,
    /// When the commit is done
    #[arg(long, value_enum, default_value_t)]
    durability: DurabilityArg,
    #[command(flatten)]
    commit: CommitArgs,
}

pub(super) fn run(args: SetArgs, context: &mut Context) -> Result<()> {
    let path = text::entry_path(&args.path)?;
    let opened = context.globals.open(Access::Write)?;
    let info = args.commit.info(&opened, &format!("Set {path}"), args.durability)?;
    let value = match &args.value {
        Some(value) if value != "-" => value.as_bytes().to_vec(),
        _ => {
            let mut bytes = Vec::new();
            let read = io::stdin().lock().read_to_end(&mut bytes);
            read.map_err(|error| Failure::file("read", "standard input", &error))?;
            bytes
        }
    };
    let done = super::commit(&opened, &info, args.commit.allow_empty, &mut |tree| {
        if !args.force {
            check_place(tree, &path)?;
        }
        let kind = match tree.get(&path)? {
            Some(entry) if entry.kind() == EntryKind::Executable => EntryKind::Executable,
            _ => EntryKind::Value,
        };
        Ok(tree.add_kind(&path, kind, value.as_slice())?)
    })?;
    context.out.line(done.line(&format!("set {path}")))?;
    let mut all = done.fields(&opened);
    put_name(&mut all, "path", path.as_bytes());
    all.insert("bytes".to_owned(), value.len().into());
    context.out.document(all)
}

/// Refuses to set a value where that would take something else away.
pub(super) fn check_place(tree: &Tree, path: &Path) -> Result<()> {
    if let Some(above) = entry::value_above(tree, path)? {
        let way = format!("remove it first (`cone del {above}`), or replace it with --force");
        return Err(Failure::usage(format!("{above} is a value, so nothing can lie below it; {way}")));
    }
    if tree.mem_tree(path)? {
        let way = format!("name an entry in it, remove it first (`cone del {path}`), or replace it with --force");
        return Err(Failure::usage(format!("{path} is a directory; {way}")));
    }
    Ok(())
}
