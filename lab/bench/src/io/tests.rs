//! What is read, jobs in and out, the options, and tiny runs from end to end.

use bristlecone_needs::needs;
use clap::Parser;

use super::{figures::ReadStats, reads::Places, *};

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
    // Where nothing was measured there is no file.
    assert_eq!(fs::remove_file(file).is_ok(), !rows.is_empty());
    rows
}

fn scenarios(rows: &[Row]) -> Vec<&str> {
    rows.iter().map(|row| row.scenario.as_str()).collect()
}

fn job(span: u64, sizes: (u64, u64)) -> ReadJob {
    ReadJob { file: "/data/a:b".into(), offset: 1000, span, sizes, seed: 3, ..ReadJob::once() }
}

#[test]
fn every_block_is_read_once_a_loop() {
    for (span, min, max) in [(20 << 20, 50, 300), (4096, 64, 64), (6401, 100, 700), (50, 50, 300), (12_800, 1, 9)] {
        for sequential in [false, true] {
            let job = ReadJob { sequential, ..job(span, (min, max)) };
            let order: Vec<(u64, u32)> = Places::new(&job, 0).collect();
            let mut seen = vec![0; (span / min) as usize];
            for &(offset, bytes) in &order {
                assert!((min..=max).contains(&bytes.into()) && (offset - 1000).is_multiple_of(min), "{offset} {bytes}");
                let first = (offset - 1000) / min;
                (first..first + u64::from(bytes) / min).for_each(|block| seen[block as usize] += 1);
            }
            assert!(seen.iter().all(|count| *count == 1), "{span} {min} {max}");
            assert!(order == Places::new(&job, 0).collect::<Vec<_>>(), "every loop is the same");
            assert!(seen.len() < 100 || order != Places::new(&job, 1).collect::<Vec<_>>(), "threads have their own");
            assert_eq!(order.is_sorted(), sequential || order.len() == 1);
        }
    }
}

/// fio 3.33 makes 1,540,000 reads of ten loops over 20 MiB, 136 bytes on average.
#[test]
fn reads_are_as_many_and_as_long_as_those_of_fio() {
    let count = Places::new(&job(20 << 20, (50, 300)), 0).count();
    assert!((153_000..155_000).contains(&count), "{count}");
}

#[test]
fn without_a_map_places_repeat_and_sizes_are_even() {
    let job = ReadJob { norandommap: true, unaligned: true, ..job(1 << 20, (50, 300)) };
    let order: Vec<(u64, u32)> = Places::new(&job, 0).collect();
    let bytes: u64 = order.iter().map(|(_, bytes)| u64::from(*bytes)).sum();
    assert!((1 << 20..(1 << 20) + 300).contains(&bytes), "{bytes}");
    assert!(order.iter().all(|(offset, bytes)| offset + u64::from(*bytes) <= 1000 + (1 << 20)));
    let mean = bytes / order.len() as u64;
    assert!((190..200).contains(&mean), "fio 3.33 has 195: {mean}");
    let mut places: Vec<u64> = order.iter().map(|(offset, _)| *offset).collect();
    places.sort_unstable();
    assert!(places.windows(2).any(|two| two[0] == two[1]));
}

fn parsed(text: &str) -> Result<ReadJob> {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("job.fio");
    fs::write(&file, text).unwrap();
    ReadJob::from_fio(&file)
}

#[test]
fn jobs_go_through_files_of_fio() {
    let full = ReadJob {
        unaligned: true,
        norandommap: true,
        loops: 100,
        seconds: Some(7),
        threads: 2,
        engines: Engine::ALL.to_vec(),
        ..job(20 << 20, (50, 300))
    };
    for (cold, sequential) in [(false, false), (true, false), (false, true)] {
        let job = ReadJob { cold, sequential, ..full.clone() };
        assert_eq!(parsed(&job.to_fio(&Engine::ALL)).unwrap(), job);
        let one = ReadJob { engines: vec![Engine::Mmap], ..job };
        assert_eq!(parsed(&one.to_fio(&[Engine::Mmap])).unwrap(), one);
    }
    let recorded = ReadJob { recorded: true, engines: vec![Engine::Psync], file: "/log".into(), ..ReadJob::once() };
    assert_eq!(parsed(&recorded.to_fio(&[Engine::Psync])).unwrap(), recorded);
    let by_hand =
        "# raw reads\n[reads]\nrw = randread\nfilename=f\nsize=20M\nbsrange=50-300\nloops=100\nioengine=psync\n";
    let job = parsed(&format!("{by_hand}norandommap\n")).unwrap();
    assert_eq!((job.span, job.norandommap, job.loops, job.cold), (20 << 20, true, 100, true));
    assert_eq!((job.engines, job.sizes), (vec![Engine::Psync], (50, 300)));
}

