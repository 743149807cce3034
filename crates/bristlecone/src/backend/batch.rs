//! A batch: new objects for a backend, as one run of records.

use std::{collections::HashMap, fmt};

use bristlecone_core::{Kind, Location, ObjRef, Object, Oid, Record, RecordHeader, Sink, record_bytes, write_record};

use self::index::{BatchIndex, RecordPlace};
use super::{RefMove, RefTarget};
use crate::{Error, oid_map::OidSet};

mod index;

/// New objects, children before parents, as one run of records that any backend takes as it is.
///
/// The bytes do not depend on where they will be appended, so a batch is prepared outside every lock.
#[derive(Clone, Default)]
pub struct Batch {
    bytes: Vec<u8>,
    // Where each record is, in order.
    list: Vec<RecordPlace>,
    // The same by id, so that an object is kept once; made when the list gets long.
    index: Option<BatchIndex>,
    // Objects that are not in it since the store had them, when `sweeps` sweeps had begun.
    left_out: Vec<Oid>,
    sweeps: u64,
    // Objects that the backend need not have, since a store below it has them.
    elsewhere: OidSet,
}

/// A list of up to this many objects is searched from end to end; a longer one has an index.
const LIST_MAX: usize = 32;
/// Bytes that a commit of one entry takes; a batch starts with so much.
const BYTES_FIRST: usize = 6 << 10;

impl Batch {
    /// The most bytes in a batch: offsets have 32 bits, and a margin is kept for framing.
    pub const BYTES_MAX: usize = (u32::MAX - (1 << 20)) as usize;

    /// Fails if there are more bytes than can be appended. Every backend asks before it looks at anything: offsets beyond lead
    /// astray.
    ///
    /// # Errors
    /// [`Error::TooLarge`] beyond [`Batch::BYTES_MAX`].
    pub fn check_size(&self) -> Result<(), Error> {
        let (bytes, bytes_max) = (self.bytes.len() as u64, Self::BYTES_MAX as u64);
        if bytes > bytes_max { Err(Error::TooLarge { what: "a batch", bytes, bytes_max }) } else { Ok(()) }
    }

    /// Returns an empty batch.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns an empty batch that writes into `buffer`, which is cleared.
    #[must_use]
    pub fn with_buffer(mut buffer: Vec<u8>) -> Self {
        buffer.clear();
        Self { bytes: buffer, ..Self::default() }
    }

    /// Returns an empty batch, made when `sweeps` sweeps have begun ([`crate::Backend::sweeps`]): objects that it leaves
    /// out are looked up after that.
    #[must_use]
    pub fn since(sweeps: u64) -> Self {
        Self { sweeps, ..Self::default() }
    }

    /// Notes that an object is not in the batch since the store has it. If a sweep begins before the batch is appended, the
    /// backend looks again.
    pub fn leave_out(&mut self, oid: Oid) {
        self.left_out.push(oid);
    }

    /// Forgets what was left out behind the first `kept` objects that were.
    pub(crate) fn forget_left_out(&mut self, kept: usize) {
        self.left_out.truncate(kept);
    }

    /// Returns the objects that are not in the batch since the store had them, and after how many sweeps it had.
    #[must_use]
    pub fn left_out(&self) -> (&[Oid], u64) {
        (&self.left_out, self.sweeps)
    }

    /// Returns the objects that a backend has to have for the batch to be appended with these moves: those that it left out,
    /// and those that refs are to lead to, where they are not in it. None of them can be gone, and none is returned, unless a
    /// sweep has begun since the batch was made: `sweeps` have by now.
    #[must_use]
    pub fn needed(&self, moves: &[RefMove], sweeps: u64) -> Vec<Oid> {
        if sweeps == self.sweeps {
            return Vec::new();
        }
        let targets = moves.iter().filter_map(|wanted| match &wanted.to {
            Some(RefTarget::Object(at)) => Some(at.oid),
            Some(RefTarget::Symbolic(_)) | None => None,
        });
        // One that was left out at first may have been put since: a sweep had dropped it.
        let is_needed = |oid: &Oid| self.known(oid).is_none() && !self.elsewhere.contains(oid);
        self.left_out.iter().copied().chain(targets).filter(is_needed).collect()
    }

    /// Notes that a store below the backend has an object, which [`Batch::needed`] then leaves out.
    pub(super) fn note_elsewhere(&mut self, oid: Oid) {
        self.elsewhere.insert(oid);
    }

