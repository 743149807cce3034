//! The tables of a report, each a view of the rows.

use std::collections::BTreeSet;

use super::{
    Row, peers,
    table::{Table, bytes, mebibytes, rate, time},
};
use crate::optims;

/// Returns the tables of these rows: limits, rates, details, scaling, optimisations, long forms, peers. A table
/// without lines is left out. The same rows give the same tables.
#[must_use]
pub fn sections(rows: &[Row]) -> Vec<Table> {
    let ours: Vec<&Row> = rows.iter().filter(|row| !row.backend.is_empty()).collect();
    let big = |row: &&&Row| is_big(&row.scenario);
    let step = |row: &&&Row| optims::is_step(&row.variant);
    let suite: Vec<&Row> = ours.iter().filter(|row| !big(row) && !step(row)).copied().collect();
    let steps: Vec<&Row> = ours.iter().filter(|row| step(row)).copied().collect();
    let long: Vec<&Row> = ours.iter().filter(|row| big(row)).copied().collect();
    let mut tables = vec![limits(rows)];
    for variant in suites(&suite) {
        let rows: Vec<&Row> = suite.iter().filter(|row| suite_of(row) == variant).copied().collect();
        tables.push(rates(&variant, &rows));
        tables.push(details(&variant, &rows));
        tables.push(scaling(&variant, &rows));
    }
    tables.extend([optimisations(&steps), long_forms(&long)]);
    tables.retain(|table| !table.lines.is_empty());
    if !suite.is_empty() {
        tables.push(peers::table());
    }
    tables
}

/// Returns what a row's name has beside backend and durability: the suite's name and the switches.
fn suite_of(row: &Row) -> (String, String) {
    let target = column_name(row);
    let name = row.name.split(&format!(" {target}")).next().unwrap_or(&row.name);
    (name.to_owned(), row.variant.clone())
}

fn suites(rows: &[&Row]) -> Vec<(String, String)> {
    let mut suites = Vec::new();
    for row in rows {
        let suite = suite_of(row);
        if !suites.contains(&suite) {
            suites.push(suite);
        }
    }
    suites
}

/// Scenarios in the order of the tables; longer names come before those that they start with.
const ORDER: [&str; 18] = [
    "commits",
    "commits-distinct",
    "large-values",
    "incremental",
    "incremental-long",
    "reads",
    "reads-random",
    "reads-random-long",
    "reads-random-reader-long",
    "reads-random-subtree-long",
    "concurrent",
    "concurrent-long",
    "concurrent-each",
    "prepare",
    "prepare-one",
    "group-commit",
    "group-commit-threads",
    "open",
];

fn order(row: &Row) -> (usize, u64, bool, String) {
    let scenario = &row.scenario;
    let stem: String = scenario
        .split('-')
        .filter(|word| !word.starts_with(|first: char| first.is_ascii_digit()) && !is_tasks(word))
        .collect::<Vec<_>>()
        .join("-");
    let rank = ORDER.iter().position(|name| *name == stem).unwrap_or(ORDER.len());
    (rank, row.value_bytes, scenario.split('-').any(is_tasks), scenario.clone())
}

/// Whether a word of a scenario's name is that of a parallel form: `p2x100`.
fn is_tasks(word: &str) -> bool {
    let Some((domains, fibers)) = word.strip_prefix('p').and_then(|rest| rest.split_once('x')) else { return false };
    !domains.is_empty() && [domains, fibers].iter().all(|part| part.bytes().all(|byte| byte.is_ascii_digit()))
}

fn is_big(scenario: &str) -> bool {
    ["open-", "over-budget-", "wide-"].iter().any(|start| scenario.starts_with(start))
}

/// Returns the scenarios of these rows in order, each once.
fn scenarios(rows: &[&Row]) -> Vec<String> {
    let keys: BTreeSet<_> = rows.iter().map(|row| order(row)).collect();
    let mut names: Vec<String> = Vec::new();
    for (.., scenario) in keys {
        if !names.contains(&scenario) {
            names.push(scenario);
        }
    }
    names
}

