//! Which charts there are: each drawn from the rows, if there are rows for it.

use self::legend::{GIT, SPREAD_SAID, colour, legend, mark, stroke, strokes};
use super::{
    beside,
    places::{main_machine, same_machine},
    row::Row,
    select::{
        COLUMNS, Kinds, OTHERS, all_columns, column_name, is_tasks, keep_one_size, operation, scenarios, suite_of,
        sweep_stem,
    },
    svg::{Axis, Bar, Bars, Form, Group, Line, Lines, Mark, Panel},
    table::{count, rate},
};

/// A chart: its file's name, what it shows, and the file's text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Chart {
    pub(crate) file: &'static str,
    pub(crate) title: &'static str,
    pub(crate) svg: String,
}

/// Draws the charts that these rows allow. The same rows give the same charts.
pub(crate) fn draw(rows: &[Row]) -> Vec<Chart> {
    // What is wrong is no figure, and what was measured on another machine is no comparison.
    let machine = main_machine(rows).map(|(row, _)| row);
    let is_shown = |row: &&Row| row.is_right() && machine.is_some_and(|main| same_machine(main, row));
    let kinds = Kinds::of(rows.iter().filter(is_shown));
    let mut suite = kinds.suite;
    // A chart compares backends: one suite, as it is usually run, of one size.
    suite.retain(|row| row.variant.is_empty());
    keep_one_size(&mut suite);
    let first = suite.first().map(|row| suite_of(row));
    suite.retain(|row| Some(suite_of(row)) == first);
    let (memory, disk): (Vec<&Row>, Vec<&Row>) = suite.into_iter().partition(|row| row.backend == "memory");
    let mut others = kinds.others;
    others.retain(|row| row.variant.is_empty());
    keep_one_size(&mut others);
    let mut git = kinds.git;
    // Others do the short forms only.
    git.retain(|row| row.variant.is_empty() && !row.scenario.contains("-long-") && GIT.contains(&column_name(row)));
    keep_one_size(&mut git);
    let mut steps = kinds.steps;
    keep_one_size(&mut steps);
    let charts = [
        (beside::FILE, beside::TITLE, beside::chart(rows)),
        ("memory.svg", "The tree suite in memory", rates(&memory, "The tree suite in memory", &COLUMNS[..1])),
        ("disk.svg", "The tree suite on disk", rates(&disk, "The tree suite on disk", &COLUMNS[1..])),
        ("backends.svg", OTHER_BACKENDS, rates(&others, OTHER_BACKENDS, &OTHERS)),
        ("maps.svg", maps::TITLE, maps::chart(&kinds.maps)),
        ("git.svg", "The tree suite in Git repositories", rates(&git, "The tree suite in Git repositories", &GIT)),
        ("optimisations.svg", "Each optimisation by itself", optimisations(&steps)),
        ("tasks.svg", "One amount of work, cut into more and more tasks", tasks(&kinds.sweep)),
        ("replay.svg", "A trace replayed", replay::over_time(&kinds.replays)),
        ("utxo.svg", utxo::TITLE, utxo::chart(&kinds.utxo)),
        ("gc.svg", gc::TITLE, gc::chart(&kinds.apart)),
        ("chain.svg", chain::TITLE, chain::over_slots(&kinds.chains)),
        ("replay-rates.svg", "A trace replayed: rows per second", replay::rates(&kinds.replays)),
    ];
    charts.into_iter().filter_map(|(file, title, svg)| Some(Chart { file, title, svg: svg? })).collect()
}

/// Draws how stores went over time beside collections, if there are rows for it.
pub(crate) fn collections(rows: &[Row]) -> Option<String> {
    gc::chart(&rows.iter().filter(|row| row.is_right()).collect::<Vec<_>>())
}

const OTHER_BACKENDS: &str = "The tree suite on other backends";

/// What operations are called over a group of bars.
const OPERATIONS: [(&str, &str); 4] = [
    ("entry", "Entries set and committed"),
    ("commit", "Commits"),
    ("lookup", "Lookups"),
    ("put or get", "Puts and gets"),
];

