//! What Git's ids depend on: modes, empty directories and annotated tags.

use super::*;
use crate::{Signature, Tag, Zone, record_bytes, write_record};

/// What an entry is bound to, with its mode.
type Bound = (EntryKind, Mode, Target<'static>);

/// A directory as a plain value.
type Dir = BTreeMap<Vec<u8>, Bound>;

/// Objects that are lent as records, or not.
#[derive(Default)]
struct Records {
    records: HashMap<Oid, Vec<u8>>,
    lend: bool,
}

impl Source for Records {
    type Error = FormatError;

    fn peek(&self, oid: &[u8], _: Location) -> Option<&[u8]> {
        if self.lend { self.records.get(&Oid::new(oid).ok()?).map(Vec::as_slice) } else { None }
    }

    fn read<'a>(&'a self, kind: Kind, at: &ObjRef) -> Result<Object<'a>, FormatError> {
        let bytes = self.records.get(&at.oid).ok_or(FormatError::Inconsistent { kind, reason: "it is missing" })?;
        let (record, whole) = record_bytes(bytes).expect("a record");
        assert_eq!(record.kind, kind);
        Ok(Object::from_record(&record, whole.into(), Location::NONE))
    }
}

/// Objects that are added to those.
#[derive(Default)]
struct New(Vec<(Oid, Vec<u8>)>);

impl Sink for New {
    fn put(&mut self, kind: Kind, oid: Oid, body: &[u8], children: &[Location], _: &[u64]) -> Location {
        let native = Native::new();
        let found = super::children_of(kind, body).expect("sound bytes");
        assert_eq!(found.len(), children.len(), "each child has a location");
        assert_eq!(native.object_id(&NoSource, &Object::from_body(kind, body.into())), Ok(oid));
        let mut record = Vec::new();
        write_record(&mut record, kind, &oid, body, children, &[]);
        self.0.push((oid, record));
        Location::NONE
    }

    fn known(&self, _: &Oid) -> Option<Location> {
        None
    }
}

impl Records {
    fn update(&mut self, base: Option<&ObjRef>, changes: &[Change<'_>]) -> Option<ObjRef> {
        let mut new = New::default();
        let root = Native::new().update(self, &mut new, base, changes).unwrap();
        self.records.extend(new.0);
        root
    }

    fn empty_dir(&mut self) -> ObjRef {
        let mut new = New::default();
        let at = Native::new().empty_dir(&mut new).unwrap();
        self.records.extend(new.0);
        at
    }

    fn dir(&self, at: &ObjRef) -> Dir {
        let entries = Native::new().entries(self, at, None, None, Direction::Forward).unwrap();
        entries.map(|entry| owned(entry.unwrap())).collect()
    }
}

fn owned(entry: Entry<'_>) -> (Vec<u8>, Bound) {
    (entry.step.to_vec(), (entry.kind, entry.mode, entry.target.into_static()))
}

fn change<'c>(step: &'c [u8], bound: Option<&'c Bound>) -> Change<'c> {
    let Some((kind, mode, target)) = bound else { return Change { step, mode: Mode::USUAL, to: None } };
    let target = match target {
        Target::Inline(value) => ChangeTarget::Inline(value),
        Target::Object { at, bytes } => ChangeTarget::Object { at: *at, bytes: *bytes },
        Target::Foreign(oid) => ChangeTarget::Foreign(*oid),
    };
    Change { step, mode: *mode, to: Some((*kind, target)) }
}

fn changes(dir: &Dir) -> Vec<Change<'_>> {
    dir.iter().map(|(step, bound)| change(step, Some(bound))).collect()
}

fn inline(value: &[u8]) -> Target<'static> {
    Target::Inline(Bytes::from(value).into_static())
}

fn mode(kind: EntryKind, digits: &[u8]) -> Mode {
    Mode::spelled(kind, digits).unwrap()
}

