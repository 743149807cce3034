//! Ordered maps: a line for each row of Okra's table and each engine, with the ratio to plain LMDB.

use crate::report::{
    places::Places,
    row::Row,
    table::Table,
    views::details::{checked, rate_of},
};

/// Returns a table for each number of entries, in the order in which they were measured.
pub(in crate::report) fn tables(rows: &[&Row], places: &Places) -> Vec<Table> {
    let heads = [
        "row, engine",
        "durability",
        "entries/s",
        "times LMDB",
        "from–to",
        "rounds",
        "keeps",
        "checked",
        "measured in",
    ];
    let mut tables: Vec<Table> = Vec::new();
    for row in rows {
        let Some(map) = &row.map else { continue };
        let title = match row.value_bytes {
            8 => format!("Ordered maps of {} entries, values of 8 B", map.entries),
            bytes => format!("Ordered maps: batches of 1,000 new entries, values of {bytes} B"),
        };
        if !tables.iter().any(|table| table.title == title) {
            tables.push(Table::new(&title, &heads));
        }
        let Some(table) = tables.iter_mut().find(|table| table.title == title) else { continue };
        table.lines.push(vec![
            format!("{}, {}", operation(row), row.backend),
            if row.durability.is_empty() { "–".to_owned() } else { row.durability.clone() },
            rate_of(row),
            if map.ratio > 0.0 { format!("{:.2}", map.ratio) } else { "–".to_owned() },
            if map.ratio > 0.0 { format!("{:.2}–{:.2}", map.ratio_min, map.ratio_max) } else { "–".to_owned() },
            row.runs.to_string(),
            map.keeps.clone(),
            checked(row),
            places.number(row),
        ]);
    }
    tables
}

/// Returns what is done, as the scenario has it: `get-1` of `map-get-1-1000`.
pub(crate) fn operation(row: &Row) -> &str {
    let entries = row.map.as_ref().map_or_else(String::new, |map| format!("-{}", map.entries));
    let name = row.scenario.strip_prefix("map-").unwrap_or(&row.scenario);
    name.strip_suffix(&entries).unwrap_or(name)
}
