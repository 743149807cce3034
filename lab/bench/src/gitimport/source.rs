//! What is in the repository that is imported, as git counts it.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use bristlecone::core::git::Algorithm;

use crate::{BenchError, error::Result, peers::program::said_by_git};

/// A repository that is imported.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Repository {
    /// Where it is.
    pub(super) path: PathBuf,
    /// What it is called: its folder's name.
    pub(super) name: String,
    /// The hash of its ids.
    pub(super) algorithm: Algorithm,
    /// Every ref with its id.
    pub(super) refs: BTreeMap<String, String>,
    /// Objects that the refs lead to.
    pub(super) objects: u64,
    /// Commits among them.
    pub(super) commits: u64,
    /// Bytes that those objects take, packed or loose.
    pub(super) bytes: u64,
}

impl Repository {
    /// # Errors
    /// [`BenchError::Usage`] if there is no repository, or none with a commit.
    pub(super) fn read(path: &Path) -> Result<Self> {
        let path = fs::canonicalize(path).map_err(BenchError::io(path))?;
        let refs = refs(&path)?;
        if refs.is_empty() {
            return Err(BenchError::usage(format!("{}: the repository has no refs to import", path.display())));
        }
        let count = |arguments: &[&str]| {
            let text = said_by_git(&path, arguments).map_err(BenchError::usage)?;
            text.parse().map_err(|_| BenchError::usage(format!("git {}: {text} is no number", arguments.join(" "))))
        };
        let hash = said_by_git(&path, &["rev-parse", "--show-object-format"]).map_err(BenchError::usage)?;
        let name = path.file_name().filter(|name| *name != ".git").or_else(|| path.parent()?.file_name());
        let name = name.unwrap_or_default().to_string_lossy();
        Ok(Self {
            name: name.strip_suffix(".git").unwrap_or(&name).to_owned(),
            algorithm: Algorithm::from_name(&hash)
                .ok_or_else(|| BenchError::usage(format!("{}: ids of {hash} are not known", path.display())))?,
            refs,
            objects: count(&["rev-list", "--all", "--objects", "--count"])?,
            commits: count(&["rev-list", "--all", "--count"])?,
            bytes: count(&["rev-list", "--all", "--objects", "--disk-usage"])?,
            path,
        })
    }
}

/// Returns the refs of a repository with their ids; those of HEAD and other symbolic refs are left out.
///
/// # Errors
/// [`BenchError::Usage`] if it is none.
pub(super) fn refs(path: &Path) -> Result<BTreeMap<String, String>> {
    let format = "--format=%(objectname) %(symref) %(refname)";
    let text = said_by_git(path, &["for-each-ref", format]).map_err(BenchError::usage)?;
    let line = |line: &str| {
        let (oid, rest) = line.split_once(' ')?;
        let (symbolic, name) = rest.split_once(' ')?;
        symbolic.is_empty().then(|| (name.to_owned(), oid.to_owned()))
    };
    Ok(text.lines().filter_map(line).collect())
}
