//! Whatever led to a tree, it is that of its entries: the same bytes, the same answers, and its neighbours' locations.

use bristlecone_core::{
    Change, Direction, Entry, EntryKind, Format, FormatError, Kind, Location, Mode, ObjRef, Oid, Target,
    git::{self, Algorithm, Git},
};

use super::objects::{Held, Map, Objects, Random, gone, raw_of};

const BOTH: [Git; 2] = [Git::sha1(), Git::sha256()];
const KINDS: [EntryKind; 6] =
    [EntryKind::Value, EntryKind::Dir, EntryKind::Executable, EntryKind::Dir, EntryKind::Link, EntryKind::Foreign];

/// A name that others begin with: Git's order and that of names differ there.
fn name(random: &mut Random) -> Vec<u8> {
    let parts = [&b"a"[..], b"a", b"b", b"-", b".", b"0", b" ", b"!", b"~x", b"\xff", b"\n", b"longer than eight"];
    loop {
        let name: Vec<u8> = (0..=random.below(4)).flat_map(|_| parts[random.below(parts.len())]).copied().collect();
        if name != b"." && name != b".." {
            return name;
        }
    }
}

fn held(git: &Git, objects: &mut Objects, random: &mut Random, submodules: bool) -> Held {
    let kind = KINDS[random.below(if submodules { 6 } else { 5 })];
    let value = [random.below(4) as u8];
    let at = match kind {
        EntryKind::Foreign => Oid::new(&vec![value[0] + 1; git.algorithm().oid_bytes()]).unwrap().into(),
        EntryKind::Dir => {
            let value = objects.with(git, |_, put| git.put_contents(put, &value)).unwrap();
            let change = Held::new(EntryKind::Value, value).change(b"x");
            objects.update(git, None, &[change]).unwrap().unwrap()
        }
        _ => objects.with(git, |_, put| git.put_contents(put, &value)).unwrap(),
    };
    let mode = match (kind, random.below(8)) {
        (EntryKind::Value, 0) => Mode::spelled(kind, b"100664").unwrap(),
        (EntryKind::Dir, 0) => Mode::spelled(kind, b"040000").unwrap(),
        _ => Mode::USUAL,
    };
    Held { kind, at, mode }
}

