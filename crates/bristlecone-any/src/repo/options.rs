//! Opening and making stores.

use std::{path::Path as FilePath, path::PathBuf, sync::Arc};

use bristlecone::{
    MemoryBackend, ReadOnly,
    core::git::Algorithm,
    disk::{DiskBackend, DiskOptions, Repaired},
    fs::{FsBackend, FsOptions},
    storage::{RealStorage, Storage},
};
use bristlecone_git::{
    backend::{GitBackend, GitOptions},
    layout::Layout,
    worktree::{Settings, foreign_owner},
};
use bristlecone_lmdb::backend::{LmdbBackend, LmdbOptions};
use bristlecone_lsm::{LsmBackend, LsmOptions};

use super::{AnyBackend, AnyRepo};
use crate::{
    error::{Error, Result},
    format::AnyFormat,
    identity,
    place::{Found, Place, STORE_DIR, refuse_headless, store_dir},
    text::shown,
};

/// How a store is opened or made.
///
/// ```
/// use bristlecone_any::{AnyFormat, OpenOptions};
///
/// let dir = tempfile::tempdir()?;
/// let git = AnyFormat::standard("git").ok_or("no such format")?;
/// let options = OpenOptions::new().format(git).lock_wait_ms(500).cache_bytes(16 << 20);
/// let repo = options.open_or_create(dir.path())?;
/// assert_eq!(repo.format().name(), "git");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct OpenOptions {
    read_only: bool,
    format: Option<AnyFormat>,
    committer: Option<Vec<u8>>,
    disk: DiskOptions,
    fs: FsOptions,
    git: GitOptions,
    lmdb: LmdbOptions,
    lsm: LsmOptions,
}

impl OpenOptions {
    /// Returns the options for reading and writing, with the defaults of each backend's own options.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Whether the store is opened for reading only: changes are refused, nothing is repaired, and no lock is taken that writers
    /// wait for.
    ///
    /// Beside what the store holds, the disk engine notes in the folder `readers` who reads, and LMDB in its table of readers; both
    /// go without where they may not write. The log-structured merge tree is the exception: its library opens a store for writing
    /// alone, so that the folder must be writable, and one process has it open at a time.
    #[must_use]
    pub fn read_only(mut self, read_only: bool) -> Self {
        self.read_only = read_only;
        self
    }

    /// The format of a store that is made [default: native; in a Git repository that of Git, with SHA-1].
    #[must_use]
    pub fn format(mut self, format: AnyFormat) -> Self {
        self.format = Some(format);
        self
    }

    /// How long an append waits for the locks of others, in milliseconds [default: 10,000].
    #[must_use]
    pub fn lock_wait_ms(mut self, lock_wait_ms: u64) -> Self {
        self.disk.lock_wait_ms = lock_wait_ms;
        self.fs.lock_wait_ms = lock_wait_ms;
        self.git.lock_wait_ms = lock_wait_ms;
        self.lmdb.lock_wait_ms = lock_wait_ms;
        self.lsm.lock_wait_ms = lock_wait_ms;
        self
    }

    /// The budget in bytes for what is kept in memory of objects that were read [default: 64 MiB]. One file an object (`fs`) and
    /// LMDB keep none.
    #[must_use]
    pub fn cache_bytes(mut self, cache_bytes: u64) -> Self {
        self.disk.cache_bytes = cache_bytes;
        self.git.cache_bytes = cache_bytes;
        self.lsm.cache_bytes = cache_bytes;
        self
    }

    /// Within how many milliseconds a grouped commit is durable ([`bristlecone::Durability::Grouped`]) [default: 10].
    #[must_use]
    pub fn grouped_ms(mut self, grouped_ms: u64) -> Self {
        self.disk.grouped_ms = grouped_ms;
        self.fs.grouped_ms = grouped_ms;
        self.git.grouped_ms = grouped_ms;
        self.lmdb.grouped_ms = grouped_ms;
        self.lsm.grouped_ms = grouped_ms;
        self
    }

