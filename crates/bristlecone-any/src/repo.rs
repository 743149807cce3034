//! A store of any format in any backend, and what is checked out in it.

use std::{
    collections::HashSet,
    fs, io,
    ops::Deref,
    path::{Path as FilePath, PathBuf},
    sync::Arc,
};

use bristlecone::{
    Backend, CommitId, Damage, Format, Kind, MemoryBackend, ObjRef, Object, Oid, RefTarget, Snapshot, core::Source,
    disk::DiskBackend, fs::FsBackend,
};
use bristlecone_git::{backend::GitBackend, history, layout::Layout, worktree::Settings};
use bristlecone_lmdb::backend::LmdbBackend;
use bristlecone_lsm::LsmBackend;

use crate::{
    error::{Error, Result},
    format::{AnyFormat, Repo},
    place::Place,
};

mod options;

pub use options::OpenOptions;

/// The branch that is checked out at first.
pub const FIRST_BRANCH: &str = "main";
const BRANCHES: &str = "refs/heads/";

/// An open store of any format in any backend. Cheap to clone; clones share everything.
///
/// It is a [`bristlecone::Repo`] of [`AnyFormat`], whose methods read and write. Here is what it adds: where the store
/// is, what keeps it, and what is checked out.
#[derive(Clone, Debug)]
pub struct AnyRepo {
    repo: Repo,
    backend: AnyBackend,
    dir: Option<PathBuf>,
}

/// What keeps the objects and refs of an open store.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum AnyBackend {
    /// The engine on files.
    Disk(Arc<DiskBackend>),
    /// One file an object.
    Fs(Arc<FsBackend>),
    /// A Git repository.
    Git(Arc<GitBackend>, Arc<Layout>),
    /// LMDB.
    Lmdb(Arc<LmdbBackend>),
    /// A log-structured merge tree.
    Lsm(Arc<LsmBackend>),
    /// Memory.
    Memory(Arc<MemoryBackend>),
}

/// What is checked out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Head {
    /// A branch, which need not exist yet.
    Branch(String),
    /// A commit.
    Detached(CommitId),
}

/// Opening with the options that stand for themselves; [`OpenOptions`] has others.
impl AnyRepo {
    /// Opens a store for reading and writing: by a path, a url as in [`crate::place`], or a [`Place`].
    ///
    /// # Errors
    /// As [`OpenOptions::open`].
    pub fn open(place: impl TryInto<Place, Error: Into<Error>>) -> Result<Self> {
        OpenOptions::new().open(place)
    }

    /// Opens a store for reading only: nothing of it is written, not even a repair ([`OpenOptions::read_only`]).
    ///
    /// # Errors
    /// As [`OpenOptions::open`].
    pub fn open_read_only(place: impl TryInto<Place, Error: Into<Error>>) -> Result<Self> {
        OpenOptions::new().read_only(true).open(place)
    }

    /// Opens a store, or makes one of the native format where there is none.
    ///
    /// # Errors
    /// As [`OpenOptions::open_or_create`].
    pub fn open_or_create(place: impl TryInto<Place, Error: Into<Error>>) -> Result<Self> {
        OpenOptions::new().open_or_create(place)
    }

    /// Makes a store of a format.
    ///
    /// # Errors
    /// As [`OpenOptions::create`].
    pub fn create(place: impl TryInto<Place, Error: Into<Error>>, format: AnyFormat) -> Result<Self> {
        OpenOptions::new().format(format).create(place)
    }

    /// Opens the nearest store: in the folder `from`, or in one above it.
    ///
    /// # Errors
    /// [`Error::NoStore`] if there is none; else as [`OpenOptions::open`].
    pub fn find(from: impl AsRef<FilePath>) -> Result<Self> {
        OpenOptions::new().open_found(Place::find_above(from.as_ref())?)
    }
}

impl AnyRepo {
    /// `committer`: who signs commits where nothing else is said.
    fn new(format: AnyFormat, backend: AnyBackend, dir: Option<PathBuf>, committer: Option<Vec<u8>>) -> Self {
        let repo = Repo::with_backend(format, backend.get());
        let repo = if let Some(ident) = committer { repo.with_committer(ident) } else { repo };
        Self { repo, backend, dir }
    }