#[test]
fn what_is_not_done_is_refused_with_file_line_and_what_is() {
    let reason = |options: &str| parsed(options).unwrap_err().to_string();
    let with = |options: &str| reason(&format!("[a]\nrw=randread\nfilename=f\n{options}\n"));
    let direct = with("direct=1");
    assert!(direct.contains("job.fio, line 4: direct=1 is not done here"), "{direct}");
    assert!(direct.contains("bsrange, bs_unaligned, norandommap"), "{direct}");
    for (options, why) in [
        ("iodepth=8", "line 4: iodepth=8"),
        ("ioengine=libaio", "engines are"),
        ("size=x", "no size"),
        ("loops=99999999", "line 4: loops=99999999: a number up to"),
        ("invalidate=2", "a number up to 1"),
        ("filename=a:b", "filename=a:b is not done"),
        ("time_based", "runtime"),
        ("runtime=5", "runtime"),
        ("[b]\nrw=randread\nfilename=g", "differ"),
    ] {
        assert!(with(options).contains(why), "{options}: {}", with(options));
    }
    assert!(reason("[a]\nrw=randwrite\nfilename=f").contains("line 2: rw=randwrite"));
    assert!(reason("[a]\nrw=randread").contains("filename="));
    assert!(reason("rw=randread").contains("line 1: options come after a [section]"));
    assert!(reason("").contains("needs a [section]") && reason("[a]").contains("filename="));
}

#[test]
fn sizes_are_powers_of_1024() {
    let right = [
        ("0", 0),
        ("300", 300),
        ("5k", 5120),
        ("20MiB", 20 << 20),
        ("1g", 1 << 30),
        ("3.7G", 3_972_844_748),
        ("0.5k", 512),
    ];
    for (text, bytes) in right {
        assert_eq!(parse_size(text), Ok(bytes), "{text}");
    }
    for text in ["", "k", ".5k", "-1", "1x", "1.2.3", "99999999999999999999", "1 k", "1e3", "0x10", "inf", "nan"] {
        assert!(parse_size(text).unwrap_err().contains("is no size"), "{text}");
    }
    assert_eq!((parse_sizes("50-300"), parse_sizes("4k")), (Ok((50, 300)), Ok((4096, 4096))));
    for text in ["0-5", "300-50", "1-1G", "-", "5-", "a-b"] {
        assert!(parse_sizes(text).is_err(), "{text}");
    }
}

#[test]
fn both_engines_read_every_byte_of_the_span_in_every_loop() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("data");
    fs::write(&file, vec![1; 120_000]).unwrap();
    for (threads, cold) in [(1, false), (1, true), (2, false), (2, true)] {
        let job = ReadJob { file: file.clone(), threads, cold, loops: 3, ..job(100_000, (50, 300)) };
        let [calls, maps] = Engine::ALL.map(|engine| run::measure(&job, engine).unwrap());
        assert_eq!(calls.0.checksum, maps.0.checksum);
        for (timed, untimed) in [calls, maps] {
            assert_eq!(timed.bytes, 3 * 100_000 * threads as u64);
            assert_eq!(timed.latencies.len(), timed.reads);
            assert!(timed.seconds > 0.0 && untimed.is_none() == cold);
            assert!(untimed.is_none_or(|pass| pass.checksum == timed.checksum && pass.latencies.is_empty()));
        }
    }
    let timed = ReadJob { file: file.clone(), seconds: Some(1), cold: true, ..job(100_000, (50, 300)) };
    let (pass, _) = run::measure(&timed, Engine::Mmap).unwrap();
    assert!(pass.seconds >= 1.0 && pass.bytes > 100_000, "time ends a job and keeps it going");
    fs::write(&file, vec![1; 50_000]).unwrap();
    for engine in Engine::ALL {
        let error = run::measure(&job(100_000, (50, 300)).of(&file), engine).unwrap_err();
        assert!(matches!(error, BenchError::Io { .. }), "a file that became shorter is an error: {error}");
    }
}

impl ReadJob {
    fn of(self, file: &Path) -> Self {
        Self { file: file.to_owned(), ..self }
    }
}