fn is(entry: (EntryKind, &Target<'_>), held: &Held) {
    assert_eq!(entry.0, held.kind);
    match entry.1 {
        Target::Object { at, bytes } => {
            assert_eq!((at.oid, at.at), (held.at.oid, held.at.at), "the object, and where it is");
            assert_eq!(*bytes, if held.kind == EntryKind::Dir { 0 } else { Target::UNKNOWN_BYTES });
        }
        Target::Foreign(oid) => assert_eq!((*oid, held.kind), (held.at.oid, EntryKind::Foreign)),
        Target::Inline(_) => panic!("nothing is inline"),
    }
}

/// Everything that can be asked of a directory answers as the map does.
fn answers(git: &Git, objects: &Objects, root: &ObjRef, map: &Map, random: &mut Random) {
    assert_eq!(git.count(objects, root), Ok(map.len() as u64));
    for lends in [true, false] {
        objects.lends.set(lends);
        for (step, held) in map {
            let (kind, target) = git.find(objects, root, step).unwrap().unwrap();
            is((kind, &target), held);
            let below = git.descend(objects, root, step).unwrap();
            assert_eq!(below, (held.kind == EntryKind::Dir).then_some(held.at));
            let deeper = git.descend(objects, root, &[step, &b"/x"[..]].concat()).unwrap();
            assert_eq!(deeper, None, "a value is no directory");
        }
        for _ in 0..20 {
            let step = name(random);
            assert_eq!(git.find(objects, root, &step).unwrap().is_some(), map.contains_key(&step));
        }
    }
    let (one, other) = (name(random), name(random));
    for (from, to) in [(None, None), (Some(&one), None), (None, Some(&one)), (Some(&one), Some(&other))] {
        let inside = |step: &&Vec<u8>| from.is_none_or(|from| *step >= from) && to.is_none_or(|to| *step < to);
        let expected: Vec<_> = map.iter().filter(|(step, _)| inside(step)).collect();
        for direction in [Direction::Forward, Direction::Reverse] {
            let walk = git.entries(objects, root, from.map(|f| &f[..]), to.map(|t| &t[..]), direction).unwrap();
            let mut found: Vec<Entry<'_>> = walk.map(Result::unwrap).collect();
            if direction == Direction::Reverse {
                found.reverse();
            }
            assert_eq!(found.len(), expected.len());
            for (entry, (step, held)) in found.iter().zip(&expected) {
                assert_eq!((&entry.step[..], entry.mode), (&step[..], held.mode));
                is((entry.kind, &entry.target), held);
            }
        }
    }
}

fn differences(git: &Git, objects: &Objects, old: (Option<&ObjRef>, &Map), new: (Option<&ObjRef>, &Map)) {
    let walk = git.diff(objects, old.0, new.0, Some(b"a"), Some(b"b")).unwrap().map(Result::unwrap);
    let found: Vec<(Vec<u8>, bool, bool)> = walk
        .map(|(before, after)| {
            let step = before.as_ref().or(after.as_ref()).unwrap().step.to_vec();
            for (entry, map) in [(&before, old.1), (&after, new.1)] {
                assert_eq!(entry.is_some(), map.contains_key(&step));
                if let Some(entry) = entry {
                    is((entry.kind, &entry.target), &map[&step]);
                }
            }
            (step, before.is_some(), after.is_some())
        })
        .collect();
    let mut steps: Vec<&Vec<u8>> = old.1.keys().chain(new.1.keys()).collect();
    steps.sort();
    steps.dedup();
    let expected: Vec<_> = steps
        .into_iter()
        .filter(|step| &step[..] >= b"a" && &step[..] < b"b")
        .filter(|step| old.1.get(*step) != new.1.get(*step))
        .map(|step| (step.clone(), old.1.contains_key(step), new.1.contains_key(step)))
        .collect();
    assert_eq!(found, expected);
}

#[test]
fn edits_in_any_order_come_to_the_tree_of_the_entries() {
    for (git, seed) in BOTH.into_iter().zip([1, 2]) {
        let mut random = Random(seed);
        for round in 0..60 {
            let (mut objects, mut map, mut root) = (Objects::default(), Map::new(), None);
            let (size, submodules) = (1 + random.below(60), round % 3 == 0);
            for _ in 0..12 {
                let before = (root, map.clone());
                let mut changes = Map::new();
                let mut removed = Vec::new();
                for _ in 0..1 + random.below(size) {
                    let step = match map.keys().nth(random.below(2 * map.len() + 1)) {
                        Some(step) => step.clone(),
                        None => name(&mut random),
                    };
                    if random.below(3) == 0 && !changes.contains_key(&step) {
                        removed.push(step);
                    } else if !removed.contains(&step) {
                        let held = held(&git, &mut objects, &mut random, submodules);
                        changes.insert(step, held);
                    }
                }
                removed.iter().for_each(|step| _ = map.remove(step));
                map.extend(changes.iter().map(|(step, held)| (step.clone(), *held)));
                let mut list: Vec<Change<'_>> = changes.iter().map(|(step, held)| held.change(step)).collect();
                removed.sort();
                removed.dedup();
                list.extend(removed.iter().map(|step| gone(step)));
                list.sort_by_key(|change| change.step);
                root = objects.update(&git, root, &list).unwrap();

                assert_eq!(root.is_none(), map.is_empty(), "an empty directory is not there");
                if let Some(root) = &root {
                    let raw = raw_of(&map);
                    assert_eq!(root.oid, git.algorithm().object_id(Kind::Node, &raw));
                    assert_eq!(git::raw(Kind::Node, &objects.body(&root.oid)), Ok(&raw[..]));
                    answers(&git, &objects, root, &map, &mut random);
                }
                let count = objects.puts();
                assert_eq!(objects.build(&git, &map), root, "the same from nothing");
                assert_eq!(objects.puts(), count, "nothing is written twice");
                differences(&git, &objects, (before.0.as_ref(), &before.1), (root.as_ref(), &map));
            }
        }
    }
}

#[test]
fn wide_trees_of_every_size_of_table() {
    // Fewer than 16; with slots; with ends of four bytes; with slots of four bytes.
    let git = Git::sha1();
    for count in [1, 15, 16, 17, 1000, 3000, 65_534, 65_535] {
        let mut objects = Objects::default();
        let value = objects.with(&git, |_, put| git.put_contents(put, b"x")).unwrap();
        let mut map: Map =
            (0..count).map(|n| (format!("n{n}").into_bytes(), Held::new(EntryKind::Value, value))).collect();
        let root = objects.build(&git, &map).unwrap();
        for (replaced, removed) in [("n0", "n"), ("n3", "n1"), ("n0", "m"), ("zz", "n0")] {
            let other = objects.with(&git, |_, put| git.put_contents(put, replaced.as_bytes())).unwrap();
            let held = Held::new(EntryKind::Value, other);
            let mut changes = [held.change(replaced.as_bytes()), gone(removed.as_bytes())];
            changes.sort_by_key(|change| change.step);
            let mut changed = map.clone();
            changed.remove(removed.as_bytes());
            changed.insert(replaced.as_bytes().to_vec(), held);
            let after = objects.update(&git, Some(root), &changes).unwrap().unwrap();
            assert_eq!(git::raw(Kind::Node, &objects.body(&after.oid)), Ok(&raw_of(&changed)[..]));
            for lends in [true, false] {
                objects.lends.set(lends);
                for (step, held) in changed.iter().step_by(1 + count / 1000) {
                    let (kind, target) = git.find(&objects, &after, step).unwrap().unwrap();
                    is((kind, &target), held);
                }
                assert_eq!(git.find(&objects, &after, b"none").unwrap(), None);
            }
        }
        // Down to nothing again, in halves.
        let mut root = Some(root);
        while !map.is_empty() {
            let half: Vec<Vec<u8>> = map.keys().step_by(2).cloned().collect();
            half.iter().for_each(|step| _ = map.remove(step));
            let changes: Vec<Change<'_>> = half.iter().map(|step| gone(step)).collect();
            root = objects.update(&git, root, &changes).unwrap();
            let expected = git.algorithm().object_id(Kind::Node, &raw_of(&map));
            assert_eq!(root.map(|root| root.oid), (!map.is_empty()).then_some(expected));
        }
    }
}

/// Names that share their slots are left out of the table, and found all the same.
#[test]
fn names_whose_hashes_collide_cost_time_only() {
    let git = Git::sha1();
    let mut objects = Objects::default();
    let value = objects.with(&git, |_, put| git.put_contents(put, b"x")).unwrap();
    // 300 entries have 1,024 slots.
    let names = (0_u32..).map(|n| n.to_string().into_bytes());
    let collides = |name: &Vec<u8>| bristlecone_core::native::step_hash(name) & 1023 == 1000;
    let mut names = names.filter(collides);
    let mut map: Map = names.by_ref().take(300).map(|name| (name, Held::new(EntryKind::Value, value))).collect();
    let root = objects.build(&git, &map).unwrap();
    let mut random = Random(3);
    answers(&git, &objects, &root, &map, &mut random);
    for other in names.take(50) {
        for lends in [true, false] {
            objects.lends.set(lends);
            assert_eq!(git.find(&objects, &root, &other).unwrap(), None);
        }
    }
    let last = map.keys().nth(150).unwrap().clone();
    map.remove(&last);
    let root = objects.update(&git, Some(root), &[gone(&last)]).unwrap().unwrap();
    answers(&git, &objects, &root, &map, &mut random);
    assert_eq!(objects.build(&git, &map), Some(root));
}

#[test]
fn untouched_entries_keep_their_bytes() {
    let git = Git::sha1();
    let mut objects = Objects::default();
    let oid = [7; 20];
    let entry = |mode: &str, name: &str| [mode.as_bytes(), b" ", name.as_bytes(), b"\0", &oid].concat();
    // Old modes, padded ones, one with more bits, one of a socket, and names that look like modes.
    let odd = [
        entry("100664", ".git"),
        entry("100600", "a"),
        entry("0100644", "b"),
        entry("100775", "c"),
        entry("040000", "d"),
        entry("40755", "e"),
        entry("140000", "f"),
        entry("644", "g 644 x"),
        entry("40000", " z"),
    ];
    let raw = [&odd[8][..], &odd[..8].concat()].concat();
    let kinds = [
        EntryKind::Dir,
        EntryKind::Value,
        EntryKind::Value,
        EntryKind::Value,
        EntryKind::Executable,
        EntryKind::Dir,
        EntryKind::Dir,
        EntryKind::Foreign,
        EntryKind::Foreign,
    ];
    let root = objects.with(&git, |_, put| git.put_raw(put, Kind::Node, &raw)).unwrap();
    let walk = git.entries(&objects, &root, None, None, Direction::Forward).unwrap();
    let found: Vec<Entry<'_>> = walk.map(Result::unwrap).collect();
    assert!(found.iter().map(|entry| entry.kind).eq(kinds));
    assert_eq!(found[1].mode.as_bytes(), b"100664");
    assert!(found[0].mode.is_usual() && !found[7].mode.is_usual());
    for lends in [true, false] {
        objects.lends.set(lends);
        for entry in &found {
            let found = git.find(&objects, &root, &entry.step).unwrap();
            assert_eq!(found, Some((entry.kind, entry.target.clone())));
        }
        assert_eq!(git.find(&objects, &root, b"x").unwrap(), None);
    }
    let spelling = found[1].mode;
    let value = objects.with(&git, |_, put| git.put_contents(put, b"x")).unwrap();
    let held = Held::new(EntryKind::Value, value);
    let after = objects.update(&git, Some(root), &[gone(b"b"), held.change(b"bb")]).unwrap().unwrap();
    let new = [b"100644 bb\0", value.oid.as_bytes()].concat();
    let expected = [&odd[8][..], &odd[..2].concat(), &new, &odd[3..8].concat()].concat();
    assert_eq!(git::raw(Kind::Node, &objects.body(&after.oid)), Ok(&expected[..]));
    // An entry that is moved keeps its spelling, one that is set anew is spelled as usual.
    let moved = Held { mode: spelling, ..held };
    let after = objects.update(&git, None, &[moved.change(b"x"), held.change(b"y")]).unwrap().unwrap();
    let raw = objects.body(&after.oid);
    assert!(raw.windows(9).any(|bytes| bytes == b"100664 x\0") && raw.windows(9).any(|bytes| bytes == b"100644 y\0"));
}

#[test]
fn what_is_no_tree_is_refused() {
    let oid = [7; 20];
    let entry = |mode: &str, name: &str| [mode.as_bytes(), b" ", name.as_bytes(), b"\0", &oid].concat();
    let file = |name: &str| entry("100644", name);
    let dir = |name: &str| entry("40000", name);
    let refused = [
        vec![file(".")],
        vec![dir("..")],
        vec![file("")],
        vec![file("a/b")],
        vec![entry("", "a")],
        vec![entry("100844", "a")],
        vec![entry("-1", "a")],
        vec![entry("000000100644", "a")],
        vec![file("a"), file("a")],
        vec![file("a"), dir("a")],
        vec![dir("a"), file("a")],
        vec![file("b"), file("a")],
        vec![dir("a"), file("a.b")],
        vec![file("a0"), dir("a")],
        // The same name twice, further apart.
        vec![file("a"), file("a!"), file("a!!"), file("a!0"), file("a-"), dir("a")],
        vec![file("a"), file("a!"), dir("a!"), file("a-")],
        // The same name twice, so far apart that neither is out of order beside its neighbours.
        vec![file("a"), file("a-"), file("a-!"), dir("a-"), file("a.")],
    ];
    for entries in refused {
        let mut out = Vec::new();
        assert!(git::tree_body(Algorithm::Sha1, &entries.concat(), &mut out).is_err(), "{entries:?}");
        assert!(out.is_empty());
    }
    let kept = [
        vec![],
        vec![file("a.b"), dir("a"), file("a0")],
        vec![file("a"), file("a!"), file("a!!"), dir("a!0"), dir("a-"), file("a0")],
        vec![entry("00000100644", "a")],
        vec![file("..."), file(".git")],
    ];
    for entries in kept {
        let mut out = Vec::new();
        git::tree_body(Algorithm::Sha1, &entries.concat(), &mut out).unwrap_or_else(|_| panic!("{entries:?}"));
        Git::sha1().children(Kind::Node, &out, &mut |_, _| ()).unwrap();
        let raw = entries.concat();
        let ends: Vec<usize> =
            entries.iter().scan(0, |end, entry| Some(*end + entry.len()).inspect(|to| *end = *to)).collect();
        for cut in 1..raw.len() {
            let taken = git::tree_body(Algorithm::Sha1, &raw[..cut], &mut Vec::new()).is_ok();
            assert_eq!(taken, ends.contains(&cut), "cut at {cut}");
        }
    }
}

#[test]
fn a_table_is_that_of_its_entries() {
    let git = Git::sha1();
    let mut objects = Objects::default();
    let value = objects.with(&git, |_, put| git.put_contents(put, b"x")).unwrap();
    for count in [1, 15, 16, 40] {
        let map: Map = (0..count).map(|n| (vec![b'a' + n], Held::new(EntryKind::Value, value))).collect();
        let root = objects.build(&git, &map).unwrap();
        let body = objects.body(&root.oid);
        let table = body.len() - raw_of(&map).len();
        for at in 0..table {
            let mut changed = body.clone();
            changed[at] ^= 1;
            assert!(git.children(Kind::Node, &changed, &mut |_, _| ()).is_err(), "byte {at} of {count} entries");
            let object = bristlecone_core::Object::from_body(Kind::Node, changed[..].into());
            assert!(git.object_id(&objects, &object).is_err());
        }
    }
}

#[test]
fn what_git_cannot_hold_is_refused() {
    let git = Git::sha1();
    let mut objects = Objects::default();
    let value = objects.with(&git, |_, put| git.put_contents(put, b"x")).unwrap();
    let held = Held::new(EntryKind::Value, value);
    let foreign = Held::new(EntryKind::Foreign, value);
    let long = Held::new(EntryKind::Value, Oid::from_array([7; 32]).into());
    let zero = Held::new(EntryKind::Value, Oid::new(&[0; 20]).unwrap().into());
    let dir = Mode::spelled(EntryKind::Dir, b"040000").unwrap();
    let mut wrong_kind = foreign.change(b"a");
    wrong_kind.to = Some((EntryKind::Dir, wrong_kind.to.unwrap().1));
    let changes =
        [long.change(b"a"), zero.change(b"a"), Held { mode: dir, ..held }.change(b"a"), wrong_kind, held.change(b"")];
    for change in changes {
        let refused = objects.update(&git, None, &[change]);
        assert!(matches!(refused, Err(FormatError::Unsupported { format: "git", .. })), "{change:?}");
    }
    assert!(objects.update(&git, None, &[held.change(b"a")]).is_ok());
}

#[test]
fn an_empty_tree_to_which_nothing_is_added_stays() {
    for git in BOTH {
        let mut objects = Objects::default();
        let empty = objects.with(&git, |_, put| git.empty_dir(put)).unwrap();
        assert_eq!(objects.update(&git, Some(empty), &[]), Ok(Some(empty)));
        assert_eq!(objects.update(&git, Some(empty), &[gone(b"a"), gone(b"b")]), Ok(Some(empty)));
        // One that loses its last entry is gone.
        let value = objects.with(&git, |_, put| git.put_contents(put, b"x")).unwrap();
        let root = objects.update(&git, Some(empty), &[Held::new(EntryKind::Value, value).change(b"a")]).unwrap();
        assert_eq!(objects.update(&git, root, &[gone(b"a"), gone(b"b")]), Ok(None));
    }
}

#[test]
fn values_never_live_in_their_directory() {
    let git = Git::sha1();
    let mut objects = Objects::default();
    let inline = |value| Some((EntryKind::Link, bristlecone_core::ChangeTarget::Inline(value)));
    let change = |step, value| Change { step, mode: Mode::USUAL, to: inline(value) };
    let root = objects.update(&git, None, &[change(b"a", b""), change(b"b", b"text")]).unwrap().unwrap();
    for (step, value) in [(b"a", &b""[..]), (b"b", b"text")] {
        let Some((EntryKind::Link, Target::Object { at, .. })) = git.find(&objects, &root, step).unwrap() else {
            panic!("no link")
        };
        assert_eq!(git.read_contents(&objects, &at, 0..9).unwrap(), value);
    }
}

#[test]
fn locations_that_nobody_has_take_no_room() {
    let git = Git::sha1();
    let mut objects = Objects::default();
    let nowhere = ObjRef::from(Oid::new(&[9; 20]).unwrap());
    let held = Held::new(EntryKind::Value, nowhere);
    let root = objects.update(&git, None, &[held.change(b"a"), held.change(b"b")]).unwrap().unwrap();
    let children = |objects: &Objects, root: &ObjRef| {
        use bristlecone_core::Source;
        objects.read(Kind::Node, root).unwrap().children()
    };
    assert_eq!(children(&objects, &root), 0);
    let value = objects.with(&git, |_, put| git.put_contents(put, b"x")).unwrap();
    let root = objects.update(&git, Some(root), &[Held::new(EntryKind::Value, value).change(b"aa")]).unwrap().unwrap();
    assert_eq!(children(&objects, &root), 3);
    for (name, at) in [(&b"a"[..], Location::NONE), (b"aa", value.at), (b"b", Location::NONE)] {
        let Some((_, Target::Object { at: found, .. })) = git.find(&objects, &root, name).unwrap() else { panic!() };
        assert_eq!(found.at, at);
    }
}
