//! The object database: loose objects, packs and alternates.
//!
//! An object is looked for in the packs, then among the loose ones, then in the same way in each alternate. If it is
//! nowhere, the folders of packs that may have changed are listed again and searched once more: other processes add
//! packs and repack them. A damaged copy is no answer as long as there is a whole one.
//!
//! The tree without entries is there also where nobody wrote it, as for every Git: `git commit-tree` takes its id all the same.
//!
//! The bytes of an object are what the packs say. Whether they hash to its id is for [`Odb::check`] to find, for a
//! caller that does not know it yet.

use std::collections::HashSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use bristlecone::core::git::Algorithm;
use bristlecone::storage::Storage;
use bristlecone::{Error, Kind, Oid, OidPrefix, Result};

use crate::repository::error;
use crate::repository::layout::Layout;
use crate::repository::pack::open::OpenPacks;
use crate::repository::pack::{BaseCache, Pack};

mod alternates;
mod folder;
pub mod loose;
mod packs;

pub use crate::repository::hash::check_id;
use alternates::Alternates;
use folder::Folder;

/// How often a search begins again because a pack vanished while it was being read.
const SEARCHES_MAX: usize = 4;

/// How an object database is opened.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct OdbOptions {
    /// How many bytes of objects that deltas are against are kept.
    pub base_cache_bytes: u64,
    /// Other folders of objects, where what is not here is looked for. Each is rooted at the folder itself.
    pub alternates: Vec<Arc<dyn Storage>>,
}

bristlecone::setters! {
    OdbOptions {
        base_cache_bytes: u64,
        alternates: Vec<Arc<dyn Storage>>,
    }
}

impl Default for OdbOptions {
    fn default() -> Self {
        Self { base_cache_bytes: 64 << 20, alternates: Vec::new() }
    }
}

/// The objects of a repository.
#[derive(Debug)]
pub struct Odb {
    algorithm: Algorithm,
    /// The id of the tree without entries.
    empty_tree: Oid,
    /// The repository's own, then the alternates.
    folders: Vec<Folder>,
    /// Folders of objects that it names as alternates, and that are not there.
    absent: Vec<PathBuf>,
    cache: BaseCache,
    open: OpenPacks,
}

impl Odb {
    /// Opens the objects of the repository whose common folder `storage` is rooted at.
    ///
    /// # Errors
    /// Those of the system.
    pub fn open(storage: Arc<dyn Storage>, algorithm: Algorithm, options: OdbOptions) -> Result<Self> {
        let own = Folder::new(storage, "objects/", algorithm);
        let others = options.alternates.into_iter().map(|storage| Folder::new(storage, "", algorithm));
        let folders: Vec<Folder> = std::iter::once(own).chain(others).collect();
        let cache = BaseCache::new(options.base_cache_bytes);
        let empty_tree = algorithm.object_id(Kind::Node, b"");
        let odb = Self { algorithm, empty_tree, folders, absent: Vec::new(), cache, open: OpenPacks::default() };
        odb.refresh()?;
        Ok(odb)
    }

    /// Opens the objects of a repository of the operating system, with the alternates that it names, and those that
    /// these name, at most six levels deep.
    ///
    /// # Errors
    /// Those of the system.
    pub fn open_path(layout: &Layout) -> Result<Self> {
        Self::open_path_with(layout, OdbOptions::default())
    }

    /// As [`Odb::open_path`], with options; alternates that they name come after those of the repository.
    ///
    /// # Errors
    /// Those of the system.
    pub fn open_path_with(layout: &Layout, mut options: OdbOptions) -> Result<Self> {
        let Alternates { mut found, absent } = alternates::of(&layout.common_dir.join("objects"))?;
        found.append(&mut options.alternates);
        options.alternates = found;
        Ok(Self { absent, ..Self::open(layout.storage(), layout.algorithm, options)? })
    }

