//! What the program may print and what it may not, by a stand-in; every store and scenario, very small, by the program
//! itself where it is installed.

use std::path::Path;

use bristlecone_needs::needs;

use super::*;
use crate::job::{Sizes, Switches};

/// Returns a program that speaks as `bristlecone-irmin` does, and behaves as `how` says.
pub(crate) fn stand_in(how: &str) -> Irmin {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/peers/irmin/stand-in.sh");
    Irmin { program: "sh".into(), arguments: vec![script.display().to_string(), how.to_owned()] }
}

fn job(work: Work, value_bytes: usize, dir: &Path) -> Job {
    let sizes = Sizes { ncommits: 5, tree_add: 30, depth: 2, nreads: 100, ..Sizes::default() };
    let (switches, dir, name) = (Switches::default(), dir.to_owned(), "test".into());
    Job { work, target: Target::Memory, value_bytes, sizes, switches, dir, name, label: None, judged: true }
}

fn works() -> [Work; 6] {
    let reads = |way, long| Work::Reads { way, threads: 1, long };
    let incremental = |long| Work::Incremental { long, touch_all: false };
    [
        Work::Commits,
        incremental(false),
        incremental(true),
        reads(Way::InOrder, false),
        reads(Way::Walk, false),
        reads(Way::Walk, true),
    ]
}

#[test]
fn each_store_and_scenario_is_asked_for_by_its_options() {
    let dir = tempfile::tempdir().unwrap();
    let irmin = stand_in("right");
    for store in &STORES {
        let row = irmin.run(store, &job(Work::Commits, 10_000, dir.path())).unwrap();
        assert_eq!((row.name.as_str(), row.scenario.as_str()), (store.name, "commits-10K"));
        assert_eq!((row.total_ops, row.value_bytes, row.ops_per_sec), (150, 10_000, 300.0));
        assert!(row.checked && row.wrong.is_none());
        assert_eq!(row.variant == "minimal-index", store.minimal_index);
        assert_eq!(row.durability == "synced", store.beside.is_synced());
    }
    let operations = |work: Work| irmin.run(&STORES[0], &job(work, 20, dir.path())).unwrap().total_ops;
    assert_eq!(works().map(operations)[3..], [100, 100, 10_000]);
    let error = irmin.run(&STORES[0], &job(Work::LargeValues, 10_000, dir.path())).unwrap_err();
    assert!(error.to_string().contains("large-values has no counterpart"), "{error}");
}

#[test]
fn a_wrong_row_is_a_row_and_an_unchecked_one_is_wrong() {
    let dir = tempfile::tempdir().unwrap();
    let wrong = |how: &str| {
        let row = stand_in(how).run(&STORES[0], &job(Work::Commits, 20, dir.path())).unwrap();
        assert!(!row.checked);
        row.wrong.unwrap()
    };
    assert_eq!(wrong("wrong"), "an entry is another");
    assert_eq!(wrong("unchecked"), "the program has not checked it");
}

#[test]
fn what_is_no_row_of_the_job_is_a_failure_that_says_why() {
    let dir = tempfile::tempdir().unwrap();
    for (how, why) in [
        ("elsewhere", "\"commits-20B-elsewhere\" in place of \"commits-20B\""),
        ("nameless", "\"another\" in place of \"irmin memory\""),
        ("idle", "no operations"),
        ("text", "its row cannot be read"),
        ("silent", "exit status: 0"),
        ("fails", "the disk is full"),
    ] {
        let said = stand_in(how).run(&STORES[0], &job(Work::Commits, 20, dir.path())).unwrap_err().to_string();
        assert!(said.starts_with("Irmin failed: ") && said.contains(why), "{how}: {said}");
    }
    let replay = ReplayJob::new("trace.repr", dir.path());
    // The stand-in knows no traces: its row of one has no operations.
    assert!(stand_in("right").replay(&STORES[0], &replay).is_err());
    let missing = Irmin { program: dir.path().join("nothing"), arguments: vec![] };
    let said = missing.run(&STORES[0], &job(Work::Commits, 20, dir.path())).unwrap_err().to_string();
    assert!(said.contains("nothing: No such file"), "{said}");
}

#[test]
fn a_named_program_must_be_there() {
    let dir = tempfile::tempdir().unwrap();
    let said = Irmin::find(Some(&dir.path().join("irmin"))).unwrap_err().to_string();
    assert!(said.contains("/irmin: there is no program") && said.contains("README.md"), "{said}");
    let file = dir.path().join("program");
    std::fs::write(&file, "").unwrap();
    assert_eq!(Irmin::find(Some(&file)).unwrap().unwrap().file(), file);
}

#[needs(irmin)]
#[test]
fn irmin_itself_runs_every_scenario_on_every_store() {
    let dir = tempfile::tempdir().unwrap();
    let irmin = Irmin::find(None).unwrap().unwrap();
    for work in works() {
        let mut heads = Vec::new();
        for store in &STORES {
            let row = irmin.run(store, &job(work, 60, dir.path())).unwrap();
            assert!(row.checked && row.version.is_some(), "{row:?}");
            heads.push((row.backend, row.head.unwrap(), row.total_ops));
        }
        assert!(heads[1..].windows(2).all(|pair| pair[0] == pair[1]), "{work:?}: {heads:?}");
    }
    let trace = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/tezos/synthetic-early-101commits.repr");
    let replay = ReplayJob { commits: Some(20), ..ReplayJob::new(trace, dir.path()) };
    for store in &STORES {
        let row = irmin.replay(store, &replay).unwrap();
        let figures = row.replay.as_deref().unwrap();
        assert_eq!((row.checked, figures.hashes_checked, figures.rows.commit), (true, 20, 20), "{row:?}");
        assert_eq!(figures.recorded_head, row.head, "{row:?}");
    }
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0, "no store is left behind");
}
