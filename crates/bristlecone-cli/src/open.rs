//! Finding the store, opening it, and what is checked out in it.

use std::{
    collections::HashSet,
    ffi::OsString,
    io::Write,
    path::{Path as FilePath, PathBuf},
    sync::Arc,
};

use bristlecone::{
    Backend, Error, Format, Kind, ObjRef, Object, Oid, RefTarget,
    core::Source,
    disk::{DiskBackend, DiskOptions, StoreHeader},
    storage::{RealStorage, Storage},
};
use bristlecone_git::{
    backend::{GitBackend, GitOptions},
    layout::Layout,
    transfer,
    worktree::{Settings, foreign_owner},
};
use clap::Args;

use crate::{
    ending,
    failure::{Failure, Result},
    formats::{AnyFormat, Branch, Repo, Tree},
    output::{Fields, Style},
    rev, text, who,
};

mod find;

use find::Found;

/// The folder in which a store lives.
pub(crate) const STORE_DIR: &str = ".bristlecone";
/// The branch that is checked out at first.
pub(crate) const FIRST_BRANCH: &str = "main";
const BRANCHES: &str = "refs/heads/";

/// Options of every command.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Everywhere")]
pub(crate) struct Globals {
    /// The store: its folder, the .bristlecone in it, or a Git repository [default: .bristlecone or .git here or in a
    /// folder above]
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
    /// In a Git repository: change the branch that Git has checked out, with its files and index
    #[arg(long, global = true, hide_short_help = true)]
    worktree: bool,
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
    /// Whether files and index follow a change of the branch that Git has checked out.
    pub(crate) worktree: bool,
    /// How long to wait for locks, in milliseconds.
    pub(crate) wait_ms: u64,
}

/// What keeps the objects and refs of an open store, where that matters: [`Opened::repo`] has it as a backend, too.
pub(crate) enum Store {
    /// The engine on files.
    Disk { backend: Arc<DiskBackend>, header: StoreHeader },
    /// A Git repository.
    Git { backend: Arc<GitBackend>, layout: Box<Layout> },
}

impl Globals {
    /// Returns the branch that was named.
    pub(crate) fn branch(&self) -> Result<Option<String>> {
        let Some(name) = &self.branch else { return Ok(None) };
        match name.to_str() {
            Some(name) => Ok(Some(short_name(name).to_owned())),
            None => Err(Failure::usage("the name of a branch is UTF-8; name one that `cone branches` lists")),
        }
    }

    /// Returns the folder that was named for the store.
    pub(crate) fn repo(&self) -> Option<&FilePath> {
        self.repo.as_deref()
    }

    /// Returns the options for a store elsewhere, or for this one (`None`), where no branch is named and no files follow.
    pub(crate) fn elsewhere(&self, dir: Option<PathBuf>) -> Self {
        Self { repo: dir.or_else(|| self.repo.clone()), branch: None, worktree: false, ..self.clone() }
    }

    /// Returns the options of the disk engine.
    pub(crate) fn disk_options(&self) -> Result<DiskOptions> {
        Ok(DiskOptions { lock_wait_ms: self.wait_ms()?, ..DiskOptions::default() })
    }

    fn wait_ms(&self) -> Result<u64> {
        let wait = self.wait;
        if !(0.0..=1e9).contains(&wait) {
            return Err(Failure::usage(format!("--wait takes seconds from 0 to 1000000000, not {wait}")));
        }
        Ok((wait * 1000.0) as u64)
    }

    /// Opens the store.
    pub(crate) fn open(&self, access: Access) -> Result<Opened> {
        let opened = self.open_found(access)??;
        if let Some(name) = &opened.branch {
            opened.repo.branch(name)?;
        }
        Ok(opened)
    }

    /// As [`Globals::open`], but returns file, offset and reason if the store is too damaged to be opened.
    pub(crate) fn open_or_damage(&self, access: Access) -> Result<Result<Opened, (String, u64, String)>> {
        match self.open_found(access)? {
            Err(Error::Corrupt { file, offset, reason, .. }) => Ok(Err((file, offset, reason))),
            Err(Error::Lost { file, reason }) => Ok(Err((file, 0, reason))),
            opened => Ok(Ok(opened?)),
        }
    }

