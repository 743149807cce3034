//! Indexes of blocks: a line for each row and kind, by count of blocks.

use crate::report::{
    places::Places,
    row::Row,
    table::{Table, time},
    views::details::{checked, rate_of},
};

/// Whether a row is one of an index of blocks.
pub(crate) fn is_blocks(row: &Row) -> bool {
    row.name.starts_with("blocks ")
}

/// Returns the table, in the order in which rows were measured.
pub(in crate::report) fn table(rows: &[&Row], places: &Places) -> Table {
    let mut table = Table::new(
        "Indexes of blocks (warm page cache)",
        &["row-blocks, kind", "each", "least", "most", "per second", "rounds", "checked", "measured in"],
    );
    for row in rows {
        let each = |rate: f64| time(1e6 / rate.max(f64::MIN_POSITIVE));
        table.lines.push(vec![
            format!("{}, {}", row.scenario.trim_start_matches("blocks-"), row.backend),
            each(row.ops_per_sec),
            each(row.ops_per_sec_max),
            each(row.ops_per_sec_min),
            rate_of(row),
            row.runs.to_string(),
            checked(row),
            places.number(row),
        ]);
    }
    table
}
