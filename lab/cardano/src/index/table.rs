//! The table of hashes: buckets of a line each, which lead from a hash to the number of its record.
//!
//! A bucket has eight fingerprints of 16 bits, eight numbers of records, and a count of the entries that found it full and
//! went on to the next bucket. A lookup ends at the first bucket that no entry passed. An absent hash is absent only if the
//! checksums of the buckets that say so are right.

use std::path::{Path, PathBuf};

use super::{
    IndexError, IndexPart,
    bytes::{Bytes, failed},
    line::{LINE_BYTES, Line, fold, half, put, sum, word},
    records::{HEADER_BYTES, Records, VERSION},
};
use crate::BlockHash;

/// "This is a table of hashes."
const MAGIC: [u8; 8] = *b"bcIdxTab";
/// Entries of a bucket.
const ENTRIES: usize = 8;
/// The buckets of the smallest table, as a power of two.
const BITS_MIN: u32 = 7;
/// An entry lies at most so many buckets from its own: more in one place make the table grow. Half full, as tables are that
/// grew for their load, they do so at random once in a very great many chains.
const PROBES_MAX: u64 = 32;
/// A table is doubled at most so often beyond what its load asks for: hashes that crowd even then are made up.
pub(super) const GROWN_MAX: u32 = 4;
/// A bucket that so many passed makes the table grow.
const PASSED_MAX: u16 = u16::MAX;

/// A table of buckets.
pub(super) struct Table {
    bytes: Bytes,
    /// The power of two of the count of buckets.
    bits: u32,
    /// The identity of the index.
    id: u64,
    /// What hashes are mixed with, so that which ones share a bucket is not known outside.
    seed: [u64; 2],
    /// Whether the file says that it is as the records are.
    clean: bool,
}

/// What became of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Added {
    Done,
    /// There is no room near its bucket.
    Full,
}

/// What the bucket of a hash says of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Glance {
    /// A record to look at. Nothing is checked: it may be another one, or be named by an entry that is not there.
    Likely(u32),
    /// The bucket, whose checksum is right, says that the hash is absent.
    Absent,
    /// A search will tell.
    Unknown,
}

impl Table {
    /// Makes an empty table that holds `entries` entries without growing.
    pub(super) fn create(path: Option<&Path>, id: u64, seed: [u64; 2], entries: u32) -> Result<Self, IndexError> {
        let mut bits = BITS_MIN;
        while load_max(bits) <= u64::from(entries) {
            bits += 1;
        }
        Self::with_bits(path, id, seed, bits)
    }

    fn with_bits(path: Option<&Path>, id: u64, seed: [u64; 2], bits: u32) -> Result<Self, IndexError> {
        let bytes = Bytes::zeros(path, HEADER_BYTES + (LINE_BYTES << bits))?;
        bytes.expect_lookups();
        let mut table = Self { bytes, bits, id, seed, clean: false };
        table.write_header(None);
        Ok(table)
    }

