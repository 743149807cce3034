//! What counts of several replays.

use super::*;
use crate::{measure::Run, report::ChainFigures};

/// A way in which a replay ends otherwise.
type Change = fn(&mut ChainRun);

/// A replay of so many blocks.
fn replayed(blocks: u64, stopped: bool) -> ChainRun {
    let figures = ChainFigures { stopped, digest: Some("d1".into()), ..ChainFigures::default() };
    ChainRun { run: Run { ops: blocks, seconds: 1.0, ..Run::default() }, figures }
}

#[test]
fn an_interrupted_run_ends_the_others_and_does_not_count_among_whole_ones() {
    // Of how many runs of how many jobs how many are kept, where the last of so many is interrupted.
    let cases = [
        (1, 3, 3, vec![2]),
        (1, 3, 1, vec![1]),
        (1, 1, 1, vec![1]),
        (2, 1, 1, vec![1, 0]),
        (2, 1, 9, vec![1, 1]),
        (2, 3, 4, vec![1, 2]),
    ];
    for (jobs, runs, last, kept) in cases {
        let mut done = 0;
        let all = runs_of(jobs, runs, &mut |_| {
            done += 1;
            Ok(replayed(if done == last { 7 } else { 400 }, done == last))
        })
        .unwrap();
        assert_eq!(all.iter().map(Vec::len).collect::<Vec<_>>(), kept, "{jobs} jobs, {runs} runs, {last}");
        assert_eq!(done, last.min(jobs * runs));
        let halves = all.iter().flatten().filter(|run| run.figures.stopped).count();
        assert_eq!(halves, usize::from(last == 1), "{jobs} jobs, {runs} runs, {last}");
    }
}

#[test]
fn profiles_take_turns_and_the_chain_is_read_before_them() {
    let mut order = Vec::new();
    runs_of(2, 4, &mut |job| {
        order.push(job);
        Ok(replayed(400, false))
    })
    .unwrap();
    assert_eq!(order, [0, 1, 1, 0, 0, 1, 1, 0]);
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("immutable")).unwrap();
    for (name, bytes) in [("protocolMagicId", 1), ("immutable/00000.chunk", 500), ("chain.tar", 7)] {
        fs::write(dir.path().join(name), vec![0; bytes]).unwrap();
    }
    assert_eq!(read_once(&[dir.path().to_owned()]).unwrap(), 508);
    assert_eq!(read_once(&[dir.path().join("immutable"), dir.path().join("chain.tar")]).unwrap(), 507);
}

/// Writes a difference from the other side.
fn turned(what: &str) -> String {
    let (of, values) = what.split_once(": ").unwrap();
    let (one, other) = values.split_once(", and ").unwrap();
    format!("{of}: {other}, and {one}")
}

#[test]
fn runs_and_rows_that_disagree_are_wrong_and_one_alone_is_not_checked() {
    let made = |change: Change| {
        let mut run = replayed(400, false);
        change(&mut run);
        run
    };
    let same = || made(|_| {});
    assert_eq!(agree::runs(&[same()], false), (None, false));
    assert_eq!(agree::runs(&[same(), same()], false), (None, true));
    let others: [(&str, Change); 5] = [
        ("digest: d1, and d2", |run| run.figures.digest = Some("d2".into())),
        ("last block: , and b", |run| run.figures.tip = Some("b".into())),
        ("entries: 0, and 5", |run| run.figures.entries = 5),
        ("missing inputs: 0, and 5", |run| run.figures.missing = 5),
        ("blocks: 400, and 399", |run| run.run.ops = 399),
    ];
    for (what, change) in others {
        let (wrong, compared) = agree::runs(&[same(), same(), made(change)], false);
        assert!(compared && wrong.as_deref() == Some(&format!("runs 1 and 3: {what}")[..]), "{wrong:?}");
        let row = |name: &str, run: ChainRun| Row {
            name: name.into(),
            total_ops: run.run.ops,
            chain: Some(Box::new(run.figures)),
            ..Row::default()
        };
        let mut rows = vec![row("one", same()), row("two", same())];
        let mut third = row("three", same());
        agree::row(&mut third, &mut rows, false);
        assert!(third.checked && rows.iter().all(|row| row.checked), "{rows:?}");
        let mut fourth = row("four", made(change));
        agree::row(&mut fourth, &mut rows, false);
        assert!(!fourth.checked && rows.iter().all(|row| !row.checked), "{what}");
        assert_eq!(fourth.wrong.unwrap(), format!("{} in one", turned(what)));
    }
    // Where a clock ends replays they go to other blocks.
    let short = made(|run| run.run.ops = 7);
    assert_eq!(agree::runs(&[same(), short], true), (None, false));
}

