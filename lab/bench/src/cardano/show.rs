//! The figures of a replay of a chain as a table for people.

use crate::report::{
    Row,
    table::{Table, bytes, mebibytes, rate, time},
    views::chain::{memory, store},
};

/// Returns the table of one row.
pub(super) fn table(row: &Row) -> Table {
    let mut table = Table::new(&format!("{}, {}", row.scenario, row.name), &["", "figure"]);
    let Some(chain) = &row.chain else { return table };
    if chain.stopped {
        table.notes.push("stopped before its end; not merged into any file".into());
    }
    if let Some(tip) = &chain.tip {
        table.notes.push(format!("the last block is {tip}"));
    }
    if let Some(digest) = &chain.digest {
        table.notes.push(format!("the digest of the set is {digest}"));
    }
    let mut line = |what: &str, figure: String| table.lines.push(vec![what.into(), figure]);
    line("blocks", format!("{} in {}", row.total_ops, time(row.total_time * 1e6)));
    line("blocks/s", rate(row.ops_per_sec));
    line("  at the start, steady", format!("{}, {}", rate(chain.start_blocks_per_s), rate(chain.steady_blocks_per_s)));
    if row.runs > 1 {
        let (min, max) = (rate(row.ops_per_sec_min), rate(row.ops_per_sec_max));
        line(&format!("blocks/s, slowest and fastest of {}", row.runs), format!("{min} – {max}"));
    }
    line("transactions, failed ones", format!("{}, {}", chain.transactions, chain.failed));
    line("outputs spent, created", format!("{}, {}", chain.spent, chain.created));
    line("inputs that were missing", chain.missing.to_string());
    line("UTxO entries", chain.entries.to_string());
    line("digests compared", chain.checkpoints.to_string());
    line("index of blocks, set", format!("{}, {}", chain.index, store(row, chain)));
    line("commits", row.commits.to_string());
    if let (Some(p50), Some(p99)) = (row.latency_p50_us, row.latency_p99_us) {
        line("commit p50, p99", format!("{}, {}", time(p50), time(p99)));
    }
    line("blocks read", bytes(chain.block_bytes as f64));
    if let Some(each) = row.bytes_per_commit {
        line("written", bytes(each * row.commits as f64));
    }
    line("store", bytes(row.store_bytes as f64));
    line("syncs", row.syncs.to_string());
    if let Some(us) = row.fdatasync_us {
        line("a sync of 4 KB now", time(us));
    }
    line("anonymous memory, MiB: min / mean / max", memory(row, chain));
    line("mapped files, MiB: max", mebibytes(row.rss_file_kb));
    line("CPU, of one core", format!("{:.0} %", chain.cpu_percent));
    table
}
