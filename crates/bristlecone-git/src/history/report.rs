//! What a transfer reports: its progress, how much it wrote, what became of each ref.

use bristlecone::{CommitId, Oid};

use super::error::Missing;

/// The progress of a transfer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Status {
    /// Commits found so far.
    pub commits_found: u64,
    /// Commits to be transferred; 0 until all are found.
    pub commits_total: u64,
    /// Commits whose trees were walked.
    pub commits: u64,
    /// Trees, values and tags read.
    pub objects: u64,
    /// Bytes of these.
    pub bytes: u64,
}

/// How much was written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Commits.
    pub commits: u64,
    /// Directories.
    pub trees: u64,
    /// Values.
    pub blobs: u64,
    /// Annotated tags.
    pub tags: u64,
    /// Bytes of all of these, as Git has them.
    pub bytes: u64,
}

impl Counts {
    /// Returns the number of objects.
    #[must_use]
    pub const fn objects(&self) -> u64 {
        self.commits + self.trees + self.blobs + self.tags
    }
}

/// Names of people that were written otherwise, since Git takes none with such characters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Respelled {
    /// How many there are in new commits and tags.
    pub count: u64,
    /// The commit of the store with the first of them, parents first; `None` in a tag.
    pub commit: Option<CommitId>,
    /// The first name as the store has it, and of which tag.
    pub place: String,
}

impl Respelled {
    pub(crate) fn add(&mut self, commit: Option<CommitId>, place: impl FnOnce() -> String) {
        if self.count == 0 {
            (self.commit, self.place) = (commit, place());
        }
        self.count += 1;
    }
}

/// A ref that was left out, because an object that it leads to is missing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftOut {
    /// The ref.
    pub name: String,
    /// What it names.
    pub oid: Oid,
    /// What is missing.
    pub missing: Missing,
}

/// What became of a ref.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MovedRef {
    /// Its full name.
    pub name: String,
    /// What happened.
    pub state: RefState,
}

/// What happened to a ref.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RefState {
    /// It is new.
    New,
    /// It moved.
    Moved,
    /// It held the value already.
    Same,
    /// It did not move: the commit that it holds is not an ancestor of the new one, and would be dropped.
    Kept,
    /// It did not move: its files are checked out and would not follow, or a rebase will move it.
    CheckedOut,
}

impl RefState {
    /// Returns the name, as JSON writes it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::New => "new",
            Self::Moved => "moved",
            Self::Same => "same",
            Self::Kept => "kept",
            Self::CheckedOut => "checked_out",
        }
    }
}

/// Refs with this prefix follow another repository, whatever it does.
pub(crate) const FOLLOWING: &str = "refs/remotes/";
