//! Charts of made-up rows.

use super::*;
use crate::report::{GcFigures, GcSample, MapFigures, ReplayFigures, SampleFigures, svg::tests::check};

fn row(backend: &str, durability: &str, scenario: &str, rate: f64) -> Row {
    Row {
        name: format!("bristlecone {backend} {durability}"),
        scenario: scenario.into(),
        backend: backend.into(),
        durability: durability.into(),
        ops_per_sec: rate,
        ..Row::default()
    }
}

fn suite() -> Vec<Row> {
    let names = [
        "commits-20B",
        "commits-20B-p2x1",
        "commits-10K-distinct",
        "incremental-20B",
        "incremental-long-20B",
        "reads-random-20B-1t",
        "reads-random-long-20B-1t",
        "reads-random-long-20B-2t",
    ];
    let on = |(backend, durability): (&str, &str)| names.map(|name| row(backend, durability, name, 1234.0));
    let mut rows: Vec<Row> =
        [("memory", "none"), ("disk", "none"), ("disk", "synced")].into_iter().flat_map(on).collect();
    rows.push(Row { variant: "no-inline".into(), ..row("memory", "none", "commits-20B", 9.87) });
    rows
}

fn replay(backend: &str, durability: &str, variant: &str) -> Row {
    let sample = |index: u64| SampleFigures {
        seconds: index as f64,
        commits: index * 10,
        rows_per_s: 1000.0 * index as f64,
        rss_anon_kb: 5000 + index,
        commit_p50_us: if index == 3 { 0.0 } else { 120.0 },
        commit_p99_us: 4500.0,
        ..SampleFigures::default()
    };
    let figures = ReplayFigures { series: (0..10).map(sample).collect(), ..ReplayFigures::default() };
    let variant = variant.to_owned();
    Row { variant, replay: Some(Box::new(figures)), ..row(backend, durability, "tezos-90commits", 456_000.0) }
}

fn drawn(rows: &[Row]) -> Vec<(&'static str, String)> {
    let charts = draw(rows);
    assert_eq!(charts, draw(rows), "the same rows give the same charts");
    charts.iter().for_each(|chart| check(&chart.svg));
    charts.into_iter().map(|chart| (chart.file, chart.svg)).collect()
}

#[test]
fn commits_beside_collections_have_a_chart_over_time() {
    let collected = |backend: &str, durability: &str, samples: u64| {
        let sample = |index: u64| GcSample {
            seconds: index as f64,
            file_bytes: 1_000_000 * (index + 1),
            commit_max_us: 40.0 + index as f64,
            ..GcSample::default()
        };
        let gc = GcFigures { series: (0..samples).map(sample).collect(), ..GcFigures::default() };
        Row { gc: Some(Box::new(gc)), ..row(backend, durability, "gc-collected-1000", 5000.0) }
    };
    let rows = [collected("disk", "none", 20), collected("plain lmdb", "synced", 20), collected("git", "none", 1)];
    let charts = drawn(&rows);
    let [("gc.svg", svg)] = &charts[..] else { panic!("one chart: {charts:?}") };
    assert!(svg.contains("Files, 1 k entries") && svg.contains("The longest commit, 1 k entries"));
    assert!(svg.contains("plain lmdb synced") && !svg.contains("git none"), "what has no line is in no legend: {svg}");
    assert_eq!(svg.matches("<polyline").count(), 4, "one sample is no line");
    assert!(collections(&[Row { wrong: Some("bad".into()), ..rows[0].clone() }]).is_none());
}

#[test]
fn git_repositories_have_a_chart_with_what_others_do_in_them() {
    let mut rows = suite();
    for name in ["commits-20B", "incremental-20B", "incremental-long-20B"] {
        rows.push(Row { name: "bristlecone git packs none".into(), ..row("git", "none", name, 4321.0) });
        rows.push(Row { name: "bristlecone git loose none".into(), ..row("git", "none", name, 77.7) });
        for peer in ["libgit2", "gitoxide", "git fast-import"] {
            rows.push(Row { name: peer.into(), ..row(peer, "none", name, 432.0) });
        }
    }
    let charts = drawn(&rows);
    assert_eq!(
        charts.iter().map(|chart| chart.0).collect::<Vec<_>>(),
        ["beside.svg", "memory.svg", "disk.svg", "git.svg"]
    );
    let git = &charts[3].1;
    for text in [">git packs none<", ">libgit2<", ">gitoxide<", ">incremental-20B<", "class=\"third\"", ".third{"] {
        assert!(git.contains(text), "{text}: {git}");
    }
    assert!(!git.contains("77.7") && !git.contains("long"), "{git}");
    assert!(!charts[1].1.contains(".third{"), "other charts are drawn as ever");
}

