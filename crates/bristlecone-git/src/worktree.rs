//! The working tree: files and index follow a commit that was made without them.
//!
//! **The idea.** A commit to the branch that Git has checked out would show in `git status` as its reversal. An
//! [`Update`] takes Git's lock of the index first, checks that nothing which is not committed would be lost, and holds
//! the lock while the caller commits. Then it writes files and index, with what the system says of each file, so that
//! `git status` finds nothing to do. Paths that the commit does not change are neither looked at nor touched.
//!
//! A path may follow where file and index entry are as before the commit, or already as after it. Everything else is
//! refused, before anything has changed, and named.
//!
//! What it does not do: convert contents. Where attributes or settings ask for other bytes in files than in objects,
//! the path is refused. It runs no hooks and no filters.
//!
//! Files and index are the user's, not the store's: they are written by the operating system's calls, each whole under
//! a name of its own and then moved. Only the index is synced, where that is asked for; a file that a power cut takes
//! is in the commit.

use std::{
    collections::BTreeSet,
    fs::{self, File},
    io::{self, Read},
    os::unix::fs::MetadataExt,
    path::PathBuf,
};

use bristlecone::{EntryKind, Error, Kind, Oid, Result, core::git::Algorithm, report};

use crate::repository::layout::Layout;

mod attributes;
mod check;
mod folder;
mod glob;
mod heads;
mod held;
pub mod ignore;
mod index;
mod lock;
mod owner;
mod settings;
mod submodule;
mod tracked;

pub use heads::{CheckedOut, WorktreeHead, checked_out};
pub use held::{HeldRefs, Hold};
pub use owner::foreign_owner;
pub use settings::Settings;
pub use submodule::{Submodule, submodule};
pub use tracked::Tracked;

use folder::{Found, Top};
use index::{Entry, Index, IndexError, Stat, mode_of};
use lock::IndexLock;

/// Files of Git's that are there while something is half done that ends in a commit of its own.
const UNDER_WAY: [(&str, &str); 3] =
    [("MERGE_HEAD", "a merge"), ("CHERRY_PICK_HEAD", "a cherry-pick"), ("REVERT_HEAD", "a revert")];

/// A file or link as a tree has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Item {
    /// What it is; no directory.
    pub kind: EntryKind,
    /// The id of its contents, or of the commit of a submodule.
    pub oid: Oid,
}

/// A path at which a commit differs from the one before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// Where, from the top: steps separated by slashes.
    pub path: Vec<u8>,
    /// What was there.
    pub before: Option<Item>,
    /// What is there then.
    pub after: Option<Item>,
}

