//! The Tezos format: recorded vectors, and directories against a sorted map.
//!
//! Whatever led to a directory, its root is that of the same entries hashed from the definition (a directory that
//! is kept whole is hashed so), every object's id is that of its contents, and nothing is written twice.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    path::PathBuf,
    sync::{Arc, RwLock},
};

use bristlecone_core::{
    Bytes, Change, ChangeTarget, Commit, Direction, EntryKind, Format, FormatError, Kind, Location, Mode, ObjRef,
    Object, Oid, Signature, Sink, Source, Target,
    tezos::{Tezos, commit_text, parse_commit_text, seeded_hash},
};
use serde_json::Value;

#[derive(Default)]
struct Objects {
    objects: RwLock<HashMap<Oid, (Kind, Vec<u8>)>>,
    reads: RwLock<usize>,
}

impl Source for Objects {
    type Error = FormatError;

    fn read<'a>(&'a self, kind: Kind, at: &ObjRef) -> Result<Object<'a>, FormatError> {
        *self.reads.write().unwrap() += 1;
        let objects = self.objects.read().unwrap();
        let missing = FormatError::Inconsistent { kind, reason: "it is missing" };
        let (kind, body) = objects.get(&at.oid).ok_or(missing)?;
        Ok(Object::from_body(*kind, Bytes::from(Arc::<[u8]>::from(&body[..]))))
    }
}

/// Takes what is new into the objects; notes what comes though it is there.
struct Put<'o> {
    objects: &'o Objects,
    new: Vec<(Oid, Kind, Vec<u8>)>,
    again: usize,
}

impl Sink for Put<'_> {
    fn put(&mut self, kind: Kind, oid: Oid, body: &[u8], _: &[Location], _: &[u64]) -> Location {
        let known = self.objects.objects.read().unwrap().contains_key(&oid) || self.new.iter().any(|new| new.0 == oid);
        self.again += usize::from(known);
        self.new.push((oid, kind, body.to_vec()));
        Location::NONE
    }

    fn known(&self, _: &Oid) -> Option<Location> {
        None
    }
}

impl Objects {
    fn update(&self, tezos: &Tezos, base: Option<ObjRef>, changes: &[Change<'_>]) -> (Option<ObjRef>, usize, usize) {
        let mut put = Put { objects: self, new: Vec::new(), again: 0 };
        let root = tezos.update(self, &mut put, base.as_ref(), changes).unwrap();
        let (new, again) = (put.new, put.again);
        let count = new.len();
        for (oid, kind, body) in new {
            self.objects.write().unwrap().insert(oid, (kind, body.clone()));
            tezos.children(kind, &body, &mut |_, _| ()).unwrap();
            let object = Object::from_body(kind, body[..].into());
            assert_eq!(tezos.object_id(self, &object), Ok(oid));
        }
        (root, count, again)
    }

    fn build(&self, tezos: &Tezos, map: &BTreeMap<Vec<u8>, Held>) -> Option<ObjRef> {
        let changes: Vec<Change<'_>> = map.iter().map(|(step, held)| held.change(step)).collect();
        self.update(tezos, None, &changes).0
    }
}

/// What a name is bound to: a short value, or an object of either kind.
#[derive(Clone, Debug, PartialEq)]
enum Held {
    Short(Vec<u8>),
    Long(Oid, u64),
    Dir(Oid),
}

impl Held {
    fn change<'c>(&'c self, step: &'c [u8]) -> Change<'c> {
        let to = match self {
            Self::Short(value) => (EntryKind::Value, ChangeTarget::Inline(value)),
            Self::Long(oid, bytes) => (EntryKind::Value, ChangeTarget::Object { at: (*oid).into(), bytes: *bytes }),
            Self::Dir(oid) => (EntryKind::Dir, ChangeTarget::Object { at: (*oid).into(), bytes: 0 }),
        };
        Change { step, mode: Mode::USUAL, to: Some(to) }
    }

