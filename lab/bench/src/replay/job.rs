//! What is replayed, how, and onto what.

use std::path::PathBuf;

use bristlecone::Durability;
use bristlecone_tezos::PathConversion;
use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use crate::job::Switches;

/// The file, without its ending, of the trace whose rows are published; their scenarios do not name it.
const PUBLISHED: &str = "synthetic-early-101commits";

/// One replay, as it is handed to the process that does it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ReplayJob {
    /// The trace.
    pub trace: PathBuf,
    /// How many commits; `None`: all.
    pub commits: Option<u64>,
    /// How directories become objects.
    pub format: FormatName,
    /// What keeps the objects.
    pub backend: BackendName,
    /// When a commit is acknowledged. In memory it means nothing.
    pub durability: DurabilityName,
    /// Every value is empty.
    pub empty_blobs: bool,
    /// How keys are rewritten: `none`, `v0`, `v1`, `v0+v1`.
    pub path_conversion: String,
    /// Cuts the trace into pieces that have nothing to do with each other.
    pub chunked: Option<Chunking>,
    /// How many threads work.
    pub threads: usize,
    /// Which optimisations are on.
    pub switches: Switches,
    /// The branch that follows the commits.
    pub branch: String,
    /// The folder in which a store is made and removed again.
    pub dir: PathBuf,
    /// The folder of a store that stays, in place of that.
    pub keep: Option<PathBuf>,
    /// Where the store's reads are recorded, as `bench io --job` does them again.
    #[serde(default)]
    pub record: Option<PathBuf>,
    /// The store keeps so many commits, and collects by itself.
    #[serde(default)]
    pub retain: Option<u32>,
    /// A trace that ends within a row is an error.
    #[serde(default)]
    pub strict: bool,
    /// Put before the backend's name in the row's name.
    pub name: String,
}

impl ReplayJob {
    /// Returns a replay of a whole trace into a Tezos store in memory; stores on disk go below `dir`.
    #[must_use]
    pub fn new(trace: impl Into<PathBuf>, dir: impl Into<PathBuf>) -> Self {
        Self {
            trace: trace.into(),
            commits: None,
            format: FormatName::default(),
            backend: BackendName::Memory,
            durability: DurabilityName::None,
            empty_blobs: false,
            path_conversion: PathConversion::None.to_string(),
            chunked: None,
            threads: 1,
            switches: Switches::default(),
            branch: "main".into(),
            dir: dir.into(),
            keep: None,
            record: None,
            retain: None,
            strict: false,
            name: "bristlecone".into(),
        }
    }

    /// Returns the row's scenario: how many commits there were, and of which trace, by the name of its file.
    #[must_use]
    pub fn scenario(&self, commits: u64) -> String {
        let trace = self.trace.file_stem().unwrap_or_default().to_string_lossy();
        if trace == PUBLISHED { format!("tezos-{commits}commits") } else { format!("tezos-{commits}commits-{trace}") }
    }

    /// Returns the row's name: the prefix, the backend with its durability, and what is not as usual.
    #[must_use]
    pub fn row_name(&self) -> String {
        let target = match self.backend {
            BackendName::Memory => "memory".to_owned(),
            backend => format!("{} {}", backend.name(), self.durability().name()),
        };
        format!("{} {target} {}", self.name, self.variant()).trim_end().to_owned()
    }

    /// Returns what the row's name says of format, options and switches; empty if they are as usual.
    #[must_use]
    pub fn variant(&self) -> String {
        let mut words = Vec::new();
        if self.format != FormatName::default() {
            words.push(self.format.name().to_owned());
        }
        if let Some(Chunking { domains, fibers }) = self.chunked {
            words.push(format!("chunked={domains}x{fibers}"));
        }
        if self.threads != 1 {
            words.push(format!("threads={}", self.threads));
        }
        if self.empty_blobs {
            words.push("empty-blobs".to_owned());
        }
        if self.path_conversion != PathConversion::None.to_string() {
            words.push(format!("paths={}", self.path_conversion));
        }
        if let Some(retain) = self.retain {
            words.push(format!("retain={retain}"));
        }
        words.extend(self.switches.words());
        words.join(" ")
    }

