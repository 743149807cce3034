//! Tables of made-up rows.

use super::*;
use crate::report::{GcFigures, GcSample, ReplayFigures, readme::render};

fn row(backend: &str, durability: &str, scenario: &str, rate: f64) -> Row {
    let target = if backend == "memory" { "memory".to_owned() } else { format!("{backend} {durability}") };
    Row {
        name: format!("bristlecone {target}"),
        scenario: scenario.into(),
        backend: backend.into(),
        durability: durability.into(),
        ops_per_sec: rate,
        checked: true,
        value_bytes: 20,
        ..Row::default()
    }
}

fn rows() -> Vec<Row> {
    vec![
        row("disk", "synced", "commits-20B", 1_500_000.0),
        row("memory", "none", "reads-random-long-20B-2t", 7_000_000.0),
        row("memory", "none", "reads-random-long-20B-1t", 4_000_000.0),
        row("memory", "none", "commits-20B", 3_000_000.0),
        row("disk", "none", "commits-20B", 2_500_000.0),
        Row { variant: "baseline".into(), ..row("disk", "none", "commits-20B", 500_000.0) },
        Row { variant: "+all".into(), ..row("disk", "none", "commits-20B", 2_000_000.0) },
        row("disk", "none", "open-1G", 100.0),
        row("disk", "none", "open-10G", 80.0),
        Row { name: "another suite".into(), scenario: "commits-20B".into(), ops_per_sec: 1.0, ..Row::default() },
    ]
}

#[test]
fn a_line_compares_backends_and_durabilities() {
    let tables = sections(&rows());
    let titles: Vec<&str> = tables.iter().map(|table| table.title.as_str()).collect();
    assert_eq!(
        titles,
        [
            "Operations per second (medians): bristlecone",
            "Details: bristlecone",
            "From one thread to two: bristlecone",
            "Each optimisation by itself (ops/s; times the baseline's)",
            "Details: each optimisation by itself",
            "Long forms",
        ]
    );
    assert_eq!(tables[0].lines[0], ["commits-20B", "entry", "3.00 M", "2.50 M", "1.50 M"]);
    assert_eq!(tables[0].lines.len(), 3);
    assert_eq!(tables[2].lines, [["reads-random-long-20B, memory", "4.00 M", "7.00 M", "1.75"]]);
    assert_eq!(tables[3].lines[1], ["disk none, +all", "2.00 M (4.00)"]);
    assert_eq!(tables[5].lines.iter().map(|line| &line[2][..]).collect::<Vec<_>>(), ["–", "1.25"]);
}

#[test]
fn rows_whose_commits_share_syncs_are_shown_as_what_they_are() {
    let replay = Some(Box::new(ReplayFigures::default()));
    let rows = [
        row("disk", "grouped", "gc-uncollected-1000", 4000.0),
        Row { replay, ..row("lsm", "grouped", "tezos-9commits", 1000.0) },
        // It writes nothing, beside rows that do.
        Row { name: "disk grouped".into(), ..row("disk", "", "refs-get-1000", 2000.0) },
    ];
    let tables = sections(&rows);
    let lines = |title: &str| &tables.iter().find(|table| table.title.starts_with(title)).unwrap().lines;
    assert_eq!(lines("Collections")[0], ["gc-uncollected-1000", "commit", "–", "–", "–", "4.00 k"]);
    assert_eq!(lines("Collections")[1], ["refs-get-1000", "lookup", "–", "–", "–", "2.00 k"]);
    assert_eq!(lines("Details: collections")[0][0], "gc-uncollected-1000, disk grouped");
    assert_eq!(lines("Replay of a trace")[0][0], "tezos-9commits, lsm grouped");
}

