//! What is done to the maps: the rows of the table, and how much of each a round does.

use bristlecone::Durability;
use serde::{Deserialize, Serialize};

/// Entries of the table's maps unless told.
pub(super) const SIZES: [u64; 3] = [1_000, 50_000, 1_000_000];
/// Values of the table, in bytes.
pub(super) const VALUE_BYTES: usize = 8;
/// Values of the durable batches, in bytes.
pub(super) const BATCH_VALUE_BYTES: usize = 150;
/// Entries of a durable batch.
pub(super) const BATCH_ENTRIES: u64 = 1_000;
/// Durable batches of a round.
const BATCHES: u64 = 100;

/// A row of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Operation {
    /// Random entries, this many in each read transaction.
    Get(u64),
    /// All entries in order.
    Iterate,
    /// Random existing entries get new values, this many in each transaction.
    Set(u64),
    /// A new map of sorted entries.
    Load,
    /// A new map of batches of 1,000 entries with larger values, a transaction each, with ascending or random keys.
    Batches { ascending: bool },
}

impl Operation {
    /// Every row, in the order of the table.
    pub(super) const ALL: [Self; 10] = [
        Self::Get(1),
        Self::Get(100),
        Self::Iterate,
        Self::Set(1),
        Self::Set(100),
        Self::Set(1_000),
        Self::Set(50_000),
        Self::Load,
        Self::Batches { ascending: true },
        Self::Batches { ascending: false },
    ];

    /// Returns the name by which `--only` selects it, and which scenarios have.
    pub(super) fn name(self) -> String {
        match self {
            Self::Get(count) => format!("get-{count}"),
            Self::Iterate => "iterate".to_owned(),
            Self::Set(count) => format!("set-{count}"),
            Self::Load => "load".to_owned(),
            Self::Batches { ascending: true } => "batches-ascending".to_owned(),
            Self::Batches { ascending: false } => "batches-random".to_owned(),
        }
    }

    /// Whether it begins with a new map; else it works on the one that is there.
    pub(super) const fn is_fresh(self) -> bool {
        matches!(self, Self::Load | Self::Batches { .. })
    }

    /// Whether it writes, so that durability matters.
    pub(super) const fn writes(self) -> bool {
        matches!(self, Self::Set(_) | Self::Load | Self::Batches { .. })
    }

    /// Returns the size of the values in bytes.
    pub(super) const fn value_bytes(self) -> usize {
        match self {
            Self::Batches { .. } => BATCH_VALUE_BYTES,
            _ => VALUE_BYTES,
        }
    }

    /// Returns how many transactions a round has on a map of `entries`: some 50 ms of them on plain LMDB.
    pub(super) const fn transactions(self, entries: u64, durability: Durability, quick: bool) -> u64 {
        let usual = match self {
            Self::Get(1) => 30_000,
            Self::Get(_) => 500,
            Self::Iterate => 2_000_000 / if entries > 0 { entries } else { 1 } + 1,
            Self::Set(1) if matches!(durability, Durability::Synced) => 300,
            Self::Set(1) => 2_000,
            Self::Set(100) => 50,
            Self::Set(1_000) => 10,
            Self::Set(_) => 2,
            Self::Load => 1,
            Self::Batches { .. } => BATCHES,
        };
        if quick && usual > 10 { usual / 10 } else { usual }
    }

    /// Returns how many entries a transaction has.
    pub(super) const fn entries(self, all: u64) -> u64 {
        match self {
            Self::Get(count) | Self::Set(count) => count,
            Self::Iterate | Self::Load => all,
            Self::Batches { .. } => BATCH_ENTRIES,
        }
    }
}

/// A round of one row, as the process of an engine is told to do it.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct Round {
    pub(super) operation: Operation,
    /// Entries of the map that is there.
    pub(super) entries: u64,
    /// Transactions.
    pub(super) transactions: u64,
    /// Decides keys and values: the same for every engine.
    pub(super) seed: u64,
}

/// What the process of an engine is told, a line of JSON each.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) enum Command {
    /// Make a map of so many entries, in place of the one that is there.
    Load { entries: u64 },
    /// Do a round.
    Do(Round),
    /// Compare entries, root and versions with what they should be, unless nothing changed since they were.
    Compare,
    /// Compare entries, root and versions once more, and end.
    Finish,
}

/// What it answers, a line of JSON each.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Answer {
    pub(super) seconds: f64,
    /// What failed, or was not as it should be.
    pub(super) wrong: Option<String>,
}
