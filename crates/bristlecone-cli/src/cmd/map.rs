//! `cone map`: ordered maps of both kinds.
//!
//! A native map is a directory of a store of the native format, and each change is a commit. An Okra map is an LMDB file,
//! which keeps its last state alone. The verbs are the same for both.

use bristlecone_lmdb::okra::OkraError;
use clap::{Args, Subcommand};

use super::Context;
use crate::failure::{Failure, Result, with_way};

mod change;
mod diff;
mod form;
mod init;
mod load;
mod place;
mod read;
mod stat;
mod tree;

/// Read and change ordered maps: keys of any bytes, a Merkle tree above them
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  cone map set apple red                       an entry of the map that is the store's root, as one commit
  cone map set apple 3 --path prices           of the map that is the directory prices
  cone map list --from b --to d                entries with keys from b up to, not including, d
  cone map load prices.csv --path prices       many entries from a file, as one commit
  cone map diff HEAD~1                         what changed since the commit before
  cone map init fruit --kind okra              make an Okra map in the folder fruit
  cone -r fruit map set apple red              an entry of it
  cone -r fruit map stat --check               its root, and whether the whole tree is sound
  cone -r fruit map diff other                 how the map in the folder other differs

There are two kinds. A native map is a directory of a store of the native format: versioned, branched and merged as all
else there. An Okra map is an LMDB file with the entries and roots of Okra, which keeps its last state alone. A folder with
a data.mdb that is no store is an Okra map; everything else is found as a store.

Keys are text, where %XX stands for any byte, unless --keys says otherwise: at most 4,096 bytes in a native map, and 1 to
510 in an Okra map.")]
pub(super) struct MapCommand {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    Init(init::InitArgs),
    Get(read::GetArgs),
    Set(change::SetArgs),
    Del(change::DelArgs),
    List(read::ListArgs),
    Tree(tree::TreeArgs),
    Stat(stat::StatArgs),
    Diff(diff::DiffArgs),
    Load(load::LoadArgs),
}

pub(super) fn run(args: MapCommand, context: &mut Context) -> Result<()> {
    match args.verb {
        Verb::Init(args) => init::run(args, context),
        Verb::Get(args) => read::get(&args, context),
        Verb::Set(args) => change::set(&args, context),
        Verb::Del(args) => change::del(&args, context),
        Verb::List(args) => read::list(&args, context),
        Verb::Tree(args) => tree::run(&args, context),
        Verb::Stat(args) => stat::run(&args, context),
        Verb::Diff(args) => diff::run(&args, context),
        Verb::Load(args) => load::run(&args, context),
    }
}

impl From<OkraError> for Failure {
    fn from(error: OkraError) -> Self {
        match &error {
            OkraError::KeyEmpty
            | OkraError::KeyTooLong { .. }
            | OkraError::ValueTooLong { .. }
            | OkraError::NoHash { .. } => Self::usage(with_way(error.to_string(), "give another one")),
            OkraError::Exists { file } => {
                Self::usage(format!("{file}: there is a map already; use it, or choose another folder"))
            }
            OkraError::NoMap { file } => Self::failed(format!(
                "{file}: there is no Okra map here; make one with `cone map init DIR --kind okra`, or name another folder"
            )),
            OkraError::Incompatible { .. } => {
                Self::failed(with_way(error.to_string(), "nothing was changed; name the folder of an Okra map"))
            }
            OkraError::MapFull { file, bytes_max } => Self::failed(format!(
                "{file} would grow beyond the {bytes_max} bytes that it may have; nothing was changed; give it more with \
                 --map-bytes"
            )),
            OkraError::NoSpace { file } => Self::failed(format!(
                "{file}: no space left on the device; nothing was changed; make room and run it again"
            )),
            OkraError::Damaged { .. } | OkraError::Corrupt { .. } => {
                Self::failed(with_way(error.to_string(), "`cone map stat --check` looks at the whole map"))
            }
            OkraError::Io { file, source } => Self::file("access", file, source),
            _ => Self::failed(with_way(error.to_string(), "`cone map stat --check` tells whether the map is sound")),
        }
    }
}
