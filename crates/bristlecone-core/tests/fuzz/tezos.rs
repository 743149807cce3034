//! The format of Tezos contexts: options and ids as text, directories, commits, pieces that name one another.

use std::{
    collections::{BTreeMap, HashMap},
    sync::atomic::{AtomicUsize, Ordering::Relaxed},
};

use bristlecone_core::{
    Change, ChangeTarget, Commit, Direction, EntryKind, Format, FormatError, Kind, Location, Mode, NoSource, ObjRef,
    Object, Oid, Signature, Source, Target, record_bytes,
    tezos::{Tezos, commit_text, parse_commit_text, seeded_hash},
    write_record,
};

use crate::{OTHER, Objects, Only, Random};

#[test]
fn tezos_text() {
    let mut random = Random(4);
    for _ in 0..300_000 {
        let bytes = random.mutate(b"entries=2 stable=30 inline=7 split=off");
        if let Ok(tezos) = Tezos::from_options(&String::from_utf8_lossy(&bytes)) {
            assert_eq!(Tezos::from_options(&tezos.options()), Ok(tezos));
        }
        let bytes = random.mutate(b"CoV8SQumiVU9saiu3FVNeDNewJaJH8yWdsGF3WLdsRr2P9S7MzCj");
        if let Some(oid) = parse_commit_text(&bytes) {
            assert_eq!(commit_text(&oid).as_bytes(), bytes);
        }
    }
}

/// Objects by id. No question takes more reads than there could be sound objects.
#[derive(Default)]
struct Store {
    objects: HashMap<Oid, (Kind, Vec<u8>)>,
    // The same as records, to be borrowed.
    records: HashMap<Oid, Vec<u8>>,
    reads: AtomicUsize,
}

/// A store that lends nothing.
struct Unlent<'s>(&'s Store);

impl Source for Unlent<'_> {
    type Error = FormatError;

    fn read<'a>(&'a self, kind: Kind, at: &ObjRef) -> Result<Object<'a>, FormatError> {
        self.0.read(kind, at)
    }
}

impl Store {
    const READS_MAX: usize = 3000;

    fn take(&mut self, objects: Objects) {
        objects.0.into_iter().for_each(|(kind, oid, body)| self.put(oid, kind, body));
    }

    fn put(&mut self, oid: Oid, kind: Kind, body: Vec<u8>) {
        let mut record = Vec::new();
        // Fewer locations than it has children, often.
        write_record(&mut record, kind, &oid, &body, &[Location::NONE; 2], &[]);
        self.records.insert(oid, record_bytes(&record).unwrap().1.to_vec());
        self.objects.insert(oid, (kind, body));
    }

    /// Keeps a piece under an id that need not be its own.
    fn piece(&mut self, number: u8, body: Vec<u8>) -> ObjRef {
        let oid = Oid::from_array([number; 32]);
        self.put(oid, Kind::Node, body);
        oid.into()
    }
}

impl Source for Store {
    type Error = FormatError;

    fn peek(&self, oid: &[u8], _: Location) -> Option<&[u8]> {
        self.records.get(&Oid::new(oid).unwrap()).map(Vec::as_slice)
    }

    fn read<'a>(&'a self, kind: Kind, at: &ObjRef) -> Result<Object<'a>, FormatError> {
        assert!(self.reads.fetch_add(1, Relaxed) + 1 < Self::READS_MAX, "a walk without end");
        match self.objects.get(&at.oid) {
            Some((found, body)) if *found == kind => Ok(Object::from_body(kind, body[..].into())),
            _ => Err(FormatError::Inconsistent { kind, reason: "it is missing" }),
        }
    }
}

/// A directory of `count` entries of all sorts.
fn entries(count: usize, name_bytes: usize) -> BTreeMap<Vec<u8>, ChangeTarget<'static>> {
    let target = |number: usize| match number % 3 {
        0 => ChangeTarget::Inline(&b"values"[..number % 7]),
        _ => ChangeTarget::Object { at: OTHER.into(), bytes: (number % 3 % 2) as u64 * 300 },
    };
    (0..count).map(|number| (format!("{number:0name_bytes$}").into_bytes(), target(number))).collect()
}

fn change<'c>((step, target): (&'c Vec<u8>, &ChangeTarget<'c>)) -> Change<'c> {
    let dir = matches!(target, ChangeTarget::Object { bytes: 0, .. });
    Change { step, mode: Mode::USUAL, to: Some((if dir { EntryKind::Dir } else { EntryKind::Value }, *target)) }
}

