//! `cone init`: making a store.

use std::{path::PathBuf, sync::Arc};

use bristlecone::{
    Format, Native, core,
    disk::{DiskBackend, FormatTag},
    storage::RealStorage,
};
use clap::{Args, ValueEnum};

use super::Context;
use crate::{
    failure::{Failure, Result},
    open::{FIRST_BRANCH, Opened, STORE_DIR},
    output::{fields, put_name},
    text::show,
};

/// Make a store in the folder .bristlecone of a folder
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  cone init                make a store here
  cone init data           make one in the folder data
  cone -b trunk init       make one whose first branch is trunk

The options that change hashes are recorded in the store: two stores with the same contents have the same
root hashes if they were made with the same options.")]
pub(super) struct InitArgs {
    /// The folder [default: here]
    #[arg(value_name = "DIR")]
    dir: Option<PathBuf>,
    /// How directories and values become objects
    #[arg(long, value_enum, default_value_t = FormatArg::Native)]
    format: FormatArg,
    /// What keeps the objects
    #[arg(long, value_enum, default_value_t = BackendArg::Disk)]
    backend: BackendArg,
    /// Values of up to so many bytes live in their directory [default: 48; at most 512]
    #[arg(long, value_name = "BYTES")]
    inline: Option<usize>,
    /// Keep wide directories in one object
    #[arg(long)]
    no_split: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum FormatArg {
    /// Ordered directories, BLAKE3
    Native,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum BackendArg {
    /// The crash-safe engine on files
    Disk,
}

pub(super) fn run(args: InitArgs, context: &mut Context) -> Result<()> {
    let (FormatArg::Native, BackendArg::Disk) = (args.format, args.backend);
    let mut format = Native::new().split(!args.no_split);
    if let Some(bytes) = args.inline {
        if bytes > core::native::INLINE_BYTES_MAX {
            let most = core::native::INLINE_BYTES_MAX;
            return Err(Failure::usage(format!("--inline takes 0 to {most} bytes, not {bytes}")));
        }
        format = format.inline(bytes);
    }
    let branch = context.globals.branch()?.unwrap_or_else(|| FIRST_BRANCH.to_owned());
    bristlecone::Repo::memory().branch(&branch)?;
    let top = match (args.dir, context.globals.repo()) {
        (Some(_), Some(_)) => return Err(Failure::usage("name the folder once: as DIR or with --repo")),
        (Some(dir), None) => dir,
        (None, Some(dir)) => dir.to_owned(),
        (None, None) => PathBuf::from("."),
    };
    let dir = if top.file_name().is_some_and(|name| name == STORE_DIR) { top } else { top.join(STORE_DIR) };
    let tag = FormatTag { name: Native::NAME.to_owned(), version: Native::VERSION, options: format.options() };
    let storage = Arc::new(RealStorage::new(&dir));
    let disk = DiskBackend::create(storage, tag, context.globals.disk_options()?)?;
    let opened = Opened::new(Arc::new(disk), format, dir, None);
    opened.repo.set_head(&branch)?;
    opened.disk.close()?;
    context.out.line(format_args!("made a store in {}", show(&opened.dir)))?;
    let mut all = fields! {};
    put_name(&mut all, "store", opened.dir.as_os_str().as_encoded_bytes());
    all.extend(fields! {
        "format": Native::NAME,
        "format_version": Native::VERSION,
        "options": opened.header.format.options.as_str(),
        "backend": "disk",
        "branch": branch,
    });
    context.out.document(all)
}