    /// Returns the same store with something put between it and its backend, such as [`bristlecone::Counted`]. Copies go through
    /// that, too, whatever keeps the store.
    #[must_use]
    pub fn wrapped(&self, wrap: impl FnOnce(Arc<dyn Backend>) -> Arc<dyn Backend>) -> Self {
        let backend = wrap(self.repo.backend().clone());
        let repo = Repo::with_backend(self.repo.format().clone(), backend).with_committer(self.repo.committer());
        Self { repo, ..self.clone() }
    }

    /// Returns what keeps the store.
    #[must_use]
    pub const fn any_backend(&self) -> &AnyBackend {
        &self.backend
    }

    /// Returns the disk engine, if that keeps the store.
    #[must_use]
    pub const fn disk(&self) -> Option<&Arc<DiskBackend>> {
        match &self.backend {
            AnyBackend::Disk(disk) => Some(disk),
            _ => None,
        }
    }

    /// Returns the backend and the folders of the Git repository, if that is what the store is.
    #[must_use]
    pub const fn git(&self) -> Option<(&Arc<GitBackend>, &Arc<Layout>)> {
        match &self.backend {
            AnyBackend::Git(git, layout) => Some((git, layout)),
            _ => None,
        }
    }

    /// As [`AnyRepo::git`], unless something is put between the store and its backend, which is to see all that is read and written.
    pub(crate) fn unwrapped_git(&self) -> Option<(&Arc<GitBackend>, &Arc<Layout>)> {
        self.git().filter(|_| !self.is_wrapped())
    }

    /// As [`AnyRepo::disk`], unless something is put between the store and its backend.
    pub(crate) fn unwrapped_disk(&self) -> Option<&Arc<DiskBackend>> {
        self.disk().filter(|_| !self.is_wrapped())
    }

    fn is_wrapped(&self) -> bool {
        !Arc::ptr_eq(&self.backend.get(), self.repo.backend())
    }

    /// Returns the folder of the store: its `.bristlecone`, or the folder of a Git repository that holds its `HEAD`.
    /// `None` in memory.
    #[must_use]
    pub fn dir(&self) -> Option<&FilePath> {
        self.dir.as_deref()
    }

    /// Returns what is lost of the end of the log: what is read may be old, and nothing is written. `None` if nothing is.
    #[must_use]
    pub fn lost_end(&self) -> Option<&Damage> {
        self.disk()?.lost_end()
    }

    /// Returns what the user should know of what was found when the store was opened, a sentence each.
    #[must_use]
    pub fn notes(&self) -> Vec<&str> {
        match &self.backend {
            AnyBackend::Disk(disk) => disk.note().into_iter().collect(),
            AnyBackend::Git(git, _) => git.notes().collect(),
            _ => Vec::new(),
        }
    }

    /// Returns the settings of Git that count here, if the store is a Git repository.
    ///
    /// # Errors
    /// As [`Settings::of`].
    pub fn settings(&self) -> Result<Option<Settings>> {
        Ok(self.git().map(|(_, layout)| Settings::of(layout)).transpose()?)
    }

    /// Makes everything durable and ends the work in the background, once a collection that the store began by itself
    /// has ended; what was put around the backend is flushed first. Dropping the store makes everything durable, too, but could not
    /// say that it failed.
    ///
    /// # Errors
    /// As [`Backend::flush`].
    pub fn close(&self) -> Result<()> {
        // A collection that a commit began: where it failed, the next one tries again.
        let _ = self.repo.wait_for_collection();
        let flushed = if self.is_wrapped() { self.repo.backend().flush() } else { Ok(()) };
        match &self.backend {
            AnyBackend::Disk(disk) => disk.close()?,
            AnyBackend::Fs(fs) => fs.close()?,
            AnyBackend::Git(git, _) => git.close()?,
            AnyBackend::Lmdb(lmdb) => lmdb.close()?,
            AnyBackend::Lsm(lsm) => lsm.close()?,
            AnyBackend::Memory(_) => {}
        }
        Ok(flushed?)
    }

