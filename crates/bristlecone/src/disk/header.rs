//! The file `store`: what the store is, written once. `docs/formats/disk.md` section 1 lists the bytes.

use std::{
    hash::{BuildHasher, Hasher},
    io,
    sync::Arc,
};

use xxhash_rust::xxh3::xxh3_64;

use super::frame::{word32, word64};
use crate::{
    Error,
    storage::{OpenMode, Storage, StorageFile, read_exact_at, write_all_at},
};

/// The name of the file.
pub(super) const STORE: &str = "store";
const STORE_NEW: &str = "store.new";
const MAGIC: &[u8; 16] = b"bristlecone disk";
/// The version of the files that this engine writes, and the only one that it reads.
pub(super) const ENGINE_VERSION: u32 = 1;

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

/// The format that a store's objects are in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FormatTag {
    /// Its name.
    pub name: String,
    /// The version of its bytes.
    pub version: u32,
    /// The options that change roots, as the format writes them.
    pub options: String,
}

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
    pub(super) fn new(format: FormatTag, segment_bytes: u64) -> Self {
        Self { engine_version: ENGINE_VERSION, format, segment_bytes, salt: random_word() }
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
        let check = xxh3_64(&out);
        out.extend_from_slice(&check.to_le_bytes());
        out
    }

    /// Returns the header that these bytes are; else where and why they are none.
    pub(super) fn decode(bytes: &[u8]) -> Result<Self, (u64, String)> {
        if bytes.len() < FIXED_BYTES + 8 || bytes[..MAGIC.len()] != MAGIC[..] {
            return Err((0, "this is no header of a store".to_owned()));
        }
        let (name_bytes, options_bytes) = (word32(bytes, NAME_AT) as u64, word32(bytes, OPTIONS_AT) as u64);
        let check_at = bytes.len() - 8;
        if xxh3_64(&bytes[..check_at]) != word64(bytes, check_at) {
            return Err((0, "the header's checksum is wrong".to_owned()));
        }
        if FIXED_BYTES as u64 + name_bytes + options_bytes != check_at as u64 {
            return Err((NAME_AT as u64, "the header's lengths do not add up".to_owned()));
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
            segment_bytes: word64(bytes, SEGMENT_AT),
            salt: word64(bytes, SALT_AT),
        })
    }

    /// Reads the header of the store in `storage`.
    ///
    /// # Errors
    /// [`Error::NoStore`], [`Error::Corrupt`], [`Error::Io`]; [`Error::Incompatible`] for another engine version.
    pub(super) fn read(storage: &Arc<dyn Storage>) -> Result<Self, Error> {
        let name = storage.describe(STORE);
        let file = match storage.open(STORE, OpenMode::Read) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(Error::NoStore { file: storage.describe("") });
            }
            Err(error) => return Err(Error::io(name, error)),
        };
        let corrupt = |(offset, reason)| Error::Corrupt { file: storage.describe(STORE), offset, oid: None, reason };
        let bytes = file.len().map_err(|error| Error::io(name.clone(), error))?;
        if bytes > HEADER_BYTES_MAX {
            return Err(corrupt((0, "the header is too long".to_owned())));
        }
        let mut buffer = vec![0; bytes as usize];
        read_exact_at(&*file, &mut buffer, 0).map_err(|error| Error::io(name.clone(), error))?;
        let header = Self::decode(&buffer).map_err(corrupt)?;
        if header.engine_version != ENGINE_VERSION {
            return Err(Error::Incompatible {
                file: name,
                found: format!("version {} of the disk engine", header.engine_version),
                expected: format!("version {ENGINE_VERSION}"),
            });
        }
        Ok(header)
    }

    /// Writes the header: with it the store begins to exist.
    pub(super) fn write(&self, storage: &Arc<dyn Storage>) -> Result<(), Error> {
        let bytes = self.encode();
        if bytes.len() as u64 > HEADER_BYTES_MAX {
            let (bytes, bytes_max) = (bytes.len() as u64, HEADER_BYTES_MAX);
            return Err(Error::TooLarge { what: "the store's header", bytes, bytes_max });
        }
        let at = |name: &str| storage.describe(name);
        let file = open_empty(storage, STORE_NEW)?;
        write_all_at(&*file, &bytes, 0).map_err(|error| Error::io(at(STORE_NEW), error))?;
        file.sync_data().map_err(|error| Error::io(at(STORE_NEW), error))?;
        storage.rename(STORE_NEW, STORE).map_err(|error| Error::io(at(STORE), error))?;
        storage.sync_dir("").map_err(|error| Error::io(at(""), error))
    }
}

/// Opens a new file of this name in place of one that may be there.
pub(super) fn open_empty(storage: &Arc<dyn Storage>, name: &str) -> Result<Arc<dyn StorageFile>, Error> {
    match storage.remove(name) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(Error::io(storage.describe(name), error)),
        _ => {}
    }
    storage.open(name, OpenMode::CreateNew).map_err(|error| Error::io(storage.describe(name), error))
}

/// Returns a word that differs between any two calls, in any two processes.
///
/// It need not be secret; it keeps apart what would otherwise look alike.
pub(super) fn random_word() -> u64 {
    std::collections::hash_map::RandomState::new().build_hasher().finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_header_round_trips_and_every_flip_is_found() {
        let format = FormatTag { name: "native".to_owned(), version: 1, options: "inline=48".to_owned() };
        let header = StoreHeader::new(format, 1 << 20);
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
}
