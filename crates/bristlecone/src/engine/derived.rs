//! Derived files: caches of the layers above, which may be lost at any time. `docs/formats/disk.md` section 6 lists
//! the bytes.
//!
//! A file says how long its contents are and has a checksum over them. It is written under another name and renamed, and
//! never synced. What is torn, damaged or of another layout counts as absent.

use std::{
    hash::{BuildHasher, RandomState},
    io,
    sync::Arc,
    time::{Duration, SystemTime},
};

use twox_hash::XxHash3_64;

use crate::{
    Error,
    storage::{OpenMode, Storage, read_exact_at, retry, write_all_at},
};

const MAGIC: &[u8; 8] = b"BCONEDRV";
const LENGTH_AT: usize = MAGIC.len();
const CHECK_AT: usize = LENGTH_AT + 8;
/// Bytes before the contents: 24 = 8 magic + 8 length + 8 check.
const HEAD_BYTES: usize = CHECK_AT + 8;
const _: () = assert!(HEAD_BYTES == 24, "the fields of a derived file's head add up");

/// How the name of a file goes on that is not whole yet; 16 hexadecimal digits follow.
const NEW: &str = ".new-";
/// Who writes a file locks it. Programs of before did not, and wrote on within so long.
const WRITTEN_WITHIN: Duration = Duration::from_secs(60);

/// Longer files are not read: the index of a history of a hundred million commits is shorter.
const DERIVED_BYTES_MAX: u64 = 1 << 33;

/// The derived files of a store, in a folder of their own.
#[derive(Clone, Debug)]
pub struct Derived {
    storage: Arc<dyn Storage>,
    folder: String,
}

impl Derived {
    /// Returns the derived files in a folder, which the first write makes if need be.
    pub fn new(storage: Arc<dyn Storage>, folder: impl Into<String>) -> Self {
        Self { storage, folder: folder.into() }
    }

    /// Reads a derived file; `None` if there is no such file, or it is not whole.
    ///
    /// `derived.write(n, b)` makes `derived.read(n) == Some(b)`, until the file is lost.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn read(&self, name: &str) -> Result<Option<Vec<u8>>, Error> {
        self.read_at(&self.path(name), DERIVED_BYTES_MAX)
    }

    /// Replaces a derived file, in one step as far as readers see.
    ///
    /// # Errors
    /// [`Error::NoSpace`], [`Error::Io`]; then the old one is still there.
    pub fn write(&self, name: &str, bytes: &[u8]) -> Result<(), Error> {
        self.write_at(&self.path(name), bytes)
    }

    /// As [`Derived::read`], by the path. Contents of more than `bytes_max` bytes are damage.
    pub(crate) fn read_at(&self, path: &str, bytes_max: u64) -> Result<Option<Vec<u8>>, Error> {
        let failed = |error| Error::io(self.storage.describe(path), error);
        let file = match retry(|| self.storage.open(path, OpenMode::Read)) {
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
                return Ok(None);
            }
            opened => opened.map_err(failed)?,
        };
        let bytes = file.len().map_err(failed)?;
        let body_bytes = bytes.checked_sub(HEAD_BYTES as u64).filter(|&bytes| bytes <= bytes_max);
        let Some(body_bytes) = body_bytes else { return Ok(None) };
        let mut head = [0; HEAD_BYTES];
        read_exact_at(&*file, &mut head, 0).map_err(failed)?;
        if head[..LENGTH_AT] != MAGIC[..] || head[LENGTH_AT..CHECK_AT] != body_bytes.to_le_bytes() {
            return Ok(None);
        }
        let mut body = vec![0; body_bytes as usize];
        read_exact_at(&*file, &mut body, HEAD_BYTES as u64).map_err(failed)?;
        Ok((head[CHECK_AT..] == XxHash3_64::oneshot(&body).to_le_bytes()).then_some(body))
    }

    /// As [`Derived::write`], by the path.
    pub(crate) fn write_at(&self, path: &str, bytes: &[u8]) -> Result<(), Error> {
        let new = format!("{path}{NEW}{:016x}", RandomState::new().hash_one(0));
        let open = || retry(|| self.storage.open(&new, OpenMode::CreateNew));
        let opened = match open() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                retry(|| self.storage.create_dir(&self.folder)).and_then(|()| open())
            }
            opened => opened,
        };
        let mut head = [0; HEAD_BYTES];
        head[..LENGTH_AT].copy_from_slice(MAGIC);
        head[LENGTH_AT..CHECK_AT].copy_from_slice(&(bytes.len() as u64).to_le_bytes());
        head[CHECK_AT..].copy_from_slice(&XxHash3_64::oneshot(bytes).to_le_bytes());
        let written = opened.and_then(|file| {
            // Where there are no locks, its age tells.
            let _ = file.try_lock();
            write_all_at(&*file, &head, 0)?;
            write_all_at(&*file, bytes, HEAD_BYTES as u64)?;
            retry(|| self.storage.rename(&new, path))
        });
        written.map_err(|error| {
            // A part of it is of no use. That it stays is no worse than what failed.
            let _ = self.storage.remove(&new);
            Error::io(self.storage.describe(path), error)
        })
    }

    /// Removes what processes have left that died while they wrote a file: a backend does so when it is opened to be written.
    /// What cannot be removed stays.
    pub fn remove_abandoned(&self) {
        self.remove_abandoned_of(&self.names());
    }

    /// Returns the names of all files in the folder.
    pub(crate) fn names(&self) -> Vec<String> {
        self.storage.list(&self.folder).unwrap_or_default()
    }

    /// As [`Derived::remove_abandoned`], of the files with these names.
    pub(crate) fn remove_abandoned_of(&self, names: &[String]) {
        for name in names {
            let digits = name.rsplit_once(NEW).map_or("", |(_, digits)| digits);
            let path = format!("{}/{name}", self.folder);
            if digits.len() == 16 && digits.bytes().all(|digit| digit.is_ascii_hexdigit()) && self.is_abandoned(&path) {
                let _ = self.storage.remove(&path);
            }
        }
    }

    /// Whether no process writes a file any more.
    fn is_abandoned(&self, path: &str) -> bool {
        let Ok(stat) = self.storage.stat(path) else { return false };
        let written = SystemTime::UNIX_EPOCH + Duration::from_nanos(stat.modified_ns);
        // A clock that was put back says nothing.
        let is_old = SystemTime::now().duration_since(written).is_ok_and(|age| age > WRITTEN_WITHIN);
        is_old && self.storage.open(path, OpenMode::Write).is_ok_and(|file| file.try_lock().unwrap_or(false))
    }

    /// Returns the path of a derived file. Bytes that a file's name may lack are written `%XX`.
    pub(super) fn path(&self, name: &str) -> String {
        let mut path = format!("{}/", self.folder);
        for (index, byte) in name.bytes().enumerate() {
            match byte {
                b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' => path.push(char::from(byte)),
                b'.' if index > 0 => path.push('.'),
                _ => path.push_str(&format!("%{byte:02X}")),
            }
        }
        path
    }
}
