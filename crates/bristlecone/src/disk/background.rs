//! The two workers beside appends, and what they are asked for. `maintenance.rs` has what they do.
//!
//! Nothing depends on them but speed: a store without threads gives the same answers.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU32, AtomicU64},
    },
    time::Duration,
};

use super::{DiskOptions, filters::Run, spare::Spare, table::SegmentTable, written::WrittenSegment};
use crate::{engine::Worker, sync::lock};

/// The only job of each worker.
pub(super) const FLUSH: usize = 0;
pub(super) const MAINTAIN: usize = 0;

/// Of so many sealed segments that wait for their indexes the records are kept.
const WRITTEN_MAX: usize = 4;

/// The workers of a store, and what they are to do.
#[derive(Debug)]
pub(super) struct Background<S> {
    /// Syncs what grouped appends wait for.
    pub(super) flusher: Worker<S, 1>,
    /// Does what `maintenance.rs` has.
    pub(super) maintenance: Worker<S, 1>,
    pub(super) jobs: Mutex<Jobs>,
    /// Whether the backend is gone, though snapshots may not be: nothing is left to threads any more.
    pub(super) ended: AtomicBool,
    // Held by the thread that lets go of tables.
    leaving: Mutex<()>,
    /// Whether the tail's segment has, or will have, a spare to follow it.
    pub(super) spare_asked: AtomicBool,
    // The location where maps were last looked at.
    pub(super) trimmed_at: AtomicU64,
    // The location where files that a collection emptied were last looked at.
    pub(super) tidied_at: AtomicU64,
    // The segment whose pages are released next.
    pub(super) trim_next: AtomicU32,
}

#[derive(Debug, Default)]
pub(super) struct Jobs {
    /// Sealed segments whose indexes are asked for, with their records where these are known.
    pub(super) index: Vec<(u32, Option<WrittenSegment>)>,
    /// Runs of segments whose filters are asked for.
    pub(super) filters: Vec<Run>,
    /// A file that was prepared for the next segment.
    pub(super) spare: Option<Spare>,
    /// Tables of older states by which snapshots read no more.
    pub(super) left: Vec<Arc<SegmentTable>>,
}

impl<S: Send + Sync + 'static> Background<S> {
    /// Returns workers without threads: one flushes the log of a store, the other one maintains it.
    pub(super) fn new(options: &DiskOptions, flush: fn(&S, usize), maintain: fn(&S, usize)) -> Self {
        // Half of what was promised: the other half is for the sync.
        let pause = Duration::from_millis(options.grouped_ms.div_ceil(2));
        Self {
            flusher: Worker::new("cone-flush", options.background, [pause], flush),
            maintenance: Worker::new("cone-maintain", options.background, [Duration::ZERO], maintain),
            jobs: Mutex::default(),
            ended: AtomicBool::new(false),
            leaving: Mutex::default(),
            spare_asked: AtomicBool::new(false),
            trimmed_at: AtomicU64::new(0),
            tidied_at: AtomicU64::new(0),
            trim_next: AtomicU32::new(0),
        }
    }

    /// Names the store that the workers serve.
    pub(super) fn serve(&self, owner: &Arc<S>) {
        self.flusher.serve(owner);
        self.maintenance.serve(owner);
    }

    /// Ends both threads for good: what is asked of them from now on is not done.
    pub(super) fn finish(&self) {
        self.flusher.finish();
        self.maintenance.finish();
    }

    /// Asks for the index of a sealed segment; `written`: its records, if they are known.
    pub(super) fn index_soon(&self, number: u32, written: Option<WrittenSegment>) {
        let mut jobs = lock(&self.jobs);
        let waiting = jobs.index.iter().filter(|(_, written)| written.is_some()).count();
        // Where the worker does not keep up, it reads the segments.
        jobs.index.push((number, written.filter(|_| waiting < WRITTEN_MAX)));
        drop(jobs);
        self.maintenance.ask(MAINTAIN);
    }

    /// Asks for the filter of a run of segments.
    pub(super) fn filter_soon(&self, run: Run) {
        let mut jobs = lock(&self.jobs);
        if !jobs.filters.contains(&run) {
            jobs.filters.push(run);
        }
        drop(jobs);
        self.maintenance.ask(MAINTAIN);
    }

    /// Lets go of the tables that snapshots have left; returns whether there were any. Once it returns, those are gone that other
    /// threads were just letting go of.
    pub(super) fn drop_left(&self) -> bool {
        let _one = lock(&self.leaving);
        // Not under the lock of the jobs: it may take a while, and whoever leaves a table takes that.
        let left = std::mem::take(&mut lock(&self.jobs).left);
        !left.is_empty()
    }

    /// Keeps a file for the next segment.
    pub(super) fn put_spare(&self, spare: Spare) {
        lock(&self.jobs).spare = Some(spare);
    }

    /// Whether a file of this size was prepared.
    pub(super) fn has_spare(&self, bytes: u64) -> bool {
        lock(&self.jobs).spare.as_ref().is_some_and(|spare| spare.bytes == bytes)
    }

    /// Returns the file that was prepared for a segment of this size, if there is one.
    pub(super) fn take_spare(&self, bytes: u64) -> Option<Spare> {
        let mut jobs = lock(&self.jobs);
        if jobs.spare.as_ref()?.bytes == bytes { jobs.spare.take() } else { None }
    }
}
