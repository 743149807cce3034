//! How replays of a chain went.

use crate::report::{
    chain::ChainSample,
    row::Row,
    svg::{Axis, Colour, Line, Lines, Panel},
    table::{bytes, count, rate, short},
    views::chain::store,
};

pub(super) const TITLE: &str = "The Cardano chain replayed";

const COLOURS: [Colour; 6] =
    [Colour::DiskNone, Colour::DiskSynced, Colour::Second, Colour::Third, Colour::Memory, Colour::Other];

/// Draws speed, memory and the number of unspent outputs over the slots, for each replay of the longest chain.
pub(super) fn over_slots(rows: &[&Row]) -> Option<String> {
    let mut rows: Vec<&Row> = rows.iter().copied().filter(|row| series(row).len() > 1).collect();
    let longest = rows.iter().max_by_key(|row| row.total_ops)?.scenario.clone();
    rows.retain(|row| row.scenario == longest);
    rows.truncate(COLOURS.len());
    type Figure = fn(&ChainSample) -> f64;
    let lines = |figures: &[(&str, Figure)]| {
        let mut lines = Vec::new();
        for (row, colour) in rows.iter().zip(COLOURS) {
            for (index, (name, figure)) in figures.iter().enumerate() {
                let points = series(row).iter().map(|sample| (sample.slot as f64, figure(sample))).collect();
                lines.push(Line { colour, dashed: index > 0, name: (*name).into(), points });
            }
        }
        lines
    };
    let panel = |title: &str, y: Axis, figures: &[(&str, Figure)], value: fn(f64) -> String| Panel {
        title: title.into(),
        x: Axis::linear("slot", count),
        y,
        lines: lines(figures),
        value,
    };
    let panels = vec![
        panel(
            "Blocks",
            Axis::log("per second, logarithmic", count),
            &[("", |sample| sample.blocks_per_s.max(1.0))],
            rate,
        ),
        panel(
            "Memory",
            Axis::linear("resident: anonymous —, mapped files - -", |value| short(&bytes(value))),
            &[
                ("anon", |sample| sample.rss_anon_kb as f64 * 1024.0),
                ("mapped", |sample| sample.rss_file_kb as f64 * 1024.0),
            ],
            bytes,
        ),
        panel("Unspent outputs", Axis::linear("entries", count), &[("", |sample| sample.entries as f64)], count),
    ];
    let label = |row: &&Row| row.chain.as_ref().map(|chain| format!("{}, {}", store(row, chain), chain.profile));
    let chart = Lines {
        title: format!("{longest} replayed"),
        about: "Lines over the slots of the chain: blocks per second, resident memory, and unspent outputs.".into(),
        legend: COLOURS.into_iter().zip(rows.iter().filter_map(label)).collect(),
        columns: 1,
        panels,
        marks: false,
    };
    Some(chart.draw())
}

fn series(row: &Row) -> &[ChainSample] {
    row.chain.as_ref().map_or(&[], |chain| &chain.series)
}
