//! Which map is meant: that of a store or that of an LMDB file, and opening it.

use std::{
    ffi::OsString,
    path::{Path as FilePath, PathBuf},
    sync::Arc,
};

use bristlecone::{Error, KEY_BYTES_MAX, Kind, Map, ObjRef, Object, Path, Repo, Snapshot};
use bristlecone_any::{AnyFormat, Tree, path};
use bristlecone_lmdb::okra::{self, Mode, OkraError, OkraMap, OkraOptions};
use clap::Args;

use crate::{
    commit::{Change, Committed},
    failure::{Failure, Result, with_way},
    open::{Access, Globals, Opened, is_okra},
    text::show,
    who::{CommitArgs, DurabilityArg},
};

/// Which directory of a store is the map.
#[derive(Args, Clone, Debug)]
pub(super) struct PathArgs {
    /// The directory of a store that is the map [default: the root]
    #[arg(long, value_name = "PATH", default_value = "", hide_default_value = true)]
    pub(super) path: OsString,
}

/// Which map is read.
#[derive(Args, Clone, Debug)]
pub(super) struct ReadArgs {
    #[command(flatten)]
    pub(super) path: PathArgs,
    /// In which revision of a store [default: the branch's head]
    #[arg(long, value_name = "REV")]
    pub(super) at: Option<OsString>,
}

/// Which map is changed, and how.
#[derive(Args, Debug)]
pub(super) struct WriteArgs {
    #[command(flatten)]
    pub(super) path: PathArgs,
    /// What the file of an Okra map may grow to [default: 1 TiB]
    #[arg(long, value_name = "BYTES", allow_negative_numbers = true)]
    map_bytes: Option<u64>,
    /// When the commit to a store is done; changes of an Okra map are always synced
    #[arg(long, value_enum, default_value_t)]
    durability: DurabilityArg,
    #[command(flatten)]
    commit: CommitArgs,
}

/// An open map.
pub(super) enum AnyMap {
    Native(Box<NativeMap>),
    Okra(Box<OkraMap>),
}

/// A directory of a store.
pub(super) struct NativeMap {
    pub(super) opened: Opened,
    pub(super) repo: Repo,
    path: Path,
}

/// Opens the map to read; what was given for a store alone is refused where it is an Okra map.
pub(super) fn open_to_read(globals: &Globals, args: &ReadArgs) -> Result<AnyMap> {
    Ok(open_to_check(globals, args)??)
}

/// As [`open_to_read`]; what is wrong with the pages of an Okra map is the inner error.
pub(super) fn open_to_check(globals: &Globals, args: &ReadArgs) -> Result<okra::Result<AnyMap>> {
    let Some(dir) = okra_dir(globals) else {
        let map = NativeMap::open(globals, &args.path, Access::Read)?;
        return Ok(Ok(AnyMap::Native(Box::new(map))));
    };
    let at = args.at.is_some().then_some("--at");
    refuse_for_okra(&dir, at.or(of_store(globals, &args.path)?))?;
    match open_okra(&dir, Access::Read, None) {
        Err(damage @ OkraError::Corrupt { .. }) => Ok(Err(damage)),
        opened => Ok(Ok(AnyMap::Okra(Box::new(opened?)))),
    }
}

/// Opens the map to change it; what was given for a map of the other kind alone is refused.
pub(super) fn open_to_write(globals: &Globals, args: &WriteArgs) -> Result<AnyMap> {
    match okra_dir(globals) {
        Some(dir) => {
            refuse_for_okra(&dir, of_store(globals, &args.path)?.or_else(|| args.commit.given()))?;
            if !matches!(args.durability, DurabilityArg::Synced) {
                let way = "changes of which are always synced; leave --durability out";
                return Err(Failure::usage(format!("{} is an Okra map, {way}", show(&dir))));
            }
            Ok(AnyMap::Okra(Box::new(open_okra(&dir, Access::Write, args.map_bytes)?)))
        }
        None if args.map_bytes.is_some() => {
            Err(Failure::usage("--map-bytes is for Okra maps, and this is a map in a store; leave it out"))
        }
        None => NativeMap::open(globals, &args.path, Access::Write).map(|map| AnyMap::Native(Box::new(map))),
    }
}

/// Returns the first option that was given of those that say which map of a store is meant.
fn of_store(globals: &Globals, args: &PathArgs) -> Result<Option<&'static str>> {
    let path = (!args.path.is_empty()).then_some("--path");
    let branch = globals.branch()?.is_some().then_some("-b");
    Ok(path.or(branch))
}

/// Returns the folder of the Okra map that is meant; `None` where it is a store.
pub(super) fn okra_dir(globals: &Globals) -> Option<PathBuf> {
    let dir = globals.repo().unwrap_or(FilePath::new("."));
    is_okra(dir).then(|| dir.to_owned())
}

fn refuse_for_okra(dir: &FilePath, given: Option<&str>) -> Result<()> {
    let Some(option) = given else { return Ok(()) };
    let way = "an Okra map is the whole file and keeps its last state alone; leave the option out";
    Err(Failure::usage(format!("{} is an Okra map, to which {option} means nothing: {way}", show(dir))))
}

/// Opens the Okra map of a folder.
fn open_okra(dir: &FilePath, access: Access, map_bytes: Option<u64>) -> okra::Result<OkraMap> {
    let options = OkraOptions::default().read_only(access == Access::Read);
    let options = match map_bytes {
        Some(bytes) => options.map_bytes_max(bytes),
        None => options,
    };
    OkraMap::open(dir, &options)
}

