//! Commits beside collections, by ours and by others: rates, waits and files.

use super::details::{checked, rate_of};
use crate::report::{
    places::Places,
    row::Row,
    table::{Table, bytes, count, time},
};

/// Whether a row is of another store under the same commits.
pub(super) fn is_other(row: &Row) -> bool {
    row.gc.is_some() && row.backend != "disk"
}

/// Returns the table, in the order in which rows were measured.
pub(in crate::report) fn table(rows: &[&Row], places: &Places) -> Table {
    let heads = [
        "entries, store",
        "durability",
        "commits/s",
        "commit p50",
        "p99",
        "longest",
        "live",
        "largest files",
        "÷ live",
        "checked",
        "measured in",
    ];
    let mut table = Table::new("Commits of one entry beside collections: waits and files", &heads);
    let optional = |us: Option<f64>| us.map_or_else(|| "–".into(), time);
    for row in rows {
        let Some(figures) = &row.gc else { continue };
        let entries = row.scenario.rsplit('-').next().and_then(|entries| entries.parse::<f64>().ok());
        let longest = figures.series.iter().map(|sample| sample.commit_max_us).reduce(f64::max);
        table.lines.push(vec![
            format!("{}, {}", entries.map_or_else(|| row.scenario.clone(), count), row.backend),
            row.durability.clone(),
            rate_of(row),
            optional(row.latency_p50_us),
            optional(row.latency_p99_us),
            optional(longest),
            bytes(figures.live_bytes as f64),
            bytes(row.file_bytes as f64),
            format!("{:.1}", row.file_bytes as f64 / figures.live_bytes.max(1) as f64),
            checked(row),
            places.number(row),
        ]);
    }
    table
}
