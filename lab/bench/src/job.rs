//! What is measured: one scenario, at one value size, on one backend, with the switches that are set.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// One measurement, as it is handed to the process that does it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Job {
    /// What is done.
    pub work: Work,
    /// Where the objects go.
    pub target: Target,
    /// The size of the values in bytes.
    pub value_bytes: usize,
    /// How much of it is done.
    pub sizes: Sizes,
    /// Which optimisations are on.
    pub switches: Switches,
    /// The folder in which stores are made and removed again.
    pub dir: PathBuf,
    /// Put before the backend's name in the row's name.
    pub name: String,
    /// Names the switches in place of their words, in the table of optimisations.
    pub label: Option<String>,
    /// Real Git looks at the repository that the run leaves, where there is one: once is enough for a row.
    pub judged: bool,
}

impl Job {
    /// Returns the scenario's name with the size, as rows have it: `commits-20B`.
    #[must_use]
    pub fn scenario(&self) -> String {
        let size = size_name(self.value_bytes);
        let tasks = format!("p{}x{}", self.sizes.domains, self.sizes.fibers);
        let threads = |threads: usize| format!("{threads}t");
        match self.work {
            Work::Commits => format!("commits-{size}"),
            Work::CommitsDistinct => format!("commits-{size}-distinct"),
            Work::LargeValues => "large-values".into(),
            Work::CommitsParallel => format!("commits-{size}-{tasks}"),
            Work::Incremental { long: false, .. } => format!("incremental-{size}"),
            Work::Incremental { long: true, .. } => format!("incremental-long-{size}"),
            Work::IncrementalParallel => format!("incremental-{size}-{tasks}"),
            Work::Reads { way: Way::InOrder, .. } => format!("reads-{size}"),
            Work::Reads { way, long, threads: count } => {
                let long = if long { "-long" } else { "" };
                format!("{}{long}-{size}-{}", way.name(), threads(count))
            }
            Work::ReadsParallel => format!("reads-{size}-{tasks}"),
            Work::Concurrent { batched: true, long: false } => format!("concurrent-{size}"),
            Work::Concurrent { batched: true, long: true } => format!("concurrent-long-{size}"),
            Work::Concurrent { batched: false, .. } => format!("concurrent-each-{size}"),
            Work::Prepare { whole: true, threads: count } => format!("prepare-{size}-{}", threads(count)),
            Work::Prepare { whole: false, threads: count } => format!("prepare-one-{size}-{}", threads(count)),
            Work::GroupCommit { threads: false } => format!("group-commit-{size}"),
            Work::GroupCommit { threads: true } => format!("group-commit-threads-{size}"),
            Work::Sweep(kind) => format!("{}-{size}-{}-tasks", kind.name(), self.sizes.tasks),
            Work::Big(Big::Open { bytes }) => format!("open-{}", count_name(bytes)),
            Work::Big(Big::Budget { bytes }) => format!("over-budget-{}", count_name(bytes)),
            Work::Big(Big::Wide { entries }) => format!("wide-{}", count_name(entries)),
            Work::Big(Big::Large { entries }) => format!("one-commit-{}", count_name(entries)),
        }
    }

    /// Returns the row's name: the prefix, the backend, the switches and the sizes that are not as usual. Others have their
    /// own name in place of the first three.
    #[must_use]
    pub fn row_name(&self) -> String {
        let (target, sizes) = (self.target.name(), self.unusual_sizes());
        if self.target.is_peer() {
            return format!("{target} {sizes}").trim_end().to_owned();
        }
        let as_usual = format!("{} {target} {}", self.name, self.variant());
        format!("{} {sizes}", as_usual.trim_end()).trim_end().to_owned()
    }

    /// Returns what the row's name says of the switches; empty if they are as usual.
    #[must_use]
    pub fn variant(&self) -> String {
        self.label.clone().unwrap_or_else(|| self.switches.words().join(" "))
    }

    /// Returns a word for each size that is not as usual, separated by spaces. The sweep and the long forms have sizes of
    /// their own, and no word.
    #[must_use]
    pub fn unusual_sizes(&self) -> String {
        match self.work {
            Work::Sweep(_) | Work::Big(_) => String::new(),
            _ => self.sizes.words().join(" "),
        }
    }

    /// Returns how many entries the wide directory has.
    #[must_use]
    pub(crate) fn entries(&self) -> usize {
        let most = if self.work == Work::LargeValues { LARGE_ENTRIES_MAX } else { usize::MAX };
        self.sizes.tree_add.min(most)
    }
}

