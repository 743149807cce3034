//! Turns, medians and comparisons, with made-up rows; the step from end to end with a stand-in for Irmin, and with Irmin
//! itself where it is installed.

use std::path::Path;

use bristlecone_needs::needs;

use super::*;
use crate::{
    all::tests::args,
    peers::irmin::tests::stand_in,
    report::{ReplayFigures, json, sections},
};

fn row(name: &str, rate: f64) -> Row {
    Row { name: name.into(), ops_per_sec: rate, total_ops: 10, checked: true, runs: 1, ..Row::default() }
}

#[test]
fn ours_and_irmin_take_turns_and_medians_count() {
    let mut turns = Vec::new();
    let next = |store: Option<&IrminStore>| {
        let name = store.map_or("ours", |store| store.name);
        turns.push(name);
        Ok(row(name, (turns.len() * 7 % 10) as f64))
    };
    let rows = in_turns(3, &stores(Target::DiskNone, false), next).unwrap();
    let turn = ["ours", "irmin pack none", "irmin pack none minimal-index"];
    assert_eq!(turns, [turn, turn, turn].concat());
    let rates: Vec<_> = rows.iter().map(|row| (row.ops_per_sec_min, row.ops_per_sec, row.ops_per_sec_max)).collect();
    assert_eq!(rates, [(7.0, 8.0, 9.0), (4.0, 5.0, 6.0), (1.0, 2.0, 3.0)]);
    assert!(rows.iter().all(|row| row.runs == 3 && row.checked));
}

#[test]
fn a_median_says_what_was_wrong_in_any_run() {
    let runs = [
        row("a", 1.0),
        Row { maxrss_kb: 9, unrest: Some(1.5), wrong: Some("one".into()), checked: false, ..row("a", 3.0) },
    ];
    let median = median(&runs).unwrap();
    assert_eq!((median.ops_per_sec, median.maxrss_kb, median.checked), (1.0, 9, false));
    assert_eq!((median.wrong.as_deref(), median.unrest), (Some("one"), Some(1.5)));
    assert_eq!(super::median(&[]), None);
}

#[test]
fn other_work_other_answers_and_other_ids_are_wrong() {
    let wrong = |row: &Row, ours: &Row, other: Option<&Row>| {
        let mut row = row.clone();
        compare(&mut row, ours, other);
        assert_eq!(row.checked, row.wrong.is_none());
        row.wrong.unwrap_or_default()
    };
    let replayed = |sum| {
        let replay = Some(Box::new(ReplayFigures { value_sum: sum, ..ReplayFigures::default() }));
        Row { replay, head: Some("h".into()), ..row("irmin", 1.0) }
    };
    let ours = replayed(3);
    assert_eq!(wrong(&replayed(3), &ours, Some(&replayed(3))), "");
    assert_eq!(wrong(&replayed(4), &ours, None), "it read other values than ours");
    assert_eq!(wrong(&Row { total_ops: 9, ..replayed(3) }, &ours, None), "it did 9 operations, ours did 10");
    let other = Row { head: Some("i".into()), ..replayed(3) };
    assert_eq!(wrong(&replayed(3), &ours, Some(&other)), "the last commit is not that of irmin");
    assert_eq!(wrong(&Row { wrong: Some("first".into()), ..replayed(4) }, &ours, None), "first");
}

#[test]
fn what_is_wrong_is_told_in_no_ratio() {
    let (ours, theirs) = (row("ours", 20.0), row("irmin", 10.0));
    let said = told(&theirs, &ours);
    assert!(said.ends_with("irmin 10/s, ours 20/s, 2.0 times as fast"), "{said}");
    let wrong = |row: &Row| Row { wrong: Some("the root is another".into()), ..row.clone() };
    for said in [told(&wrong(&theirs), &ours), told(&theirs, &wrong(&ours))] {
        assert!(said.ends_with("ours 20/s; WRONG: the root is another"), "{said}");
    }
}

