//! Tables of made-up rows of Git repositories.

use super::*;
use crate::report::{ImportFigures, sections};

fn row(target: Target, scenario: &str, rate: f64, operations: u64) -> Row {
    let name = if target.is_peer() { target.name().to_owned() } else { format!("bristlecone {}", target.name()) };
    Row {
        name,
        scenario: scenario.into(),
        backend: target.backend().into(),
        durability: target.durability().name().into(),
        ops_per_sec: rate,
        total_ops: 100 * operations,
        commits: 100,
        value_bytes: 20,
        checked: true,
        version: target.is_peer().then(|| format!("{} 1", target.backend())),
        ..Row::default()
    }
}

fn rows() -> Vec<Row> {
    let commits = |target, rate| row(target, "commits-20B", rate, 1000);
    let incremental = |target, rate| row(target, "incremental-20B", rate, 1);
    vec![
        Row { folded_bytes: Some(130), gc_bytes: Some(100), ..commits(Target::GitPacksNone, 500e3) },
        Row { bare_us: Some(2000.0), ..commits(Target::GitPacksSynced, 200e3) },
        commits(Target::GitLooseNone, 90e3),
        commits(Target::Libgit2, 100e3),
        commits(Target::Gitoxide, 125e3),
        incremental(Target::GitPacksNone, 2000.0),
        Row { bare_us: Some(1000.0), ..incremental(Target::GitPacksSynced, 900.0) },
        incremental(Target::Libgit2Synced, 50.0),
        incremental(Target::FastImport, 5000.0),
    ]
}

fn import(name: &str, times: Option<f64>, rss_anon_kb: u64) -> Row {
    let import = ImportFigures { objects: 2000, commits: 10, times_fast_import: times, ..ImportFigures::default() };
    Row {
        name: name.into(),
        scenario: "git-import-here".into(),
        backend: "disk".into(),
        import: Some(Box::new(import)),
        total_ops: 2000,
        total_time: 2.0,
        ops_per_sec: 1000.0,
        ops_per_sec_min: 1000.0,
        ops_per_sec_max: 1000.0,
        rss_anon_kb,
        checked: true,
        ..Row::default()
    }
}

fn table<'t>(tables: &'t [Table], title: &str) -> &'t Table {
    tables.iter().find(|table| table.title.starts_with(title)).unwrap_or_else(|| panic!("{title}: {tables:?}"))
}

#[test]
fn others_stand_beside_our_rows() {
    let tables = sections(&rows());
    let rates = table(&tables, "Git repositories: operations per second");
    assert_eq!(
        rates.heads[2..],
        [
            "git packs none",
            "git packs synced",
            "git loose none",
            "libgit2",
            "libgit2 synced",
            "gitoxide",
            "git fast-import"
        ]
    );
    assert_eq!(rates.lines[0][2..], ["500 k", "200 k", "90.0 k", "100 k", "–", "125 k", "–"]);
    assert!(rates.notes[0].contains("gitoxide 1"));
    let details = table(&tables, "Details: Git repositories");
    assert_eq!(details.lines.len(), rows().len(), "every row is shown once");
    assert_eq!(table(&tables, "Git repositories: sizes").lines[0][4], "1.30");
    assert!(!tables.iter().any(|table| table.title == "Operations per second (medians): bristlecone"));
}

#[test]
fn what_is_aimed_at_is_compared_with_what_was_measured() {
    let mut rows = rows();
    rows.extend([import("bristlecone git", Some(3.5), 100 << 10), import("bristlecone native", Some(4.0), 300 << 10)]);
    let tables = sections(&rows);
    let goals = table(&tables, "Git repositories: goals");
    let verdict = |row: &str| {
        let line =
            goals.lines.iter().find(|line| line[0].starts_with(row)).unwrap_or_else(|| panic!("{row}: {goals:?}"));
        (line[2].clone(), line[3] == "reached")
    };
    assert_eq!(verdict("commits-20B, packs, none"), ("500 k/s".into(), true));
    // 2 ms of syncs and 2 ms of work for 1,000 entries leave 250 k/s.
    assert_eq!(verdict("commits-20B, packs, synced"), ("200 k/s: 0.80".into(), true));
    assert_eq!(verdict("commits-20B against"), ("4.0 ×".into(), false));
    assert_eq!(verdict("commits-20B, 100 commits, size"), ("1.30 ×".into(), true));
    assert_eq!(verdict("incremental-20B, packs, none"), ("2.00 k/s".into(), false));
    assert_eq!(verdict("incremental-20B, packs, synced"), ("900/s: 0.90".into(), true));
    assert_eq!(verdict("git-import-here, bristlecone git"), ("3.50 ×, 100 MiB".into(), true));
    assert_eq!(verdict("git-import-here, bristlecone native"), ("4.00 ×, 300 MiB".into(), false));
    let imports = table(&tables, "Import of whole histories");
    assert_eq!(imports.lines[0][1..7], ["2.00 s", "2.00 s–2.00 s", "1.00 k", "5", "0 B", "3.50"].map(String::from));
}

#[test]
fn imports_that_failed_say_so_and_have_no_ratio() {
    let failed = |row: Row| Row { checked: false, wrong: Some("git ended".into()), ..row };
    let rows = [
        // One of the runs, and all of them.
        failed(Row { ops_per_sec_min: 0.0, ..import("bristlecone git", Some(3.5), 0) }),
        failed(Row {
            total_ops: 0,
            total_time: 0.0,
            ops_per_sec: 0.0,
            ops_per_sec_min: 0.0,
            ops_per_sec_max: 0.0,
            ..import("bristlecone native", None, 0)
        }),
    ];
    let tables = sections(&rows);
    let lines = &table(&tables, "Import of whole histories").lines;
    assert_eq!(lines[0][1..7], ["2.00 s", "2.00 s–failed", "1.00 k, wrong", "5", "0 B", "–"].map(String::from));
    assert_eq!(lines[1][1..7], ["0 ns", "failed–failed", "0, wrong", "0", "0 B", "–"].map(String::from));
    assert!(lines.iter().all(|line| line[10] == "git ended"), "{lines:?}");
}

#[test]
fn what_was_not_measured_has_no_goal() {
    let only = [row(Target::Libgit2, "commits-20B", 1.0, 1000)];
    let tables = sections(&only);
    assert_eq!(table(&tables, "Git repositories: operations").lines.len(), 1);
    assert!(!tables.iter().any(|table| table.title.starts_with("Git repositories: goals")));
}
