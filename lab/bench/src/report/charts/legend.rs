//! Which colour stands for which backend, and the legends.

use crate::report::{
    row::Row,
    select::{COLUMNS, column_name},
    svg::Colour,
};

/// Returns the colour of a column of the tables.
pub(super) fn colour(column: &str) -> Colour {
    match column {
        "memory" => Colour::Memory,
        "disk none" | "git packs none" => Colour::DiskNone,
        "disk synced" | "git packs synced" => Colour::DiskSynced,
        "gitoxide" => Colour::Second,
        "git fast-import" => Colour::Third,
        _ => Colour::Other,
    }
}

/// The columns of the chart of Git repositories.
pub(super) const GIT: [&str; 5] = ["git packs none", "git packs synced", "libgit2", "gitoxide", "git fast-import"];

/// Returns the columns that occur in these rows, with their colours, in the order of the tables.
pub(super) fn legend(rows: &[&Row]) -> Vec<(Colour, String)> {
    let occurs = |column: &&str| rows.iter().any(|row| column_name(row) == *column);
    COLUMNS.into_iter().chain(GIT).filter(occurs).map(|column| (colour(column), column.to_owned())).collect()
}
