//! Cursors, ranks and loads against a sorted map, and over pieces that lie.

use super::{super::cursor::view, *};
use crate::RecordHeader;

/// Goes through everything that a cursor can do; returns whether all of it succeeded.
fn wander(native: &Native, objects: &Objects, root: &ObjRef, state: &mut u64) -> bool {
    let mut cursor = EntryCursor::new(objects, Some(*root));
    let mut sound = true;
    for _ in 0..60 {
        let step = alloc::format!("{}", random(state) % 4000).into_bytes();
        sound &= match random(state) % 8 {
            0 => cursor.seek(&step).is_ok(),
            1 => cursor.seek_nth(random(state) % 4000).is_ok(),
            2 => cursor.seek_end().is_ok(),
            3 => native.rank(objects, root, &step).is_ok(),
            4 | 5 => (0..50).all(|_| cursor.previous().is_ok()),
            _ => (0..50).all(|_| cursor.next().is_ok()),
        };
        sound &= match cursor.entry() {
            Ok(Some(entry)) => entry.inline().is_some() | entry.bound().is_ok(),
            entry => entry.is_ok(),
        };
    }
    sound
}

#[test]
fn cursors_over_hostile_pieces_neither_panic_nor_go_on_for_ever() {
    let native = Native::new();
    let objects = Objects::default();
    let map: Map = (0..3000u32).map(|n| (alloc::format!("{n}").into_bytes(), vec![1; n as usize % 40])).collect();
    let root = build(&objects, &native, &map).unwrap();
    let mut state = 17;
    assert!(wander(&native, &objects, &root, &mut state), "sound pieces are walked");
    let sound: Vec<(Oid, Vec<u8>)> =
        objects.objects.read().unwrap().iter().map(|(oid, (_, body))| (*oid, body.clone())).collect();
    let mut refused = 0;
    for _ in 0..2000 {
        // The root in half of the rounds: every way goes through it.
        let index = random(&mut state) as usize % sound.len();
        let (oid, body) = if random(&mut state).is_multiple_of(2) {
            sound.iter().find(|(oid, _)| *oid == root.oid).unwrap()
        } else {
            &sound[index]
        };
        let mut hostile = body.clone();
        for _ in 0..1 + random(&mut state) % 4 {
            let at = random(&mut state) as usize % hostile.len();
            hostile[at] = random(&mut state) as u8;
        }
        if random(&mut state).is_multiple_of(4) {
            hostile.truncate(random(&mut state) as usize % hostile.len());
        }
        objects.objects.write().unwrap().insert(*oid, (Kind::Node, hostile));
        refused += usize::from(!wander(&native, &objects, &root, &mut state));
        objects.objects.write().unwrap().insert(*oid, (Kind::Node, body.clone()));
    }
    assert!(refused > 200, "{refused} rounds met what was wrong");
}

#[test]
fn a_seek_that_fails_leaves_the_cursor_before_the_first_entry() {
    let (native, objects) = (Native::new(), Objects::default());
    let map: Map = (0..3000u32).map(|n| (n.to_be_bytes().to_vec(), vec![1])).collect();
    let root = build(&objects, &native, &map).unwrap();
    let mut last = root;
    let items_at = loop {
        let object = objects.read(Kind::Node, &last).unwrap();
        let node = view(&object).unwrap();
        if node.level == 0 {
            break node.items_at();
        }
        last = node.child(node.len() - 1).unwrap().oid.into();
    };
    assert_ne!(last, root);
    // The leaf has its header, and none of its items.
    objects.objects.write().unwrap().get_mut(&last.oid).unwrap().1.truncate(items_at);
    let mut cursor = EntryCursor::new(&objects, Some(root));
    cursor.seek(&2999u32.to_be_bytes()).unwrap_err();
    assert!(cursor.next().unwrap());
    assert_eq!(cursor.entry().unwrap().unwrap().step(), 0u32.to_be_bytes());
}

/// Counting reads one piece of each level, however many entries there are.
#[test]
fn ranks_and_places_read_one_piece_of_each_level() {
    let native = Native::new();
    let objects = Objects::default();
    let map: Map = (0..20_000u32).map(|n| (n.to_be_bytes().to_vec(), vec![1])).collect();
    let root = build(&objects, &native, &map).unwrap();
    let levels = 1 + usize::from(view(&objects.read(Kind::Node, &root).unwrap()).unwrap().level);
    assert!(levels >= 3, "{levels} levels");
    for index in [0u32, 1, 7777, 19_998, 19_999] {
        *objects.reads.write().unwrap() = 0;
        let rank = native.rank(&objects, &root, &index.to_be_bytes()).unwrap();
        assert_eq!(rank, Rank { before: index.into(), is_bound: true });
        let mut cursor = EntryCursor::new(&objects, Some(root));
        cursor.seek_nth(index.into()).unwrap();
        assert!(cursor.next().unwrap());
        assert_eq!(cursor.entry().unwrap().unwrap().step(), index.to_be_bytes());
        assert_eq!(*objects.reads.read().unwrap(), 2 * levels);
    }
}

