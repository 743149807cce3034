//! The figures of a replay as a table for people.

use crate::report::{
    Row,
    table::{Table, bytes, mebibytes, rate, time},
};

/// So many giants are named.
const GIANTS_SHOWN: usize = 5;

/// Returns the table of one row.
pub(super) fn table(row: &Row) -> Table {
    let mut table = Table::new(&format!("{}, {}", row.scenario, row.name), &["", "figure"]);
    let Some(replay) = &row.replay else { return table };
    table.notes.extend(replay.caveat.clone());
    table.notes.extend(replay.cut.clone());
    if replay.stopped {
        table.notes.push("stopped before its end; not merged into any file".into());
    }
    if let (Some(head), Some(recorded)) = (&row.head, &replay.recorded_head) {
        table.notes.push(format!("last commit {head}, recorded as {recorded}"));
    }
    let mut line = |what: &str, figure: String| table.lines.push(vec![what.into(), figure]);
    line("rows", format!("{} in {}", row.total_ops, time(row.total_time * 1e6)));
    line("rows/s", rate(row.ops_per_sec));
    line("commits/s", rate(replay.commits_per_s));
    if let Some(seconds) = replay.processor_s {
        line("threads; processor time", format!("{}; {}", row.threads, time(seconds * 1e6)));
    }
    if row.runs > 1 {
        let (min, max) = (rate(row.ops_per_sec_min), rate(row.ops_per_sec_max));
        line(&format!("rows/s, slowest and fastest of {}", row.runs), format!("{min} – {max}"));
    }
    for (name, count) in replay.rows.named() {
        line(&format!("  {name}"), count.to_string());
    }
    line("answers checked", format!("{}, {} wrong", replay.answers_checked, replay.answers_wrong));
    let hashes = match &replay.hashes_unchecked {
        Some(why) => format!("none: {why}"),
        None => format!("{}, {} wrong", replay.hashes_checked, replay.hashes_wrong),
    };
    line("commit hashes checked", hashes);
    if let (Some(p50), Some(p99)) = (row.latency_p50_us, row.latency_p99_us) {
        line("commit p50, p99, max", format!("{}, {}, {}", time(p50), time(p99), time(replay.commit_max_us)));
        let block = [replay.block_p50_us, replay.block_p99_us, replay.block_max_us].map(time);
        line("block p50, p99, max", block.join(", "));
    }
    for giant in replay.giants.iter().take(GIANTS_SHOWN) {
        let figure = format!("{} for each of {} Adds", time(giant.us_per_add), giant.adds);
        line(&format!("  commit {}", giant.commit), figure);
    }
    if replay.giants.len() > GIANTS_SHOWN {
        line("  further commits of 10,000 Adds and more", (replay.giants.len() - GIANTS_SHOWN).to_string());
    }
    line("values read", bytes(replay.value_bytes as f64));
    line("written", bytes(replay.bytes_written as f64));
    let each = [replay.store_bytes_per_commit, replay.store_bytes_per_add].map(bytes);
    line("store; for each commit, Add", format!("{}; {}", bytes(row.store_bytes as f64), each.join(", ")));
    line("syncs", row.syncs.to_string());
    if let Some(us) = row.fdatasync_us {
        line("a sync of 4 KB now", time(us));
    }
    if let Some(seconds) = replay.synced_floor_s {
        let share = row.total_time / seconds;
        line("without syncs, and one for each commit", format!("{}; this: {share:.2} times", time(seconds * 1e6)));
    }
    let (anon, file) = (mebibytes(row.rss_anon_kb), mebibytes(row.rss_file_kb));
    line("memory, MiB: anonymous, mapped", format!("{anon}, {file}"));
    table
}
