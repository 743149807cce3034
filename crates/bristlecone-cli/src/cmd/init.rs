//! `cone init`: making a store.

use std::{
    fs,
    path::{Path as FilePath, PathBuf},
};

use bristlecone::core::{git::Algorithm, native::INLINE_BYTES_MAX};
use bristlecone_git::layout::Layout;
use clap::{
    Args, ValueEnum,
    builder::{PossibleValue, PossibleValuesParser},
    value_parser,
};

use super::Context;
use crate::{
    ending::{self, Made},
    failure::{Failure, Result},
    open::{Access, is_okra, refuse_within_store},
    output::{fields, put_text},
    text::show,
};
use bristlecone_any::{AnyFormat, FIRST_BRANCH, Found, Place, check_new_branch, store_dir};

/// Make a store in the folder .bristlecone of a folder
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  cone init                make a store here
  cone init data           make one in the folder data
  cone -b trunk init       make one whose first branch is trunk
  cone init --backend lsm  make one on a log-structured merge tree
  cone init --here         make one inside the working tree of a Git repository

The options are recorded in the store. Those of the native format change hashes: two stores with the
same contents have the same root hashes if they were made with the same options.")]
pub(super) struct InitArgs {
    /// The folder [default: here]
    #[arg(value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Also where a store would hide the Git repository that the folder is in
    #[arg(long)]
    here: bool,
    /// How directories and values become objects
    #[arg(long, value_parser = PossibleValuesParser::new(choices()), default_value = AnyFormat::ALL[0].0)]
    format: String,
    /// What keeps the objects
    #[arg(long, value_enum, default_value_t = BackendArg::Disk)]
    backend: BackendArg,
    /// Values of at most this many bytes live in their directory [default: 48; at most 512]
    #[arg(long, value_name = "BYTES", value_parser = value_parser!(u16).range(..=INLINE_BYTES_MAX as i64))]
    #[arg(allow_negative_numbers = true)]
    inline: Option<u16>,
    /// Keep wide directories in one object
    #[arg(long)]
    no_split: bool,
    /// What makes the ids of Git's objects [default: sha1]
    #[arg(long, value_enum)]
    hash: Option<HashArg>,
}

impl InitArgs {
    /// Returns what makes a store of the native format with its standard options.
    pub(super) fn native(dir: Option<PathBuf>, here: bool) -> Self {
        Self {
            dir,
            here,
            format: AnyFormat::ALL[0].0.to_owned(),
            backend: BackendArg::Disk,
            inline: None,
            no_split: false,
            hash: None,
        }
    }
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum HashArg {
    /// As nearly all repositories
    Sha1,
    /// As those made by git init --object-format=sha256
    Sha256,
}

/// A backend that keeps stores in folders of their own.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(super) enum BackendArg {
    /// The crash-safe engine on files
    Disk,
    /// One file an object, to be read with ls and cat
    Fs,
    /// LMDB
    Lmdb,
    /// A log-structured merge tree
    Lsm,
}

impl BackendArg {
    /// Returns the place of a store in a folder, and the backend's name.
    pub(super) fn place(self, dir: PathBuf) -> (Place, &'static str) {
        match self {
            Self::Disk => (Place::Disk(dir), "disk"),
            Self::Fs => (Place::Fs(dir), "fs"),
            Self::Lmdb => (Place::Lmdb(dir), "lmdb"),
            Self::Lsm => (Place::Lsm(dir), "lsm"),
        }
    }
}

