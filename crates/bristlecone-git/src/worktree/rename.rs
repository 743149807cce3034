//! Names for files that are whole.

use std::{io, os::fd::AsFd, path::Path};

use rustix::fs::{AtFlags, renameat, statat};
#[cfg(any(target_os = "linux", target_vendor = "apple"))]
use rustix::{
    fs::{RenameFlags, renameat_with},
    io::Errno,
};

/// Renames a file to what must not be there: in one step, where the file system can. Names that are relative begin at the
/// folder `dir`.
///
/// # Errors
/// [`io::ErrorKind::AlreadyExists`] if something is there, also a link that leads nowhere; those of the system.
pub fn rename_new(dir: impl AsFd, from: &Path, to: &Path) -> io::Result<()> {
    let dir = dir.as_fd();
    #[cfg(any(target_os = "linux", target_vendor = "apple"))]
    match renameat_with(dir, from, dir, to, RenameFlags::NOREPLACE) {
        // Not every file system can do it.
        Err(error) if [Errno::INVAL, Errno::NOSYS, Errno::NOTSUP, Errno::OPNOTSUPP].contains(&error) => {}
        done => return Ok(done?),
    }
    if statat(dir, to, AtFlags::SYMLINK_NOFOLLOW).is_ok() {
        return Err(io::ErrorKind::AlreadyExists.into());
    }
    Ok(renameat(dir, from, dir, to)?)
}