    /// Returns the folder of the store, which need not be one that opens.
    pub(crate) fn store_dir(&self) -> Result<PathBuf> {
        match find::find(self.repo())?? {
            Found::Disk(dir) => Ok(dir),
            Found::Git(layout) => Err(Failure::usage(format!(
                "{} is a Git repository; `git fsck` tells what is wrong with it, and Git repairs it",
                text::show(&layout.git_dir)
            ))),
        }
    }

    fn open_found(&self, access: Access) -> Result<bristlecone::Result<Opened>> {
        let opened = match find::find(self.repo())? {
            Ok(Found::Disk(dir)) => self.open_disk(dir, access)?,
            Ok(Found::Git(layout)) => self.open_git(layout, access)?,
            Err(error) => Err(error),
        };
        let (branch, wait_ms) = (self.branch()?, self.wait_ms()?);
        Ok(opened.map(|opened| Opened { branch, wait_ms, worktree: self.worktree, ..opened }))
    }

    fn open_disk(&self, dir: PathBuf, access: Access) -> Result<bristlecone::Result<Opened>> {
        let options = self.disk_options()?;
        let storage: Arc<dyn Storage> = Arc::new(RealStorage::new(&dir));
        let open = || {
            let format = AnyFormat::from_tag(&DiskBackend::header(&storage)?.format, text::show(&dir))?;
            let disk = DiskBackend::open(storage.clone(), Some(format.name()), options, access == Access::Read)?;
            tell_of_losses(&disk);
            Ok((Arc::new(disk), format))
        };
        let opened = open();
        if let (Access::Write, Ok((disk, _))) = (access, &opened) {
            ending::writes_to(disk, &dir);
        }
        Ok(opened.map(|(disk, format)| Opened::new(Store::disk(disk), format, dir)))
    }

    fn open_git(&self, layout: Box<Layout>, access: Access) -> Result<bristlecone::Result<Opened>> {
        if let Some((place, owner)) = foreign_owner(&layout)? {
            let top = text::show(layout.worktree.as_ref().unwrap_or(&layout.git_dir));
            let place = text::show(place);
            return Err(Failure::failed(format!(
                "{place} belongs to another user ({owner}), whose settings Git would not trust either; if you do, run \
                 `git config --global --add safe.directory {top}`"
            )));
        }
        let mut options =
            GitOptions { read_only: access == Access::Read, lock_wait_ms: self.wait_ms()?, ..GitOptions::default() };
        let open = || {
            if access == Access::Write {
                options.who = who::committer(Some(&Settings::of(&layout)?));
            }
            let backend = Arc::new(GitBackend::open_path(&layout, options)?);
            for note in backend.notes() {
                let _ = writeln!(std::io::stderr(), "note: {note}");
            }
            let (format, dir) = (AnyFormat::git(layout.algorithm), layout.git_dir.clone());
            Ok(Opened::new(Store::Git { backend, layout }, format, dir))
        };
        Ok(open())
    }
}

