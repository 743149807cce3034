//! A disk with its counters, faults and locks: everything behind the handles.

use std::{collections::HashMap, io, sync::Arc};

use super::{
    disk::Disk,
    fault::{Call, CallKind, Fault, Times},
    maps::Twin,
};
use crate::generate::Rng;

/// How many calls in a row are interrupted at most.
const INTERRUPTIONS: u64 = 3;

#[derive(Default)]
pub(super) struct State {
    pub(super) disk: Disk,
    pub(super) calls: u64,
    pub(super) number_reads: bool,
    pub(super) cut_after: Option<u64>,
    pub(super) fail_at: Option<(u64, Fault, Times)>,
    pub(super) bytes_max: Option<u64>,
    pub(super) trace: Option<Vec<Call>>,
    /// The number of calls at the first of the moments, and the disk then and after each call since.
    pub(super) moments: Option<(u64, Vec<Disk>)>,
    /// What maps of files show, of those that were mapped.
    pub(super) twins: HashMap<u64, Twin>,
    /// The handle that holds each locked file.
    pub(super) locks: HashMap<u64, u64>,
    pub(super) handle_next: u64,
    /// How often a write-back of each file failed.
    pub(super) sync_failures: HashMap<u64, u64>,
}

impl State {
    /// Fails if the power is off.
    pub(super) fn powered(&self) -> io::Result<()> {
        match self.cut_after {
            Some(last) if self.calls >= last => Err(io::Error::other("the power is off")),
            _ => Ok(()),
        }
    }

    /// Numbers a call and returns the fault that strikes it, if any.
    pub(super) fn enter(
        &mut self,
        kind: CallKind,
        name: &Arc<str>,
        offset: u64,
        bytes: u64,
    ) -> io::Result<Option<Fault>> {
        self.powered()?;
        if matches!(kind, CallKind::Read | CallKind::Map) && !self.number_reads {
            return Ok(None);
        }
        self.calls += 1;
        if let Some(trace) = &mut self.trace {
            trace.push(Call { kind, name: name.clone(), offset, bytes });
        }
        let fault = self.fail_at.and_then(|(number, fault, times)| {
            let last = match (times, fault) {
                (Times::Once, _) => number,
                (Times::Forever, Fault::Interrupted) => number + INTERRUPTIONS - 1,
                (Times::Forever, _) => u64::MAX,
            };
            (number..=last).contains(&self.calls).then_some(fault)
        });
        Ok(fault)
    }

    /// Writes to a file, and to what maps of it show.
    pub(super) fn write(&mut self, id: u64, bytes: &[u8], offset: u64) {
        self.disk.write(id, bytes, offset);
        if let Some(twin) = self.twins.get_mut(&id) {
            twin.write(bytes, offset).expect("there is memory for maps");
        }
    }

    /// Sets the length of a file, and of what maps of it show.
    pub(super) fn set_len(&mut self, id: u64, bytes: u64) {
        let before = self.disk.file(id).len();
        self.disk.set_len(id, bytes);
        if let Some(twin) = self.twins.get_mut(&id) {
            twin.set_len(before, bytes).expect("there is memory for maps");
        }
    }

    /// Shows in maps what files hold after they changed otherwise than by writes.
    pub(super) fn renew_maps(&mut self) {
        for (id, twin) in &mut self.twins {
            twin.renew(self.disk.file(*id)).expect("there is memory for maps");
        }
    }

    /// Keeps the disk as the call has left it.
    pub(super) fn leave(&mut self) {
        if let Some((_, moments)) = &mut self.moments {
            moments.push(self.disk.clone());
        }
    }

    /// Returns the numbers that decide what a failing call still did.
    pub(super) fn rng(&self) -> Rng {
        Rng::stream(0x6661_756c_7473, self.calls)
    }

    /// Returns how many of `bytes` bytes fit at `offset` of a file that is now `len` long.
    pub(super) fn room(&self, len: u64, offset: u64, bytes: u64) -> u64 {
        let Some(bytes_max) = self.bytes_max else { return bytes };
        let free = bytes_max.saturating_sub(self.disk.bytes());
        let end_max = len + free;
        end_max.saturating_sub(offset).min(bytes)
    }
}
