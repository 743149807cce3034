//! The objects of the original, as a format reads them.

use std::{
    io::{self, Read},
    sync::Arc,
};

use bristlecone::{
    Bytes, Error, Format, Kind, Location, ObjRef, Object, Oid, Result, Snapshot, core::Source as ObjectSource,
};

use super::empty_dir;
use crate::{format::AnyFormat, repo::AnyRepo};

/// How many bytes of a long value are read at a time.
const PART_BYTES: u64 = 4 << 20;

/// What is read of the original.
pub(super) struct Source {
    format: AnyFormat,
    snapshot: Arc<dyn Snapshot>,
    empty: Option<Oid>,
}

impl Source {
    pub(super) fn of(from: &AnyRepo) -> Self {
        let format = from.format().clone();
        Self { empty: empty_dir(&format), snapshot: from.backend().snapshot(&[]), format }
    }

    pub(super) const fn format(&self) -> &AnyFormat {
        &self.format
    }

    /// Whether this is the directory without entries, which has no object to read.
    pub(super) fn is_empty_dir(&self, oid: &Oid) -> bool {
        self.empty == Some(*oid)
    }

    /// Returns a directory, unless it is the one without entries.
    pub(super) fn dir(&self, at: ObjRef) -> Option<ObjRef> {
        Some(at).filter(|at| !self.is_empty_dir(&at.oid))
    }

    pub(super) fn value(&self, at: &ObjRef) -> Result<Bytes<'_>> {
        self.format.read_contents(self, at, 0..u64::MAX)
    }

    /// Returns a reader of a long value.
    pub(super) const fn reader(&self, at: ObjRef) -> ValueReader<'_> {
        ValueReader { source: self, at, offset: 0, part: Vec::new(), read: 0, failed: None }
    }
}

impl ObjectSource for Source {
    type Error = Error;

    fn peek(&self, oid: &[u8], at: Location) -> Option<&[u8]> {
        self.snapshot.peek(oid, at)
    }

    fn read<'a>(&'a self, kind: Kind, at: &ObjRef) -> Result<Object<'a>> {
        let object = self.snapshot.read(at)?.ok_or(Error::Missing { kind, oid: at.oid })?;
        match object.kind() {
            found if found == kind || (kind == Kind::Contents && found == Kind::Pieces) => Ok(object),
            found => Err(Error::WrongKind { oid: at.oid, found, expected: kind }),
        }
    }
}

/// Reads a long value part by part.
pub(super) struct ValueReader<'s> {
    source: &'s Source,
    at: ObjRef,
    offset: u64,
    part: Vec<u8>,
    read: usize,
    /// What the store said when reading failed.
    pub(super) failed: Option<Error>,
}

impl Read for ValueReader<'_> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if self.read == self.part.len() {
            let range = self.offset..self.offset.saturating_add(PART_BYTES);
            match self.source.format.read_contents(self.source, &self.at, range) {
                Ok(part) => (self.part, self.read) = (part.to_vec(), 0),
                Err(error) => {
                    self.failed = Some(error);
                    return Err(io::ErrorKind::Other.into());
                }
            }
            self.offset += self.part.len() as u64;
        }
        let count = (&self.part[self.read..]).read(out)?;
        self.read += count;
        Ok(count)
    }
}
