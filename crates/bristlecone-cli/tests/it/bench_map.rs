//! `cone bench map`, on maps so small that nothing takes long.

use serde_json::Value;

use crate::harness::Place;

const TINY: [&str; 9] =
    ["bench", "map", "--quick", "--rounds", "2", "--dir", ".", "--only", "get-1,get-100,iterate,set-1,set-100,load"];

#[test]
fn ours_are_right_beside_plain_lmdb() {
    let place = Place::empty();
    let engines = ["--entries", "300,2000", "--durability", "none", "--engines", "okra,native", "--json", "rows.json"];
    let text = place.ok(TINY.iter().chain(&engines));
    for part in ["Ordered maps of 300 entries", "Ordered maps of 2000 entries", "native map", "times LMDB", "history"] {
        assert!(text.contains(part), "{part} in {text}");
    }
    let rows: Value = serde_json::from_slice(&std::fs::read(place.path("rows.json")).unwrap()).unwrap();
    let rows = rows.as_array().unwrap();
    assert_eq!(rows.len(), 2 * 6 * 3);
    for row in rows {
        assert_eq!(row["checked"], true, "{row}");
        let ratio = row["map"]["ratio"].as_f64().unwrap();
        assert!(ratio > 0.0 && (row["backend"] != "lmdb" || ratio == 1.0), "{row}");
    }
    assert_eq!(std::fs::read_dir(place.path("")).unwrap().count(), 1, "nothing but the rows is left");
}

#[test]
fn batches_are_durable_and_kept() {
    let place = Place::empty();
    let words =
        ["bench", "map", "--quick", "--rounds", "1", "--dir", ".", "--entries", "100", "--durability", "synced"];
    let only = ["--only", "batches-ascending,batches-random", "--engines", "native"];
    let document = place.json(words.iter().chain(&only));
    let rows = document["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 4);
    for row in rows {
        assert_eq!((&row["checked"], &row["value_bytes"]), (&true.into(), &150.into()));
        assert!(row["fdatasync_us"].as_f64().unwrap() > 0.0);
        assert_eq!(row["map"]["entries"], 10 * 1000, "of the map that the batches make: {row}");
    }
}

#[test]
fn what_there_is_not_is_named() {
    let place = Place::empty();
    for (option, name, known) in [("--only", "set-7", "set-50000"), ("--engines", "abacus", "native")] {
        let run = place.run(["bench", "map", option, name]);
        assert_eq!(run.code, 2, "{run:?}");
        assert!(run.err.contains(name) && run.err.contains(known), "{}", run.err);
    }
    assert_eq!(place.run(["bench", "map", "--entries", "0"]).code, 2);
}
