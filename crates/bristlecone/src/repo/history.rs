//! History: logs, ancestors, merge bases, and the last change of a path.
//!
//! Every commit carries its generation number, one more than the largest of its parents'. A walk that takes
//! commits in order of generations has seen all descendants of a commit when it comes to it, so it can stop
//! where nothing below can matter any more. No walk recurses: histories are deep.
//!
//! What changed at a path is asked commit by commit where it must be, and of derived filters where it can be
//! (`index`): a cache, kept by the backend, that may be lost or damaged at any time.

use bristlecone_core::{Commit, CommitId, Format, Path, native::Native};

use super::{Branch, Repo};
use crate::{Cursor, Differences, Entries, MapCursor, MapDifferences, MapItem, MapRange, Tree, TypedRange, Walk};

mod ahead;
mod ancestry;
mod changes;
pub(super) mod circle;
mod excluded;
mod filter;
mod graph;
mod index;
mod last_change;
mod lazy;
mod limited;
mod log;
mod manifest;
mod order;
mod positions;
mod revparse;
mod run;
mod watch;

pub(crate) use changes::{EditedPaths, EditedPathsList};
pub(crate) use graph::{CommitGraph, is_numbered};
pub use index::IndexedCommits;
pub(crate) use index::bring_up;
pub use log::Log;
pub(crate) use positions::StoredGraph;

/// A commit as walks give it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogEntry {
    /// Its id.
    pub id: CommitId,
    /// The commit.
    pub commit: Commit,
    /// Its generation number: 1 without parents, else one more than the largest of its parents'. `None` where the backend
    /// keeps none ([`crate::Capabilities::metadata_words`]): to tell it would take all of history.
    pub generation: Option<u64>,
}

impl LogEntry {
    /// Returns the generation number of a commit that was read with it.
    pub(super) fn number(&self) -> u64 {
        self.generation.unwrap_or_default()
    }
}

/// In which order a log lists commits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum LogOrder {
    /// By the committer's date, newest first, among those whose children were listed or which are heads. Where
    /// clocks were wrong a commit may come before a child that is reached later by another way.
    #[default]
    Date,
    /// No commit before all its children, otherwise by the committer's date, newest first.
    TopologicalByDate,
    /// No commit before all its children, and lines of history one after another. Among heads the newest is
    /// first; at a merge the line of its last parent is.
    Topological,
}

/// What a log lists.
///
/// ```
/// # use bristlecone::{Info, LogOptions, Repo};
/// let repo = Repo::memory();
/// let main = repo.branch("main")?;
/// for (path, message) in [("a", "one"), ("b/c", "two"), ("a", "three")] {
///     main.edit(&Info::message(message), |tree| tree.set(path, message))?;
/// }
/// let head = repo.revparse("main")?;
/// let options = LogOptions::default().paths(vec!["a".parse()?]);
/// let mut messages = Vec::new();
/// for entry in repo.log(&[head], options) {
///     messages.push(entry?.commit.message);
/// }
/// assert_eq!(messages, [&b"three"[..], b"one"]);
/// # Ok::<(), bristlecone::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct LogOptions {
    /// The order.
    pub order: LogOrder,
    /// The most commits to list.
    pub limit: Option<usize>,
    /// Commits that are reachable from these are left out, and so are these.
    pub exclude: Vec<CommitId>,
    /// How many of the heads were named before [`LogOptions::exclude`]. With a path it decides among commits of one second.
    pub heads_before: usize,
    /// Only commits that changed what is at one of these paths, values or directories; none: all commits.
    ///
    /// History is simplified as Git does: where a merge has a parent with the same at these paths, only the
    /// first such parent is followed. A merge that differs from all its parents is listed.
    ///
    /// With [`LogOptions::exclude`], commits are taken by date, newest first, and each is simplified with what is known
    /// to be left out by then: see `docs/git.md`.
    pub paths: Vec<Path>,
    /// Only commits that are not older than this, in seconds since 1970 by the committer's date. History before an older
    /// one is not looked at.
    pub since: Option<i64>,
    /// Only commits that are not newer than this.
    pub until: Option<i64>,
    /// Only the first parent of each commit is followed and compared with.
    pub first_parent: bool,
}

setters! {
    LogOptions {
        order: LogOrder,
        limit: into Option<usize>,
        exclude: Vec<CommitId>,
        heads_before: usize,
        paths: Vec<Path>,
        since: into Option<i64>,
        until: into Option<i64>,
        first_parent: bool,
    }
}

impl<F: Format> Repo<F> {
    /// Returns the commits that are reachable from `heads`, as `options` ask for, each once.
    ///
    /// Loads commits as they are asked for, where that can be. In order of dates the first costs the heads and their
    /// parents; in topological order, everything with a generation number above that of the lowest head. All that is
    /// listed is looked at first where paths meet commits that are left out, in the order
    /// [`LogOrder::TopologicalByDate`], and where commits carry no generation numbers and either some are left out or
    /// the order is topological.
    ///
    /// # Errors
    /// The iterator gives those of [`Repo::read_commit`], once, and ends.
    #[must_use]
    pub fn log(&self, heads: &[CommitId], options: LogOptions) -> Log<F> {
        Log::new(self.now(), self.shared.commit_refs(heads), options)
    }
}

const _: () = {
    const fn is_send<T: Send>() {}
    const fn is_shown<T: std::fmt::Debug>() {}
    is_send::<(Repo<Native>, Branch<Native>, Tree<Native>, Log<Native>)>();
    is_send::<(Entries<'_, Native>, Cursor<'_, Native>, Walk<'_, Native>, Differences<'_, Native>)>();
    is_shown::<(Entries<'_, Native>, Cursor<'_, Native>, Walk<'_, Native>, Differences<'_, Native>)>();
    is_shown::<(MapRange<'_>, MapCursor<'_>, MapItem<'_, '_>, MapDifferences<'_>, TypedRange<'_, u32, u32>)>();
};