/// Any binding that Git may have.
fn any_bound(state: &mut u64, empty: ObjRef) -> Bound {
    let other = ObjRef::from(Oid::from_array([random(state) as u8; 32]));
    let (kind, target) = match random(state) % 7 {
        0 => (EntryKind::Executable, inline(&[7; 48][..(random(state) % 48) as usize])),
        1 => (EntryKind::Link, Target::Object { at: other, bytes: 1 + random(state) % 1_000_000 }),
        2 => (EntryKind::Dir, Target::Object { at: other, bytes: 0 }),
        3 => (EntryKind::Dir, Target::Object { at: empty, bytes: 0 }),
        4 => (
            EntryKind::Foreign,
            Target::Foreign(Oid::new(&[9; 32][..[20, 32][other.oid.as_bytes()[0] as usize % 2]]).unwrap()),
        ),
        5 => (EntryKind::Value, Target::Object { at: other, bytes: 49 }),
        _ => (EntryKind::Value, inline(&[random(state) as u8])),
    };
    let spellings: [&[u8]; 5] = [b"100664", b"0", b"040000", b"00000160000", kind.git_mode().as_bytes()];
    let digits = spellings[random(state) as usize % 5];
    (kind, mode(kind, digits), target)
}

#[test]
fn roots_are_those_of_the_entries_with_their_modes() {
    for seed in 1..=24u64 {
        let mut records = Records { lend: seed % 2 == 0, ..Records::default() };
        let empty = records.empty_dir();
        let mut state = seed * 0x9e37_79b9;
        let (mut dir, mut root) = (Dir::new(), None::<ObjRef>);
        let space = [3, 40, 2000][seed as usize % 3];
        for round in 0..30 {
            let mut edits: BTreeMap<Vec<u8>, Option<Bound>> = BTreeMap::new();
            for _ in 0..[1, 2, 60, 400][(random(&mut state) % 4) as usize] {
                let step = alloc::format!("{}", random(&mut state) % space).into_bytes();
                let bound = (random(&mut state) % 30 >= round).then(|| any_bound(&mut state, empty));
                edits.insert(step, bound);
            }
            let list: Vec<Change<'_>> = edits.iter().map(|(step, bound)| change(step, bound.as_ref())).collect();
            let next = records.update(root.as_ref(), &list);
            let before = dir.clone();
            for (step, bound) in &edits {
                match bound {
                    Some(bound) => dir.insert(step.clone(), bound.clone()),
                    None => dir.remove(step),
                };
            }
            let afresh = records.update(None, &changes(&dir));
            assert_eq!(next, afresh, "seed {seed}, round {round}");
            let found: Vec<_> = Native::new()
                .diff(&records, root.as_ref(), next.as_ref(), None, None)
                .unwrap()
                .map(|pair| pair.map(|(before, after)| (before.map(owned), after.map(owned))).unwrap())
                .collect();
            let pick =
                |dir: &Dir, step: &[u8]| dir.get_key_value(step).map(|(step, bound)| (step.clone(), bound.clone()));
            let expected: Vec<_> = edits
                .keys()
                .map(|step| (pick(&before, step), pick(&dir, step)))
                .filter(|(before, after)| before != after)
                .collect();
            assert_eq!(found, expected, "seed {seed}, round {round}");
            root = next;
        }
        if let Some(root) = root {
            assert_eq!(records.dir(&root), dir);
            for (step, (kind, _, target)) in &dir {
                let found = Native::new().find(&records, &root, step).unwrap();
                assert_eq!(found, Some((*kind, target.clone())));
            }
        }
    }
}

#[test]
fn a_mode_is_part_of_the_id_and_stays_until_its_entry_is_bound_anew() {
    let mut records = Records { lend: true, ..Records::default() };
    let odd = mode(EntryKind::Value, b"100664");
    let mut dir: Dir = (0..100u8).map(|n| (vec![n], (EntryKind::Value, Mode::USUAL, inline(b"x")))).collect();
    let usual = records.update(None, &changes(&dir)).unwrap();
    dir.get_mut(&b"7"[..]).unwrap().1 = odd;
    let root = records.update(Some(&usual), &[change(b"7", dir.get(&b"7"[..]))]).unwrap();
    assert_ne!(root, usual);
    let others = [vec![6], vec![8], vec![200]].map(|step| (step, (EntryKind::Value, Mode::USUAL, inline(b"y"))));
    for (step, bound) in others {
        dir.insert(step, bound);
    }
    let edited = records
        .update(Some(&root), &changes(&dir.clone().into_iter().filter(|(_, bound)| bound.2 == inline(b"y")).collect()));
    assert_eq!(edited, records.update(None, &changes(&dir)));
    let again = (EntryKind::Value, Mode::USUAL, inline(b"x"));
    assert_eq!(records.update(Some(&root), &[change(b"7", Some(&again))]), Some(usual));
    // The usual spelling, wherever it was read, is the usual mode.
    let of_a_dir = (EntryKind::Value, mode(EntryKind::Dir, b"100644"), inline(b"x"));
    assert!(!of_a_dir.1.is_usual());
    assert_eq!(records.update(Some(&root), &[change(b"7", Some(&of_a_dir))]), Some(usual));
}