fn devnet(dir: &Path) -> ChainJob {
    ChainJob {
        sources: vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/cardano/devnet")],
        genesis: vec![],
        checkpoints: None,
        profile: Profile::LowMemory,
        index: IndexName::Memory,
        utxo: UtxoName::Tree,
        backend: BackendName::Memory,
        durability: DurabilityName::None,
        commit_every: 1,
        commit_unchanged: false,
        from: None,
        blocks: None,
        seconds: None,
        sample_every: 15.0,
        tail: TailName::default(),
        allow_missing: true,
        branch: "main".into(),
        dir: dir.to_owned(),
        keep: None,
        name: "test".into(),
    }
}

#[test]
fn rows_of_other_parts_of_a_chain_have_other_names() {
    let usual = ChainJob { allow_missing: false, ..devnet(Path::new("")) };
    assert_eq!(usual.row_name(), "test memory low-memory index=memory");
    let job = ChainJob { from: Some(7), tail: TailName::Cut, allow_missing: true, ..usual };
    assert_eq!(job.variant(), "index=memory from=7 tail=cut allow-missing");
    assert_eq!(job.row_name(), "test memory low-memory index=memory from=7 tail=cut allow-missing");
}

#[test]
fn a_replay_alone_is_not_checked_and_checkpoints_of_no_chunk_are_wrong() {
    let dir = tempfile::tempdir().unwrap();
    let job = devnet(dir.path());
    let row = measure(&job, 1, true).unwrap();
    assert_eq!((row.checked, row.wrong), (false, None));
    assert!(measure(&job, 2, true).unwrap().checked);
    let checkpoints = dir.path().join("checkpoints.csv");
    fs::write(&checkpoints, "chunk,utxo,lovelace,last_slot,last_hash,digest\n77,1,1,1,a,b\n").unwrap();
    let job = ChainJob { checkpoints: Some(checkpoints), ..job };
    let row = measure(&job, 1, true).unwrap();
    assert!(!row.checked && row.wrong.unwrap().contains("none of the chunks"));
    // A replay that was to end early may have come to none.
    assert_eq!(measure(&ChainJob { blocks: Some(10), ..job }, 1, true).unwrap().wrong, None);
}

#[test]
fn checkpoints_before_the_end_do_not_check_a_replay() {
    let dir = tempfile::tempdir().unwrap();
    let preview = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/cardano/preview");
    let job = ChainJob {
        genesis: ["byron", "shelley"].map(|era| preview.join(format!("{era}-genesis.json"))).to_vec(),
        checkpoints: Some(preview.join("utxo-checkpoints.csv")),
        sources: vec![preview],
        allow_missing: false,
        ..devnet(dir.path())
    };
    // Three chunks of 216 blocks.
    for (blocks, checkpoints, checked) in [(Some(500), 2, false), (None, 3, true)] {
        let row = measure(&ChainJob { blocks, ..job.clone() }, 1, true).unwrap();
        let chain = row.chain.unwrap();
        assert_eq!((chain.checkpoints, row.checked, row.wrong), (checkpoints, checked, None), "{:?}", chain.compared);
        assert_eq!(chain.compared == chain.tip, checked);
    }
}
