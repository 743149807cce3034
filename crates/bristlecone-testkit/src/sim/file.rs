//! One simulated file: what is durable, what readers see, and the writes in between.

use std::{collections::BTreeMap, io, ops::Range, sync::Arc};

use super::{
    SECTOR_BYTES,
    pages::{Pages, Sector},
};

/// A file's contents now, what a power cut leaves for certain, and what happened since.
///
/// `current` is `durable` with all of `pending` applied, unless a failed sync dropped sectors (`diverged`).
#[derive(Clone, Default)]
pub(super) struct FileState {
    current: Pages,
    durable: Pages,
    pending: Vec<PendingWrite>,
    diverged: bool,
    // The place, in the order of everything that happened to the disk, of its last change.
    modified: u64,
}

/// A write or change of length that no sync has made durable.
#[derive(Clone)]
struct PendingWrite {
    /// Its place in the order of everything that happened to the disk.
    seq: u64,
    range: Range<u64>,
    data: WriteData,
    /// The file's length from then on, if it changed.
    len: Option<u64>,
}

#[derive(Clone)]
enum WriteData {
    Zeroes,
    Bytes(Arc<[u8]>),
}

/// Part of a pending change: a sector of a write, or a new length.
#[derive(Clone, Copy)]
pub(super) enum PendingPart {
    Sector,
    Length,
}

impl FileState {
    pub(super) fn len(&self) -> u64 {
        self.current.len()
    }

    /// Returns what stands for the time of the last change: it only rises.
    pub(super) fn modified(&self) -> u64 {
        self.modified
    }

    pub(super) fn touch(&mut self, seq: u64) {
        self.modified = seq;
    }

    pub(super) fn read(&self, buffer: &mut [u8], offset: u64) -> usize {
        self.current.read(buffer, offset)
    }

    /// Calls `each` with the bytes of every page that readers see and that is not all zero, and where it begins.
    pub(super) fn each_page(&self, each: impl FnMut(&[u8], u64) -> io::Result<()>) -> io::Result<()> {
        self.current.each_page(each)
    }

    pub(super) fn write(&mut self, bytes: &[u8], offset: u64, seq: u64) {
        // A write that changes nothing has no fate to decide; pre-zeroed segments stay free that way. After a
        // failed sync it does: it makes the pages dirty again.
        if !self.diverged && self.current.holds(bytes, offset) {
            return;
        }
        let before = self.current.len();
        self.modified = seq;
        let grown = !self.diverged && self.current.holds_zeroes(bytes, offset);
        self.current.write(bytes, offset);
        let after = self.current.len();
        let end = offset + bytes.len() as u64;
        let range = if grown { end..end } else { offset..end };
        let data = if grown { WriteData::Zeroes } else { WriteData::Bytes(bytes.into()) };
        self.pending.push(PendingWrite { seq, range, data, len: (after != before).then_some(after) });
    }

    pub(super) fn set_len(&mut self, len: u64, seq: u64) {
        let before = self.current.len();
        if len == before {
            return;
        }
        self.current.set_len(len);
        self.modified = seq;
        let range = if len < before { len..before } else { len..len };
        self.pending.push(PendingWrite { seq, range, data: WriteData::Zeroes, len: Some(len) });
    }

    pub(super) fn sync(&mut self) {
        if self.diverged {
            self.durable.set_len(self.current.len());
            for sector in self.touched() {
                self.durable.put_sector(sector, &self.current.sector(sector));
            }
        } else {
            self.durable = self.current.clone();
        }
        self.pending.clear();
    }

    /// What Linux does when a write-back fails: the pages count as clean from then on, wherever they got to.
    pub(super) fn fail_sync(&mut self, mut reached: impl FnMut() -> bool) {
        self.durable.set_len(self.current.len());
        for sector in self.touched() {
            if reached() {
                self.durable.put_sector(sector, &self.current.sector(sector));
            } else {
                self.diverged = true;
            }
        }
        self.pending.clear();
    }

    /// Forgets clean pages, so that readers see what the medium holds.
    pub(super) fn forget_cache(&mut self) {
        if self.diverged {
            self.current = self.survivor(|_, _| true);
            self.diverged = false;
        }
    }

    /// Whether the medium holds what readers see.
    pub(super) fn is_clean(&self) -> bool {
        self.pending.is_empty() && !self.diverged
    }

    /// Returns the numbers of the pending changes.
    pub(super) fn pending(&self) -> impl Iterator<Item = u64> {
        self.pending.iter().map(|change| change.seq)
    }

    /// Returns the file with nothing pending, its contents being `contents`.
    pub(super) fn durable(contents: Pages, modified: u64) -> Self {
        Self { durable: contents.clone(), current: contents, modified, ..Self::default() }
    }

    /// Returns what is left if exactly those parts of pending changes reach the medium that `kept` says.
    ///
    /// A sector holds what the cache held at some moment: what it was, or what it became by the first,
    /// first two, ... writes to it; never a later write without an earlier one, never a mixture.
    pub(super) fn survivor(&self, mut kept: impl FnMut(u64, PendingPart) -> bool) -> Pages {
        let mut last: BTreeMap<u64, usize> = BTreeMap::new();
        let mut len = self.durable.len();
        for (index, change) in self.pending.iter().enumerate() {
            for sector in change.sectors() {
                if kept(change.seq, PendingPart::Sector) {
                    last.insert(sector, index);
                }
            }
            if let Some(changed) = change.len
                && kept(change.seq, PendingPart::Length)
            {
                len = changed;
            }
        }
        let mut contents = self.durable.clone();
        contents.set_len(len.max(contents.len()));
        for (sector, last) in last {
            let mut bytes = contents.sector(sector);
            for change in &self.pending[..=last] {
                change.apply(sector, &mut bytes);
            }
            contents.put_sector(sector, &bytes);
        }
        contents.set_len(len);
        contents
    }

    /// Changes bytes where they lie, as a decaying medium does.
    pub(super) fn damage(&mut self, change: impl Fn(&mut Pages)) {
        change(&mut self.current);
        change(&mut self.durable);
    }

    fn touched(&self) -> Vec<u64> {
        let mut sectors: Vec<u64> = self.pending.iter().flat_map(PendingWrite::sectors).collect();
        sectors.sort_unstable();
        sectors.dedup();
        sectors
    }
}

impl PendingWrite {
    fn sectors(&self) -> Range<u64> {
        if self.range.is_empty() {
            return 0..0;
        }
        self.range.start / SECTOR_BYTES..self.range.end.div_ceil(SECTOR_BYTES)
    }

    fn apply(&self, sector: u64, bytes: &mut Sector) {
        let base = sector * SECTOR_BYTES;
        let from = self.range.start.max(base);
        let to = self.range.end.min(base + SECTOR_BYTES);
        if from >= to {
            return;
        }
        let out = &mut bytes[(from - base) as usize..(to - base) as usize];
        match &self.data {
            WriteData::Zeroes => out.fill(0),
            WriteData::Bytes(data) => {
                let at = (from - self.range.start) as usize;
                out.copy_from_slice(&data[at..at + out.len()]);
            }
        }
    }
}
