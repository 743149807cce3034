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
pub(super) struct SimState {
    pub(super) disk: Disk,
    pub(super) calls: u64,
    pub(super) number_reads: bool,
    pub(super) cut_after: Option<u64>,
    pub(super) fail_at: Option<(u64, Fault, Times)>,
    pub(super) bytes_max: Option<u64>,
    pub(super) told_free: Option<u64>,
    pub(super) trace: Option<Vec<Call>>,
    /// The number of calls at the first of the moments, and the disk then and after each call since.
    pub(super) moments: Option<(u64, Vec<Disk>)>,
    /// What maps of files show, of those that were mapped.
    pub(super) twins: HashMap<u64, Twin>,
    /// The handle that holds each locked file, and its process.
    pub(super) locks: HashMap<u64, (u64, u64)>,
    /// The processes that have a number of their own; process 0 stands for all others and lives for ever.
    pub(super) processes: HashMap<u64, Process>,
    pub(super) handle_next: u64,
    /// How often a write-back of each file failed.
    pub(super) sync_failures: HashMap<u64, u64>,
}

/// A process that may be stopped.
#[derive(Debug, Default)]
pub(super) struct Process {
    /// How many numbered calls it made.
    pub(super) calls: u64,
    /// After how many it stops.
    pub(super) calls_max: Option<u64>,
    /// How many calls there were in all when it stopped.
    pub(super) stopped: Option<u64>,
}

impl SimState {
    /// Fails if the power is off, or the process was stopped.
    pub(super) fn powered(&self, process: u64) -> io::Result<()> {
        if self.cut_after.is_some_and(|last| self.calls >= last) {
            return Err(io::Error::other("the power is off"));
        }
        match self.processes.get(&process) {
            Some(Process { stopped: Some(_), .. }) => Err(io::Error::other("the process was stopped")),
            _ => Ok(()),
        }
    }

    /// Stops a process that has made all the calls it may: it holds no locks then, and what it wrote stays.
    pub(super) fn stop_spent(&mut self, process: u64) {
        let Some(spent) = self.processes.get_mut(&process) else { return };
        if spent.stopped.is_none() && spent.calls_max.is_some_and(|calls_max| spent.calls >= calls_max) {
            spent.stopped = Some(self.calls);
            self.locks.retain(|_, (_, holder)| *holder != process);
        }
    }

    /// Numbers a call and returns the fault that strikes it, if any.
    pub(super) fn enter(
        &mut self,
        process: u64,
        kind: CallKind,
        name: &Arc<str>,
        offset: u64,
        bytes: u64,
    ) -> io::Result<Option<Fault>> {
        self.powered(process)?;
        if matches!(kind, CallKind::Read | CallKind::Map) && !self.number_reads {
            return Ok(None);
        }
        self.calls += 1;
        if let Some(process) = self.processes.get_mut(&process) {
            process.calls += 1;
        }
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

    /// Keeps the disk as a call of the process has left it.
    pub(super) fn leave(&mut self, process: u64) {
        if let Some((_, moments)) = &mut self.moments {
            moments.push(self.disk.clone());
        }
        self.stop_spent(process);
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
