//! Finding the store, opening it, and what is checked out in it.

use std::{
    env,
    ffi::OsString,
    fmt::Display,
    io::{Read as _, Write},
    path::{Path as FilePath, PathBuf},
};

use bristlecone::{Backend, Commit, CommitId, Error, Format};
use bristlecone_any::{
    AnyRepo, Branch, Found, Head, OpenOptions, Place, STORE_DIR, Tree, place::store_around, revision, short_branch,
};
use clap::Args;

use crate::{
    ending,
    failure::{Failure, Result},
    output::{Fields, Style, say},
    text::show,
};

/// Options of every command.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Everywhere")]
pub(crate) struct Globals {
    /// The store: its folder, the .bristlecone in it, a Git repository, or a url of one [default: .bristlecone or .git here or in a
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
    #[arg(allow_negative_numbers = true)]
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

/// An open store with the options it was opened with.
pub(crate) struct Opened {
    pub(crate) repo: AnyRepo,
    branch: Option<String>,
    /// Whether files and index follow a change of the branch that Git has checked out.
    pub(crate) worktree: bool,
    /// How long to wait for locks, in milliseconds.
    pub(crate) wait_ms: u64,
}

impl Globals {
    /// Returns the branch that was named.
    pub(crate) fn branch(&self) -> Result<Option<String>> {
        let Some(name) = &self.branch else { return Ok(None) };
        match name.to_str() {
            Some(name) => Ok(Some(short_branch(name).to_owned())),
            None => Err(Failure::usage("the name of a branch is UTF-8; name one that `cone branches` lists")),
        }
    }

    /// Whether files and index are to follow a change of the branch that Git has checked out.
    pub(crate) const fn worktree(&self) -> bool {
        self.worktree
    }

    /// Refuses a branch where a command would not look at it; `meaning`: what it says elsewhere.
    pub(crate) fn refuse_idle_branch(&self, meaning: &str) -> Result<()> {
        match self.branch {
            Some(_) => Err(Failure::usage(format!("-b {meaning}; leave it out"))),
            None => Ok(()),
        }
    }

