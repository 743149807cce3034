//! Removing what collections emptied, once nothing reads it.

use std::{collections::HashSet, io};

use crate::{
    Error,
    disk::{
        files::{SEGMENTS, cold_number, segment_number},
        filters::Run,
        lock::DiskLock,
        log::DiskState,
        marks::marks_of_name,
        refs::table_number,
        sealed::Form,
        segment::COLD,
        state::{StoreState, state_epoch, write_whole},
    },
    storage::OpenMode,
    sync::atomic::Ordering::*,
};

impl DiskState {
    /// Removes the files of segments that collections emptied, once the newest state is durable and as far as no process reads
    /// by a state that needs them; returns the bytes of those that stay for that, or 1 if other files do. The caller holds the lock
    /// of the collector, and reads by the newest state.
    pub(super) fn remove_emptied(&self) -> Result<u64, Error> {
        let table = self.table();
        let named_at = self.named_at.load(Acquire);
        if self.sync.durable_end() < named_at {
            return Ok(u64::MAX);
        }
        let mut is_noted = false;
        self.background.drop_left();
        self.tell_readers();
        let oldest = self.oldest_read(&table.state)?;
        let mut kept = u64::from(oldest != table.state.epoch);
        // A process that has told its state has opened what it needs of the tables.
        let named = self.tables_named(table.state.base)?;
        let mut names = self.storage.list(SEGMENTS).map_err(|error| self.io(SEGMENTS, error))?;
        let highest = names.iter().filter_map(|name| cold_number(name)).max();
        let is_highest = |name: &str| highest.is_some() && cold_number(name) == highest;
        // Where one that the state has is missing, the log may have lost the frame of a later state, and what that has is no waste.
        let there: HashSet<u32> = names.iter().filter_map(|name| cold_number(name)).collect();
        let is_whole = table.state.cold.iter().all(|cold| there.contains(&cold.number));
        let last = table.state.cold.last().map_or(COLD, |cold| cold.number);
        let is_waste = |number: u32| is_whole || number <= last;
        // Of the log the oldest first, whatever stops it: a writer that was passed goes on where its segment is gone, and must not
        // find that and not the next. Last what gives way to an empty file, for which a full disk may have no room as yet.
        names.sort_unstable_by_key(|name| (is_highest(name), segment_number(name)));
        // The file of a state is there as long as something reads by it. Those that a limit let go of are gone, though it may be longer
        // by now: who told one of them needs no more than the next one has.
        let told = if oldest == 0 {
            Some(0)
        } else {
            names.iter().filter_map(|name| state_epoch(name)).filter(|&epoch| epoch >= oldest).min()
        };
        let Some(before) = told.map_or(Ok(None), |epoch| self.read_state_file(epoch))? else { return Ok(u64::MAX) };
        for name in names {
            let number = segment_number(&name).or_else(|| cold_number(&name));
            let number = number.or_else(|| Form::of_name(&name).map(|(number, _)| number));
            let old_state = state_epoch(&name).is_some_and(|epoch| epoch < oldest);
            let old_refs = table_number(&name).is_some_and(|number| number < before.base && !named.contains(&number));
            let names = |state: &StoreState, (number, epoch): (u32, u64)| {
                state.marks(number).is_some_and(|marks| marks.epoch == epoch)
            };
            // What a later state names was made for that or for one in between, which somebody may read by.
            let old_marks = marks_of_name(&name)
                .is_some_and(|marks| marks.1 <= oldest && !names(&table.state, marks) && !names(&before, marks));
            let old_filter = Run::of_name(&name).is_some_and(|run| !run.is_needed(&table.state, &before));
            if old_filter
                || old_marks
                || old_state
                || old_refs
                || number
                    .is_some_and(|number| !table.has(number) && !before.needs(number, &table.state) && is_waste(number))
            {
                let path = format!("{SEGMENTS}/{name}");
                if is_highest(&name) && self.is_empty(&path) {
                    continue;
                }
                // Without the frame that names the state the log needs these files. Should it be lost, its end must not look like
                // one that a crash left.
                if !is_noted {
                    self.note_end(named_at, true);
                    is_noted = true;
                }
                self.remove_file(&path, is_highest(&name))?;
            } else if cold_number(&name).is_some_and(|number| !table.has(number)) {
                let length =
                    self.storage.open(&format!("{SEGMENTS}/{name}"), OpenMode::Read).and_then(|file| file.len());
                kept += length.unwrap_or(0);
            }
        }
        Ok(kept)
    }

    /// Removes a file that nothing reads. Of the cold segment with the highest number an empty file stays until there is a higher
    /// one: so no number is used twice.
    fn remove_file(&self, path: &str, is_highest: bool) -> Result<(), Error> {
        if is_highest {
            return write_whole(&self.storage, path, &[]);
        }
        match self.storage.remove(path) {
            // The thread that makes a larger filter removes the smaller ones that it stands for.
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            removed => removed.map_err(|error| self.io(path, error)),
        }
    }

    /// Whether a file is there and holds nothing.
    fn is_empty(&self, path: &str) -> bool {
        matches!(self.storage.open(path, OpenMode::Read).and_then(|file| file.len()), Ok(0))
    }

    /// Removes what an earlier collection emptied, if that can be done now. A failure is ignored: the next one tries again.
    pub(in crate::disk) fn tidy(&self) {
        if self.emptied.load(Relaxed)
            && self.lock.as_ref().is_some_and(DiskLock::is_own)
            && let Ok(_collector) = self.collector(0)
            // Another process may have collected since: what a newer state has is no waste.
            && let Ok(mut log) = self.log.try_lock()
            && self.catch_up(&mut log).is_ok()
        {
            drop(log);
            let removed = self.remove_emptied();
            self.emptied.store(!matches!(removed, Ok(0)), Relaxed);
        }
    }
}
