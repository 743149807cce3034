//! Writing folders, files and links by handle: no name is ever looked up through a link.

use std::{
    ffi::OsStr,
    fs::File,
    io::{self, Write},
    os::{
        fd::{AsFd, OwnedFd},
        unix::ffi::OsStrExt,
    },
    path::Path as FilePath,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

use bristlecone::{EntryKind, escape};
use rustix::{
    fs::{AtFlags, CWD, FileType, Mode, OFlags, fstat, mkdirat, openat, renameat, statat, symlinkat, unlinkat},
    io::Errno,
};

use super::FolderError;
use crate::{
    DirEntry,
    error::{Error, Result},
    folder::{hidden_name, rename_new},
    place::STORE_DIR,
    text::shown,
};

/// How many bytes of a large value are in memory at a time.
const PART_BYTES: u64 = 8 << 20;

/// The number of the next file that is written under a hidden name.
static ASIDE: AtomicU64 = AtomicU64::new(0);

/// An open folder below the export's top.
pub(super) struct Folder {
    handle: OwnedFd,
    // For messages.
    shown: String,
    store: Option<(u64, u64)>,
}

impl Folder {
    /// Opens the top folder, through links if it is named so.
    pub(super) fn open(dir: &FilePath, store: Option<(u64, u64)>) -> Result<Self> {
        let flags = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC;
        let handle = openat(CWD, dir, flags, Mode::empty())
            .map_err(|error| failed("open the folder", shown(dir), error.into()))?;
        Self { handle, shown: shown(dir), store }.checked()
    }

    /// Makes a folder in this one, unless it is there, and opens it.
    pub(super) fn make_folder(&self, name: &[u8]) -> Result<Self> {
        let shown = self.shown(name);
        let made = mkdirat(&self.handle, name, Mode::from_raw_mode(0o777));
        match made {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(error) => return Err(failed("make the folder", shown, error.into())),
        }
        let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::RDONLY | OFlags::CLOEXEC;
        match openat(&self.handle, name, flags, Mode::empty()) {
            Ok(handle) => {
                let folder = Self { handle, shown, store: self.store }.checked()?;
                if made.is_err() {
                    refuse_owned(name, &folder.shown)?;
                }
                Ok(folder)
            }
            Err(Errno::LOOP | Errno::NOTDIR) => {
                let what = match self.type_of(name) {
                    Some(FileType::Symlink) => "a link, and export does not write through links",
                    _ => "no folder, and one belongs there",
                };
                Err(FolderError::InTheWay { place: shown, what }.into())
            }
            Err(error) => Err(failed("open the folder", shown, error.into())),
        }
    }

    /// Refuses the folder of the store itself.
    fn checked(self) -> Result<Self> {
        let found = fstat(&self.handle).map_err(|error| failed("read the folder", self.shown.clone(), error.into()))?;
        #[allow(clippy::useless_conversion, reason = "the types differ between systems")]
        if self.store == Some((u64::from(found.st_dev), u64::from(found.st_ino))) {
            return Err(FolderError::TheStore { place: self.shown }.into());
        }
        Ok(self)
    }

    /// Writes an entry that is a file or link and returns its bytes. A file has its name once all of it is there, so that a
    /// process that is killed leaves no part of one. With `force` a file or link in its place is replaced, and is there until then.
    pub(super) fn write(&self, entry: &DirEntry<'_>, force: bool, goes_on: &dyn Fn() -> bool) -> Result<u64> {
        let name = entry.step();
        if entry.kind() == EntryKind::Link {
            let target = entry.contents()?.unwrap_or_else(|| (&[][..]).into());
            self.write_link(&target, name, force)?;
            return Ok(target.len() as u64);
        }
        if force && self.type_of(name).is_some() {
            self.check_replaced(name)?;
        }
        let mode = Mode::from_raw_mode(if entry.kind() == EntryKind::Executable { 0o777 } else { 0o666 });
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let (aside, file) = self.make_aside(name, |aside| openat(&self.handle, aside, flags, mode))?;
        let bytes = self.fill(&aside, file.into(), entry, goes_on)?;
        self.give_name(&aside, name, force)?;
        Ok(bytes)
    }

    /// Makes a link at `name`, which must not be there; with `force` it takes the place of a file or link.
    fn write_link(&self, target: &[u8], name: &[u8], force: bool) -> Result<()> {
        let make = |name: &[u8]| symlinkat(target, &self.handle, name);
        match make(name) {
            Err(Errno::EXIST) if force => {}
            made => return made.map_err(|error| self.not_made(name, error)),
        }
        self.check_replaced(name)?;
        let (aside, ()) = self.make_aside(name, make)?;
        self.give_name(&aside, name, true)
    }

    /// Makes what is to be at `name`, under a hidden name.
    fn make_aside<T>(&self, name: &[u8], make: impl Fn(&[u8]) -> rustix::io::Result<T>) -> Result<(Vec<u8>, T)> {
        loop {
            let aside = hidden_name(ASIDE.fetch_add(1, Relaxed)).into_bytes();
            match make(&aside) {
                Err(Errno::EXIST) => {}
                made => return Ok((aside, made.map_err(|error| self.not_made(name, error))?)),
            }
        }
    }

    /// Gives what was made under a hidden name its own; where that cannot be, it goes.
    fn give_name(&self, aside: &[u8], name: &[u8], force: bool) -> Result<()> {
        let path = |name| FilePath::new(OsStr::from_bytes(name));
        let moved = match force {
            true => renameat(&self.handle, aside, &self.handle, name).map_err(io::Error::from),
            false => rename_new(&self.handle, path(aside), path(name)),
        };
        moved.map_err(|error| {
            self.remove(aside);
            self.not_made(name, error)
        })
    }

    /// Writes what a new file is to hold; one that does not become whole goes.
    fn fill(&self, made: &[u8], file: File, entry: &DirEntry<'_>, goes_on: &dyn Fn() -> bool) -> Result<u64> {
        self.fill_open(file, entry, goes_on).inspect_err(|_| self.remove(made))
    }

    fn fill_open(&self, mut file: File, entry: &DirEntry<'_>, goes_on: &dyn Fn() -> bool) -> Result<u64> {
        let failed = |error| failed("write", self.shown(entry.step()), error);
        let Some(bytes) = entry.bytes() else {
            // Only its object tells how long it is, which is loaded whole.
            let value = entry.contents()?.unwrap_or_else(|| (&[][..]).into());
            file.write_all(&value).map_err(failed)?;
            return Ok(value.len() as u64);
        };
        let mut at = 0;
        while at < bytes {
            check(goes_on)?;
            let part = entry.read(at..(at + PART_BYTES).min(bytes))?.filter(|part| !part.is_empty());
            let Some(part) = part else {
                return Err(FolderError::EndsEarly { place: self.shown(entry.step()) }.into());
            };
            file.write_all(&part).map_err(failed)?;
            at += part.len() as u64;
        }
        Ok(bytes)
    }

    /// Refuses to replace what is no file or link, or belongs to somebody.
    fn check_replaced(&self, name: &[u8]) -> Result<()> {
        refuse_owned(name, &self.shown(name))?;
        if self.type_of(name) == Some(FileType::Directory) {
            let what = "a folder, where a file belongs";
            return Err(FolderError::InTheWay { place: self.shown(name), what }.into());
        }
        Ok(())
    }

    /// Removes what was begun here; if that fails, there is nothing better to do.
    fn remove(&self, name: &[u8]) {
        let _ = unlinkat(&self.handle, name, AtFlags::empty());
    }

    /// Returns why there is nothing new at `name`.
    fn not_made(&self, name: &[u8], error: impl Into<io::Error>) -> Error {
        let error = error.into();
        match error.kind() {
            io::ErrorKind::AlreadyExists => FolderError::AlreadyThere { place: self.shown(name) }.into(),
            _ => failed("write", self.shown(name), error),
        }
    }

    fn type_of(&self, name: &[u8]) -> Option<FileType> {
        let found = statat(self.handle.as_fd(), name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
        Some(FileType::from_raw_mode(found.st_mode))
    }

    fn shown(&self, name: &[u8]) -> String {
        format!("{}/{}", self.shown, escape(name))
    }
}

/// Fails once the export is to go on no longer.
pub(super) fn check(goes_on: &dyn Fn() -> bool) -> Result<()> {
    if goes_on() { Ok(()) } else { Err(FolderError::Stopped.into()) }
}

/// Refuses what is there and belongs to a store or to Git: what a tree holds under such a name could make another store or
/// repository of it.
fn refuse_owned(name: &[u8], shown: &str) -> Result<()> {
    let what = if name.eq_ignore_ascii_case(STORE_DIR.as_bytes()) {
        "a store's own"
    } else if name.eq_ignore_ascii_case(b".git") {
        "a Git repository's own"
    } else {
        return Ok(());
    };
    Err(FolderError::Owned { place: shown.to_owned(), what }.into())
}

/// Wraps a failure of the system on what is shown as `file`.
fn failed(doing: &'static str, file: String, source: io::Error) -> Error {
    Error::Io { doing, file, source: Arc::new(source) }
}