#[test]
fn without_rows_there_are_no_charts() {
    assert!(drawn(&[]).is_empty());
    assert!(drawn(&[Row { name: "limits".into(), scenario: "blake3-1KB".into(), ..Row::default() }]).is_empty());
}

#[test]
fn what_is_wrong_is_in_no_chart() {
    let mut rows = suite();
    let wrong = Some("the root is another".to_owned());
    rows.push(Row { wrong, ..row("memory", "none", "commits-10K", 55.5) });
    assert_eq!(drawn(&rows), drawn(&suite()));
}

#[test]
fn a_chart_is_of_one_machine() {
    let other = Row { cpu: "another".into(), ..row("memory", "none", "commits-10K", 55.5) };
    let rows = [vec![other], suite()].concat();
    assert_eq!(drawn(&rows), drawn(&suite()));
}

#[test]
fn the_suite_has_a_chart_for_each_family_with_one_form_of_each_scenario() {
    let charts = drawn(&suite());
    assert_eq!(charts.iter().map(|chart| chart.0).collect::<Vec<_>>(), ["memory.svg", "disk.svg"]);
    for (file, svg) in &charts {
        let shown = |name: &str| svg.contains(&format!(">{name}<"));
        for name in ["commits-20B", "commits-10K-distinct", "incremental-long-20B", "reads-random-long-20B-1t"] {
            assert!(shown(name), "{file}: {name}");
        }
        for name in ["commits-20B-p2x1", "incremental-20B", "reads-random-20B-1t", "reads-random-long-20B-2t"] {
            assert!(!shown(name), "{file}: {name}");
        }
        assert!(!svg.contains("9.87"), "switches are not in this chart");
    }
    assert!(charts[1].1.contains("disk synced") && !charts[0].1.contains("disk synced"));
    // What is no scenario of the suite is not in its charts, though it comes first in the file.
    let mut rows = vec![Row { name: "disk none".into(), ..row("disk", "none", "history-make-1000", 55.5) }];
    rows.extend(suite());
    assert_eq!(drawn(&rows), charts);
}

#[test]
fn optimisations_are_multiples_of_the_baseline() {
    let step = |variant: &str, rate: f64| Row { variant: variant.into(), ..row("disk", "none", "commits-20B", rate) };
    let charts = drawn(&[step("baseline", 100.0), step("+inline", 250.0), step("+all", 20.0)]);
    let (file, svg) = &charts[0];
    assert_eq!(*file, "optimisations.svg");
    for text in ["+inline", "×2.50", "×0.20", "commits-20B"] {
        assert!(svg.contains(text), "{text}");
    }
    assert!(!svg.contains(">baseline<"));
    assert!(drawn(&[step("+inline", 250.0)]).is_empty(), "without a baseline there is nothing to compare with");
}

#[test]
fn task_counts_are_lines() {
    let point = |durability: &str, tasks: u64, rate: f64| Row {
        tasks,
        ..row("disk", durability, &format!("incremental-20B-{tasks}-tasks"), rate)
    };
    let rows =
        [point("none", 100, 30e3), point("none", 1, 20e3), point("synced", 1, 300.0), point("synced", 100, 21e3)];
    let charts = drawn(&rows);
    assert_eq!(charts[0].0, "tasks.svg");
    for text in ["incremental-20B", "commits per second", "30.0 k", "21.0 k", ">100<"] {
        assert!(charts[0].1.contains(text), "{text}");
    }
    assert_eq!(charts[0].1.matches("<polyline").count(), 2);
}