/// Why a working tree cannot follow a commit. Nothing has changed.
#[derive(Debug)]
pub enum Refusal {
    /// These paths cannot: each with a reason.
    Paths(Vec<(Vec<u8>, String)>),
    /// The working tree as a whole cannot: why, and what to do.
    Whole(String),
    /// Something failed.
    Failed(Error),
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

/// What a working tree did to follow a commit.
#[derive(Debug, Default)]
pub struct Followed {
    /// How many files and links were written.
    pub written: u64,
    /// How many were removed.
    pub removed: u64,
    /// Paths that could not follow, each with a reason: file and index entry are as they were, and differ from the
    /// commit.
    pub failed: Vec<(Vec<u8>, String)>,
}

/// Gives the bytes of a file or link in the tree of the commit, by path; `None` where there is none.
pub type ReadFile<'a> = &'a mut dyn FnMut(&[u8]) -> Result<Option<Vec<u8>>>;

/// A working tree that is about to follow a commit. Its index is locked until this is dropped.
#[derive(Debug)]
pub struct Update {
    algorithm: Algorithm,
    common_dir: PathBuf,
    settings: Settings,
    top: Top,
    lock: IndexLock,
    index: Index,
    // Entries whose files changed in this second or later may have changed again without a trace.
    index_seconds: i64,
    steps: Vec<Step>,
}

/// What is to be done at a path.
#[derive(Debug)]
struct Step {
    path: Vec<u8>,
    to: Option<Item>,
    // Whether something is there.
    there: bool,
    // Whether the file is as it will be.
    done: Option<Stat>,
}

impl Update {
    /// Locks the index of the working tree, waiting for others for so many milliseconds at most, and reads it.
    ///
    /// # Errors
    /// [`Refusal::Whole`] for a bare repository, an index that is not understood, conflicts, and a merge that is under
    /// way; [`Refusal::Failed`] with [`Error::Locked`], [`Error::Corrupt`] or [`Error::Io`].
    pub fn begin(layout: &Layout, wait_ms: u64) -> Result<Self, Refusal> {
        let Some(files) = &layout.worktree else {
            return Err(Refusal::Whole("the repository is bare: it has no working tree".to_owned()));
        };
        let failed = |source| Error::io(files.display().to_string(), source);
        let top = Top::open(files).map_err(failed)?;
        let lock = IndexLock::take(layout.git_storage(), wait_ms)?;
        for (file, what) in UNDER_WAY {
            if layout.git_dir.join(file).exists() {
                let way = "finish it with `git commit`, or give it up";
                return Err(Refusal::Whole(format!("{what} is under way in the working tree; {way}")));
            }
        }
        let (index, index_seconds) = read_index(layout)?;
        if index.has_conflicts() {
            let way = "resolve them and `git commit`";
            return Err(Refusal::Whole(format!("the index has conflicts of a merge; {way}")));
        }
        Ok(Self {
            algorithm: layout.algorithm,
            common_dir: layout.common_dir.clone(),
            settings: Settings::of(layout)?,
            top,
            lock,
            index,
            index_seconds,
            steps: Vec::new(),
        })
    }

    /// Checks that the working tree can follow these changes, and remembers them. Changes nothing. The last call counts.
    ///
    /// # Errors
    /// [`Refusal::Paths`] names all paths that cannot follow; [`Refusal::Failed`] with what `read` returns, or
    /// [`Error::Io`].
    pub fn check(&mut self, mut changes: Vec<Change>, read: ReadFile<'_>) -> Result<(), Refusal> {
        changes.retain(|change| change.before != change.after);
        changes.sort_by(|one, other| one.path.cmp(&other.path));
        self.steps = check::steps(self, &changes, read)?;
        Ok(())
    }

    /// Writes files and index, once the commit is made. What cannot be written is told, and the rest is.
    ///
    /// `synced`: the index is durable at the end.
    ///
    /// # Errors
    /// [`Error::Io`] if the index cannot be written. Files may be as after the commit then.
    pub fn follow(mut self, read: ReadFile<'_>, synced: bool) -> Result<Followed> {
        let mut followed = Followed::default();
        let steps = std::mem::take(&mut self.steps);
        let mut done = vec![None; steps.len()];
        // What goes makes room for what comes: a file where a directory was, and the other way round.
        for (step, done) in steps.iter().zip(&mut done).filter(|(step, _)| step.to.is_none()) {
            match if step.there { self.top.remove(&step.path) } else { Ok(()) } {
                Ok(()) => {
                    followed.removed += u64::from(step.there);
                    *done = Some(None);
                }
                Err(error) => followed.failed.push((step.path.clone(), report(&error))),
            }
        }
        for (step, done) in steps.iter().zip(&mut done) {
            let Some(item) = step.to else { continue };
            let stat = match step.done {
                Some(stat) => Ok(stat),
                None => self.write(step, item, read).inspect(|_| followed.written += 1),
            };
            match stat {
                Ok(stat) => *done = Some(Some((stat, mode_of(item.kind), item.oid))),
                Err(error) => followed.failed.push((step.path.clone(), error)),
            }
        }
        self.doubt_racy();
        let changes: Vec<_> =
            steps.iter().zip(done).filter_map(|(step, done)| done.map(|done| (&step.path[..], done))).collect();
        self.index.change(&changes);
        let bytes = self.index.encode();
        self.lock.replace(&bytes, synced)?;
        Ok(followed)
    }

