//! Recording: the shipped traces are done again on a recorded repository, and come out byte for byte; and whatever
//! is done, each thing is marked as forgotten at its last mention and nowhere else.

use std::{
    collections::HashMap,
    fs::File,
    io::{Read, Seek, SeekFrom, Write},
    sync::Arc,
};

use bristlecone::{MemoryBackend, Path, Repo, Tezos};
use bristlecone_tezos::{
    ContextId, Key, Reader, RecordError, RecordedCommit, RecordedTree, Recorder, Row, Scoped, TraceInfo,
    replay::{Replay, ReplayOptions, hashes_checkable},
};

use crate::shipped::{self, EARLY, FLAT, REAL, Random};

fn repo() -> Repo<Tezos> {
    Repo::with_backend(Tezos::new(), Arc::new(MemoryBackend::new()))
}

fn record() -> (File, Recorder, RecordedTree) {
    let file = tempfile::tempfile().unwrap();
    let (recorder, tree) = Recorder::new(repo(), file.try_clone().unwrap()).unwrap();
    (file, recorder, tree)
}

fn written(mut file: &File) -> Vec<u8> {
    let mut bytes = Vec::new();
    file.seek(SeekFrom::Start(0)).unwrap();
    file.read_to_end(&mut bytes).unwrap();
    bytes
}

fn path(key: Key<'_>) -> Path {
    Path::from_steps(key.steps()).unwrap()
}

/// Does what a trace says on a recorded repository, checks answers and hashes, and returns the recorded trace.
fn again(bytes: &[u8]) -> Vec<u8> {
    let (file, recorder, empty) = record();
    let mut trees = HashMap::from([(0, empty)]);
    let mut commits: HashMap<Vec<u8>, RecordedCommit> = HashMap::new();
    let mut reader = Reader::new(bytes, "first").unwrap();
    while let Some(row) = reader.next().unwrap() {
        let take = |trees: &mut HashMap<ContextId, RecordedTree>, input: Scoped<ContextId>| match input.keep {
            true => trees[&input.value].clone(),
            false => trees.remove(&input.value).unwrap(),
        };
        let made = match row {
            Row::Checkout { hash, output } => {
                let tree = recorder.checkout(&commits[hash.value]).unwrap();
                if !hash.keep {
                    commits.remove(hash.value);
                }
                Some((tree, output))
            }
            Row::Add { key, value, input, output } => {
                let mut tree = take(&mut trees, input);
                tree.set(path(key), value).unwrap();
                Some((tree, output))
            }
            Row::Remove { key, input, output } => {
                let mut tree = take(&mut trees, input);
                tree.remove(path(key)).unwrap();
                Some((tree, output))
            }
            Row::Copy { source, destination, input, output } => {
                let mut tree = take(&mut trees, input);
                tree.copy(path(source), path(destination)).unwrap();
                Some((tree, output))
            }
            Row::Find { key, found, input } => {
                assert_eq!(take(&mut trees, input).get(path(key)).unwrap().is_some(), found, "{key}");
                None
            }
            Row::Mem { key, found, input } => {
                assert_eq!(take(&mut trees, input).contains(path(key)).unwrap(), found, "{key}");
                None
            }
            Row::MemTree { key, found, input } => {
                assert_eq!(take(&mut trees, input).contains_tree(path(key)).unwrap(), found, "{key}");
                None
            }
            Row::Commit { hash, date, message, parents, input } => {
                let above: Vec<&RecordedCommit> = parents.iter().map(|parent| &commits[parent.value]).collect();
                let commit = recorder.commit(&mut take(&mut trees, input), &above, date, message).unwrap();
                assert_eq!(commit.hash().as_bytes(), hash.value);
                for parent in parents.iter().filter(|parent| !parent.keep) {
                    commits.remove(parent.value);
                }
                match hash.keep {
                    true => commits.insert(hash.value.to_vec(), commit),
                    false => commits.remove(hash.value),
                };
                None
            }
        };
        if let Some((tree, output)) = made
            && output.keep
        {
            trees.insert(output.value, tree);
        }
    }
    recorder.finish().unwrap();
    written(&file)
}

/// Replays a trace, with every answer and hash checked; returns how many hashes.
fn replay(trace: &[u8]) -> u64 {
    let (repo, options) = (repo(), ReplayOptions::default());
    let check_hashes = Some(hashes_checkable(repo.format(), &options).unwrap());
    let mut replay = Replay::new(&repo, options.check_hashes(check_hashes)).unwrap();
    replay.run(&mut Reader::new(trace, "recorded").unwrap(), &mut ()).unwrap();
    let report = replay.report();
    assert_eq!((report.hashes_checked, report.hashes_wrong, report.answers_wrong), (report.commits, 0, 0));
    report.commits
}

