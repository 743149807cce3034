//! The directory against a sorted map: same answers, and one root whatever led to it.

use alloc::{collections::BTreeMap, vec, vec::Vec};
use std::{collections::HashMap, sync::RwLock};

use super::*;
use crate::{ChangeTarget, Entry, Mode, NoSource};

mod git;
mod lend;
mod lies;
mod values;

/// Objects in a map, that counts reads.
#[derive(Default)]
struct Objects {
    objects: RwLock<HashMap<Oid, (Kind, Vec<u8>)>>,
    reads: RwLock<usize>,
}

impl Source for Objects {
    type Error = FormatError;

    fn read<'a>(&'a self, _: Kind, at: &ObjRef) -> Result<Object<'a>, FormatError> {
        *self.reads.write().unwrap() += 1;
        let objects = self.objects.read().unwrap();
        let (kind, body) = objects.get(&at.oid).ok_or(inconsistent("it is missing"))?;
        Ok(Object::from_body(*kind, Bytes::from(alloc::sync::Arc::<[u8]>::from(&body[..]))))
    }
}

/// Returns the children of an object, as both ways to read them say.
fn children_of(kind: Kind, body: &[u8]) -> Result<Vec<Oid>, FormatError> {
    let (native, mut children, mut ids) = (Native::new(), Vec::new(), Vec::new());
    let checked = native.children(kind, body, &mut |_, child| children.push(child));
    let read = native.child_ids(kind, body, &mut |child| ids.push(child));
    checked?;
    assert_eq!((read, &ids), (Ok(()), &children));
    Ok(children)
}

struct Put<'o>(&'o Objects, usize);

impl Sink for Put<'_> {
    fn put(&mut self, kind: Kind, oid: Oid, body: &[u8], _: &[Location], _: &[u64]) -> Location {
        let native = Native::new();
        if kind != Kind::Node {
            assert_eq!(native.object_id(&NoSource, &Object::from_body(kind, body[..].into())), Ok(oid));
        }
        children_of(kind, body).unwrap();
        self.1 += 1;
        self.0.objects.write().unwrap().insert(oid, (kind, body.to_vec()));
        Location::NONE
    }

    fn known(&self, _: &Oid) -> Option<Location> {
        None
    }
}

type Map = BTreeMap<Vec<u8>, Vec<u8>>;

fn apply(
    objects: &Objects,
    native: &Native,
    base: Option<&ObjRef>,
    changes: &BTreeMap<Vec<u8>, Option<Vec<u8>>>,
) -> (Option<ObjRef>, usize) {
    let list: Vec<Change<'_>> = changes
        .iter()
        .map(|(step, value)| Change {
            step,
            mode: Mode::USUAL,
            to: value.as_ref().map(|value| (EntryKind::Value, ChangeTarget::Inline(value))),
        })
        .collect();
    let reads = *objects.reads.read().unwrap();
    in_stretches_it_is_the_same(objects, native, base, &list);
    *objects.reads.write().unwrap() = reads;
    let mut sink = Put(objects, 0);
    let root = native.update(objects, &mut sink, base, &list).unwrap();
    (root, sink.1)
}

/// Objects in order, with where their children are.
struct InOrder {
    objects: Vec<(Oid, Vec<u8>, Vec<Location>)>,
    places: HashMap<Oid, Location>,
    shared_min: usize,
    /// What another thread may take is given to a sink of its own, which is taken in.
    beside: bool,
    replaced: Vec<Vec<u8>>,
}

impl InOrder {
    fn new(shared_min: usize, beside: bool) -> Self {
        Self { objects: Vec::new(), places: HashMap::new(), shared_min, beside, replaced: Vec::new() }
    }

    /// Takes in what another sink was given, and returns where that is now.
    fn take_in(&mut self, mut other: Self) -> Vec<Location> {
        let mut places: Vec<Location> = Vec::new();
        for (oid, body, children) in other.objects {
            let place = |at: Location| at.pending_offset().map_or(at, |at| places[at as usize]);
            let children: Vec<Location> = children.into_iter().map(place).collect();
            let at = self.put(Kind::Node, oid, &body, &children, &[]);
            places.push(at);
        }
        self.replaced.append(&mut other.replaced);
        places
    }
}

