//! What is done: scenarios, the sweep over task counts, and the long forms.

use serde::{Deserialize, Serialize};

/// What is done. `docs/bench.md` describes each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Work {
    /// Check out, add every entry, commit, again and again; all entries of a commit have one value.
    Commits,
    /// The same with every value different.
    CommitsDistinct,
    /// As `Commits`, with 10,000 B and at most 200 entries.
    LargeValues,
    /// `Commits` by many tasks, each on its own branch.
    CommitsParallel,
    /// Check out, change one entry, commit.
    Incremental {
        /// Twenty times as many commits.
        long: bool,
        /// Set every other entry again to what it is.
        touch_all: bool,
    },
    /// `Incremental` by many tasks, each on its own branch.
    IncrementalParallel,
    /// Look entries up.
    Reads {
        /// How.
        way: Way,
        /// How many threads share the lookups.
        threads: usize,
        /// A hundred times as many lookups.
        long: bool,
    },
    /// Lookups by many tasks, each in its own branch.
    ReadsParallel,
    /// Store and read objects, below the tree.
    Concurrent {
        /// A task gives its new objects to the backend together.
        batched: bool,
        /// Ten times as many rounds.
        long: bool,
    },
    /// Edit, encode and hash commits on separate branches, without appending them.
    Prepare {
        /// Every entry is set, not one alone.
        whole: bool,
        /// How many threads share the commits.
        threads: usize,
    },
    /// One-entry commits on 100 branches that share writes and syncs.
    GroupCommit {
        /// One thread for each branch, in place of one preparer for each core.
        threads: bool,
    },
    /// One amount of work, cut into `tasks` tasks.
    Sweep(Sweep),
    /// A long form.
    Big(Big),
}

/// What is done by more and more tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Sweep {
    /// Store and read objects, below the tree.
    Concurrent,
    /// Commit small directories, each task on its own branch.
    Commits,
    /// Change one entry and commit, each task on its own branch.
    Incremental,
    /// Look entries up, each task in a checkout of its own.
    Reads,
}

impl Sweep {
    /// Every kind, in the order of the charts.
    pub const ALL: [Self; 4] = [Self::Concurrent, Self::Commits, Self::Incremental, Self::Reads];

    /// Returns the name of the scenario.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Concurrent => "concurrent",
            Self::Commits => "commits",
            Self::Incremental => "incremental",
            Self::Reads => "reads",
        }
    }
}

/// The long forms, which run only when asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Big {
    /// Opening a store of so many bytes.
    Open {
        /// Bytes of values in the store.
        bytes: u64,
    },
    /// Reading at random from a store larger than the budget of the cache, without maps.
    Budget {
        /// Bytes of values in the store.
        bytes: u64,
    },
    /// Adding, removing, finding and listing in a directory of so many entries.
    Wide {
        /// Entries of the directory.
        entries: u64,
    },
    /// One commit of so many new entries.
    Large {
        /// Entries of the commit.
        entries: u64,
    },
}

impl Work {
    /// Returns the name by which `--only-scenario` selects it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Commits | Self::CommitsParallel => "commits",
            Self::CommitsDistinct => "commits-10K-distinct",
            Self::LargeValues => "large-values",
            Self::Incremental { .. } | Self::IncrementalParallel => "incremental",
            Self::Reads { way: Way::InOrder, .. } | Self::ReadsParallel => "reads",
            Self::Reads { .. } => "reads-random",
            Self::Concurrent { .. } => "concurrent",
            Self::Prepare { .. } => "prepare",
            Self::GroupCommit { .. } => "group-commit",
            Self::Sweep(kind) => kind.name(),
            Self::Big(_) => "big",
        }
    }

    /// Whether it writes within the timed part, so that durability matters.
    #[must_use]
    pub const fn writes(self) -> bool {
        !matches!(self, Self::Reads { .. } | Self::ReadsParallel | Self::Prepare { .. } | Self::Sweep(Sweep::Reads))
    }

    /// Whether an operation is a commit.
    #[must_use]
    pub const fn counts_commits(self) -> bool {
        matches!(
            self,
            Self::Incremental { .. }
                | Self::IncrementalParallel
                | Self::GroupCommit { .. }
                | Self::Prepare { whole: false, .. }
                | Self::Sweep(Sweep::Incremental)
        )
    }
}

/// How entries are looked up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Way {
    /// In order, each path walked whole.
    InOrder,
    /// At random, each path walked whole.
    Walk,
    /// At random, the last directory remembered.
    Reader,
    /// At random, below a handle of the directory.
    Subtree,
}

impl Way {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::InOrder => "reads",
            Self::Walk => "reads-random",
            Self::Reader => "reads-random-reader",
            Self::Subtree => "reads-random-subtree",
        }
    }
}