#[test]
fn what_is_done_again_is_the_same_trace() {
    for name in [REAL, EARLY, FLAT] {
        let mut bytes = shipped::whole(name);
        if name == REAL {
            // Without the row that is cut, the genesis block's hash is mentioned here for the last time.
            bytes[0xd8] = 0;
        }
        let recorded = again(&bytes);
        check_scopes(&recorded);
        let differs = recorded.iter().zip(&bytes).position(|(a, b)| a != b);
        assert_eq!((recorded.len(), differs), (bytes.len(), None), "{name}");
    }
}

/// Each context and hash is forgotten at its last mention, and nowhere else.
fn check_scopes(trace: &[u8]) -> TraceInfo {
    let (mut reader, mut last) = (Reader::new(trace, "recorded").unwrap(), HashMap::new());
    while let Some(row) = reader.next().unwrap() {
        // A block that is applied again binds its hash anew.
        if let Row::Commit { hash, .. } = row {
            last.remove(hash.value);
        }
        let mut mention = |thing: Vec<u8>, keep: bool| {
            assert_ne!(last.insert(thing, keep), Some(false), "mentioned after the last mention");
        };
        let context = |context: Scoped<ContextId>| (context.value.to_string().into_bytes(), context.keep);
        let mentions = match row {
            Row::Checkout { hash, output } => vec![(hash.value.to_vec(), hash.keep), context(output)],
            Row::Add { input, output, .. } | Row::Remove { input, output, .. } | Row::Copy { input, output, .. } => {
                vec![context(input), context(output)]
            }
            Row::Find { input, .. } | Row::Mem { input, .. } | Row::MemTree { input, .. } => vec![context(input)],
            Row::Commit { hash, parents, input, .. } => {
                let parents = parents.iter().map(|parent| (parent.value.to_vec(), parent.keep));
                [(hash.value.to_vec(), hash.keep)].into_iter().chain(parents).chain([context(input)]).collect()
            }
        };
        mentions.into_iter().for_each(|(thing, keep)| mention(thing, keep));
    }
    assert!(last.values().all(|keep| !keep), "never forgotten: {last:?}");
    let (mut reader, mut info) = (Reader::new(trace, "recorded").unwrap(), TraceInfo::new());
    while info.read_row(&mut reader).unwrap() {}
    assert_eq!((info.contexts().1, reader.partial()), (0, 0));
    info
}

#[test]
fn a_line_of_blocks_keeps_one_commit_and_no_context() {
    let (file, recorder, mut tree) = record();
    tree.set("a", b"1").unwrap();
    let mut head = recorder.commit(&mut tree, &[], 1, b"one").unwrap();
    drop(tree);
    for n in 2..50_i64 {
        let mut tree = recorder.checkout(&head).unwrap();
        tree.set(format!("dir/{}", n % 7), n.to_string().as_bytes()).unwrap();
        assert!(tree.contains("a").unwrap());
        head = recorder.commit(&mut tree, &[&head], n, b"more").unwrap();
    }
    drop(head);
    recorder.finish().unwrap();
    let trace = written(&file);
    let info = check_scopes(&trace);
    assert_eq!((info.contexts(), info.old_checkouts()), ((1, 0), 0));
    let mut reader = Reader::new(&trace[..], "recorded").unwrap();
    while let Some(row) = reader.next().unwrap() {
        match row {
            Row::Checkout { hash, output } => assert!(hash.keep && output.keep),
            Row::Add { input, output, .. } => assert!(!input.keep && output.keep),
            Row::Commit { parents, input, .. } => assert!(!input.keep && parents.iter().all(|parent| !parent.keep)),
            _ => {}
        }
    }
    assert_eq!(again(&trace), trace);
    assert_eq!(replay(&trace), 49);
}

#[test]
fn whatever_is_done_scopes_are_right_and_it_replays() {
    for seed in 0..40 {
        let mut random = Random(seed);
        let (file, recorder, empty) = record();
        let mut trees = vec![empty];
        let mut commits: Vec<RecordedCommit> = Vec::new();
        for step in 0..400_i64 {
            let at = random.below(trees.len());
            let key = format!("{}/{}", random.below(3), random.below(4));
            match random.below(11) {
                0 | 1 => trees[at].set(key, &[random.next() as u8][..]).unwrap(),
                2 => trees[at].remove(key).unwrap(),
                3 => match trees[at].copy(key, format!("{}/x", random.below(3))) {
                    Ok(()) | Err(RecordError::NothingToCopy { .. }) => {}
                    Err(error) => panic!("{error}"),
                },
                4 => drop(trees[at].get(key).unwrap()),
                5 => drop(trees[at].contains_tree(key).unwrap()),
                6 => trees.push(trees[at].clone()),
                7 if trees.len() > 1 => drop(trees.swap_remove(at)),
                8 => {
                    let parents: Vec<&RecordedCommit> = commits.iter().rev().take(random.below(3)).collect();
                    // The same commit twice, now and then.
                    match recorder.commit(&mut trees[at], &parents, step / 100, b"") {
                        Ok(commit) => commits.push(commit),
                        Err(error) => assert!(trees[at].tree().is_empty().unwrap(), "{error}"),
                    }
                }
                9 if !commits.is_empty() => {
                    let commit = random.below(commits.len());
                    trees.push(recorder.checkout(&commits[commit]).unwrap());
                }
                10 if !commits.is_empty() => drop(commits.swap_remove(random.below(commits.len()))),
                _ => {}
            }
        }
        // Some handles outlive the recording.
        recorder.finish().unwrap();
        let trace = written(&file);
        check_scopes(&trace);
        assert!(again(&trace) == trace, "seed {seed}");
        replay(&trace);
    }
}

