//! Which colour stands for which backend, how rates are marked, and the legends.

use crate::report::{
    row::Row,
    select::{OTHERS, all_columns, column_name},
    svg::{Colour, Mark},
};

/// Returns the colour of a column of the tables.
pub(super) fn colour(column: &str) -> Colour {
    match column {
        "memory" => Colour::Memory,
        "disk none" | "git packs none" | "lsm synced" => Colour::DiskNone,
        "disk synced" | "git packs synced" | "lmdb synced" => Colour::DiskSynced,
        "gitoxide" | "lsm none" => Colour::Second,
        "git fast-import" | "lmdb none" => Colour::Third,
        "fs synced" => Colour::Memory,
        _ => Colour::Other,
    }
}

/// The columns of the chart of Git repositories.
pub(super) const GIT: [&str; 5] = ["git packs none", "git packs synced", "libgit2", "gitoxide", "git fast-import"];

/// Returns the columns that occur in these rows, with their colours, in the order of the tables.
pub(super) fn legend(rows: &[&Row]) -> Vec<(Colour, String)> {
    let occurs = |column: &&str| rows.iter().any(|row| column_name(row) == *column);
    all_columns().chain(GIT).filter(occurs).map(|column| (colour(column), column.to_owned())).collect()
}

/// Returns the colour of a column where all backends stand in one chart, and whether its line is dashed: there are fewer colours than
/// columns, so that synced stores on other backends have the colour of those without syncs.
pub(super) fn stroke(column: &str) -> (Colour, bool) {
    match column.strip_suffix(" synced") {
        Some(backend) if OTHERS.contains(&column) => (colour(&format!("{backend} none")), true),
        _ => (colour(column), false),
    }
}

/// Returns the legend of such a chart.
pub(super) fn strokes(rows: &[&Row]) -> Vec<(Colour, String)> {
    let entry = |(_, column): (Colour, String)| {
        let (colour, dashed) = stroke(&column);
        (colour, if dashed { format!("{column} - -") } else { column })
    };
    legend(rows).into_iter().map(entry).collect()
}

/// What stands below a chart of rates.
pub(super) const SPREAD_SAID: &str = "operations per second: median, and from the slowest run to the fastest";

/// Returns the rate of a row with its spread. A row whose file has no spread has its median alone.
pub(super) fn mark(row: &Row, colour: Colour) -> Option<Mark> {
    let value = row.ops_per_sec;
    let spread = if row.ops_per_sec_max > 0.0 { (row.ops_per_sec_min, row.ops_per_sec_max) } else { (value, value) };
    (value > 0.0).then_some(Mark { colour, value, spread })
}