    /// Refuses a branch for a command that is about the whole store.
    pub(crate) fn refuse_branch(&self, verb: &str) -> Result<()> {
        match self.branch {
            Some(_) => {
                Err(Failure::usage(format!("`cone {verb}` is about the whole store, not a branch; leave -b out")))
            }
            None => Ok(()),
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

    /// Returns how long to wait for locks, in milliseconds.
    pub(crate) fn wait_ms(&self) -> Result<u64> {
        let wait = self.wait;
        if !(0.0..=1e9).contains(&wait) {
            return Err(Failure::usage(format!(
                "--wait takes seconds from 0 to 1000000000, not {wait}; 0 waits for nobody"
            )));
        }
        Ok((wait * 1000.0) as u64)
    }

    /// Returns the options that a store is opened or made with.
    pub(crate) fn options(&self, access: Access) -> Result<OpenOptions> {
        Ok(OpenOptions::new().read_only(access == Access::Read).lock_wait_ms(self.wait_ms()?))
    }

    /// Opens the store.
    pub(crate) fn open(&self, access: Access) -> Result<Opened> {
        let repo = self.open_repo(access)??;
        self.opened(repo)
    }

    /// Opens the store for reading, without a word about what is missing from it.
    pub(crate) fn open_silently(&self) -> Result<Opened> {
        let found = self.find()??;
        self.opened(self.options(Access::Read)?.open_found(found)?)
    }

    fn opened(&self, repo: AnyRepo) -> Result<Opened> {
        let opened = Opened { repo, branch: self.branch()?, wait_ms: self.wait_ms()?, worktree: self.worktree };
        if let Some(name) = &opened.branch {
            opened.repo.branch(name)?;
        }
        Ok(opened)
    }

    /// Returns the store that is named, or the nearest one: here or in a folder above. It need not be one that opens.
    pub(crate) fn find(&self) -> Result<bristlecone_any::Result<Found>> {
        if let Some(dir) = self.repo() {
            let place = match dir.to_str().filter(|text| text.contains("://")) {
                Some(url) => Place::parse(url)?,
                None => Place::from(dir),
            };
            let found = place.find();
            if found.is_err() && is_okra(dir) {
                return Err(no_store_but_okra(dir));
            }
            return Ok(found);
        }
        let here = env::current_dir().map_err(|error| Failure::file("find", "the folder we are in", &error))?;
        let found = Place::find_above(&here);
        if found.is_err() && is_okra(&here) {
            return Err(Failure::failed("there is an Okra map here, and no store; `cone map` works on it"));
        }
        Ok(found)
    }

    /// Opens the store without what else was named. What is wrong with the store itself is the inner error.
    pub(crate) fn open_repo(&self, access: Access) -> Result<bristlecone_any::Result<AnyRepo>> {
        let opened = match self.find()? {
            Ok(found) => self.options(access)?.open_found(found),
            Err(error) => Err(error),
        };
        if let Ok(repo) = &opened {
            tell_of_losses(repo);
            if access == Access::Write {
                ending::writes_to(repo);
            }
        }
        Ok(opened)
    }
}

/// The file of an LMDB environment.
const LMDB_FILE: &str = "data.mdb";
/// The file with the header of a store that lies in the folder itself.
const STORE_FILE: &str = "store";

/// Whether a folder is an Okra map: an LMDB file that is no store's. So is such a file by itself.
pub(crate) fn is_okra(dir: &FilePath) -> bool {
    if dir.is_file() {
        return dir.file_name().is_some_and(|name| name != LMDB_FILE) && is_lmdb_file(dir).unwrap_or(false);
    }
    let is_there = |name: &str| dir.join(name).exists();
    is_there(LMDB_FILE) && !is_there(STORE_DIR) && !is_there(STORE_FILE)
}

/// Says that an Okra map is where a store should be.
pub(crate) fn no_store_but_okra(dir: &FilePath) -> Failure {
    let shown = show(dir);
    Failure::failed(format!("{shown} is an Okra map, not a store; `cone -r {shown} map` works on it"))
}

/// Whether a file begins as LMDB's do: the head of a page of 16 bytes, and a magic number.
fn is_lmdb_file(file: &FilePath) -> std::io::Result<bool> {
    let mut start = [0; 20];
    std::fs::File::open(file)?.read_exact(&mut start)?;
    Ok(start[16..] == 0xbeef_c0de_u32.to_le_bytes())
}

/// Refuses a url where a folder of this machine is meant: it would be taken for the name of one. `way` says what to do.
pub(crate) fn refuse_url(dir: &FilePath, way: &str) -> Result<()> {
    match dir.to_str() {
        Some(text) if text.contains("://") && !dir.exists() => {
            Err(Failure::usage(format!("{} is a url, and a folder is taken here; {way}", show(dir))))
        }
        _ => Ok(()),
    }
}

/// Refuses a folder that is to hold something new, and lies in a store's own folder.
pub(crate) fn refuse_within_store(dir: &FilePath) -> Result<()> {
    match store_around(dir) {
        Some(store) => {
            let (shown, store) = (show(dir), show(&store));
            let way = "where only the store itself writes; choose another folder";
            Err(Failure::usage(format!("{shown} lies in {store}, the folder of a store, {way}")))
        }
        None => Ok(()),
    }
}

/// Writes to standard error what is missing from a store that can still be read. A closed standard error is no failure.
pub(crate) fn tell_of_losses(repo: &AnyRepo) {
    let mut out = std::io::stderr();
    if let Some(lost) = repo.lost_end() {
        let _ = writeln!(
            out,
            "warning: {} at byte {}: {}; what is shown may be old, and `cone repair --accept-end` goes on from here",
            lost.file, lost.offset, lost.reason
        );
    }
    for note in repo.notes() {
        let _ = writeln!(out, "note: {note}");
    }
}

#[cfg(test)]
impl From<AnyRepo> for Opened {
    fn from(repo: AnyRepo) -> Self {
        Self { repo, branch: None, worktree: false, wait_ms: 0 }
    }
}

impl Opened {
    /// Returns what keeps the objects and refs.
    pub(crate) fn backend(&self) -> &dyn Backend {
        &**self.repo.backend()
    }

    /// Adds the id of a commit, or `null`; and beside it the text that the format has for it, if it has one.
    pub(crate) fn put_commit(&self, fields: &mut Fields, at: Option<&CommitId>) {
        fields.insert("commit".to_owned(), at.map(|at| at.oid().to_string()).into());
        if let Some(text) = at.and_then(|at| self.repo.format().commit_text(&at.oid())) {
            fields.insert("commit_text".to_owned(), text.into());
        }
    }

    /// Returns whether a branch was named.
    pub(crate) const fn branch_is_named(&self) -> bool {
        self.branch.is_some()
    }

    /// Returns whether a branch was named that is not the one checked out.
    pub(crate) fn names_another_branch(&self) -> Result<bool> {
        Ok(match &self.branch {
            Some(name) => self.repo.checked_out()? != Head::Branch(name.clone()),
            None => false,
        })
    }

    /// Returns the branch to change: the one named, or the one checked out.
    pub(crate) fn branch_to_change(&self) -> Result<Branch> {
        let name = match (&self.branch, self.repo.checked_out()?) {
            (Some(name), _) => name.clone(),
            (None, Head::Branch(name)) => name,
            (None, Head::Detached(at)) => {
                let way = "name the branch to change with -b NAME, or check one out with `cone checkout`";
                return Err(Failure::usage(format!("no branch is checked out, but commit {}; {way}", short(&at))));
            }
        };
        Ok(self.repo.branch(&name)?)
    }

    /// Refuses a branch beside something else that says what is read, such as a revision, whose HEAD is not that of the branch.
    pub(crate) fn refuse_branch_beside(&self, other: impl Display) -> Result<()> {
        let Some(name) = &self.branch else { return Ok(()) };
        let name = show(name);
        let way = format!("leave one out, or begin the revision with the branch, as in {name}~1");
        Err(Failure::usage(format!("{other} and -b {name} both say what is read; {way}")))
    }

    /// Returns the commit to read: `at` where it is given, or the head of the branch named, or of what is
    /// checked out; `None` if that is a branch without commits.
    pub(crate) fn commit_to_read(&self, at: Option<&OsString>) -> Result<Option<CommitId>> {
        if let Some(text) = at {
            self.refuse_branch_beside(show(text))?;
            return Ok(Some(revision::commit(&self.repo, text)?));
        }
        let head = self.repo.checked_out()?;
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

    /// Returns the tree of a commit's first parent; an empty one where history ends with the commit, also on purpose: in a shallow
    /// clone, or where retention has cut the parent.
    pub(crate) fn tree_before(&self, at: &CommitId, commit: &Commit) -> Result<Tree> {
        let Some(&parent) = commit.parents.first() else { return Ok(self.repo.tree()) };
        let why = if self.repo.shallow()?.contains(&at.oid()) {
            "was never fetched"
        } else {
            match self.repo.checkout(parent) {
                Err(Error::Absent { .. }) => "was cut by retention",
                found => return Ok(found?),
            }
        };
        say!("the parent of commit {} {why} and is not here: all that the commit has counts as added", short(at));
        Ok(self.repo.tree())
    }

    /// Returns the tree to read, as [`Opened::commit_to_read`]; an empty one where there are no commits. What is given may
    /// also be a directory.
    pub(crate) fn tree_to_read(&self, at: Option<&OsString>) -> Result<Tree> {
        if let Some(text) = at {
            self.refuse_branch_beside(show(text))?;
            return Ok(revision::tree(&self.repo, text)?);
        }
        Ok(match self.commit_to_read(None)? {
            Some(commit) => self.repo.checkout(commit)?,
            None => self.repo.tree(),
        })
    }
}

/// Says that there is no such branch.
pub(crate) fn no_branch(name: &str) -> Failure {
    Failure::negative(format!("there is no branch \"{}\"; `cone branches` lists those there are", show(name)))
}

/// Shows the first digits of an id, which `cone` takes back.
pub(crate) fn short(at: &CommitId) -> String {
    let mut text = at.oid().to_string();
    text.truncate(12);
    text
}