#[test]
fn a_directory_of_one_entry_keeps_modes_too() {
    let mut records = Records { lend: true, ..Records::default() };
    let (kind, odd) = (EntryKind::Executable, mode(EntryKind::Executable, b"100775"));
    let one = records.update(None, &[change(b"only", Some(&(kind, odd, inline(b"1"))))]).unwrap();
    let usual = records.update(Some(&one), &[change(b"only", Some(&(kind, Mode::USUAL, inline(b"1"))))]).unwrap();
    let back = records.update(Some(&usual), &[change(b"only", Some(&(kind, odd, inline(b"1"))))]);
    assert!(one != usual && back == Some(one));
    assert_eq!(records.dir(&one)[&b"only"[..]].1, odd);
    assert_eq!(Native::new().find(&records, &one, b"only"), Ok(Some((kind, inline(b"1")))));
}

#[test]
fn walks_go_through_directories_with_modes() {
    for lend in [false, true] {
        for siblings in [0u8, 1, 3, 90] {
            let mut records = Records { lend, ..Records::default() };
            let mut at = None::<ObjRef>;
            for depth in (0..6).rev() {
                let mut dir: Dir = (0..siblings)
                    .map(|n| {
                        (vec![b'a', n], any_bound(&mut (u64::from(n) + 1), ObjRef::from(Oid::from_array([1; 32]))))
                    })
                    .collect();
                let below = match at {
                    Some(at) => (EntryKind::Dir, Target::Object { at, bytes: 0 }),
                    None => (EntryKind::Value, inline(b"leaf")),
                };
                let digits: &[u8] = [b"040000", below.0.git_mode().as_bytes()][depth % 2];
                dir.insert(b"x".to_vec(), (below.0, mode(below.0, digits), below.1));
                at = records.update(None, &changes(&dir));
            }
            let root = at.unwrap();
            let native = Native::new();
            let last = native.descend(&records, &root, b"x/x/x/x/x").unwrap().unwrap();
            assert_eq!(native.find(&records, &last, b"x"), Ok(Some((EntryKind::Value, inline(b"leaf")))));
            for nothing in [&b"x/x/y"[..], b"x/x/x/x/x/x", b"x/x/x/x/x/x/x", b"y"] {
                assert_eq!(native.descend(&records, &root, nothing), Ok(None));
            }
        }
    }
}

#[test]
fn the_empty_directory_is_kept_where_it_was_put() {
    let mut records = Records::default();
    let native = Native::new();
    let empty = records.empty_dir();
    let bound = (EntryKind::Dir, Mode::USUAL, Target::Object { at: empty, bytes: 0 });
    let root = records.update(None, &[change(b"empty", Some(&bound))]).unwrap();
    assert_eq!(records.dir(&root), Dir::from([(b"empty".to_vec(), bound)]));
    assert_eq!(native.descend(&records, &root, b"empty"), Ok(Some(empty)));
    assert_eq!((native.count(&records, &empty), records.dir(&empty)), (Ok(0), Dir::new()));
    let mut children = Vec::new();
    let record = native.children(Kind::Node, records.read(Kind::Node, &root).unwrap().body(), &mut |kind, oid| {
        children.push((kind, oid));
    });
    assert_eq!((record, children), (Ok(()), vec![(Kind::Node, empty.oid)]));
    assert_eq!(records.update(Some(&root), &[change(b"empty", None)]), None);
    // What removes nothing changes nothing.
    assert_eq!(records.update(Some(&empty), &[change(b"x", None)]), Some(empty));
    let value = (EntryKind::Value, Mode::USUAL, inline(b"1"));
    let filled = records.update(Some(&empty), &[change(b"x", Some(&value))]).unwrap();
    assert_eq!(Some(filled), records.update(None, &[change(b"x", Some(&value))]));
    assert_eq!(records.update(Some(&filled), &[change(b"x", None)]), None);
}

