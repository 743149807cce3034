//! What is done beside appends: syncs for grouped commits, files for the next segment, indexes of sealed ones.
//!
//! Two threads, each started when there is first something to do. Neither is needed for anything to be right.

use std::{
    sync::{
        Arc, Condvar, Mutex, OnceLock, PoisonError, Weak,
        atomic::{AtomicBool, AtomicU64, Ordering::*},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use super::{
    log::{Shared, lock},
    roll::{Spare, make_spare, segment_size},
    segment::encode_refs,
};

/// After so many bytes of appends it is looked at how much memory maps take.
const TRIM_EVERY: u64 = 512 << 10;

/// Work for the threads.
#[derive(Debug, Default)]
pub(super) struct Background {
    jobs: Mutex<Jobs>,
    wake_flusher: Condvar,
    wake_keeper: Condvar,
    /// Whether a grouped append waits for its sync.
    flush_wanted: AtomicBool,
    /// Whether there is something for the keeper.
    keep_wanted: AtomicBool,
    // Whether the tail's segment has, or will have, a spare to follow it.
    spare_asked: AtomicBool,
    // The location where maps were last looked at.
    pub(super) trimmed_at: AtomicU64,
    stop: AtomicBool,
    // The store that this belongs to: readers have work for the keeper too.
    owner: OnceLock<Weak<Shared>>,
}

#[derive(Debug, Default)]
struct Jobs {
    flusher: Option<JoinHandle<()>>,
    keeper: Option<JoinHandle<()>>,
    index: Vec<u32>,
    spare: Option<Spare>,
}

impl Background {
    /// Names the store that the threads work for.
    pub(super) fn belongs_to(&self, owner: &Arc<Shared>) {
        let _ = self.owner.set(Arc::downgrade(owner));
    }

    /// Asks for a sync soon.
    pub(super) fn flush_soon(&self) {
        if !self.flush_wanted.swap(true, SeqCst) {
            let _jobs = lock(&self.jobs);
            self.wake_flusher.notify_one();
        }
    }

    /// Asks for the index of a segment that was just sealed.
    pub(super) fn index_sealed(&self, number: u32) {
        lock(&self.jobs).index.push(number);
        self.spare_asked.store(false, Relaxed);
        self.keep_wanted.store(true, SeqCst);
        self.wake_keeper.notify_one();
    }

    /// Keeps a file for the next segment.
    pub(super) fn put_spare(&self, spare: Spare) {
        lock(&self.jobs).spare = Some(spare);
    }

    /// Returns the file that was prepared for a segment of this size, if there is one.
    pub(super) fn take_spare(&self, bytes: u64) -> Option<Spare> {
        let mut jobs = lock(&self.jobs);
        if jobs.spare.as_ref()?.bytes == bytes { jobs.spare.take() } else { None }
    }
}

impl Shared {
    /// Has the keeper write the index of a sealed segment anew.
    pub(super) fn index_later(&self, number: u32) {
        lock(&self.background.jobs).index.push(number);
        self.background.keep_wanted.store(true, SeqCst);
        if let Some(shared) = self.background.owner.get().and_then(Weak::upgrade) {
            shared.start_keeper();
        }
    }

    /// Sees after an append that the threads which are needed run.
    #[inline]
    pub(super) fn tend(self: &Arc<Self>) {
        let background = &self.background;
        if background.flush_wanted.load(Relaxed) {
            self.start_flusher();
        }
        if self.sync.wanted.load(Relaxed) && self.options.prezero && !background.spare_asked.swap(true, Relaxed) {
            background.keep_wanted.store(true, SeqCst);
        }
        if self.options.maps && self.published.end().wrapping_sub(background.trimmed_at.load(Relaxed)) >= TRIM_EVERY {
            background.trimmed_at.store(self.published.end(), Relaxed);
            background.keep_wanted.store(true, SeqCst);
        }
        if background.keep_wanted.load(Relaxed) {
            self.start_keeper();
        }
    }

    fn start_flusher(self: &Arc<Self>) {
        let mut jobs = lock(&self.background.jobs);
        if jobs.flusher.is_none() {
            let shared = self.clone();
            jobs.flusher = thread::Builder::new().name("cone-flush".to_owned()).spawn(move || shared.flusher()).ok();
        }
    }

    fn start_keeper(self: &Arc<Self>) {
        let mut jobs = lock(&self.background.jobs);
        if jobs.keeper.is_none() {
            let shared = self.clone();
            jobs.keeper = thread::Builder::new().name("cone-keep".to_owned()).spawn(move || shared.keeper()).ok();
        }
        self.background.wake_keeper.notify_one();
    }

    fn flusher(&self) {
        let background = &self.background;
        // Half of what was promised: the other half is for the sync.
        let pause = Duration::from_millis(self.options.grouped_ms.div_ceil(2));
        let mut jobs = lock(&background.jobs);
        while !background.stop.load(SeqCst) {
            if !background.flush_wanted.load(SeqCst) {
                jobs = background.wake_flusher.wait(jobs).unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            drop(jobs);
            thread::sleep(pause);
            // Reads what the appenders wrote last, and so sees the ends that they published before.
            background.flush_wanted.swap(false, SeqCst);
            // A failure is remembered and refuses the next append.
            let _ = self.sync_to(self.published.end());
            jobs = lock(&background.jobs);
        }
    }

    fn keeper(&self) {
        let background = &self.background;
        let mut hand = 0;
        let mut jobs = lock(&background.jobs);
        while !background.stop.load(SeqCst) {
            let wanted = background.keep_wanted.swap(false, SeqCst);
            if !wanted {
                jobs = background.wake_keeper.wait(jobs).unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            let numbers = std::mem::take(&mut jobs.index);
            drop(jobs);
            if background.spare_asked.load(SeqCst) {
                self.prepare_spare();
            }
            for number in numbers {
                if background.stop.load(SeqCst) {
                    return;
                }
                // Who needs the index before it is there makes it.
                if let Ok(Some(segment)) = self.segment(number) {
                    let _ = self.renew_index(segment);
                    // All of it was read for that, and most is not needed soon.
                    segment.forget_pages();
                }
            }
            hand = self.trim_maps(hand);
            jobs = lock(&background.jobs);
        }
    }

    /// Lets go of pages of sealed segments, one segment after the other from `hand` on, while more memory shows
    /// files than the budget allows. Returns where to go on. What is still in use comes back a few pages at a time.
    fn trim_maps(&self, mut hand: u32) -> u32 {
        let budget = self.options.map_bytes;
        let (numbers, tail) = (self.segments.numbers(), (self.published.end() >> 32) as u32);
        let sealed = &numbers[..numbers.partition_point(|&number| number < tail)];
        for _ in sealed {
            if shown_file_bytes().is_none_or(|bytes| bytes <= budget) {
                break;
            }
            // The lowest one follows on the highest.
            let Some(&number) = sealed.iter().find(|&&number| number >= hand).or(sealed.first()) else { break };
            if let Some(segment) = self.segments.get(number) {
                segment.forget_pages();
            }
            hand = number + 1;
        }
        hand
    }

    /// Makes a file for the segment after the one in which the log ends now.
    fn prepare_spare(&self) {
        let number = (self.published.end() >> 32) as u32 + 1;
        let rows = encode_refs(&self.published.refs()).len() as u64;
        let Ok(bytes) = segment_size(number, self.header.segment_bytes, rows, 0) else { return };
        // One of another size was prepared for a segment that then had to be larger.
        let mut jobs = lock(&self.background.jobs);
        let old = jobs.spare.take_if(|spare| spare.bytes != bytes);
        let ready = jobs.spare.is_some();
        drop(jobs);
        if let Some(spare) = old {
            let _ = self.storage.remove(&spare.name);
        }
        if ready {
            return;
        }
        let stop = || self.background.stop.load(SeqCst);
        // Without space or handles there is no spare, and the append that needs a segment says so.
        let Ok(Some(spare)) = make_spare(&self.storage, bytes, true, &stop) else { return };
        if spare.file.sync_data().is_ok() {
            self.background.put_spare(spare);
        } else {
            let _ = self.storage.remove(&spare.name);
        }
    }

    /// Ends the threads and waits for them; removes a file that was prepared in vain.
    pub(super) fn stop_background(&self) {
        self.background.stop.store(true, SeqCst);
        let mut jobs = lock(&self.background.jobs);
        let (flusher, keeper) = (jobs.flusher.take(), jobs.keeper.take());
        drop(jobs);
        self.background.wake_flusher.notify_all();
        self.background.wake_keeper.notify_all();
        for thread in [flusher, keeper].into_iter().flatten() {
            let _ = thread.join();
        }
        if let Some(spare) = lock(&self.background.jobs).spare.take() {
            let _ = self.storage.remove(&spare.name);
        }
        // Whoever goes on after a close gets new threads.
        self.background.stop.store(false, SeqCst);
        self.background.spare_asked.store(false, SeqCst);
    }
}

/// Returns how much memory of this process shows files, where the system tells.
fn shown_file_bytes() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/self/statm").ok()?;
    let pages: u64 = text.split_ascii_whitespace().nth(2)?.parse().ok()?;
    Some(pages * rustix::param::page_size() as u64)
}
