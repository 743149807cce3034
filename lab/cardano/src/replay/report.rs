//! What a replay tells while it runs and afterwards.

use crate::{Point, utxo::UtxoTip};

/// How far a replay is.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Progress {
    /// Seconds of work so far.
    pub seconds: f64,
    /// Blocks applied so far.
    pub blocks: u64,
    /// Blocks that the set had and the index had not.
    pub indexed: u64,
    /// The last block.
    pub last: Option<Point>,
    /// Outputs in the set.
    pub entries: u64,
    /// Inputs that were missing.
    pub missing: u64,
    /// The share of the files that is read, 0 to 1.
    pub done: Option<f64>,
}

/// Resident memory, in KiB.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    /// Anonymous pages.
    pub anon_kb: u64,
    /// Pages of mapped files.
    pub file_kb: u64,
    /// Processor time that this process has used, in microseconds.
    pub cpu_us: u64,
}

/// A moment of a replay.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Sample {
    /// Seconds of work so far.
    pub seconds: f64,
    /// The slot of the last block.
    pub slot: u64,
    /// Blocks applied so far.
    pub blocks: u64,
    /// Blocks per second since the sample before.
    pub blocks_per_s: f64,
    /// Outputs in the set.
    pub entries: u64,
    /// Resident memory.
    pub memory: Memory,
    /// Processor time by time since the sample before, in percent of one core.
    pub cpu_percent: f64,
}

/// What a replay did.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Report {
    /// Seconds of work: reading, checking, decoding, index, set and commits. Comparing digests is not in it, nor is what comes
    /// before the first block that is applied where a replay goes on, as filling the index.
    pub seconds: f64,
    /// Blocks applied.
    pub blocks: u64,
    /// Blocks that the set had and the index had not.
    pub indexed: u64,
    /// Bytes of the blocks.
    pub block_bytes: u64,
    /// Transactions.
    pub transactions: u64,
    /// Those among them that failed.
    pub failed: u64,
    /// Outputs spent.
    pub spent: u64,
    /// Outputs created.
    pub created: u64,
    /// Inputs that were missing.
    pub missing: u64,
    /// Commits.
    pub commits: u64,
    /// Half the commits took no longer, in microseconds.
    pub commit_p50_us: f64,
    /// 99 of 100 commits took no longer, in microseconds.
    pub commit_p99_us: f64,
    /// Checkpoints that were compared and right.
    pub checkpoints: u64,
    /// The block after which the last of them was.
    pub compared: Option<Point>,
    /// Blocks per second in the first tenth of the time.
    pub start_blocks_per_s: f64,
    /// Blocks per second in the second half of the time.
    pub steady_blocks_per_s: f64,
    /// Outputs in the set at the end.
    pub entries: u64,
    /// Where the set stands at the end.
    pub tip: UtxoTip,
    /// The last block that was read and was right.
    pub last: Option<Point>,
    /// What follows the last whole block.
    pub tail: Option<String>,
    /// The observer ended it.
    pub stopped: bool,
    /// How it went.
    pub samples: Vec<Sample>,
}