#[test]
fn parts_that_stand_by_themselves_have_tables_of_their_own_and_their_operations() {
    let apart = |name: &str, variant: &str, scenario: &str| Row {
        name: name.into(),
        variant: variant.into(),
        ..row("disk", "none", scenario, 1000.0)
    };
    let mut rows = vec![
        apart("disk none", "", "gc-collected-1000"),
        apart("disk none", "", "refs-open-1000"),
        apart("disk none", "", "history-log-walk-1000"),
        apart("disk none", "", "value-100M-copy"),
        apart("disk none unindexed", "unindexed", "history-first-walk-1000"),
    ];
    let series = [7.0, 9000.0, 8.0].map(|commit_max_us| GcSample { commit_max_us, ..GcSample::default() });
    let figures = GcFigures { live_bytes: 200, series: series.into(), ..GcFigures::default() };
    let other = row("plain lmdb", "none", "gc-collected-1000", 5000.0);
    rows.push(Row { file_bytes: 500, gc: Some(Box::new(figures)), ..other });
    rows.extend(self::rows());
    let tables = sections(&rows);
    assert_eq!(tables[0].title, "Operations per second (medians): bristlecone");
    let beside = "Commits of one entry beside collections: waits and files";
    let beside = &tables.iter().find(|table| table.title == beside).unwrap().lines;
    assert_eq!(beside.len(), 1, "a row without these figures has no line");
    assert_eq!(beside[0][0], "1 k, plain lmdb");
    assert_eq!(beside[0][5..9], ["9.00 ms", "200 B", "500 B", "2.5"]);
    let counted = |title: &str| -> Vec<(String, String)> {
        let table = tables.iter().find(|table| table.title == title).unwrap();
        table.lines.iter().map(|line| (line[0].clone(), line[1].clone())).collect()
    };
    let pairs = |pairs: &[(&str, &str)]| -> Vec<(String, String)> {
        pairs.iter().map(|(scenario, counted)| ((*scenario).to_owned(), (*counted).to_owned())).collect()
    };
    let title = "Collections, refs, histories, objects: operations per second (medians)";
    let expected = [
        ("gc-collected-1000", "commit"),
        ("history-log-walk-1000", "log"),
        ("refs-open-1000", "opening"),
        ("value-100M-copy", "copy"),
    ];
    assert_eq!(counted(title), pairs(&expected));
    assert_eq!(counted(&format!("{title}, unindexed")), pairs(&[("history-first-walk-1000", "question")]));
}

#[test]
fn rows_of_other_sizes_have_tables_of_their_own() {
    let sized = |row: Row| {
        let sizes = "tree-add=200";
        Row { name: format!("{} {sizes}", row.name), sizes: sizes.into(), ..row }
    };
    let mut rows = rows();
    rows.insert(0, sized(row("disk", "none", "commits-20B", 9_000_000.0)));
    rows.push(sized(Row { name: "libgit2".into(), ..row("libgit2", "none", "commits-20B", 7.0) }));
    let tables = sections(&rows);
    let lines = |title: &str| &tables.iter().find(|table| table.title == title).unwrap().lines;
    let title = "Operations per second (medians): bristlecone";
    assert_eq!(lines(title)[0], ["commits-20B", "entry", "3.00 M", "2.50 M", "1.50 M"]);
    assert_eq!(lines(&format!("{title}, tree-add=200")), &[["commits-20B", "entry", "–", "9.00 M", "–"]]);
    let git = "Git repositories: operations per second (medians), tree-add=200";
    assert_eq!(lines(git), &[["commits-20B", "entry", "7"]]);
}

#[test]
fn what_was_wrong_is_shown_in_place_of_yes() {
    let mut rows = rows();
    (rows[3].checked, rows[3].wrong) = (false, Some("the root is another".into()));
    let text = sections(&rows)[1].text();
    assert!(text.contains("the root is another"), "{text}");
}

#[test]
fn what_is_wrong_says_so_wherever_it_stands_and_has_no_ratio() {
    let mut rows = rows();
    for index in [1, 6, 8] {
        (rows[index].checked, rows[index].wrong) = (false, Some("the root is another".into()));
    }
    let tables = sections(&rows);
    let has = |title: &str, cell: &str| {
        let mut found = tables.iter().filter(|table| table.title.starts_with(title));
        found.any(|table| table.lines.iter().flatten().any(|found| found == cell))
    };
    assert!(has("Operations per second (medians)", "7.00 M, wrong"));
    assert!(!tables.iter().any(|table| table.title.starts_with("From one thread")));
    assert!(has("Each optimisation by itself", "2.00 M, wrong"));
    assert!(has("Long forms", "80, wrong") && !has("Long forms", "1.25"));
}