    fn is(&self, kind: EntryKind, target: &Target<'_>) -> bool {
        match (self, target) {
            (Self::Short(value), Target::Inline(bytes)) => kind == EntryKind::Value && bytes == value,
            (Self::Long(oid, long), Target::Object { at, bytes }) => {
                kind == EntryKind::Value && at.oid == *oid && bytes == long
            }
            (Self::Dir(oid), Target::Object { at, bytes: 0 }) => kind == EntryKind::Dir && at.oid == *oid,
            _ => false,
        }
    }
}

/// SplitMix64.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    fn held(&mut self) -> Held {
        let mut digest = [0; 32];
        digest[..8].copy_from_slice(&self.next().to_le_bytes());
        match self.below(3) {
            0 => Held::Short(vec![7; self.below(49) as usize]),
            1 => Held::Long(Oid::from_array(digest), 49 + self.below(1 << 40)),
            _ => Held::Dir(Oid::from_array(digest)),
        }
    }

    fn name(&mut self, names: u64) -> Vec<u8> {
        let number = self.below(names);
        match number % 5 {
            0 => number.to_string().into_bytes(),
            1 => format!("{number:064x}").into_bytes(),
            2 => number.to_be_bytes()[5..].to_vec(),
            3 => [&b"a-common-prefix-of-names-"[..], number.to_string().as_bytes()].concat(),
            _ => vec![number as u8; 1 + number as usize % 300],
        }
    }
}

/// Everything that is stored for a directory in pieces answers as the map does.
fn check(tezos: &Tezos, objects: &Objects, root: &ObjRef, map: &BTreeMap<Vec<u8>, Held>, random: &mut Random) {
    assert_eq!(tezos.count(objects, root), Ok(map.len() as u64));
    for (step, held) in map.iter().skip(random.below(7) as usize).step_by(7) {
        let (kind, target) = tezos.find(objects, root, step).unwrap().unwrap();
        assert!(held.is(kind, &target), "{held:?} {kind:?} {target:?}");
    }
    for _ in 0..5 {
        let name = random.name(5000);
        assert_eq!(tezos.find(objects, root, &name).unwrap().is_some(), map.contains_key(&name));
    }
    let (one, other) = (random.name(5000), random.name(5000));
    let (from, to) = (one.clone().min(other.clone()), one.max(other));
    for (from, to) in [(None, None), (Some(from), Some(to))] {
        let within = |step: &[u8]| {
            from.as_ref().is_none_or(|from| step >= &from[..]) && to.as_ref().is_none_or(|to| step < &to[..])
        };
        let mut wanted: Vec<_> = map.iter().filter(|(step, _)| within(step)).collect();
        for direction in [Direction::Forward, Direction::Reverse] {
            let entries = tezos.entries(objects, root, from.as_deref(), to.as_deref(), direction).unwrap();
            let found: Vec<_> = entries.map(Result::unwrap).collect();
            assert_eq!(found.len(), wanted.len());
            for (entry, (step, held)) in found.iter().zip(&wanted) {
                assert!(entry.step == **step && held.is(entry.kind, &entry.target));
            }
            wanted.reverse();
        }
    }
}