    /// Returns an alternate that is not there, if one is named.
    pub(crate) fn absent_alternate(&self) -> Option<&Path> {
        self.absent.first().map(PathBuf::as_path)
    }

    /// Returns the hash of the ids.
    #[must_use]
    pub fn algorithm(&self) -> Algorithm {
        self.algorithm
    }

    /// Returns the id of the tree without entries.
    pub(crate) fn empty_tree(&self) -> Oid {
        self.empty_tree
    }

    /// Replaces `out` by the bytes of an object as Git has them, without a header, and returns its kind.
    ///
    /// # Errors
    /// [`Error::Corrupt`] if every copy is damaged; those of the system.
    pub fn read(&self, oid: &Oid, out: &mut Vec<u8>) -> Result<Option<Kind>> {
        out.clear();
        let found = self.search(oid, |place| match place {
            Place::Packed(pack, n) => pack.read(n, &self.cache, out).map(Some),
            Place::Loose(folder) => folder.read_loose(oid, out),
        })?;
        if found.is_none() && *oid == self.empty_tree {
            out.clear();
            return Ok(Some(Kind::Node));
        }
        Ok(found)
    }

    /// Returns the kind and the size in bytes of an object, inflating next to nothing.
    ///
    /// # Errors
    /// As [`Odb::read`].
    pub fn header(&self, oid: &Oid) -> Result<Option<(Kind, u64)>> {
        let found = self.search(oid, |place| match place {
            Place::Packed(pack, n) => pack.header(n, &self.cache).map(Some),
            Place::Loose(folder) => folder.loose_header(oid),
        })?;
        Ok(found.or_else(|| (*oid == self.empty_tree).then_some((Kind::Node, 0))))
    }

    /// Whether the object is there. An object that another process added within the last millisecond may be missed.
    ///
    /// # Errors
    /// Those of the system.
    pub fn contains(&self, oid: &Oid) -> Result<bool> {
        Ok(*oid == self.empty_tree || self.is_written(oid)?)
    }

    /// As [`Odb::contains`], of the tree without entries only where it was written: `git fsck` asks for that.
    pub(crate) fn is_written(&self, oid: &Oid) -> Result<bool> {
        let since = Instant::now();
        if self.is_there(oid)? {
            return Ok(true);
        }
        Ok(self.refresh_after_miss(since, false)? && self.is_there(oid)?)
    }

    /// Whether the object was written, is there, of this kind and not damaged: it is read and hashed. By default Git syncs no loose
    /// object, and a pack may have decayed.
    ///
    /// # Errors
    /// Those of the system.
    pub(crate) fn is_sound(&self, oid: &Oid, kind: Kind) -> Result<bool> {
        let mut raw = Vec::new();
        let found = self.search(oid, |place| {
            let found = match place {
                Place::Packed(pack, n) => Some(pack.read(n, &self.cache, &mut raw)?),
                Place::Loose(folder) => folder.read_loose(oid, &mut raw)?,
            };
            found.map(|kind| self.check(oid, kind, &raw).map(|()| kind)).transpose()
        });
        match found {
            Err(Error::Corrupt { .. }) => Ok(false),
            found => Ok(found? == Some(kind)),
        }
    }

