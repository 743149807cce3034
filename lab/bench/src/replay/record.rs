//! Recording what a store really reads: which bytes of which segment, in order.
//!
//! [`Recorded`] goes around the disk engine and tells a [`Recorder`] of every object that is read, whether the
//! engine then takes it from a map or from a cache of its own. The recording is a text that fio knows as an
//! iolog of version 2; it goes to the file as it grows, so memory stays small. It names the segments of the
//! store, which must still be there when it is run.
//!
//! ```no_run
//! # use std::{path::Path, sync::Arc};
//! # use bristlecone::Backend;
//! # use bristlecone_bench::{BenchError, replay::{Recorded, Recorder}};
//! # fn with(disk: Arc<dyn Backend>) -> Result<(), BenchError> {
//! let recorder = Arc::new(Recorder::create(Path::new("reads.log"), Path::new("store"))?);
//! let backend: Arc<dyn Backend> = Arc::new(Recorded::new(disk, recorder.clone()));
//! // … work with the backend …
//! let reads = recorder.finish()?;
//! # Ok(())
//! # }
//! ```

#![deny(clippy::missing_trait_methods)]

use std::{
    collections::HashSet,
    fs::File,
    io::{self, BufWriter, Write},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use bristlecone::{
    Backend, Error, Location, ObjRef, Object, Oid, Snapshot, core::RECORD_HEADER_BYTES, pass_backend, pass_snapshot,
};

use crate::{BenchError, error::Result};

/// The first line of a recording: fio's iolog of version 2. Source: fio, HOWTO, "Trace file format v2".
const VERSION_2: &str = "fio version 2 iolog";
/// fio reads names up to here.
const NAME_BYTES_MAX: usize = 255;

/// Writes a recording. Threads may share it.
#[derive(Debug)]
pub struct Recorder {
    file: PathBuf,
    store: String,
    log: Mutex<Log>,
}

#[derive(Debug)]
struct Log {
    out: BufWriter<File>,
    segments: HashSet<u32>,
    reads: u64,
    /// The first failure; nothing is written after it.
    failed: Option<io::Error>,
}

impl Recorder {
    /// Begins a recording of the store in the folder `store`, replacing `file`.
    ///
    /// # Errors
    /// [`BenchError::Usage`] if the folder's name has blanks or is too long, which recordings cannot tell;
    /// [`BenchError::Io`].
    pub fn create(file: &Path, store: &Path) -> Result<Self> {
        let full = std::path::absolute(store).map_err(BenchError::io(store))?;
        let name = full.to_str().filter(|name| !name.contains(char::is_whitespace));
        let name = name.filter(|name| segment_file(name, 0).len() <= NAME_BYTES_MAX).ok_or_else(|| {
            BenchError::usage(format!(
                "{}: reads are recorded of stores whose names have no blanks and fit {NAME_BYTES_MAX} bytes",
                full.display()
            ))
        })?;
        let mut out = BufWriter::with_capacity(1 << 16, File::create(file).map_err(BenchError::io(file))?);
        writeln!(out, "{VERSION_2}").map_err(BenchError::io(file))?;
        let log = Log { out, segments: HashSet::new(), reads: 0, failed: None };
        Ok(Self { file: file.to_owned(), store: name.to_owned(), log: Mutex::new(log) })
    }

    /// Notes one read of `bytes` bytes at a location of the disk engine. Objects without a location are not on
    /// disk, and are passed over. A failure to write is kept for [`Recorder::finish`].
    pub fn read(&self, at: Location, bytes: u64) {
        if !at.is_some() || at.pending_offset().is_some() {
            return;
        }
        let mut log = self.lock();
        if log.failed.is_none()
            && let Err(error) = log.read(&self.store, at, bytes)
        {
            log.failed = Some(error);
        }
    }

    /// Completes the file, and returns how many reads it has so far. Reads may go on after it.
    ///
    /// # Errors
    /// [`BenchError::Io`]: the first failure since the start.
    pub fn finish(&self) -> Result<u64> {
        let mut log = self.lock();
        let failed = match log.failed.take() {
            Some(error) => Err(error),
            None => log.out.flush(),
        };
        failed.map_err(BenchError::io(&self.file))?;
        Ok(log.reads)
    }

    fn lock(&self) -> MutexGuard<'_, Log> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Log {
    fn read(&mut self, store: &str, at: Location, bytes: u64) -> io::Result<()> {
        let (segment, offset) = ((at.0 >> 32) as u32, at.0 as u32);
        let name = segment_file(store, segment);
        if self.segments.insert(segment) {
            writeln!(self.out, "{name} add\n{name} open")?;
        }
        self.reads += 1;
        writeln!(self.out, "{name} read {offset} {bytes}")
    }
}

/// Returns the name of a segment's file. Source: docs/formats/disk.md section 1.
fn segment_file(store: &str, segment: u32) -> String {
    format!("{store}/segments/{segment:08}.seg")
}

/// A disk backend whose reads are recorded.
#[derive(Clone, Debug)]
pub struct Recorded {
    inner: Arc<dyn Backend>,
    recorder: Arc<Recorder>,
}

impl Recorded {
    /// Wraps a backend of the disk engine: locations of others name no segments.
    #[must_use]
    pub fn new(inner: Arc<dyn Backend>, recorder: Arc<Recorder>) -> Self {
        Self { inner, recorder }
    }
}

/// What is read from a [`Recorded`] backend.
#[derive(Debug)]
struct RecordedSnapshot {
    inner: Arc<dyn Snapshot>,
    recorder: Arc<Recorder>,
}

impl RecordedSnapshot {
    fn note(&self, object: &Object<'_>) {
        let words = object.children() + (0..255).take_while(|index| object.metadata_word(*index).is_some()).count();
        let bytes = RECORD_HEADER_BYTES + 8 * words + object.body().len();
        self.recorder.read(object.location(), bytes as u64);
    }
}

impl Snapshot for RecordedSnapshot {
    fn read(&self, at: &ObjRef) -> Result<Option<Object<'_>>, Error> {
        let object = self.inner.read(at)?;
        Ok(object.inspect(|object| self.note(object)))
    }

    fn peek(&self, oid: &[u8], at: Location) -> Option<&[u8]> {
        self.inner.peek(oid, at).inspect(|record| self.recorder.read(at, record.len() as u64))
    }

    fn read_many(&self, at: &[ObjRef], bytes_max: usize) -> Result<Vec<Option<Object<'_>>>, Error> {
        let objects = self.inner.read_many(at, bytes_max)?;
        objects.iter().flatten().for_each(|object| self.note(object));
        Ok(objects)
    }

    pass_snapshot! {
        inner: locate, position, sweeps, absent, keep, refresh
    }
}

impl Backend for Recorded {
    fn snapshot(&self, roots: &[Oid]) -> Arc<dyn Snapshot> {
        Arc::new(RecordedSnapshot { inner: self.inner.snapshot(roots), recorder: self.recorder.clone() })
    }

    fn read(&self, at: &ObjRef) -> Result<Option<Object<'static>>, Error> {
        Ok(self.snapshot(&[]).read(at)?.map(Object::into_static))
    }

    pass_backend! {
        inner: name, capabilities, locate, sweep, sweep_due, position, sweeps, append, append_keeping, append_many, get_ref,
        list_refs, shallow, absent, note_absent, retention, replace_retention, promised_to, flush, each_object, each_with_prefix, clear_caches, stats,
        read_derived, write_derived
    }
}

#[cfg(test)]
mod tests;
