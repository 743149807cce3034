//! The header of a store: which backend keeps it, and the format of its objects.
//!
//! The file `store` begins with 16 bytes that name the backend, so that a program tells every store apart before it opens
//! one. `docs/formats/header.md` lists the bytes. The disk engine's header has more fields, and its own reader.

use std::io;

use twox_hash::XxHash3_64;

use crate::{
    Error,
    storage::{OpenMode, Storage, read_exact_at, retry, write_all_at},
};

/// The file of the header.
const STORE: &str = "store";
const STORE_NEW: &str = "store.new";
const MAGIC_BYTES: usize = 16;
const MAGIC_START: &[u8; 12] = b"bristlecone ";
const VERSION_AT: usize = MAGIC_BYTES;
const FORMAT_AT: usize = VERSION_AT + 4;
const NAME_AT: usize = FORMAT_AT + 4;
const OPTIONS_AT: usize = NAME_AT + 4;
/// Bytes before the format's name: 32 = 16 magic + 4 version + 4 format version + 4 name length + 4 options length.
const FIXED_BYTES: usize = OPTIONS_AT + 4;
const _: () = assert!(FIXED_BYTES == 32, "the fields of a header add up");
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
///
/// `Header::read(storage, b)` returns what `header.write(storage)` wrote, where `header.backend == b`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// The backend's name: at most four bytes.
    pub backend: &'static str,
    /// The version of the backend's files.
    pub version: u32,
    /// The format of the objects.
    pub format: FormatTag,
}

impl Header {
    /// Returns the name of the backend that keeps the store in `storage`, as its header has it; `None` if there is no header,
    /// or one that names none. Nothing else of the header is checked.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn backend_in(storage: &dyn Storage) -> Result<Option<String>, Error> {
        let failed = |error| Error::io(storage.describe(STORE), error);
        let file = match retry(|| storage.open(STORE, OpenMode::Read)) {
            Err(error) if is_absent(&error) => return Ok(None),
            opened => opened.map_err(failed)?,
        };
        if file.len().map_err(failed)? < MAGIC_BYTES as u64 {
            return Ok(None);
        }
        let mut magic = [0; MAGIC_BYTES];
        read_exact_at(&*file, &mut magic, 0).map_err(failed)?;
        let name = magic.strip_prefix(MAGIC_START).unwrap_or_default();
        let name = std::str::from_utf8(name).unwrap_or_default().trim_end_matches('\0');
        let is_word = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric());
        Ok(is_word.then(|| name.to_owned()))
    }

    /// Reads the header of a store of `backend`, whose files have version `version`.
    ///
    /// # Errors
    /// [`Error::NoStore`]; [`Error::Incompatible`] for the store of another backend or version; [`Error::Corrupt`],
    /// [`Error::Io`].
    pub fn read(storage: &dyn Storage, backend: &'static str, version: u32) -> Result<Self, Error> {
        let file = storage.describe(STORE);
        match Self::backend_in(storage)? {
            None if !Self::is_in(storage)? => return Err(Error::NoStore { file: storage.describe("") }),
            Some(found) if found != backend => {
                let (found, expected) = (format!("a store of the backend {found}"), format!("one of {backend}"));
                return Err(Error::Incompatible { file, found, expected });
            }
            _ => {}
        }
        let header = Self::read_file(storage, backend)?;
        if header.version != version {
            let found = format!("version {} of the backend {backend}", header.version);
            return Err(Error::Incompatible { file, found, expected: format!("version {version}") });
        }
        Ok(header)
    }

    /// Writes the header, durably and in one step: with it the store begins to exist.
    ///
    /// # Errors
    /// [`Error::Exists`] if there is one; [`Error::TooLarge`]; [`Error::NoSpace`], [`Error::Io`].
    pub fn write(&self, storage: &dyn Storage) -> Result<(), Error> {
        if Self::is_in(storage)? {
            return Err(Error::Exists { file: storage.describe("") });
        }
        let bytes = self.encode();
        if bytes.len() as u64 > HEADER_BYTES_MAX {
            let (bytes, bytes_max) = (bytes.len() as u64, HEADER_BYTES_MAX);
            return Err(Error::TooLarge { what: "the store's header", bytes, bytes_max });
        }
        let write = || {
            let file = retry(|| storage.open(STORE_NEW, OpenMode::Create))?;
            // What an earlier try left, which ended before the rename.
            file.set_len(0)?;
            write_all_at(&*file, &bytes, 0)?;
            file.sync_data()?;
            retry(|| storage.rename(STORE_NEW, STORE))?;
            storage.sync_dir("")
        };
        write().map_err(|error| Error::io(storage.describe(STORE), error))
    }

    /// Whether there is a header, of whatever backend.
    fn is_in(storage: &dyn Storage) -> Result<bool, Error> {
        match retry(|| storage.open(STORE, OpenMode::Read)) {
            Ok(_) => Ok(true),
            Err(error) if is_absent(&error) => Ok(false),
            Err(error) => Err(Error::io(storage.describe(STORE), error)),
        }
    }

    fn read_file(storage: &dyn Storage, backend: &'static str) -> Result<Self, Error> {
        let name = storage.describe(STORE);
        let failed = |error| Error::io(name.clone(), error);
        let corrupt = |(offset, reason): (u64, &str)| {
            let reason = format!("{reason}; put the file back from a backup of this store");
            Error::Corrupt { file: name.clone(), offset, oid: None, reason }
        };
        let file = retry(|| storage.open(STORE, OpenMode::Read)).map_err(failed)?;
        let bytes = file.len().map_err(failed)?;
        if bytes > HEADER_BYTES_MAX {
            return Err(corrupt((0, "the header is too long")));
        }
        let mut buffer = vec![0; bytes as usize];
        read_exact_at(&*file, &mut buffer, 0).map_err(failed)?;
        Self::decode(&buffer, backend).map_err(corrupt)
    }

    fn encode(&self) -> Vec<u8> {
        let mut out = MAGIC_START.to_vec();
        out.extend_from_slice(self.backend.as_bytes());
        out.resize(MAGIC_BYTES, 0);
        out.extend_from_slice(&self.version.to_le_bytes());
        out.extend_from_slice(&self.format.version.to_le_bytes());
        out.extend_from_slice(&(self.format.name.len() as u32).to_le_bytes());
        out.extend_from_slice(&(self.format.options.len() as u32).to_le_bytes());
        out.extend_from_slice(self.format.name.as_bytes());
        out.extend_from_slice(self.format.options.as_bytes());
        let check = XxHash3_64::oneshot(&out);
        out.extend_from_slice(&check.to_le_bytes());
        out
    }

    /// Decodes a header. An error says where and why these bytes are not one.
    fn decode(bytes: &[u8], backend: &'static str) -> Result<Self, (u64, &'static str)> {
        if bytes.len() < FIXED_BYTES + 8 || !bytes.starts_with(MAGIC_START) {
            return Err((0, "this is no header of a store"));
        }
        let (contents, check) = bytes.split_at(bytes.len() - 8);
        if XxHash3_64::oneshot(contents).to_le_bytes() != check {
            return Err((0, "the header's checksum is wrong"));
        }
        let word = |at: usize| contents[at..at + 4].iter().rev().fold(0u32, |word, &byte| word << 8 | u32::from(byte));
        let (name_bytes, options_bytes) = (word(NAME_AT) as usize, word(OPTIONS_AT) as usize);
        if name_bytes.checked_add(options_bytes) != Some(contents.len() - FIXED_BYTES) {
            return Err((NAME_AT as u64, "the header's lengths do not add up"));
        }
        let (name, options) = contents[FIXED_BYTES..].split_at(name_bytes);
        let text = |bytes: &[u8]| {
            let text = std::str::from_utf8(bytes).map_err(|_| (FIXED_BYTES as u64, "the header's text is not UTF-8"));
            text.map(str::to_owned)
        };
        let format = FormatTag { name: text(name)?, version: word(FORMAT_AT), options: text(options)? };
        Ok(Self { backend, version: word(VERSION_AT), format })
    }
}

fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::storage::RealStorage;

    fn header() -> Header {
        let format = FormatTag { name: "native".to_owned(), version: 1, options: "inline=48".to_owned() };
        Header { backend: "fs", version: 3, format }
    }

    #[test]
    fn a_header_round_trips_and_every_flip_is_found() {
        let bytes = header().encode();
        assert_eq!(Header::decode(&bytes, "fs"), Ok(header()));
        for bit in 0..bytes.len() * 8 {
            let mut flipped = bytes.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert!(Header::decode(&flipped, "fs").is_err(), "bit {bit}");
        }
        for cut in 0..bytes.len() {
            assert!(Header::decode(&bytes[..cut], "fs").is_err(), "cut at {cut}");
        }
    }

    #[test]
    fn a_store_tells_which_backend_keeps_it() {
        let dir = tempfile::tempdir().expect("a folder");
        let storage: Arc<dyn Storage> = Arc::new(RealStorage::new(dir.path()));
        assert_eq!(Header::backend_in(&*storage).expect("a look"), None);
        assert!(matches!(Header::read(&*storage, "fs", 3), Err(Error::NoStore { .. })));
        header().write(&*storage).expect("a new header");
        assert!(matches!(header().write(&*storage), Err(Error::Exists { .. })));
        assert_eq!(Header::backend_in(&*storage).expect("a look").as_deref(), Some("fs"));
        assert_eq!(Header::read(&*storage, "fs", 3).expect("the header"), header());
        assert!(matches!(Header::read(&*storage, "fs", 4), Err(Error::Incompatible { .. })));
        assert!(matches!(Header::read(&*storage, "lsm", 3), Err(Error::Incompatible { .. })));
        let opened = crate::disk::DiskBackend::header_in(&storage);
        assert!(matches!(opened, Err(Error::Incompatible { .. })), "{opened:?}");
        for bytes in [&b""[..], b"bristlecone fs", &[0xFF; 200]] {
            std::fs::write(dir.path().join(STORE), bytes).expect("damage");
            assert!(matches!(Header::read(&*storage, "fs", 3), Err(Error::Corrupt { .. })));
        }
    }
}
