//! What a replay of a chain adds to a row.

use serde::{Deserialize, Serialize};

/// The figures of a replay of a chain beside those that every row has. `docs/bench.md` lists the keys.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ChainFigures {
    /// The profile; what was chosen apart from it is in the row's variant.
    pub profile: String,
    /// What the index of blocks is kept in: `mmap` or `memory`.
    pub index: String,
    /// What the unspent outputs are kept in: `tree` or `lsm`.
    pub utxo: String,
    /// Transactions in the blocks.
    pub transactions: u64,
    /// Those among them that failed their scripts.
    pub failed: u64,
    /// Outputs spent.
    pub spent: u64,
    /// Outputs created.
    pub created: u64,
    /// Inputs that named no output of the set.
    pub missing: u64,
    /// Unspent outputs at the end.
    pub entries: u64,
    /// The digest of the set at the end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
    /// Digests and counts that were compared with a file of checkpoints, and were right.
    pub checkpoints: u64,
    /// The block after which the last of them was compared.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub compared: Option<String>,
    /// The last block.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tip: Option<String>,
    /// Blocks per second in the first tenth of the time.
    pub start_blocks_per_s: f64,
    /// Blocks per second in the second half of the time.
    pub steady_blocks_per_s: f64,
    /// Resident anonymous memory, in KiB: the least.
    pub rss_anon_min_kb: u64,
    /// The mean over time.
    pub rss_anon_mean_kb: u64,
    /// Processor time by wall time, in percent of one core.
    pub cpu_percent: f64,
    /// Bytes of the blocks.
    pub block_bytes: u64,
    /// It was stopped before the end of the chain.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub stopped: bool,
    /// How it went.
    pub series: Vec<ChainSample>,
}

impl ChainFigures {
    /// Whether the end was compared with a checkpoint: one before it says nothing of the blocks behind it.
    pub(crate) fn ends_with_checkpoint(&self) -> bool {
        self.compared.is_some() && self.compared == self.tip
    }
}

/// A moment of a replay of a chain.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ChainSample {
    /// Seconds since the first block.
    pub seconds: f64,
    /// The slot.
    pub slot: u64,
    /// Blocks so far.
    pub blocks: u64,
    /// Blocks per second since the sample before.
    pub blocks_per_s: f64,
    /// Unspent outputs.
    pub entries: u64,
    /// Anonymous memory, in KiB.
    pub rss_anon_kb: u64,
    /// Pages of mapped files, in KiB.
    pub rss_file_kb: u64,
    /// Processor time by wall time since the sample before, in percent of one core.
    pub cpu_percent: f64,
}