/// `large-values` has at most so many entries.
const LARGE_ENTRIES_MAX: usize = 200;

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
    const fn name(self) -> &'static str {
        match self {
            Self::InOrder => "reads",
            Self::Walk => "reads-random",
            Self::Reader => "reads-random-reader",
            Self::Subtree => "reads-random-subtree",
        }
    }
}

/// Who does the work, where its objects go, and when a commit is acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Target {
    /// The memory backend.
    Memory,
    /// The disk engine, acknowledged after the write.
    DiskNone,
    /// The disk engine, acknowledged after the sync.
    DiskSynced,
    /// A log-structured merge tree, acknowledged after the write.
    LsmNone,
    /// A log-structured merge tree, acknowledged after the sync.
    LsmSynced,
    /// LMDB, acknowledged once its pages are synced.
    LmdbNone,
    /// LMDB, acknowledged once its root is synced, too.
    LmdbSynced,
    /// One file an object, acknowledged after the writes.
    FsNone,
    /// One file an object, acknowledged after the syncs.
    FsSynced,
    /// A Git repository, each commit a pack, acknowledged after the writes.
    GitPacksNone,
    /// A Git repository, each commit a pack, acknowledged after the syncs.
    GitPacksSynced,
    /// A Git repository of loose objects, acknowledged after the writes.
    GitLooseNone,
    /// A Git repository of loose objects, acknowledged after the syncs.
    GitLooseSynced,
    /// libgit2, as it is.
    Libgit2,
    /// libgit2 told to sync what it writes.
    Libgit2Synced,
    /// gitoxide, which does not sync.
    Gitoxide,
    /// The program `git fast-import`, fed the whole history.
    FastImport,
}

impl Target {
    /// The stores of the native format in memory and of the disk engine, in the order of columns.
    pub const NATIVE: [Self; 3] = [Self::Memory, Self::DiskNone, Self::DiskSynced];
    /// The stores of the native format in other backends, in the order of columns.
    pub const OTHERS: [Self; 6] =
        [Self::LsmNone, Self::LsmSynced, Self::LmdbNone, Self::LmdbSynced, Self::FsNone, Self::FsSynced];
    /// Our stores in Git repositories, in the order of columns.
    pub const GIT: [Self; 4] = [Self::GitPacksNone, Self::GitPacksSynced, Self::GitLooseNone, Self::GitLooseSynced];
    /// Others that write Git repositories.
    pub const PEERS: [Self; 4] = [Self::Libgit2, Self::Libgit2Synced, Self::Gitoxide, Self::FastImport];

    /// Returns every target, in the order in which they are measured.
    pub fn all() -> impl Iterator<Item = Self> {
        [&Self::NATIVE[..], &Self::OTHERS, &Self::GIT, &Self::PEERS].into_iter().flatten().copied()
    }

    /// Returns the name with the durability.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::DiskNone => "disk none",
            Self::DiskSynced => "disk synced",
            Self::LsmNone => "lsm none",
            Self::LsmSynced => "lsm synced",
            Self::LmdbNone => "lmdb none",
            Self::LmdbSynced => "lmdb synced",
            Self::FsNone => "fs none",
            Self::FsSynced => "fs synced",
            Self::GitPacksNone => "git packs none",
            Self::GitPacksSynced => "git packs synced",
            Self::GitLooseNone => "git loose none",
            Self::GitLooseSynced => "git loose synced",
            Self::Libgit2 => "libgit2",
            Self::Libgit2Synced => "libgit2 synced",
            Self::Gitoxide => "gitoxide",
            Self::FastImport => "git fast-import",
        }
    }

    /// Returns the name of the backend, or of the other program.
    #[must_use]
    pub const fn backend(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::DiskNone | Self::DiskSynced => "disk",
            Self::LsmNone | Self::LsmSynced => "lsm",
            Self::LmdbNone | Self::LmdbSynced => "lmdb",
            Self::FsNone | Self::FsSynced => "fs",
            Self::GitPacksNone | Self::GitPacksSynced | Self::GitLooseNone | Self::GitLooseSynced => "git",
            Self::Libgit2 | Self::Libgit2Synced => "libgit2",
            Self::Gitoxide => "gitoxide",
            Self::FastImport => "git fast-import",
        }
    }

    /// Returns the durability of its commits.
    #[must_use]
    pub const fn durability(self) -> bristlecone::Durability {
        match self {
            Self::DiskSynced
            | Self::LsmSynced
            | Self::LmdbSynced
            | Self::FsSynced
            | Self::GitPacksSynced
            | Self::GitLooseSynced
            | Self::Libgit2Synced => bristlecone::Durability::Synced,
            _ => bristlecone::Durability::None,
        }
    }

    /// Whether a commit is acknowledged after a sync.
    #[must_use]
    pub const fn is_synced(self) -> bool {
        matches!(self.durability(), bristlecone::Durability::Synced)
    }

    /// Whether it is a store of the native format in another backend than memory and the disk engine.
    #[must_use]
    pub fn is_other(self) -> bool {
        Self::OTHERS.contains(&self)
    }

    /// Whether it has files of one object each, which take most of the time.
    #[must_use]
    pub const fn is_files(self) -> bool {
        matches!(self, Self::FsNone | Self::FsSynced) || self.is_loose()
    }

    /// Whether it is a store of ours in a Git repository.
    #[must_use]
    pub const fn is_git(self) -> bool {
        matches!(self, Self::GitPacksNone | Self::GitPacksSynced | Self::GitLooseNone | Self::GitLooseSynced)
    }

    /// Whether a store of ours keeps loose objects.
    #[must_use]
    pub const fn is_loose(self) -> bool {
        matches!(self, Self::GitLooseNone | Self::GitLooseSynced)
    }

    /// Whether it is not a store of ours.
    #[must_use]
    pub const fn is_peer(self) -> bool {
        matches!(self, Self::Libgit2 | Self::Libgit2Synced | Self::Gitoxide | Self::FastImport)
    }

    /// Whether its objects have Git's ids, so that heads and roots can be compared.
    #[must_use]
    pub const fn has_git_ids(self) -> bool {
        self.is_git() || self.is_peer()
    }
}

