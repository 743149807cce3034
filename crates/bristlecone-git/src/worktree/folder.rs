//! Files of a working tree by handle: no name is looked up through a link, so that nothing outside is read or written.

use std::{
    ffi::OsStr,
    fs::File,
    io::{self, Read, Write},
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        unix::ffi::OsStrExt,
    },
    path::Path,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
};

use bristlecone::EntryKind;
use rustix::{
    fs::{
        AtFlags, CWD, Dir, FileType, Mode, OFlags, RawMode, fstat, mkdirat, openat, readlinkat, renameat, statat,
        symlinkat, unlinkat,
    },
    io::Errno,
};

use super::{index::IndexStat, rename::rename_new};

/// The top folder of a working tree.
#[derive(Debug)]
pub(super) struct Top {
    handle: OwnedFd,
    // The folder that this process is in, which is not removed from below it.
    here: Option<(u64, u64)>,
}

/// What is at a path.
#[derive(Debug)]
pub(super) enum PathState {
    /// Nothing.
    Missing,
    /// Nothing, since this part of the path is no folder.
    Blocked { bytes: usize },
    /// A file or link.
    File { stat: IndexStat, link: bool, executable: bool },
    /// A folder.
    Folder,
    /// A pipe, socket or device.
    Other,
}

/// The parent folder of a path, by handle, and the last step.
type ParentAndName<'p> = (OwnedFd, &'p [u8]);

impl Top {
    pub(super) fn open(dir: &Path) -> io::Result<Self> {
        let flags = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC;
        let handle = openat(CWD, dir, flags, Mode::empty())?;
        let here = statat(CWD, ".", AtFlags::empty()).ok().map(|found| identity(&found));
        Ok(Self { handle, here })
    }

    /// Returns what is at a path.
    pub(super) fn look(&self, path: &[u8]) -> io::Result<PathState> {
        let (folder, name) = match self.place(path)? {
            Ok(place) => place,
            Err(None) => return Ok(PathState::Missing),
            Err(Some(bytes)) => return Ok(PathState::Blocked { bytes }),
        };
        let found = match statat(&folder, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(found) => found,
            Err(Errno::NOENT | Errno::NAMETOOLONG) => return Ok(PathState::Missing),
            Err(error) => return Err(error.into()),
        };
        let file = |link| PathState::File { stat: stat_of(&found), link, executable: found.st_mode & 0o100 != 0 };
        Ok(match FileType::from_raw_mode(found.st_mode) {
            FileType::RegularFile => file(false),
            FileType::Symlink => file(true),
            FileType::Directory => PathState::Folder,
            _ => PathState::Other,
        })
    }