    /// Returns the records, one after another, each padded to 8 bytes.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns the records, owned.
    #[must_use]
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    /// Removes every object and keeps the memory.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.list.clear();
        self.index = None;
        self.left_out.clear();
        self.elsewhere.clear();
    }

    /// Returns the number of objects.
    #[must_use]
    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// Whether there are no objects.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Returns the id and offset of every object, in order. Cheaper than [`Batch::records`].
    pub fn offsets(&self) -> impl DoubleEndedIterator<Item = (Oid, u32)> {
        self.list.iter().map(|place| match Oid::new(self.oid_at(place.at())) {
            Ok(oid) => (oid, place.at()),
            Err(_) => unreachable!("a batch holds records of its own making"),
        })
    }

    /// Returns [`Oid::prefix`] and offset of every object, in order, which is cheaper still.
    pub(crate) fn prefixes(&self) -> impl Iterator<Item = (u64, u32)> {
        self.list.iter().map(|place| {
            let header = RecordHeader::first(&self.bytes[place.at() as usize..]);
            let prefix = header.and_then(|header| header.padded_oid().first_chunk().copied());
            (u64::from_le_bytes(prefix.unwrap_or_default()), place.at())
        })
    }

    /// Returns the id of the record at an offset.
    #[inline]
    fn oid_at(&self, at: u32) -> &[u8] {
        RecordHeader::first(&self.bytes[at as usize..]).and_then(RecordHeader::oid).unwrap_or_default()
    }

    /// Returns the offset of the object with this id.
    #[inline]
    fn find(&self, oid: &[u8]) -> Option<u32> {
        let is_it = |at: u32| RecordHeader::first(&self.bytes[at as usize..]).is_some_and(|header| header.is_of(oid));
        match &self.index {
            Some(index) => index.find(oid, is_it),
            None => self.list.iter().find(|place| place.may_be(oid) && is_it(place.at())).map(|place| place.at()),
        }
    }

    /// Returns an object of the batch that is at a pending location, or wherever it is if it has none; its children that
    /// are in the batch, too, are at pending locations.
    pub(crate) fn read(&self, object: &ObjRef) -> Option<Object<'_>> {
        let at = object.at.pending_offset().map_or_else(|| self.known(&object.oid), |_| Some(object.at))?;
        let rest = self.bytes.get(at.pending_offset()? as usize..)?;
        let record = Record::parse(rest).ok().filter(|record| record.oid == object.oid.as_bytes())?;
        Some(Object::from_record(&record, rest[..record.bytes() as usize].into(), at))
    }

    /// Returns the records in order.
    pub fn records(&self) -> impl Iterator<Item = BatchRecord<'_>> {
        let mut offset = 0;
        std::iter::from_fn(move || {
            let rest = self.bytes.get(offset..).filter(|rest| !rest.is_empty())?;
            let (record, bytes) = record_bytes(rest).expect("a batch holds records of its own making");
            let at = offset as u32;
            offset = (offset + bytes.len()).next_multiple_of(8);
            Some(BatchRecord { record, bytes, offset: at })
        })
    }
}

/// Where the objects of a batch are in the one that absorbed it.
#[derive(Debug)]
pub(crate) struct Absorbed {
    // Added to each offset, unless some of the objects were there already.
    base: u64,
    moved: Option<HashMap<u64, Location>>,
}

impl Absorbed {
    /// Returns where something is now that was pending in the absorbed batch.
    pub(crate) fn place(&self, at: Location) -> Location {
        match (at.pending_offset(), &self.moved) {
            (None, _) => at,
            (Some(offset), None) => Location::pending(offset + self.base),
            (Some(offset), Some(moved)) => moved.get(&offset).copied().unwrap_or(Location::NONE),
        }
    }
}

impl Batch {
    /// Takes in the objects of a batch that was made beside this one, in order, those it has already left out: as
    /// if they had been put here.
    pub(crate) fn absorb(&mut self, mut other: Self) -> Absorbed {
        let base = self.bytes.len() as u64;
        self.left_out.append(&mut other.left_out);
        self.sweeps = self.sweeps.min(other.sweeps);
        if base == 0 {
            (self.bytes, self.list, self.index) = (other.bytes, other.list, other.index);
            return Absorbed { base, moved: None };
        }
        if other.list.iter().all(|place| self.find(other.oid_at(place.at())).is_none()) {
            // Children are named by their distance, so the records are as good here as there.
            self.bytes.extend_from_slice(&other.bytes);
            self.list.reserve(other.list.len());
            if let Some(index) = &mut self.index {
                index.reserve(&self.list, other.list.len());
            }
            for place in &other.list {
                self.note(place.behind(base as u32));
            }
            return Absorbed { base, moved: None };
        }
        let mut moved = HashMap::with_capacity(other.list.len());
        for BatchRecord { record, bytes, offset } in other.records() {
            let object = Object::from_record(&record, bytes.into(), Location::pending(u64::from(offset)));
            let child = |index| match object.child(index) {
                at if at.pending_offset().is_some() => {
                    at.pending_offset().and_then(|offset| moved.get(&offset).copied()).unwrap_or(Location::NONE)
                }
                at => at,
            };
            let children: Vec<Location> = (0..object.children()).map(child).collect();
            let metadata: Vec<u64> = (0..).map_while(|index| object.metadata_word(index)).collect();
            let Ok(oid) = Oid::new(record.oid) else { unreachable!("a batch holds records of its own making") };
            let at = self.put(record.kind, oid, object.body(), &children, &metadata);
            moved.insert(u64::from(offset), at);
        }
        Absorbed { base, moved: Some(moved) }
    }