impl Sink for InOrder {
    fn put(&mut self, _: Kind, oid: Oid, body: &[u8], children: &[Location], _: &[u64]) -> Location {
        if let Some(at) = self.known(&oid) {
            return at;
        }
        self.objects.push((oid, body.to_vec(), children.to_vec()));
        let at = Location::pending(self.objects.len() as u64 - 1);
        self.places.insert(oid, at);
        at
    }

    fn known(&self, oid: &Oid) -> Option<Location> {
        self.places.get(oid).copied()
    }

    fn dir_replaced(&mut self, step: &[u8]) {
        self.replaced.push(step.to_vec());
    }

    fn join<A: Send, B: Send>(
        &mut self,
        one: impl FnOnce(&mut Self) -> A + Send,
        other: impl FnOnce(&mut Self) -> B + Send,
        moved: impl FnOnce(&mut B, &dyn Fn(Location) -> Location),
    ) -> (A, B) {
        if !self.beside {
            return (one(self), other(self));
        }
        let mut beside = Self::new(self.shared_min, true);
        let mut other = other(&mut beside);
        let one = one(self);
        let places = self.take_in(beside);
        moved(&mut other, &|at| at.pending_offset().map_or(at, |at| places[at as usize]));
        (one, other)
    }

    fn apart<A>(
        &mut self,
        make: impl FnOnce(&mut Self) -> A,
        moved: impl FnOnce(&mut A, &dyn Fn(Location) -> Location),
    ) -> A {
        if !self.beside {
            return make(self);
        }
        let mut apart = Self::new(self.shared_min, true);
        let mut made = make(&mut apart);
        let places = self.take_in(apart);
        moved(&mut made, &|at| at.pending_offset().map_or(at, |at| places[at as usize]));
        made
    }

    fn shared_min(&self) -> usize {
        self.shared_min
    }
}

/// Changes that are made when they are asked for.
struct Asked<'c>(&'c [Change<'c>]);

impl ChangeList for Asked<'_> {
    fn len(&self) -> usize {
        self.0.len()
    }

    fn get(&self, index: usize) -> Change<'_> {
        self.0[index]
    }
}