#[test]
fn a_mode_has_one_encoding() {
    let leaf = |tag: u8, mode: &[u8]| {
        let mut item = vec![tag, 1, b'a', mode.len() as u8];
        item.extend_from_slice(mode);
        item.extend_from_slice(&[1, b'x']);
        let mut body = vec![0, 4, 1, 0, step_hash(b"a") as u8, item.len() as u8, 0];
        body.extend(item);
        body
    };
    let native = Native::new();
    let ask = |body: &[u8]| {
        let objects = Objects::default();
        let root = ObjRef::from(Oid::from_array([1; 32]));
        objects.objects.write().unwrap().insert(root.oid, (Kind::Node, body.to_vec()));
        let listed =
            native.entries(&objects, &root, None, None, Direction::Forward).unwrap().all(|entry| entry.is_ok());
        let checked = super::children_of(Kind::Node, body).is_ok();
        assert_eq!((listed, checked), (checked, native.find(&objects, &root, b"a").is_ok()));
        checked
    };
    for sound in [&b"100664"[..], b"0", b"0100644", b"40000", b"77777777777"] {
        assert!(ask(&leaf(8 | 16, sound)), "{sound:?}");
    }
    for wrong in [&b""[..], b"100644", b"100648", b"1006 4", b"+100664", b"777777777777"] {
        assert!(!ask(&leaf(8 | 16, wrong)), "{wrong:?}");
    }
    // No other bit of the tag means anything.
    for bit in [32, 64, 128] {
        assert!(!ask(&leaf(8 | 16 | bit, b"100664")));
    }
}

#[test]
fn tags_come_back_whole() {
    let native = Native::new();
    let who = Signature { ident: b"\xff <>".to_vec(), seconds: -1, zone: Zone::from_bytes(b"-51800") };
    let plain = Tag {
        target: ObjRef::from(Oid::from_array([3; 32])),
        kind: Kind::Commit,
        name: b"v1.0\n".to_vec(),
        tagger: Some(who),
        headers: vec![],
        message: b"why\n".to_vec(),
    };
    let raw = (b"git-raw".to_vec(), b"object 00\n".to_vec());
    let mut tags = vec![plain.clone(), Tag { tagger: None, headers: vec![raw.clone(), raw], ..plain.clone() }];
    for kind in [Kind::Contents, Kind::Node, Kind::Pieces, Kind::Tag] {
        tags.push(Tag { kind, name: vec![], message: vec![], ..plain.clone() });
    }
    let mut ids = Vec::new();
    for tag in tags {
        let mut new = New::default();
        let at = native.put_tag(&mut new, &tag).unwrap();
        let mut records = Records::default();
        records.records.extend(new.0);
        let object = records.read(Kind::Tag, &at).unwrap();
        assert_eq!(native.decode_tag(&object), Ok(tag.clone()));
        let mut children = Vec::new();
        native.children(Kind::Tag, object.body(), &mut |kind, oid| children.push((kind, oid))).unwrap();
        assert_eq!(children, [(tag.kind, tag.target.oid)]);
        for cut in 0..object.body().len() {
            assert!(native.children(Kind::Tag, &object.body()[..cut], &mut |_, _| ()).is_err());
        }
        for wrong in [0, 6, 255] {
            let body = [&[wrong], &object.body()[1..]].concat();
            assert!(native.children(Kind::Tag, &body, &mut |_, _| ()).is_err());
        }
        assert!(native.children(Kind::Tag, &[object.body(), &[0]].concat(), &mut |_, _| ()).is_err());
        // A tag is no commit with the same bytes.
        let commit = Object::from_body(Kind::Commit, object.body().into());
        assert_ne!(native.object_id(&NoSource, &commit), Ok(at.oid));
        ids.push(at.oid);
    }
    ids.sort_by_key(|oid| *oid.padded());
    ids.dedup();
    assert_eq!(ids.len(), 6, "every field counts");
    let short = Tag { target: ObjRef::from(Oid::new(&[3; 20]).unwrap()), ..plain };
    assert!(matches!(native.put_tag(&mut New::default(), &short), Err(FormatError::Unsupported { .. })));
}