    /// Notes where an object is.
    #[inline]
    fn note(&mut self, place: RecordPlace) {
        if let Some(index) = &mut self.index {
            index.reserve(&self.list, 1);
            index.insert(place);
        } else if self.list.len() >= LIST_MAX {
            let mut index = BatchIndex::default();
            index.reserve(&self.list, 1);
            index.insert(place);
            self.index = Some(index);
        }
        self.list.push(place);
    }
}

impl Sink for Batch {
    fn put(&mut self, kind: Kind, oid: Oid, body: &[u8], children: &[Location], metadata: &[u64]) -> Location {
        if let Some(known) = self.known(&oid) {
            return known;
        }
        if self.list.is_empty() {
            self.bytes.reserve(BYTES_FIRST);
            self.list.reserve(LIST_MAX / 2);
        }
        let at = write_record(&mut self.bytes, kind, &oid, body, children, metadata);
        self.note(RecordPlace::new(oid.as_bytes(), at as u32));
        Location::pending(at)
    }

    fn expect(&self, oids: &[Oid]) {
        if let Some(index) = &self.index {
            index.fetch(oids);
        }
    }

    fn known(&self, oid: &Oid) -> Option<Location> {
        self.find(oid.as_bytes()).map(|at| Location::pending(u64::from(at)))
    }
}

impl fmt::Debug for Batch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Batch({} objects, {} bytes)", self.len(), self.bytes.len())
    }
}

/// One record of a batch.
#[derive(Clone, Copy, Debug)]
pub struct BatchRecord<'a> {
    /// The header.
    pub record: Record<'a>,
    /// The record's bytes without padding.
    pub bytes: &'a [u8],
    /// Where it starts in the batch.
    pub offset: u32,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Puts an object whose children are others of the batch.
    fn put(batch: &mut Batch, byte: u8, children: &[Location]) -> Location {
        batch.put(Kind::Node, Oid::from_array([byte; 32]), &[byte; 5], children, &[u64::from(byte)])
    }

    #[test]
    fn prefixes_are_those_of_the_ids() {
        let mut batch = Batch::new();
        for length in 1..=Oid::BYTES_MAX {
            let oid = Oid::new(&vec![length as u8; length]).unwrap();
            batch.put(Kind::Contents, oid, &[7; 3], &[], &[]);
        }
        assert_eq!(batch.len(), Oid::BYTES_MAX);
        assert!(batch.prefixes().eq(batch.offsets().map(|(oid, at)| (oid.prefix(), at))));
    }

    /// Nothing looks at the bytes, so that they take no memory.
    #[cfg(target_pointer_width = "64")]
    #[test]
    fn more_than_offsets_reach_is_refused() {
        use super::super::{Backend, Durability, MemoryBackend};
        use crate::fs::{FsBackend, FsOptions};

        let dir = tempfile::tempdir().unwrap();
        let format = crate::engine::FormatTag { name: "native".to_owned(), version: 1, options: String::new() };
        let storage = std::sync::Arc::new(crate::storage::RealStorage::new(dir.path()));
        let fs = FsBackend::create(storage, format, FsOptions::default()).unwrap();
        for backend in [&fs as &dyn Backend, &MemoryBackend::new()] {
            let batch = Batch { bytes: vec![0; Batch::BYTES_MAX + 8], ..Batch::default() };
            let refused = backend.append(batch, &[], Durability::None);
            assert!(matches!(refused, Err(Error::TooLarge { .. })), "{}: {refused:?}", backend.name());
        }
    }

    #[test]
    fn what_is_in_a_batch_is_not_needed_of_the_backend() {
        let [put_later, left_out] = [1, 2].map(|byte| Oid::from_array([byte; 32]));
        let mut batch = Batch::since(3);
        [put_later, left_out].into_iter().for_each(|oid| batch.leave_out(oid));
        put(&mut batch, 1, &[]);
        let to = |oid: Oid| Some(RefTarget::Object(oid.into()));
        let moves = [put_later, left_out].map(|oid| RefMove {
            name: "refs/heads/main".to_owned(),
            expected: super::super::Expected::Any,
            to: to(oid),
        });
        assert!(batch.needed(&moves, 3).is_empty());
        assert_eq!(batch.needed(&moves, 4), [left_out, left_out]);
    }

    #[test]
    fn what_is_absorbed_is_as_if_it_had_been_put() {
        for shared in [false, true] {
            let (mut one, mut other, mut both) = (Batch::new(), Batch::new(), Batch::new());
            for byte in 1..60 {
                put(&mut one, byte, &[]);
                put(&mut both, byte, &[]);
            }
            let far = Location(77);
            let (mut last_other, mut last_both) = (far, far);
            for byte in if shared { 50..90 } else { 100..140 } {
                last_other = put(&mut other, byte, &[last_other, far]);
                last_both = put(&mut both, byte, &[last_both, far]);
            }
            let absorbed = one.absorb(other);
            assert_eq!(one.bytes(), both.bytes());
            assert_eq!(one.offsets().collect::<Vec<_>>(), both.offsets().collect::<Vec<_>>());
            assert_eq!((absorbed.place(last_other), absorbed.place(far)), (last_both, far));
        }
    }
}