/// An update that is divided gives the objects that one pass gives, in the same order, and names the places of children.
fn in_stretches_it_is_the_same(objects: &Objects, native: &Native, base: Option<&ObjRef>, changes: &[Change<'_>]) {
    let run = |shared_min, beside| {
        let mut sink = InOrder::new(shared_min, beside);
        let root = if beside {
            native.update_list(objects, &mut sink, base, &Asked(changes)).unwrap()
        } else {
            native.update(objects, &mut sink, base, changes).unwrap()
        };
        let mut replaced = sink.replaced;
        replaced.sort();
        replaced.dedup();
        (root.map(|root| (root, root.at)), sink.objects, replaced)
    };
    // Stretches of one change take their time.
    if changes.len() > 20_000 {
        return;
    }
    let whole = run(usize::MAX, false);
    let few = (changes.len() / 3).max(2);
    for (shared_min, beside) in [(2, false), (few, true), (40, true), (700, false)] {
        let divided = run(shared_min, beside);
        assert!(whole.0 == divided.0, "another root from {shared_min} changes on");
        assert_eq!(whole.1.len(), divided.1.len(), "other objects from {shared_min} changes on");
        assert!(whole.1 == divided.1, "other objects from {shared_min} changes on");
        assert_eq!(whole.2, divided.2);
    }
}

fn build(objects: &Objects, native: &Native, map: &Map) -> Option<ObjRef> {
    let changes = map.iter().map(|(step, value)| (step.clone(), Some(value.clone()))).collect();
    apply(objects, native, None, &changes).0
}

fn list(objects: &Objects, root: &ObjRef, direction: Direction) -> Vec<(Vec<u8>, Vec<u8>)> {
    let entries = Native::new().entries(objects, root, None, None, direction).unwrap();
    entries.map(|entry| pair(&entry.unwrap())).collect()
}

fn pair(entry: &Entry<'_>) -> (Vec<u8>, Vec<u8>) {
    let Target::Inline(value) = &entry.target else { panic!("an inline value") };
    (entry.step.to_vec(), value.to_vec())
}

/// Returns `short` where a change waits for the answer, and `long` where the environment has `BRISTLECONE_THOROUGH`.
fn step(short: u64, long: u64) -> u64 {
    if std::env::var_os("BRISTLECONE_THOROUGH").is_some() { long } else { short }
}

fn random(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state
}

#[test]
fn any_sequence_of_updates_leads_to_the_root_of_the_contents() {
    for seed in 1..=step(8, 400) {
        let objects = Objects::default();
        let native = Native::new();
        let mut state = seed * 0x9e37_79b9;
        let mut map = Map::new();
        let mut root: Option<ObjRef> = None;
        let space = [30, 300, 3000, 30_000][seed as usize % 4];
        for round in 0..30 {
            let mut changes = BTreeMap::new();
            let count = [1, 3, 40, 700][(random(&mut state) % 4) as usize];
            for _ in 0..count {
                let number = random(&mut state) % space;
                let mut step = alloc::format!("{number}").into_bytes();
                if seed.is_multiple_of(5) && number.is_multiple_of(7) {
                    step.resize(700, b'x');
                }
                // Grow at first, shrink later.
                let remove = random(&mut state) % 30 < round;
                changes.insert(step, (!remove).then(|| vec![random(&mut state) as u8; (number % 40) as usize]));
            }
            for (step, value) in &changes {
                match value {
                    Some(value) => map.insert(step.clone(), value.clone()),
                    None => map.remove(step),
                };
            }
            root = apply(&objects, &native, root.as_ref(), &changes).0;
            assert_eq!(root, build(&objects, &native, &map), "seed {seed}, round {round}");
        }
        if let Some(root) = root {
            let expected: Vec<_> = map.clone().into_iter().collect();
            assert_eq!(list(&objects, &root, Direction::Forward), expected);
            let mut reversed = list(&objects, &root, Direction::Reverse);
            reversed.reverse();
            assert_eq!(reversed, expected);
            assert_eq!(native.count(&objects, &root), Ok(map.len() as u64));
        }
    }
}

#[test]
fn removing_nearly_everything_at_once_leaves_the_root_of_the_rest() {
    let native = Native::new();
    for (count, keep) in [(5000u32, 10), (5000, 1), (200_000, 3), (200_000, 100), (5000, 0)] {
        let objects = Objects::default();
        let map: Map = (0..count).map(|n| (alloc::format!("{n}").into_bytes(), vec![1])).collect();
        let root = build(&objects, &native, &map).unwrap();
        let changes = map.keys().skip(keep).map(|step| (step.clone(), None)).collect();
        let rest: Map = map.into_iter().take(keep).collect();
        assert_eq!(apply(&objects, &native, Some(&root), &changes).0, build(&objects, &native, &rest));
    }
}

#[test]
fn the_longest_names_end_in_one_root() {
    let native = Native::new();
    for (seed, bytes, space) in [(1u64, 2048, 3), (2, 4096, 4), (3, 4096, 150), (4, 2100, 500), (5, 1000, 400)] {
        let objects = Objects::default();
        let (mut map, mut root, mut state) = (Map::new(), None::<ObjRef>, seed);
        for round in 0..20 {
            let mut changes = BTreeMap::new();
            for _ in 0..[1, 2, 50][(random(&mut state) % 3) as usize] {
                let mut step = alloc::format!("{:03}", random(&mut state) % space).into_bytes();
                step.resize(bytes, b'x');
                let value = (random(&mut state) % 25 >= round).then(|| vec![random(&mut state) as u8]);
                match &value {
                    Some(value) => map.insert(step.clone(), value.clone()),
                    None => map.remove(&step),
                };
                changes.insert(step, value);
            }
            root = apply(&objects, &native, root.as_ref(), &changes).0;
            assert_eq!(root, build(&objects, &native, &map), "names of {bytes} bytes, round {round}");
        }
        if let Some(root) = root {
            assert_eq!(list(&objects, &root, Direction::Forward), map.into_iter().collect::<Vec<_>>());
            let level = NodeView::parse(objects.read(Kind::Node, &root).unwrap().body()).unwrap().level;
            assert!(level <= 4, "{level} levels");
        }
    }
}

#[test]
fn names_ground_against_the_hash_leave_insertions_local() {
    let objects = Objects::default();
    let native = Native::new();
    // Names whose hashes rise, fall, or avoid the smallest quarter, by choice of a suffix.
    let ground = |accept: &dyn Fn(usize, u64) -> bool| -> Vec<Vec<u8>> {
        (0..3000usize)
            .map(|index| {
                (0..)
                    .map(|n| alloc::format!("{index:05}-{n}").into_bytes())
                    .find(|name| accept(index, step_hash(name)))
                    .unwrap()
            })
            .collect()
    };
    let band = |index: usize, hash: u64| hash / (u64::MAX / 300) == index as u64 / 10;
    for names in
        [ground(&band), ground(&|index, hash| band(2999 - index, hash)), ground(&|_, hash| hash > u64::MAX / 4)]
    {
        let map: Map = names.iter().map(|name| (name.clone(), vec![1])).collect();
        let root = build(&objects, &native, &map).unwrap();
        let (mut most, mut most_written) = (0, 0);
        for index in (0..3000).step_by(step(197, 97) as usize) {
            let step = alloc::format!("{index:05}.").into_bytes();
            let changes = BTreeMap::from([(step.clone(), Some(vec![2]))]);
            *objects.reads.write().unwrap() = 0;
            let (next, written) = apply(&objects, &native, Some(&root), &changes);
            most = most.max(*objects.reads.read().unwrap());
            most_written = most_written.max(written);
            let mut grown = map.clone();
            grown.insert(step, vec![2]);
            assert_eq!(next, build(&objects, &native, &grown));
        }
        assert!(most <= 40 && most_written <= 12, "an insertion read {most} objects and wrote {most_written}");
    }
}

#[test]
fn lookups_and_ranges_agree_with_a_sorted_map() {
    let objects = Objects::default();
    let native = Native::new();
    let map: Map = (0..5000u32).map(|n| (alloc::format!("{}", n * 3).into_bytes(), n.to_le_bytes().to_vec())).collect();
    let root = build(&objects, &native, &map).unwrap();
    for n in 0..15_100u32 {
        let step = alloc::format!("{n}").into_bytes();
        let found = native.find(&objects, &root, &step).unwrap();
        let value = found.map(|(_, target)| match target {
            Target::Inline(value) => value.to_vec(),
            _ => panic!("an inline value"),
        });
        assert_eq!(value.as_ref(), map.get(&step));
    }
    for (from, to) in [("1", "2"), ("", "1"), ("9", "zz"), ("5", "4"), ("33", "33"), ("300", "3001")] {
        for direction in [Direction::Forward, Direction::Reverse] {
            let (low, high) = (from.as_bytes(), to.as_bytes());
            let entries = native.entries(&objects, &root, Some(low), Some(high), direction).unwrap();
            let mut found: Vec<_> = entries.map(|entry| pair(&entry.unwrap()).0).collect();
            if direction == Direction::Reverse {
                found.reverse();
            }
            let expected: Vec<_> = map.keys().filter(|key| &key[..] >= low && &key[..] < high).cloned().collect();
            assert_eq!(found, expected, "{from}..{to} {direction:?}");
        }
    }
}

#[test]
fn a_diff_is_exact_and_touches_only_what_differs() {
    let objects = Objects::default();
    let native = Native::new();
    let map: Map = (0..20_000u32).map(|n| (alloc::format!("{n}").into_bytes(), vec![n as u8])).collect();
    let root = build(&objects, &native, &map).unwrap();
    let mut state = 7;
    for count in [0, 1, 5, 300] {
        let mut changes = BTreeMap::new();
        for _ in 0..count {
            let step = alloc::format!("{}", random(&mut state) % 25_000).into_bytes();
            changes.insert(step, (!random(&mut state).is_multiple_of(3)).then(|| vec![random(&mut state) as u8]));
        }
        let next = apply(&objects, &native, Some(&root), &changes).0.unwrap();
        *objects.reads.write().unwrap() = 0;
        let found: Vec<_> = native
            .diff(&objects, Some(&root), Some(&next), None, None)
            .unwrap()
            .map(|difference| {
                let (before, after) = difference.unwrap();
                let step = before.as_ref().or(after.as_ref()).unwrap().step.to_vec();
                (step, before.map(|entry| pair(&entry).1), after.map(|entry| pair(&entry).1))
            })
            .collect();
        let reads = *objects.reads.read().unwrap();
        let expected: Vec<_> = changes
            .into_iter()
            .map(|(step, after)| (step.clone(), map.get(&step).cloned(), after))
            .filter(|(_, before, after)| before != after)
            .collect();
        assert_eq!(found, expected);
        assert!(reads <= 12 + count * 12, "{reads} reads for {count} changes");
    }
    let all = native.diff(&objects, None, Some(&root), Some(b"5"), Some(b"6")).unwrap();
    assert_eq!(all.count(), map.range(b"5".to_vec()..b"6".to_vec()).count());
}

#[test]
fn large_values_come_back_whole_and_in_ranges() {
    let objects = Objects::default();
    let native = Native::new();
    let mut state = 3;
    for bytes in [0, 1, 4096, 256 << 10, (256 << 10) + 1, 3 << 20] {
        let value: Vec<u8> = (0..bytes).map(|_| random(&mut state) as u8).collect();
        let at = native.put_contents(&mut Put(&objects, 0), &value).unwrap();
        assert_eq!(native.read_contents(&objects, &at, 0..u64::MAX).unwrap(), value);
        for (from, to) in [(0, 10), (5000, 100_000), (bytes as u64 / 2, bytes as u64), (7, 3)] {
            let expected = value.get((from as usize).min(value.len())..(to.max(from) as usize).min(value.len()));
            let found = native.read_contents(&objects, &at, from..to.max(from)).unwrap();
            assert_eq!(&found[..], expected.unwrap_or_default());
        }
        if bytes > 1 << 20 {
            let before = objects.objects.read().unwrap().len();
            let mut edited = value.clone();
            edited.insert(bytes / 2, 9);
            native.put_contents(&mut Put(&objects, 0), &edited).unwrap();
            assert!(objects.objects.read().unwrap().len() - before <= 5, "an edit renews the pieces around it");
        }
    }
}

#[test]
fn hostile_bytes_are_refused_without_panic() {
    let native = Native::new();
    let objects = Objects::default();
    let map: Map = (0..40u32).map(|n| (alloc::format!("{n}").into_bytes(), vec![1; n as usize])).collect();
    build(&objects, &native, &map).unwrap();
    let bodies: Vec<(Kind, Vec<u8>)> = objects.objects.read().unwrap().values().cloned().collect();
    let mut state = 11;
    for (kind, body) in bodies {
        for _ in 0..20_000 {
            let mut hostile = body.clone();
            for _ in 0..1 + random(&mut state) % 4 {
                let at = random(&mut state) as usize % hostile.len();
                hostile[at] = random(&mut state) as u8;
            }
            hostile.truncate(random(&mut state) as usize % (hostile.len() * 4));
            let sound = children_of(kind, &hostile).is_ok();
            let _ = native.object_id(&NoSource, &Object::from_body(kind, hostile[..].into()));
            let broken = Objects::default();
            let oid = Oid::from_array([1; 32]);
            broken.objects.write().unwrap().insert(oid, (kind, hostile.clone()));
            let root = ObjRef::from(oid);
            let _ = native.find(&broken, &root, b"7");
            let listed = native
                .entries(&broken, &root, None, None, Direction::Forward)
                .map(|entries| entries.take(1000).all(|entry| entry.is_ok()));
            let change = Change { step: b"7", mode: Mode::USUAL, to: None };
            let updated = native.update(&broken, &mut Ignore, Some(&root), &[change]);
            assert!(!sound || (listed == Ok(true) && updated.is_ok()), "sound bytes work");
        }
    }
}

/// Pieces and lists that lie about each other, under the ids that others name.
#[test]
fn structures_of_hostile_objects_are_refused_without_panic() {
    let native = Native::new();
    let objects = Objects::default();
    let map: Map = (0..3000u32).map(|n| (alloc::format!("{n}").into_bytes(), vec![1; n as usize % 40])).collect();
    build(&objects, &native, &map).unwrap();
    let mut state = 13;
    let value: Vec<u8> = (0..2 << 20).map(|_| random(&mut state) as u8).collect();
    native.put_contents(&mut Put(&objects, 0), &value).unwrap();
    let sound: Vec<(Oid, (Kind, Vec<u8>))> =
        objects.objects.read().unwrap().iter().map(|(oid, object)| (*oid, object.clone())).collect();
    let check = |whole: bool| {
        let (mut checked, mut refused) = (Checked::new(), 0);
        for (oid, (kind, _)) in &sound {
            *objects.reads.write().unwrap() = 0;
            let object = objects.read(*kind, &ObjRef::from(*oid)).unwrap();
            refused += usize::from(native.check_structure(&objects, &object, whole, &mut checked).is_err());
            let reads = *objects.reads.read().unwrap();
            assert!(reads < 2000, "{reads} reads for one object");
        }
        refused
    };
    assert_eq!(check(false), 0);
    for round in 0..300 {
        let (oid, (kind, body)) = &sound[random(&mut state) as usize % sound.len()];
        let mut hostile = body.clone();
        // Most of what is above the leaves is changed where levels, numbers and steps are.
        for _ in 0..1 + random(&mut state) % 3 {
            let at = random(&mut state) as usize % hostile.len().min([8, 200, usize::MAX][round % 3]);
            hostile[at] = random(&mut state) as u8;
        }
        objects.objects.write().unwrap().insert(*oid, (*kind, hostile));
        check(round % 2 == 0);
        if round % 10 > 0 {
            objects.objects.write().unwrap().insert(*oid, (*kind, body.clone()));
        }
    }
    assert!(check(false) > 0);
}

struct Ignore;

impl Sink for Ignore {
    fn put(&mut self, _: Kind, _: Oid, _: &[u8], _: &[Location], _: &[u64]) -> Location {
        Location::NONE
    }

    fn known(&self, _: &Oid) -> Option<Location> {
        None
    }
}

#[test]
fn options_round_trip() {
    for native in [Native::new(), Native::new().inline(0).split(false), Native::new().group(1)] {
        assert_eq!(Native::from_options(&native.options()), Ok(native));
    }
    assert!(Native::from_options("inline=9999").is_err());
    assert!(Native::from_options("unknown=1").is_err());
}

#[test]
fn what_one_piece_cannot_hold_is_refused_before_it_is_made() {
    let refused = FormatError::Unsupported { format: "native", what: "4 GiB of entries in one piece" };
    // Beside the items are a header of 8 bytes, and 5 bytes for each.
    let most = u64::from(u32::MAX) - 8 - 5 * 3;
    assert_eq!(node::check_length(3, most), Ok(()));
    for (items, bytes) in [(3, most + 1), (4, most), (usize::MAX, 0), (0, u64::MAX)] {
        assert_eq!(node::check_length(items, bytes).unwrap_err(), refused, "{items} items of {bytes} bytes");
    }
    // One MiB under 4,200 names.
    let (value, names) = (vec![0; 1 << 20], (0..4200u32).map(u32::to_be_bytes).collect::<Vec<_>>());
    let to = Some((EntryKind::Value, ChangeTarget::Inline(&value)));
    let change = |step| Change { step, mode: Mode::USUAL, to };
    let changes: Vec<Change<'_>> = names.iter().map(|step| change(&step[..])).collect();
    let native = Native::new().split(false);
    assert_eq!(native.update(&Objects::default(), &mut Ignore, None, &changes).unwrap_err(), refused);
    // Of a directory that is cut, no piece gets too long.
    let value = vec![0; (1 << 24) + 1];
    let put = |value| Some((EntryKind::Value, ChangeTarget::Inline(value)));
    let change = |value| Change { step: b"name", mode: Mode::USUAL, to: put(value) };
    let refused =
        FormatError::Unsupported { format: "native", what: "a value of more than 16 MiB within its directory" };
    let update = |value| Native::new().update(&Objects::default(), &mut Ignore, None, &[change(value)]);
    assert_eq!(update(&value).unwrap_err(), refused);
    assert!(update(&value[1..]).is_ok());
    let mut builder = DirBuilder::new(Native::new());
    let mut push = |value| builder.push(&mut Ignore, b"name", EntryKind::Value, &ChangeTarget::Inline(value));
    assert_eq!(push(&value[..]).unwrap_err(), refused);
    assert!(push(&value[1..]).is_ok());
}

/// An item of a piece that somebody forged.
struct LongItem<'b>(&'b [u8]);

