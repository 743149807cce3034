//! Figures of raw reads as fio gives them: its block of text, its keys in JSON.

use std::fmt::Write;

use serde::{Deserialize, Serialize};

use super::{
    job::Engine,
    latency::Latency,
    run::{Measured, Pass},
    size::short,
};
use crate::{machine::Machine, measure::Run, report::Row};

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

impl ReadStats {
    fn of(pass: &Pass) -> Self {
        let seconds = pass.seconds.max(1e-9);
        Self {
            io_bytes: pass.bytes,
            bw_bytes: (pass.bytes as f64 / seconds) as u64,
            iops: pass.reads as f64 / seconds,
            runtime: (seconds * 1e3).round() as u64,
            total_ios: pass.reads,
            clat_ns: pass.latencies.summary(),
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
    /// The sum of all words read; equal for equal reads.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) checksum: Option<String>,
}

impl Figures {
    pub(crate) fn ours(engine: Engine, threads: usize, measured: &Measured) -> Self {
        let untimed = measured.untimed.as_ref().map(|pass| {
            let stats = ReadStats::of(pass);
            let mean_ns = pass.seconds * 1e9 * threads as f64 / pass.reads.max(1) as f64;
            Untimed { iops: stats.iops, bw_bytes: stats.bw_bytes, mean_ns }
        });
        Self {
            by: OURS.into(),
            engine: engine.name(),
            threads,
            read: ReadStats::of(&measured.timed),
            untimed,
            checksum: Some(format!("{:016x}", measured.timed.checksum)),
        }
    }

    pub(crate) fn is_ours(&self) -> bool {
        self.by == OURS
    }

    /// Returns the rows of these figures for a file of results; `kind` stands before the engine.
    pub(crate) fn rows(&self, kind: &str, machine: &Machine) -> Vec<Row> {
        let fio = if self.is_ours() { "" } else { "fio-" };
        let threads = if self.threads > 1 { format!("-{}t", self.threads) } else { String::new() };
        let scenario = format!("io-{fio}{kind}{}{threads}", self.engine);
        let ops = self.read.total_ios;
        let microseconds = |percent| self.read.clat_ns.at(percent).map(|ns| ns as f64 / 1e3);
        let run = |iops: f64| Run {
            ops,
            seconds: if iops > 0.0 { ops as f64 / iops } else { 0.0 },
            threads: self.threads as u64,
            ..Run::default()
        };
        let timed = Run { p50_us: microseconds(50.0), p99_us: microseconds(99.0), ..run(self.read.iops) };
        let bytes = self.read.io_bytes.checked_div(ops).unwrap_or(0);
        let mut rows = vec![Row::of_reads(scenario.clone(), bytes, &timed, machine)];
        if let Some(untimed) = &self.untimed {
            rows.push(Row::of_reads(format!("{scenario}-untimed"), bytes, &run(untimed.iops), machine));
        }
        rows
    }

    /// Returns the block of text.
    pub(crate) fn text(&self, clock_ns: f64) -> String {
        let mut text = format!("{} {}: (groupid=0, jobs={})\n", self.by, self.engine, self.threads);
        text += &read_text(&self.read);
        if let Some(untimed) = &self.untimed {
            let rate = rate_text(untimed.iops, untimed.bw_bytes);
            let _ = writeln!(
                text,
                "  no clock: {rate}, avg={:.2} nsec (a look at the clock: {clock_ns:.2})",
                untimed.mean_ns
            );
        }
        if let Some(checksum) = &self.checksum {
            let _ = writeln!(text, "  checksum: {checksum}");
        }
        text
    }
}

const OURS: &str = "bristlecone";

/// Returns the lines that fio prints of reads.
fn read_text(read: &ReadStats) -> String {
    let rate = rate_text(read.iops, read.bw_bytes);
    let mut text = format!("  read: {rate}({}B/{}msec)\n", short(read.io_bytes, 4, true), read.runtime);
    let latency = &read.clat_ns;
    let (unit, divisor) = if latency.min > 2_000_000 && latency.max > 99_999_999 && latency.stddev > 1e6 {
        ("msec", 1_000_000)
    } else if latency.min > 2000 && latency.max > 99_999 && latency.stddev > 1e3 {
        ("usec", 1000)
    } else {
        ("nsec", 1)
    };
    let scale = divisor as f64;
    let _ = writeln!(
        text,
        "    clat ({unit}): min={}, max={}, avg={:5.2}, stdev={:5.2}",
        short(latency.min / divisor, 6, false),
        short(latency.max / divisor, 6, false),
        latency.mean / scale,
        latency.stddev / scale
    );
    text + &percentiles_text(latency)
}

fn rate_text(iops: f64, bytes_per_second: u64) -> String {
    format!(
        "IOPS={}, BW={}B/s ({}B/s)",
        short(iops as u64, 4, false),
        short(bytes_per_second, 4, true),
        short(bytes_per_second, 4, false)
    )
}

/// Returns percentiles in fio's layout: as many in a line as 80 columns hold.
fn percentiles_text(latency: &Latency) -> String {
    let values = || latency.percentile.iter().map(|(_, nanoseconds)| *nanoseconds);
    let (min, max) = (values().min().unwrap_or(0), values().max().unwrap_or(0));
    let (unit, divisor) = if min > 2_000_000 && max > 99_999_999 {
        ("msec", 1_000_000)
    } else if min > 2000 && max > 99_999 {
        ("usec", 1000)
    } else {
        ("nsec", 1)
    };
    let digits = (max / divisor).checked_ilog10().map_or(1, |log| log as usize + 1);
    let width = digits.max(5);
    // 80 columns without the bar; 12 = 5 percent + 7 of ` `, `th=[`, `]` and `,`.
    let per_line = (80 - 7) / (12 + width);
    let mut text = format!("    clat percentiles ({unit}):\n");
    let last = latency.percentile.len().saturating_sub(1);
    for (index, (percent, nanoseconds)) in latency.percentile.iter().enumerate() {
        if index % per_line == 0 {
            text += "     |";
        }
        let _ = write!(text, " {percent:5.2}th=[{:width$}]", nanoseconds.div_ceil(divisor));
        text += match index {
            _ if index == last => "\n",
            _ if index % per_line == per_line - 1 => ",\n",
            _ => ",",
        };
    }
    text
}

/// How many times as many reads a second one engine of ours does as one of fio's.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Ratio {
    pub(crate) ours: &'static str,
    pub(crate) fio: &'static str,
    /// Both with a look at the clock for each read.
    pub(crate) ratio: f64,
    /// Ours without, which is how a store reads.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) ratio_untimed: Option<f64>,
}

/// Returns the ratios of each engine to the same of fio, and of the map to fio's positional read.
pub(crate) fn ratios(all: &[Figures]) -> Vec<Ratio> {
    let pairs = [("psync", "psync"), ("mmap", "mmap"), ("mmap", "psync")];
    let find = |ours: bool, engine: &str| all.iter().find(|one| one.is_ours() == ours && one.engine == engine);
    let ratio = |(ours, fio)| {
        let (one, other) = (find(true, ours)?, find(false, fio)?);
        let times = |iops: f64| iops / other.read.iops;
        let ratio_untimed = one.untimed.as_ref().map(|untimed| times(untimed.iops));
        (other.read.iops > 0.0).then(|| Ratio { ours, fio, ratio: times(one.read.iops), ratio_untimed })
    };
    pairs.into_iter().filter_map(ratio).collect()
}

/// Returns ratios as lines of text.
pub(crate) fn ratios_text(ratios: &[Ratio]) -> String {
    let line = |one: &Ratio| {
        let untimed = one.ratio_untimed.map_or_else(String::new, |ratio| format!(", no clock {ratio:.2}"));
        format!("  {:<5} / fio {:<5} : {:.2}{untimed}\n", one.ours, one.fio, one.ratio)
    };
    let lines: String = ratios.iter().map(line).collect();
    if lines.is_empty() { lines } else { format!("\nIOPS, ours / fio:\n{lines}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stats(percentile: &[u64], min: u64, max: u64, mean: f64, stddev: f64) -> ReadStats {
        let percents = crate::io::latency::PERCENTILES.into_iter();
        let percentile = percents.zip(percentile.iter().copied()).collect();
        let clat_ns = Latency { min, max, mean, stddev, samples: 1, percentile };
        ReadStats { clat_ns, ..ReadStats::default() }
    }

    /// What fio 3.33 printed of these figures.
    #[test]
    fn the_block_is_that_of_fio() {
        let percentiles =
            [532, 548, 644, 660, 668, 684, 692, 708, 748, 812, 924, 1128, 59_136, 60_160, 65_280, 70_144, 96_768];
        let read = ReadStats {
            io_bytes: 62_914_500,
            bw_bytes: 50_696_615,
            iops: 372_734.9,
            runtime: 1241,
            ..stats(&percentiles, 491, 3_191_800, 2436.06, 10_827.33)
        };
        let expected = "  read: IOPS=373k, BW=48.3MiB/s (50.7MB/s)(60.0MiB/1241msec)
    clat (nsec): min=491, max=3191.8k, avg=2436.06, stdev=10827.33
    clat percentiles (nsec):
     |  1.00th=[  532],  5.00th=[  548], 10.00th=[  644], 20.00th=[  660],
     | 30.00th=[  668], 40.00th=[  684], 50.00th=[  692], 60.00th=[  708],
     | 70.00th=[  748], 80.00th=[  812], 90.00th=[  924], 95.00th=[ 1128],
     | 99.00th=[59136], 99.50th=[60160], 99.90th=[65280], 99.95th=[70144],
     | 99.99th=[96768]
";
        assert_eq!(read_text(&read), expected);
    }

    /// Wide numbers, as fio 3.33 printed them, and microseconds, as its documentation has them.
    #[test]
    fn columns_and_units_follow_the_largest() {
        let wide =
            [588, 700, 724, 740, 772, 812, 860, 924, 972, 1048, 1176, 1288, 1608, 1928, 92_672, 111_104, 2_408_448];
        let text = percentiles_text(&stats(&wide, 530, 53_159_000, 0.0, 0.0).clat_ns);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "    clat percentiles (nsec):");
        assert_eq!(lines[1], "     |  1.00th=[    588],  5.00th=[    700], 10.00th=[    724],");
        assert_eq!(lines[6], "     | 99.95th=[ 111104], 99.99th=[2408448]");
        let slow: Vec<u64> =
            [302, 326, 343, 363, 392, 404, 416, 445, 811, 6718, 12_911, 21_627, 43_779, 51_643, 68_682, 72_877, 78_119]
                .map(|microseconds| microseconds * 1000)
                .into();
        let text = read_text(&stats(&slow, 176_000, 78_367_000, 4_019_020.0, 8_293_310.0));
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[1], "    clat (usec): min=176, max=78367, avg=4019.02, stdev=8293.31");
        assert_eq!(lines[2], "    clat percentiles (usec):");
        assert_eq!(lines[3], "     |  1.00th=[  302],  5.00th=[  326], 10.00th=[  343], 20.00th=[  363],");
        assert_eq!(lines[7], "     | 99.99th=[78119]");
    }

    #[test]
    fn ratios_are_of_what_is_there() {
        let figures = |by: &str, engine: Engine, iops| Figures {
            by: by.into(),
            engine: engine.name(),
            threads: 1,
            read: ReadStats { iops, ..ReadStats::default() },
            untimed: None,
            checksum: None,
        };
        let untimed = Some(Untimed { iops: 20e6, bw_bytes: 1, mean_ns: 50.0 });
        let mapped = Figures { untimed, ..figures(OURS, Engine::Mmap, 12e6) };
        let ours = [figures(OURS, Engine::Psync, 3e6), mapped];
        assert_eq!(ratios(&ours), []);
        assert_eq!(ratios_text(&[]), "");
        let all = [&ours[..], &[figures("fio-3.33", Engine::Psync, 2e6)]].concat();
        let found: Vec<f64> = ratios(&all).iter().map(|one| one.ratio).collect();
        assert_eq!(found, [1.5, 6.0]);
        assert!(ratios_text(&ratios(&all)).contains("mmap  / fio psync : 6.00, no clock 10.00\n"));
    }
}
