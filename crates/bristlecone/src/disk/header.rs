//! The file `store`: what the store is, written once, with a copy beside the segments. `docs/formats/disk.md` section 1
//! lists the bytes.
//!
//! Without the header nothing can be read: it has the salt of all checksums. So a lost header must not look as if there
//! were no store, and must not be final.

use std::{io, sync::Arc};

use twox_hash::XxHash3_64;

use super::{
    files::{
        CHUNK_BYTES, DURABLE, SEGMENTS, SPARE, STORE, STORE_COPY, STORE_COPY_NEW, STORE_NEW, names_of_segments,
        open_empty, random_word, segment_name, segment_number,
    },
    frame::{word32, word64},
    handles::{Handles, SegmentAccess},
    mend::first_frame,
    segment::{SEGMENT_BYTES_MAX, SEGMENT_BYTES_MIN, Segment, rows_at},
};
use crate::{
    Error,
    engine::{FormatTag, Header},
    storage::{OpenMode, Storage, read_exact_at, write_all_at},
};

const MAGIC: &[u8; 16] = b"bristlecone disk";
/// The newest version of the files that this engine reads and writes.
pub(super) const ENGINE_VERSION: u32 = 2;

const ENGINE_AT: usize = 16;
const FORMAT_AT: usize = ENGINE_AT + 4;
const SEGMENT_AT: usize = FORMAT_AT + 4;
const SALT_AT: usize = SEGMENT_AT + 8;
const NAME_AT: usize = SALT_AT + 8;
const OPTIONS_AT: usize = NAME_AT + 4;
/// Bytes before the format's name: 48 = 16 magic + 4 engine + 4 format version + 8 segment bytes + 8 salt
/// + 4 name length + 4 options length.
const FIXED_BYTES: usize = OPTIONS_AT + 4;
const _: () = assert!(FIXED_BYTES == 48, "the fields of the store's header add up");
/// No header is longer: names and options are a few words.
const HEADER_BYTES_MAX: u64 = 1 << 16;

/// What the header of a store says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreHeader {
    /// The version of the engine's files.
    pub engine_version: u32,
    /// The format of the objects.
    pub format: FormatTag,
    /// The size of a full-grown segment, in bytes.
    pub segment_bytes: u64,
    /// Distinguishes this store's frames from those of any other.
    pub(super) salt: u64,
}

impl StoreHeader {
    /// Returns a header with a salt of its own.
    pub(super) fn new(format: FormatTag, segment_bytes: u64, engine_version: u32) -> Self {
        Self { engine_version, format, segment_bytes, salt: random_word() }
    }

    /// Whether both are of one store, which may have been upgraded between them.
    pub(super) fn is_of(&self, other: &Self) -> bool {
        let without_version = |header: &Self| Self { engine_version: 0, ..header.clone() };
        without_version(self) == without_version(other)
    }