/// How much is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sizes {
    /// Commits of a scenario.
    pub ncommits: usize,
    /// Entries of the wide directory.
    pub tree_add: usize,
    /// Directories above an entry.
    pub depth: usize,
    /// Lookups of a scenario.
    pub nreads: usize,
    /// Tasks of `concurrent` and of the sweep.
    pub tasks: usize,
    /// Threads of the parallel forms.
    pub domains: usize,
    /// Branches for each of them.
    pub fibers: usize,
}

impl Default for Sizes {
    fn default() -> Self {
        Self { ncommits: 100, tree_add: 1000, depth: 10, nreads: 10_000, tasks: 100, domains: 2, fibers: 1 }
    }
}

impl Sizes {
    /// Returns a word for each size that is not as usual. How many tasks, threads and branches there are stands in the
    /// names of scenarios.
    fn words(&self) -> Vec<String> {
        let usual = Self::default();
        let sizes = [
            ("ncommits", self.ncommits, usual.ncommits),
            ("tree-add", self.tree_add, usual.tree_add),
            ("depth", self.depth, usual.depth),
            ("nreads", self.nreads, usual.nreads),
        ];
        let unusual = sizes.into_iter().filter(|(_, size, usual)| size != usual);
        unusual.map(|(name, size, _)| format!("{name}={size}")).collect()
    }
}

/// Which optimisations are on. Inlining and splitting change roots.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Switches {
    /// Short values live in their directory.
    pub inline: bool,
    /// Wide directories are split.
    pub split: bool,
    /// Objects on disk are read through memory maps.
    pub maps: bool,
    /// Children are addressed by location.
    pub direct: bool,
    /// The budget of the object cache in bytes, used where there are no maps; `None`: the engine's own.
    pub cache_bytes: Option<u64>,
}

impl Default for Switches {
    fn default() -> Self {
        Self { inline: true, split: true, maps: true, direct: true, cache_bytes: None }
    }
}

impl Switches {
    /// Returns a word for each switch that is not as usual.
    #[must_use]
    pub fn words(&self) -> Vec<String> {
        let off =
            [(self.inline, "no-inline"), (self.split, "no-inode"), (self.maps, "no-maps"), (self.direct, "no-direct")];
        let mut words: Vec<String> = off.iter().filter(|(on, _)| !on).map(|(_, word)| (*word).to_owned()).collect();
        words.extend(self.cache_bytes.map(|bytes| format!("cache={bytes}")));
        words
    }
}

/// Returns the name of a value size: `20B`, `10K`.
#[must_use]
pub fn size_name(bytes: usize) -> String {
    if bytes >= 1000 && bytes.is_multiple_of(1000) { format!("{}K", bytes / 1000) } else { format!("{bytes}B") }
}

/// Returns the name of a large number: `100K`, `10M`, `1G`.
pub(crate) fn count_name(count: u64) -> String {
    let scales = [(1_000_000_000, 'G'), (1_000_000, 'M'), (1000, 'K')];
    match scales.iter().find(|(scale, _)| count >= *scale && count.is_multiple_of(*scale)) {
        Some((scale, letter)) => format!("{}{letter}", count / scale),
        None => count.to_string(),
    }
}
