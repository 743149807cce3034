//! Figures of raw reads: fio's keys in JSON, from our passes or from fio itself, as text and as rows.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::run::Pass;
use crate::{
    machine::Machine,
    measure::Run,
    report::{
        Row,
        table::{bytes, rate},
    },
};

/// What was read, in how long: keys as in fio's JSON.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct ReadStats {
    pub(crate) io_bytes: u64,
    /// Bytes in a second.
    pub(crate) bw_bytes: u64,
    pub(crate) iops: f64,
    /// In milliseconds.
    pub(crate) runtime: u64,
    pub(crate) total_ios: u64,
    pub(crate) clat_ns: Latency,
}

/// What reads took, in nanoseconds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Latency {
    pub(crate) min: u64,
    pub(crate) max: u64,
    pub(crate) mean: f64,
    pub(crate) stddev: f64,
    #[serde(rename = "N")]
    pub(crate) samples: u64,
    /// By percents with six decimals: what that share of the reads did not exceed.
    pub(crate) percentile: Map<String, Value>,
}

/// The percentiles that fio reports.
const PERCENTILES: [f64; 17] =
    [1.0, 5.0, 10.0, 20.0, 30.0, 40.0, 50.0, 60.0, 70.0, 80.0, 90.0, 95.0, 99.0, 99.5, 99.9, 99.95, 99.99];

impl ReadStats {
    fn of(pass: &Pass) -> Self {
        let (seconds, latencies) = (pass.seconds.max(1e-9), &pass.latencies);
        let at = |percent: f64| (format!("{percent:.6}"), latencies.value_at_percentile(percent).into());
        Self {
            io_bytes: pass.bytes,
            bw_bytes: (pass.bytes as f64 / seconds) as u64,
            iops: pass.reads as f64 / seconds,
            runtime: (seconds * 1e3).round() as u64,
            total_ios: pass.reads,
            clat_ns: Latency {
                min: latencies.min(),
                max: latencies.max(),
                mean: latencies.mean(),
                stddev: latencies.stdev(),
                samples: latencies.len(),
                percentile: PERCENTILES.map(at).into_iter().collect(),
            },
        }
    }
}

/// The same reads without looking at the clock in between.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Untimed {
    iops: f64,
    bw_bytes: u64,
    /// Nanoseconds for each read.
    mean_ns: f64,
}

/// What one program made of a job by one engine.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Figures {
    /// `bristlecone`, or fio with its version.
    pub(crate) by: String,
    /// The engine, by fio's name.
    pub(crate) engine: &'static str,
    pub(crate) threads: usize,
    pub(crate) read: ReadStats,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) untimed: Option<Untimed>,
    /// The sum of all words read; equal for equal reads. Of ours alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) checksum: Option<String>,
}

impl Figures {
    pub(crate) fn ours(engine: &'static str, threads: usize, timed: &Pass, untimed: Option<&Pass>) -> Self {
        let untimed = untimed.map(|pass| {
            let ReadStats { iops, bw_bytes, .. } = ReadStats::of(pass);
            Untimed { iops, bw_bytes, mean_ns: pass.seconds * 1e9 * threads as f64 / pass.reads.max(1) as f64 }
        });
        let checksum = Some(format!("{:016x}", timed.checksum));
        Self { by: "bristlecone".into(), engine, threads, read: ReadStats::of(timed), untimed, checksum }
    }

    /// Returns the rows of these figures for a file of results; `kind` stands before the engine.
    pub(crate) fn rows(&self, kind: &str, machine: &Machine) -> Vec<Row> {
        let fio = if self.checksum.is_some() { "" } else { "fio-" };
        let threads = if self.threads > 1 { format!("-{}t", self.threads) } else { String::new() };
        let scenario = format!("io-{fio}{kind}{}{threads}", self.engine);
        let (ops, percentile) = (self.read.total_ios, &self.read.clat_ns.percentile);
        let us = |percent: &str| percentile.get(percent)?.as_u64().map(|ns| ns as f64 / 1e3);
        let run = |iops: f64| {
            let seconds = if iops > 0.0 { ops as f64 / iops } else { 0.0 };
            Run { ops, seconds, threads: self.threads as u64, ..Run::default() }
        };
        let timed = Run { p50_us: us("50.000000"), p99_us: us("99.000000"), ..run(self.read.iops) };
        let bytes = self.read.io_bytes.checked_div(ops).unwrap_or(0);
        let untimed = self.untimed.as_ref().map(|untimed| (format!("{scenario}-untimed"), run(untimed.iops)));
        let runs = [(scenario, timed)].into_iter().chain(untimed);
        runs.map(|(scenario, run)| Row::of_reads(scenario, bytes, &run, machine)).collect()
    }

    /// Returns a block of text with the lines that fio has.
    pub(crate) fn text(&self, clock_ns: f64) -> String {
        let rates = |iops: f64, bandwidth: u64| format!("IOPS={}, BW={}/s", rate(iops), bytes(bandwidth as f64));
        let ReadStats { io_bytes, bw_bytes, iops, runtime, clat_ns, .. } = &self.read;
        let Latency { min, max, mean, stddev, percentile, .. } = clat_ns;
        let mut text = format!("{} {}: (groupid=0, jobs={})\n", self.by, self.engine, self.threads);
        text += &format!("  read: {} ({} in {runtime} msec)\n", rates(*iops, *bw_bytes), bytes(*io_bytes as f64));
        text += &format!("    clat (nsec): min={min}, max={max}, avg={mean:.2}, stdev={stddev:.2}\n");
        let at = |(percent, ns): (&String, &Value)| format!("{:>5.5}th=[{:>8}]", percent, ns.to_string());
        for line in percentile.iter().map(at).collect::<Vec<_>>().chunks(4) {
            text += &format!("     | {}\n", line.join(", "));
        }
        if let Some(Untimed { iops, bw_bytes, mean_ns }) = self.untimed {
            let rates = rates(iops, bw_bytes);
            text += &format!("  no clock: {rates}, avg={mean_ns:.2} nsec (a look at the clock: {clock_ns:.2})\n");
        }
        text + &self.checksum.iter().map(|checksum| format!("  checksum: {checksum}\n")).collect::<String>()
    }
}

/// Returns how many times as many reads a second an engine of ours does as one of fio's: each as the same of fio's, and the
/// map as fio's positional read. Once with a look at the clock for each read, and once without, as a store reads.
pub(crate) fn ratios(all: &[Figures]) -> Vec<Value> {
    let find = |ours: bool, name: &str| all.iter().find(|one| one.checksum.is_some() == ours && one.engine == name);
    let ratio = |(ours, fio)| {
        let (one, other) = (find(true, ours)?, find(false, fio)?.read.iops);
        let mut ratio = json!({ "ours": ours, "fio": fio, "ratio": one.read.iops / other });
        if let Some(untimed) = &one.untimed {
            ratio["ratio_untimed"] = (untimed.iops / other).into();
        }
        (other > 0.0).then_some(ratio)
    };
    [("psync", "psync"), ("mmap", "mmap"), ("mmap", "psync")].into_iter().filter_map(ratio).collect()
}