/// Asks everything of two directories, and changes the first. Every question has an end.
fn ask(tezos: &Tezos, store: &Store, at: &ObjRef, other: &ObjRef, random: &mut Random) {
    let names: Vec<Vec<u8>> = (0..1 + random.below(40)).map(|_| random.below(4000).to_string().into_bytes()).collect();
    let names: std::collections::BTreeSet<Vec<u8>> = names.into_iter().collect();
    let value = ChangeTarget::Inline(b"new");
    let changes: Vec<Change<'_>> = names
        .iter()
        .map(|name| {
            if random.below(2) == 0 {
                Change { step: name, mode: Mode::USUAL, to: None }
            } else {
                change((name, &value))
            }
        })
        .collect();
    let begin = || store.reads.store(0, Relaxed);
    begin();
    for name in &names {
        assert_eq!(tezos.find(store, at, name), tezos.find(&Unlent(store), at, name), "borrowed and read");
    }
    let _ = tezos.descend(store, at, b"1/x/y");
    begin();
    let _ = tezos.count(store, at);
    for direction in [Direction::Forward, Direction::Reverse] {
        begin();
        let _ = tezos.entries(store, at, Some(b"1"), None, direction).map(|walk| walk.filter(Result::is_ok).count());
    }
    for (before, after) in [(None, Some(at)), (Some(at), None), (Some(at), Some(other)), (Some(other), Some(at))] {
        begin();
        let _ = tezos.diff(store, before, after, None, Some(b"3")).map(|walk| walk.filter(Result::is_ok).count());
    }
    begin();
    let _ = tezos.update(store, &mut Objects::default(), Some(at), &changes);
    begin();
    let _ = store.read(Kind::Node, at).and_then(|object| tezos.object_id(store, &object));
}

/// Directories of every shape, each twice with a few differences.
fn directories() -> Vec<(Tezos, Store, ObjRef, ObjRef)> {
    let tezos = Tezos::new();
    let plans = [
        (tezos, 1, 1),
        (tezos, 3, 1),
        (tezos, 32, 1),
        (tezos, 33, 1),
        (tezos, 256, 1),
        (tezos, 257, 1),
        (tezos, 2500, 1),
        (tezos.split(false), 300, 300),
        (tezos.hashing(2, 3), 60, 1),
        (tezos.hashing(64, 100), 100, 1),
    ];
    let make = |(tezos, count, name_bytes): (Tezos, usize, usize)| {
        let (mut store, mut objects, entries) = (Store::default(), Objects::default(), entries(count, name_bytes));
        let changes: Vec<Change<'_>> = entries.iter().map(change).collect();
        let root = tezos.update(&NoSource, &mut objects, None, &changes).unwrap().unwrap();
        store.take(objects);
        let mut objects = Objects::default();
        let last = b"x".to_vec();
        let gone: Vec<Change<'_>> = entries
            .keys()
            .skip(1)
            .step_by(40)
            .map(|step| Change { step, mode: Mode::USUAL, to: None })
            .chain([change((&last, &ChangeTarget::Inline(b"x")))])
            .collect();
        let other = tezos.update(&store, &mut objects, Some(&root), &gone).unwrap().unwrap();
        store.take(objects);
        (tezos, store, root, other)
    };
    plans.into_iter().map(make).collect()
}

#[test]
fn tezos_directories() {
    let mut random = Random(5);
    for (tezos, mut store, root, other) in directories() {
        ask(&tezos, &store, &root, &other, &mut random);
        let mut ids: Vec<Oid> = store.objects.keys().copied().collect();
        ids.sort_unstable();
        for round in 0..if std::env::var_os("BRISTLECONE_THOROUGH").is_some() { 3000 } else { 1200 } {
            let oid = if round % 2 == 0 { root.oid } else { ids[random.below(ids.len())] };
            let (_, sound) = store.objects[&oid].clone();
            let hostile = match random.below(20) {
                // A piece in the place of another one.
                0 => store.objects[&ids[random.below(ids.len())]].1.clone(),
                _ => random.mutate(&sound),
            };
            let accepted = tezos.children(Kind::Node, &hostile, &mut |_, _| ()).is_ok();
            if accepted && hostile[0] == 0 {
                leaf(&tezos, &hostile);
            }
            store.put(oid, Kind::Node, hostile);
            ask(&tezos, &store, &root, &other, &mut random);
            store.put(oid, Kind::Node, sound);
        }
    }
}

