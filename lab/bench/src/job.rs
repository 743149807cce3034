//! What is measured: one scenario, at one value size, on one backend, with the switches that are set.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

pub use self::{
    target::Target,
    work::{Big, Sweep, Way, Work},
};

mod target;
mod work;

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
    /// Returns those that mean something on a target; the others are as usual.
    #[must_use]
    pub fn on(self, target: Target) -> Self {
        match target {
            Target::DiskNone | Target::DiskSynced => self,
            _ if target.is_peer() => Self::default(),
            // The format of Git has nothing to switch.
            _ if target.is_git() => Self { cache_bytes: self.cache_bytes, ..Self::default() },
            // Maps, places and their cache are the disk engine's.
            _ => Self { inline: self.inline, split: self.split, ..Self::default() },
        }
    }

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
