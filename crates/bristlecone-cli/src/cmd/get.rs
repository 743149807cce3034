//! `cone get`: one value.

use std::{
    ffi::OsString,
    fs::File,
    io::{ErrorKind, Write},
    path::{Path, PathBuf},
};

use bristlecone::EntryKind;
use clap::Args;

use super::Context;
use crate::{
    argument, ending, entry,
    failure::{Failure, Result},
    newfile::NewFile,
    open::{Access, refuse_within_store},
    output::{fields, put_name, put_value},
    text,
};
use bristlecone_any::{DirEntry, Error, path};

/// How many bytes of a large value are in memory at a time.
const PART_BYTES: u64 = 8 << 20;

/// Read a value
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  cone get fruit/apple                   the value's bytes, and nothing else, to standard output
  cone get fruit/apple --at HEAD~3       as it was three commits before
  cone get photos/one.jpg --out one.jpg  into a file
  cone get -o json fruit/apple           with kind, length and id

Exit code 1 if there is no such value.")]
pub(super) struct GetArgs {
    /// Where
    #[arg(value_name = "PATH")]
    path: OsString,
    /// In which revision [default: the branch's head]
    #[arg(long, value_name = "REV")]
    at: Option<OsString>,
    /// Write the bytes into this file
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

pub(super) fn run(args: GetArgs, context: &mut Context) -> Result<()> {
    let path = argument::entry_path(&args.path)?;
    let opened = context.globals.open(Access::Read)?;
    let tree = opened.tree_to_read(args.at.as_ref())?;
    let Some(found) = tree.entry(&path)? else { return Err(path::nothing_at(&tree, &path)?.into()) };
    if found.kind() == EntryKind::Dir {
        return Err(Failure::usage(format!("{path} is a directory; list it with `cone list {path}`")));
    }
    if let Some(oid) = found.foreign() {
        return Err(Error::Submodule { path, oid }.into());
    }
    if let Some(name) = &args.out {
        write_file(&found, name)?;
    }
    if context.out.json() {
        let mut all = fields! {};
        put_name(&mut all, "path", path.as_bytes());
        entry::put_entry(&mut all, &opened.repo, &found);
        if args.out.is_none() {
            let value = found.contents()?.map(|bytes| bytes.to_vec()).unwrap_or_default();
            put_value(&mut all, "value", &value);
        }
        return context.out.document(all);
    }
    if args.out.is_none() {
        parts(&found, &mut |part| context.out.bytes(part))?;
    }
    Ok(())
}

/// Writes the value into a file, which gets its name once all of it is there. What is no plain file, as a device, is written to as it is.
fn write_file(entry: &DirEntry<'_>, name: &Path) -> Result<()> {
    let folder = name.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    refuse_within_store(folder)?;
    let failed = |error| Failure::file("write", text::show(name), &error);
    let (mut held, mut whole) = (None, None);
    let mut file = if std::fs::metadata(name).is_ok_and(|found| !found.is_file()) {
        File::create(name).map_err(failed)?
    } else {
        // One that may not be written to is not replaced.
        match File::options().write(true).open(name) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(failed(error)),
            _ => {}
        }
        // A signal is heard between two parts, and takes away what was begun.
        held = Some(ending::hold());
        let (new, file) = NewFile::create(name, true)?;
        whole = Some(new);
        file
    };
    parts(entry, &mut |part| match (&held, ending::asked()) {
        (Some(_), Some(signal)) => Err(Failure::stopped_by(signal, "nothing was written")),
        _ => file.write_all(part).map_err(failed),
    })?;
    whole.map_or(Ok(()), |new| new.finish(&file))
}

/// Gives the value in parts.
pub(super) fn parts(entry: &DirEntry<'_>, each: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
    let Some(end) = entry.bytes() else {
        // Only its object tells how long it is, which is loaded whole.
        return each(&entry.contents()?.unwrap_or_else(|| (&[][..]).into()));
    };
    let mut at = 0;
    while at < end {
        match entry.read(at..(at + PART_BYTES).min(end))? {
            Some(part) if !part.is_empty() => {
                each(&part)?;
                at += part.len() as u64;
            }
            _ => return Err(Failure::failed("the value ends early; run `cone check` to see what is affected")),
        }
    }
    Ok(())
}
