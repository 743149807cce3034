//! `cone bench blocks`, `cone bench utxo`, `cone bench gc`, `cone bench refs` and `cone bench history`, so small that nothing takes long.

use std::fs;

use serde_json::Value;

use crate::harness::Place;

fn rows(place: &Place, args: &[&str]) -> Vec<Value> {
    let run = place.run(["-o", "json", "bench"].iter().chain(args).chain(&["--dir", ".", "--json", "rows.json"]));
    assert_eq!(run.code, 0, "{run:?}");
    let kept: Value = serde_json::from_slice(&fs::read(place.path("rows.json")).unwrap()).unwrap();
    let printed: Value = serde_json::from_slice(&run.out).unwrap();
    let list = |value: &Value| value["rows"].as_array().or_else(|| value.as_array()).cloned().unwrap_or_default();
    let (kept, printed) = (list(&kept), list(&printed));
    assert_eq!(kept.len(), printed.len());
    assert!(!printed.is_empty() && printed.iter().all(|row| row["checked"] == true), "{printed:?}");
    printed
}

#[test]
fn indexes_of_blocks_are_measured_and_checked() {
    let place = Place::empty();
    let rows = rows(&place, &["blocks", "--blocks", "1000,3000", "--rounds", "2"]);
    // Ten rows of the mapped index, of which eight are of the one in memory too.
    assert_eq!(rows.len(), 2 * (10 + 8));
    assert!(rows.iter().all(|row| row["ops_per_sec"].as_f64().unwrap() > 0.0));
    assert!(rows.iter().any(|row| row["scenario"] == "blocks-open-crashed-3000"));
}

#[test]
fn a_made_up_set_is_measured_and_checked() {
    let place = Place::empty();
    let rows = rows(&place, &["utxo", "--entries", "5000", "--batches", "12", "--durability", "synced"]);
    let said = |row: &Value| (row["scenario"].clone(), row["durability"].clone());
    assert_eq!(said(&rows[0]), ("utxo-batches-5000".into(), "synced".into()));
    assert_eq!(rows[1]["scenario"], "utxo-lookups-5000");
    assert_eq!(rows[0]["total_ops"], 12 * 256);
}

#[test]
fn a_made_up_set_of_which_the_last_states_are_kept_is_measured_and_checked() {
    let place = Place::empty();
    let rows = rows(&place, &["utxo", "--entries", "2000", "--batches", "60", "--retain", "10"]);
    assert_eq!(rows[0]["variant"], "retain=10");
    let bytes = |name: &str| rows[0][name].as_u64().unwrap();
    assert!(bytes("store_bytes") > 100_000 && bytes("file_bytes") > bytes("store_bytes"), "{:?}", rows[0]);
}

#[test]
fn collections_beside_commits_are_measured_and_checked() {
    let place = Place::empty();
    let args = ["gc", "--entries", "500", "--slice", "1", "--durability", "none", "--retain", "20"];
    let churn = rows(&place, &[&args[..], &["--alone", "3", "--pairs", "1", "--only", "churn"]].concat());
    let scenarios: Vec<&Value> = churn.iter().map(|row| &row["scenario"]).collect();
    assert_eq!(scenarios, ["gc-collected-500", "gc-uncollected-500"]);
    let place = Place::empty();
    let more = ["--only", "others,whole", "--others", "lmdb", "--whole", "5000", "--chart", "over-time.svg"];
    let rows = rows(&place, &[&args[..], &more].concat());
    assert_eq!((&rows[0]["scenario"], &rows[0]["backend"]), (&"gc-collected-500".into(), &"plain lmdb".into()));
    let parts = ["whole", "paths-before", "paths-collected", "paths-one-stale", "paths-all-stale"];
    let parts = [&parts[..], &["list-cold-before", "list-cold-collected"]].concat();
    let wanted: Vec<String> = parts.iter().map(|part| format!("gc-{part}-5000")).collect();
    assert_eq!(rows[1..].iter().map(|row| &row["scenario"]).collect::<Vec<_>>(), wanted.iter().collect::<Vec<_>>());
    let samples = |row: &Value| row["gc"]["series"].as_array().map_or(0, Vec::len);
    assert!(samples(&churn[0]) > 20 && samples(&rows[0]) > 20);
    assert!(fs::read_to_string(place.path("over-time.svg")).unwrap().contains("Files, 500 entries"));
}