    /// Returns the file's bytes.
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut out = MAGIC.to_vec();
        out.extend_from_slice(&self.engine_version.to_le_bytes());
        out.extend_from_slice(&self.format.version.to_le_bytes());
        out.extend_from_slice(&self.segment_bytes.to_le_bytes());
        out.extend_from_slice(&self.salt.to_le_bytes());
        out.extend_from_slice(&(self.format.name.len() as u32).to_le_bytes());
        out.extend_from_slice(&(self.format.options.len() as u32).to_le_bytes());
        out.extend_from_slice(self.format.name.as_bytes());
        out.extend_from_slice(self.format.options.as_bytes());
        let check = XxHash3_64::oneshot(&out);
        out.extend_from_slice(&check.to_le_bytes());
        out
    }

    /// Decodes a header. An error says where and why these bytes are not one.
    pub(super) fn decode(bytes: &[u8]) -> Result<Self, (u64, String)> {
        if bytes.len() < FIXED_BYTES + 8 || bytes[..MAGIC.len()] != MAGIC[..] {
            return Err((0, "this is no header of a store".to_owned()));
        }
        let (name_bytes, options_bytes) = (word32(bytes, NAME_AT) as u64, word32(bytes, OPTIONS_AT) as u64);
        let check_at = bytes.len() - 8;
        if XxHash3_64::oneshot(&bytes[..check_at]) != word64(bytes, check_at) {
            return Err((0, "the header's checksum is wrong".to_owned()));
        }
        if FIXED_BYTES as u64 + name_bytes + options_bytes != check_at as u64 {
            return Err((NAME_AT as u64, "the header's lengths do not add up".to_owned()));
        }
        let segment_bytes = word64(bytes, SEGMENT_AT);
        if !(SEGMENT_BYTES_MIN..=SEGMENT_BYTES_MAX).contains(&segment_bytes) {
            return Err((SEGMENT_AT as u64, "the header's size of segments is none that a store has".to_owned()));
        }
        let text = |from: usize, to: usize| {
            std::str::from_utf8(&bytes[from..to])
                .map(str::to_owned)
                .map_err(|_| (from as u64, "the header's text is not UTF-8".to_owned()))
        };
        let name_end = FIXED_BYTES + name_bytes as usize;
        Ok(Self {
            engine_version: word32(bytes, ENGINE_AT),
            format: FormatTag {
                name: text(FIXED_BYTES, name_end)?,
                version: word32(bytes, FORMAT_AT),
                options: text(name_end, check_at)?,
            },
            segment_bytes,
            salt: word64(bytes, SALT_AT),
        })
    }

    /// Reads the header of the store in `storage`.
    ///
    /// # Errors
    /// [`Error::NoStore`]; [`Error::Lost`] where the header is missing from a store; [`Error::Corrupt`], [`Error::Io`];
    /// [`Error::Incompatible`] for another engine version, or the store of another backend.
    pub(super) fn read(storage: &Arc<dyn Storage>) -> Result<Self, Error> {
        if let Some(backend) = Header::backend_in(&**storage)?.filter(|found| found != "disk") {
            return Err(Error::Incompatible {
                file: storage.describe(STORE),
                found: format!("a store of the backend {backend}"),
                expected: "one of disk".to_owned(),
            });
        }
        Self::read_file(storage, STORE).map_err(|error| match error {
            Error::Io { source, .. } if source.kind() == io::ErrorKind::NotFound => match only_begun(storage) {
                Ok(None) => Error::NoStore { file: storage.describe("") },
                Ok(Some(_)) => lost(storage),
                Err(error) => error,
            },
            Error::Corrupt { file, offset, oid, reason } if Self::read_file(storage, STORE_COPY).is_ok() => {
                let reason = format!("{reason}; there is a copy, from which a repair restores it");
                Error::Corrupt { file, offset, oid, reason }
            }
            error => error,
        })
    }

    /// Reads the header, or its copy.
    pub(super) fn read_file(storage: &Arc<dyn Storage>, file: &str) -> Result<Self, Error> {
        let name = storage.describe(file);
        let failed = |error| Error::io(name.clone(), error);
        let file = storage.open(file, OpenMode::Read).map_err(failed)?;
        let corrupt = |(offset, reason)| Error::Corrupt { file: name.clone(), offset, oid: None, reason };
        let bytes = file.len().map_err(failed)?;
        if bytes > HEADER_BYTES_MAX {
            return Err(corrupt((0, "the header is too long".to_owned())));
        }
        let mut buffer = vec![0; bytes as usize];
        read_exact_at(&*file, &mut buffer, 0).map_err(failed)?;
        let header = Self::decode(&buffer).map_err(corrupt)?;
        if !(1..=ENGINE_VERSION).contains(&header.engine_version) {
            return Err(Error::Incompatible {
                file: name,
                found: format!("version {} of the disk engine", header.engine_version),
                expected: format!("version 1 to {ENGINE_VERSION}"),
            });
        }
        Ok(header)
    }

    /// Writes the header: with it the store begins to exist.
    pub(super) fn write(&self, storage: &Arc<dyn Storage>) -> Result<(), Error> {
        self.write_file(storage, STORE_NEW, STORE)?;
        storage.sync_dir("").map_err(|error| Error::io(storage.describe(""), error))
    }

    /// Whether a segment that is there was written under this header.
    pub(super) fn fits_segments(&self, storage: &Arc<dyn Storage>) -> Result<bool, Error> {
        let mut fits = false;
        self.each_segment(storage, false, &mut |segment| {
            fits |= segment.head.is_some()
                || segment.bytes_before_cut(self.salt)?.is_some()
                || first_frame(segment, self.salt)?.is_some();
            Ok(fits)
        })?;
        Ok(fits)
    }

    /// Makes segments whose files were cut as long as they were, and returns which these are: nothing of what is there changes, and
    /// what is missing is told when the log is followed.
    pub(super) fn lengthen_segments(&self, storage: &Arc<dyn Storage>) -> Result<Vec<String>, Error> {
        let mut lengthened = Vec::new();
        self.each_segment(storage, true, &mut |segment| {
            if let Some(bytes) = segment.bytes_before_cut(self.salt)? {
                let file = segment.file()?;
                file.set_len(bytes)?;
                file.sync_data()?;
                lengthened.push(storage.describe(&segment.name));
            }
            Ok(false)
        })?;
        lengthened.sort_unstable();
        Ok(lengthened)
    }

    /// Calls `each` with the segments of the log, until it returns that it has seen enough.
    pub(super) fn each_segment(
        &self,
        storage: &Arc<dyn Storage>,
        writable: bool,
        each: &mut dyn FnMut(&Segment) -> io::Result<bool>,
    ) -> Result<(), Error> {
        let failed = |name: &str, error| Error::io(storage.describe(name), error);
        let names = names_of_segments(&**storage)?;
        for number in names.iter().filter_map(|name| segment_number(name)) {
            let access = SegmentAccess {
                storage,
                salt: self.salt,
                version: self.engine_version,
                bits: None,
                handles: &Handles::default(),
            };
            let name = segment_name(number);
            let opened = Segment::open(&access, number, writable).map_err(|error| failed(&name, error))?;
            if opened.map_or(Ok(false), |segment| each(&segment)).map_err(|error| failed(&name, error))? {
                break;
            }
        }
        Ok(())
    }

    /// Sees to it that the copy is there and right; returns whether it was not.
    pub(super) fn keep_copy(&self, storage: &Arc<dyn Storage>) -> Result<bool, Error> {
        if Self::read_file(storage, STORE_COPY).is_ok_and(|copy| copy == *self) {
            return Ok(false);
        }
        self.write_file(storage, STORE_COPY_NEW, STORE_COPY)?;
        Ok(true)
    }

    /// Writes the header under one name, and gives it another once it is durable.
    fn write_file(&self, storage: &Arc<dyn Storage>, new: &str, name: &str) -> Result<(), Error> {
        let bytes = self.encode();
        if bytes.len() as u64 > HEADER_BYTES_MAX {
            let (bytes, bytes_max) = (bytes.len() as u64, HEADER_BYTES_MAX);
            return Err(Error::TooLarge { what: "the store's header", bytes, bytes_max });
        }
        let file = open_empty(storage, new)?;
        write_all_at(&*file, &bytes, 0).map_err(|error| Error::io(storage.describe(new), error))?;
        file.sync_data().map_err(|error| Error::io(storage.describe(new), error))?;
        storage.rename(new, name).map_err(|error| Error::io(storage.describe(name), error))
    }
}

