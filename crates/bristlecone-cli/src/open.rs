//! Finding the store, opening it, and what is checked out in it.

use std::{
    env,
    ffi::OsString,
    path::{Path as FilePath, PathBuf},
    sync::Arc,
};

use bristlecone::{
    Backend, Error, Format, ObjRef, RefTarget,
    disk::{DiskBackend, DiskOptions, StoreHeader},
    storage::{RealStorage, Storage},
};
use bristlecone_git::{backend::GitBackend, layout::Layout};
use clap::Args;

use crate::{
    failure::{Failure, Result},
    formats::{AnyFormat, Branch, Repo, Tree},
    output::{Fields, Style},
    rev,
};

/// The folder in which a store lives.
pub(crate) const STORE_DIR: &str = ".bristlecone";
/// The branch that is checked out at first.
pub(crate) const FIRST_BRANCH: &str = "main";
const BRANCHES: &str = "refs/heads/";

/// Options of every command.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Everywhere")]
pub(crate) struct Globals {
    /// The store: its folder, or the .bristlecone in it [default: .bristlecone here or in a folder above]
    #[arg(short, long, global = true, value_name = "DIR")]
    repo: Option<PathBuf>,
    /// The branch to read or change [default: the one checked out]
    #[arg(short, long, global = true, value_name = "NAME")]
    branch: Option<OsString>,
    /// How to write to standard output
    #[arg(short, long, global = true, value_enum, default_value_t = Style::Human, value_name = "STYLE")]
    pub(crate) output: Style,
    /// How long to wait for other processes that are writing
    #[arg(long, global = true, default_value_t = 10.0, value_name = "SECONDS", hide_short_help = true)]
    wait: f64,
}

/// What the store is opened for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// Reading alone: nothing is written or locked.
    Read,
    /// Reading and writing.
    Write,
}

/// What is checked out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Head {
    /// A branch, which need not exist yet.
    Branch(String),
    /// A commit.
    Detached(ObjRef),
}

/// An open store with the options it was opened with.
pub(crate) struct Opened {
    pub(crate) repo: Repo,
    pub(crate) store: Store,
    /// The folder of the store: its `.bristlecone`, or the folder of a Git repository that holds its `HEAD`.
    pub(crate) dir: PathBuf,
    branch: Option<String>,
}

/// What keeps the objects and refs of an open store, where that matters: [`Opened::repo`] has it as a backend, too.
pub(crate) enum Store {
    /// The engine on files.
    Disk { backend: Arc<DiskBackend>, header: StoreHeader },
    /// A Git repository.
    #[allow(dead_code, reason = "opened once there is the format")]
    Git { backend: Arc<GitBackend>, layout: Box<Layout> },
}

impl Globals {
    /// Returns the branch that was named.
    pub(crate) fn branch(&self) -> Result<Option<String>> {
        let Some(name) = &self.branch else { return Ok(None) };
        match name.to_str() {
            Some(name) => Ok(Some(name.to_owned())),
            None => Err(Failure::usage("the name of a branch is UTF-8; name one that `cone branches` lists")),
        }
    }

    /// Returns the folder that was named for the store.
    pub(crate) fn repo(&self) -> Option<&FilePath> {
        self.repo.as_deref()
    }

    /// Returns the options of the disk engine.
    pub(crate) fn disk_options(&self) -> Result<DiskOptions> {
        let wait = self.wait;
        if !(0.0..=1e9).contains(&wait) {
            return Err(Failure::usage(format!("--wait takes seconds from 0 to 1000000000, not {wait}")));
        }
        Ok(DiskOptions { lock_wait_ms: (wait * 1000.0) as u64, ..DiskOptions::default() })
    }

    /// Opens the store.
    pub(crate) fn open(&self, access: Access) -> Result<Opened> {
        let opened = self.open_in(self.find()?, access)??;
        if let Some(name) = &opened.branch {
            opened.repo.branch(name)?;
        }
        Ok(opened)
    }

    /// As [`Globals::open`], but returns file, offset and reason if the store is too damaged to be opened.
    pub(crate) fn open_or_damage(&self, access: Access) -> Result<Result<Opened, (String, u64, String)>> {
        match self.open_in(self.find()?, access)? {
            Err(Error::Corrupt { file, offset, reason, .. }) => Ok(Err((file, offset, reason))),
            opened => Ok(Ok(opened?)),
        }
    }

    fn open_in(&self, dir: PathBuf, access: Access) -> Result<bristlecone::Result<Opened>> {
        let (options, branch) = (self.disk_options()?, self.branch()?);
        let storage: Arc<dyn Storage> = Arc::new(RealStorage::new(&dir));
        let open = || {
            let format = AnyFormat::from_tag(&DiskBackend::header(&storage)?.format, crate::text::show(&dir))?;
            let disk = DiskBackend::open(storage.clone(), Some(format.name()), options, access == Access::Read)?;
            Ok((Arc::new(disk), format))
        };
        Ok(open().map(|(disk, format)| Opened::new(Store::disk(disk), format, dir.clone(), branch)))
    }

