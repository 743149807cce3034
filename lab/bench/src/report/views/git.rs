//! Git repositories: the tree suite in them, by us and by others, and what is aimed at.

use std::collections::BTreeSet;

use super::{
    details::{self, checked, details, rate_at, rate_of},
    is_comparable,
};
use crate::{
    job::Target,
    report::{
        places::Places,
        row::Row,
        select::{column_name, operation, scenarios, suite_of, suites},
        table::{Table, bytes, mebibytes, rate, time},
    },
};

fn titled(title: &str, suite: &(String, String)) -> String {
    // Where there are rows of others alone, the tables are of no suite.
    if suite.0.is_empty() { title.to_owned() } else { details::titled(title, suite) }
}

/// Returns the tables of rows of Git repositories and of imports.
pub(super) fn tables(rows: &[&Row], imports: &[&Row], places: &Places) -> Vec<Table> {
    let (ours, peers): (Vec<&Row>, Vec<&Row>) =
        rows.iter().partition(|row| row.backend == Target::GitPacksNone.backend());
    let mut tables = Vec::new();
    let mut suites = suites(&ours);
    if suites.is_empty() && !peers.is_empty() {
        suites.push(Default::default());
    }
    for suite in suites {
        let mut rows: Vec<&Row> = ours.iter().filter(|row| suite_of(row) == suite).copied().collect();
        rows.extend(&peers);
        let columns = columns(&rows);
        let title = titled("Git repositories: operations per second (medians)", &suite);
        tables.push(rates(&title, &rows, &columns, places));
        tables.push(details(&titled("Details: Git repositories", &suite), &rows, &columns, places));
        tables.push(sizes(&titled("Git repositories: sizes of objects", &suite), &rows));
        tables.push(goals(&titled("Git repositories: goals", &suite), &rows, imports));
    }
    if tables.is_empty() {
        tables.push(goals("Git repositories: goals", &[], imports));
    }
    tables.push(importing(imports, places));
    tables
}

fn columns(rows: &[&Row]) -> Vec<&'static str> {
    let occurs = |name: &&str| rows.iter().any(|row| column_name(row) == *name);
    Target::all().filter(|target| target.has_git_ids()).map(Target::name).filter(occurs).collect()
}

fn rates(title: &str, rows: &[&Row], columns: &[&str], places: &Places) -> Table {
    let mut heads = vec!["scenario", "operation"];
    heads.extend(columns);
    let mut table = Table::new(title, &heads);
    let versions: BTreeSet<&str> = rows.iter().filter_map(|row| row.version.as_deref()).collect();
    if !versions.is_empty() {
        let versions: Vec<&str> = versions.into_iter().collect();
        table.notes = vec![
            format!("Others, with the same commits in the same run: {}. They sync nothing unless", versions.join(", ")),
            "told to, but for the one pack of git fast-import, of which nobody sees a commit before its end.".into(),
        ];
    }
    for scenario in scenarios(rows) {
        let mut line = vec![scenario.clone(), operation(&scenario).to_owned()];
        let cell = |column: &&str| find(rows, column, &scenario).map_or_else(|| "–".into(), |row| rate_at(row, places));
        line.extend(columns.iter().map(cell));
        table.lines.push(line);
    }
    table
}

fn find<'r>(rows: &[&'r Row], column: &str, scenario: &str) -> Option<&'r Row> {
    rows.iter().find(|row| row.scenario == scenario && column_name(row) == column).copied()
}

/// What the objects take after folding, beside what `git gc` leaves of them.
fn sizes(title: &str, rows: &[&Row]) -> Table {
    let mut table = Table::new(title, &["scenario", "packs as written", "folded", "after git gc", "folded ÷ gc"]);
    for row in rows {
        let (Some(folded), Some(gc)) = (row.folded_bytes, row.gc_bytes) else { continue };
        table.lines.push(vec![
            row.scenario.clone(),
            bytes(row.store_bytes as f64),
            bytes(folded as f64),
            bytes(gc as f64),
            format!("{:.2}", folded as f64 / gc.max(1) as f64),
        ]);
    }
    table
}

/// What is aimed at, and what was reached.
fn goals(title: &str, rows: &[&Row], imports: &[&Row]) -> Table {
    let rows: Vec<&Row> = rows.iter().copied().filter(|row| row.is_right()).collect();
    let imports: Vec<&Row> = imports.iter().copied().filter(|row| row.is_right()).collect();
    let mut goals = Goals(Table::new(title, &["row", "goal", "measured", ""]));
    goals.rates(&rows);
    goals.synced(&rows);
    goals.others(&rows);
    goals.imports(&imports);
    goals.sizes(&rows);
    goals.0
}

/// The table of goals. A goal whose rows were not measured is left out.
struct Goals(Table);

impl Goals {
    fn add(&mut self, row: &str, goal: String, measured: String, reached: bool) {
        let verdict = if reached { "reached" } else { "not reached" };
        self.0.lines.push(vec![row.to_owned(), goal, measured, verdict.to_owned()]);
    }

    fn rates(&mut self, rows: &[&Row]) {
        for (scenario, least) in RATES_MIN {
            let Some(row) = find(rows, Target::GitPacksNone.name(), scenario) else { continue };
            let (goal, measured) = (format!("{}/s", rate(least)), format!("{}/s", rate(row.ops_per_sec)));
            self.add(&format!("{scenario}, packs, none"), goal, measured, row.ops_per_sec >= least);
        }
    }