/// Returns the error of a store whose header is missing.
pub(super) fn lost(storage: &Arc<dyn Storage>) -> Error {
    let way = match StoreHeader::read_file(storage, STORE_COPY) {
        Ok(_) => "a repair restores it from its copy",
        Err(_) => "put it back from a backup of this store: without it nothing here can be read",
    };
    let reason = format!("the header is missing, though the store's segments are there; {way}");
    Error::Lost { file: storage.describe(STORE), reason }
}

/// Returns the first file among the segments that is more than what a killed `init` leaves, if there is one.
///
/// If there is no such file, making a store loses nothing.
pub(super) fn only_begun(storage: &Arc<dyn Storage>) -> Result<Option<String>, Error> {
    let mut names = match storage.list(SEGMENTS) {
        Ok(names) => names,
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            return Ok(None);
        }
        Err(error) => return Err(Error::io(storage.describe(SEGMENTS), error)),
    };
    names.sort_unstable();
    for name in names {
        let path = format!("{SEGMENTS}/{name}");
        let begun = match segment_number(&name) {
            Some(1) => is_blank(storage, &path)?,
            Some(_) => false,
            None => name.starts_with(SPARE) || [STORE_COPY, STORE_COPY_NEW, DURABLE].contains(&&*path),
        };
        if !begun {
            return Ok(Some(path));
        }
    }
    Ok(None)
}