fn limits(rows: &[Row]) -> Table {
    let mut table = Table::new("Limits of this run", &["limit", "mean", "p50", "p99", "rate"]);
    for row in rows.iter().filter(|row| row.is_limit()) {
        let mean = row.total_time / row.total_ops.max(1) as f64;
        let moved = row.value_bytes as f64 / mean.max(f64::MIN_POSITIVE);
        let optional = |us: Option<f64>| us.map_or_else(|| "–".into(), time);
        table.lines.push(vec![
            row.scenario.clone(),
            time(mean * 1e6),
            optional(row.latency_p50_us),
            optional(row.latency_p99_us),
            format!("{}/s, {}/s", rate(row.ops_per_sec), bytes(moved)),
        ]);
    }
    if let Some(row) = rows.iter().find(|row| row.is_limit()) {
        table.notes.push(machine(row));
    }
    table
}

/// Returns where and when a row comes from.
pub(super) fn machine(row: &Row) -> String {
    format!(
        "{}, {} cores, Linux {}, {}; {}, revision {}",
        row.cpu, row.cores, row.kernel, row.filesystem, row.date, row.revision
    )
}

/// Returns the column of a row in tables that have a column for each backend and durability.
fn column_name(row: &Row) -> &'static str {
    match (row.backend.as_str(), row.durability.as_str()) {
        ("memory", _) => "memory",
        (_, "synced") => "disk synced",
        _ if row.name.contains("disk synced") => "disk synced",
        _ => "disk none",
    }
}

const COLUMNS: [&str; 3] = ["memory", "disk none", "disk synced"];

fn titled(title: &str, (suite, variant): &(String, String)) -> String {
    if variant.is_empty() { format!("{title}: {suite}") } else { format!("{title}: {suite}, {variant}") }
}

fn rates(suite: &(String, String), rows: &[&Row]) -> Table {
    let title = titled("Operations per second (medians)", suite);
    let mut table = Table::new(&title, &["scenario", "operation", COLUMNS[0], COLUMNS[1], COLUMNS[2]]);
    for scenario in scenarios(rows) {
        let of = |column: &str| rows.iter().find(|row| row.scenario == scenario && column_name(row) == column);
        let mut line = vec![scenario.clone(), operation(&scenario).to_owned()];
        line.extend(COLUMNS.map(|column| of(column).map_or_else(|| "–".into(), |row| rate(row.ops_per_sec))));
        table.lines.push(line);
    }
    table
}

/// Returns what is counted.
fn operation(scenario: &str) -> &'static str {
    let starts = |names: &[&str]| names.iter().any(|name| scenario.starts_with(name));
    if starts(&["incremental", "group-commit", "prepare-one"]) {
        "commit"
    } else if starts(&["reads"]) {
        "lookup"
    } else if starts(&["concurrent"]) {
        "put or get"
    } else {
        "entry"
    }
}

fn details(suite: &(String, String), rows: &[&Row]) -> Table {
    let heads = [
        "scenario, backend",
        "ops/s",
        "min–max",
        "runs",
        "p50",
        "p99",
        "B/commit",
        "store",
        "anon MiB",
        "mapped MiB",
        "fdatasync",
        "share of limit",
        "checked",
    ];
    let mut table = Table::new(&titled("Details", suite), &heads);
    table.folded = true;
    for scenario in scenarios(rows) {
        for column in COLUMNS {
            let found = rows.iter().filter(|row| row.scenario == scenario && column_name(row) == column);
            table.lines.extend(found.map(|row| detail(row, column)));
        }
    }
    table
}

fn detail(row: &Row, column: &str) -> Vec<String> {
    let none = || "–".to_owned();
    let or_none = |value: Option<f64>, write: fn(f64) -> String| value.map_or_else(none, write);
    let share = match (&row.limit, row.share) {
        (Some(limit), Some(share)) => format!("{:.0} % {limit}", share * 100.0),
        _ => none(),
    };
    let checked = if row.checked { "yes".to_owned() } else { row.wrong.clone().unwrap_or_else(|| "no".into()) };
    vec![
        format!("{}, {column}", row.scenario),
        rate(row.ops_per_sec),
        format!("{}–{}", rate(row.ops_per_sec_min), rate(row.ops_per_sec_max)),
        row.runs.to_string(),
        or_none(row.latency_p50_us, time),
        or_none(row.latency_p99_us, time),
        or_none(row.bytes_per_commit, bytes),
        if row.store_bytes > 0 { bytes(row.store_bytes as f64) } else { none() },
        mebibytes(row.rss_anon_kb),
        mebibytes(row.rss_file_kb),
        or_none(row.fdatasync_us, time),
        share,
        checked,
    ]
}