#[test]
fn directories_against_a_map() {
    // Sizes that hover around where shapes change.
    let plans: [(Tezos, &[u64]); 5] = [
        (Tezos::new(), &[3, 32, 33, 40, 30, 256, 257, 270, 250, 34, 31, 0, 900, 3000, 2000, 258, 200, 20, 1, 0, 33]),
        (Tezos::new().inline(0), &[300, 33, 256, 257, 1]),
        (Tezos::new().hashing(2, 3), &[2, 3, 4, 5, 3, 2, 1, 60, 8, 4, 3, 0, 9]),
        (Tezos::new().hashing(64, 64), &[9, 64, 65, 10, 200, 65, 64, 63]),
        (Tezos::new().hashing(64, 100), &[64, 65, 99, 101, 100, 64, 300, 90, 101, 65, 1]),
    ];
    for (number, (tezos, sizes)) in plans.into_iter().enumerate() {
        let whole = tezos.split(false);
        let mut random = Random(number as u64);
        let (objects, slow) = (Objects::default(), Objects::default());
        let (mut map, mut root): (BTreeMap<Vec<u8>, Held>, _) = (BTreeMap::new(), None);
        for &wanted in sizes {
            let mut rounds = 0;
            while map.len() as u64 != wanted || rounds < 6 {
                rounds += 1;
                let before = (root, map.clone());
                let grow = (map.len() as u64) < wanted;
                let step = (map.len() as u64).abs_diff(wanted).clamp(1, 1 + random.below(500));
                let mut names = std::collections::BTreeSet::new();
                for _ in 0..step {
                    let present = map.keys().nth(random.below(map.len().max(1) as u64) as usize).cloned();
                    names.insert(match present {
                        Some(name) if !grow || random.below(8) == 0 => name,
                        _ => random.name(5000),
                    });
                }
                let shrink = map.len() as u64 > wanted;
                let edits: Vec<(Vec<u8>, Option<Held>)> = names
                    .into_iter()
                    .map(|name| {
                        let held = match map.get(&name) {
                            Some(held) if random.below(10) == 0 => Some(held.clone()),
                            Some(_) if shrink => None,
                            None if shrink => None,
                            _ => Some(random.held()),
                        };
                        (name, held)
                    })
                    .collect();
                let edits: Vec<_> = edits
                    .into_iter()
                    .filter(|(_, held)| tezos.inline_bytes_max() > 0 || !matches!(held, Some(Held::Short(_))))
                    .collect();
                let changes: Vec<Change<'_>> = edits
                    .iter()
                    .map(|(step, held)| {
                        held.as_ref().map_or(Change { step, mode: Mode::USUAL, to: None }, |held| held.change(step))
                    })
                    .collect();
                let (after, new, again) = objects.update(&tezos, root, &changes);
                root = after;
                for (name, held) in &edits {
                    match held {
                        Some(held) => _ = map.insert(name.clone(), held.clone()),
                        None => _ = map.remove(name),
                    }
                }
                assert_eq!(root, slow.build(&whole, &map), "as hashed from the definition");
                assert_eq!(root, objects.build(&tezos, &map), "as built at once");
                if map == before.1 {
                    assert_eq!(new, 0, "nothing changed, nothing is written");
                }
                // Going back to an earlier state gives what is there; within one update nothing comes twice.
                assert!(again <= new);
                if let Some(root) = &root {
                    check(&tezos, &objects, root, &map, &mut random);
                }
                diff(&tezos, &objects, before.0, &before.1, root, &map);
                if rounds > 60 {
                    break;
                }
            }
        }
    }
}

fn diff(
    tezos: &Tezos,
    objects: &Objects,
    before: Option<ObjRef>,
    old: &BTreeMap<Vec<u8>, Held>,
    after: Option<ObjRef>,
    new: &BTreeMap<Vec<u8>, Held>,
) {
    let names: std::collections::BTreeSet<_> = old.keys().chain(new.keys()).collect();
    let mut wanted = names.into_iter().filter(|name| old.get(*name) != new.get(*name));
    for pair in tezos.diff(objects, before.as_ref(), after.as_ref(), None, None).unwrap() {
        let (one, other) = pair.unwrap();
        let name = wanted.next().unwrap();
        for (entry, map) in [(one, old), (other, new)] {
            assert_eq!(entry.is_some(), map.contains_key(name));
            if let Some(entry) = entry {
                assert!(entry.step == *name && map[name].is(entry.kind, &entry.target));
            }
        }
    }
    assert_eq!(wanted.next(), None);
}

#[test]
fn large_directories_touch_few_pieces() {
    let tezos = Tezos::new();
    let objects = Objects::default();
    let map: BTreeMap<Vec<u8>, Held> =
        (0..20_000_u32).map(|n| (format!("{n:08x}").into_bytes(), Held::Short(vec![1]))).collect();
    let root = objects.build(&tezos, &map);
    *objects.reads.write().unwrap() = 0;
    let change =
        Change { step: b"00000007", mode: Mode::USUAL, to: Some((EntryKind::Value, ChangeTarget::Inline(b"2"))) };
    let (_, new, again) = objects.update(&tezos, root, &[change]);
    // 20,000 entries are three pieces deep; the check of ids reads none of them.
    assert_eq!((new, again), (3, 0));
    assert!(*objects.reads.read().unwrap() <= 3, "{}", objects.reads.read().unwrap());
}

