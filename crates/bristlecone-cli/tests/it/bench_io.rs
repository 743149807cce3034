//! `cone bench io`, on a file so small that nothing takes long.

use serde_json::Value;

use crate::harness::Place;

const TINY: [&str; 8] = ["bench", "io", "--file-bytes", "1M", "--span", "100k", "--loops", "2"];

fn tiny<'a>(more: &[&'a str]) -> Vec<&'a str> {
    [&TINY[..], more].concat()
}

#[test]
fn reads_are_reported_as_fio_does() {
    let place = Place::empty();
    let text = place.ok(tiny(&["--no-fio", "--dir", "."]));
    for part in
        ["bristlecone psync: ", "bristlecone mmap: ", "  read: IOPS=", "    clat (", "| 99.99th=[", "no clock: "]
    {
        assert!(text.contains(part), "{part} in {text}");
    }
    assert!(!text.contains("fio-"));
    assert_eq!(std::fs::read_dir(place.path("")).unwrap().count(), 0, "nothing is left");
}

#[test]
fn the_document_has_the_same_figures_and_jobs_come_back() {
    let place = Place::empty();
    let keep = ["--no-fio", "--dir", ".", "--keep", "--export", "job.fio", "--json", "rows.json"];
    let document = place.json(tiny(&keep));
    let figures = document["figures"].as_array().unwrap();
    assert_eq!(figures.len(), 2);
    for one in figures {
        assert_eq!(one["by"], "bristlecone");
        assert_eq!(one["read"]["io_bytes"], 2 * 102_400);
        assert_eq!(one["checksum"], figures[0]["checksum"]);
        let percentiles = one["read"]["clat_ns"]["percentile"].as_object().unwrap();
        assert_eq!((percentiles.len(), percentiles.keys().next().unwrap().as_str()), (17, "1.000000"));
    }
    assert_eq!(document["job"]["size"], "102400");
    let rows: Value = serde_json::from_slice(&std::fs::read(place.path("rows.json")).unwrap()).unwrap();
    assert_eq!((rows[0]["name"].as_str(), rows[0]["scenario"].as_str()), (Some("raw reads"), Some("io-psync")));
    let again = place.json(["bench", "io", "--job", "job.fio", "--no-fio"]);
    assert_eq!(again["figures"][1]["checksum"], figures[1]["checksum"], "the file was kept, and the job is the same");
}

#[test]
fn a_missing_fio_is_told_with_the_way_to_get_it() {
    let place = Place::empty();
    let output = place.command(tiny(&["--dir", "."])).env("PATH", "").output().unwrap();
    assert!(output.status.success());
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("fio is not installed") && text.contains("apt-get install fio"), "{text}");
}

#[test]
fn wrong_use_and_missing_files_have_their_codes() {
    let place = Place::empty();
    assert_eq!(place.run(["bench", "io", "--size", "9-1"]).code, 2);
    assert_eq!(place.run(["bench", "io", "--span", "much"]).code, 2);
    assert_eq!(place.run(["bench", "io", "--file", "none"]).code, 3);
    assert_eq!(place.run(["bench", "--quick", "io"]).code, 2, "options of the suite are not those of its parts");
    assert!(place.ok(["bench", "io", "--help"]).contains("Examples:"));
}