#[test]
fn many_refs_are_measured_and_checked() {
    let place = Place::empty();
    let rows = rows(&place, &["refs", "--refs", "3050", "--moves", "500", "--durability", "none,synced"]);
    let scenarios: Vec<&Value> = rows.iter().map(|row| &row["scenario"]).collect();
    let expected = ["make", "open", "move", "get", "list-100"].map(|part| format!("refs-{part}-3050"));
    assert_eq!(scenarios, expected.iter().chain(&expected).collect::<Vec<_>>());
    assert_eq!(
        (&rows[0]["total_ops"], &rows[2]["total_ops"], &rows[7]["total_ops"]),
        (&3050.into(), &500.into(), &5.into())
    );
    for (row, durability) in rows.iter().zip(["none"; 5].into_iter().chain(["synced"; 5])) {
        let writes = ["refs-make-3050", "refs-move-3050"].iter().any(|scenario| row["scenario"] == *scenario);
        assert_eq!(row["durability"], if writes { durability } else { "" }, "{row}");
        assert_eq!(row["commits"].as_u64().unwrap() > 0, writes, "lookups are no commits: {row}");
        assert!(row["latency_p50_us"].as_f64().unwrap() > 0.0, "{row}");
    }
}

#[test]
fn questions_about_history_are_measured_and_checked_with_an_index_and_without() {
    let place = Place::empty();
    let args = ["bench", "history", "--commits", "300", "--questions", "20", "--dir", ".", "--json", "rows.json"];
    let printed = [place.ok(args), place.ok(args.iter().chain(&["--unindexed"]))];
    assert_eq!(printed.map(|text| text.contains("unindexed")), [false, true]);
    let rows: Vec<Value> = serde_json::from_slice(&fs::read(place.path("rows.json")).unwrap()).unwrap();
    let (unindexed, indexed): (Vec<&Value>, Vec<&Value>) = rows.iter().partition(|row| row["variant"] == "unindexed");
    assert_eq!((indexed.len(), unindexed.len()), (14, 14), "those of one run do not replace those of the other");
    let names = [&indexed, &unindexed].map(|rows| rows.iter().map(|row| &row["scenario"]).collect::<Vec<_>>());
    assert_eq!(names[0], names[1]);
    for row in &rows {
        let makes = row["scenario"] == "history-make-300";
        assert_eq!((&row["checked"], &row["durability"]), (&true.into(), &if makes { "none" } else { "" }.into()));
        assert_eq!(row["commits"], if makes { 300 } else { 0 }, "questions are no commits: {row}");
    }
    let first = |row: &Value| {
        let scenario = row["scenario"].as_str().unwrap();
        scenario.contains("-first-") || scenario.contains("-none-")
    };
    assert!(unindexed.iter().all(|row| (row["total_ops"] == 1) == first(row)), "{unindexed:?}");
}

#[test]
fn what_cannot_be_measured_is_wrong_usage() {
    let place = Place::empty();
    for args in [
        &["blocks", "--blocks", "10"][..],
        &["blocks", "--rounds", "0"],
        &["utxo", "--entries", "1"],
        &["utxo", "--retain", "0"],
        &["gc", "--pairs", "0"],
        &["gc", "--slice", "100000"],
        &["gc", "--chart", "nowhere/gc.svg"],
        &["refs", "--refs", "1"],
        &["history", "--commits", "0"],
        &["history", "--commits", "1"],
    ] {
        assert_eq!(place.run(["bench"].iter().chain(args)).code, 2, "{args:?}");
    }
    if !cfg!(feature = "rust-peers") {
        for bench in ["blocks", "utxo"] {
            place.run(["bench", bench, "--peers"]).failed(2, &["feature rust-peers"]);
        }
    }
}
