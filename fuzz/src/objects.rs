//! Objects of a format, decoded from an input: they need not fit each other, nor be sound.

use std::{
    collections::HashMap,
    sync::atomic::{AtomicUsize, Ordering::Relaxed},
};

use bristlecone_core::{
    Format, FormatError, Kind, Location, ObjRef, Object, Oid, Sink, Source, record_bytes, write_record,
};

use crate::input::Input;

/// No question about a directory of an input takes as many reads: a walk that does has no end.
const READS_MAX: usize = 50_000;

/// Objects by id.
#[derive(Debug, Default)]
pub(crate) struct Store {
    objects: HashMap<Oid, (Kind, Vec<u8>)>,
    /// The same as records, to be lent.
    records: HashMap<Oid, Vec<u8>>,
    lends: bool,
    reads: AtomicUsize,
}

/// The objects of an input, in its order: of each its id, and whether its body is one of the format.
pub(crate) struct Decoded {
    pub(crate) store: Store,
    pub(crate) ids: Vec<Oid>,
    pub(crate) all_decode: bool,
}

impl Store {
    fn insert(&mut self, kind: Kind, oid: Oid, body: &[u8], children: &[Location]) {
        let mut record = Vec::new();
        write_record(&mut record, kind, &oid, body, children, &[]);
        self.records.insert(oid, record_bytes(&record).expect("a record just written").1.to_vec());
        self.objects.insert(oid, (kind, body.to_vec()));
    }

    /// Begins another question. `lends`: whether objects are lent where they lie, besides being read.
    pub(crate) fn begin(&mut self, lends: bool) {
        *self.reads.get_mut() = 0;
        self.lends = lends;
    }

    fn count_read(&self) {
        assert!(self.reads.fetch_add(1, Relaxed) + 1 < READS_MAX, "a walk without an end");
    }
}

impl Source for Store {
    type Error = FormatError;

    fn peek(&self, oid: &[u8], _: Location) -> Option<&[u8]> {
        self.count_read();
        let oid = Oid::new(oid).ok().filter(|_| self.lends)?;
        self.records.get(&oid).map(Vec::as_slice)
    }

    fn read<'a>(&'a self, kind: Kind, at: &ObjRef) -> Result<Object<'a>, FormatError> {
        self.count_read();
        match self.objects.get(&at.oid) {
            Some((found, body)) if *found == kind => Ok(Object::from_body(kind, body[..].into())),
            _ => Err(FormatError::Inconsistent { kind, reason: "it is missing" }),
        }
    }
}

impl Sink for Store {
    fn put(&mut self, kind: Kind, oid: Oid, body: &[u8], children: &[Location], _: &[u64]) -> Location {
        self.insert(kind, oid, body, children);
        Location::NONE
    }

    fn known(&self, _: &Oid) -> Option<Location> {
        None
    }
}

/// The bytes of the ids of a value of [`VALUE_BYTES`] bytes and of an empty directory, which every input can name.
pub(crate) const VALUE_ID: u8 = 0xdd;
pub(crate) const DIR_ID: u8 = 0xcc;
pub(crate) const VALUE_BYTES: usize = 300;

/// Takes the object that it is given.
#[derive(Default)]
struct Body(Vec<u8>);

impl Sink for Body {
    fn put(&mut self, _: Kind, _: Oid, body: &[u8], _: &[Location], _: &[u64]) -> Location {
        self.0 = body.to_vec();
        Location::NONE
    }

    fn known(&self, _: &Oid) -> Option<Location> {
        None
    }
}

/// The id whose bytes are all the same.
pub(crate) fn id_of(byte: u8, oid_bytes: usize) -> Oid {
    Oid::new(&vec![byte; oid_bytes]).expect("an id of the format's length")
}

fn with_leaves<F: Format>(format: &F, oid_bytes: usize) -> Store {
    let mut store = Store::default();
    store.insert(Kind::Contents, id_of(VALUE_ID, oid_bytes), &[7; VALUE_BYTES], &[]);
    let mut empty = Body::default();
    if format.empty_dir(&mut empty).is_ok() {
        store.insert(Kind::Node, id_of(DIR_ID, oid_bytes), &empty.0, &[]);
    }
    store
}

/// Reads objects up to the end of the input, of each its kind as `kind` reads it, and its body as a run. Object `n`, the first being
/// 1, can name an earlier one `m` by an id of bytes that are all `m`: the id that it has in truth takes the place of it. Any other id
/// stays as it is.
pub(crate) fn decode<F: Format>(
    format: &F,
    oid_bytes: usize,
    input: &mut Input<'_>,
    kind: impl Fn(&mut Input<'_>) -> Kind,
) -> Decoded {
    let mut decoded = Decoded { store: with_leaves(format, oid_bytes), ids: Vec::new(), all_decode: true };
    while !input.is_empty() && decoded.ids.len() < 250 {
        let kind = kind(input);
        let body = with_true_ids(input.run(), oid_bytes, &decoded.ids);
        let mut children = Vec::new();
        let accepted = format.children(kind, &body, &mut |_, _| children.push(Location::NONE)).is_ok();
        let object = Object::from_body(kind, body[..].into());
        decoded.store.begin(false);
        let own = format.object_id(&decoded.store, &object);
        decoded.all_decode &= accepted && own.is_ok();
        let number = decoded.ids.len() as u8 + 1;
        let oid = own.unwrap_or_else(|_| id_of(number, oid_bytes));
        decoded.store.insert(kind, oid, &body, &children);
        decoded.ids.push(oid);
    }
    decoded
}

fn with_true_ids(body: &[u8], oid_bytes: usize, ids: &[Oid]) -> Vec<u8> {
    let mut body = body.to_vec();
    let mut at = 0;
    while at + oid_bytes <= body.len() {
        let number = body[at];
        let known = usize::from(number).checked_sub(1).and_then(|index| ids.get(index));
        match known {
            Some(oid) if body[at..at + oid_bytes].iter().all(|&byte| byte == number) => {
                body[at..at + oid_bytes].copy_from_slice(oid.as_bytes());
                at += oid_bytes;
            }
            _ => at += 1,
        }
    }
    body
}