pub(super) fn run(args: InitArgs, context: &mut Context) -> Result<()> {
    let format = format(&args)?;
    let branch = context.globals.branch()?.unwrap_or_else(|| FIRST_BRANCH.to_owned());
    bristlecone::Repo::memory().branch(check_new_branch(&branch)?)?;
    let top = match (args.dir, context.globals.repo()) {
        (Some(_), Some(_)) => return Err(Failure::usage("the folder is named twice; name it as DIR or with --repo")),
        (Some(dir), None) => dir,
        (None, Some(dir)) => dir.to_owned(),
        (None, None) => PathBuf::from("."),
    };
    if top.to_str().is_some_and(|text| text.contains("://")) {
        return Err(Failure::usage(
            "name the folder alone, and the backend with --backend; a url is for stores that are there",
        ));
    }
    let dir = store_dir(&top);
    if let Some(above) = dir.parent() {
        refuse_within_store(above)?;
    }
    if is_okra(&top) {
        return Err(Failure::usage(format!(
            "{}: there is an Okra map, which a store would hide; choose another folder",
            show(&top)
        )));
    }
    let git = git_around(&top_of(&dir))?;
    if let (Some(layout), false) = (&git, args.here) {
        let (git, shown) = (show(layout.worktree.as_ref().unwrap_or(&layout.git_dir)), show(&dir));
        return Err(Failure::usage(format!(
            "{git} is a Git repository, where `cone` works as it is; a store in {shown} would hide it from every later \
             `cone` there; make one all the same with --here"
        )));
    }
    let options = context.globals.options(Access::Write)?.format(format);
    ending::makes(Made::store(&dir, context.globals.wait_ms()?)?);
    let (place, backend) = args.backend.place(dir.clone());
    let repo = ending::made(options.create(place))?;
    ending::writes_to(&repo);
    repo.set_head(&branch)?;
    if git.is_some() {
        hide_from_git(&dir)?;
    }
    repo.close()?;
    ending::made_it();
    let format = repo.format().tag();
    context.out.made(format!("made a store in {}", show(&dir)))?;
    let mut all = fields! {};
    put_text(&mut all, "store", dir.as_os_str().as_encoded_bytes());
    all.extend(fields! {
        "format": format.name.as_str(),
        "format_version": format.version,
        "options": format.options.as_str(),
        "backend": backend,
        "branch": branch,
    });
    context.out.document(all)
}

/// Returns the folder that a store's folder is in, as far as it is there.
fn top_of(dir: &FilePath) -> PathBuf {
    let there = dir.ancestors().skip(1).find(|above| above.is_dir());
    there.map_or_else(|| PathBuf::from("."), FilePath::to_owned)
}

/// Returns the Git repository that a folder is in, or is.
fn git_around(folder: &FilePath) -> Result<Option<Layout>> {
    let folder = fs::canonicalize(folder).map_err(|error| Failure::file("find", show(folder), &error))?;
    let found = folder.ancestors().find_map(|above| match Place::Git(above.to_owned()).find() {
        Ok(Found::Git(layout)) => Some(*layout),
        _ => None,
    });
    Ok(found)
}

/// Has Git leave a store's folder alone, with all that is in it.
fn hide_from_git(dir: &FilePath) -> Result<()> {
    let file = dir.join(".gitignore");
    fs::write(&file, "*\n").map_err(|error| Failure::file("write", show(&file), &error))
}

fn choices() -> impl Iterator<Item = PossibleValue> {
    AnyFormat::ALL.iter().map(|&(name, about)| PossibleValue::new(name).help(about))
}

/// Returns the format that was asked for, with its options.
fn format(args: &InitArgs) -> Result<AnyFormat> {
    let unknown = || Failure::usage(format!("there is no format \"{}\"", args.format));
    let mut format = AnyFormat::standard(&args.format).ok_or_else(unknown)?;
    let inline = args.inline.map(|bytes| ("--inline", "inline", bytes.to_string()));
    let split = args.no_split.then(|| ("--no-split", "split", "off".to_owned()));
    let hash = args.hash.map(|hash| match hash {
        HashArg::Sha1 => Algorithm::Sha1,
        HashArg::Sha256 => Algorithm::Sha256,
    });
    let hash = hash.map(|hash| ("--hash", "hash", hash.name().to_owned()));
    for (option, key, value) in inline.into_iter().chain(split).chain(hash) {
        let name = format.name();
        format = match format.set_option(key, &value) {
            Ok(Some(format)) => format,
            Ok(None) => return Err(Failure::usage(format!("the format {name} has no {option}; leave it out"))),
            Err(_) => {
                let reason = format!("the format {name} cannot have {key}={value}");
                return Err(Failure::usage(format!("{reason}; give {option} another value, or leave it out")));
            }
        };
    }
    Ok(format)
}
