//! The bytes of a simulated file: sparse pages, shared between copies until one of them changes.

use std::{collections::BTreeMap, io, ops::Range, sync::Arc};

use super::SECTOR_BYTES;

/// Bytes of a page: the unit in which copies share.
const PAGE_BYTES: u64 = 4096;

type Page = [u8; PAGE_BYTES as usize];
pub(super) type Sector = [u8; SECTOR_BYTES as usize];

/// A run of bytes of some length. Cloning is cheap; pages of zeroes take no memory.
#[derive(Clone, Default)]
pub(super) struct Pages {
    len: u64,
    // Pages that are not all zero. Nothing beyond `len` is other than zero.
    pages: Arc<BTreeMap<u64, Arc<Page>>>,
}

impl Pages {
    pub(super) fn len(&self) -> u64 {
        self.len
    }

    /// Copies into `buffer` from `offset` and returns how many bytes there were.
    pub(super) fn read(&self, buffer: &mut [u8], offset: u64) -> usize {
        let end = self.len.min(offset.saturating_add(buffer.len() as u64));
        let mut at = offset;
        while at < end {
            let (page, within) = (at / PAGE_BYTES, (at % PAGE_BYTES) as usize);
            let count = ((end - at) as usize).min(PAGE_BYTES as usize - within);
            let out = &mut buffer[(at - offset) as usize..][..count];
            match self.pages.get(&page) {
                Some(bytes) => out.copy_from_slice(&bytes[within..within + count]),
                None => out.fill(0),
            }
            at += count as u64;
        }
        end.saturating_sub(offset) as usize
    }

    /// Calls `each` with the bytes of every page that is not all zero, and where it begins.
    pub(super) fn each_page(&self, mut each: impl FnMut(&[u8], u64) -> io::Result<()>) -> io::Result<()> {
        self.pages.iter().try_for_each(|(page, bytes)| {
            let at = page * PAGE_BYTES;
            each(&bytes[..PAGE_BYTES.min(self.len - at) as usize], at)
        })
    }

    /// Puts `bytes` at `offset`, extending the file.
    pub(super) fn write(&mut self, bytes: &[u8], offset: u64) {
        self.len = self.len.max(offset + bytes.len() as u64);
        let mut done = 0;
        while done < bytes.len() {
            let at = offset + done as u64;
            let (page, within) = (at / PAGE_BYTES, (at % PAGE_BYTES) as usize);
            let count = (bytes.len() - done).min(PAGE_BYTES as usize - within);
            self.put(page, within, &bytes[done..done + count]);
            done += count;
        }
    }

    fn put(&mut self, page: u64, within: usize, bytes: &[u8]) {
        let zero = bytes.iter().all(|&b| b == 0);
        if zero && !self.pages.contains_key(&page) {
            return;
        }
        let pages = Arc::make_mut(&mut self.pages);
        if zero && bytes.len() == PAGE_BYTES as usize {
            pages.remove(&page);
            return;
        }
        let held = pages.entry(page).or_insert_with(|| Arc::new([0; PAGE_BYTES as usize]));
        Arc::make_mut(held)[within..within + bytes.len()].copy_from_slice(bytes);
    }

    /// Puts zeroes, without changing the length.
    pub(super) fn zero(&mut self, range: Range<u64>) {
        let touched: Vec<u64> =
            self.pages.range(range.start / PAGE_BYTES..range.end.div_ceil(PAGE_BYTES)).map(|(&page, _)| page).collect();
        for page in touched {
            let from = range.start.max(page * PAGE_BYTES);
            let to = range.end.min((page + 1) * PAGE_BYTES);
            self.put(page, (from % PAGE_BYTES) as usize, &[0; PAGE_BYTES as usize][..(to - from) as usize]);
        }
    }

    pub(super) fn set_len(&mut self, len: u64) {
        if len < self.len {
            self.zero(len..self.len.next_multiple_of(PAGE_BYTES));
        }
        self.len = len;
    }

    /// Whether the file already reads so from `offset` on.
    pub(super) fn holds(&self, bytes: &[u8], offset: u64) -> bool {
        if offset + bytes.len() as u64 > self.len {
            return false;
        }
        let mut found = vec![0; bytes.len()];
        self.read(&mut found, offset);
        found == bytes
    }

    /// Whether `bytes` and what they replace are all zero, so that writing them can but change the length.
    pub(super) fn holds_zeroes(&self, bytes: &[u8], offset: u64) -> bool {
        let end = offset + bytes.len() as u64;
        self.pages.range(offset / PAGE_BYTES..end.div_ceil(PAGE_BYTES)).all(|(&page, held)| {
            let from = offset.max(page * PAGE_BYTES) - page * PAGE_BYTES;
            let to = end.min((page + 1) * PAGE_BYTES) - page * PAGE_BYTES;
            held[from as usize..to as usize].iter().all(|&b| b == 0)
        }) && bytes.iter().all(|&b| b == 0)
    }

    /// Returns sector `index`, padded with zeroes beyond the end.
    pub(super) fn sector(&self, index: u64) -> Sector {
        let mut sector = [0; SECTOR_BYTES as usize];
        self.read(&mut sector, index * SECTOR_BYTES);
        sector
    }

    /// Puts a sector, without changing the length; bytes beyond it are dropped.
    pub(super) fn put_sector(&mut self, index: u64, sector: &Sector) {
        let at = index * SECTOR_BYTES;
        let count = self.len.saturating_sub(at).min(SECTOR_BYTES) as usize;
        if count > 0 {
            self.put(at / PAGE_BYTES, (at % PAGE_BYTES) as usize, &sector[..count]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zeroes_cost_nothing_and_read_back() {
        let mut pages = Pages::default();
        pages.set_len(1 << 40);
        pages.write(&[0; 10_000], 5);
        assert!(pages.pages.is_empty());
        pages.write(b"abc", 4095);
        let mut found = [9; 5];
        assert_eq!(pages.read(&mut found, 4094), 5);
        assert_eq!(&found, b"\0abc\0");
    }

    #[test]
    fn cutting_and_growing_again_gives_zeroes() {
        let mut pages = Pages::default();
        pages.write(&[7; 9000], 0);
        let copy = pages.clone();
        pages.set_len(5000);
        pages.set_len(9000);
        let mut found = vec![1; 9000];
        pages.read(&mut found, 0);
        assert!(found[..5000].iter().all(|&b| b == 7) && found[5000..].iter().all(|&b| b == 0));
        assert!(copy.holds(&[7; 9000], 0));
        assert_eq!(copy.read(&mut found, 9001), 0);
    }
}
