//! The options, and tiny runs from end to end.

use bristlecone_needs::needs;
use clap::Parser;

use super::*;

#[derive(Parser)]
struct Command {
    #[command(flatten)]
    args: IoArgs,
}

fn args(words: &str) -> IoArgs {
    Command::try_parse_from(std::iter::once("io").chain(words.split_whitespace())).unwrap().args
}

fn rows(words: &str, dir: &Path) -> Vec<Row> {
    let file = dir.join("rows.json");
    run(&args(&format!("{words} --dir {} --json {}", dir.display(), file.display())), true).unwrap();
    let rows = json::rows(&file).unwrap();
    fs::remove_file(file).unwrap();
    rows
}

fn scenarios(rows: &[Row]) -> Vec<&str> {
    rows.iter().map(|row| row.scenario.as_str()).collect()
}

#[test]
fn a_tiny_job_is_measured_by_both_engines() {
    let dir = tempfile::tempdir().unwrap();
    let rows = rows("--file-bytes 1M --span 100k --loops 3 --no-fio", dir.path());
    assert_eq!(scenarios(&rows), ["io-psync", "io-psync-untimed", "io-mmap", "io-mmap-untimed"]);
    for row in &rows {
        assert!(row.ops_per_sec > 1000.0, "{row:?}");
        assert_eq!((row.total_ops, row.threads), (rows[0].total_ops, 1));
        assert!((130..142).contains(&row.value_bytes), "{}", row.value_bytes);
    }
    assert!(rows[0].latency_p50_us <= rows[0].latency_p99_us && rows[2].latency_p50_us.is_some());
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0, "the file is removed");
}

#[test]
fn jobs_of_files_are_those_of_options() {
    let dir = tempfile::tempdir().unwrap();
    let (data, fio) = (dir.path().join("data"), dir.path().join("job.fio"));
    fs::write(&data, vec![5; 100_000]).unwrap();
    let words = format!("--file {} --span 50k --size 1-99 --unaligned --seed 7 --threads 2", data.display());
    let one = rows(&format!("{words} --loops 2 --no-fio --cold --export {}", fio.display()), dir.path());
    let other = rows(&format!("--job {} --no-fio", fio.display()), dir.path());
    assert_eq!(scenarios(&one), ["io-cold-psync-2t", "io-cold-mmap-2t"]);
    let work = |rows: &[Row]| rows.iter().map(|row| (row.scenario.clone(), row.total_ops)).collect::<Vec<_>>();
    assert_eq!(work(&one), work(&other));
    let less = rows(&format!("--job {} --no-fio --engine pread --loops 1", fio.display()), dir.path());
    assert_eq!((scenarios(&less), less[0].total_ops), (vec!["io-cold-psync-2t"], one[0].total_ops / 2));
}

#[test]
fn recordings_run() {
    let dir = tempfile::tempdir().unwrap();
    let (data, log, fio) = (dir.path().join("data"), dir.path().join("log"), dir.path().join("job.fio"));
    fs::write(&data, vec![5; 100_000]).unwrap();
    let name = data.display();
    let reads: String = (0..500).map(|index| format!("{name} read {} 77\n", index * 150)).collect();
    fs::write(&log, format!("{}\n{name} add\n{name} open\n{reads}", iolog::VERSION_2)).unwrap();
    let export = format!("--export {} --no-fio", fio.display());
    let first = rows(&format!("--job {} {export}", log.display()), dir.path());
    assert_eq!(scenarios(&first)[..2], ["io-recorded-psync", "io-recorded-psync-untimed"]);
    assert!(first.iter().all(|row| (row.total_ops, row.value_bytes) == (500, 77)));
    let again = rows(&format!("--job {} --loops 3 --engine mmap --no-fio", fio.display()), dir.path());
    assert_eq!(scenarios(&again), ["io-recorded-mmap", "io-recorded-mmap-untimed"]);
    assert_eq!(again[0].total_ops, 1500);
}

/// Both do the same work: without fio there is nothing to compare with.
#[needs(fio)]
#[test]
fn fio_does_the_same_job() {
    let dir = tempfile::tempdir().unwrap();
    for (more, kind) in [("", ""), ("--cold --unaligned", "cold-"), ("--norandommap --size 128", "")] {
        let rows = rows(&format!("--file-bytes 4M --span 1M --loops 4 {more}"), dir.path());
        for engine in ["psync", "mmap"] {
            let of = |scenario: String| rows.iter().find(|row| row.scenario == scenario).expect("a row");
            let (ours, fio) = (of(format!("io-{kind}{engine}")), of(format!("io-fio-{kind}{engine}")));
            let apart = ours.total_ops.abs_diff(fio.total_ops);
            assert!(apart * 50 < fio.total_ops, "{more} {engine}: {} and {}", ours.total_ops, fio.total_ops);
            assert!(fio.latency_p99_us.is_some());
        }
    }
    let (data, log) = (dir.path().join("data"), dir.path().join("log"));
    fs::write(&data, vec![5; 100_000]).unwrap();
    let name = data.display();
    let reads: String = (0..5000).map(|index| format!("{name} read {} 77\n", index * 15)).collect();
    fs::write(&log, format!("{}\n{name} add\n{name} open\n{reads}", iolog::VERSION_2)).unwrap();
    let rows = rows(&format!("--job {}", log.display()), dir.path());
    let fio = rows.iter().find(|row| row.scenario == "io-fio-recorded-psync").expect("fio runs recordings");
    assert_eq!((fio.total_ops, fio.value_bytes), (5000, 77));
}

#[test]
fn what_makes_no_sense_is_refused_with_a_reason() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    fs::write(&data, "short").unwrap();
    let reason = |words: &str| {
        let error = run(&args(&format!("{words} --dir {}", dir.path().display())), false).unwrap_err();
        assert!(error.is_usage(), "{words}: {error}");
        error.to_string()
    };
    assert!(reason("--size 300-50").contains("the smaller first"));
    assert!(reason("--span 30").contains("shorter than a read"));
    assert!(reason("--file-bytes 1M").contains("less than the span"));
    assert!(reason(&format!("--file {}", data.display())).contains("has 5 bytes"));
    assert!(reason(&format!("--file {}", dir.path().display())).contains("no plain file"));
    assert!(reason(&format!("--job {}", data.display())).contains("[section]"));
    assert!(reason("--engine uring").contains("engines are"));
    for words in ["--loops 0", "--seconds 0", "--threads 0", "--span x", "--loops 1 --seconds 1", "--file a --job b"] {
        assert!(Command::try_parse_from(std::iter::once("io").chain(words.split_whitespace())).is_err(), "{words}");
    }
}
