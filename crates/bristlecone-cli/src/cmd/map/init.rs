//! `cone map init`: making a map.

use std::path::PathBuf;

use bristlecone_any::STORE_DIR;
use bristlecone_lmdb::okra::{self, Mode, OkraMap, OkraOptions};
use clap::{Args, ValueEnum};

use crate::{
    cmd::{Context, init},
    failure::{Failure, Result},
    open::{refuse_url, refuse_within_store},
    output::{fields, put_text},
    text::show,
};

/// Make a map: a store of the native format, or an LMDB file
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  cone map init                        a store here, whose directories are maps; as cone init makes it
  cone map init fruit --kind okra      an Okra map, fruit/data.mdb
  cone map init hashes --kind okra --index

A native map needs nothing but a store: `cone map set` begins the directory that is the map.")]
pub(super) struct InitArgs {
    /// The folder [default: here]
    #[arg(value_name = "DIR")]
    dir: Option<PathBuf>,
    /// What keeps the map
    #[arg(long, value_enum, default_value_t)]
    kind: Kind,
    /// Native: also where a store would hide the Git repository that the folder is in
    #[arg(long)]
    here: bool,
    /// Okra: the map holds hashes of 16 bytes that the caller gives, and no values
    #[arg(long)]
    index: bool,
    /// Okra: what the file may grow to, for this command [default: 1 TiB]
    #[arg(long, value_name = "BYTES", allow_negative_numbers = true)]
    map_bytes: Option<u64>,
}

/// What keeps a map.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum Kind {
    /// A directory of a store, with all its versions and branches
    #[default]
    Native,
    /// An LMDB file with the roots of Okra: the last state alone
    Okra,
}

pub(super) fn run(args: InitArgs, context: &mut Context) -> Result<()> {
    if args.kind == Kind::Native {
        if args.index || args.map_bytes.is_some() {
            return Err(Failure::usage(
                "--index and --map-bytes are of Okra maps; give --kind okra, or leave them out",
            ));
        }
        return init::run(init::InitArgs::native(args.dir, args.here), context);
    }
    if args.here || context.globals.branch()?.is_some() {
        return Err(Failure::usage("--here and -b are of native maps; give --kind native, or leave them out"));
    }
    let dir = match (args.dir, context.globals.repo()) {
        (Some(_), Some(_)) => {
            return Err(Failure::usage("the folder is named twice; name it as DIR or with --repo"));
        }
        (Some(dir), None) => dir,
        (None, Some(dir)) => dir.to_owned(),
        (None, None) => PathBuf::from("."),
    };
    refuse_url(&dir, "name the folder alone: an Okra map is one of this machine")?;
    refuse_within_store(&dir)?;
    if [STORE_DIR, "store"].iter().any(|name| dir.join(name).exists()) {
        let shown = show(&dir);
        return Err(Failure::usage(format!(
            "{shown}: there is a store, which would hide the map; choose another folder"
        )));
    }
    let mode = if args.index { Mode::Index } else { Mode::Store };
    let mut options = OkraOptions::default().mode(mode);
    if let Some(bytes) = args.map_bytes {
        options = options.map_bytes_max(bytes);
    }
    let map = OkraMap::create(&dir, &options)?;
    let root = map.read()?.root()?;
    context.out.made(format!("made an Okra map in {}", show(&dir)))?;
    let mut all = fields! { "kind": "okra" };
    put_text(&mut all, "map", dir.as_os_str().as_encoded_bytes());
    all.extend(fields! {
        "mode": mode_name(mode),
        "k": okra::HASH_BYTES,
        "q": okra::FANOUT,
        "root": root.hash.to_string(),
    });
    context.out.document(all)
}

/// Returns what a mode is called.
pub(super) const fn mode_name(mode: Mode) -> &'static str {
    match mode {
        Mode::Store => "store",
        Mode::Index => "index",
    }
}