/// Tells on standard error what is missing from a store that can still be read. Where nobody listens, nothing is told.
fn tell_of_losses(disk: &DiskBackend) {
    let mut out = std::io::stderr();
    if let Some(lost) = disk.lost_end() {
        let _ = writeln!(
            out,
            "warning: {} at byte {}: {}; what is shown may be old, and `cone repair --accept-end` goes on from here",
            lost.file, lost.offset, lost.reason
        );
    }
    if let Some(note) = disk.note() {
        let _ = writeln!(out, "note: {note}");
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
    pub(crate) fn new(store: Store, format: AnyFormat, dir: PathBuf) -> Self {
        let repo = Repo::with_backend(format, store.backend());
        Self { repo, store, dir, branch: None, worktree: false, wait_ms: 0 }
    }

    /// Returns the settings of Git that count here, if the store is a Git repository.
    pub(crate) fn settings(&self) -> Result<Option<Settings>> {
        match &self.store {
            Store::Disk { .. } => Ok(None),
            Store::Git { layout, .. } => Ok(Some(Settings::of(layout)?)),
        }
    }

    /// Returns a commit's message as the format has it: Git ends them with a line's end.
    pub(crate) fn message(&self, mut message: Vec<u8>) -> Vec<u8> {
        if matches!(self.repo.format(), AnyFormat::Git(_)) && !message.is_empty() && !message.ends_with(b"\n") {
            message.push(b'\n');
        }
        message
    }

    /// Returns the whole value that an object holds.
    pub(crate) fn contents(&self, at: ObjRef) -> Result<Vec<u8>> {
        Ok(self.repo.format().read_contents(&Objects(self.backend()), &at, 0..u64::MAX)?.to_vec())
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

    /// Returns the commits whose parents were left out when the repository was cloned, or one that was imported.
    pub(crate) fn shallow(&self) -> Result<HashSet<Oid>> {
        let Store::Git { layout, .. } = &self.store else { return Ok(transfer::shallow(self.backend())?) };
        let file = layout.common_dir.join("shallow");
        match std::fs::read_to_string(&file) {
            Ok(text) => Ok(text.lines().filter_map(|line| line.trim().parse().ok()).collect()),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(HashSet::new()),
            Err(error) => Err(Failure::file("read", text::show(&file), &error)),
        }
    }

    /// Returns what is checked out: in a Git repository what Git has checked out, until `cone checkout` says otherwise.
    pub(crate) fn head(&self) -> Result<Head> {
        let head = match (self.repo.head()?, &self.store) {
            (None, Store::Git { backend, .. }) => backend.git_head()?,
            (head, _) => head,
        };
        Ok(match head {
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

    /// Returns whether a branch was named.
    pub(crate) const fn branch_is_named(&self) -> bool {
        self.branch.is_some()
    }

    /// Returns whether a branch was named that is not the one checked out.
    pub(crate) fn names_another_branch(&self) -> Result<bool> {
        Ok(match &self.branch {
            Some(name) => self.head()? != Head::Branch(name.clone()),
            None => false,
        })
    }

    /// Returns the commit that is checked out, through its branch or by itself; `None` if there is none yet.
    pub(crate) fn head_commit(&self) -> Result<Option<ObjRef>> {
        match self.head()? {
            Head::Branch(name) => Ok(self.repo.branch(&name)?.head()?),
            Head::Detached(at) => Ok(Some(at)),
        }
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

    /// Returns the tree to read, as [`Opened::commit_to_read`]; an empty one where there are no commits. What is given may
    /// also be a directory.
    pub(crate) fn tree_to_read(&self, at: Option<&OsString>) -> Result<Tree> {
        if let Some(text) = at {
            return rev::tree(self, text);
        }
        Ok(match self.commit_to_read(None)? {
            Some(commit) => self.repo.checkout(commit)?,
            None => self.repo.tree(),
        })
    }
}

/// The objects of a store.
struct Objects<'a>(&'a dyn Backend);

impl Source for Objects<'_> {
    type Error = Error;

    fn read<'a>(&'a self, kind: Kind, at: &ObjRef) -> bristlecone::Result<Object<'a>> {
        self.0.read(at)?.ok_or(Error::Missing { kind, oid: at.oid })
    }
}

/// Returns the name of a branch without what goes before the names of all branches.
pub(crate) fn short_name(name: &str) -> &str {
    name.strip_prefix(BRANCHES).unwrap_or(name)
}

/// Returns the name of a branch that is to be made, which is one that Git takes, too.
pub(crate) fn new_name(name: &str) -> Result<&str> {
    let name = short_name(name);
    let why = match name {
        "HEAD" | "@" => "that means what is checked out",
        _ if name.starts_with('-') => "it would be taken for an option",
        _ => return Ok(name),
    };
    Err(Failure::usage(format!("\"{name}\" cannot be the name of a branch: {why}; choose another name")))
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
