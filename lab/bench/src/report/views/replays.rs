//! Tables of replays: how fast, what was checked, and where memory and bytes went.

use super::details::{checked, rate_of};
use crate::report::{
    figures::ReplayFigures,
    places::Places,
    row::Row,
    select::column_name,
    table::{Table, bytes, mebibytes, rate, time},
};

/// Returns the tables of these rows, which may be empty.
pub(super) fn tables(rows: &[&Row], places: &Places) -> [Table; 2] {
    let mut rows: Vec<(&Row, &ReplayFigures)> =
        rows.iter().filter_map(|row| Some((*row, row.replay.as_deref()?))).collect();
    let rank = |row: &Row| (row.scenario.clone(), row.variant.clone(), row.backend != "memory", row.durability.clone());
    rows.sort_by_key(|(row, _)| rank(row));
    [rates(&rows, places), details(&rows)]
}

/// Returns what was replayed onto what.
fn name(row: &Row) -> String {
    let variant = if row.variant.is_empty() { String::new() } else { format!(", {}", row.variant) };
    format!("{}, {}{variant}", row.scenario, column_name(row))
}

fn rates(rows: &[(&Row, &ReplayFigures)], places: &Places) -> Table {
    let heads = [
        "trace, backend",
        "format",
        "rows/s",
        "commits/s",
        "time",
        "processor time",
        "answers checked (wrong)",
        "hashes checked (wrong)",
        "anon MiB",
        "mapped MiB",
        "runs",
        "checked",
        "measured in",
    ];
    let mut table = Table::new("Replay of a trace", &heads);
    for (row, replay) in rows {
        let hashes = match &replay.hashes_unchecked {
            Some(why) => format!("none: {why}"),
            None => format!("{} ({})", replay.hashes_checked, replay.hashes_wrong),
        };
        table.notes.extend(replay.caveat.iter().map(|caveat| format!("{}: {caveat}.", name(row))));
        table.lines.push(vec![
            name(row),
            replay.format.clone(),
            rate_of(row),
            rate(replay.commits_per_s),
            time(row.total_time * 1e6),
            replay.processor_s.map_or_else(|| "–".into(), |seconds| time(seconds * 1e6)),
            format!("{} ({})", replay.answers_checked, replay.answers_wrong),
            hashes,
            mebibytes(row.rss_anon_kb),
            mebibytes(row.rss_file_kb),
            row.runs.to_string(),
            checked(row),
            places.number(row),
        ]);
    }
    table
}

fn details(rows: &[(&Row, &ReplayFigures)]) -> Table {
    let heads = [
        "trace, backend",
        "commit p50",
        "p99",
        "max",
        "block p50",
        "p99",
        "max",
        "written",
        "store",
        "B/commit",
        "B/Add",
        "syncs",
        "fdatasync",
        "times without syncs and one for each commit",
    ];
    let mut table = Table::new("Details: replay of a trace", &heads);
    table.folded = true;
    for (row, replay) in rows {
        let optional = |us: Option<f64>| us.map_or_else(|| "–".into(), time);
        let floor = replay.synced_floor_s.filter(|floor| *floor > 0.0);
        table.lines.push(vec![
            name(row),
            optional(row.latency_p50_us),
            optional(row.latency_p99_us),
            time(replay.commit_max_us),
            time(replay.block_p50_us),
            time(replay.block_p99_us),
            time(replay.block_max_us),
            bytes(replay.bytes_written as f64),
            bytes(row.store_bytes as f64),
            bytes(replay.store_bytes_per_commit),
            bytes(replay.store_bytes_per_add),
            row.syncs.to_string(),
            optional(row.fdatasync_us),
            floor.map_or_else(|| "–".into(), |floor| format!("{:.2}", row.total_time / floor)),
        ]);
    }
    table
}