/// A leaf whose bytes are accepted can be read and changed, and its entries have no other encoding.
fn leaf(tezos: &Tezos, body: &[u8]) {
    let (only, at) = (Only(Kind::Node, body), ObjRef::from(OTHER));
    let walk = tezos.entries(&only, &at, None, None, Direction::Forward).unwrap();
    let entries: Vec<_> = walk.map(Result::unwrap).collect();
    assert_eq!(tezos.count(&only, &at), Ok(entries.len() as u64));
    let changes: Vec<Change<'_>> = entries
        .iter()
        .map(|entry| {
            let target = match &entry.target {
                Target::Inline(value) => ChangeTarget::Inline(value),
                Target::Object { at, bytes } => ChangeTarget::Object { at: *at, bytes: *bytes },
                Target::Foreign(_) => panic!("there are no foreign ids"),
            };
            assert!(tezos.find(&only, &at, &entry.step).unwrap().is_some());
            Change { step: &entry.step, mode: Mode::USUAL, to: Some((entry.kind, target)) }
        })
        .collect();
    let mut objects = Objects::default();
    let whole = tezos.split(false);
    let again = whole.update(&NoSource, &mut objects, None, &changes).unwrap().unwrap();
    assert_eq!(Ok(again.oid), whole.object_id(&NoSource, &Object::from_body(Kind::Node, body.into())));
    assert_eq!(objects.0[0].2, body, "one directory has one encoding");
    assert_eq!(tezos.update(&only, &mut Objects::default(), Some(&at), &changes), Ok(Some(at)));
    let gone: Vec<Change<'_>> =
        entries.iter().map(|entry| Change { step: &entry.step, mode: Mode::USUAL, to: None }).collect();
    assert_eq!(tezos.update(&only, &mut Objects::default(), Some(&at), &gone), Ok(None));
    let mut objects = Objects::default();
    if let Some(less) = tezos.update(&only, &mut objects, Some(&at), &gone[..1]).unwrap() {
        let mut store = Store::default();
        store.take(objects);
        let walk = tezos.entries(&store, &less, None, None, Direction::Forward).unwrap();
        assert!(walk.map(|entry| entry.unwrap().step).eq(entries[1..].iter().map(|entry| entry.step.clone())));
    }
}

#[test]
fn tezos_commits() {
    let (tezos, mut random, mut objects) = (Tezos::new(), Random(6), Objects::default());
    let parents = vec![Oid::from_array([8; 32]).into(), OTHER.into()];
    let commit = Commit::new(OTHER.into(), parents, Signature::new("Tezos", -5), "message");
    tezos.put_commit(&mut objects, &commit, 1).unwrap();
    let sound = objects.0[0].2.clone();
    for _ in 0..200_000 {
        let hostile = random.mutate(&sound);
        let object = Object::from_body(Kind::Commit, hostile[..].into());
        let decoded = tezos.decode_commit(&object);
        assert_eq!(decoded.is_ok(), tezos.children(Kind::Commit, &hostile, &mut |_, _| ()).is_ok());
        if let Ok(commit) = decoded {
            let mut again = Objects::default();
            let oid = tezos.put_commit(&mut again, &commit, 1).unwrap().oid;
            assert_eq!(Ok(oid), tezos.object_id(&NoSource, &object));
            assert_eq!(again.0[0].2, hostile, "one commit has one encoding");
        }
    }
}

/// The body of an inner piece.
fn inner(shape: u8, depth: u8, count: u32, pieces: &[(u32, ObjRef)]) -> Vec<u8> {
    let bitmap = pieces.iter().fold(0_u64, |bitmap, (bucket, _)| bitmap | 1 << bucket);
    let mut body = vec![shape, depth, 0, 0];
    body.extend(count.to_le_bytes());
    body.extend(bitmap.to_le_bytes());
    pieces.iter().for_each(|(_, at)| body.extend(at.oid.as_bytes()));
    body
}

/// The body of a leaf piece of one entry, whose name has this bucket at every depth.
fn lone_leaf(bucket: u32) -> Vec<u8> {
    let is_there = |name: &Vec<u8>| (0..10).all(|depth| seeded_hash(depth, name) % 2 == bucket);
    let name = (0_u32..).map(|number| number.to_string().into_bytes()).find(is_there).unwrap();
    let (mut objects, value) = (Objects::default(), ChangeTarget::Inline(b"x"));
    Tezos::new().update(&NoSource, &mut objects, None, &[change((&name, &value))]).unwrap();
    let mut body = objects.0.remove(0).2;
    body[0] = 1;
    body
}