/// Whether a segment has nothing but zeroes behind its head.
fn is_blank(storage: &Arc<dyn Storage>, name: &str) -> Result<bool, Error> {
    let failed = |error| Error::io(storage.describe(name), error);
    let file = storage.open(name, OpenMode::Read).map_err(failed)?;
    let bytes = file.len().map_err(failed)?;
    let mut buffer = vec![0; 8];
    if bytes >= 8 {
        read_exact_at(&*file, &mut buffer, 0).map_err(failed)?;
    }
    let mut at = rows_at(word64(&buffer, 0), ENGINE_VERSION);
    while at < bytes {
        buffer.resize(CHUNK_BYTES.min(bytes - at) as usize, 0);
        read_exact_at(&*file, &mut buffer, at).map_err(failed)?;
        if buffer.iter().any(|&byte| byte != 0) {
            return Ok(false);
        }
        at += buffer.len() as u64;
    }
    Ok(true)
}

/// Returns the header that the copy is, if it is that of the segments which are there.
///
/// # Errors
/// [`Error::Lost`] where it is not; those of reading.
pub(super) fn verified_copy(storage: &Arc<dyn Storage>) -> Result<StoreHeader, Error> {
    let copy = StoreHeader::read_file(storage, STORE_COPY)?;
    if copy.fits_segments(storage)? {
        return Ok(copy);
    }
    let reason = "no segment here was written by the store that this header is of; put the right one back";
    Err(Error::Lost { file: storage.describe(STORE_COPY), reason: reason.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_header_round_trips_and_every_flip_is_found() {
        let format = FormatTag { name: "native".to_owned(), version: 1, options: "inline=48".to_owned() };
        let header = StoreHeader::new(format, 1 << 20, 2);
        let bytes = header.encode();
        assert_eq!(StoreHeader::decode(&bytes), Ok(header));
        for bit in 0..bytes.len() * 8 {
            let mut flipped = bytes.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert!(StoreHeader::decode(&flipped).is_err(), "bit {bit}");
        }
        for cut in 0..bytes.len() {
            assert!(StoreHeader::decode(&bytes[..cut]).is_err(), "cut at {cut}");
        }
    }

    /// Whoever writes a right checksum over a size that no store has is refused too: some divide by it.
    #[test]
    fn a_size_of_segments_that_no_store_has_is_refused() {
        let format = || FormatTag { name: "native".to_owned(), version: 1, options: String::new() };
        for (bytes, right) in [(0, false), (4095, false), (4096, true), (SEGMENT_BYTES_MAX, true), (1 << 32, false)] {
            let header = StoreHeader::new(format(), bytes, 2);
            assert_eq!(StoreHeader::decode(&header.encode()).is_ok(), right, "{bytes}");
        }
    }
}
