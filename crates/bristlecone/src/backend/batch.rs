//! A batch: new objects on their way to a backend, as one run of records.

use std::{collections::HashMap, fmt};

use bristlecone_core::{Kind, Location, Oid, Record, Sink, record_bytes, write_record};

use crate::oid_map::OidHasher;

/// New objects, children before parents, as one run of records that any backend takes as it is.
///
/// The bytes do not depend on where they will land, so a batch is prepared outside every lock.
#[derive(Clone, Default)]
pub struct Batch {
    bytes: Vec<u8>,
    // Id and offset of each record, in order.
    list: Vec<(Oid, u32)>,
    // Place in the list by id, so that an object is kept once; made when the list gets long.
    index: Option<HashMap<Oid, u32, OidHasher>>,
}

/// A list of so many objects is searched from end to end; a longer one has an index.
const LIST_MAX: usize = 32;
/// Bytes that a commit of one entry takes; a batch starts with so much.
const BYTES_FIRST: usize = 6 << 10;

impl Batch {
    /// The most bytes in a batch: offsets have 32 bits, and a margin is kept for framing.
    pub const BYTES_MAX: usize = (u32::MAX - (1 << 20)) as usize;

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
    pub fn offsets(&self) -> impl Iterator<Item = (&Oid, u32)> {
        self.list.iter().map(|(oid, at)| (oid, *at))
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

impl Sink for Batch {
    fn put(&mut self, kind: Kind, oid: Oid, body: &[u8], children: &[Location], aux: &[u64]) -> Location {
        if let Some(known) = self.known(&oid) {
            return known;
        }
        if self.list.is_empty() {
            self.bytes.reserve(BYTES_FIRST);
            self.list.reserve(LIST_MAX / 2);
        }
        let at = write_record(&mut self.bytes, kind, &oid, body, children, aux);
        self.list.push((oid, at as u32));
        match &mut self.index {
            Some(index) => {
                index.insert(oid, at as u32);
            }
            None if self.list.len() > LIST_MAX => self.index = Some(self.list.iter().copied().collect()),
            None => {}
        }
        Location::pending(at)
    }

    fn known(&self, oid: &Oid) -> Option<Location> {
        let at = match &self.index {
            Some(index) => *index.get(oid)?,
            None => self.list.iter().find(|(known, _)| known == oid)?.1,
        };
        Some(Location::pending(u64::from(at)))
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