#[test]
fn tezos_pieces_that_are_named_again_and_again() {
    let (mut random, tezos) = (Random(7), Tezos::new().hashing(2, 2));
    // Pieces of each depth that name one of the next in both buckets, and leaves that are sound by themselves: few
    // objects, of which a walk through all paths has 2^20 and more.
    for (bucket, count) in [(0, u32::MAX), (0, 1 << 20), (1, 100)] {
        for last in [1, 9, 20] {
            let mut store = Store::default();
            let (mut one, mut other) = (store.piece(100, lone_leaf(bucket)), store.piece(101, lone_leaf(bucket)));
            for depth in (0..=last).rev() {
                one = store.piece(depth, inner(3, depth, count, &[(0, one), (1, one)]));
                other = store.piece(50 + depth, inner(3, depth, count - 1, &[(0, other), (1, other)]));
            }
            ask(&tezos, &store, &one, &other, &mut random);
            // And two that share what is below, so that nothing differs but what they count.
            let mut store = Store::default();
            let shared = store.piece(100, lone_leaf(bucket));
            let (mut one, mut other) = (shared, shared);
            for depth in (0..=last).rev() {
                one = store.piece(depth, inner(3, depth, count, &[(0, one), (1, one)]));
                other = store.piece(50 + depth, inner(3, depth, count - 1, &[(0, other), (1, other)]));
            }
            ask(&tezos, &store, &one, &other, &mut random);
        }
    }
    // A piece that names itself.
    for (shape, depth) in [(2, 0), (3, 0), (3, 1), (3, 255)] {
        let mut store = Store::default();
        let own = ObjRef::from(Oid::from_array([1; 32]));
        let own = store.piece(1, inner(shape, depth, 300, &[(0, own), (1, own)]));
        let root = store.piece(2, inner(3, 0, 300, &[(0, own), (1, own)]));
        ask(&tezos, &store, &own, &root, &mut random);
        ask(&tezos, &store, &root, &own, &mut random);
    }
}

#[test]
fn tezos_headers_that_lie() {
    let (tezos, mut random) = (Tezos::new(), Random(8));
    let mut store = Store::default();
    let leaf = store.piece(1, lone_leaf(0));
    let refused = [
        // A wide leaf of 4 G entries in a few bytes, and in enough for some of them.
        [&[0, 1, 0, 0, 0xff, 0xff, 0xff, 0xff][..], &[0; 8]].concat(),
        [&[0, 1, 0, 0, 0xff, 0xff, 0xff, 0xff][..], &[0; 4000]].concat(),
        [&[0, 0, 0xff, 0xff][..], &[0; 4000]].concat(),
        // No entries, no pieces.
        vec![0; 4],
        inner(3, 0, 300, &[]),
        inner(3, 0, 0, &[(0, leaf)]),
        // More buckets than there are; fewer entries than pieces; depths that cannot be.
        inner(3, 0, 300, &[(40, leaf)]),
        inner(2, 0, 100, &[(8, leaf)]),
        inner(2, 0, 100, &[(63, leaf)]),
        inner(2, 0, 2, &[(0, leaf), (1, leaf), (2, leaf)]),
        inner(3, 10, 300, &[(0, leaf)]),
        inner(2, 1, 100, &[(0, leaf)]),
        // Flat and too large; not flat and too small.
        inner(2, 0, 257, &[(0, leaf)]),
        inner(3, 0, 256, &[(0, leaf)]),
    ];
    for (number, body) in refused.into_iter().enumerate() {
        assert!(tezos.children(Kind::Node, &body, &mut |_, _| ()).is_err(), "{number}");
        let at = store.piece(2, body);
        ask(&tezos, &store, &at, &leaf, &mut random);
        assert!(fails(tezos.entries(&store, &at, None, None, Direction::Forward)), "{number}");
    }
    // One more than can be counted.
    let full = store.piece(3, inner(3, 0, u32::MAX, &[(31, leaf)]));
    let value = ChangeTarget::Inline(b"x");
    let name = (0_u32..).map(|n| n.to_string().into_bytes()).find(|name| seeded_hash(0, name) % 32 == 5).unwrap();
    let grown = tezos.update(&store, &mut Objects::default(), Some(&full), &[change((&name, &value))]);
    assert!(matches!(grown, Err(FormatError::Unsupported { .. })), "{grown:?}");
}

