//! The made-up set of unspent outputs: rate, memory and size over the number of entries.

use crate::report::{
    places::Places,
    row::Row,
    table::{Table, bytes, mebibytes, time},
    views::details::{checked, rate_of},
};

/// The variant of rows that were measured in turns with fjall.
pub(crate) const BESIDE_FJALL: &str = "beside-fjall";

/// Whether a row is one of the made-up set.
pub(crate) fn is_utxo(row: &Row) -> bool {
    row.scenario.starts_with("utxo-")
}

/// Returns how many entries the set of a row has.
pub(crate) fn entries(row: &Row) -> Option<u64> {
    row.scenario.rsplit('-').next()?.parse().ok()
}

/// Returns the table, in the order in which rows were measured.
pub(in crate::report) fn table(rows: &[&Row], places: &Places) -> Table {
    let heads = [
        "row-entries, store",
        "durability",
        "operations/s",
        "batch p50",
        "p99",
        "B written/batch",
        "files",
        "anon MiB",
        "mapped MiB",
        "checked",
        "measured in",
    ];
    let mut table =
        Table::new("A made-up set of unspent outputs: batches of 256 lookups, additions and removals", &heads);
    let optional = |us: Option<f64>| us.map_or_else(|| "–".into(), time);
    // Two stores in one process share its memory.
    let memory = |kb: u64| if kb > 0 { mebibytes(kb) } else { "–".into() };
    for row in rows {
        let variant = if row.variant.is_empty() { String::new() } else { format!(", {}", row.variant) };
        table.lines.push(vec![
            format!("{}, {}{variant}", row.scenario.trim_start_matches("utxo-"), row.backend),
            if row.durability.is_empty() { "–".into() } else { row.durability.clone() },
            rate_of(row),
            optional(row.latency_p50_us),
            optional(row.latency_p99_us),
            row.bytes_per_commit.filter(|each| *each > 0.0).map_or_else(|| "–".into(), bytes),
            if row.file_bytes > 0 { bytes(row.file_bytes as f64) } else { "–".into() },
            memory(row.rss_anon_kb),
            memory(row.rss_file_kb),
            checked(row),
            places.number(row),
        ]);
    }
    table
}