/// Returns 128 names whose seeded hashes are equal for every seed.
///
/// A flip of bit 18 of one mixed word becomes one of the top bit, which multiplying by 5 leaves alone, and a
/// flip of the top bit of the next mixed word takes it back.
fn colliding_names() -> Vec<Vec<u8>> {
    let inverse = |odd: u32| (0..5).fold(odd, |x, _| x.wrapping_mul(2_u32.wrapping_sub(odd.wrapping_mul(x))));
    let unmix = |word: u32| word.wrapping_mul(inverse(0x1b87_3593)).rotate_right(15).wrapping_mul(inverse(0xcc9e_2d51));
    let pair = |flip: bool| {
        let (one, other) = if flip { (1 << 18, 1 << 31) } else { (0, 0) };
        [unmix(77 ^ one).to_le_bytes(), unmix(99 ^ other).to_le_bytes()].concat()
    };
    (0..128).map(|number| (0..7).flat_map(|bit| pair(number >> bit & 1 == 1)).collect()).collect()
}

#[test]
fn names_whose_hashes_collide() {
    let names = colliding_names();
    assert!(names.iter().all(|name| (0..60).all(|seed| seeded_hash(seed, name) == seeded_hash(seed, &names[0]))));
    let tezos = Tezos::new();
    let objects = Objects::default();
    let put = |name| Change { step: name, mode: Mode::USUAL, to: Some((EntryKind::Value, ChangeTarget::Inline(b"x"))) };
    let sorted: std::collections::BTreeSet<&[u8]> = names.iter().map(|name| &name[..]).collect();
    let changes: Vec<Change<'_>> = sorted.into_iter().map(put).collect();
    // As many as one piece holds go in; one more cannot be parted at any depth, however it comes.
    let (root, ..) = objects.update(&tezos, None, &changes[..32]);
    let mut sink = Put { objects: &objects, new: Vec::new(), again: 0 };
    assert!(tezos.update(&objects, &mut sink, root.as_ref(), &changes[32..33]).is_err());
    for tezos in [tezos, tezos.split(false).hashing(32, 32)] {
        assert!(tezos.update(&objects, &mut sink, None, &changes).is_err());
    }
    // Nor are they sound where they are stored: all of a directory of 33 entries in one leaf.
    let (whole, ..) = objects.update(&tezos.split(false), None, &changes[..33]);
    let mut leaf = objects.read(Kind::Node, &whole.unwrap()).unwrap().body().to_vec();
    leaf[0] = 1;
    let oid = tezos.object_id(&objects, &Object::from_body(Kind::Node, leaf[..].into())).unwrap();
    objects.objects.write().unwrap().insert(oid, (Kind::Node, leaf));
    let mut root = [&[2, 0, 0, 0, 33, 0, 0, 0][..], &(1_u64 << (seeded_hash(0, &names[0]) % 8)).to_le_bytes()].concat();
    root.extend(oid.as_bytes());
    assert!(tezos.children(Kind::Node, &root, &mut |_, _| ()).is_ok());
    let checked = tezos.object_id(&objects, &Object::from_body(Kind::Node, root[..].into()));
    assert!(matches!(checked, Err(FormatError::Unsupported { .. })), "{checked:?}");
    // Beside many others, too.
    let map: BTreeMap<Vec<u8>, Held> =
        (0..500_u32).map(|n| (n.to_string().into_bytes(), Held::Short(vec![1]))).collect();
    let wide = objects.build(&tezos, &map);
    assert!(tezos.update(&objects, &mut sink, wide.as_ref(), &changes).is_err());
    assert!(tezos.update(&objects, &mut sink, wide.as_ref(), &changes[..32]).is_ok());
}