/// The rates of rows that exist for one and for two threads, and what the second thread adds.
fn scaling(suite: &(String, String), rows: &[&Row]) -> Table {
    let heads = ["scenario, backend", "1 thread", "2 threads", "ratio"];
    let mut table = Table::new(&titled("From one thread to two", suite), &heads);
    for scenario in scenarios(rows) {
        let Some(stem) = scenario.strip_suffix("-1t") else { continue };
        for column in COLUMNS {
            let of = |name: &str| rows.iter().find(|row| row.scenario == name && column_name(row) == column);
            let (Some(one), Some(two)) = (of(&scenario), of(&format!("{stem}-2t"))) else { continue };
            table.lines.push(vec![
                format!("{stem}, {column}"),
                rate(one.ops_per_sec),
                rate(two.ops_per_sec),
                format!("{:.2}", two.ops_per_sec / one.ops_per_sec.max(f64::MIN_POSITIVE)),
            ]);
        }
    }
    table
}

/// Each optimisation by itself: rates and, in brackets, how often the baseline's.
fn optimisations(rows: &[&Row]) -> Table {
    let names = scenarios(rows);
    let mut heads = vec!["backend, switches"];
    heads.extend(names.iter().map(String::as_str));
    let mut table = Table::new("Each optimisation by itself (ops/s; times the baseline's)", &heads);
    for column in COLUMNS {
        let here: Vec<&&Row> = rows.iter().filter(|row| column_name(row) == column).collect();
        let mut variants: Vec<&str> = Vec::new();
        for row in &here {
            if !variants.contains(&row.variant.as_str()) {
                variants.push(&row.variant);
            }
        }
        for variant in variants {
            let of = |variant: &str, name: &str| {
                here.iter().find(|row| row.variant == variant && row.scenario == name).map(|row| row.ops_per_sec)
            };
            let mut line = vec![format!("{column}, {variant}")];
            line.extend(names.iter().map(|name| match (of(variant, name), of("baseline", name)) {
                (Some(own), Some(base)) if base > 0.0 => format!("{} ({:.2})", rate(own), own / base),
                (Some(own), _) => rate(own),
                _ => "–".into(),
            }));
            table.lines.push(line);
        }
    }
    table
}

fn long_forms(rows: &[&Row]) -> Table {
    let heads = [
        "scenario, backend",
        "each",
        "times the smaller",
        "p50",
        "p99",
        "ops/s",
        "store",
        "anon MiB",
        "mapped MiB",
        "checked",
    ];
    let mut table = Table::new("Long forms", &heads);
    for row in rows {
        let optional = |us: Option<f64>| us.map_or_else(|| "–".into(), time);
        table.lines.push(vec![
            format!("{}, {}", row.scenario, column_name(row)),
            time(1e6 / row.ops_per_sec.max(f64::MIN_POSITIVE)),
            times_smaller(row, rows).map_or_else(|| "–".into(), |times| format!("{times:.2}")),
            optional(row.latency_p50_us),
            optional(row.latency_p99_us),
            rate(row.ops_per_sec),
            if row.store_bytes > 0 { bytes(row.store_bytes as f64) } else { "–".into() },
            mebibytes(row.rss_anon_kb),
            mebibytes(row.rss_file_kb),
            if row.checked { "yes".into() } else { row.wrong.clone().unwrap_or_else(|| "no".into()) },
        ]);
    }
    table
}

/// Returns how many times as long an operation takes as in the first row of the same kind, which is that of
/// the smaller store or directory.
fn times_smaller(row: &Row, rows: &[&Row]) -> Option<f64> {
    let kind = |row: &Row| {
        let words = row.scenario.split('-').filter(|word| !word.starts_with(|first: char| first.is_ascii_digit()));
        (words.collect::<Vec<_>>().join("-"), row.backend.clone(), row.variant.clone())
    };
    let smaller = rows.iter().find(|other| kind(other) == kind(row))?;
    (smaller.scenario != row.scenario && row.ops_per_sec > 0.0).then(|| smaller.ops_per_sec / row.ops_per_sec)
}

#[cfg(test)]
mod tests;
