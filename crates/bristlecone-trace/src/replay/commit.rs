//! Commits: made as a trace says, their hashes compared, and found again for checkouts and parents.

use std::collections::HashMap;

use bristlecone::{Branch, Format, Info, ObjRef, Repo, Signature, Tree};

use super::{CommitHash, ReplayOptions, ToOid, error::Fault};
use crate::{Hashes, Scoped};

/// The author of every commit of a context.
pub(super) const AUTHOR: &[u8] = b"Tezos";

/// Makes commits and keeps what each recorded hash became.
#[derive(Debug)]
pub(super) struct Committer<F: Format> {
    repo: Repo<F>,
    branch: Branch<F>,
    check: Option<ToOid>,
    hashes: HashMap<CommitHash, ObjRef>,
    info: Info,
    parents: Vec<ObjRef>,
    // What the branch names.
    head: Option<ObjRef>,
    recorded: Option<CommitHash>,
    checked: u64,
}

/// A commit as a row records it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Recorded<'a> {
    pub(super) hash: Scoped<&'a [u8]>,
    pub(super) date: i64,
    pub(super) message: &'a [u8],
    pub(super) parents: Hashes<'a>,
}

impl<F: Format> Committer<F> {
    pub(super) fn new(repo: &Repo<F>, options: &ReplayOptions) -> bristlecone::Result<Self> {
        let branch = repo.branch(&options.branch)?;
        let head = branch.head()?;
        Ok(Self {
            repo: repo.clone(),
            branch,
            check: options.check_hashes,
            hashes: HashMap::new(),
            info: Info::message("").durability(options.durability),
            parents: Vec::new(),
            head,
            recorded: None,
            checked: 0,
        })
    }

    /// Returns the tree of the commit that a recorded hash became.
    pub(super) fn checkout(&mut self, hash: Scoped<&[u8]>) -> Result<Tree<F>, Fault> {
        let at = self.mentioned(hash)?;
        Ok(self.repo.checkout(at)?)
    }

    /// Commits a tree and moves the branch, in one append.
    pub(super) fn commit(&mut self, tree: &mut Tree<F>, recorded: Recorded<'_>) -> Result<(), Fault> {
        let hash = parse(recorded.hash.value)?;
        self.parents.clear();
        for parent in recorded.parents.iter() {
            let at = self.mentioned(parent)?;
            self.parents.push(at);
        }
        let who = Signature::new(AUTHOR, recorded.date);
        (self.info.author, self.info.committer) = (who.clone(), who);
        self.info.message.clear();
        self.info.message.extend_from_slice(recorded.message);
        // The branch follows the commits as they come, also from one line to another.
        let at = self.branch.commit_over(self.head, tree, &self.parents, &self.info)?;
        (self.head, self.recorded) = (Some(at), Some(hash));
        if let Some(to_oid) = self.check {
            if to_oid(&hash) != at.oid {
                return Err(Fault::Hash { expected: hash, found: CommitHash::of(at.oid) });
            }
            self.checked += 1;
        }
        if recorded.hash.keep {
            self.hashes.insert(hash, at);
        } else {
            self.hashes.remove(&hash);
        }
        Ok(())
    }

    /// Returns the commit made last, and its recorded hash.
    pub(super) fn head(&self) -> Option<(ObjRef, CommitHash)> {
        self.head.zip(self.recorded)
    }

    /// Returns how many hashes were compared, all of them equal.
    pub(super) const fn checked(&self) -> u64 {
        self.checked
    }

    /// Returns how many commits may be mentioned again.
    pub(super) fn len(&self) -> usize {
        self.hashes.len()
    }

    fn mentioned(&mut self, hash: Scoped<&[u8]>) -> Result<ObjRef, Fault> {
        let parsed = parse(hash.value)?;
        let at = if hash.keep { self.hashes.get(&parsed).copied() } else { self.hashes.remove(&parsed) };
        at.ok_or(Fault::Commit { hash: parsed })
    }
}

fn parse(text: &[u8]) -> Result<CommitHash, Fault> {
    CommitHash::parse(text).ok_or_else(|| {
        let shown = &text[..text.len().min(60)];
        Fault::HashText { text: bristlecone::escape(shown) }
    })
}