impl node::EncodeItem for LongItem<'_> {
    fn bytes(&self) -> &[u8] {
        self.0
    }

    fn fingerprint(&self) -> u8 {
        0
    }
}

#[test]
fn forged_pieces_that_are_too_long_together_become_no_piece() {
    let refused = FormatError::Unsupported { format: "native", what: "4 GiB of entries in one piece" };
    let value = vec![0; 64 << 20];
    let (mut item, mut body) = (Vec::new(), Vec::new());
    node::write_leaf_item(&mut item, b"name", Mode::USUAL, EntryKind::Value, &ChangeTarget::Inline(&value));
    // Two pieces of 32 items each, as no writer makes them: together they have 4 GiB and some bytes.
    let items: Vec<LongItem<'_>> = (0..64).map(|_| LongItem(&item)).collect();
    for group in [0, 8] {
        assert_eq!(node::try_encode(&mut body, 0, &items, group).unwrap_err(), refused);
        let one = node::try_encode(&mut body, 0, &items[..1], group).unwrap();
        assert_eq!(NodeView::parse(&body).unwrap().id(group), Ok(one));
    }
}

/// Bytes of a proof of some lookups: for each node on the way its header, the groups of items that are
/// looked at, and the digests beside them; without compression or shared headers.
fn proof_bytes(objects: &Objects, root: &ObjRef, group: usize, steps: &[Vec<u8>]) -> usize {
    let mut touched: BTreeMap<Vec<u8>, (usize, BTreeMap<usize, usize>)> = BTreeMap::new();
    for step in steps {
        let mut at = *root;
        loop {
            let object = objects.read(Kind::Node, &at).unwrap();
            let node = NodeView::parse(object.body()).unwrap();
            let index = node.last_at_most(step).unwrap().unwrap();
            let (_, groups) = touched.entry(at.oid.as_bytes().to_vec()).or_insert((node.len(), BTreeMap::new()));
            let first = index / group * group;
            let bytes = (first..(first + group).min(node.len())).map(|at| node.item(at).unwrap().len()).sum();
            groups.insert(index / group, bytes);
            if node.level == 0 {
                break;
            }
            at = node.child(index).unwrap().oid.into();
        }
    }
    let mut total = 0;
    for (count, groups) in touched.into_values() {
        total += 5 + groups.values().sum::<usize>();
        let (mut known, mut width) = (groups.into_keys().collect::<Vec<_>>(), count.div_ceil(group));
        while width > 1 {
            total += known.iter().filter(|&&at| at ^ 1 < width && !known.contains(&(at ^ 1))).count() * 32;
            known = known.iter().map(|at| at / 2).collect();
            known.dedup();
            width = width.div_ceil(2);
        }
    }
    total
}