    /// Writes a file or link; returns why not where it cannot.
    fn write(&self, step: &Step, item: Item, read: ReadFile<'_>) -> Result<Stat, String> {
        let bytes = read(&step.path).map_err(|error| report(&error))?;
        let bytes = bytes.ok_or_else(|| "it is missing from the store".to_owned())?;
        let written = match self.top.look(&step.path) {
            Ok(Found::Folder) => self.top.remove_empty(&step.path),
            _ => Ok(()),
        };
        let written = written.and_then(|()| self.top.write(&step.path, item.kind, &bytes, !step.there));
        written.map_err(|error| report(&error))
    }

    /// Marks entries that the old index was too young to vouch for: the new one will be older than their files, so that
    /// a change in the same second would never be noticed.
    fn doubt_racy(&mut self) {
        let (top, algorithm, seconds) = (&self.top, self.algorithm, self.index_seconds);
        self.index.doubt(|entry, path| {
            let racy = i64::from(entry.stat.mtime.0) >= seconds;
            let file = matches!(entry.kind(), EntryKind::Value | EntryKind::Executable | EntryKind::Link);
            racy && file
                && !entry.is_skipped()
                && !holds(top, algorithm, path, entry.kind(), entry.oid).unwrap_or(false)
        });
    }

    /// Whether the file of an entry is as the entry says, its executable bit left out.
    fn is_unchanged(&self, entry: &Entry, path: &[u8], stat: &Stat) -> io::Result<bool> {
        let known = entry.stat;
        let same = (known.mtime, known.ctime, known.inode, known.user, known.group, known.bytes)
            == (stat.mtime, stat.ctime, stat.inode, stat.user, stat.group, stat.bytes);
        if same && i64::from(stat.mtime.0) < self.index_seconds {
            return Ok(true);
        }
        holds(&self.top, self.algorithm, path, entry.kind(), entry.oid)
    }
}

/// Whether a file or link has the contents with this id.
fn holds(top: &Top, algorithm: Algorithm, path: &[u8], kind: EntryKind, oid: Oid) -> io::Result<bool> {
    let bytes = top.read(path, kind == EntryKind::Link)?;
    Ok(bytes.is_some_and(|bytes| algorithm.object_id(Kind::Contents, &bytes) == oid))
}

/// Reads the index, and the second in which it was written.
fn read_index(layout: &Layout) -> Result<(Index, i64), Refusal> {
    let path = layout.git_dir.join("index");
    let shown = path.display().to_string();
    let failed = |source| Error::io(shown.clone(), source);
    if fs::symlink_metadata(&path).is_ok_and(|found| found.is_symlink()) {
        return Err(Refusal::Whole(format!("{shown} is a link, which would be replaced; commit with git instead")));
    }
    let mut bytes = Vec::new();
    let seconds = match File::open(&path) {
        Ok(mut file) => {
            file.read_to_end(&mut bytes).map_err(failed)?;
            file.metadata().map_err(failed)?.mtime()
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok((Index::empty(layout.algorithm), 0)),
        Err(source) => return Err(Refusal::Failed(Error::io(shown, source))),
    };
    match Index::decode(layout.algorithm, &bytes) {
        Ok(index) => Ok((index, seconds)),
        Err(IndexError::Unsupported(why)) => Err(Refusal::Whole(why)),
        Err(IndexError::Damaged(offset, reason)) => Err(Refusal::Failed(Error::Corrupt {
            file: shown,
            offset: offset as u64,
            oid: None,
            reason: reason.to_owned(),
        })),
    }
}

/// Returns all folders above the paths of changes, and the top, in order.
fn folders_above(changes: &[Change]) -> BTreeSet<&[u8]> {
    let mut all = BTreeSet::from([&b""[..]]);
    for change in changes {
        let path = &change.path[..];
        let ends = path.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| at);
        all.extend(ends.map(|at| &path[..=at]));
    }
    all
}
