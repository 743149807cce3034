//! The work of the two threads beside appends: syncs for grouped commits, files for the next segment, indexes of sealed
//! ones, and memory that maps take.

use std::{sync::atomic::Ordering::*, thread, time::Duration};

use super::{
    DiskOptions,
    background::{Background, MAINTAIN},
    log::DiskState,
    memory::MAP_BYTES_MIN,
    segment::COLD,
    spare::{Zeroes, make_spare, segment_size},
    table::numbers_of,
};
use crate::sync::{lock, read_lock};

/// After this many bytes of appends the worker looks at how much memory maps take, and whether what a collection emptied can go.
const TRIM_EVERY: u64 = 512 << 10;

/// For how long the worker rests after each part that it fills of a file for the next segment, while there is time: with all of
/// them a fifth of a second.
const SPARE_PAUSE: Duration = Duration::from_micros(250);

impl DiskState {
    /// Wakes the maintenance worker after an append if there is something for it to do.
    #[inline]
    pub(super) fn wake_worker(&self) {
        let background = &self.background;
        let spare = self.sync.wanted.load(Relaxed)
            && self.options.prezero
            && self.sync.zeroes_pay()
            && !background.spare_asked.swap(true, Relaxed);
        let trim =
            self.options.maps && self.published.end().wrapping_sub(background.trimmed_at.load(Relaxed)) >= TRIM_EVERY;
        if trim {
            background.trimmed_at.store(self.published.end(), Relaxed);
        }
        let emptied = self.emptied.load(Relaxed)
            && self.published.end().wrapping_sub(background.tidied_at.load(Relaxed)) >= TRIM_EVERY;
        if emptied {
            background.tidied_at.store(self.published.end(), Relaxed);
        }
        if spare || trim || emptied {
            background.maintenance.ask(MAINTAIN);
        }
    }

    /// Returns the threads that work beside appends to a store with these options.
    pub(super) fn background(options: &DiskOptions) -> Background<Self> {
        // A sync that fails refuses the next append; one that could not begin is left to it.
        Background::new(options, |shared, _| _ = shared.flush_published(), |shared, _| shared.maintain())
    }

    /// What the maintenance worker does.
    fn maintain(&self) {
        let background = &self.background;
        self.let_go();
        let sealed = std::mem::take(&mut lock(&background.jobs).index);
        if background.spare_asked.load(SeqCst) {
            self.prepare_spare();
        }
        // A segment was sealed.
        if !sealed.is_empty() {
            self.look_for_garbage();
        }
        for (number, written) in sealed {
            if background.maintenance.is_stopping() {
                return;
            }
            // A lookup that needs the index before it is there makes it.
            let table = self.table();
            let view = self.view(&table);
            if let Ok(Some(segment)) = view.segment(number) {
                let _ = view.renew_index(segment, written);
            }
            drop(table);
            self.let_go();
        }
        self.make_filters();
        // The file of a snapshot that was just let go, or the lock of a collection that was just ending, was in the way before.
        self.tell_readers();
        self.tidy();
        self.trim();
    }

    /// Lets go of what snapshots have left: the files take room until then.
    fn let_go(&self) {
        if self.background.drop_left() {
            self.left_table();
        }
    }

    /// Releases pages of maps beyond the budget.
    pub(super) fn trim(&self) {
        self.trim_to(self.options.map_bytes);
    }

    /// Releases pages of maps beyond what is of use to a caller that reads everything once.
    pub(super) fn trim_read_once(&self) {
        self.trim_to(self.options.map_bytes.min(MAP_BYTES_MIN));
    }

    fn trim_to(&self, budget: u64) {
        if self.options.maps {
            let next = &self.background.trim_next;
            next.store(self.trim_maps(budget, next.load(Relaxed)), Relaxed);
        }
    }

    /// Releases pages of sealed segments of all tables that are read by, one segment after the other from `hand` on, while
    /// more memory shows files than the budget allows. Returns where to go on. What is still in use comes back a few pages at a time.
    fn trim_maps(&self, budget: u64, mut hand: u32) -> u32 {
        let (tables, tail) = (self.tables.all(), (self.published.end() >> 32) as u32);
        let mut sealed = numbers_of(&tables);
        sealed.retain(|&number| number < tail || number >= COLD);
        // So small a store cannot be beyond it, with its indexes and filters: the system need not be asked.
        let of_segment =
            |&number: &u32| tables.iter().find_map(|table| table.get(number)).map_or(0, |found| found.bytes);
        if sealed.iter().map(of_segment).sum::<u64>() <= budget / 2 {
            return hand;
        }
        let is_beyond = || shown_file_bytes().is_some_and(|bytes| bytes > budget);
        for _ in &sealed {
            if !is_beyond() {
                return hand;
            }
            // The lowest one follows on the highest.
            let Some(&number) = sealed.iter().find(|&&number| number >= hand).or(sealed.first()) else { break };
            tables.iter().filter_map(|table| table.get(number)).for_each(|segment| segment.forget_pages());
            hand = number + 1;
        }
        for table in &tables {
            if let Some(plan) = read_lock(&table.plan).as_ref().filter(|_| is_beyond()) {
                plan.forget_pages();
            }
        }
        hand
    }

    /// Makes a file for the segment after the one in which the log ends now.
    fn prepare_spare(&self) {
        let number = (self.published.end() >> 32) as u32 + 1;
        let rows = self.head_rows_bytes(self.version.load(Relaxed));
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
        let stop = || {
            // The next segment is not needed before this one is full, and syncs of commits wait for what is being written.
            let end = self.published.end();
            if (end >> 32) as u32 + 1 == number && end & 0xffff_ffff < self.header.segment_bytes / 2 {
                thread::sleep(SPARE_PAUSE);
            }
            self.background.maintenance.is_stopping()
        };
        // Without space or handles there is no spare, and the append that needs a segment says so.
        let Ok(Some(spare)) = make_spare(&self.storage, bytes, &Zeroes::Beside(&stop)) else { return };
        if spare.file.sync_data().is_ok() {
            self.background.put_spare(spare);
        } else {
            let _ = self.storage.remove(&spare.name);
        }
    }

    /// Ends the workers' threads and waits for them; removes a prepared file that was not used.
    pub(super) fn stop_background(&self) {
        let background = &self.background;
        background.flusher.stop();
        background.maintenance.stop();
        background.drop_left();
        if let Some(spare) = lock(&background.jobs).spare.take() {
            let _ = self.storage.remove(&spare.name);
        }
        background.spare_asked.store(false, SeqCst);
    }
}

/// Returns how much memory of this process shows files, where the system tells.
fn shown_file_bytes() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/self/statm").ok()?;
    let pages: u64 = text.split_ascii_whitespace().nth(2)?.parse().ok()?;
    Some(pages * rustix::param::page_size() as u64)
}