/// What a builder holds does not grow with the directory.
#[test]
fn a_load_writes_pieces_as_soon_as_they_end() {
    let objects = Objects::default();
    let mut builder = DirBuilder::new(Native::new());
    for n in 0..20_000u32 {
        let mut sink = Put(&objects, 0);
        builder.push(&mut sink, &n.to_be_bytes(), EntryKind::Value, &ChangeTarget::Inline(b"1")).unwrap();
        if n % 1000 == 0 {
            let written: u64 = objects.objects.read().unwrap().len() as u64 * 33;
            assert!(written + 3000 > u64::from(n), "{written} of {n} entries are written, about");
        }
    }
    let root = builder.finish(&mut Put(&objects, 0)).unwrap();
    let map: Map = (0..20_000u32).map(|n| (n.to_be_bytes().to_vec(), b"1".to_vec())).collect();
    assert_eq!(root, build(&Objects::default(), &Native::new(), &map).unwrap());
}

/// Objects as records that are lent.
struct Lending(HashMap<Oid, Vec<u8>>);

impl Lending {
    fn of(objects: &Objects) -> Self {
        let record = |(oid, (kind, body)): (&Oid, &(Kind, Vec<u8>))| {
            let mut record = Vec::new();
            crate::write_record(&mut record, *kind, oid, body, &[], &[]);
            record.truncate(RecordHeader::first(&record).unwrap().bytes() as usize);
            (*oid, record)
        };
        Self(objects.objects.read().unwrap().iter().map(record).collect())
    }
}

impl Source for Lending {
    type Error = FormatError;

    fn peek(&self, oid: &[u8], _: Location) -> Option<&[u8]> {
        Some(self.0.get(&Oid::new(oid).ok()?)?)
    }

    fn read<'a>(&'a self, _: Kind, _: &ObjRef) -> Result<Object<'a>, FormatError> {
        Err(inconsistent("it is lent, or missing"))
    }
}

/// Goes through all entries; returns how many were found by the fast way.
fn short_entries(lending: &Lending, root: &ObjRef) -> Result<usize, FormatError> {
    let (mut cursor, mut short) = (EntryCursor::new(lending, Some(*root)), 0);
    let mut all = Vec::new();
    while cursor.next()? {
        let found = cursor.short_entry();
        let entry = cursor.entry()?.unwrap();
        if let Some((step, value)) = found {
            assert_eq!((step, Some(value)), (entry.step(), entry.inline()));
            short += 1;
        }
        all.push((entry.step().to_vec(), entry.inline().map(<[u8]>::to_vec)));
    }
    // Backwards, and within a piece without reading.
    while cursor.previous()? {
        let entry = cursor.entry()?.unwrap();
        assert_eq!(all.pop().unwrap(), (entry.step().to_vec(), entry.inline().map(<[u8]>::to_vec)));
        assert!(cursor.short_entry().is_none_or(|(step, _)| step == entry.step()));
    }
    assert!(all.is_empty() && cursor.short_entry().is_none());
    Ok(short)
}

#[test]
fn the_fast_way_to_an_entry_leads_to_what_the_other_one_does() {
    let native = Native::new();
    let objects = Objects::default();
    let value = |n: u32| vec![n as u8; [0, 1, 8, 40, 48][n as usize % 5]];
    let map: Map = (0..3000u32).map(|n| (n.to_be_bytes().repeat(1 + n as usize % 3), value(n))).collect();
    let root = build(&objects, &native, &map).unwrap();
    let mut lending = Lending::of(&objects);
    assert_eq!(short_entries(&lending, &root), Ok(3000));
    // Over pieces that lie it says no more than the other.
    let sound: Vec<(Oid, Vec<u8>)> = lending.0.iter().map(|(oid, record)| (*oid, record.clone())).collect();
    let (mut state, mut refused) = (5, 0);
    for _ in 0..600 {
        let (oid, record) = &sound[random(&mut state) as usize % sound.len()];
        let mut hostile = record.clone();
        let body_at = RecordHeader::first(record).unwrap().body_at() as usize;
        for _ in 0..1 + random(&mut state) % 4 {
            let at = body_at + random(&mut state) as usize % (hostile.len() - body_at);
            hostile[at] = random(&mut state) as u8;
        }
        lending.0.insert(*oid, hostile);
        refused += usize::from(short_entries(&lending, &root).is_err());
        lending.0.insert(*oid, record.clone());
    }
    assert!(refused > 20, "{refused} rounds met what was wrong");
}
