//! The tables of a report, each a view of the rows.

use std::{
    collections::BTreeSet,
    io::{ErrorKind, Write},
    path::Path,
};

use self::details::{checked, details, rate_at, rate_of, titled};
use super::{
    json,
    places::{Places, same_machine},
    row::Row,
    select::{
        COLUMNS, GROUPED, Kinds, OTHERS, all_columns, column_name, operation, scenarios, sizes_of, suite_of, suites,
        sweep_stem,
    },
    table::{Table, bytes, mebibytes, rate, time},
};
use crate::{BenchError, error::Result};

/// Returns the tables of these rows: where they come from, limits, rates, details, scaling, other backends, maps, indexes of blocks,
/// Git, optimisations, task counts, replays, the chain, Irmin, parts of the bench that stand by themselves, long forms. Rows of
/// other sizes than usual follow, in tables of their own. A table without lines is left out. The same rows give the same tables.
#[must_use]
pub fn sections(rows: &[Row]) -> Vec<Table> {
    let places = Places::of(rows);
    let mut tables = vec![places.table(), limits(rows, &places)];
    for sizes in sizes_of(rows) {
        let mut of_size = of_kinds(&Kinds::of(rows.iter().filter(|row| row.sizes == sizes)), &places);
        if !sizes.is_empty() {
            of_size.iter_mut().for_each(|table| table.title = format!("{}, {sizes}", table.title));
        }
        tables.extend(of_size);
    }
    tables.retain(|table| !table.lines.is_empty());
    tables
}

/// Returns the tables of rows of one size, kind by kind; some may be without lines.
fn of_kinds(kinds: &Kinds<'_>, places: &Places) -> Vec<Table> {
    let mut tables = Vec::new();
    for variant in suites(&kinds.suite) {
        let rows: Vec<&Row> = kinds.suite.iter().filter(|row| suite_of(row) == variant).copied().collect();
        tables.push(rates(&titled("Operations per second (medians)", &variant), &rows, &COLUMNS, places));
        tables.push(details(&titled("Details", &variant), &rows, &COLUMNS, places));
        tables.push(scaling(&titled("From one thread to two", &variant), &rows, &COLUMNS));
    }
    tables.push(rates("Other backends: operations per second (medians)", &kinds.others, &OTHERS, places));
    tables.push(details("Details: other backends", &kinds.others, &OTHERS, places));
    tables.push(scaling("Other backends: from one thread to two", &kinds.others, &OTHERS));
    tables.extend(map::tables(&kinds.maps, places));
    tables.push(blocks::table(&kinds.blocks, places));
    tables.extend(git::tables(&kinds.git, &kinds.imports, places));
    tables.push(optimisations(&kinds.steps, places));
    tables.push(details("Details: each optimisation by itself", &kinds.steps, &COLUMNS, places));
    tables.push(task_counts(&kinds.sweep, places));
    tables.push(details(
        "Details: one amount of work, cut into more and more tasks",
        &kinds.sweep,
        &all_columns().collect::<Vec<_>>(),
        places,
    ));
    tables.extend(replays::tables(&kinds.replays, places));
    tables.push(utxo::table(&kinds.utxo, places));
    tables.push(chain::table(&kinds.chains, places));
    tables.push(irmin::table(&kinds.irmin, places));
    tables.extend(apart(&kinds.apart, places));
    tables.push(long_forms(&kinds.long, places));
    tables
}

/// Writes to standard output. Whoever closes the pipe early has seen enough.
pub(crate) fn print(text: &str) -> Result<()> {
    let mut out = std::io::stdout();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(BenchError::io(Path::new("standard output"))(error)),
        _ => Ok(()),
    }
}

/// Writes tables, or the rows as they are in files, to standard output.
pub(crate) fn show(rows: &[Row], json: bool) -> Result<()> {
    let text = if json {
        let values: Vec<_> = rows.iter().filter_map(|row| serde_json::to_value(row).ok()).collect();
        format!("{{\"rows\":{}}}\n", json::to_text(&values).trim_end())
    } else {
        sections(rows).iter().map(|table| table.text() + "\n").collect()
    };
    print(&text)
}

/// As [`show`]; fails afterwards if a row is wrong.
pub(crate) fn show_checked(rows: &[Row], json: bool) -> Result<()> {
    let shown = show(rows, json);
    rows.iter().try_for_each(Row::verdict).and(shown)
}

fn limits(rows: &[Row], places: &Places) -> Table {
    let mut table = Table::new("Limits of the machine", &["limit", "mean", "p50", "p99", "rate", "measured in"]);
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
            places.number(row),
        ]);
    }
    table
}

fn rates(title: &str, rows: &[&Row], columns: &[&str], places: &Places) -> Table {
    let heads: Vec<&str> = ["scenario", "operation"].into_iter().chain(columns.iter().copied()).collect();
    let mut table = Table::new(title, &heads);
    for scenario in scenarios(rows) {
        let of = |column: &str| rows.iter().find(|row| row.scenario == scenario && column_name(row) == column);
        let mut line = vec![scenario.clone(), operation(&scenario).to_owned()];
        line.extend(columns.iter().map(|column| of(column).map_or_else(|| "–".into(), |row| rate_at(row, places))));
        table.lines.push(line);
    }
    table
}

