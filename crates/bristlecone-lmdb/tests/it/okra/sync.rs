//! Differences of two maps, and what finding them costs.

use std::collections::BTreeSet;

use bristlecone_lmdb::okra::{
    Difference, Mode, NodeHash, OkraError, OkraMap, OkraNode, OkraRoot, OkraSnapshot, Result, Source, SyncStats,
};

use super::{Numbers, create, model::Contents};

/// A folder and a map with contents in it.
fn filled(mode: Mode, contents: &Contents) -> (tempfile::TempDir, OkraMap) {
    let dir = tempfile::tempdir().unwrap();
    let map = create(dir.path(), mode);
    let mut writer = map.write().unwrap();
    writer.load_sorted(contents).unwrap();
    writer.commit().unwrap();
    (dir, map)
}

fn contents_of(map: &OkraMap) -> Contents {
    let reader = map.read().unwrap();
    reader.entries().unwrap().map(|entry| entry.unwrap()).map(|(key, value)| (key.to_vec(), value.to_vec())).collect()
}

type Found = (Vec<u8>, Option<Vec<u8>>, Option<Vec<u8>>);

fn diff(source: &OkraMap, target: &OkraMap) -> (Vec<Found>, SyncStats) {
    let mut found = Vec::new();
    let source = source.read().unwrap();
    let stats = target.read().unwrap().diff(&mut &source, |Difference { key, source, target }| {
        found.push((key.to_vec(), source.map(<[u8]>::to_vec), target.map(<[u8]>::to_vec)));
        Ok(())
    });
    (found, stats.unwrap())
}

/// The differences by the contents alone.
fn expected(source: &Contents, target: &Contents) -> Vec<Found> {
    let keys: BTreeSet<_> = source.keys().chain(target.keys()).collect();
    let rows = keys.into_iter().map(|key| (key.clone(), source.get(key).cloned(), target.get(key).cloned()));
    rows.filter(|(_, source, target)| source != target).collect()
}

/// A map of numbers, and another that differs at some of them.
fn pair(numbers: &mut Numbers, mode: Mode, count: u64, changes: u64) -> (Contents, Contents) {
    let value = |numbers: &mut Numbers| match mode {
        Mode::Store => numbers.below(u64::MAX).to_be_bytes().to_vec(),
        Mode::Index => [(); 16].map(|()| numbers.below(if numbers.0 & 3 == 0 { 8 } else { 256 }) as u8).to_vec(),
    };
    let one: Contents = (0..count).map(|n| ((n as u32 * 2).to_be_bytes().to_vec(), value(numbers))).collect();
    let mut two = one.clone();
    for _ in 0..changes {
        let key = (numbers.below(count.max(1) * 2 + 20) as u32).to_be_bytes().to_vec();
        if numbers.below(3) == 0 { drop(two.remove(&key)) } else { drop(two.insert(key, value(numbers))) }
    }
    (one, two)
}

#[test]
fn a_walk_finds_the_differences_and_no_others() {
    let mut numbers = Numbers(3);
    for (count, changes) in [(0, 0), (0, 1), (1, 0), (1, 5), (50, 3), (50, 300), (1500, 1), (1500, 20), (3000, 900)] {
        for round in 0..6 {
            let mode = if round % 2 == 0 { Mode::Store } else { Mode::Index };
            let (one, two) = pair(&mut numbers, mode, count, changes);
            let (dirs, maps): (Vec<_>, Vec<_>) =
                [&one, &two].map(|contents| filled(mode, contents)).into_iter().unzip();
            assert_eq!(diff(&maps[0], &maps[1]).0, expected(&one, &two), "{count} entries, {changes} changes");
            assert_eq!(diff(&maps[1], &maps[0]).0, expected(&two, &one), "{count} entries, {changes} changes");
            assert_eq!(diff(&maps[0], &maps[0]).1, SyncStats::default(), "equal maps ask for nothing");

            let (before, source) = (contents_of(&maps[1]), maps[0].read().unwrap());
            let mut pulled = before.clone();
            pulled.extend(one.clone());
            maps[1].pull_from(&mut &source).unwrap();
            assert_eq!(contents_of(&maps[1]), pulled);
            maps[1].copy_from(&mut &source).unwrap();
            assert_eq!(contents_of(&maps[1]), one);
            assert_eq!(maps[1].read().unwrap().root().unwrap(), source.root().unwrap());
            maps[1].read().unwrap().check().unwrap();
            drop(dirs);
        }
    }
}