#[test]
fn names_that_part_late() {
    let tezos = Tezos::new().hashing(64, 64);
    let mut names: Vec<Vec<u8>> = Vec::new();
    let mut random = Random(5);
    while names.len() < 65 {
        let name = random.next().to_be_bytes().to_vec();
        if seeded_hash(0, &name) % 64 == 3 && seeded_hash(1, &name) % 64 == 5 {
            names.push(name);
        }
    }
    let map: BTreeMap<_, _> = names.into_iter().map(|name| (name, Held::Short(vec![1]))).collect();
    // Hashed flat, they are one piece, which is larger than any of other directories.
    for (tezos, in_one) in [(tezos, false), (tezos.hashing(64, 100), true)] {
        let objects = Objects::default();
        let root = objects.build(&tezos, &map).unwrap();
        assert_eq!(objects.objects.read().unwrap().len() == 2, in_one);
        check(&tezos, &objects, &root, &map, &mut random);
        assert_eq!(Some(root), Objects::default().build(&tezos.split(false), &map));
    }
}

#[test]
fn what_contexts_cannot_hold_is_refused() {
    let (tezos, objects) = (Tezos::new(), Objects::default());
    let mut put = Put { objects: &objects, new: Vec::new(), again: 0 };
    for kind in [EntryKind::Executable, EntryKind::Link] {
        let change = Change { step: b"a", mode: Mode::USUAL, to: Some((kind, ChangeTarget::Inline(b"x"))) };
        assert!(tezos.update(&objects, &mut put, None, &[change]).is_err());
    }
    let foreign = ChangeTarget::Foreign(Oid::from_array([1; 32]));
    let change = Change { step: b"a", mode: Mode::USUAL, to: Some((EntryKind::Foreign, foreign)) };
    assert!(tezos.update(&objects, &mut put, None, &[change]).is_err());
    let spelled = Mode::spelled(EntryKind::Value, b"100664").unwrap();
    let bound = Some((EntryKind::Value, ChangeTarget::Inline(b"x")));
    let change = Change { step: b"a", mode: spelled, to: bound };
    let refused = tezos.update(&objects, &mut put, None, &[change]);
    assert!(matches!(refused, Err(FormatError::Unsupported { .. })), "{refused:?}");
    // The mode of a removal says nothing, and a usual mode is no special one, whatever it was read for.
    assert_eq!(tezos.update(&objects, &mut put, None, &[Change { to: None, ..change }]), Ok(None));
    let usual = Mode::spelled(EntryKind::Dir, b"100644").unwrap();
    let mut other = Put { objects: &objects, new: Vec::new(), again: 0 };
    assert!(tezos.update(&objects, &mut other, None, &[Change { mode: usual, ..change }]).is_ok());
    assert!(tezos.empty_dir(&mut put).is_err());
    let root = ObjRef::from(Oid::from_array([1; 32]));
    let sound = Commit::new(root.into(), vec![], Signature::new("Tezos", 5), "m");
    assert!(tezos.put_commit(&mut put, &sound, 1).is_ok());
    let mut lossy = sound.clone();
    lossy.committer.seconds = 6;
    assert!(tezos.put_commit(&mut put, &lossy, 1).is_err());
    let mut lossy = sound.clone();
    lossy.headers = vec![(b"a".to_vec(), b"b".to_vec())];
    assert!(tezos.put_commit(&mut put, &lossy, 1).is_err());
    let short = Oid::new(&[1; 20]).unwrap();
    let change = Held::Dir(short);
    assert!(tezos.update(&objects, &mut put, None, &[change.change(b"a")]).is_err());
    assert_eq!((tezos.commit_text(&short), put.new.len()), (None, 1));
    for options in [
        "entries=3",
        "inline=513",
        "stable=x",
        "stable=31",
        "entries=64 stable=63",
        "split=maybe",
        "group=2",
        "entries",
    ] {
        assert!(Tezos::from_options(options).is_err(), "{options}");
    }
    let odd = Tezos::new().hashing(2, 3).inline(7).split(false);
    assert_eq!(Tezos::from_options(&odd.options()), Ok(odd));
}