#[test]
fn no_two_lines_of_a_chart_of_task_counts_look_alike() {
    let mut rows = Vec::new();
    for (backend, durability) in [
        ("memory", "none"),
        ("disk", "none"),
        ("disk", "synced"),
        ("lsm", "none"),
        ("lsm", "synced"),
        ("lmdb", "none"),
        ("lmdb", "synced"),
    ] {
        for tasks in [1, 10] {
            rows.push(Row { tasks, ..row(backend, durability, &format!("commits-20B-{tasks}-tasks"), 1000.0) });
        }
    }
    let charts = drawn(&rows);
    let lines = charts[0].1.lines().filter_map(|line| line.strip_prefix("<polyline")?.split("class=").nth(1));
    let classes: Vec<&str> = lines.collect();
    let unique: std::collections::BTreeSet<&str> = classes.iter().copied().collect();
    assert_eq!((classes.len(), unique.len()), (7, 7), "{classes:?}");
    assert!(charts[0].1.contains(">lsm synced - -<") && charts[0].1.contains(">disk synced<"));
}

#[test]
fn a_replay_is_drawn_as_recorded_with_every_backend() {
    let rows = [
        replay("memory", "none", "paths=v0+v1"),
        replay("memory", "none", ""),
        replay("disk", "none", ""),
        replay("disk", "synced", ""),
    ];
    let charts = drawn(&rows);
    assert_eq!(charts.iter().map(|chart| chart.0).collect::<Vec<_>>(), ["replay.svg", "replay-rates.svg"]);
    let over_time = &charts[0].1;
    assert!(over_time.contains(">tezos-90commits replayed<"), "not the rewritten one");
    // Three backends with a rate, two kinds of memory and two of latency.
    assert_eq!(over_time.matches("<polyline").count(), 3 * 5);
    assert!(over_time.contains("p99 4.50 ms"));
    assert!(charts[1].1.contains("tezos-90commits, paths=v0+v1"));
    // A replay on another backend has no line, and no place in the legend.
    let other = replay("lsm", "none", "");
    assert!(drawn(std::slice::from_ref(&other)).is_empty(), "a chart without a line");
    let [one, two, three, four] = rows;
    assert_eq!(drawn(&[other, one, two, three, four]), charts);
}

#[test]
fn ordered_maps_are_drawn_of_the_largest_map_and_of_batches() {
    let map = |scenario: &str, entries: u64, ratio: f64| Row {
        map: Some(Box::new(MapFigures { entries, ratio, ratio_min: ratio, ratio_max: ratio, ..MapFigures::default() })),
        ..row("redb", "synced", scenario, 1000.0)
    };
    let batches = map("map-batches-random", 100_000, 0.75);
    let charts = drawn(&[map("map-set-1-1000", 1000, 0.11), map("map-set-1-50000", 50_000, 0.55), batches.clone()]);
    assert_eq!(charts[0].0, "maps.svg");
    for (text, shown) in [("×0.55", true), ("×0.75", true), (">batches-random<", true), ("×0.11", false)] {
        assert_eq!(charts[0].1.contains(text), shown, "{text}: {}", charts[0].1);
    }
    assert!(drawn(&[batches])[0].1.contains("×0.75"));
}

#[test]
fn a_line_of_the_made_up_set_is_of_one_way_to_run() {
    let set = |variant: &str, entries: u64, rate: f64| {
        let row = row("native map", "none", &format!("utxo-batches-{entries}"), rate);
        Row { variant: variant.into(), ..row }
    };
    let (usual, larger) = (set("", 1000, 100.0), set("", 10_000, 50.0));
    let forgets = set("retain=100", 1000, 900.0);
    assert!(drawn(&[forgets.clone(), larger.clone()]).is_empty(), "one point is no line");
    let charts = drawn(&[usual.clone(), larger.clone()]);
    assert_eq!(charts[0].0, "utxo.svg");
    // One point is no line, and nothing of the legend.
    let synced = Row { durability: "synced".into(), ..set("", 1000, 40.0) };
    assert_eq!(drawn(&[forgets, set("beside-fjall", 1000, 70.0), usual, larger, synced]), charts);
}
