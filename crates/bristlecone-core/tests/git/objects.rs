//! Objects in records, which are lent or not.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Mutex,
};

use bristlecone_core::{
    Bytes, Change, ChangeTarget, EntryKind, Format, FormatError, Kind, Location, Mode, ObjRef, Object, Oid, Record,
    Sink, Source, git::Git, write_record,
};

/// SplitMix64.
pub(super) struct Random(pub(super) u64);

impl Random {
    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.0;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^ (word >> 31)
    }

    pub(super) fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound.max(1) as u64) as usize
    }
}

/// A cell that threads can share.
#[derive(Default)]
pub(super) struct Cell<T>(Mutex<T>);

impl<T: Copy> Cell<T> {
    pub(super) fn get(&self) -> T {
        *self.0.lock().unwrap()
    }

    pub(super) fn set(&self, value: T) {
        *self.0.lock().unwrap() = value;
    }
}

/// Records, each of which stands at its number.
#[derive(Default)]
pub(super) struct Objects {
    records: Vec<&'static [u8]>,
    places: HashMap<Oid, u64>,
    /// Whether records are lent.
    pub(super) lends: Cell<bool>,
    pub(super) reads: Cell<usize>,
    puts: Cell<usize>,
}

impl Objects {
    pub(super) fn body(&self, oid: &Oid) -> Vec<u8> {
        self.object(oid).unwrap().body().to_vec()
    }

    fn object(&self, oid: &Oid) -> Option<Object<'static>> {
        let place = *self.places.get(oid)?;
        let bytes = self.records[place as usize];
        let record = Record::parse(bytes).unwrap();
        Some(Object::from_record(&record, Bytes::from(bytes), Location(place)))
    }

    /// Takes a record under this id, whatever it holds.
    pub(super) fn keep(
        &mut self,
        kind: Kind,
        oid: Oid,
        body: &[u8],
        children: &[Location],
        metadata: &[u64],
    ) -> Location {
        let mut record = Vec::new();
        write_record(&mut record, kind, &oid, body, children, metadata);
        // Without the padding behind it.
        record.truncate(Record::parse(&record).unwrap().bytes() as usize);
        let place = self.records.len() as u64;
        self.records.push(record.leak());
        self.places.insert(oid, place);
        Location(place)
    }

    pub(super) fn puts(&self) -> usize {
        self.puts.get()
    }
}

impl Source for Objects {
    type Error = FormatError;

    fn peek(&self, oid: &[u8], at: Location) -> Option<&[u8]> {
        let record = self.records.get(usize::try_from(at.0).ok()?).filter(|_| self.lends.get())?;
        (Record::parse(record).ok()?.oid == oid).then_some(*record)
    }

    fn read<'a>(&'a self, kind: Kind, at: &ObjRef) -> Result<Object<'a>, FormatError> {
        self.reads.set(self.reads.get() + 1);
        self.object(&at.oid).ok_or(FormatError::Inconsistent { kind, reason: "it is missing" })
    }
}

/// An object that a sink was given.
struct New {
    kind: Kind,
    oid: Oid,
    body: Vec<u8>,
    children: Vec<Location>,
    metadata: Vec<u64>,
}

/// Takes what is new, as a sink beside the source.
#[derive(Default)]
pub(super) struct Put {
    new: Vec<New>,
    known: HashMap<Oid, Location>,
}

impl Sink for Put {
    fn put(&mut self, kind: Kind, oid: Oid, body: &[u8], children: &[Location], metadata: &[u64]) -> Location {
        // Where the record will stand once it is taken over.
        let at = Location((self.known.len() + self.new.len()) as u64);
        self.new.push(New { kind, oid, body: body.to_vec(), children: children.to_vec(), metadata: metadata.to_vec() });
        at
    }

    fn known(&self, oid: &Oid) -> Option<Location> {
        self.known.get(oid).copied()
    }
}

impl Objects {
    /// Does something with a sink and takes over what it was given, every object of which must be sound.
    pub(super) fn with<T>(&mut self, git: &Git, does: impl FnOnce(&Self, &mut Put) -> T) -> T {
        let known = self.places.iter().map(|(oid, place)| (*oid, Location(*place))).collect();
        let mut put = Put { new: Vec::new(), known };
        let done = does(self, &mut put);
        for New { kind, oid, body, children, metadata } in put.new {
            let mut found = 0;
            git.children(kind, &body, &mut |_, _| found += 1).unwrap();
            assert!(children.is_empty() || children.len() == found, "a location for every child, or none");
            assert_eq!(git.object_id(self, &Object::from_body(kind, body[..].into())), Ok(oid));
            assert!(!self.places.contains_key(&oid), "nothing is written twice");
            self.keep(kind, oid, &body, &children, &metadata);
            self.puts.set(self.puts.get() + 1);
        }
        done
    }

    pub(super) fn update(
        &mut self,
        git: &Git,
        base: Option<ObjRef>,
        changes: &[Change<'_>],
    ) -> Result<Option<ObjRef>, FormatError> {
        self.with(git, |objects, put| git.update(objects, put, base.as_ref(), changes))
    }

    pub(super) fn build(&mut self, git: &Git, map: &Map) -> Option<ObjRef> {
        let changes: Vec<Change<'_>> = map.iter().map(|(step, held)| held.change(step)).collect();
        self.update(git, None, &changes).unwrap()
    }
}

/// A directory as it should be.
pub(super) type Map = BTreeMap<Vec<u8>, Held>;

/// What a name is bound to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Held {
    pub(super) kind: EntryKind,
    pub(super) at: ObjRef,
    pub(super) mode: Mode,
}

impl Held {
    pub(super) const fn new(kind: EntryKind, at: ObjRef) -> Self {
        Self { kind, at, mode: Mode::USUAL }
    }

    pub(super) const fn change<'c>(&self, step: &'c [u8]) -> Change<'c> {
        let to = match self.kind {
            EntryKind::Foreign => ChangeTarget::Foreign(self.at.oid),
            _ => ChangeTarget::Object { at: self.at, bytes: 5 },
        };
        Change { step, mode: self.mode, to: Some((self.kind, to)) }
    }
}

pub(super) const fn gone(step: &[u8]) -> Change<'_> {
    Change { step, mode: Mode::USUAL, to: None }
}

/// Git's bytes of a directory, from their definition.
pub(super) fn raw_of(map: &Map) -> Vec<u8> {
    let mut entries: Vec<(Vec<u8>, Vec<u8>)> = map
        .iter()
        .map(|(step, held)| {
            let mut key = step.clone();
            if held.kind == EntryKind::Dir {
                key.push(b'/');
            }
            let mode = if held.mode.is_usual() { held.kind.git_mode().as_bytes() } else { held.mode.as_bytes() };
            (key, [mode, b" ", step, b"\0", held.at.oid.as_bytes()].concat())
        })
        .collect();
    entries.sort();
    entries.into_iter().flat_map(|(_, entry)| entry).collect()
}