    /// Returns the folder of the store.
    fn find(&self) -> Result<PathBuf> {
        if let Some(dir) = &self.repo {
            let inner = dir.join(STORE_DIR);
            if inner.is_dir() {
                return Ok(inner);
            }
            // A store may have another name; its header tells.
            let storage: Arc<dyn Storage> = Arc::new(RealStorage::new(dir));
            return match DiskBackend::header(&storage) {
                Err(Error::NoStore { .. } | Error::Io { .. }) => {
                    let shown = crate::text::show(dir);
                    Err(Failure::failed(format!("no store in {shown}; make one with `cone init {shown}`")))
                }
                _ => Ok(dir.clone()),
            };
        }
        let here = env::current_dir().map_err(|error| Failure::file("find", "the folder we are in", &error))?;
        let found = here.ancestors().map(|dir| dir.join(STORE_DIR)).find(|dir| dir.is_dir());
        found.ok_or_else(|| {
            let shown = crate::text::show(&here);
            let way = "make one here with `cone init`, or name one with --repo DIR";
            Failure::failed(format!("no store in {shown} or any folder above it; {way}"))
        })
    }
}

impl Store {
    /// A store in the engine on files.
    pub(crate) fn disk(backend: Arc<DiskBackend>) -> Self {
        let header = backend.store_header().clone();
        Self::Disk { backend, header }
    }

    fn backend(&self) -> Arc<dyn Backend> {
        match self {
            Self::Disk { backend, .. } => backend.clone(),
            Self::Git { backend, .. } => backend.clone(),
        }
    }
}

impl Opened {
    /// Puts a store together.
    pub(crate) fn new(store: Store, format: AnyFormat, dir: PathBuf, branch: Option<String>) -> Self {
        Self { repo: Repo::with_backend(format, store.backend()), store, dir, branch }
    }

    /// Returns what keeps the objects and refs.
    pub(crate) fn backend(&self) -> &dyn Backend {
        &**self.repo.backend()
    }

    /// Makes everything durable and ends the work in the background. Dropping the store does so, too, but could not
    /// say that it failed.
    pub(crate) fn close(&self) -> Result<()> {
        match &self.store {
            Store::Disk { backend, .. } => backend.close()?,
            Store::Git { backend, .. } => backend.close()?,
        }
        Ok(())
    }

    /// Adds the id of a commit, or `null`; and beside it the text that the format has for it, if it has one.
    pub(crate) fn put_commit(&self, fields: &mut Fields, at: Option<&ObjRef>) {
        fields.insert("commit".to_owned(), at.map(|at| at.oid.to_string()).into());
        if let Some(text) = at.and_then(|at| self.repo.format().commit_text(&at.oid)) {
            fields.insert("commit_text".to_owned(), text.into());
        }
    }

    /// Returns what is checked out.
    pub(crate) fn head(&self) -> Result<Head> {
        Ok(match self.repo.head()? {
            None => Head::Branch(FIRST_BRANCH.to_owned()),
            Some(RefTarget::Object(at)) => Head::Detached(at),
            Some(RefTarget::Symbolic(name)) => match name.strip_prefix(BRANCHES) {
                Some(branch) => Head::Branch(branch.to_owned()),
                None => {
                    return Err(Failure::failed(format!("HEAD names {name}, which is no branch; `cone checkout` one")));
                }
            },
        })
    }

    /// Returns the branch to change: the one named, or the one checked out.
    pub(crate) fn branch_to_change(&self) -> Result<Branch> {
        let name = match (&self.branch, self.head()?) {
            (Some(name), _) => name.clone(),
            (None, Head::Branch(name)) => name,
            (None, Head::Detached(at)) => {
                let way = "name the branch to change with -b NAME, or check one out with `cone checkout`";
                return Err(Failure::usage(format!("no branch is checked out, but commit {}; {way}", short(&at))));
            }
        };
        Ok(self.repo.branch(&name)?)
    }

    /// Returns the commit to read: `at` where it is given, or the head of the branch named, or of what is
    /// checked out; `None` if that is a branch without commits.
    pub(crate) fn commit_to_read(&self, at: Option<&OsString>) -> Result<Option<ObjRef>> {
        if let Some(text) = at {
            return rev::commit(self, text).map(Some);
        }
        let head = self.head()?;
        let (name, named) = match (&self.branch, &head) {
            (Some(name), _) => (name, true),
            (None, Head::Branch(name)) => (name, false),
            (None, Head::Detached(at)) => return Ok(Some(*at)),
        };
        let commit = self.repo.branch(name)?.head()?;
        if commit.is_none() && named && head != Head::Branch(name.clone()) {
            return Err(no_branch(name));
        }
        Ok(commit)
    }

    /// Returns the tree to read, as [`Opened::commit_to_read`]; an empty one where there are no commits.
    pub(crate) fn tree_to_read(&self, at: Option<&OsString>) -> Result<Tree> {
        Ok(match self.commit_to_read(at)? {
            Some(commit) => self.repo.checkout(commit)?,
            None => self.repo.tree(),
        })
    }
}

/// Says that there is no such branch.
pub(crate) fn no_branch(name: &str) -> Failure {
    Failure::negative(format!("there is no branch \"{name}\"; `cone branches` lists those there are"))
}

/// Shows the first digits of an id, which `cone` takes back.
pub(crate) fn short(at: &ObjRef) -> String {
    let mut text = at.oid.to_string();
    text.truncate(12);
    text
}
