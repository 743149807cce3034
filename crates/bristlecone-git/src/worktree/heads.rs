//! What is checked out where: the main working tree of a repository and those that are linked to it.

use std::{
    ffi::OsStr,
    fs, io,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

use bristlecone::{Error, Oid, Result};

use crate::repository::layout::{Config, Layout, linked_head};

/// A working tree and what is checked out in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckedOut {
    /// The folder of its `HEAD` and its index.
    pub git_dir: PathBuf,
    /// The folder of its files, where that is known.
    pub worktree: Option<PathBuf>,
    /// What its `HEAD` names.
    pub head: WorktreeHead,
    /// The full names of the branches that a rebase or bisection will move or come back to.
    pub under_way: Vec<String>,
}

/// What the `HEAD` of a working tree names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WorktreeHead {
    /// A ref, by its full name; it need not exist.
    Ref(String),
    /// A commit.
    Commit(Oid),
    /// Nothing that could be understood.
    Unknown,
}

/// Returns the working trees of a repository: the main one first, unless the repository is bare.
///
/// # Errors
/// [`Error::Io`].
pub fn checked_out(layout: &Layout) -> Result<Vec<CheckedOut>> {
    let mut all = Vec::new();
    if let Some(files) = main_worktree(layout)? {
        all.push(one(&layout.common_dir, Some(files))?);
    }
    let linked = layout.common_dir.join("worktrees");
    let entries = match fs::read_dir(&linked) {
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => return Ok(all),
        entries => entries.map_err(|error| failed(&linked, error))?,
    };
    let mut names = Vec::new();
    for entry in entries {
        names.push(entry.map_err(|error| failed(&linked, error))?.path());
    }
    names.sort();
    for git_dir in names {
        let Some(text) = read(&git_dir.join("gitdir"))? else { continue };
        // The file names the `.git` of the working tree, which may be gone or on a disk that is not there.
        let file = git_dir.join(OsStr::from_bytes(text.trim_ascii_end()));
        all.push(one(&git_dir, file.parent().map(Path::to_owned))?);
    }
    Ok(all)
}

/// Returns the folder of the files of the main working tree; `None` if the repository is bare.
fn main_worktree(layout: &Layout) -> Result<Option<PathBuf>> {
    let own = if layout.git_dir == layout.common_dir {
        return Ok(layout.worktree.clone());
    } else {
        // From a linked working tree: what counts for the main one alone is in a file of its own.
        let file = layout.common_dir.join("config.worktree");
        let special = layout.config.bool("extensions.worktreeConfig") == Some(true);
        let bytes = if special { read(&file)? } else { None };
        Config::parse(&file.display().to_string(), &bytes.unwrap_or_default())?
    };
    let shared = read(&layout.common_dir.join("config"))?.unwrap_or_default();
    let shared = Config::parse("config", &shared)?;
    let named = layout.common_dir.file_name() == Some(OsStr::new(".git"));
    if own.bool("core.bare").or_else(|| shared.bool("core.bare")).unwrap_or(!named) {
        return Ok(None);
    }
    let files = own.get("core.worktree").or_else(|| shared.get("core.worktree"));
    Ok(match files {
        Some(files) => Some(layout.common_dir.join(OsStr::from_bytes(files))),
        None => layout.common_dir.parent().map(Path::to_owned),
    })
}

fn one(git_dir: &Path, worktree: Option<PathBuf>) -> Result<CheckedOut> {
    let mut under_way = Vec::new();
    for name in ["rebase-merge/head-name", "rebase-apply/head-name", "BISECT_START"] {
        if let Some(text) = read(&git_dir.join(name))? {
            let name = String::from_utf8_lossy(text.trim_ascii()).into_owned();
            // A bisection notes the branch without what its name begins with.
            under_way.push(if name.starts_with("refs/") { name } else { format!("refs/heads/{name}") });
        }
    }
    // For each branch that `git rebase --update-refs` takes along: its name, where it was, where it goes.
    if let Some(text) = read(&git_dir.join("rebase-merge/update-refs"))? {
        let names = text.split(|&byte| byte == b'\n').step_by(3).filter(|name| name.starts_with(b"refs/"));
        under_way.extend(names.map(|name| String::from_utf8_lossy(name.trim_ascii()).into_owned()));
    }
    Ok(CheckedOut { git_dir: git_dir.to_owned(), worktree, head: head(git_dir)?, under_way })
}

/// Returns what the `HEAD` in a folder names.
pub(super) fn head(git_dir: &Path) -> Result<WorktreeHead> {
    let path = git_dir.join("HEAD");
    if let Some(name) = linked_head(git_dir) {
        return Ok(WorktreeHead::Ref(name));
    }
    let Some(text) = read(&path)? else { return Ok(WorktreeHead::Unknown) };
    let text = String::from_utf8_lossy(text.trim_ascii()).into_owned();
    Ok(match text.strip_prefix("ref:") {
        Some(name) => WorktreeHead::Ref(name.trim().to_owned()),
        None => text.parse().map_or(WorktreeHead::Unknown, WorktreeHead::Commit),
    })
}

/// Reads a file; `None` if it is absent.
fn read(path: &Path) -> Result<Option<Vec<u8>>> {
    match fs::read(path) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => Ok(None),
        Err(error) => Err(failed(path, error)),
    }
}

fn failed(path: &Path, source: io::Error) -> Error {
    Error::io(path.display().to_string(), source)
}