impl AnyMap {
    /// Whether values are hashes of 16 bytes.
    pub(super) fn is_index(&self) -> bool {
        matches!(self, Self::Okra(map) if map.mode() == Mode::Index)
    }

    /// Says what is wrong with a key or a value for this map, if something is.
    pub(super) fn refusal(&self, key: &[u8], value: Option<&[u8]>) -> Option<String> {
        let bytes_max = match self {
            Self::Native(_) => KEY_BYTES_MAX,
            Self::Okra(_) => okra::KEY_BYTES_MAX,
        };
        if key.len() > bytes_max {
            return Some(format!("the key has {} bytes, and at most {bytes_max} fit", key.len()));
        }
        if key.is_empty() && matches!(self, Self::Okra(_)) {
            return Some("the key is empty, and a key of an Okra map has at least one byte".to_owned());
        }
        let bytes = value.filter(|value| self.is_index() && value.len() != okra::HASH_BYTES)?.len();
        Some(format!("the value has {bytes} bytes, and a map in index mode takes hashes of {}", okra::HASH_BYTES))
    }

    /// Fails if a key, or a value with it, does not fit this map.
    pub(super) fn check(&self, key: &[u8], value: Option<&[u8]>) -> Result<()> {
        self.refusal(key, value).map_or(Ok(()), |reason| Err(Failure::usage(with_way(reason, "give another one"))))
    }
}

impl NativeMap {
    fn open(globals: &Globals, args: &PathArgs, access: Access) -> Result<Self> {
        let path = path::parse(&args.path)?;
        let opened = globals.open(access)?;
        let format = opened.repo.format();
        let AnyFormat::Native(native) = format else {
            let place = opened.repo.dir().map_or_else(|| "the store".to_owned(), show);
            let way = "name a store of the format native, or make a map with `cone map init`";
            return Err(Failure::failed(format!(
                "{place} keeps objects of the format {}, and maps are directories of the format native; {way}",
                format.name()
            )));
        };
        let repo = Repo::with_backend(*native, opened.repo.backend().clone());
        Ok(Self { opened, repo, path })
    }

    /// Returns the map as it is at a revision; one without entries where there are no commits.
    pub(super) fn map_at(&self, at: Option<&OsString>) -> Result<Map> {
        self.map_in(&self.opened.tree_to_read(at)?)
    }

    /// Returns the directory of a tree that is the map, which must be there unless the tree is empty.
    pub(super) fn map_in(&self, tree: &Tree) -> Result<Map> {
        if !tree.is_empty()? {
            path::check_dir(tree, &self.path)?;
        }
        self.map_or_empty(tree)
    }

    /// Returns the maps of two trees, one of which may lack the directory.
    pub(super) fn maps_in(&self, before: &Tree, after: &Tree) -> Result<(Map, Map)> {
        if !before.contains_tree(&self.path)? {
            return Ok((self.map_or_empty(before)?, self.map_in(after)?));
        }
        Ok((self.map_in(before)?, self.map_or_empty(after)?))
    }

    fn map_or_empty(&self, tree: &Tree) -> Result<Map> {
        match tree.get_tree(&self.path)? {
            Some(dir) if !dir.is_empty()? => Ok(self.repo.tree_at(dir.root()?).into()),
            _ => Ok(self.repo.map()),
        }
    }

    /// Edits the map of the branch to change and commits it, again from the start if another process was faster.
    pub(super) fn commit(
        &self,
        args: &WriteArgs,
        message: &str,
        edit: &mut dyn FnMut(&mut Map) -> Result<()>,
    ) -> Result<Committed> {
        let change = Change::new(&self.opened, &args.commit, message, args.durability)?;
        change.commit(&mut |tree| {
            self.check_place(tree)?;
            let mut map = self.map_or_empty(tree)?;
            edit(&mut map)?;
            let dir = if map.is_empty()? {
                self.opened.repo.tree()
            } else {
                self.opened.repo.tree_at(map.tree_mut().write()?)
            };
            Ok(tree.set_tree(&self.path, &dir)?)
        })
    }

    /// Refuses to make a directory where that would take a value away.
    fn check_place(&self, tree: &Tree) -> Result<()> {
        let path = &self.path;
        let is_value = !path.is_root() && tree.contains(path)?;
        match path::value_above(tree, path)?.or_else(|| is_value.then(|| path.clone())) {
            Some(at) => {
                let way = format!("name a directory, or remove it first (`cone del {at}`)");
                Err(Failure::usage(format!("{at} is a value, and the map is to be a directory; {way}")))
            }
            None => Ok(()),
        }
    }

    /// Returns the objects of the store, with the root of a map kept; `None` for a map without entries.
    pub(super) fn pieces(&self, map: &Map) -> Result<Option<(Objects, ObjRef)>> {
        if map.is_empty()? {
            return Ok(None);
        }
        let root = ObjRef::from(map.root()?);
        Ok(Some((Objects(self.repo.backend().snapshot(&[root.oid])), root)))
    }
}

/// The objects of a store as they are at one moment.
pub(super) struct Objects(Arc<dyn Snapshot>);

impl Objects {
    /// Reads an object of a kind that is known where it is named.
    pub(super) fn read(&self, kind: Kind, at: &ObjRef) -> bristlecone::Result<Object<'_>> {
        self.0.read(at)?.ok_or(Error::Missing { kind, oid: at.oid })
    }
}
