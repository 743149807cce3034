//! The files that a collection makes: new cold segments, and marks of those that stay.

use bristlecone_core::{Location, Oid};

use crate::{
    Error,
    disk::{
        cold::ColdWriter,
        files::{SEGMENTS, cold_number, segment_name},
        lock::CollectorLock,
        marks::{marks_name, write_marks},
        sealed::Form,
        segment::{COLD, COLD_END},
        state::{ColdMarks, ColdSegment},
        view::DiskView,
    },
    sync::atomic::Ordering::*,
};

/// New files, which go again unless a state names them.
pub(super) struct NewFiles<'a> {
    view: DiskView<'a>,
    writer: Option<ColdWriter>,
    done: Vec<ColdSegment>,
    marks: Vec<ColdMarks>,
    /// Whether a frame may name them.
    pub(super) announced: bool,
    first_number: u32,
    next_number: u32,
}

impl<'a> NewFiles<'a> {
    pub(super) fn new(view: DiskView<'a>) -> Result<Self, Error> {
        let names = view.storage.list(SEGMENTS).map_err(|error| view.io(SEGMENTS, error))?;
        let known = view.table.state.cold.iter().map(|cold| cold.number);
        let highest = names.iter().filter_map(|name| cold_number(name)).chain(known).max().unwrap_or(COLD);
        let next_number = highest + 1;
        if next_number >= COLD_END {
            let reason = "no higher number is left for another one; if no collection has made this file, remove it";
            return Err(view.corrupt(&segment_name(highest), 0, reason));
        }
        Ok(Self {
            view,
            writer: None,
            done: Vec::new(),
            marks: Vec::new(),
            announced: false,
            first_number: next_number,
            next_number,
        })
    }

    /// Adds a record with these places of its children, and returns its own.
    pub(super) fn put(&mut self, oid: &Oid, record: &[u8], children: &[Location]) -> Result<Location, Error> {
        let bytes_max = self.view.cold_bytes_max();
        if self.writer.as_ref().is_some_and(|writer| writer.bytes() + record.len() as u64 > bytes_max) {
            self.finish_segment()?;
        }
        let writer = match &mut self.writer {
            Some(writer) => writer,
            none => {
                if self.next_number >= COLD_END {
                    let reason = "no higher number is left for another segment; copy the store to a new one";
                    return Err(self.view.corrupt(&segment_name(self.next_number - 1), 0, reason));
                }
                let (storage, salt) = (&self.view.storage, self.view.header.salt);
                let beside_syncs = self.view.state.sync.wanted.load(Relaxed);
                let writer = ColdWriter::new(storage, salt, self.next_number, beside_syncs)?;
                self.next_number += 1;
                none.insert(writer)
            }
        };
        writer.put(oid, record, children)
    }

    /// Returns a number that is higher than those of all cold segments that there were.
    pub(super) const fn first_number(&self) -> u32 {
        self.first_number
    }

    /// Whether a cold segment is being written.
    pub(super) const fn is_writing(&self) -> bool {
        self.writer.is_some()
    }

    /// Ends the cold segment that is being written, if one is.
    pub(super) fn finish_segment(&mut self) -> Result<(), Error> {
        if let Some(writer) = self.writer.take() {
            self.done.push(writer.finish()?);
        }
        Ok(())
    }

    /// Returns the cold segments that were made.
    pub(super) fn segments(&self) -> &[ColdSegment] {
        &self.done
    }

    /// Returns the marks of a cold segment for the next state, which are written unless that was done.
    pub(super) fn marks(
        &mut self,
        collector: &CollectorLock,
        cold: &ColdSegment,
        live: (&[u64], u64, u64),
    ) -> Result<ColdMarks, Error> {
        let (bits, records, bytes) = live;
        // Objects are marked and never unmarked, so their number tells.
        let same = |marks: &&ColdMarks| marks.number == cold.number && marks.records == records;
        if let Some(marks) = self.marks.iter().find(same) {
            return Ok(*marks);
        }
        let epoch = self.view.table.state.epoch + 1;
        self.marks.retain(|marks| marks.number != cold.number);
        let store = (&self.view.storage, self.view.header.salt);
        let marks = write_marks(store, collector, epoch, cold, bits, bytes)?;
        self.marks.push(marks);
        Ok(marks)
    }
}

impl Drop for NewFiles<'_> {
    /// A collection that failed gives back the room that it took.
    fn drop(&mut self) {
        if self.announced {
            return;
        }
        for cold in &self.done {
            let _ = self.view.storage.remove(&Form::Seal.name(cold.number));
            let _ = self.view.storage.remove(&segment_name(cold.number));
        }
        for marks in &self.marks {
            let _ = self.view.storage.remove(&marks_name(marks.number, marks.epoch));
        }
    }
}