    fn is_there(&self, oid: &Oid) -> Result<bool> {
        for folder in &self.folders {
            if folder.packs().find(oid).is_some() || folder.has_loose(oid)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Calls `each` with the ids of all objects, each once: those of a pack in the order they lie in it, in which they
    /// are read fastest; then the loose ones.
    ///
    /// # Errors
    /// The first of `each`; [`Error::Corrupt`] for an index that cannot be read; those of the system.
    pub fn each_oid(&self, each: &mut dyn FnMut(Oid) -> Result<()>) -> Result<()> {
        self.refresh()?;
        self.broken()?;
        // Each large pack is searched for an object; there are too many small ones for that.
        let mut large: Vec<Arc<Pack>> = Vec::new();
        let mut in_small: HashSet<Oid> = HashSet::new();
        for folder in &self.folders {
            let packs = folder.packs().all();
            for pack in packs {
                let small = packs::is_small(&pack);
                for (_, n) in pack.index().by_offset()? {
                    let oid = pack.index().oid(n as usize);
                    let known = large.iter().any(|other| other.index().find(&oid).is_some());
                    if !known && if small { in_small.insert(oid) } else { !in_small.contains(&oid) } {
                        each(oid)?;
                    }
                }
                if !small {
                    large.push(pack);
                }
            }
        }
        for (i, folder) in self.folders.iter().enumerate() {
            folder.each_loose(&|_| true, &mut |oid| {
                if in_small.contains(&oid) || large.iter().any(|pack| pack.index().find(&oid).is_some()) {
                    return Ok(());
                }
                for other in &self.folders[..i] {
                    if other.has_loose(&oid)? {
                        return Ok(());
                    }
                }
                each(oid)
            })?;
        }
        Ok(())
    }

    /// Calls `each` with the ids that begin with some digits, for copies of an object maybe again; that of the tree without
    /// entries only where it was written.
    ///
    /// # Errors
    /// As [`Odb::each_oid`].
    pub fn each_with_prefix(&self, prefix: &OidPrefix, each: &mut dyn FnMut(Oid) -> Result<()>) -> Result<()> {
        self.refresh()?;
        self.broken()?;
        let words = prefix.first_words();
        let first = (words.start() >> 56) as u8..=(words.end() >> 56) as u8;
        for folder in &self.folders {
            let packs = folder.packs().all();
            for pack in packs {
                let index = pack.index();
                index.with_prefix(prefix).try_for_each(|n| each(index.oid(n)))?;
            }
            folder.each_loose(&|dir| first.contains(&dir), &mut |oid| {
                if prefix.matches(&oid) { each(oid) } else { Ok(()) }
            })?;
        }
        Ok(())
    }

    /// Looks for packs that appeared or vanished.
    ///
    /// # Errors
    /// Those of the system.
    pub fn refresh(&self) -> Result<()> {
        self.folders.iter().try_for_each(Folder::refresh)
    }

    /// Returns the names of the packs of this repository, without alternates: `pack-…` without ending.
    #[must_use]
    pub fn pack_names(&self) -> Vec<String> {
        let mut names: Vec<String> = self.folders[0].packs().names().cloned().collect();
        names.sort_unstable();
        names
    }

    /// Returns the packs, those of alternates last.
    #[must_use]
    pub fn packs(&self) -> Vec<Arc<Pack>> {
        self.folders.iter().flat_map(|folder| folder.packs().all()).collect()
    }

    /// Returns the packs from a remote that promised to give whatever their objects name: in a partial clone what such
    /// an object names may be absent.
    ///
    /// # Errors
    /// Those of the system.
    pub fn promisor_packs(&self) -> Result<Vec<Arc<Pack>>> {
        let mut packs = Vec::new();
        for folder in &self.folders {
            packs.append(&mut folder.promisor_packs()?);
        }
        Ok(packs)
    }

    /// Takes in a pack that was just written here.
    ///
    /// # Errors
    /// [`Error::Corrupt`] if its index is damaged; those of the system.
    pub fn add_pack(&self, name: &str) -> Result<()> {
        self.folders[0].add_pack(name, None)
    }

    /// As [`Odb::add_pack`], with the bytes of the index, which are then not read again.
    ///
    /// # Errors
    /// [`Error::Corrupt`] if it is damaged.
    pub fn add_pack_with(&self, name: &str, index: Vec<u8>) -> Result<()> {
        self.folders[0].add_pack(name, Some(index))
    }

    /// Forgets a pack, before its files are removed or after.
    pub fn forget_pack(&self, name: &str) {
        self.folders[0].forget_pack(name);
    }

    /// Checks that bytes have this id: by the SHA-1 that finds collisions, or by SHA-256.
    ///
    /// # Errors
    /// [`Error::Corrupt`] if not.
    pub fn check(&self, oid: &Oid, kind: Kind, raw: &[u8]) -> Result<()> {
        check_id(self.algorithm, oid, kind, raw).map_err(|reason| {
            let (file, offset) = self.place(oid).unwrap_or_else(|| (self.folders[0].describe(), 0));
            error::corrupt(file, offset, Some(*oid), reason)
        })
    }

    /// Returns the file of a pack that has the object, and the offset there.
    fn place(&self, oid: &Oid) -> Option<(String, u64)> {
        let (pack, n) = self.folders.iter().find_map(|folder| folder.packs().find(oid))?;
        Some((pack.describe(), pack.index().offset(n)?))
    }

    /// Calls `read` with places where the object is until one gives it.
    fn search<R>(&self, oid: &Oid, mut read: impl FnMut(Place<'_>) -> Result<Option<R>>) -> Result<Option<R>> {
        let mut refreshed = false;
        let mut first_error = None;
        for _ in 0..SEARCHES_MAX {
            let since = Instant::now();
            let mut vanished = false;
            for folder in &self.folders {
                match self.search_in(folder, oid, &mut read) {
                    Ok(None) => {}
                    Ok(found) => return Ok(found),
                    Err(Error::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => vanished = true,
                    Err(error) => _ = first_error.get_or_insert(error),
                }
            }
            if vanished {
                self.refresh()?;
            } else if refreshed || !self.refresh_after_miss(since, true)? {
                break;
            }
            refreshed = true;
        }
        match first_error {
            Some(error) => Err(error),
            None => self.broken().map(|()| None),
        }
    }

    fn search_in<R>(
        &self,
        folder: &Folder,
        oid: &Oid,
        read: &mut impl FnMut(Place<'_>) -> Result<Option<R>>,
    ) -> Result<Option<R>> {
        let packed = folder.packs().find(oid);
        let Some((pack, n)) = packed else { return read(Place::Loose(folder)) };
        let mut first = match self.read_packed(&pack, n, read) {
            Err(error) => error,
            found => return found,
        };
        // Damaged there, or gone: another copy is as good.
        let others = folder.packs().find_all(oid);
        for (other, n) in others.into_iter().filter(|other| other.0.id() != pack.id()) {
            match self.read_packed(&other, n, read) {
                Err(error @ Error::Corrupt { .. }) => first = error,
                Err(_) => {}
                found => return found,
            }
        }
        match read(Place::Loose(folder)) {
            Ok(Some(found)) => Ok(Some(found)),
            _ => Err(first),
        }
    }

    fn read_packed<R>(
        &self,
        pack: &Arc<Pack>,
        n: usize,
        read: &mut impl FnMut(Place<'_>) -> Result<Option<R>>,
    ) -> Result<Option<R>> {
        self.open.use_pack(pack);
        read(Place::Packed(pack, n))
    }

    /// Lists folders of packs again that may have changed; returns whether to search again.
    fn refresh_after_miss(&self, since: Instant, exact: bool) -> Result<bool> {
        let mut again = false;
        for folder in &self.folders {
            again |= folder.refresh_after_miss(since, exact)?;
        }
        Ok(again)
    }

    /// Fails if there is a pack whose index cannot be read: what was not found may be in it.
    fn broken(&self) -> Result<()> {
        for folder in &self.folders {
            if let Some((name, reason)) = folder.packs().broken.iter().next() {
                let file = format!("{}/pack/{name}.idx", folder.describe());
                return Err(error::corrupt(file, 0, None, reason.clone()));
            }
        }
        Ok(())
    }
}

/// Where an object may be.
enum Place<'a> {
    Packed(&'a Pack, usize),
    Loose(&'a Folder),
}