#[test]
fn marks_reach_rows_that_left_memory() {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(b"before").unwrap();
    let (recorder, mut tree) = Recorder::new(repo(), file.try_clone().unwrap()).unwrap();
    tree.set("a", b"1").unwrap();
    let first = recorder.commit(&mut tree, &[], 1, b"").unwrap();
    let old = tree.clone();
    for n in 0..500_u64 {
        tree.set(format!("dir/{n}"), &vec![n as u8; 10_000][..]).unwrap();
    }
    // The next row writes it out, and then goes on where it was.
    drop(old);
    drop(first);
    tree.set("b", b"2").unwrap();
    recorder.finish().unwrap();
    let trace = written(&file).split_off(6);
    assert!(trace.len() > 5_000_000);
    check_scopes(&trace);
}

#[test]
fn what_fails_is_no_row() {
    let (file, recorder, mut tree) = record();
    tree.set("a", b"1").unwrap();
    assert!(matches!(tree.copy("b", "c"), Err(RecordError::NothingToCopy { path }) if path == "b"));
    assert!(matches!(tree.set("", b"1"), Err(RecordError::Store(_))));
    assert!(matches!(tree.get("a//b"), Err(RecordError::Store(_))));
    let (_, other, mut foreign) = record();
    assert!(matches!(recorder.commit(&mut foreign, &[], 0, b""), Err(RecordError::Foreign)));
    foreign.set("a", b"1").unwrap();
    let commit = other.commit(&mut foreign, &[], 0, b"").unwrap();
    assert!(matches!(recorder.checkout(&commit), Err(RecordError::Foreign)));
    assert!(matches!(recorder.commit(&mut tree, &[&commit], 0, b""), Err(RecordError::Foreign)));
    recorder.finish().unwrap();
    assert!(matches!(tree.set("b", b"1"), Err(RecordError::Ended)));
    assert_eq!(check_scopes(&written(&file)).rows_all(), 1);
}

/// Takes a number of bytes, and then refuses more.
struct Full(usize);

impl Write for Full {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0 = self.0.checked_sub(bytes.len()).ok_or(std::io::ErrorKind::StorageFull)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Seek for Full {
    fn seek(&mut self, _: SeekFrom) -> std::io::Result<u64> {
        Ok(0)
    }
}

#[test]
fn a_full_disk_ends_the_recording_and_is_told() {
    let (recorder, mut tree) = Recorder::new(repo(), Full(3_000_000)).unwrap();
    let big = vec![7; 100_000];
    let failed = (0..100).find_map(|n| tree.set(n.to_string(), &big[..]).err()).unwrap();
    assert!(matches!(&failed, RecordError::Trace(_)), "{failed}");
    assert!(matches!(tree.get("1"), Err(RecordError::Ended)));
    assert!(matches!(recorder.finish(), Err(RecordError::Ended)));
    // Where a mark fails, the next call returns the failure.
    let (recorder, mut tree) = Recorder::new(repo(), Full(2_200_000)).unwrap();
    let old = tree.clone();
    (0..31).for_each(|n| tree.set(n.to_string(), &big[..]).unwrap());
    let mut used = 0;
    while tree.set("x", &big[..]).is_ok() {
        used += 1;
    }
    assert!(used < 40);
    drop((old, tree));
    assert!(recorder.finish().is_err());
}

#[test]
fn several_threads_record_into_one_trace() {
    let (file, recorder, tree) = record();
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let (recorder, mut tree) = (&recorder, tree.clone());
            scope.spawn(move || {
                let mut head = None;
                for n in 0..200_i64 {
                    tree.set(format!("{thread}/{n}"), b"v").unwrap();
                    let parents: Vec<_> = head.iter().collect();
                    head = Some(recorder.commit(&mut tree, &parents, n, b"same").unwrap());
                }
            });
        }
    });
    drop(tree);
    recorder.finish().unwrap();
    let trace = written(&file);
    assert_eq!(check_scopes(&trace).rows_all(), 1600);
    again(&trace);
}
