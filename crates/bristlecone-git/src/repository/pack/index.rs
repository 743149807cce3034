//! The index of a pack: ids in order, and where each object lies.
//!
//! ```text
//! version 2:  ff 't' 'O' 'c'  2  fan-out 256 × 4  ids n × h  CRC-32 n × 4  offsets n × 4  far offsets m × 8  digests 2 × h
//! version 1:                     fan-out 256 × 4  n × (4 offset + h id)                                      digests 2 × h
//! ```
//!
//! h is the length of an id, 20 or 32 bytes; integers are big-endian. The fan-out says how many ids begin with a byte
//! up to each. An offset with its highest bit set is a place among the far ones. The digests are the pack's own and
//! that of all bytes before it.
//!
//! Source: Git's documentation, gitformat-pack.

use bristlecone::core::git::Algorithm;
use bristlecone::storage::Storage;
use bristlecone::{Error, Oid, OidPrefix, Result};

use super::data::{Data, WHOLE_BYTES_MAX};
use crate::repository::error;

/// What version 2 begins with; no fan-out of version 1 does, since counts do not fall.
pub(super) const MAGIC: [u8; 8] = [0xff, b't', b'O', b'c', 0, 0, 0, 2];
const FANOUT_BYTES: usize = 256 * 4;
/// The bit of an offset that says that it is an index among the far ones.
const FAR: u32 = 1 << 31;

/// An index over bytes that are mapped or owned.
#[derive(Debug)]
pub struct Index {
    data: Data,
    algorithm: Algorithm,
    version: u8,
    len: usize,
    /// How many far offsets there are.
    far: usize,
    file: String,
}

impl Index {
    /// Reads an index, version 1 or 2, out of its bytes. `file` names it in errors.
    ///
    /// # Errors
    /// [`Error::Corrupt`] unless the sizes fit and the fan-out rises.
    pub fn from_bytes(file: &str, algorithm: Algorithm, bytes: Vec<u8>) -> Result<Self> {
        Self::new(file.to_owned(), algorithm, Data::Bytes(bytes))
    }

    /// Opens the index in a file. One of up to 64 KiB is checked against its digest, a larger one by [`Index::check`]
    /// alone.
    ///
    /// # Errors
    /// As [`Index::from_bytes`]; those of the system.
    pub fn open(storage: &dyn Storage, name: &str, algorithm: Algorithm) -> Result<Self> {
        let file = storage.describe(name);
        let data = Data::open(storage, name, true).map_err(|source| Error::io(&*file, source))?;
        let index = Self::new(file, algorithm, data)?;
        // What is so small that it was read rather than mapped costs next to nothing to check whole.
        if index.data.len() <= WHOLE_BYTES_MAX {
            index.check_digest()?;
        }
        Ok(index)
    }

    fn new(file: String, algorithm: Algorithm, data: Data) -> Result<Self> {
        let mut index = Self { data, algorithm, version: 0, len: 0, far: 0, file };
        match index.measure() {
            Ok((version, len, far)) => {
                (index.version, index.len, index.far) = (version, len, far);
                Ok(index)
            }
            Err(reason) => Err(error::corrupt(index.file, 0, None, reason)),
        }
    }