    /// Whether threads may work beside commits; without them, the commit or the next call does what they would do
    /// [default: they may].
    #[must_use]
    pub fn background(mut self, background: bool) -> Self {
        self.disk.background = background;
        self.fs.background = background;
        self.git.background = background;
        self.lmdb.background = background;
        self.lsm.background = background;
        self
    }

    /// Who signs commits where nothing else is said, and who moves refs, as reflogs of a Git repository note it:
    /// `Name <mail>` [default: in a Git repository as Git finds out, see [`crate::identity`]; else as
    /// [`bristlecone::Repo::committer`] says].
    #[must_use]
    pub fn committer(mut self, ident: impl Into<Vec<u8>>) -> Self {
        self.committer = Some(ident.into());
        self
    }

    /// All options of the disk engine; those above that are set later count for it, too.
    #[must_use]
    pub fn disk(mut self, options: DiskOptions) -> Self {
        self.disk = options;
        self
    }

    /// All options of the backend of one file an object; those above that are set later count for it, too.
    #[must_use]
    pub fn fs(mut self, options: FsOptions) -> Self {
        self.fs = options;
        self
    }

    /// All options of the backend on Git repositories; those above that are set later count for it, too. Its hash, its
    /// committer and whether it is read alone are not taken from here.
    #[must_use]
    pub fn git(mut self, options: GitOptions) -> Self {
        self.git = options;
        self
    }

    /// All options of the backend on LMDB; those above that are set later count for it, too.
    #[must_use]
    pub fn lmdb(mut self, options: LmdbOptions) -> Self {
        self.lmdb = options;
        self
    }

    /// All options of the backend on a log-structured merge tree; those above that are set later count for it, too.
    #[must_use]
    pub fn lsm(mut self, options: LsmOptions) -> Self {
        self.lsm = options;
        self
    }

    /// Opens a store: by a path, a url as in [`crate::place`], or a [`Place`]. After a crash this repairs what is to be
    /// repaired.
    ///
    /// # Errors
    /// [`Error::Url`], [`Error::NoStore`], [`Error::ForeignOwner`]; in [`Error::Store`] a format that is not known here
    /// ([`bristlecone::Error::Incompatible`]), damage, locks that are held too long, and what the system says.
    pub fn open(&self, place: impl TryInto<Place, Error: Into<Error>>) -> Result<AnyRepo> {
        self.open_found(place.try_into().map_err(Into::into)?.find()?)
    }

    /// Makes a store in a place, with the folders above it. A folder becomes one that holds a `.bristlecone`; if it lies in a
    /// Git repository, that hides the repository from [`AnyRepo::find`].
    ///
    /// # Errors
    /// [`bristlecone::Error::Exists`] if there is a store; [`bristlecone::Error::ReadOnly`] if these options are for reading;
    /// [`Error::Unfit`] for a format that the backend does not keep; [`Error::Url`]; what the system says.
    pub fn create(&self, place: impl TryInto<Place, Error: Into<Error>>) -> Result<AnyRepo> {
        self.create_in(&place.try_into().map_err(Into::into)?)
    }

    /// Opens the store in a place, or makes it where there is none. Of several processes that do so at a time one makes it.
    ///
    /// # Errors
    /// As [`OpenOptions::open`] and [`OpenOptions::create`].
    pub fn open_or_create(&self, place: impl TryInto<Place, Error: Into<Error>>) -> Result<AnyRepo> {
        let place = place.try_into().map_err(Into::into)?;
        match place.find().and_then(|found| self.open_found(found)) {
            Err(error) if error.is_no_store() => {}
            opened => return opened,
        }
        match self.create_in(&place) {
            Err(Error::Store(bristlecone::Error::Exists { .. })) => self.open_found(place.find()?),
            made => made,
        }
    }