    /// Returns the bytes of a file or the target of a link; `None` if there is neither.
    pub(super) fn read(&self, path: &[u8], link: bool) -> io::Result<Option<Vec<u8>>> {
        let Ok((folder, name)) = self.place(path)? else { return Ok(None) };
        let gone = |error| matches!(error, Errno::NOENT | Errno::INVAL | Errno::LOOP | Errno::NOTDIR);
        if link {
            return match readlinkat(&folder, name, Vec::new()) {
                Ok(target) => Ok(Some(target.into_bytes())),
                Err(error) if gone(error) => Ok(None),
                Err(error) => Err(error.into()),
            };
        }
        // Not to wait for the other end of a pipe that took the file's place.
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let handle = match openat(&folder, name, flags, Mode::empty()) {
            Ok(handle) => handle,
            Err(error) if gone(error) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        if FileType::from_raw_mode(fstat(&handle)?.st_mode) != FileType::RegularFile {
            return Ok(None);
        }
        let mut bytes = Vec::new();
        File::from(handle).read_to_end(&mut bytes)?;
        Ok(Some(bytes))
    }

    /// Calls `each` with the path of everything below a folder that is no folder itself.
    pub(super) fn each_below(&self, path: &[u8], each: &mut dyn FnMut(&[u8])) -> io::Result<()> {
        let mut waiting = vec![path.to_vec()];
        while let Some(path) = waiting.pop() {
            let Ok((parent, name)) = self.place(&path)? else { continue };
            let folder = open_folder(parent.as_fd(), name)?;
            for entry in Dir::read_from(&folder)? {
                let entry = entry?;
                let name = entry.file_name().to_bytes();
                if matches!(name, b"." | b"..") {
                    continue;
                }
                let below = [&path[..], b"/", name].concat();
                let found = statat(&folder, name, AtFlags::SYMLINK_NOFOLLOW)?;
                match FileType::from_raw_mode(found.st_mode) {
                    FileType::Directory => waiting.push(below),
                    _ => each(&below),
                }
            }
        }
        Ok(())
    }

    /// Removes a file or link, if it is there, and the folders above it that are empty then.
    pub(super) fn remove(&self, path: &[u8]) -> io::Result<()> {
        if let Ok((folder, name)) = self.place(path)? {
            match unlinkat(&folder, name, AtFlags::empty()) {
                Ok(()) | Err(Errno::NOENT) => {}
                Err(error) => return Err(error.into()),
            }
        }
        let mut above = path;
        while let Some(at) = above.iter().rposition(|&byte| byte == b'/') {
            above = &above[..at];
            if !self.remove_folder(above)? {
                break;
            }
        }
        Ok(())
    }

    /// Removes empty folders below a folder, and it too, deepest first.
    pub(super) fn remove_empty(&self, path: &[u8]) -> io::Result<()> {
        let mut folders = vec![path.to_vec()];
        let mut index = 0;
        while let Some(path) = folders.get(index).cloned() {
            index += 1;
            let Ok((parent, name)) = self.place(&path)? else { continue };
            let Ok(folder) = open_folder(parent.as_fd(), name) else { continue };
            for entry in Dir::read_from(&folder)? {
                let entry = entry?;
                let name = entry.file_name().to_bytes();
                if !matches!(name, b"." | b"..") {
                    folders.push([&path[..], b"/", name].concat());
                }
            }
        }
        for path in folders.iter().rev() {
            self.remove_folder(path)?;
        }
        Ok(())
    }

    /// Removes a folder if it is empty and this process is not in it; returns whether it is gone.
    fn remove_folder(&self, path: &[u8]) -> io::Result<bool> {
        let Ok((folder, name)) = self.place(path)? else { return Ok(true) };
        match statat(&folder, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(found) if Some(identity(&found)) == self.here => return Ok(false),
            Ok(_) => {}
            Err(Errno::NOENT) => return Ok(true),
            Err(error) => return Err(error.into()),
        }
        match unlinkat(&folder, name, AtFlags::REMOVEDIR) {
            Ok(()) | Err(Errno::NOENT) => Ok(true),
            // A folder that stays does no harm: Git does not know of empty ones.
            Err(_) => Ok(false),
        }
    }

    /// Writes a file or link beside its place and moves it there, with the folders above it. Returns what the system
    /// says of it then.
    ///
    /// `new`: nothing may be there.
    pub(super) fn write(&self, path: &[u8], kind: EntryKind, bytes: &[u8], new: bool) -> io::Result<IndexStat> {
        let (folder, name) = self.make_place(path)?;
        let hidden = hidden_name(&folder);
        let written = if kind == EntryKind::Link {
            put_link(&folder, &hidden, name, bytes, new)
        } else {
            put_file(&folder, &hidden, (name, new), kind, bytes)
        };
        if written.is_err() {
            // The caller gets the first error; the hidden file may not even be there.
            let _ = unlinkat(&folder, &hidden[..], AtFlags::empty());
        }
        written
    }

    /// Returns the place of a path, making the folders above it that are missing.
    fn make_place<'p>(&self, path: &'p [u8]) -> io::Result<ParentAndName<'p>> {
        let mut folder = self.handle.try_clone()?;
        let mut steps = path.split(|&byte| byte == b'/').peekable();
        while let Some(step) = steps.next() {
            if steps.peek().is_none() {
                return Ok((folder, step));
            }
            match mkdirat(&folder, step, Mode::from_raw_mode(0o777)) {
                Ok(()) | Err(Errno::EXIST) => {}
                Err(error) => return Err(error.into()),
            }
            folder = open_folder(folder.as_fd(), step)?;
        }
        Err(io::ErrorKind::InvalidInput.into())
    }

    /// Returns the place of a path; `Err(None)` if a folder above it is missing, and `Err(Some(n))` if its first `n`
    /// bytes lead to something that is no folder.
    fn place<'p>(&self, path: &'p [u8]) -> io::Result<Result<ParentAndName<'p>, Option<usize>>> {
        let mut folder = self.handle.try_clone()?;
        let mut at = 0;
        while let Some(length) = path[at..].iter().position(|&byte| byte == b'/') {
            folder = match open_folder(folder.as_fd(), &path[at..at + length]) {
                Ok(below) => below,
                Err(error) => match Errno::from_io_error(&error) {
                    Some(Errno::NOENT | Errno::NAMETOOLONG) => return Ok(Err(None)),
                    Some(Errno::LOOP | Errno::NOTDIR) => return Ok(Err(Some(at + length))),
                    _ => return Err(error),
                },
            };
            at += length + 1;
        }
        Ok(Ok((folder, &path[at..])))
    }
}