/// Numbers of `docs/decisions/0002-commitment.md`: run with `--nocapture`.
#[test]
fn a_hundred_proved_lookups_in_a_million_entries_fit_in_64_kb() {
    let objects = Objects::default();
    let native = Native::new();
    let map: Map = (0..1_000_000u32).map(|n| (alloc::format!("{n}").into_bytes(), alloc::vec![n as u8; 20])).collect();
    let root = build(&objects, &native, &map).unwrap();
    let mut state = 5;
    let steps: Vec<Vec<u8>> =
        (0..100).map(|_| alloc::format!("{}", random(&mut state) % 1_000_000).into_bytes()).collect();
    for group in [1, 2, 4, 8, 64] {
        let bytes = proof_bytes(&objects, &root, group, &steps);
        std::println!("groups of {group}: {bytes} bytes for 100 lookups");
        assert!(group != 2 || bytes <= 64_000);
    }
}

#[test]
fn a_value_is_the_same_however_it_comes() {
    let mut state = 7_u64;
    let mut next = move || {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 33) as usize
    };
    for bytes in [0, 1, 48, 4096, 256 << 10, (256 << 10) + 1, 700_000, 3_000_000, 12_000_000] {
        let value: Vec<u8> =
            (0..bytes).map(|index| if index % 1_000_000 < 400_000 { 0 } else { next() as u8 }).collect();
        for longest in [1 << 10, 100_000, 1 << 20, usize::MAX] {
            let (whole, parts) = (Objects::default(), Objects::default());
            let (mut whole, mut parts) = (Put(&whole, 0), Put(&parts, 0));
            let expected = Native::new().put_contents(&mut whole, &value).unwrap();
            let mut builder = Native::new().value_builder().unwrap();
            let mut rest = &value[..];
            while !rest.is_empty() {
                let (part, tail) = rest.split_at((next() % longest.max(1) + 1).min(rest.len()));
                builder.push(&mut parts, part);
                rest = tail;
            }
            assert_eq!(builder.finish(&mut parts).oid, expected.oid, "{bytes} bytes in parts of up to {longest}");
        }
    }
}