#[test]
fn a_merge_asks_where_both_have_values() {
    let entries = |rows: &[(&str, &str)]| -> Contents {
        rows.iter().map(|(key, value)| (key.as_bytes().to_vec(), value.as_bytes().to_vec())).collect()
    };
    let (_a, source) = filled(Mode::Store, &entries(&[("both", "1"), ("equal", "0"), ("source", "2")]));
    let (_b, target) = filled(Mode::Store, &entries(&[("both", "3"), ("equal", "0"), ("target", "4")]));
    let mut asked = Vec::new();
    let snapshot = source.read().unwrap();
    let stats = target
        .merge_from(&mut &snapshot, |difference| {
            asked.push(difference.key.to_vec());
            Ok([difference.source.unwrap(), difference.target.unwrap()].concat())
        })
        .unwrap();
    assert_eq!((asked, stats.differences), (vec![b"both".to_vec()], 3));
    assert_eq!(contents_of(&target), entries(&[("both", "13"), ("equal", "0"), ("source", "2"), ("target", "4")]));
}

/// What Okra measured for 1,000 entries: 0, 3, 12 and 29 calls, and up to 1,022 nodes.
#[test]
fn finding_few_differences_asks_for_few_nodes() {
    let one: Contents = (0..1000_u32)
        .map(u32::to_be_bytes)
        .map(|key| (key.to_vec(), blake3::hash(&key).as_bytes()[..16].to_vec()))
        .collect();
    let (_a, source) = filled(Mode::Store, &one);
    for (differences, calls_max, nodes_max) in [(0, 0, 0), (1, 3, 170), (10, 14, 800), (100, 40, 1200)] {
        let (mut calls, mut nodes) = (0, 0);
        for seed in 0..10 {
            let mut two = one.clone();
            let mut numbers = Numbers(seed);
            for _ in 0..differences {
                let key = (numbers.below(1000) as u32).to_be_bytes();
                two.insert(key.to_vec(), b"another value".to_vec());
            }
            let (_b, target) = filled(Mode::Store, &two);
            let (found, stats) = diff(&source, &target);
            assert_eq!(found, expected(&one, &two));
            (calls, nodes) = (calls + stats.calls, nodes + stats.nodes);
        }
        println!("{differences} differences: {} calls, {} nodes", calls / 10, nodes / 10);
        assert!(calls <= 10 * calls_max && nodes <= 10 * nodes_max, "{differences}: {calls} calls, {nodes} nodes");
    }
}

/// A source that changes one answer.
struct Liar<'a, 'm> {
    truth: &'a OkraSnapshot<'m>,
    lie: fn(u8, &mut Vec<OkraNode>),
}

impl Source for Liar<'_, '_> {
    fn root(&mut self) -> Result<OkraRoot> {
        self.truth.root()
    }

    fn children(&mut self, level: u8, key: Option<&[u8]>) -> Result<Vec<OkraNode>> {
        let mut truth = self.truth;
        let mut children = Source::children(&mut truth, level, key)?;
        (self.lie)(level, &mut children);
        Ok(children)
    }
}

#[test]
fn a_source_cannot_slip_in_what_its_root_does_not_cover() {
    let (one, two) = pair(&mut Numbers(9), Mode::Store, 2000, 100);
    let (_a, source) = filled(Mode::Store, &one);
    let (_b, target) = filled(Mode::Store, &two);
    let snapshot = source.read().unwrap();
    let lies: [fn(u8, &mut Vec<OkraNode>); 9] = [
        |_, children| children.clear(),
        |_, children| drop(children.pop()),
        |_, children| children.reverse(),
        |level, children| {
            if level == 1 {
                children.last_mut().unwrap().value = Some(b"a lie".to_vec());
            }
        },
        |level, children| {
            if level == 1 {
                children.last_mut().unwrap().value = None;
            }
        },
        |level, children| {
            if level == 2 {
                children.last_mut().unwrap().key = Some(vec![0xff; 9]);
            }
        },
        |level, children| {
            if level == 2 {
                children[0].key = Some(vec![0]);
            }
        },
        |_, children| children.last_mut().unwrap().key = Some(vec![1; 511]),
        |_, children| children.last_mut().unwrap().hash = NodeHash([0xff; 16]),
    ];
    for (index, lie) in lies.into_iter().enumerate() {
        let refused = target.copy_from(&mut Liar { truth: &snapshot, lie });
        assert!(matches!(refused, Err(OkraError::Source { .. })), "lie {index}: {refused:?}");
        assert_eq!(contents_of(&target), two, "lie {index} changed something");
    }
    target.copy_from(&mut Liar { truth: &snapshot, lie: |_, _| {} }).unwrap();
    assert_eq!(contents_of(&target), one);
}