    /// Opens what was found.
    ///
    /// # Errors
    /// As [`OpenOptions::open`].
    pub fn open_found(&self, found: Found) -> Result<AnyRepo> {
        match found {
            Found::Disk(dir) => self.open_disk(dir),
            Found::Fs(dir) => self.open_fs(dir),
            Found::Lmdb(dir) => self.open_lmdb(dir),
            Found::Lsm(dir) => self.open_lsm(dir),
            Found::Git(layout) => self.open_git(*layout),
            Found::Memory => Ok(self.memory()),
        }
    }

    /// Puts right what can be put right in a store of the disk engine that need not be one that opens; see
    /// [`DiskBackend::repair`].
    ///
    /// # Errors
    /// [`Error::GitRepository`]; as [`DiskBackend::repair`].
    pub fn repair(&self, found: Found, accept_end: bool) -> Result<Repaired> {
        match found {
            Found::Disk(dir) => {
                Ok(DiskBackend::repair(Arc::new(RealStorage::new(dir)), self.disk.clone(), accept_end)?)
            }
            Found::Git(layout) => Err(Error::GitRepository { dir: layout.git_dir }),
            Found::Fs(_) | Found::Lmdb(_) | Found::Lsm(_) => {
                // What can be put right there is, when the store is opened.
                self.open_found(found)?.close()?;
                Ok(Repaired::default())
            }
            Found::Memory => Ok(Repaired::default()),
        }
    }

    fn create_in(&self, place: &Place) -> Result<AnyRepo> {
        if self.read_only {
            return Err(bristlecone::Error::ReadOnly.into());
        }
        let own = match place {
            Place::Disk(dir) => Some((dir, "disk")),
            Place::Fs(dir) => Some((dir, "fs")),
            Place::Lmdb(dir) => Some((dir, "lmdb")),
            Place::Lsm(dir) => Some((dir, "lsm")),
            Place::Folder(_) | Place::Git(_) | Place::Memory => None,
        };
        // In a folder of another name such files may be of another program.
        if let Some((dir, backend)) = own.filter(|(dir, _)| dir.ends_with(STORE_DIR)) {
            refuse_headless(dir, Some(backend))?;
        }
        let dir = match place {
            Place::Memory => return Ok(self.memory()),
            Place::Git(dir) => return self.create_git(dir),
            Place::Fs(dir) => return self.create_fs(dir.clone()),
            Place::Lmdb(dir) => return self.create_lmdb(dir.clone()),
            Place::Lsm(dir) => return self.create_lsm(dir.clone()),
            Place::Disk(dir) => dir.clone(),
            Place::Folder(dir) => match place.find() {
                // What a crash left of one that was being made is found, too.
                Ok(Found::Disk(found)) => found,
                Ok(_) => return Err(bristlecone::Error::Exists { file: shown(dir) }.into()),
                Err(Error::NoStore { .. }) => store_dir(dir),
                Err(error) => return Err(error),
            },
        };
        self.create_disk(dir)
    }

    fn create_disk(&self, dir: PathBuf) -> Result<AnyRepo> {
        let format = self.format.clone().unwrap_or_default();
        let disk = DiskBackend::create(Arc::new(RealStorage::new(&dir)), format.tag(), self.disk.clone())?;
        Ok(AnyRepo::new(format, AnyBackend::Disk(Arc::new(disk)), Some(dir), self.committer.clone()))
    }

    fn create_fs(&self, dir: PathBuf) -> Result<AnyRepo> {
        let format = self.format.clone().unwrap_or_default();
        let fs = FsBackend::create(Arc::new(RealStorage::new(&dir)), format.tag(), self.fs.clone())?;
        Ok(AnyRepo::new(format, AnyBackend::Fs(Arc::new(fs)), Some(dir), self.committer.clone()))
    }

    fn open_fs(&self, dir: PathBuf) -> Result<AnyRepo> {
        let fs = FsBackend::open(Arc::new(RealStorage::new(&dir)), self.fs.clone(), self.read_only)?;
        let format = AnyFormat::from_tag(&fs.header().format, shown(&dir))?;
        Ok(AnyRepo::new(format, AnyBackend::Fs(Arc::new(fs)), Some(dir), self.committer.clone()))
    }

