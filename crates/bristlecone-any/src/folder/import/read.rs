//! Reading one file or link.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Read as _},
    os::unix::{
        ffi::OsStringExt,
        fs::{MetadataExt, OpenOptionsExt},
    },
    path::Path as FilePath,
    sync::Arc,
};

use bristlecone::{EntryKind, Error as StoreError, Format, StoredValue, VALUE_BYTES_MAX};
use rustix::{fs::OFlags, io::Errno};

use super::FolderError;
use crate::{
    Repo,
    error::{Error, Result},
    text::shown,
};

/// Any of the three executable bits.
pub(super) const EXECUTABLE: u32 = 0o111;
/// The one that Git asks for.
pub(super) const EXECUTABLE_BY_OWNER: u32 = 0o100;

/// Files of more bytes are written to the store as they are read, where its format cuts large values.
const WRITTEN_FROM: u64 = 32 << 20;

/// Reads files as a store wants them.
pub(super) struct Reader<'a> {
    pub(super) repo: &'a Repo,
    /// The bits of which one makes a file an executable.
    pub(super) executable: u32,
    /// Whether files that cannot be read are left out.
    pub(super) skip_unreadable: bool,
}

/// A file or link that was read.
pub(super) struct Read {
    /// What it is, and its bytes; `None` if it cannot be read and is left out.
    pub(super) value: Option<(EntryKind, Bytes)>,
    /// What was taken from the budget.
    pub(super) held: u64,
}

/// The bytes of a file or link.
pub(super) enum Bytes {
    Here(Vec<u8>),
    /// In the store already.
    Written(StoredValue),
}

impl Bytes {
    pub(super) fn len(&self) -> u64 {
        match self {
            Self::Here(bytes) => bytes.len() as u64,
            Self::Written(value) => value.len(),
        }
    }
}

/// Whether this is of the file alone, and not of the process or the machine.
pub(super) fn is_unreadable(error: &io::Error) -> bool {
    let of_all = [Errno::MFILE, Errno::NFILE, Errno::NOMEM];
    error.raw_os_error().is_some_and(|code| of_all.iter().all(|all| all.raw_os_error() != code))
}

impl Reader<'_> {
    /// Reads what the scan found at `place`. `take` takes bytes from the budget.
    pub(super) fn read(&self, place: &FilePath, link: bool, take: &mut dyn FnMut(u64) -> u64) -> Result<Read> {
        let mut held = 0;
        let read = if link { read_link(place) } else { self.read_file(place, take, &mut held) };
        match read {
            Ok(value) => Ok(Read { value: Some(value), held }),
            Err(Refused::BySystem(error)) if self.skip_unreadable && is_unreadable(&error) => {
                Ok(Read { value: None, held })
            }
            Err(Refused::BySystem(error)) => {
                let doing = if link { "read the link" } else { "read" };
                Err(Error::Io { doing, file: shown(place), source: error })
            }
            Err(Refused::ByUs(error)) => Err(error),
        }
    }

    fn read_file(&self, place: &FilePath, take: &mut dyn FnMut(u64) -> u64, held: &mut u64) -> Value {
        let mut file = open(place)?;
        let found = file.metadata()?;
        if !found.is_file() {
            return Err(Refused::ByUs(changed(place)));
        }
        let size = found.len();
        if size > VALUE_BYTES_MAX {
            return Err(Refused::ByUs(too_large(place, size)));
        }
        let kind = if found.mode() & self.executable != 0 { EntryKind::Executable } else { EntryKind::Value };
        if size > WRITTEN_FROM && self.repo.format().value_builder().is_some() {
            return match self.repo.write_value(&mut file) {
                Ok(value) => Ok((kind, Bytes::Written(value))),
                Err(StoreError::Io { source, file }) if file == StoredValue::READER => Err(Refused::BySystem(source)),
                Err(StoreError::TooLarge { bytes, .. }) => Err(Refused::ByUs(too_large(place, bytes))),
                Err(error) => Err(Refused::ByUs(error.into())),
            };
        }
        *held = take(size);
        // One byte more than there should be, so that the end is seen without another buffer.
        let mut bytes = Vec::with_capacity(size as usize + 1);
        file.by_ref().take(VALUE_BYTES_MAX + 1).read_to_end(&mut bytes)?;
        if bytes.len() as u64 > VALUE_BYTES_MAX {
            return Err(Refused::ByUs(too_large(place, bytes.len() as u64)));
        }
        Ok((kind, Bytes::Here(bytes)))
    }
}

type Value = std::result::Result<(EntryKind, Bytes), Refused>;

/// Why there is no value.
enum Refused {
    BySystem(Arc<io::Error>),
    ByUs(Error),
}

impl From<io::Error> for Refused {
    fn from(error: io::Error) -> Self {
        Self::BySystem(Arc::new(error))
    }
}

fn read_link(place: &FilePath) -> Value {
    Ok((EntryKind::Link, Bytes::Here(fs::read_link(place)?.into_os_string().into_vec())))
}

/// Opens a file without following a link or waiting on a pipe that took its place.
fn open(place: &FilePath) -> std::result::Result<File, Refused> {
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    OpenOptions::new().read(true).custom_flags(flags.bits() as i32).open(place).map_err(|error| {
        if error.raw_os_error() == Some(Errno::LOOP.raw_os_error()) {
            return Refused::ByUs(changed(place));
        }
        Refused::BySystem(Arc::new(error))
    })
}

fn changed(place: &FilePath) -> Error {
    FolderError::Changed { place: place.to_owned() }.into()
}

pub(super) fn too_large(place: &FilePath, bytes: u64) -> Error {
    FolderError::TooLarge { place: place.to_owned(), bytes }.into()
}