/// Names whose bucket at depth 0 is this one of 32.
fn names_in(bucket: u32) -> impl Iterator<Item = Vec<u8>> {
    (0_u32..).map(|n| n.to_string().into_bytes()).filter(move |name| seeded_hash(0, name) % 32 == bucket)
}

/// Whether a walk ends with an error, if it begins at all.
fn fails<T>(walk: Result<impl Iterator<Item = Result<T, FormatError>>, FormatError>) -> bool {
    walk.and_then(|items| items.collect::<Result<Vec<_>, _>>()).is_err()
}

/// Whatever walks through a directory refuses it; and so do lookups of this name that is in it.
fn refused(tezos: &Tezos, store: &Store, at: &ObjRef, sound: &ObjRef, name: &[u8]) {
    assert!(tezos.find(store, at, name).is_err() && tezos.find(&Unlent(store), at, name).is_err());
    assert!(fails(tezos.entries(store, at, None, None, Direction::Forward)));
    for (before, after) in [(None, Some(at)), (Some(at), None), (Some(at), Some(sound)), (Some(sound), Some(at))] {
        assert!(fails(tezos.diff(store, before, after, None, None)));
    }
    let change = Change { step: name, mode: Mode::USUAL, to: None };
    assert!(tezos.update(store, &mut Objects::default(), Some(at), &[change]).is_err());
}

#[test]
fn tezos_pieces_in_the_place_of_others() {
    let (tezos, mut store, mut objects) = (Tezos::new(), Store::default(), Objects::default());
    let mut put = |names: Vec<Vec<u8>>| {
        let mut names = names;
        names.sort();
        let changes: Vec<Change<'_>> = names.iter().map(|name| change((name, &ChangeTarget::Inline(b"x")))).collect();
        tezos.update(&NoSource, &mut objects, None, &changes).unwrap().unwrap()
    };
    let name = names_in(0).next().unwrap();
    let flat = put(names_in(0).take(100).collect());
    let leaves = [1, 2].map(|bucket| put(names_in(bucket).take(100).collect()));
    let wide = put((0..3).flat_map(|bucket| names_in(bucket).take(100)).collect());
    store.take(objects);
    let piece = |root: &ObjRef| {
        let mut first = None;
        let body = &store.objects[&root.oid].1;
        tezos.children(Kind::Node, body, &mut |_, oid| _ = first.get_or_insert(oid)).unwrap();
        ObjRef::from(first.unwrap())
    };
    // The entries of bucket 0, as a piece of either sort; all counts and buckets are right.
    let (leaf, tree, [one, two]) = (piece(&flat), piece(&wide), leaves.each_ref().map(piece));
    assert_eq!([leaf, tree, one, two].map(|at| store.objects[&at.oid].1[0]), [1, 3, 1, 1]);

    // A directory that is hashed flat and has more than leaves below.
    let body = inner(2, 0, 100, &[(0, tree)]);
    let below = store.piece(1, body.clone());
    refused(&tezos, &store, &below, &flat, &name);
    assert!(tezos.object_id(&store, &Object::from_body(Kind::Node, body[..].into())).is_err());
    // One that is not, with leaves that hold too much.
    let large = store.piece(2, inner(3, 0, 300, &[(0, leaf), (1, one), (2, two)]));
    refused(&tezos, &store, &large, &wide, &name);
    // Counts that lie, and buckets that there are not: of a flat root cut for 32 buckets, say.
    for (count, bucket) in [(99, 0), (101, 0), (100, 1), (100, 8), (100, 63)] {
        let body = inner(2, 0, count, &[(bucket, leaf)]);
        let at = store.piece(3, body.clone());
        assert!(fails(tezos.entries(&store, &at, None, None, Direction::Forward)));
        assert!(tezos.object_id(&store, &Object::from_body(Kind::Node, body[..].into())).is_err());
        if bucket >= 8 {
            refused(&tezos, &store, &at, &flat, &name);
        }
    }
    let body = inner(2, 0, 100, &[(0, leaf)]);
    let sound = Object::from_body(Kind::Node, body[..].into());
    assert_eq!(tezos.object_id(&store, &sound), Ok(flat.oid), "but for that it is the directory");
}