    /// Returns the whole value that an object holds.
    ///
    /// # Errors
    /// [`bristlecone::Error::Missing`], [`bristlecone::Error::WrongKind`] and others of the backend.
    pub fn contents(&self, at: ObjRef) -> Result<Vec<u8>> {
        Ok(self.repo.format().read_contents(&Objects(self.repo.backend().snapshot(&[])), &at, 0..u64::MAX)?.to_vec())
    }

    /// Returns the commits whose parents were left out when the repository was cloned, or one that was imported.
    ///
    /// # Errors
    /// Those of the backend and of the system.
    pub fn shallow(&self) -> Result<HashSet<Oid>> {
        let Some((_, layout)) = self.unwrapped_git() else { return Ok(history::shallow(&**self.repo.backend())?) };
        let file = layout.common_dir.join("shallow");
        match fs::read_to_string(&file) {
            Ok(text) => Ok(text.lines().filter_map(|line| line.trim().parse().ok()).collect()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(HashSet::new()),
            Err(error) => Err(Error::io("read", file, error)),
        }
    }

    /// Returns what is checked out: [`FIRST_BRANCH`] at first, and in a Git repository what Git has checked out until HEAD
    /// is set here.
    ///
    /// # Errors
    /// [`Error::Head`] where HEAD names something else than a branch; those of the backend.
    pub fn checked_out(&self) -> Result<Head> {
        let head = match (self.repo.head()?, &self.backend) {
            (None, AnyBackend::Git(git, _)) => git.git_head()?,
            (head, _) => head,
        };
        Ok(match head {
            None => Head::Branch(FIRST_BRANCH.to_owned()),
            Some(RefTarget::Object(at)) => Head::Detached(self.repo.commit_id(at)),
            Some(RefTarget::Symbolic(name)) => match name.strip_prefix(BRANCHES) {
                Some(branch) => Head::Branch(branch.to_owned()),
                None => return Err(Error::Head { name }),
            },
        })
    }

    /// Returns the commit that is checked out, through its branch or by itself; `None` if there is none yet.
    ///
    /// # Errors
    /// As [`AnyRepo::checked_out`].
    pub fn checked_out_commit(&self) -> Result<Option<CommitId>> {
        match self.checked_out()? {
            Head::Branch(name) => Ok(self.repo.branch(&name)?.head()?),
            Head::Detached(at) => Ok(Some(at)),
        }
    }
}

impl Deref for AnyRepo {
    type Target = Repo;

    fn deref(&self) -> &Repo {
        &self.repo
    }
}

impl AnyBackend {
    fn get(&self) -> Arc<dyn Backend> {
        match self {
            Self::Disk(disk) => disk.clone(),
            Self::Fs(fs) => fs.clone(),
            Self::Git(git, _) => git.clone(),
            Self::Lmdb(lmdb) => lmdb.clone(),
            Self::Lsm(lsm) => lsm.clone(),
            Self::Memory(memory) => memory.clone(),
        }
    }
}

/// The objects of a store.
struct Objects(Arc<dyn Snapshot>);

impl Source for Objects {
    type Error = bristlecone::Error;

    fn read<'a>(&'a self, kind: Kind, at: &ObjRef) -> bristlecone::Result<Object<'a>> {
        self.0.read(at)?.ok_or(bristlecone::Error::Missing { kind, oid: at.oid })
    }
}

/// Returns the name of a branch without what goes before the names of all branches.
#[must_use]
pub fn short_branch(name: &str) -> &str {
    name.strip_prefix(BRANCHES).unwrap_or(name)
}

/// Returns the name of a branch that is to be made, short, if Git takes such a name from people, too.
///
/// # Errors
/// [`Error::BranchName`] for a name that means something else where names are read. What no ref can be called is refused
/// later, by [`bristlecone::Repo::branch`].
pub fn check_new_branch(name: &str) -> Result<&str> {
    let name = short_branch(name);
    let why = match name {
        "HEAD" | "@" => "that means what is checked out",
        _ if name.starts_with('-') => "it would be taken for an option",
        _ => return Ok(name),
    };
    Err(Error::BranchName { name: name.to_owned(), why })
}