    fn create_lmdb(&self, dir: PathBuf) -> Result<AnyRepo> {
        let format = self.format.clone().unwrap_or_default();
        let lmdb = LmdbBackend::create(&dir, format.tag(), self.lmdb.clone())?;
        Ok(AnyRepo::new(format, AnyBackend::Lmdb(Arc::new(lmdb)), Some(dir), self.committer.clone()))
    }

    fn open_lmdb(&self, dir: PathBuf) -> Result<AnyRepo> {
        let lmdb = LmdbBackend::open(&dir, self.lmdb.clone(), self.read_only)?;
        let format = AnyFormat::from_tag(&lmdb.header().format, shown(&dir))?;
        Ok(AnyRepo::new(format, AnyBackend::Lmdb(Arc::new(lmdb)), Some(dir), self.committer.clone()))
    }

    fn create_lsm(&self, dir: PathBuf) -> Result<AnyRepo> {
        let format = self.format.clone().unwrap_or_default();
        let lsm = LsmBackend::create(&dir, format.tag(), self.lsm.clone())?;
        Ok(AnyRepo::new(format, AnyBackend::Lsm(Arc::new(lsm)), Some(dir), self.committer.clone()))
    }

    fn open_lsm(&self, dir: PathBuf) -> Result<AnyRepo> {
        let lsm = LsmBackend::open(&dir, self.lsm.clone(), self.read_only)?;
        let format = AnyFormat::from_tag(&lsm.header().format, shown(&dir))?;
        Ok(AnyRepo::new(format, AnyBackend::Lsm(Arc::new(lsm)), Some(dir), self.committer.clone()))
    }

    fn create_git(&self, dir: &FilePath) -> Result<AnyRepo> {
        let algorithm = match &self.format {
            None => Algorithm::Sha1,
            Some(AnyFormat::Git(git)) => git.algorithm(),
            Some(other) => return Err(Error::Unfit { format: other.name(), backend: "git" }),
        };
        let bare = dir.extension().is_some_and(|ending| ending == "git");
        self.open_git(Layout::init(dir, bare, algorithm)?)
    }

    fn memory(&self) -> AnyRepo {
        let repo = AnyRepo::new(
            self.format.clone().unwrap_or_default(),
            AnyBackend::Memory(Arc::new(MemoryBackend::new())),
            None,
            self.committer.clone(),
        );
        if self.read_only { repo.wrapped(|backend| Arc::new(ReadOnly(backend))) } else { repo }
    }

    fn open_disk(&self, dir: PathBuf) -> Result<AnyRepo> {
        let storage: Arc<dyn Storage> = Arc::new(RealStorage::new(&dir));
        let format = AnyFormat::from_tag(&DiskBackend::header_in(&storage)?.format, shown(&dir))?;
        let disk = DiskBackend::open(storage, Some(format.name()), self.disk.clone(), self.read_only)?;
        Ok(AnyRepo::new(format, AnyBackend::Disk(Arc::new(disk)), Some(dir), self.committer.clone()))
    }

    fn open_git(&self, layout: Layout) -> Result<AnyRepo> {
        if let Some((place, owner)) = foreign_owner(&layout)? {
            let top = layout.worktree.unwrap_or(layout.git_dir);
            return Err(Error::ForeignOwner { place, owner, top });
        }
        let mut options = self.git.clone();
        options.read_only = self.read_only;
        let committer = match &self.committer {
            None if !self.read_only => Some(identity::committer(&Settings::of(&layout)?)),
            named => named.clone(),
        };
        if let Some(ident) = &committer {
            options.committer.clone_from(ident);
        }
        let git = Arc::new(GitBackend::open_path(&layout, options)?);
        let (format, dir) = (AnyFormat::git(layout.algorithm), layout.git_dir.clone());
        Ok(AnyRepo::new(format, AnyBackend::Git(git, Arc::new(layout)), Some(dir), committer))
    }
}
