//! Recordings of a real store: they name the bytes that were read, and run.

use std::collections::HashMap;

use bristlecone::{
    Format, Info, Native, Repo,
    core::record_bytes,
    disk::{DiskBackend, DiskOptions, FormatTag},
    storage::RealStorage,
};
use bristlecone_needs::needs;

use super::*;

/// A store of many small segments with some directories, and what reading all of it recorded.
fn recorded(dir: &Path, maps: bool) -> (PathBuf, u64) {
    let store = dir.join("store");
    let options = DiskOptions::default().maps(maps).segment_bytes(16 << 10);
    let tag = FormatTag { name: Native::NAME.into(), version: Native::VERSION, options: String::new() };
    let disk = DiskBackend::create(Arc::new(RealStorage::new(&store)), tag, options.clone()).unwrap();
    let repo = Repo::with_backend(Native::new(), Arc::new(disk));
    let main = repo.branch("main").unwrap();
    let mut tree = main.tree().unwrap();
    for number in 0..2000 {
        tree.set(format!("a{}/b/{number}", number % 9).as_str(), vec![7; number % 200]).unwrap();
        if number % 100 == 99 {
            main.commit(&mut tree, &Info::unsigned("a hundred")).unwrap();
        }
    }
    drop((tree, main, repo));

    let disk = DiskBackend::open(Arc::new(RealStorage::new(&store)), None, options, false).unwrap();
    let log = dir.join("log");
    let recorder = Arc::new(Recorder::create(&log, &store).unwrap());
    let backend: Arc<dyn Backend> = Arc::new(Recorded::new(Arc::new(disk), recorder.clone()));
    let tree = Repo::with_backend(Native::new(), backend).branch("main").unwrap().tree().unwrap();
    for number in 0..2000 {
        assert!(tree.get(format!("a{}/b/{number}", number % 9).as_str()).unwrap().is_some());
    }
    (log, recorder.finish().unwrap())
}

#[test]
fn what_a_store_reads_is_recorded_record_by_record() {
    for maps in [true, false] {
        let dir = tempfile::tempdir().unwrap();
        let (log, count) = recorded(dir.path(), maps);
        let text = std::fs::read_to_string(&log).unwrap();
        let words: Vec<Vec<&str>> = text.lines().map(|line| line.split(' ').collect()).collect();
        let reads: Vec<&Vec<&str>> = words.iter().filter(|words| words.get(1) == Some(&"read")).collect();
        assert_eq!(reads.len() as u64, count);
        let mut files: HashMap<&str, Vec<u8>> = HashMap::new();
        for words in reads {
            let file = files.entry(words[0]).or_insert_with(|| std::fs::read(words[0]).unwrap());
            let (offset, bytes): (usize, usize) = (words[2].parse().unwrap(), words[3].parse().unwrap());
            let (_, record) = record_bytes(&file[offset..]).unwrap();
            assert_eq!(record.len(), bytes, "a read is a whole record");
        }
        assert!(count > 2000 && files.len() > 5, "{count} reads of {} files", files.len());
    }
}

#[test]
fn what_is_not_on_disk_is_not_recorded() {
    let dir = tempfile::tempdir().unwrap();
    let recorder = Recorder::create(&dir.path().join("log"), dir.path()).unwrap();
    recorder.read(Location::NONE, 5);
    recorder.read(Location::pending(8), 5);
    assert_eq!(recorder.finish().unwrap(), 0);
    recorder.read(Location(3 << 32 | 64), 5);
    assert_eq!(recorder.finish().unwrap(), 1);
    let text = std::fs::read_to_string(dir.path().join("log")).unwrap();
    let name = format!("{}/segments/00000003.seg", dir.path().display());
    assert_eq!(text, format!("{VERSION_2}\n{name} add\n{name} open\n{name} read 64 5\n"));
}

#[test]
fn names_that_recordings_cannot_tell_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    for store in ["a b".to_owned(), "x/".repeat(150)] {
        let error = Recorder::create(&dir.path().join("log"), &dir.path().join(store)).unwrap_err();
        assert!(error.is_usage(), "{error}");
    }
}

#[needs(linux)]
#[test]
fn a_failure_to_write_is_told_at_the_end() {
    // Every write to this device fails.
    let recorder = Recorder::create(Path::new("/dev/full"), Path::new("/store")).unwrap();
    for offset in 0..100_000 {
        recorder.read(Location(1 << 32 | offset), 8);
    }
    assert!(matches!(recorder.finish(), Err(BenchError::Io { .. })));
}
