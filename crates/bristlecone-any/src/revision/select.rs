//! Which commits and paths the words of a command mean: `A..B ^C -- fruit`.

use std::{
    ffi::{OsStr, OsString},
    os::unix::ffi::OsStrExt,
};

use bristlecone::{CommitId, Path, escape};

use super::RevisionError;
use crate::{
    AnyRepo, Tree,
    error::{ErrorKind, Result},
    path,
};

/// What a log is asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    /// Where it begins, in the order in which it was named.
    pub heads: Vec<CommitId>,
    /// What it leaves out, in that order.
    pub exclude: Vec<CommitId>,
    /// The number of heads that were named before anything that is left out.
    pub heads_before: usize,
    /// The paths, from the top of the tree.
    pub paths: Vec<Path>,
    /// Whether any revision was named.
    pub named: bool,
}

impl Selection {
    fn head(&mut self, at: CommitId) {
        self.named = true;
        self.heads.push(at);
        self.heads_before += usize::from(self.exclude.is_empty());
    }

    fn exclude(&mut self, at: CommitId) {
        self.named = true;
        self.exclude.push(at);
    }

    /// Adds a revision, or several.
    fn add(&mut self, repo: &AnyRepo, word: &OsStr) -> Result<()> {
        if let Some(range) = Range::parse(repo, word)? {
            range.exclude.into_iter().for_each(|at| self.exclude(at));
            range.heads.into_iter().for_each(|at| self.head(at));
        } else if let Some(rest) = word.as_bytes().strip_prefix(b"^") {
            self.exclude(super::commit(repo, OsStr::from_bytes(rest))?);
        } else {
            self.head(super::commit(repo, word)?);
        }
        Ok(())
    }
}

/// Two revisions with dots between them, as what it leads to and what it leaves out.
struct Range {
    heads: Vec<CommitId>,
    exclude: Vec<CommitId>,
    // Of A..B and A...B what stands before the dots, or for the latter the best common ancestor.
    before: Option<CommitId>,
}

impl Range {
    /// Reads `A..B` or `A...B`; an empty side is HEAD. `None` for a word without dots between.
    fn parse(repo: &AnyRepo, word: &OsStr) -> Result<Option<Self>> {
        let bytes = word.as_bytes();
        let Some(dots) = bytes.windows(2).position(|two| two == b"..") else { return Ok(None) };
        // A path, or a path in a revision.
        if bytes == b".." || bytes.starts_with(b"../") || bytes[..dots].contains(&b':') {
            return Ok(None);
        }
        let symmetric = bytes[dots + 2..].starts_with(b".");
        let (one, other) = (&bytes[..dots], &bytes[dots + 2 + usize::from(symmetric)..]);
        let side = |side: &[u8]| {
            let side = if side.is_empty() { b"HEAD" } else { side };
            super::commit(repo, OsStr::from_bytes(side))
        };
        let (one, other) = (side(one)?, side(other)?);
        Ok(Some(if symmetric {
            let bases = repo.merge_bases(one, other)?;
            Self { heads: vec![one, other], before: bases.first().copied(), exclude: bases }
        } else {
            Self { heads: vec![other], before: Some(one), exclude: vec![one] }
        }))
    }
}

/// Returns before and after of `A..B`, and of `A...B`, where before is the best common ancestor. `None` for another word.
///
/// # Errors
/// [`RevisionError::NoAncestor`]; those of [`crate::revision::commit`].
pub fn pair(repo: &AnyRepo, word: &OsStr) -> Result<Option<(CommitId, CommitId)>> {
    let Some(range) = Range::parse(repo, word)? else { return Ok(None) };
    let Some(after) = range.heads.last() else { return Ok(None) };
    match range.before {
        Some(before) => Ok(Some((before, *after))),
        None => Err(RevisionError::NoAncestor { text: shown(word) }.into()),
    }
}

/// Returns what words mean, each a revision or a path; `rest` are those behind `--`, which are paths, where that stands. Before them come
/// `revisions`, which are nothing else.
///
/// Without `--`, a word must be one of the two and not the other. There are paths in the commits that the words name, and in
/// `here`: what is checked out, as a rule.
///
/// # Errors
/// Those of [`crate::revision::commit`] for a word that can only be a revision; [`RevisionError::Both`],
/// [`RevisionError::Neither`].
pub fn select(
    repo: &AnyRepo,
    revisions: &[OsString],
    words: &[OsString],
    rest: Option<&[OsString]>,
    here: Option<CommitId>,
) -> Result<Selection> {
    let mut found = Selection::default();
    for word in revisions {
        found.add(repo, word)?;
    }
    let Some(rest) = rest else {
        let mut others = Vec::new();
        for word in words {
            match found.add(repo, word) {
                Ok(()) => others.push((word, None)),
                Err(error) if error.kind() != ErrorKind::Failed => others.push((word, Some(error))),
                Err(error) => return Err(error),
            }
        }
        let heads = found.heads.iter().copied().chain(here);
        let places = heads.map(|at| Ok(repo.checkout(at)?)).collect::<Result<Vec<_>>>()?;
        for (word, error) in others {
            match (is_there(&places, word)?, error) {
                (None, None) => {}
                (Some(path), Some(_)) => found.paths.push(path),
                (Some(_), None) => return Err(RevisionError::Both { word: shown(word) }.into()),
                (None, Some(error)) if error.kind() == ErrorKind::Mistake => return Err(error),
                (None, Some(_)) => {
                    // What no path can be is told as such.
                    path_of(word)?;
                    return Err(RevisionError::Neither { word: shown(word) }.into());
                }
            }
        }
        return Ok(found);
    };
    for word in words {
        found.add(repo, word)?;
    }
    found.paths = rest.iter().map(|path| path_of(path)).collect::<Result<_>>()?;
    Ok(found)
}

/// Returns the path that a word is, if there is something there.
fn is_there(trees: &[Tree], word: &OsStr) -> Result<Option<Path>> {
    let Ok(path) = path_of(word) else { return Ok(None) };
    for tree in trees {
        if path.is_root() || tree.entry(&path)?.is_some() {
            return Ok(Some(path));
        }
    }
    Ok(None)
}

/// Returns the path that a word is; a directory may be written with a slash at its end.
fn path_of(word: &OsStr) -> Result<Path> {
    let bytes = word.as_bytes();
    path::parse(OsStr::from_bytes(bytes.strip_suffix(b"/").unwrap_or(bytes)))
}

fn shown(word: &OsStr) -> String {
    escape(word.as_bytes())
}
