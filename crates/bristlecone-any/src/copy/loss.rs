//! What a format could not keep of what was converted to it.

use std::{collections::BTreeMap, fmt};

use bristlecone::{CommitId, Path};

use crate::text::shown;

/// What could not be kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum LossKind {
    /// An executable became a plain value.
    Executable,
    /// A link became a value that holds its target.
    Link,
    /// An id of another store, such as a submodule, was left out.
    Foreign,
    /// A mode that Git spelled in an unusual way is spelled as usual.
    Mode,
    /// A directory without entries was left out.
    EmptyDir,
    /// An entry was left out for its name.
    Name,
    /// A directory was left out for its depth.
    Depth,
    /// A commit without entries was left out: its children follow its parents.
    EmptyCommit,
    /// The signature of a commit or tag was left out: it would not verify any more.
    Signature,
    /// A further header of a commit or tag was left out.
    Header,
    /// A name of an author or committer is written otherwise.
    Ident,
    /// The committer was left out; the author is kept.
    Committer,
    /// A time zone was left out; the moment is kept.
    Zone,
    /// A moment was moved to the first one that can be kept.
    Date,
    /// The parents of a merge are in another order.
    ParentOrder,
    /// Parents that the original store does not have itself were left out.
    Parent,
    /// A commit follows what retention has left behind its parent: nothing says that commits are missing.
    Cut,
    /// Zero bytes of a message were left out.
    Message,
    /// An annotated tag became a light one.
    Tag,
    /// A ref was left out, since it leads to no commit.
    Ref,
}

impl LossKind {
    /// Returns what it is, in the plural.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Executable => "executable bits",
            Self::Link => "links",
            Self::Foreign => "ids of other stores",
            Self::Mode => "unusual modes",
            Self::EmptyDir => "empty directories",
            Self::Name => "entries of such names",
            Self::Depth => "directories as deep",
            Self::EmptyCommit => "commits without entries",
            Self::Signature => "signatures",
            Self::Header => "headers",
            Self::Ident => "spellings of authors",
            Self::Committer => "committers",
            Self::Zone => "time zones",
            Self::Date => "dates",
            Self::ParentOrder => "orders of parents",
            Self::Parent => "parents that were never fetched",
            Self::Cut => "gaps that retention left",
            Self::Message => "zero bytes in messages",
            Self::Tag => "annotated tags",
            Self::Ref => "refs that lead to no commit",
        }
    }
}

impl LossKind {
    /// Whether entries or refs were left out, with what they lead to.
    #[must_use]
    pub const fn leaves_out(self) -> bool {
        matches!(self, Self::Foreign | Self::Name | Self::Depth | Self::Ref)
    }
}

/// How often something could not be kept, and where first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loss {
    /// What.
    pub kind: LossKind,
    /// How often: at each commit that brought it, or in each tag.
    pub count: u64,
    /// The commit of the original that was the first, parents first; `None` in a tag or ref.
    pub commit: Option<CommitId>,
    /// The path there, of an entry; or the name of the tag or ref, or of the header.
    pub place: String,
}

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let left_out = if self.kind.leaves_out() { " left out" } else { "" };
        write!(f, "{}: {}{left_out}, first ", self.kind.name(), self.count)?;
        match (&self.commit, self.place.is_empty()) {
            (Some(commit), true) => write!(f, "in commit {commit}"),
            (Some(commit), false) => write!(f, "{} in commit {commit}", shown(&self.place)),
            (None, _) => f.write_str(&shown(&self.place)),
        }
    }
}

/// What was lost so far.
#[derive(Debug, Default)]
pub(super) struct Losses(BTreeMap<LossKind, Loss>);

impl Losses {
    /// Counts a loss in a commit; `place` tells the name of what was lost, if it has one.
    pub(super) fn add(&mut self, kind: LossKind, commit: Option<CommitId>, place: impl FnOnce() -> String) {
        let first = || Loss { kind, count: 0, commit, place: place() };
        self.0.entry(kind).or_insert_with(first).count += 1;
    }

    /// Counts a loss at a path.
    pub(super) fn add_at(&mut self, kind: LossKind, commit: CommitId, path: &Path) {
        self.add(kind, Some(commit), || path.to_string());
    }

    /// Takes what was counted elsewhere.
    pub(super) fn put(&mut self, loss: Loss) {
        self.0.insert(loss.kind, loss);
    }

    pub(super) fn list(&self) -> Vec<Loss> {
        self.0.values().cloned().collect()
    }
}
