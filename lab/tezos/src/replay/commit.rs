//! Commits: made as a trace says, their hashes compared, and found again for checkouts and parents.

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

use bristlecone::{Branch, CommitId, Format, Info, Repo, Signature, Tree};

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
    hashes: HashMap<CommitHash, CommitId>,
    info: Info,
    parents: Vec<CommitId>,
    // What the branch names.
    head: Option<CommitId>,
    recorded: Option<CommitHash>,
    checked: u64,
    list_root: bool,
    clear_caches: bool,
}

/// A commit as a row records it.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    hash: Scoped<CommitHash>,
    date: i64,
    message: Vec<u8>,
    parents: Vec<Scoped<CommitHash>>,
}

impl Plan {
    /// Returns what a row records.
    pub(super) fn new(hash: Scoped<&[u8]>, date: i64, message: &[u8], parents: Hashes<'_>) -> Result<Self, Fault> {
        let parents = parents.iter().map(parse).collect::<Result<_, _>>()?;
        Ok(Self { hash: parse(hash)?, date, message: message.to_vec(), parents })
    }

    /// Returns every mention of a commit but that of its own hash.
    pub(super) fn parents(&self) -> &[Scoped<CommitHash>] {
        &self.parents
    }

    /// Returns its own hash.
    pub(super) const fn hash(&self) -> Scoped<CommitHash> {
        self.hash
    }
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
            info: Info::unsigned("").durability(options.durability),
            parents: Vec::new(),
            head,
            recorded: None,
            checked: 0,
            list_root: options.list_root_before_commit,
            clear_caches: options.clear_caches_after_commit,
        })
    }

    /// Returns the tree of the commit that a recorded hash became.
    pub(super) fn checkout(&mut self, hash: Scoped<CommitHash>) -> Result<Tree<F>, Fault> {
        let at = self.mentioned(hash)?;
        Ok(self.repo.checkout(at)?)
    }

    /// Notes the last mention of a commit.
    pub(super) fn forget(&mut self, hash: CommitHash) {
        self.hashes.remove(&hash);
    }

    /// Commits a tree and moves the branch, in one append. Returns how long that took.
    pub(super) fn commit(&mut self, tree: &mut Tree<F>, plan: Plan) -> Result<Duration, Fault> {
        if self.list_root {
            for entry in tree.list("")? {
                entry?;
            }
        }
        let began = Instant::now();
        self.parents.clear();
        for parent in &plan.parents {
            let at = self.mentioned(*parent)?;
            self.parents.push(at);
        }
        let who = Signature::new(AUTHOR, plan.date);
        (self.info.author, self.info.committer) = (Some(who.clone()), Some(who));
        self.info.message = plan.message;
        // The branch follows the commits as they come, also from one line to another.
        let at = self.branch.commit_over(self.head, tree, &self.parents, &self.info)?;
        let took = began.elapsed();
        let hash = plan.hash.value;
        (self.head, self.recorded) = (Some(at), Some(hash));
        if let Some(to_oid) = self.check {
            if to_oid(&hash) != at.oid() {
                return Err(Fault::Hash { expected: hash, found: CommitHash::of(at.oid()) });
            }
            self.checked += 1;
        }
        if plan.hash.keep {
            self.hashes.insert(hash, at);
        } else {
            self.hashes.remove(&hash);
        }
        if self.clear_caches {
            self.repo.clear_caches();
        }
        Ok(took)
    }

    /// Returns the commit made last, and its recorded hash.
    pub(super) fn head(&self) -> Option<(CommitId, CommitHash)> {
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

    fn mentioned(&mut self, hash: Scoped<CommitHash>) -> Result<CommitId, Fault> {
        let Scoped { value, keep } = hash;
        let at = if keep { self.hashes.get(&value).copied() } else { self.hashes.remove(&value) };
        at.ok_or(Fault::Commit { hash: value })
    }
}

/// Returns the hash that a recorded text stands for.
pub(super) fn parse(mention: Scoped<&[u8]>) -> Result<Scoped<CommitHash>, Fault> {
    let text = mention.value;
    match CommitHash::parse(text) {
        Some(value) => Ok(Scoped { value, keep: mention.keep }),
        None => Err(Fault::HashText { text: bristlecone::escape(&text[..text.len().min(60)]) }),
    }
}
