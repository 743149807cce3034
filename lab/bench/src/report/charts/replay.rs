//! Charts of replays.

use super::legend::{colour, legend, mark};
use crate::report::{
    figures::SampleFigures,
    row::Row,
    select::{COLUMNS, column_name},
    svg::{Axis, Bar, Bars, Form, Group, Line, Lines, Panel},
    table::{bytes, count, rate, short, time},
};

/// How a replay went: rows per second, memory and the latency of commits over the commits, in memory and on disk. Of several
/// traces and ways to replay them the first is shown.
pub(super) fn over_time(rows: &[&Row]) -> Option<String> {
    let has_series = |row: &Row| row.replay.as_ref().is_some_and(|replay| replay.series.len() > 1);
    let mut rows: Vec<&Row> = rows.iter().copied().filter(|row| is_drawn(row) && has_series(row)).collect();
    // As recorded, if it was replayed so.
    rows.sort_by_key(|row| !row.variant.is_empty());
    let first = *rows.first()?;
    rows.retain(|row| (&row.scenario, &row.variant) == (&first.scenario, &first.variant));
    type Figure = fn(&SampleFigures) -> Option<f64>;
    let lines = |figures: &[(&str, Figure)]| {
        let mut lines = Vec::new();
        for column in COLUMNS {
            let Some(row) = rows.iter().find(|row| column_name(row) == column) else { continue };
            let series = row.replay.as_ref().map_or(&[][..], |replay| &replay.series);
            for (index, (name, figure)) in figures.iter().enumerate() {
                let points =
                    series.iter().filter_map(|sample| Some((sample.commits as f64, figure(sample)?))).collect();
                lines.push(Line { colour: colour(column), dashed: index > 0, name: (*name).into(), points });
            }
        }
        lines
    };
    let commits = || Axis::linear("commits", count);
    let panel = |title: &str, y: Axis, figures: &[(&str, Figure)], value: fn(f64) -> String| Panel {
        title: title.into(),
        x: commits(),
        y,
        lines: lines(figures),
        value,
    };
    let panels = vec![
        panel("Rows of the trace", Axis::linear("per second", count), &[("", |sample| Some(sample.rows_per_s))], rate),
        panel(
            "Memory",
            Axis::linear("resident: anonymous —, mapped files - -", |value| short(&bytes(value))),
            &[
                ("anon", |sample| Some(sample.rss_anon_kb as f64 * 1024.0)),
                ("mapped", |sample| Some(sample.rss_file_kb as f64 * 1024.0)),
            ],
            bytes,
        ),
        panel(
            "Commits",
            Axis::log("time of one, logarithmic: half took no longer —, 99 of 100 - -", |value| short(&time(value))),
            // A stretch without a commit has no latency.
            &[
                ("p50", |sample| Some(sample.commit_p50_us).filter(|us| *us > 0.0)),
                ("p99", |sample| Some(sample.commit_p99_us).filter(|us| *us > 0.0)),
            ],
            time,
        ),
    ];
    let variant = if first.variant.is_empty() { String::new() } else { format!(", {}", first.variant) };
    let chart = Lines {
        title: format!("{} replayed{variant}", first.scenario),
        about: "Lines over the commits: rows per second, resident memory, and the latency of commits.".into(),
        legend: legend(&rows),
        columns: 1,
        panels,
        marks: false,
    };
    Some(chart.draw())
}

/// Whether charts of replays have a colour for a row: they are of memory and the disk engine.
fn is_drawn(row: &Row) -> bool {
    COLUMNS.contains(&column_name(row))
}

/// Rows per second of every replay, in groups of the trace and the way it was replayed.
pub(super) fn rates(rows: &[&Row]) -> Option<String> {
    let rows: Vec<&Row> = rows.iter().copied().filter(|row| is_drawn(row)).collect();
    let mut ways: Vec<(&str, &str)> = Vec::new();
    for row in &rows {
        if !ways.contains(&(&row.scenario, &row.variant)) {
            ways.push((&row.scenario, &row.variant));
        }
    }
    let bar = |(scenario, variant): &(&str, &str)| {
        let of = |column: &&str| {
            let same = |row: &&&Row| (row.scenario.as_str(), row.variant.as_str()) == (*scenario, *variant);
            let row = rows.iter().filter(same).find(|row| column_name(row) == *column)?;
            mark(row, colour(column))
        };
        let label = if variant.is_empty() { (*scenario).to_owned() } else { format!("{scenario}, {variant}") };
        Bar { label, columns: vec![COLUMNS.iter().filter_map(of).collect()] }
    };
    let bars: Vec<Bar> = ways.iter().map(bar).filter(|bar| !bar.columns[0].is_empty()).collect();
    if bars.is_empty() {
        return None;
    }
    let chart = Bars {
        title: "A trace replayed: rows per second".into(),
        about: "Bars: rows of the trace per second for each backend and way to replay it.".into(),
        axis: "rows of the trace per second: median, and from the slowest run to the fastest".into(),
        legend: legend(&rows),
        columns: vec![String::new()],
        groups: vec![Group { title: String::new(), bars }],
        form: Form::Linear,
        tick: count,
        value: rate,
    };
    Some(chart.draw())
}