    fn synced(&mut self, rows: &[&Row]) {
        for scenario in ["commits-20B", "incremental-20B"] {
            let Some(row) = find(rows, Target::GitPacksSynced.name(), scenario) else { continue };
            let none = find(rows, Target::GitPacksNone.name(), scenario).filter(|none| is_comparable(row, none));
            let Some(left) = left(row, none) else { continue };
            let goal = format!("{LEFT_MIN} of the {}/s that the bare syncs leave", rate(left));
            let measured = format!("{}/s: {:.2}", rate(row.ops_per_sec), row.ops_per_sec / left);
            self.add(&format!("{scenario}, packs, synced"), goal, measured, row.ops_per_sec >= LEFT_MIN * left);
        }
    }

    fn others(&mut self, rows: &[&Row]) {
        for scenario in ["commits-20B", "commits-10K", "incremental-20B"] {
            let others = [Target::Libgit2, Target::Gitoxide].map(|target| find(rows, target.name(), scenario));
            let Some(row) = find(rows, Target::GitPacksNone.name(), scenario) else { continue };
            let others = others.into_iter().flatten().filter(|other| is_comparable(row, other));
            let fastest = others.max_by(|a, b| a.ops_per_sec.total_cmp(&b.ops_per_sec));
            let Some(fastest) = fastest else { continue };
            let times = row.ops_per_sec / fastest.ops_per_sec;
            let goal = format!("{OTHERS_TIMES_MIN} × the faster, {} at {}/s", fastest.name, rate(fastest.ops_per_sec));
            let row = format!("{scenario} against libgit2 and gitoxide");
            self.add(&row, goal, format!("{times:.1} ×"), times >= OTHERS_TIMES_MIN);
        }
    }

    fn imports(&mut self, rows: &[&Row]) {
        for row in rows {
            let Some(times) = row.import.as_ref().and_then(|import| import.times_fast_import) else { continue };
            let used = row.rss_anon_kb as f64 / 1024.0;
            let goal = format!("{IMPORT_TIMES_MIN} × fast-export and fast-import, in {IMPORT_MIB_MAX} MiB");
            let reached = times >= IMPORT_TIMES_MIN && used <= IMPORT_MIB_MAX;
            self.add(&format!("{}, {}", row.scenario, row.name), goal, format!("{times:.2} ×, {used:.0} MiB"), reached);
        }
    }

    fn sizes(&mut self, rows: &[&Row]) {
        for row in rows {
            let (Some(folded), Some(gc)) = (row.folded_bytes, row.gc_bytes) else { continue };
            let times = folded as f64 / gc.max(1) as f64;
            let name = format!("{}, {} commits, size once folded", row.scenario, row.commits);
            let goal = format!("{SIZE_TIMES_MAX} × of what git gc leaves");
            self.add(&name, goal, format!("{times:.2} ×"), times <= SIZE_TIMES_MAX);
        }
    }
}

/// Operations per second of packs without syncs.
const RATES_MIN: [(&str, f64); 4] =
    [("commits-20B", 400e3), ("commits-10K", 300e3), ("reads-random-20B-1t", 3e6), ("incremental-20B", 3e3)];
/// Of the rate that bare syncs leave a synced row should reach so much.
const LEFT_MIN: f64 = 0.8;
const OTHERS_TIMES_MIN: f64 = 5.0;
const IMPORT_TIMES_MIN: f64 = 3.0;
const IMPORT_MIB_MAX: f64 = 256.0;
const SIZE_TIMES_MAX: f64 = 1.5;

/// Returns the rate that a synced row would have if a commit took the bare syncs and the time of the row without syncs;
/// where a commit is one operation, the bare syncs alone.
fn left(synced: &Row, none: Option<&Row>) -> Option<f64> {
    let operations = synced.total_ops as f64 / synced.commits.max(1) as f64;
    let bare = synced.bare_us? / 1e6;
    if synced.total_ops == synced.commits {
        return Some(1.0 / bare);
    }
    Some(operations / (bare + operations / none?.ops_per_sec))
}

/// Whole histories brought in, beside what git takes for it.
fn importing(rows: &[&Row], places: &Places) -> Table {
    let heads = [
        "history, by",
        "seconds",
        "min–max",
        "objects/s",
        "commits/s",
        "pack/s",
        "× fast-import",
        "anon MiB",
        "mapped MiB",
        "stored",
        "checked",
        "measured in",
    ];
    let mut table = Table::new("Import of whole histories", &heads);
    table.notes = rows.iter().filter_map(|row| Some(row.import.as_ref()?.describe(&row.scenario))).collect();
    table.notes.dedup();
    for row in rows {
        let Some(import) = &row.import else { continue };
        // An import that failed took no time.
        let per_second = |count: u64| if row.total_time > 0.0 { count as f64 / row.total_time } else { 0.0 };
        let seconds = |rate: f64| if rate > 0.0 { time(import.objects as f64 / rate * 1e6) } else { "failed".into() };
        let times = import.times_fast_import.filter(|_| row.is_right());
        table.lines.push(vec![
            format!("{}, {}", row.scenario, row.name),
            time(row.total_time * 1e6),
            format!("{}–{}", seconds(row.ops_per_sec_max), seconds(row.ops_per_sec_min)),
            rate_of(row),
            rate(per_second(import.commits)),
            bytes(per_second(import.pack_bytes)),
            times.map_or_else(|| "–".into(), |times| format!("{times:.2}")),
            mebibytes(row.rss_anon_kb),
            mebibytes(row.rss_file_kb),
            bytes(row.file_bytes as f64),
            checked(row),
            places.number(row),
        ]);
    }
    table
}

#[cfg(test)]
mod tests;