#[test]
fn the_check_of_a_flat_id_covers_its_pieces() {
    let (tezos, objects) = (Tezos::new(), Objects::default());
    let value = |n: u32| Held::Short(n.to_be_bytes().to_vec());
    let map: BTreeMap<Vec<u8>, Held> = (0..200_u32).map(|n| (format!("{n:03}").into_bytes(), value(n))).collect();
    let root = objects.build(&tezos, &map).unwrap();
    let root = objects.read(Kind::Node, &root).unwrap();
    let checked = |body: &[u8]| tezos.object_id(&objects, &Object::from_body(Kind::Node, body.into()));
    assert_eq!(checked(root.body()), Ok(objects.build(&tezos.split(false), &map).unwrap().oid));
    let piece = |index: usize| 16 + 32 * index..48 + 32 * index;

    // All entries are there, but those of two buckets are in each other's place.
    let mut swapped = root.body().to_vec();
    swapped[piece(0)].copy_from_slice(&root.body()[piece(1)]);
    swapped[piece(1)].copy_from_slice(&root.body()[piece(0)]);
    assert!(tezos.children(Kind::Node, &swapped, &mut |_, _| ()).is_ok() && checked(&swapped).is_err());

    // One entry, which is not the first, moves from its own leaf to the next.
    let of_bucket = |wanted: u32| map.iter().filter(move |(name, _)| seeded_hash(0, name) % 8 == wanted);
    let mut leaves = [0, 1].map(|bucket| of_bucket(bucket).map(|(name, held)| (name.clone(), held.clone())).collect());
    let [one, other]: &mut [BTreeMap<Vec<u8>, Held>; 2] = &mut leaves;
    let (name, held) = one.iter().find(|(name, _)| Some(*name) > other.keys().next()).unwrap();
    let (name, held) = (name.clone(), held.clone());
    assert!(one.keys().next() < Some(&name));
    one.remove(&name);
    other.insert(name, held);
    let mut moved = root.body().to_vec();
    for (index, leaf) in leaves.iter().enumerate() {
        let root = objects.build(&tezos.split(false), leaf).unwrap();
        let mut body = objects.read(Kind::Node, &root).unwrap().body().to_vec();
        body[0] = 1;
        let oid = checked(&body).unwrap();
        objects.objects.write().unwrap().insert(oid, (Kind::Node, body));
        moved[piece(index)].copy_from_slice(oid.as_bytes());
    }
    let moved_root = ObjRef::from(Oid::from_array([7; 32]));
    objects.objects.write().unwrap().insert(moved_root.oid, (Kind::Node, moved.clone()));
    let listed = tezos.entries(&objects, &moved_root, None, None, Direction::Forward).unwrap();
    assert!(listed.map(|entry| entry.unwrap().step.to_vec()).eq(map.into_keys()), "the same entries");
    assert!(checked(&moved).is_err());
}

/// So many names of one bucket are in no directory that is hashed flat.
#[test]
fn a_flat_root_of_too_many_entries_is_refused() {
    let (tezos, objects) = (Tezos::new().hashing(2, 2), Objects::default());
    let names = (0..).map(|n: u32| n.to_string().into_bytes()).filter(|name| seeded_hash(0, name).is_multiple_of(2));
    let map: BTreeMap<Vec<u8>, Held> = names.take(70_000).map(|name| (name, Held::Short(vec![1]))).collect();
    let whole = objects.build(&tezos.split(false), &map).unwrap();
    let mut leaf = objects.read(Kind::Node, &whole).unwrap().body().to_vec();
    leaf[0] = 1;
    let oid = tezos.object_id(&objects, &Object::from_body(Kind::Node, leaf[..].into())).unwrap();
    objects.objects.write().unwrap().insert(oid, (Kind::Node, leaf));
    let root = [&[2, 0, 0, 0][..], &70_000_u32.to_le_bytes(), &1_u64.to_le_bytes(), oid.as_bytes()].concat();
    let checked = tezos.object_id(&objects, &Object::from_body(Kind::Node, root[..].into()));
    assert!(matches!(checked, Err(FormatError::Inconsistent { .. })), "{checked:?}");
}