    /// Opens the table that was closed as that of these records; `None` if there is none that is like that.
    pub(super) fn open(path: &Path, records: &Records) -> Result<Option<Self>, IndexError> {
        let bytes = match Bytes::open(path) {
            Err(IndexError::Io { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            other => other?,
        };
        let Some(header) = bytes.first_chunk::<LINE_BYTES>() else { return Ok(None) };
        let (bits, id) = (half(header, 12), word(header, 2));
        let fits = header[..8] == MAGIC
            && half(header, 8) == VERSION
            && id == records.id
            && word(header, 7) == sum(header, 0, id, u64::MAX)
            && word(header, 6) == 1
            && word(header, 5) == u64::from(records.count)
            && (BITS_MIN..=32).contains(&bits)
            && bytes.len() == HEADER_BYTES + (LINE_BYTES << bits);
        let seed = [word(header, 3), word(header, 4)];
        bytes.expect_lookups();
        Ok(fits.then_some(Self { bytes, bits, id, seed, clean: true }))
    }

    /// Makes the table of some records, which are all verified. `grown` doubles it, as often as told, beyond what the
    /// count asks for.
    pub(super) fn of_records(
        path: Option<&Path>,
        records: &Records,
        seed: [u64; 2],
        grown: u32,
    ) -> Result<Self, IndexError> {
        let mut table = Self::create(path, records.id, seed, records.count.saturating_add(1))?;
        if grown > 0 {
            let bits = table.bits + grown;
            drop(table);
            table = Self::with_bits(path, records.id, seed, bits)?;
        }
        for number in 0..records.count {
            let hash = records.get(number)?.point.hash;
            if table.add(&hash, number, false)? == Added::Full {
                drop(table);
                if grown == GROWN_MAX {
                    return Err(IndexError::Crowded { point: records.get(number)?.point });
                }
                return Self::of_records(path, records, seed, grown + 1);
            }
        }
        for number in 0..1u64 << table.bits {
            let whose = table.id;
            seal(table.bucket_mut(number), whose, number);
        }
        Ok(table)
    }

    /// Whether one more entry asks for a larger table.
    pub(super) const fn is_full(&self, count: u32) -> bool {
        count as u64 >= load_max(self.bits)
    }

    /// Looks into the bucket of a hash alone, at what it names first. That mostly is enough.
    #[inline]
    pub(super) fn glance(&self, hash: &BlockHash) -> Glance {
        let (home, print) = self.home(hash);
        let bucket = self.bucket(home);
        let same = equal(bucket, print);
        if same != 0 {
            Glance::Likely(record(bucket, same.trailing_zeros() as usize / 16))
        } else if passed(bucket) == 0 && word(bucket, 7) == sum(bucket, 0, self.id, home) {
            Glance::Absent
        } else {
            Glance::Unknown
        }
    }

    /// Finds the number of the record with a hash.
    pub(super) fn find(&self, hash: &BlockHash, records: &Records) -> Result<Option<u32>, IndexError> {
        let (home, print) = self.home(hash);
        for distance in 0..PROBES_MAX {
            let at = self.after(home, distance);
            let bucket = self.bucket(at);
            let mut matches = matching(bucket, print);
            while matches != 0 {
                let lane = matches.trailing_zeros() as usize / 16;
                let number = record(bucket, lane);
                if records.line(number).is_some_and(|line| line[..32] == hash.0) {
                    return Ok(Some(number));
                }
                // The hash may be another one with the same fingerprint, or this one damaged.
                self.verify(at)?;
                records.get(number)?;
                matches &= matches - 1;
            }
            self.verify(at)?;
            if passed(bucket) == 0 {
                return Ok(None);
            }
        }
        Ok(None)
    }

    /// Adds an entry, which is not there. Without `sealed` the checksums are not kept up to date, nor looked at.
    pub(super) fn add(&mut self, hash: &BlockHash, number: u32, sealed: bool) -> Result<Added, IndexError> {
        let (home, print) = self.home(hash);
        let mut distance = 0;
        loop {
            let at = self.after(home, distance);
            if sealed {
                self.verify(at)?;
            }
            if used(self.bucket(at)) < ENTRIES {
                break;
            }
            distance += 1;
            if passed(self.bucket(at)) == PASSED_MAX || distance == PROBES_MAX {
                return Ok(Added::Full);
            }
        }
        for back in 0..distance {
            self.change(home, back, sealed, |bucket| set_passed(bucket, passed(bucket) + 1));
        }
        self.change(home, distance, sealed, |bucket| {
            let lane = used(bucket);
            put(bucket, lane * 2, &print.to_le_bytes());
            put(bucket, 16 + lane * 4, &number.to_le_bytes());
            set_used(bucket, lane + 1);
        });
        Ok(Added::Done)
    }

    /// Removes the entry of a record.
    pub(super) fn remove(&mut self, hash: &BlockHash, number: u32) -> Result<(), IndexError> {
        let (home, _) = self.home(hash);
        let lane_in = |bucket: &Line| (0..used(bucket)).find(|&lane| record(bucket, lane) == number);
        let mut found = None;
        for distance in 0..PROBES_MAX {
            self.verify(self.after(home, distance))?;
            if let Some(lane) = lane_in(self.bucket(self.after(home, distance))) {
                found = Some((distance, lane));
                break;
            }
        }
        let Some((distance, lane)) = found else {
            return Err(self.damaged(home, "the entry of a record is missing"));
        };
        for back in 0..distance {
            self.change(home, back, true, |bucket| set_passed(bucket, passed(bucket).saturating_sub(1)));
        }
        self.change(home, distance, true, |bucket| {
            let last = used(bucket) - 1;
            bucket.copy_within(last * 2..last * 2 + 2, lane * 2);
            bucket.copy_within(16 + last * 4..20 + last * 4, 16 + lane * 4);
            put(bucket, last * 2, &[0; 2]);
            put(bucket, 16 + last * 4, &[0; 4]);
            set_used(bucket, last);
        });
        Ok(())
    }

    /// Says durably that the table may differ from the records, before it does.
    pub(super) fn mark_changing(&mut self) -> Result<(), IndexError> {
        if !self.clean {
            return Ok(());
        }
        self.write_header(None);
        self.clean = false;
        self.bytes.flush(0..LINE_BYTES)
    }

    /// Makes the table durable, and then says that it is that of the records.
    pub(super) fn close(&mut self, records: &Records) -> Result<(), IndexError> {
        if self.clean {
            return Ok(());
        }
        self.bytes.flush(HEADER_BYTES..self.bytes.len())?;
        self.write_header(Some(records.count));
        self.clean = true;
        self.bytes.flush(0..LINE_BYTES)
    }

    /// Gives the file the name that it keeps.
    pub(super) fn rename(&mut self, to: &Path) -> Result<(), IndexError> {
        let from: Option<PathBuf> = self.bytes.path().map(Into::into);
        if let Some(from) = from {
            std::fs::rename(&from, to).map_err(failed(Some(to)))?;
            self.bytes.renamed(to);
        }
        Ok(())
    }

    pub(super) const fn seed(&self) -> [u64; 2] {
        self.seed
    }

    /// Returns how often the table was doubled beyond what a count of entries asks for.
    pub(super) fn grown(&self, count: u32) -> u32 {
        let mut bits = BITS_MIN;
        while load_max(bits) <= u64::from(count.saturating_add(1)) {
            bits += 1;
        }
        self.bits.saturating_sub(bits)
    }

    fn write_header(&mut self, clean: Option<u32>) {
        let mut header = [0; LINE_BYTES];
        put(&mut header, 0, &MAGIC);
        put(&mut header, 8, &VERSION.to_le_bytes());
        put(&mut header, 12, &self.bits.to_le_bytes());
        put(&mut header, 16, &self.id.to_le_bytes());
        put(&mut header, 24, &self.seed[0].to_le_bytes());
        put(&mut header, 32, &self.seed[1].to_le_bytes());
        put(&mut header, 40, &u64::from(clean.unwrap_or(0)).to_le_bytes());
        put(&mut header, 48, &u64::from(clean.is_some()).to_le_bytes());
        let check = sum(&header, 0, self.id, u64::MAX);
        put(&mut header, 56, &check.to_le_bytes());
        self.bytes[..LINE_BYTES].copy_from_slice(&header);
    }

    /// Returns the bucket of a hash and its fingerprint.
    #[inline]
    fn home(&self, hash: &BlockHash) -> (u64, u16) {
        let (words, _) = hash.0.as_chunks();
        let mixed = fold(u64::from_le_bytes(words[0]) ^ self.seed[0], u64::from_le_bytes(words[1]) ^ self.seed[1]);
        (mixed >> (64 - self.bits), mixed as u16)
    }

    #[inline]
    const fn after(&self, home: u64, distance: u64) -> u64 {
        (home + distance) & ((1 << self.bits) - 1)
    }

    #[inline]
    fn bucket(&self, number: u64) -> &Line {
        let (lines, _) = self.bytes.as_chunks();
        &lines[HEADER_BYTES / LINE_BYTES + number as usize]
    }

    fn bucket_mut(&mut self, number: u64) -> &mut Line {
        let (lines, _) = self.bytes.as_chunks_mut();
        &mut lines[HEADER_BYTES / LINE_BYTES + number as usize]
    }

    fn change(&mut self, home: u64, distance: u64, sealed: bool, change: impl FnOnce(&mut Line)) {
        let (at, whose) = (self.after(home, distance), self.id);
        let bucket = self.bucket_mut(at);
        change(bucket);
        if sealed {
            seal(bucket, whose, at);
        }
    }

    #[inline]
    fn verify(&self, number: u64) -> Result<(), IndexError> {
        let bucket = self.bucket(number);
        if word(bucket, 7) == sum(bucket, 0, self.id, number) {
            return Ok(());
        }
        Err(self.damaged(number, "its checksum is wrong"))
    }

    #[cold]
    fn damaged(&self, number: u64, reason: &'static str) -> IndexError {
        IndexError::Damaged { name: self.bytes.name(), part: IndexPart::Table, number, reason }
    }
}

/// Returns how many entries make a table of a power of two of buckets grow: seven tenths of its room.
const fn load_max(bits: u32) -> u64 {
    ((ENTRIES as u64 * 7) << bits) / 10
}

/// Returns the lanes with a fingerprint, the highest bit of 16 for each. A lane above a true one may be wrong.
#[inline]
fn matching(bucket: &Line, print: u16) -> u128 {
    let (same, used) = (equal(bucket, print), used(bucket));
    if used >= ENTRIES { same } else { same & ((1 << (used * 16)) - 1) }
}

/// Returns what [`matching`] does, of lanes without an entry too.
#[inline]
fn equal(bucket: &Line, print: u16) -> u128 {
    const ONES: u128 = 0x0001_0001_0001_0001_0001_0001_0001_0001;
    let mut prints = [0; 16];
    prints.copy_from_slice(&bucket[..16]);
    let differ = u128::from_le_bytes(prints) ^ (ONES * u128::from(print));
    differ.wrapping_sub(ONES) & !differ & (ONES << 15)
}

#[inline]
fn record(bucket: &Line, lane: usize) -> u32 {
    half(bucket, 16 + (lane & 7) * 4)
}

/// Returns how many entries a bucket has; at most eight, whatever it says.
#[inline]
fn used(bucket: &Line) -> usize {
    usize::from(u16::from_le_bytes([bucket[48], bucket[49]])).min(ENTRIES)
}

#[inline]
fn passed(bucket: &Line) -> u16 {
    u16::from_le_bytes([bucket[50], bucket[51]])
}

fn set_used(bucket: &mut Line, used: usize) {
    put(bucket, 48, &(used as u16).to_le_bytes());
}

fn set_passed(bucket: &mut Line, passed: u16) {
    put(bucket, 50, &passed.to_le_bytes());
}

fn seal(bucket: &mut Line, whose: u64, number: u64) {
    let check = sum(bucket, 0, whose, number);
    put(bucket, 56, &check.to_le_bytes());
}
