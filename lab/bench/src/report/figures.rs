//! What a replay, and an import of a whole history, add to a row.

use bristlecone_tezos::{
    RowKind,
    replay::{End, Giant, Latency, Report, Sample},
};
use serde::{Deserialize, Serialize};

use super::table;

/// The figures of a replay beside those that every row has. `docs/bench.md` lists the keys.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ReplayFigures {
    /// The format.
    pub format: String,
    /// Rows by kind.
    pub rows: Rows,
    /// Commits per second.
    pub commits_per_s: f64,
    /// Answers that were compared with the recorded ones.
    pub answers_checked: u64,
    /// Those that were others.
    pub answers_wrong: u64,
    /// Commit hashes that were compared with the recorded ones.
    pub hashes_checked: u64,
    /// Those that were others.
    pub hashes_wrong: u64,
    /// Why no hashes were compared, where none were.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hashes_unchecked: Option<String>,
    /// What the row is not, for one that does not do the work of the trace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub caveat: Option<String>,
    /// The slowest commit, in microseconds.
    pub commit_max_us: f64,
    /// Half the blocks took no longer, in microseconds: all rows up to and with a commit.
    pub block_p50_us: f64,
    /// 99 of 100 blocks took no longer.
    pub block_p99_us: f64,
    /// The slowest block.
    pub block_max_us: f64,
    /// The blocks with 10,000 Adds and more.
    pub giants: Vec<GiantFigures>,
    /// Processor time of all threads while rows were replayed, in seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub processor_s: Option<f64>,
    /// Bytes given to the backend, with framing.
    pub bytes_written: u64,
    /// Bytes of the store for each commit, at the end.
    pub store_bytes_per_commit: f64,
    /// Bytes of the store for each Add, at the end.
    pub store_bytes_per_add: f64,
    /// Bytes of the values that Find has read.
    pub value_bytes: u64,
    /// The sum of these bytes, modulo 2^64.
    pub value_sum: u64,
    /// Anonymous memory resident at the end, in KiB.
    pub rss_anon_end_kb: u64,
    /// Pages of mapped files resident at the end, in KiB.
    pub rss_file_end_kb: u64,
    /// The recorded hash of the last commit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recorded_head: Option<String>,
    /// Of a synced row: the time of the row without syncs, and one sync for each commit on top, in seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub synced_floor_s: Option<f64>,
    /// Where the trace ends within a row: which row that is, and how many bytes of it are there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cut: Option<String>,
    /// It was stopped before the end of the trace.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub stopped: bool,
    /// How it went.
    pub series: Vec<SampleFigures>,
}

/// What a row of ordered maps has beside. `docs/bench.md` lists the keys.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct MapFigures {
    /// Entries of the map; of a map that is made of batches, at its end.
    pub entries: u64,
    /// What the engine keeps: the last state, history, hashes, proofs.
    pub keeps: String,
    /// The rate by that of plain LMDB in the same round: the median of the rounds.
    pub ratio: f64,
    /// The least of these ratios.
    pub ratio_min: f64,
    /// The greatest.
    pub ratio_max: f64,
}

/// Rows by kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[allow(missing_docs, reason = "they are the names of the operations")]
pub struct Rows {
    pub checkout: u64,
    pub add: u64,
    pub remove: u64,
    pub copy: u64,
    pub find: u64,
    pub mem: u64,
    pub mem_tree: u64,
    pub commit: u64,
}

/// A block with 10,000 Adds and more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct GiantFigures {
    /// Which commit, the first being 1.
    pub commit: u64,
    /// Its Adds.
    pub adds: u64,
    /// All its rows.
    pub rows: u64,
    /// What they took, in seconds.
    pub seconds: f64,
    /// The same for each Add, in microseconds.
    pub us_per_add: f64,
}

/// A moment of a replay.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct SampleFigures {
    /// Seconds since the first row.
    pub seconds: f64,
    /// Rows so far.
    pub rows: u64,
    /// Commits so far.
    pub commits: u64,
    /// Rows per second since the sample before.
    pub rows_per_s: f64,
    /// Anonymous memory, in KiB.
    pub rss_anon_kb: u64,
    /// Pages of mapped files, in KiB.
    pub rss_file_kb: u64,
    /// Half the commits since the sample before took no longer, in microseconds.
    pub commit_p50_us: f64,
    /// 99 of 100 of them took no longer.
    pub commit_p99_us: f64,
}