/// Operations per second of every scenario, in groups of what is counted.
fn rates(rows: &[&Row], title: &str, columns: &[&str]) -> Option<String> {
    let names = scenarios(rows);
    // The steady form of a scenario stands for its short one, the one-threaded for the others.
    let left_out = |name: &String| {
        let longer = |name: &str| name.split_once('-').map(|(stem, rest)| format!("{stem}-long-{rest}"));
        let shown_longer = longer(name).is_some_and(|longer| names.contains(&longer))
            || name
                .strip_prefix("reads-random-")
                .is_some_and(|rest| names.contains(&format!("reads-random-long-{rest}")));
        let last = name.rsplit('-').next().unwrap_or("");
        let threads = last.strip_suffix('t').and_then(|count| count.parse::<usize>().ok());
        shown_longer || threads.is_some_and(|count| count > 1) || is_tasks(last)
    };
    let shown: Vec<&String> = names.iter().filter(|name| !left_out(name)).collect();
    let bar = |name: &&String| {
        let of = |column: &&str| {
            let row = rows.iter().find(|row| row.scenario == **name && column_name(row) == *column)?;
            mark(row, colour(column))
        };
        Bar { label: (*name).clone(), columns: vec![columns.iter().filter_map(of).collect()] }
    };
    let group = |(kind, title): (&str, &str)| {
        let bars: Vec<Bar> = shown.iter().filter(|name| operation(name) == kind).map(bar).collect();
        Group { title: title.into(), bars: bars.into_iter().filter(|bar| !bar.columns[0].is_empty()).collect() }
    };
    let groups: Vec<Group> = OPERATIONS.map(group).into_iter().filter(|group| !group.bars.is_empty()).collect();
    if groups.is_empty() {
        return None;
    }
    let chart = Bars {
        title: title.into(),
        about:
            "Bars: the median of operations per second of each scenario; lines in them: from the slowest run to the fastest. The page has the figures as tables."
                .into(),
        axis: SPREAD_SAID.into(),
        legend: if columns.len() > 1 { legend(rows) } else { vec![] },
        columns: vec![String::new()],
        groups,
        form: Form::Linear,
        tick: count,
        value: rate,
    };
    Some(chart.draw())
}

/// Rates of each step as multiples of the baseline's.
fn optimisations(rows: &[&Row]) -> Option<String> {
    let names = scenarios(rows);
    let backends = legend(rows);
    let of = |column: &str, variant: &str, name: &str| {
        let found = |row: &&&Row| column_name(row) == column && row.variant == variant && row.scenario == name;
        rows.iter().find(found).and_then(|row| mark(row, colour(column)))
    };
    let ratio = |column: &str, variant: &str, name: &str| {
        let (own, base) = (of(column, variant, name)?, of(column, "baseline", name)?.value);
        let spread = (own.spread.0 / base, own.spread.1 / base);
        Some(Mark { value: own.value / base, spread, ..own })
    };
    let mut variants: Vec<&str> = Vec::new();
    for row in rows {
        if row.variant != "baseline" && !variants.contains(&row.variant.as_str()) {
            variants.push(&row.variant);
        }
    }
    let bar = |variant: &&str| {
        let bars = |name: &String| backends.iter().filter_map(|(_, column)| ratio(column, variant, name)).collect();
        Bar { label: (*variant).into(), columns: names.iter().map(bars).collect() }
    };
    let bars: Vec<Bar> =
        variants.iter().map(bar).filter(|bar| bar.columns.iter().any(|bars| !bars.is_empty())).collect();
    if bars.is_empty() {
        return None;
    }
    let chart = Bars {
        title: "Each optimisation by itself: times the baseline's rate".into(),
        about:
            "Points: the rate with one optimisation on as a multiple of the rate with all off, on a logarithmic axis."
                .into(),
        axis: "times the baseline, which has every optimisation off; logarithmic".into(),
        legend: backends.clone(),
        columns: names.clone(),
        groups: vec![Group { title: String::new(), bars }],
        form: Form::Ratios,
        tick: |value| format!("×{}", count(value)),
        value: |value| if value < 9.95 { format!("×{value:.2}") } else { format!("×{value:.1}") },
    };
    Some(chart.draw())
}

/// Operations per second over the number of tasks, a panel for each scenario.
fn tasks(rows: &[&Row]) -> Option<String> {
    let mut stems: Vec<&str> = Vec::new();
    for stem in rows.iter().map(|row| sweep_stem(row)) {
        if !stems.contains(&stem) {
            stems.push(stem);
        }
    }
    let line = |stem: &str, column: &str| {
        let here = rows.iter().filter(|row| sweep_stem(row) == stem && column_name(row) == column);
        let mut points: Vec<(f64, f64)> = here.map(|row| (row.tasks as f64, row.ops_per_sec)).collect();
        points.sort_by(|one, other| one.0.total_cmp(&other.0));
        let (colour, dashed) = stroke(column);
        Line { colour, dashed, name: String::new(), points }
    };
    let panel = |stem: &&str| {
        let lines = all_columns().map(|column| line(stem, column)).filter(|line| !line.points.is_empty());
        let counted = OPERATIONS.iter().find(|(kind, _)| *kind == operation(stem)).map_or("operations", |pair| pair.1);
        Panel {
            title: (*stem).into(),
            x: Axis::log("tasks", count),
            y: Axis::log(&format!("{} per second", counted.to_lowercase()), count),
            lines: lines.collect(),
            value: rate,
        }
    };
    let panels: Vec<Panel> = stems.iter().map(panel).collect();
    if panels.is_empty() {
        return None;
    }
    let chart = Lines {
        title: "One amount of work, cut into more and more tasks".into(),
        about: "Lines: operations per second over the number of tasks, both logarithmic; a panel for each scenario."
            .into(),
        legend: strokes(rows),
        columns: 2,
        panels,
        marks: true,
    };
    Some(chart.draw())
}

mod chain;
mod gc;
mod legend;
mod maps;
mod replay;
#[cfg(test)]
mod tests;
mod utxo;
