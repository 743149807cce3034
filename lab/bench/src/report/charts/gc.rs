//! Stores under commits of one entry each, over time: their files, and what commits took.

use crate::report::{
    GcSample,
    row::Row,
    svg::{Axis, Colour, Line, Lines, Panel},
    table::{bytes, count, short, time},
};

pub(super) const TITLE: &str = "Commits of one entry beside collections";

/// Stores with their colours, in the order of the legend; those that are synced have dashed lines.
const STORES: [(&str, &str, Colour, bool); 8] = [
    ("disk", "none", Colour::DiskNone, false),
    ("disk", "grouped", Colour::Memory, true),
    ("disk", "synced", Colour::DiskSynced, true),
    ("git", "none", Colour::Other, false),
    ("git", "synced", Colour::Other, true),
    ("plain lmdb", "none", Colour::Second, false),
    ("plain lmdb", "synced", Colour::Second, true),
    ("redb", "synced", Colour::Third, true),
];

/// Draws the files and the latency of commits over time, two panels for each number of entries.
pub(super) fn chart(rows: &[&Row]) -> Option<String> {
    let shown: Vec<(u64, &Row)> = rows.iter().filter_map(|row| Some((entries(row)?, *row))).collect();
    let mut sizes: Vec<u64> = shown.iter().map(|(entries, _)| *entries).collect();
    sizes.sort_unstable();
    sizes.dedup();
    let find = |entries: u64, (backend, durability, ..): &(&str, &str, Colour, bool)| {
        let is_it = |row: &Row| row.backend == *backend && row.durability == *durability;
        shown.iter().find(|(of, row)| *of == entries && is_it(row)).and_then(|(_, row)| row.gc.as_deref())
    };
    let line = |entries: u64, figure: fn(&GcSample) -> f64| -> Vec<Line> {
        let of = |store: &(&str, &str, Colour, bool)| {
            let series = &find(entries, store)?.series;
            let points = series.iter().map(|sample| (sample.seconds, figure(sample))).filter(|point| point.1 > 0.0);
            Some(Line { colour: store.2, dashed: store.3, name: String::new(), points: points.collect() })
        };
        STORES.iter().filter_map(of).filter(|line| line.points.len() > 1).collect()
    };
    let panel = |title: String, y: Axis, lines: Vec<Line>, value: fn(f64) -> String| Panel {
        title,
        x: Axis::linear("seconds", count),
        y,
        lines,
        value,
    };
    let mut panels = Vec::new();
    for entries in sizes {
        let named = format!("{} entries", count(entries as f64));
        let size = Axis::log("logarithmic", |value| short(&bytes(value)));
        panels.push(panel(format!("Files, {named}"), size, line(entries, |sample| sample.file_bytes as f64), bytes));
        let longest = Axis::log("logarithmic", |value| short(&time(value)));
        let lines = line(entries, |sample| sample.commit_max_us);
        panels.push(panel(format!("The longest commit, {named}"), longest, lines, time));
    }
    panels.retain(|panel| !panel.lines.is_empty());
    // No two stores have the same colour and stroke.
    let is_drawn = |store: &&(&str, &str, Colour, bool)| {
        panels.iter().flat_map(|panel| &panel.lines).any(|line| (line.colour, line.dashed) == (store.2, store.3))
    };
    let entry = |(backend, durability, colour, is_dashed): &(&str, &str, Colour, bool)| {
        (*colour, format!("{backend} {durability}{}", if *is_dashed { " - -" } else { "" }))
    };
    let legend = STORES.iter().filter(is_drawn).map(entry).collect();
    let chart = Lines {
        title: TITLE.into(),
        about: "Lines over time: the bytes of the files, and the longest commit of each stretch.".into(),
        legend,
        columns: 2,
        panels,
        marks: false,
    };
    (!chart.panels.is_empty()).then(|| chart.draw())
}

/// Returns how many entries the store of a row has, if the row is of commits beside collections.
fn entries(row: &Row) -> Option<u64> {
    row.gc.as_ref()?;
    row.scenario.strip_prefix("gc-collected-")?.parse().ok()
}
