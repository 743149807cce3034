//! Ordered maps beside plain LMDB.

use crate::report::{
    row::Row,
    svg::{Bar, Bars, Colour, Form, Group, Mark},
    table::count,
    views::map::operation,
};

pub(super) const TITLE: &str = "Ordered maps: times the rate of plain LMDB";

/// Engines with their colours, in the order of the legend.
const ENGINES: [(&str, Colour); 6] = [
    ("okra map", Colour::DiskSynced),
    ("native map", Colour::DiskNone),
    ("redb", Colour::Second),
    ("fjall", Colour::Third),
    ("sqlite", Colour::Other),
    ("rocksdb", Colour::Memory),
];

/// Draws the ratios of the largest map, and of the batches.
pub(super) fn chart(rows: &[&Row]) -> Option<String> {
    let of_batches = |row: &Row| row.scenario.starts_with("map-batches");
    // Of batches alone there is no largest map.
    let entries = rows.iter().filter(|row| !of_batches(row)).filter_map(|row| Some(row.map.as_ref()?.entries)).max();
    // Durable rows where there are any: that is what the others are asked for.
    let synced = rows.iter().any(|row| row.durability == "synced");
    let shown = |row: &&&Row| {
        row.map.as_ref().is_some_and(|map| of_batches(row) || Some(map.entries) == entries)
            && (row.durability.is_empty() || (row.durability == "synced") == synced)
    };
    let rows: Vec<&&Row> = rows.iter().filter(shown).collect();
    let mut operations: Vec<&str> = Vec::new();
    for row in &rows {
        if !operations.contains(&operation(row)) {
            operations.push(operation(row));
        }
    }
    let bar = |name: &&str| {
        let of = |&(engine, colour): &(&str, Colour)| {
            let row = rows.iter().find(|row| operation(row) == *name && row.backend == engine)?;
            let map = row.map.as_ref().filter(|map| map.ratio > 0.0)?;
            Some(Mark { colour, value: map.ratio, spread: (map.ratio_min, map.ratio_max) })
        };
        Bar { label: (*name).to_owned(), columns: vec![ENGINES.iter().filter_map(of).collect()] }
    };
    let bars: Vec<Bar> = operations.iter().map(bar).filter(|bar| !bar.columns[0].is_empty()).collect();
    let occurs = |(engine, _): &&(&str, Colour)| rows.iter().any(|row| row.backend == *engine);
    let legend = ENGINES.iter().filter(occurs).map(|(engine, colour)| (*colour, (*engine).to_owned())).collect();
    if bars.is_empty() {
        return None;
    }
    let chart = Bars {
        title: TITLE.into(),
        about:
            "Points: the rate as a multiple of plain LMDB's in the same round, on a logarithmic axis: the median and \
                the range over the rounds."
                .into(),
        axis: "times plain LMDB, which keeps the last state alone; logarithmic".into(),
        legend,
        columns: vec![String::new()],
        groups: vec![Group { title: String::new(), bars }],
        form: Form::Ratios,
        tick: |value| format!("×{}", count(value)),
        value: |value| if value < 9.95 { format!("×{value:.2}") } else { format!("×{value:.1}") },
    };
    Some(chart.draw())
}