fn open_folder(parent: BorrowedFd<'_>, name: &[u8]) -> io::Result<OwnedFd> {
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::RDONLY | OFlags::CLOEXEC;
    Ok(openat(parent, name, flags, Mode::empty())?)
}

fn put_file(
    folder: &OwnedFd,
    hidden: &[u8],
    (name, new): (&[u8], bool),
    kind: EntryKind,
    bytes: &[u8],
) -> io::Result<IndexStat> {
    let mode = if kind == EntryKind::Executable { 0o777 } else { 0o666 };
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let handle = openat(folder, hidden, flags, Mode::from_raw_mode(mode as RawMode))?;
    let mut file = File::from(handle);
    file.write_all(bytes)?;
    let before = stat_of(&fstat(&file)?);
    put_in_place(folder, hidden, name, new)?;
    // The move gave it a new time of change. If anything else is different, another process wrote to it: with the times
    // from before, Git reads it again.
    let after = stat_of(&fstat(&file)?);
    Ok(if (after.mtime, after.bytes) == (before.mtime, before.bytes) { after } else { before })
}

fn put_link(folder: &OwnedFd, hidden: &[u8], name: &[u8], target: &[u8], new: bool) -> io::Result<IndexStat> {
    symlinkat(target, folder, hidden)?;
    let before = stat_of(&statat(folder, hidden, AtFlags::SYMLINK_NOFOLLOW)?);
    put_in_place(folder, hidden, name, new)?;
    let after = stat_of(&statat(folder, name, AtFlags::SYMLINK_NOFOLLOW)?);
    Ok(if after.inode == before.inode { after } else { before })
}

/// Moves what was written to its name. `new`: what came there meanwhile stays.
fn put_in_place(folder: &OwnedFd, hidden: &[u8], name: &[u8], new: bool) -> io::Result<()> {
    let [from, to] = [hidden, name].map(|name| Path::new(OsStr::from_bytes(name)));
    if new { rename_new(folder, from, to) } else { Ok(renameat(folder, from, folder, to)?) }
}

/// Returns a name that no file in the folder has. A process that had this one's number, as each does that is the first of a
/// container, and was killed may have left files.
fn hidden_name(folder: &OwnedFd) -> Vec<u8> {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    loop {
        let name = format!(".cone-{}-{}.part", std::process::id(), NEXT.fetch_add(1, Relaxed)).into_bytes();
        if statat(folder, &name[..], AtFlags::SYMLINK_NOFOLLOW).is_err() {
            return name;
        }
    }
}

#[allow(clippy::unnecessary_cast, clippy::useless_conversion, reason = "the types differ between systems")]
fn identity(found: &rustix::fs::Stat) -> (u64, u64) {
    (found.st_dev as u64, found.st_ino as u64)
}

/// Returns what the index keeps of what the system says.
#[allow(clippy::unnecessary_cast, reason = "the types differ between systems")]
pub(super) fn stat_of(found: &rustix::fs::Stat) -> IndexStat {
    IndexStat {
        ctime: (found.st_ctime as u32, found.st_ctime_nsec as u32),
        mtime: (found.st_mtime as u32, found.st_mtime_nsec as u32),
        device: found.st_dev as u32,
        inode: found.st_ino as u32,
        user: found.st_uid as u32,
        group: found.st_gid as u32,
        bytes: found.st_size as u32,
    }
}
