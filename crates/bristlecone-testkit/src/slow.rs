//! A backend as far away as a bucket or a remote: every call that reads takes its time, and nothing is lent unless it is
//! to be.
//!
//! It counts calls and what they brought, and knows which objects the callers still hold: so a test can tell how
//! far a walk reads ahead, and how much it keeps.

#![deny(clippy::missing_trait_methods)]

use std::{
    collections::BTreeSet,
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    time::Duration,
};

use bristlecone::{
    Backend, Error, Location, MemoryBackend, ObjRef, Object, Oid, Snapshot, pass_backend, pass_snapshot,
};
use bristlecone_core::{Bytes, Record};

/// What was read from a [`Slow`] backend.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reads {
    /// Calls, of one object or many.
    pub calls: u64,
    /// Objects that they asked for.
    pub asked: u64,
    /// Objects that they brought; one that was read twice counts twice.
    pub objects: u64,
    /// Bytes of those.
    pub bytes: u64,
    /// The most bytes of objects that were held at a time, at the end of a call.
    pub held_bytes_max: u64,
    /// Bytes of the largest object.
    pub object_bytes_max: u64,
}

/// A memory backend each of whose calls that read takes so long.
pub struct Slow {
    inner: Arc<MemoryBackend>,
    line: Arc<SlowLine>,
}

/// What is between a caller and the memory.
struct SlowLine {
    delay: Duration,
    lends: bool,
    single: bool,
    state: Mutex<SlowState>,
}

#[derive(Default)]
struct SlowState {
    reads: Reads,
    // What was handed out and may still be held.
    handed: Vec<Weak<[u8]>>,
    // Ids that cannot be read.
    broken: BTreeSet<Oid>,
    // Ids that are as good as never written.
    lost: BTreeSet<Oid>,
}

impl Slow {
    /// Puts so much time between a caller and what is in memory.
    #[must_use]
    pub fn new(inner: Arc<MemoryBackend>, delay: Duration) -> Self {
        Self { inner, line: Arc::new(SlowLine { delay, lends: false, single: false, state: Mutex::default() }) }
    }

    /// Lends what the memory lends, as a map would: that is no call, and not counted.
    #[must_use]
    pub fn lending(self) -> Self {
        let line = SlowLine { delay: self.line.delay, lends: true, single: self.line.single, state: Mutex::default() };
        Self { line: Arc::new(line), ..self }
    }

    /// Answers each call with one object, as a backend does that is as far away for many objects as for one.
    #[must_use]
    pub fn one_by_one(self) -> Self {
        let line = SlowLine { delay: self.line.delay, lends: self.line.lends, single: true, state: Mutex::default() };
        Self { line: Arc::new(line), ..self }
    }

    /// Returns what was read since this was asked last.
    pub fn take_reads(&self) -> Reads {
        std::mem::take(&mut self.line.state().reads)
    }

    /// Makes every read of an object fail from now on.
    pub fn break_object(&self, oid: Oid) {
        self.line.state().broken.insert(oid);
    }

    /// Makes every read of an object find nothing from now on.
    pub fn lose_object(&self, oid: Oid) {
        self.line.state().lost.insert(oid);
    }
}

impl SlowLine {
    fn state(&self) -> MutexGuard<'_, SlowState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Copies an object out of the memory, so that it is seen how long it is held.
    fn fetch(&self, inner: &dyn Snapshot, at: &ObjRef) -> Result<Option<Object<'static>>, Error> {
        let mut state = self.state();
        if state.broken.contains(&at.oid) {
            let (file, reason) = ("far away".to_owned(), "it was broken for a test".to_owned());
            return Err(Error::Corrupt { file, offset: 0, oid: Some(at.oid), reason });
        }
        let Some(found) = inner.read(at)?.filter(|_| !state.lost.contains(&at.oid)) else { return Ok(None) };
        let place = found.location();
        let lent = inner.peek(at.oid.as_bytes(), place).expect("memory lends what it has");
        let bytes: Arc<[u8]> = Arc::from(lent);
        let record = Record::parse(lent).expect("memory has whole records");
        state.handed.push(Arc::downgrade(&bytes));
        state.reads.objects += 1;
        state.reads.bytes += bytes.len() as u64;
        state.reads.object_bytes_max = state.reads.object_bytes_max.max(bytes.len() as u64);
        Ok(Some(Object::from_record(&record, Bytes::from(bytes), place)))
    }

    fn end_call(&self, asked: usize) {
        {
            let mut state = self.state();
            state.reads.calls += 1;
            state.reads.asked += asked as u64;
            state.handed.retain(|bytes| bytes.strong_count() > 0);
            let held = state.handed.iter().filter_map(Weak::upgrade).map(|bytes| bytes.len() as u64).sum();
            state.reads.held_bytes_max = state.reads.held_bytes_max.max(held);
        }
        std::thread::sleep(self.delay);
    }
}

impl fmt::Debug for Slow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Slow")
            .field("delay", &self.line.delay)
            .field("reads", &self.line.state().reads)
            .finish_non_exhaustive()
    }
}

/// What is read through it.
struct SlowSnapshot {
    inner: Arc<dyn Snapshot>,
    line: Arc<SlowLine>,
}

impl fmt::Debug for SlowSnapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SlowSnapshot").field("inner", &self.inner).finish_non_exhaustive()
    }
}

impl Snapshot for SlowSnapshot {
    fn read(&self, at: &ObjRef) -> Result<Option<Object<'_>>, Error> {
        let found = self.line.fetch(&*self.inner, at);
        self.line.end_call(1);
        found
    }

    fn peek(&self, oid: &[u8], at: Location) -> Option<&[u8]> {
        if self.line.lends { self.inner.peek(oid, at) } else { None }
    }

    fn read_many(&self, at: &[ObjRef], bytes_max: usize) -> Result<Vec<Option<Object<'_>>>, Error> {
        let (asked, mut found, mut bytes) = (at.len(), Vec::new(), 0);
        for at in at.iter().take(if self.line.single { 1 } else { asked }) {
            match self.line.fetch(&*self.inner, at) {
                Ok(object) => {
                    bytes += object.as_ref().map_or(0, Object::read_bytes);
                    found.push(object);
                }
                Err(error) if found.is_empty() => {
                    self.line.end_call(asked);
                    return Err(error);
                }
                Err(_) => break,
            }
            if bytes >= bytes_max {
                break;
            }
        }
        self.line.end_call(asked);
        Ok(found)
    }

    pass_snapshot! {
        inner: locate, position, sweeps, absent, keep, refresh
    }
}

impl Backend for Slow {
    fn name(&self) -> &'static str {
        "slow"
    }

    fn snapshot(&self, roots: &[Oid]) -> Arc<dyn Snapshot> {
        Arc::new(SlowSnapshot { inner: self.inner.snapshot(roots), line: self.line.clone() })
    }

    fn read(&self, at: &ObjRef) -> Result<Option<Object<'static>>, Error> {
        Ok(self.snapshot(&[]).read(at)?.map(Object::into_static))
    }

    pass_backend! {
        inner: capabilities, locate, position, sweeps, sweep, sweep_due, append, append_keeping, append_many, get_ref,
        list_refs, shallow, absent, note_absent, retention, replace_retention, promised_to, flush, each_object, each_with_prefix, clear_caches, stats,
        read_derived, write_derived
    }
}
