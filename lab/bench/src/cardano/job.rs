//! What part of a chain is replayed, how, and into what.

use std::path::PathBuf;

use bristlecone::{Durability, disk::DiskOptions};
use bristlecone_cardano::TornTail;
use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use crate::replay::{BackendName, DurabilityName};

/// One replay of a chain, as it is handed to the process that does it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct ChainJob {
    /// Folders, archives, chunks and single blocks, in the order of the chain.
    pub(crate) sources: Vec<PathBuf>,
    /// Genesis files.
    pub(crate) genesis: Vec<PathBuf>,
    /// Counts and digests that the set must have after each chunk.
    pub(crate) checkpoints: Option<PathBuf>,
    pub(crate) profile: Profile,
    pub(crate) index: IndexName,
    pub(crate) utxo: UtxoName,
    pub(crate) backend: BackendName,
    pub(crate) durability: DurabilityName,
    /// Blocks in a commit.
    pub(crate) commit_every: u64,
    /// Blocks that change nothing are committed as well.
    pub(crate) commit_unchanged: bool,
    /// Only blocks from this slot on.
    pub(crate) from: Option<u64>,
    pub(crate) blocks: Option<u64>,
    pub(crate) seconds: Option<f64>,
    pub(crate) sample_every: f64,
    /// What is done about the newest chunk where its end is not whole.
    pub(crate) tail: TailName,
    pub(crate) allow_missing: bool,
    /// The branch that follows the chain.
    pub(crate) branch: String,
    /// The folder in which a store is made and removed again.
    pub(crate) dir: PathBuf,
    /// The folder of a store that stays, in place of that.
    pub(crate) keep: Option<PathBuf>,
    /// Put before the backend's name in the row's name.
    pub(crate) name: String,
}

impl ChainJob {
    /// Returns the row's name: the prefix, what keeps the set with its durability, the profile, and what is not as usual.
    pub(crate) fn row_name(&self) -> String {
        let target = match (self.utxo, self.backend) {
            (UtxoName::Lsm, _) => format!("plain-lsm {}", self.durability().name()),
            (_, BackendName::Memory) => "memory".to_owned(),
            (_, backend) => format!("{} {}", backend.name(), self.durability().name()),
        };
        format!("{} {target} {} {}", self.name, self.profile.name(), self.variant()).trim_end().to_owned()
    }

    /// Returns what is not as the profile has it, or not as usual; empty if nothing is.
    pub(crate) fn variant(&self) -> String {
        let mut words = Vec::new();
        if self.index != self.profile.index() {
            words.push(format!("index={}", self.index.name()));
        }
        if self.commit_every != 1 {
            words.push(format!("commit-every={}", self.commit_every));
        }
        if self.commit_unchanged {
            words.push("commit-unchanged".to_owned());
        }
        words.extend(self.from.map(|slot| format!("from={slot}")));
        if self.tail != TailName::default() {
            words.push(format!("tail={}", self.tail.name()));
        }
        if self.allow_missing {
            words.push("allow-missing".to_owned());
        }
        words.join(" ")
    }

    /// Returns when a commit is acknowledged.
    pub(crate) const fn durability(&self) -> Durability {
        match (self.utxo, self.backend, self.durability) {
            (UtxoName::Tree, BackendName::Memory, _) | (_, _, DurabilityName::None) => Durability::None,
            (_, _, DurabilityName::Grouped) => Durability::Grouped,
            (_, _, DurabilityName::Synced) => Durability::Synced,
        }
    }
}

/// A set of budgets, and the kind of index that goes with them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
pub(crate) enum Profile {
    /// Budgets of 64 MiB, the index of blocks in memory
    #[default]
    HighMemory,
    /// Budgets of 8 MiB, the index of blocks mapped: for a machine of 1 GB
    LowMemory,
}

impl Profile {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::HighMemory => "high-memory",
            Self::LowMemory => "low-memory",
        }
    }

    /// Returns the index that the profile has.
    pub(crate) const fn index(self) -> IndexName {
        match self {
            Self::HighMemory => IndexName::Memory,
            Self::LowMemory => IndexName::Mmap,
        }
    }

    /// Returns the budget in bytes for what a store keeps in memory.
    pub(crate) const fn cache_bytes(self) -> u64 {
        match self {
            Self::HighMemory => 64 << 20,
            Self::LowMemory => 8 << 20,
        }
    }

    /// Returns the options of the disk engine.
    pub(crate) fn disk(self) -> DiskOptions {
        let options = DiskOptions::default().cache_bytes(self.cache_bytes());
        match self {
            Self::HighMemory => options,
            Self::LowMemory => options.map_bytes(32 << 20),
        }
    }
}

/// What keeps the index of blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
pub(crate) enum IndexName {
    /// A hash table in a file that is mapped
    Mmap,
    /// The same table in memory, built anew when a store is opened
    Memory,
}

impl IndexName {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Mmap => "mmap",
            Self::Memory => "memory",
        }
    }
}

/// What is done about the newest chunk where its end is not whole.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
pub(crate) enum TailName {
    /// Whole blocks are applied where the end is missing as after a crash; altered bytes are an error
    #[default]
    Incomplete,
    /// The blocks before the first that is not sound are applied, whatever is wrong with it
    Cut,
    /// Whatever is wrong is an error
    Refuse,
}

impl TailName {
    const fn name(self) -> &'static str {
        match self {
            Self::Incomplete => "incomplete",
            Self::Cut => "cut",
            Self::Refuse => "refuse",
        }
    }
}

impl From<TailName> for TornTail {
    fn from(name: TailName) -> Self {
        match name {
            TailName::Incomplete => Self::Incomplete,
            TailName::Cut => Self::Cut,
            TailName::Refuse => Self::Refuse,
        }
    }
}

/// What keeps the unspent outputs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
pub(crate) enum UtxoName {
    /// A versioned map, every commit of which stays
    #[default]
    Tree,
    /// Plain keys and values in a log-structured merge tree, the last state alone
    Lsm,
}

impl UtxoName {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Tree => "tree",
            Self::Lsm => "lsm",
        }
    }
}