impl ReplayFigures {
    /// Takes over what a report says.
    pub(crate) fn of(report: &Report) -> Self {
        let Latency { p50_us: block_p50_us, p99_us: block_p99_us, max_us: block_max_us } = report.block_time;
        let for_each = |count: u64| if count > 0 { report.store_bytes as f64 / count as f64 } else { 0.0 };
        let rows = Rows::of(report);
        Self {
            rows,
            commits_per_s: report.commits_per_s(),
            answers_checked: report.answers_checked,
            answers_wrong: report.answers_wrong,
            hashes_checked: report.hashes_checked,
            hashes_wrong: report.hashes_wrong,
            commit_max_us: report.commit_latency.max_us,
            block_p50_us,
            block_p99_us,
            block_max_us,
            giants: report.giants.iter().map(GiantFigures::of).collect(),
            bytes_written: report.bytes_written,
            store_bytes_per_commit: for_each(report.commits),
            store_bytes_per_add: for_each(rows.add),
            value_bytes: report.value_bytes,
            value_sum: report.value_sum,
            rss_anon_end_kb: report.memory.anon_kb,
            rss_file_end_kb: report.memory.file_kb,
            recorded_head: report.head.map(|(_, recorded)| recorded.to_string()),
            cut: report.cut.clone(),
            stopped: report.end == End::Stopped,
            series: report.samples.iter().map(SampleFigures::of).collect(),
            ..Self::default()
        }
    }
}

impl Rows {
    const fn of(report: &Report) -> Self {
        Self {
            checkout: report.rows.of(RowKind::Checkout),
            add: report.rows.of(RowKind::Add),
            remove: report.rows.of(RowKind::Remove),
            copy: report.rows.of(RowKind::Copy),
            find: report.rows.of(RowKind::Find),
            mem: report.rows.of(RowKind::Mem),
            mem_tree: report.rows.of(RowKind::MemTree),
            commit: report.rows.of(RowKind::Commit),
        }
    }

    /// Returns the names with the counts, in the order of the format.
    pub(crate) const fn named(&self) -> [(&'static str, u64); 8] {
        [
            ("Checkout", self.checkout),
            ("Add", self.add),
            ("Remove", self.remove),
            ("Copy", self.copy),
            ("Find", self.find),
            ("Mem", self.mem),
            ("Mem_tree", self.mem_tree),
            ("Commit", self.commit),
        ]
    }
}

impl GiantFigures {
    fn of(giant: &Giant) -> Self {
        let Giant { commit, adds, rows, seconds } = *giant;
        Self { commit, adds, rows, seconds, us_per_add: giant.us_per_add() }
    }
}

impl SampleFigures {
    const fn of(sample: &Sample) -> Self {
        Self {
            seconds: sample.seconds,
            rows: sample.rows,
            commits: sample.commits,
            rows_per_s: sample.rows_per_s,
            rss_anon_kb: sample.memory.anon_kb,
            rss_file_kb: sample.memory.file_kb,
            commit_p50_us: sample.commit_latency.p50_us,
            commit_p99_us: sample.commit_latency.p99_us,
        }
    }
}

/// What a row of an import has beside.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ImportFigures {
    /// Objects that the refs lead to.
    pub objects: u64,
    /// Commits among them.
    pub commits: u64,
    /// Refs.
    pub refs: u64,
    /// Refs that have the same ids after the import; of a native store, after an export.
    pub refs_same: u64,
    /// Bytes that the objects take in the repository.
    pub pack_bytes: u64,
    /// How many times as fast as `git fast-export` and `git fast-import` in the same round: the median of the rounds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub times_fast_import: Option<f64>,
    /// How many times as fast as `git clone` in the same round: the median of the rounds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub times_clone: Option<f64>,
}

impl ImportFigures {
    /// Returns a line that says what is imported.
    pub(crate) fn describe(&self, scenario: &str) -> String {
        let Self { objects, commits, refs, pack_bytes, .. } = self;
        let bytes = table::bytes(*pack_bytes as f64);
        format!("{scenario}: {objects} objects in {bytes}, {commits} commits, {refs} refs.")
    }
}

/// What commits beside collections add to a row. `docs/bench.md` lists the keys.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct GcFigures {
    /// Bytes that are live at the end; of a database that keeps the last state those of its keys and values.
    pub live_bytes: u64,
    /// What its files may take, where there is a bound.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bound_bytes: Option<u64>,
    /// How it went over time, beside collections alone.
    pub series: Vec<GcSample>,
}

/// A stretch of time in which a store was committed to.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct GcSample {
    /// Seconds since the beginning, at the end of the stretch.
    pub seconds: f64,
    /// Commits in it.
    pub commits: u64,
    /// Bytes of the files, at its end.
    pub file_bytes: u64,
    /// Half its commits took no longer, in microseconds.
    pub commit_p50_us: f64,
    /// 99 of 100 commits took no longer.
    pub commit_p99_us: f64,
    /// The slowest commit.
    pub commit_max_us: f64,
}