#[test]
fn rows_of_other_places_say_so_and_those_of_other_machines_have_no_ratio() {
    let mut rows = rows();
    rows.iter_mut().for_each(|row| (row.cpu, row.date) = ("one".into(), "2026-11-28".into()));
    let one = sections(&rows);
    for index in [1, 6, 8] {
        rows[index].cpu = "two".into();
    }
    let tables = sections(&rows);
    let has = |title: &str, cell: &str| {
        let mut found = tables.iter().filter(|table| table.title.starts_with(title));
        found.any(|table| table.lines.iter().flatten().any(|found| found == cell))
    };
    let title = "Operations per second (medians)";
    assert!(has(title, "3.00 M [1]") && has(title, "7.00 M [2]"));
    assert!(!tables.iter().any(|table| table.title.starts_with("From one thread")));
    assert!(has("Each optimisation by itself", "2.00 M [2]") && !has("Long forms", "1.25"));
    // Where there is one place, no row needs to say it.
    let rates = one.iter().find(|table| table.title.starts_with(title)).unwrap();
    assert_eq!(rates.lines[0], ["commits-20B", "entry", "3.00 M", "2.50 M", "1.50 M"]);
}

#[test]
fn the_same_rows_give_the_same_section_in_any_order() {
    let (forward, mut backward) = (rows(), rows());
    assert_eq!(render(&forward), render(&rows()));
    backward[..5].reverse();
    assert_eq!(render(&forward), render(&backward));
}

#[test]
fn rows_of_maps_and_indexes_say_where_they_were_measured() {
    let at = |date: &str, row: Row| Row { date: date.into(), ..row };
    let map = Row { map: Some(Box::default()), ..row("redb", "synced", "map-load-1000", 1.0) };
    let blocks = Row { name: "blocks redb".into(), ..row("redb", "", "blocks-slot-1000", 1.0) };
    let tables = sections(&[at("2026-11-27", map.clone()), at("2026-11-28", blocks.clone())]);
    for (title, place) in [("Ordered maps", "[1]"), ("Indexes of blocks", "[2]")] {
        let table = tables.iter().find(|table| table.title.starts_with(title)).unwrap();
        assert_eq!((&table.heads.last().unwrap()[..], &table.lines[0].last().unwrap()[..]), ("measured in", place));
    }
    for row in [map, blocks] {
        let text = sections(&[Row { unrest: Some(1.84), ..row }])[0].text();
        assert!(text.contains("unrest ×1.8"), "{text}");
    }
}

#[test]
fn scenarios_are_in_the_order_of_the_suite() {
    let names =
        ["group-commit-20B", "reads-20B", "commits-10K-distinct", "commits-20B", "commits-20B-p2x1", "incremental-20B"];
    let rows: Vec<Row> = names.iter().map(|name| row("memory", "none", name, 1.0)).collect();
    let ordered = scenarios(&rows.iter().collect::<Vec<_>>());
    assert_eq!(
        ordered,
        ["commits-20B", "commits-20B-p2x1", "commits-10K-distinct", "incremental-20B", "reads-20B", "group-commit-20B"]
    );
}

#[test]
fn unrest_stands_beside_the_rate() {
    let mut rows = rows();
    rows[0].unrest = Some(1.84);
    let text = render(&rows);
    assert!(text.contains("| 1.50 M, unrest ×1.8 |"), "{text}");
    let json = serde_json::to_string(&rows[0]).unwrap();
    assert!(json.contains("\"unrest\":1.84"), "{json}");
    assert!(!serde_json::to_string(&rows[1]).unwrap().contains("unrest"));
}
