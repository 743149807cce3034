//! The table that shows everything of each row, and what all tables write alike.

use crate::report::{
    places::Places,
    row::Row,
    select::{column_name, scenarios},
    table::{Table, bytes, mebibytes, rate, time},
};

pub(super) fn titled(title: &str, (suite, variant): &(String, String)) -> String {
    if variant.is_empty() { format!("{title}: {suite}") } else { format!("{title}: {suite}, {variant}") }
}

pub(super) fn details(title: &str, rows: &[&Row], columns: &[&str], places: &Places) -> Table {
    let heads = [
        "scenario, backend",
        "ops/s",
        "min–max",
        "runs",
        "p50",
        "p99",
        "B/commit",
        "store",
        "anon MiB",
        "mapped MiB",
        "fdatasync",
        "share of limit",
        "checked",
        "value",
        "measured in",
    ];
    let mut table = Table::new(title, &heads);
    table.folded = true;
    for scenario in scenarios(rows) {
        for &column in columns {
            let found = rows.iter().filter(|row| row.scenario == scenario && column_name(row) == column);
            table.lines.extend(found.map(|row| detail(row, column, places)));
        }
    }
    table
}

fn detail(row: &Row, column: &str, places: &Places) -> Vec<String> {
    let none = || "–".to_owned();
    let or_none = |value: Option<f64>, write: fn(f64) -> String| value.map_or_else(none, write);
    let share = match (&row.limit, row.share) {
        (Some(limit), Some(share)) => format!("{:.0} % {limit}", share * 100.0),
        _ => none(),
    };
    let variant = if row.variant.is_empty() { String::new() } else { format!(", {}", row.variant) };
    vec![
        format!("{}, {column}{variant}", row.scenario),
        rate_of(row),
        format!("{}–{}", rate(row.ops_per_sec_min), rate(row.ops_per_sec_max)),
        row.runs.to_string(),
        or_none(row.latency_p50_us, time),
        or_none(row.latency_p99_us, time),
        or_none(row.bytes_per_commit, bytes),
        if row.store_bytes > 0 { bytes(row.store_bytes as f64) } else { none() },
        mebibytes(row.rss_anon_kb),
        mebibytes(row.rss_file_kb),
        or_none(row.fdatasync_us, time),
        share,
        checked(row),
        bytes(row.value_bytes as f64),
        places.number(row),
    ]
}

pub(super) fn checked(row: &Row) -> String {
    if row.checked { "yes".into() } else { row.wrong.clone().unwrap_or_else(|| "no".into()) }
}

/// Returns the rate of a row, with its unrest if the machine was not quiet while it was measured, and a word if it is wrong.
pub(super) fn rate_of(row: &Row) -> String {
    let unrest = row.unrest.map_or_else(String::new, |ratio| format!(", unrest ×{ratio:.1}"));
    let wrong = if row.is_right() { "" } else { ", wrong" };
    rate(row.ops_per_sec) + &unrest + wrong
}

/// As [`rate_of`], with the number of the row's place where there are several.
pub(super) fn rate_at(row: &Row, places: &Places) -> String {
    if places.are_several() { format!("{} {}", rate_of(row), places.number(row)) } else { rate_of(row) }
}