    /// Returns the version, the number of objects and that of far offsets, if the sizes fit.
    fn measure(&self) -> Result<(u8, usize, usize), &'static str> {
        let (bytes, oid_bytes) = (self.bytes(), self.algorithm.oid_bytes());
        let version = if bytes.starts_with(&MAGIC[..4]) {
            if !bytes.starts_with(&MAGIC) {
                return Err("an index of a pack whose version is neither 1 nor 2");
            }
            2
        } else {
            1
        };
        let begin = if version == 2 { MAGIC.len() } else { 0 };
        let fanout = bytes.get(begin..begin + FANOUT_BYTES).ok_or("the index of the pack is cut off")?;
        let mut last = 0;
        for count in fanout.chunks_exact(4) {
            let count = u32_at(count, 0);
            if count < last {
                return Err("the fan-out of the index falls");
            }
            last = count;
        }
        let len = last as usize;
        let rest = (bytes.len() - begin - FANOUT_BYTES) as u64;
        let each = oid_bytes as u64 + if version == 2 { 8 } else { 4 };
        let fixed = len as u64 * each + 2 * oid_bytes as u64;
        let wrong = "the size of the index does not fit its number of objects";
        let far_bytes = rest.checked_sub(fixed).ok_or(wrong)?;
        let far = far_bytes / 8;
        let far_max = if version == 2 { len as u64 } else { 0 };
        if far_bytes % 8 != 0 || far > far_max {
            return Err(wrong);
        }
        Ok((version, len, far as usize))
    }

    /// Returns the number of objects.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there is no object.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the place of an id among the ids.
    #[must_use]
    pub fn find(&self, oid: &Oid) -> Option<usize> {
        let wanted = oid.as_bytes();
        if wanted.len() != self.algorithm.oid_bytes() {
            return None;
        }
        let first = usize::from(wanted[0]);
        let mut low = if first == 0 { 0 } else { self.fanout(first - 1) };
        let mut high = self.fanout(first);
        while low < high {
            let middle = low + (high - low) / 2;
            match self.oid_at(middle).cmp(wanted) {
                std::cmp::Ordering::Less => low = middle + 1,
                std::cmp::Ordering::Greater => high = middle,
                std::cmp::Ordering::Equal => return Some(middle),
            }
        }
        None
    }

    /// Returns the places of the ids that begin with some digits.
    pub(crate) fn with_prefix(&self, prefix: &OidPrefix) -> impl Iterator<Item = usize> + '_ {
        let (least, prefix) = (prefix.least(), *prefix);
        let first = usize::from(least[0]);
        let mut low = if first == 0 { 0 } else { self.fanout(first - 1) };
        let mut high = self.len;
        while low < high {
            let middle = low + (high - low) / 2;
            if self.oid_at(middle) < least {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        (low..self.len).take_while(move |&n| prefix.matches(&self.oid(n)))
    }

    /// Returns the id at a place.
    ///
    /// # Panics
    /// Unless the place is below [`Index::len`].
    #[must_use]
    pub fn oid(&self, n: usize) -> Oid {
        Oid::new(self.oid_at(n)).expect("ids have 20 or 32 bytes")
    }

    /// Returns the offset in the pack of the object at a place; `None` if the index is damaged there.
    ///
    /// # Panics
    /// Unless the place is below [`Index::len`].
    #[must_use]
    pub fn offset(&self, n: usize) -> Option<u64> {
        assert!(n < self.len);
        if self.version == 1 {
            return Some(u64::from(u32_at(self.bytes(), FANOUT_BYTES + n * self.entry_bytes())));
        }
        let near = self.offsets_begin() + n * 4;
        let offset = u32_at(self.bytes(), near);
        if offset & FAR == 0 {
            return Some(u64::from(offset));
        }
        let far = (offset & !FAR) as usize;
        let at = self.offsets_begin() + self.len * 4 + far * 8;
        (far < self.far).then(|| u64_at(self.bytes(), at))
    }

    /// Returns the checksum (CRC-32) of the entry at a place, if the index has it: version 1 has none.
    ///
    /// # Panics
    /// Unless the place is below [`Index::len`].
    #[must_use]
    pub fn crc(&self, n: usize) -> Option<u32> {
        assert!(n < self.len);
        let begin = MAGIC.len() + FANOUT_BYTES + self.len * self.algorithm.oid_bytes();
        (self.version == 2).then(|| u32_at(self.bytes(), begin + n * 4))
    }

    /// Whether the index has checksums of entries.
    pub(crate) fn has_checksums(&self) -> bool {
        self.version == 2
    }

    /// Returns the digest of the pack that this index is of.
    #[must_use]
    pub fn pack_digest(&self) -> &[u8] {
        let (bytes, oid_bytes) = (self.bytes(), self.algorithm.oid_bytes());
        &bytes[bytes.len() - 2 * oid_bytes..bytes.len() - oid_bytes]
    }

    /// Returns offsets and places, in the order in which the objects lie in the pack.
    ///
    /// # Errors
    /// [`Error::Corrupt`] if an offset is invalid.
    pub fn by_offset(&self) -> Result<Vec<(u64, u32)>> {
        let mut all = Vec::with_capacity(self.len);
        for n in 0..self.len {
            let offset = self.offset(n).ok_or_else(|| self.corrupt(n, "the offset of an object is invalid"))?;
            all.push((offset, n as u32));
        }
        all.sort_unstable();
        Ok(all)
    }

    /// Checks everything that the index says of itself: its digest, the order of ids, that the fan-out is theirs, that
    /// offsets are there.
    ///
    /// # Errors
    /// [`Error::Corrupt`] with what is wrong first.
    pub fn check(&self) -> Result<()> {
        self.check_digest()?;
        for n in 0..self.len {
            if n > 0 && self.oid_at(n - 1) >= self.oid_at(n) {
                return Err(self.corrupt(n, "the ids are not in order"));
            }
            let first = usize::from(self.oid_at(n)[0]);
            if n >= self.fanout(first) || (first > 0 && n < self.fanout(first - 1)) {
                return Err(self.corrupt(n, "the fan-out does not lead to this id"));
            }
            if self.offset(n).is_none() {
                return Err(self.corrupt(n, "the offset of this object is invalid"));
            }
        }
        Ok(())
    }

    /// Checks that the bytes are those that were written.
    pub(crate) fn check_digest(&self) -> Result<()> {
        let bytes = self.bytes();
        let body = bytes.len() - self.algorithm.oid_bytes();
        if self.algorithm.digest(&[&bytes[..body]]).as_bytes() == &bytes[body..] {
            return Ok(());
        }
        Err(error::corrupt(&self.file, body as u64, None, "the index is not what its digest says"))
    }

    /// Returns what messages call the file.
    #[must_use]
    pub fn file(&self) -> &str {
        &self.file
    }

    fn corrupt(&self, n: usize, reason: &str) -> Error {
        error::corrupt(&self.file, self.oid_begin(n) as u64, Some(self.oid(n)), reason)
    }

    #[inline]
    fn bytes(&self) -> &[u8] {
        self.data.slice().unwrap_or_default()
    }

    #[inline]
    fn fanout(&self, first: usize) -> usize {
        let begin = if self.version == 2 { MAGIC.len() } else { 0 };
        u32_at(self.bytes(), begin + first * 4) as usize
    }

    /// What lies between an id of version 1 and the next, or between two of version 2.
    #[inline]
    fn entry_bytes(&self) -> usize {
        self.algorithm.oid_bytes() + if self.version == 2 { 0 } else { 4 }
    }

    #[inline]
    fn oid_begin(&self, n: usize) -> usize {
        let begin = if self.version == 2 { MAGIC.len() + FANOUT_BYTES } else { FANOUT_BYTES + 4 };
        begin + n * self.entry_bytes()
    }

    #[inline]
    fn oid_at(&self, n: usize) -> &[u8] {
        assert!(n < self.len);
        let begin = self.oid_begin(n);
        &self.bytes()[begin..begin + self.algorithm.oid_bytes()]
    }

    fn offsets_begin(&self) -> usize {
        MAGIC.len() + FANOUT_BYTES + self.len * (self.algorithm.oid_bytes() + 4)
    }
}

#[inline]
fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from(u32_at(bytes, at)) << 32 | u64::from(u32_at(bytes, at + 4))
}