#[test]
fn a_changed_byte_changes_the_checksum() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("data");
    let sum = |bytes: &[u8]| {
        fs::write(&file, bytes).unwrap();
        let job = ReadJob { offset: 0, ..job(61, (61, 61)).of(&file) };
        Engine::ALL.map(|engine| run::measure(&job, engine).unwrap().0.checksum)
    };
    let mut bytes: Vec<u8> = (0..61).collect();
    let one = sum(&bytes);
    for at in [0, 7, 8, 55, 56, 60] {
        bytes[at] ^= 1;
        assert!(sum(&bytes).iter().all(|other| *other != one[0]), "{at}");
        bytes[at] ^= 1;
    }
}

#[test]
fn a_tiny_job_is_measured_by_both_engines() {
    let dir = tempfile::tempdir().unwrap();
    let measured = rows("--file-bytes 1M --span 100k --loops 3 --no-fio", dir.path());
    assert_eq!(scenarios(&measured), ["io-psync", "io-psync-untimed", "io-mmap", "io-mmap-untimed"]);
    for row in &measured {
        assert!(row.ops_per_sec > 1000.0, "{row:?}");
        assert_eq!((row.total_ops, row.threads), (measured[0].total_ops, 1));
        assert!((130..142).contains(&row.value_bytes), "{}", row.value_bytes);
    }
    assert!(measured[0].latency_p50_us <= measured[0].latency_p99_us && measured[2].latency_p50_us.is_some());
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0, "the file is removed");
    let inorder = rows("--file-bytes 1M --span 100k --loops 3 --no-fio --sequential --size 4k", dir.path());
    assert_eq!((scenarios(&inorder)[0], inorder[0].total_ops), ("io-sequential-psync", 3 * 25));
}

