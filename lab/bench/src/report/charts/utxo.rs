//! The made-up set of unspent outputs over its number of entries.

use crate::report::{
    row::Row,
    svg::{Axis, Colour, Line, Lines, Panel},
    table::{bytes, count, rate, short},
    views::utxo::{BESIDE_FJALL, entries},
};

pub(super) const TITLE: &str = "A made-up set of unspent outputs that grows";

/// Stores and durability with their colours, in the order of the legend.
const STORES: [(&str, &str, Colour); 3] = [
    ("native map", "none", Colour::DiskNone),
    ("native map", "synced", Colour::DiskSynced),
    ("fjall", "none", Colour::Third),
];

/// Draws rate, memory and size over the number of entries, where sets of two sizes were measured.
pub(super) fn chart(rows: &[&Row]) -> Option<String> {
    // A line is of one way to run: a store that forgets is not on it, and what was in turns with fjall only where nothing else is.
    let is_shown =
        |row: &&Row| row.scenario.starts_with("utxo-batches-") && ["", BESIDE_FJALL].contains(&&row.variant[..]);
    let mut batches: Vec<&Row> = rows.iter().copied().filter(is_shown).collect();
    batches.sort_by_key(|row| !row.variant.is_empty());
    let line = |value: fn(&Row) -> f64| {
        let of = |(backend, durability, colour): &(&str, &str, Colour)| {
            let here = batches.iter().filter(|row| row.backend == *backend && row.durability == *durability);
            let mut points: Vec<(f64, f64)> =
                here.filter_map(|row| Some((entries(row)? as f64, value(row)))).filter(|point| point.1 > 0.0).collect();
            // Of the same number of entries the first counts, which is the row as it is usually run.
            points.sort_by(|one, other| one.0.total_cmp(&other.0));
            points.dedup_by(|one, other| one.0 == other.0);
            Line { colour: *colour, dashed: false, name: String::new(), points }
        };
        STORES.iter().map(of).filter(|line| line.points.len() > 1).collect::<Vec<_>>()
    };
    let rates = line(|row| row.ops_per_sec);
    if rates.is_empty() {
        return None;
    }
    let drawn: Vec<Colour> = rates.iter().map(|line| line.colour).collect();
    let panel = |title: &str, y: Axis, lines: Vec<Line>, value: fn(f64) -> String| Panel {
        title: title.into(),
        x: Axis::log("entries, logarithmic", count),
        y,
        lines,
        value,
    };
    let size = |value: f64| short(&bytes(value));
    let panels = vec![
        panel("Operations: a lookup, an addition and a removal", Axis::linear("per second", count), rates, rate),
        panel("Anonymous memory", Axis::linear("", size), line(|row| row.rss_anon_kb as f64 * 1024.0), bytes),
        panel("Files", Axis::log("logarithmic", size), line(|row| row.file_bytes as f64), bytes),
    ];
    let is_drawn = |store: &&(&str, &str, Colour)| drawn.contains(&store.2);
    let entry = |(backend, durability, colour): &(&str, &str, Colour)| (*colour, format!("{backend} {durability}"));
    let legend = STORES.iter().filter(is_drawn).map(entry);
    let chart = Lines {
        title: TITLE.into(),
        about: "Lines over the number of entries: operations per second, memory, and the size of the files.".into(),
        legend: legend.collect(),
        columns: 1,
        panels: panels.into_iter().filter(|panel| !panel.lines.is_empty()).collect(),
        marks: true,
    };
    Some(chart.draw())
}