    /// Returns when a commit is acknowledged.
    #[must_use]
    pub const fn durability(&self) -> Durability {
        match (self.backend, self.durability) {
            (BackendName::Memory, _) => Durability::None,
            (_, name) => name.durability(),
        }
    }
}

/// A format, by name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
pub enum FormatName {
    /// As a Tezos node has it: commit hashes are those of the trace
    #[default]
    Tezos,
    /// Ordered directories, BLAKE3; commit hashes are not those of the trace
    Native,
}

impl FormatName {
    /// Returns the name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Tezos => "tezos",
            Self::Native => "native",
        }
    }
}

/// A backend, by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
pub enum BackendName {
    /// In memory
    Memory,
    /// The crash-safe engine on files
    Disk,
    /// A log-structured merge tree
    Lsm,
    /// LMDB
    Lmdb,
    /// One file an object
    Fs,
}

impl BackendName {
    /// Returns the name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Disk => "disk",
            Self::Lsm => "lsm",
            Self::Lmdb => "lmdb",
            Self::Fs => "fs",
        }
    }
}

/// When a commit is acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
pub enum DurabilityName {
    /// After the write
    None,
    /// After the write, and synced within 10 ms
    Grouped,
    /// After the sync
    Synced,
}

impl DurabilityName {
    /// Returns what a commit is told.
    #[must_use]
    pub const fn durability(self) -> Durability {
        match self {
            Self::None => Durability::None,
            Self::Grouped => Durability::Grouped,
            Self::Synced => Durability::Synced,
        }
    }
}

/// The most threads of a replay in pieces.
const THREADS_MAX: usize = 1024;
/// The most pieces; each takes eight bytes of memory.
const PIECES_MAX: usize = 10_000_000;

/// How a trace is cut: into `domains` × `fibers` pieces.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Chunking {
    /// Threads.
    pub domains: usize,
    /// Pieces for each of them.
    pub fibers: usize,
}

impl std::str::FromStr for Chunking {
    type Err = String;

    /// Parses `12x50000`, also with `×` or `X`.
    fn from_str(text: &str) -> Result<Self, String> {
        let parse = |text: &str| text.trim().parse().ok().filter(|count| (1..=PIECES_MAX).contains(count));
        let parts = text.split_once(['x', 'X', '×']).and_then(|(d, f)| Some((parse(d)?, parse(f)?)));
        match parts {
            Some((domains, fibers)) if domains <= THREADS_MAX && domains * fibers <= PIECES_MAX => {
                Ok(Self { domains, fibers })
            }
            _ => Err(format!(
                "threads x pieces for each, such as 12x50000; at most {THREADS_MAX} threads and {PIECES_MAX} pieces"
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_two_numbers() {
        let parse = |text: &str| text.parse::<Chunking>().ok().map(|Chunking { domains, fibers }| (domains, fibers));
        assert_eq!(parse("12x50000"), Some((12, 50_000)));
        assert_eq!(parse("2×3"), Some((2, 3)));
        for text in ["", "12", "x", "0x1", "1x0", "-1x2", "2000x1", "1x2x3", "1000x10001"] {
            assert_eq!(parse(text), None, "{text}");
        }
    }

    #[test]
    fn what_is_not_as_usual_is_in_the_name() {
        let mut job = ReplayJob::new("t", "d");
        assert_eq!(job.row_name(), "bristlecone memory");
        (job.backend, job.durability) = (BackendName::Disk, DurabilityName::Synced);
        job.switches.maps = false;
        job.empty_blobs = true;
        job.chunked = Some(Chunking { domains: 2, fibers: 3 });
        assert_eq!(job.row_name(), "bristlecone disk synced chunked=2x3 empty-blobs no-maps");
    }

    #[test]
    fn traces_of_as_many_commits_have_scenarios_of_their_own() {
        let scenario = |trace: &str| ReplayJob::new(trace, "d").scenario(90);
        assert_eq!(scenario("data/made.repr"), "tezos-90commits-made");
        assert_eq!(scenario("other.repr"), "tezos-90commits-other");
        assert_eq!(scenario("data/synthetic-early-101commits.repr"), "tezos-90commits", "as it is published");
    }
}
