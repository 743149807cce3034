//! Values that are written as they come, before a tree binds them.

use std::{io::Read, sync::Arc};

use bristlecone_core::{Format, Location, ObjRef, native::WHOLE_BYTES_MAX};

use super::Repo;
use crate::{
    Backend, Batch, Error, Result, Snapshot, VALUE_BYTES_MAX, Value,
    store::{FlushSink, resolve},
    swept::append_behind,
};

/// How many bytes are read at a time.
const PART_BYTES: usize = 1 << 20;
/// Pieces are appended when they have this many bytes together.
const APPEND_BYTES: usize = 8 << 20;

/// A value that was read to its end, to be bound with [`crate::Tree::set_stored`]. Cheap to clone.
#[derive(Clone, Debug)]
pub struct StoredValue(pub(crate) Stored);

#[derive(Clone, Debug)]
pub(crate) enum Stored {
    /// In memory.
    Bytes(Value),
    /// In a backend, in pieces.
    Pieces { backend: Arc<dyn Backend>, snapshots: Vec<Arc<dyn Snapshot>>, at: ObjRef, bytes: u64 },
}

impl StoredValue {
    /// What [`Error::Io`] names as its file where the reader of a value has failed.
    pub const READER: &'static str = "the value";

    /// Returns how many bytes it has.
    #[must_use]
    pub fn len(&self) -> u64 {
        match &self.0 {
            Stored::Bytes(value) => value.as_bytes().len() as u64,
            Stored::Pieces { bytes, .. } => *bytes,
        }
    }

    /// Returns whether it has none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl<F: Format> Repo<F> {
    /// Reads a value to its end and writes it on the way, in some MiB of memory where the format cuts large values into
    /// pieces (the native one does); elsewhere, and where it is short, it is kept in memory.
    ///
    /// What is written stays as long as the value is held, and for good once a commit leads to it.
    ///
    /// ```
    /// # use bristlecone::{EntryKind, Repo};
    /// let repo = Repo::memory();
    /// let bytes: Vec<u8> = (0..1_000_000_u32).flat_map(u32::to_le_bytes).collect();
    /// let value = repo.write_value(&mut &bytes[..])?;
    /// let (mut streamed, mut whole) = (repo.tree(), repo.tree());
    /// streamed.set_stored("a", EntryKind::Value, &value)?;
    /// whole.set("a", &bytes)?;
    /// assert_eq!(streamed.root()?, whole.root()?);
    /// # Ok::<(), bristlecone::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Io`] of the reader, naming [`StoredValue::READER`]; [`Error::TooLarge`] beyond [`VALUE_BYTES_MAX`]; those
    /// of the backend.
    pub fn write_value(&self, from: &mut dyn Read) -> Result<StoredValue> {
        let mut part = Vec::new();
        let Some(mut builder) = self.shared.format.value_builder() else {
            read_part(from, &mut part, VALUE_BYTES_MAX as usize + 1)?;
            check_length(part.len() as u64)?;
            return Ok(StoredValue(Stored::Bytes(Value::new(part))));
        };
        read_part(from, &mut part, PART_BYTES)?;
        if part.len() <= WHOLE_BYTES_MAX {
            return Ok(StoredValue(Stored::Bytes(Value::new(part))));
        }
        // Held until the value is bound: nothing leads to what is written here.
        let mut store = self.now();
        let mut batch = Batch::since(store.sweeps());
        let mut bytes = 0;
        while !part.is_empty() {
            bytes += part.len() as u64;
            check_length(bytes)?;
            let mut sink = FlushSink::new(batch, &*store.snapshot);
            builder.push(&mut sink, &part);
            batch = sink.take();
            if batch.bytes().len() >= APPEND_BYTES {
                builder.settle(append_behind(&mut store, &mut batch)?);
            }
            part.clear();
            read_part(from, &mut part, PART_BYTES)?;
        }
        builder.each_appended(&mut |piece| batch.leave_out(piece));
        let mut sink = FlushSink::new(batch, &*store.snapshot);
        let at = builder.finish(&mut sink);
        batch = sink.take();
        let base = if batch.is_empty() { Location::NONE } else { append_behind(&mut store, &mut batch)? };
        let (backend, snapshots) = (self.shared.backend.clone(), store.snapshots().to_vec());
        Ok(StoredValue(Stored::Pieces { backend, snapshots, at: resolve(at, base), bytes }))
    }
}

fn check_length(bytes: u64) -> Result<()> {
    if bytes <= VALUE_BYTES_MAX {
        return Ok(());
    }
    Err(Error::TooLarge { what: "a value", bytes, bytes_max: VALUE_BYTES_MAX })
}

/// Reads `bytes` bytes, fewer at the end.
fn read_part(from: &mut dyn Read, part: &mut Vec<u8>, bytes: usize) -> Result<()> {
    let read = from.take(bytes as u64).read_to_end(part);
    read.map_err(|source| Error::io(StoredValue::READER.to_owned(), source))?;
    Ok(())
}