/// Returns a file of recorded vectors.
fn vectors(name: &str) -> Value {
    let file = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../testdata/tezos").join(name);
    serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap()
}

fn hex(value: &Value) -> Oid {
    text(value).parse().unwrap()
}

fn unhex(text: &str) -> Vec<u8> {
    (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap()).collect()
}

fn contents(tezos: &Tezos, value: &[u8]) -> Oid {
    let objects = Objects::default();
    let mut put = Put { objects: &objects, new: Vec::new(), again: 0 };
    tezos.put_contents(&mut put, value).unwrap().oid
}

#[test]
fn recorded_nodes() {
    let nodes = vectors("nodes.json");
    let nodes = nodes.as_array().unwrap();
    assert_eq!(nodes.len(), 67);
    for node in nodes {
        let map: BTreeMap<Vec<u8>, Held> = node["bindings"]
            .as_array()
            .unwrap()
            .iter()
            .map(|binding| {
                let oid = parse_commit_text(text(&binding["hash"]).as_bytes()).unwrap();
                let held = if text(&binding["kind"]) == "Tree" { Held::Dir(oid) } else { Held::Long(oid, 99) };
                (text(&binding["name"]).as_bytes().to_vec(), held)
            })
            .collect();
        for tezos in [Tezos::new(), Tezos::new().split(false)] {
            let root = Objects::default().build(&tezos, &map).unwrap();
            assert_eq!(commit_text(&root.oid), text(&node["hash"]));
        }
    }
}

#[test]
fn recorded_seeded_hashes() {
    let all = vectors("ocaml_hash.json");
    assert_eq!(all.as_array().unwrap().len(), 100);
    for one in all.as_array().unwrap() {
        let seed = one["seed"].as_i64().unwrap() as u32;
        assert_eq!(i64::from(seeded_hash(seed, text(&one["s"]).as_bytes())), one["ocaml_hash"].as_i64().unwrap());
    }
}