#[test]
fn a_file_that_is_kept_is_whole() {
    fn full(file: &Path, _: u64) -> io::Result<()> {
        fs::write(file, "the start")?;
        Err(io::ErrorKind::StorageFull.into())
    }
    let dir = tempfile::tempdir().unwrap();
    let left = || fs::read_dir(dir.path()).unwrap().count();
    let args = args("--keep --file-bytes 1M");
    let make = |write: fn(&Path, u64) -> io::Result<()>| {
        let scratch = Scratch::for_reads(dir.path()).unwrap();
        make_file(&args, dir.path(), &scratch, write)
    };
    assert!(matches!(make(full), Err(BenchError::Io { .. })));
    assert_eq!(left(), 0, "nothing is left of what failed");
    let kept = make(write_noise).unwrap();
    assert_eq!((fs::metadata(&kept).unwrap().len(), left()), (1 << 20, 1));
    // It is not written over.
    let error = make(write_noise).unwrap_err();
    assert!(error.is_usage() && error.to_string().contains("--file"), "{error}");
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

/// Writes a recording of 5,000 reads of 77 bytes, and returns its name.
fn recording(dir: &Path) -> PathBuf {
    let (data, log) = (dir.join("data"), dir.join("log"));
    fs::write(&data, vec![5; 100_000]).unwrap();
    let name = data.display();
    let reads: String = (0..5000).map(|index| format!("{name} read {} 77\n", index * 15)).collect();
    fs::write(&log, format!("fio version 2 iolog\n{name} add\n{name} open\n{reads}")).unwrap();
    log
}

#[test]
fn recordings_become_jobs_for_fio() {
    let dir = tempfile::tempdir().unwrap();
    let (log, fio) = (recording(dir.path()), dir.path().join("job.fio"));
    let words = format!("--job {} --no-fio --export {}", log.display(), fio.display());
    assert_eq!(rows(&words, dir.path()), []);
    let text = fs::read_to_string(fio).unwrap();
    assert!(text.contains(&format!("read_iolog={}\n", log.display())) && text.contains("[psync]"), "{text}");
    assert!(!text.contains("mmap"), "{text}");
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
    let rows = rows(&format!("--job {}", recording(dir.path()).display()), dir.path());
    let fio = rows.iter().find(|row| row.scenario == "io-fio-recorded-psync").expect("fio runs recordings");
    assert_eq!((fio.total_ops, fio.value_bytes), (5000, 77));
}

/// What fio 3.33 printed, without the keys that are not read.
const OUTPUT: &str = r#"fio: a remark
{
  "fio version" : "fio-3.33",
  "jobs" : [
    {
      "jobname" : "psync",
      "error" : 0,
      "read" : {
        "io_bytes" : 419430000, "io_kbytes" : 409599, "bw_bytes" : 128501838, "iops" : 944779.411765,
        "runtime" : 3264, "total_ios" : 3083760,
        "slat_ns" : { "min" : 0, "max" : 0, "mean" : 0.000000, "stddev" : 0.000000, "N" : 0 },
        "clat_ns" : {
          "min" : 490, "max" : 764046, "mean" : 859.157125, "stddev" : 2492.362448, "N" : 3083760,
          "percentile" : { "1.000000" : 532, "50.000000" : 724, "99.000000" : 78336 }
        },
        "bw_min" : 61544
      },
      "write" : { "io_bytes" : 0 }
    }
  ]
}
a remark at the end
"#;

fn of_fio(read: ReadStats) -> Figures {
    Figures { by: "fio-3.33".into(), engine: "psync", threads: 1, read, untimed: None, checksum: None }
}

#[test]
fn output_of_fio_becomes_figures_and_rows() {
    let read = fio::parse(OUTPUT.as_bytes()).unwrap();
    assert_eq!((read.total_ios, read.runtime, read.clat_ns.max), (3_083_760, 3264, 764_046));
    let row = of_fio(read.clone()).rows("", &Machine::default()).remove(0);
    assert_eq!((row.scenario.as_str(), row.latency_p99_us), ("io-fio-psync", Some(78.336)));
    let ours = Figures {
        read: ReadStats { iops: read.iops * 2.0, ..read.clone() },
        checksum: Some("0".into()),
        ..of_fio(read.clone())
    };
    assert!(ratios(std::slice::from_ref(&ours)).is_empty());
    let ratios = ratios(&[ours, of_fio(read)]);
    assert_eq!(ratios, [json!({ "ours": "psync", "fio": "psync", "ratio": 2.0 })]);
}

#[test]
fn failures_of_fio_are_told() {
    let failed = OUTPUT.replace("\"error\" : 0", "\"error\" : 22");
    assert!(fio::parse(failed.as_bytes()).unwrap_err().contains("nvalid argument"));
    let nothing = OUTPUT.replace("\"total_ios\" : 3083760", "\"total_ios\" : 0");
    assert!(fio::parse(nothing.as_bytes()).unwrap_err().contains("nothing"));
    for text in ["", "fio", "{", "{}", r#"{"jobs":[]}"#, r#"{"jobs":[{"read":{"iops":"x"}}]}"#] {
        assert!(fio::parse(text.as_bytes()).is_err(), "{text}");
    }
}

#[test]
fn different_bytes_are_found() {
    let read = ReadStats { total_ios: 5, iops: 1.0, ..ReadStats::default() };
    let with = |checksum: &str| Figures { checksum: Some(checksum.into()), ..of_fio(read.clone()) };
    assert!(check(&[with("a"), of_fio(read.clone()), with("a")]).is_ok());
    let different = [with("a"), of_fio(read.clone()), with("b")];
    assert!(matches!(check(&different), Err(BenchError::Wrong { .. })));
    // Their figures say so, and are in no ratio.
    let told = text(&different, &[]);
    assert!(told.contains("WRONG") && !told.contains("ours / fio"), "{told}");
    let document = document(&job(100, (1, 1)), &different, &[], &Machine::default());
    let document: Value = serde_json::from_str(&document).unwrap();
    assert_eq!((&document["ratios"], &document["wrong"]), (&json!([]), &json!(DIFFERENT)));
}

#[test]
fn rows_of_engines_that_read_different_bytes_are_wrong_in_the_file() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("rows.json");
    let read = fio::parse(OUTPUT.as_bytes()).unwrap();
    let ours = |engine, checksum: &str| Figures { engine, checksum: Some(checksum.into()), ..of_fio(read.clone()) };
    let figures = [ours("psync", "a"), of_fio(read.clone()), ours("mmap", "b")];
    for one in &figures {
        json::merge(&file, &one.rows("", &Machine::default())).unwrap();
    }
    assert!(check(&figures).is_err());
    note_wrong(&file, &figures, "", &Machine::default()).unwrap();
    let wrong = |row: &Row| (row.scenario.clone(), row.wrong.is_some());
    let found: Vec<_> = json::rows(&file).unwrap().iter().map(wrong).collect();
    let expected = [("io-psync", true), ("io-fio-psync", false), ("io-mmap", true)];
    assert_eq!(found, expected.map(|(scenario, wrong)| (scenario.to_owned(), wrong)));
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
    for words in [
        "--engine uring",
        "--loops 0",
        "--seconds 0",
        "--threads 0",
        "--span x",
        "--loops 1 --seconds 1",
        "--file a --job b",
    ] {
        assert!(Command::try_parse_from(std::iter::once("io").chain(words.split_whitespace())).is_err(), "{words}");
    }
}