/// Does the step, very small, with a program; returns the session.
fn step(irmin: &Irmin, dir: &Path, trace: Option<&Path>, quick: bool) -> Session {
    let sizes = "--ncommits 3 --tree-add 40 --depth 2 --nreads 100 --runs 2 --in-process --quick";
    let args = args(&format!("{sizes} --dir {}", dir.display()));
    let mut session = Session::start(&args.common, Some(&dir.join("rows.json"))).unwrap();
    let like = args.common.job(session.dir());
    suite(&mut session, irmin, &like, 2, quick);
    if let Some(trace) = trace {
        let job = ReplayJob { commits: Some(10), ..ReplayJob::new(trace, session.dir()) };
        replays(&mut session, irmin, &job, 2, quick).unwrap();
    }
    session
}

#[test]
fn the_step_leaves_rows_of_both_sides_and_a_table() {
    let dir = tempfile::tempdir().unwrap();
    let session = step(&stand_in("right"), dir.path(), None, false);
    let rows: Vec<&Row> = session.rows.iter().filter(|row| !row.is_limit()).collect();
    let (irmin, ours): (Vec<&Row>, Vec<&Row>) = rows.iter().partition(|row| row.version.is_some());
    let sizes = "ncommits=3 tree-add=40 depth=2 nreads=100";
    let named = format!("{BESIDE_IRMIN} {sizes}");
    assert!(ours.iter().all(|row| row.checked && row.variant == BESIDE_IRMIN && row.name.ends_with(&named)));
    assert!(rows.iter().all(|row| row.sizes == sizes && row.name.ends_with(sizes)), "{rows:?}");
    assert!(irmin.iter().all(|row| row.checked && row.runs == 2 && row.cpu == session.machine.cpu), "{irmin:?}");
    // At 20 B five scenarios in memory and on disk, two synced; at 10,000 B none synced.
    assert_eq!((ours.len(), irmin.len()), (12 + 10, 5 * 3 + 2 * 2 + 5 * 3));
    let tables = sections(&session.rows);
    let table = tables.iter().find(|table| table.title.starts_with("Irmin, measured in turns")).unwrap();
    assert_eq!(table.lines.len(), irmin.len());
    let line = table.lines.iter().find(|line| line[2] == format!("irmin pack synced minimal-index {sizes}")).unwrap();
    assert_eq!((&line[0][..], &line[3][..], &line[4][..]), ("commits-20B", "240", "disk synced"));
    assert!(line[6].parse::<f64>().unwrap() > 0.0, "{line:?}");
    let suites = tables.iter().filter(|table| table.title.contains("Operations per second"));
    assert_eq!(suites.count(), 0, "rows of this step are in no other table");
    let file = json::rows(&dir.path().join("rows.json")).unwrap();
    let names = |rows: &[Row]| rows.iter().map(|row| (row.name.clone(), row.scenario.clone())).collect::<Vec<_>>();
    assert_eq!(names(&file), names(&session.rows), "rows stand in the file");
    session.verdict().unwrap();
}

#[test]
fn the_step_notices_less_work_other_ids_and_failures() {
    let dir = tempfile::tempdir().unwrap();
    for (how, why) in [("fewer", "119 operations, ours did 120"), ("ids", "last commit"), ("fails", "the disk is full")]
    {
        let quick = how != "ids";
        let said = step(&stand_in(how), dir.path(), None, quick).verdict().unwrap_err().to_string();
        assert!(said.contains(why), "{how}: {said}");
    }
}

#[needs(irmin)]
#[test]
fn irmin_itself_does_the_step() {
    let dir = tempfile::tempdir().unwrap();
    let trace = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/tezos/synthetic-early-101commits.repr");
    let session = step(&Irmin::find(None).unwrap().unwrap(), dir.path(), Some(&trace), true);
    let replays: Vec<&Row> = session.rows.iter().filter(|row| row.scenario == "tezos-10commits").collect();
    assert_eq!(replays.len(), 3 + 3);
    let sums: Vec<u64> = replays.iter().map(|row| row.replay.as_deref().unwrap().value_sum).collect();
    assert!(sums[0] > 0 && sums.iter().all(|sum| *sum == sums[0]), "{sums:?}");
    session.verdict().unwrap();
}