#[test]
fn recorded_objects() {
    let golden = vectors("golden-vectors.json");
    let recorded = &golden["recorded"];
    let tezos = Tezos::new();
    let zeros = contents(&tezos, b"0000000000");
    assert_eq!(zeros, hex(&recorded["contents"]["hash_hex"]));
    assert_eq!(commit_text(&zeros), text(&recorded["contents"]["hash_b58"]));
    let named = |names: &[&str], value: &[u8]| -> BTreeMap<Vec<u8>, Held> {
        names.iter().map(|name| (name.as_bytes().to_vec(), Held::Short(value.to_vec()))).collect()
    };
    let small = Objects::default().build(&tezos, &named(&["00", "01"], b"0000000000")).unwrap();
    assert_eq!(small.oid, hex(&recorded["small_dir"]["hash_hex"]));
    let six = named(&["00", "01", "02", "03", "04", "05"], b"0000000000");
    let pieces = Objects::default().build(&tezos.hashing(2, 3), &six).unwrap();
    assert_eq!(pieces.oid, hex(&recorded["unstable_dir_entries2_stable3"]["hash_hex"]));
    let flat = Objects::default().build(&tezos, &six).unwrap();
    assert_eq!(flat.oid, hex(&recorded["same_dir_stable_config"]["hash_hex"]));

    let objects = Objects::default();
    let mut five = named(&["x", "z"], b"0000000000");
    five.extend(named(&["t", "w", "y"], b"1111111111"));
    let two = tezos.hashing(2, 3);
    let root = objects.build(&two, &five).unwrap();
    let mut children = HashSet::new();
    let object = objects.read(Kind::Node, &root).unwrap();
    two.children(Kind::Node, object.body(), &mut |_, oid| _ = children.insert(oid)).unwrap();
    for child in [
        "8c81eb0a729858e10a8aed80f4ad638b26e80cf713be980a83620e22516001bf",
        "461a30b373e7d98e23dc963934a417d7c5aceb14fa2fb6da6950438fd54c9aa9",
    ] {
        assert!(children.contains(&child.parse().unwrap()), "{child}");
    }

    let commit = |root: ObjRef, parents: Vec<ObjRef>, date, author: &str, message: &str| {
        let mut put = Put { objects: &objects, new: Vec::new(), again: 0 };
        let commit = Commit::new(
            root.into(),
            parents.into_iter().map(Into::into).collect(),
            Signature::new(author, date),
            message,
        );
        let at = tezos.put_commit(&mut put, &commit, 1).unwrap();
        let object = Object::from_body(Kind::Commit, put.new[0].2[..].into());
        assert_eq!(tezos.decode_commit(&object), Ok(commit));
        assert_eq!(tezos.object_id(&objects, &object), Ok(at.oid));
        at
    };
    let single = Objects::default().build(&tezos, &named(&["singleton-step"], b"singleton-val")).unwrap();
    let parent = commit(single, vec![], 0, "", "");
    assert_eq!(parent.oid, hex(&recorded["parent_commit"]["hash_hex"]));
    let child = commit(small, vec![parent], 0, "Tezos", "");
    assert_eq!(child.oid, hex(&recorded["commit"]["hash_hex"]));

    let data = objects.build(&tezos, &named(&["version"], b"genesis")).unwrap();
    let protocol = unhex("38ecdef0cd08640f318a9b055f6b0d0c9ae030913a871d9b9d86fb846317da21");
    let mut genesis = named(&["test_chain"], b"\0");
    genesis.insert(b"protocol".to_vec(), Held::Short(protocol));
    genesis.insert(b"data".to_vec(), Held::Dir(data.oid));
    let root = objects.build(&tezos, &genesis).unwrap();
    let genesis = commit(root, vec![], 1_530_374_852, "Tezos", "Genesis");
    assert_eq!(commit_text(&genesis.oid), "CoV8SQumiVU9saiu3FVNeDNewJaJH8yWdsGF3WLdsRr2P9S7MzCj");
}

#[test]
fn derived_objects() {
    let golden = vectors("golden-vectors.json");
    let tezos = Tezos::new();
    for one in golden["derived"]["contents"].as_array().unwrap() {
        if let Some(value) = one["value_hex"].as_str() {
            assert_eq!(contents(&tezos, &unhex(value)), hex(&one["hash_hex"]));
        }
    }
    let directories = golden["derived"]["directories"].as_array().unwrap();
    assert!(directories.len() > 10);
    for one in directories {
        let count = one["entries"].as_u64().unwrap();
        let map: BTreeMap<Vec<u8>, Held> = (0..count)
            .map(|index| {
                let name = format!("shared-{count}-{index}").into_bytes();
                let digest = blake2b_simd::Params::new().hash_length(32).hash(&name);
                let oid = Oid::new(digest.as_bytes()).unwrap();
                (name, if index % 3 == 0 { Held::Dir(oid) } else { Held::Long(oid, 1000) })
            })
            .collect();
        let root = Objects::default().build(&tezos, &map).unwrap();
        assert_eq!(root.oid, hex(&one["hash_hex"]), "{count} entries");
    }
}

#[test]
fn texts_of_commits() {
    let sound = b"CoV8SQumiVU9saiu3FVNeDNewJaJH8yWdsGF3WLdsRr2P9S7MzCj";
    let oid = parse_commit_text(sound).unwrap();
    assert_eq!(commit_text(&oid).as_bytes(), sound);
    for at in 0..sound.len() {
        let mut wrong = *sound;
        wrong[at] = if wrong[at] == b'2' { b'3' } else { b'2' };
        assert_eq!(parse_commit_text(&wrong), None, "{at}");
    }
    assert_eq!(parse_commit_text(b""), None);
    assert_eq!(parse_commit_text(&sound[..51]), None);
    assert_eq!(parse_commit_text(&[0xff; 52]), None);
}