/// Collections, refs, histories and objects, with switches apart.
fn apart(rows: &[&Row], places: &Places) -> Vec<Table> {
    let variants: BTreeSet<&str> = rows.iter().map(|row| &row.variant[..]).collect();
    let tables = |variant: &str| {
        let rows: Vec<&Row> = rows.iter().filter(|row| row.variant == variant && !gc::is_other(row)).copied().collect();
        let titled = |title: &str| if variant.is_empty() { title.to_owned() } else { format!("{title}, {variant}") };
        let mut columns = COLUMNS.to_vec();
        columns.extend(rows.iter().any(|row| column_name(row) == GROUPED).then_some(GROUPED));
        [
            rates(
                &titled("Collections, refs, histories, objects: operations per second (medians)"),
                &rows,
                &columns,
                places,
            ),
            details(&titled("Details: collections, refs, histories, objects"), &rows, &columns, places),
            scaling(&titled("Checks and large commits: from one thread to two"), &rows, &COLUMNS),
        ]
    };
    variants.into_iter().flat_map(tables).chain([gc::table(rows, places)]).collect()
}

/// The rates of rows that exist for one and for two threads, and what the second thread adds.
fn scaling(title: &str, rows: &[&Row], columns: &[&str]) -> Table {
    let heads = ["scenario, backend", "1 thread", "2 threads", "ratio"];
    let mut table = Table::new(title, &heads);
    for scenario in scenarios(rows) {
        let Some(stem) = scenario.strip_suffix("-1t") else { continue };
        for &column in columns {
            let of = |name: &str| rows.iter().find(|row| row.scenario == name && column_name(row) == column);
            let (Some(one), Some(two)) = (of(&scenario), of(&format!("{stem}-2t"))) else { continue };
            if !is_comparable(one, two) {
                continue;
            }
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
fn optimisations(rows: &[&Row], places: &Places) -> Table {
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
            let of = |variant: &str, name: &str| here.iter().find(|row| row.variant == variant && row.scenario == name);
            let mut line = vec![format!("{column}, {variant}")];
            line.extend(names.iter().map(|name| match (of(variant, name), of("baseline", name)) {
                (Some(own), Some(base)) if is_comparable(own, base) && base.ops_per_sec > 0.0 => {
                    format!("{} ({:.2})", rate_at(own, places), own.ops_per_sec / base.ops_per_sec)
                }
                (Some(own), _) => rate_at(own, places),
                _ => "–".into(),
            }));
            table.lines.push(line);
        }
    }
    table
}

/// One amount of work by more and more tasks: a line for each scenario and backend, a column for each count.
fn task_counts(rows: &[&Row], places: &Places) -> Table {
    let counts: BTreeSet<u64> = rows.iter().map(|row| row.tasks).collect();
    let named = counts.iter().map(|count| if *count == 1 { "1 task".into() } else { format!("{count} tasks") });
    let heads: Vec<String> = std::iter::once("scenario, backend".to_owned()).chain(named).collect();
    let heads: Vec<&str> = heads.iter().map(String::as_str).collect();
    let mut table = Table::new("One amount of work, cut into more and more tasks (ops/s)", &heads);
    let mut stems: Vec<&str> = Vec::new();
    for stem in rows.iter().map(|row| sweep_stem(row)) {
        if !stems.contains(&stem) {
            stems.push(stem);
        }
    }
    for stem in stems {
        for column in all_columns() {
            let of = |count: &u64| {
                let mut here = rows.iter().filter(|row| sweep_stem(row) == stem && column_name(row) == column);
                here.find(|row| row.tasks == *count).map_or_else(|| "–".into(), |row| rate_at(row, places))
            };
            let cells: Vec<String> = counts.iter().map(of).collect();
            if cells.iter().any(|cell| cell != "–") {
                table.lines.push(std::iter::once(format!("{stem}, {column}")).chain(cells).collect());
            }
        }
    }
    table
}

fn long_forms(rows: &[&Row], places: &Places) -> Table {
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
        "measured in",
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
            rate_of(row),
            if row.store_bytes > 0 { bytes(row.store_bytes as f64) } else { "–".into() },
            mebibytes(row.rss_anon_kb),
            mebibytes(row.rss_file_kb),
            checked(row),
            places.number(row),
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
    let is_larger = smaller.scenario != row.scenario && row.ops_per_sec > 0.0;
    (is_larger && is_comparable(smaller, row)).then(|| smaller.ops_per_sec / row.ops_per_sec)
}

/// Whether the rates of two rows may be put into a ratio.
fn is_comparable(one: &Row, other: &Row) -> bool {
    one.is_right() && other.is_right() && same_machine(one, other)
}

pub(super) mod blocks;
pub(crate) mod chain;
mod details;
mod gc;
mod git;
mod irmin;
pub(crate) mod map;
mod replays;
#[cfg(test)]
mod tests;
pub(crate) mod utxo;
