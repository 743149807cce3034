//! Commits that are looked for: by their messages, in reflogs, behind every ref.

use bristlecone::{CommitId, Error as StoreError, Kind, LogOptions, ObjRef, PeeledTags};
use bristlecone_git::worktree::{WorktreeHead, checked_out};
use regex::bytes::Regex;

use super::{RevisionError, name};
use crate::{AnyRepo, Head, error::Result};

/// A regular expression that is looked for in lines.
#[derive(Clone, Debug)]
pub struct Pattern(Regex);

impl Pattern {
    /// Reads a regular expression, as `git log -E` takes them.
    ///
    /// # Errors
    /// [`RevisionError::Pattern`].
    pub fn new(text: &str) -> Result<Self> {
        Regex::new(text).map(Self).map_err(|error| {
            let reason = error.to_string();
            let reason = reason.lines().last().unwrap_or_default().trim_start_matches("error: ");
            RevisionError::Pattern { text: text.to_owned(), reason: reason.to_owned() }.into()
        })
    }

    /// Whether a line of the text matches.
    #[must_use]
    pub fn is_in(&self, text: &[u8]) -> bool {
        text.split(|&byte| byte == b'\n').any(|line| self.0.is_match(line))
    }
}

/// Returns the newest commit behind any ref whose message has a line that matches.
pub(super) fn by_message(repo: &AnyRepo, words: &str) -> Result<CommitId> {
    let pattern = Pattern::new(words)?;
    for entry in repo.log(&every_head(repo)?, LogOptions::default()) {
        let entry = entry?;
        if pattern.is_in(&entry.commit.message) {
            return Ok(entry.id);
        }
    }
    Err(RevisionError::NoMessage { words: words.to_owned() }.into())
}

/// Returns the commits that refs lead to, in order of the refs' names, then those that working trees of a Git repository have
/// checked out by themselves, and last what is checked out.
///
/// # Errors
/// Those of the backend.
pub fn every_head(repo: &AnyRepo) -> Result<Vec<CommitId>> {
    let (mut heads, mut tags) = (Vec::new(), PeeledTags::default());
    for name in repo.backend().list_refs("refs/")?.into_keys() {
        let Some(at) = repo.resolve(&name)? else { continue };
        match repo.peel_noting(at, &mut tags) {
            Ok(at) => heads.push(at),
            // A tag of a tree or a value has no history.
            Err(StoreError::WrongKind { .. }) => {}
            Err(error) => return Err(error.into()),
        }
    }
    let places = repo.git().map(|(_, layout)| checked_out(layout)).transpose()?.unwrap_or_default();
    for place in places {
        if let WorktreeHead::Commit(oid) = place.head
            && repo.backend().read(&oid.into())?.is_some()
        {
            heads.push(CommitId::new(oid));
        }
    }
    heads.extend(repo.checked_out_commit()?);
    Ok(heads)
}

/// Returns what a ref held `back` moves ago, as its reflog says. Without a name it is the branch that is checked out.
pub(super) fn logged(repo: &AnyRepo, base: &str, back: usize) -> Result<(Kind, ObjRef)> {
    let Some((backend, _)) = repo.git() else {
        return Err(RevisionError::NoReflog.into());
    };
    let name = match (base, repo.checked_out()?) {
        ("", Head::Branch(branch)) => format!("refs/heads/{branch}"),
        ("" | "HEAD" | "@", _) => "HEAD".to_owned(),
        _ => name::ref_name(repo, base)?.ok_or_else(|| name::unknown(base))?,
    };
    let held = backend.refs().logged(&name)?;
    let place = held.len().checked_sub(1).and_then(|last| last.checked_sub(back));
    let Some(oid) = place.and_then(|place| held.get(place)) else {
        return Err(RevisionError::ReflogEnd { name, moves: held.len(), asked: back }.into());
    };
    match repo.backend().read(&(*oid).into())? {
        Some(object) => Ok((object.kind(), ObjRef::new(*oid, object.location()))),
        None => Err(name::unknown(&oid.to_string())),
    }
}
