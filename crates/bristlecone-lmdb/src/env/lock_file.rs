//! The file of LMDB's table of readers.

use std::{
    fs::OpenOptions,
    io,
    os::{fd::AsRawFd, unix::fs::OpenOptionsExt},
    path::Path,
};

/// Bytes of the head of the table, with one reader's place; bytes of each place beyond.
const HEAD_BYTES: u32 = 192;
const READER_BYTES: u32 = 64;

/// Has the device give all of its room to the table's file, which is made if it is absent. LMDB makes it as long as it is to be
/// and maps it: where a device is full, the first access to such a map would end the process by a signal.
///
/// # Errors
/// There is no room. Where the file cannot be written, LMDB says so itself, or goes without.
pub(crate) fn allocate(file: &Path, readers: u32, mode: u32) -> io::Result<()> {
    let opened = OpenOptions::new().write(true).create(true).truncate(false).mode(mode).open(file);
    match opened.and_then(|opened| fallocate(&opened, HEAD_BYTES + (readers - 1) * READER_BYTES)) {
        Err(error) if matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded) => Err(error),
        _ => Ok(()),
    }
}

/// Gives room to the first bytes of a file. What is there stays, also what another process writes at the same time.
#[cfg(target_os = "linux")]
fn fallocate(file: &std::fs::File, bytes: u32) -> io::Result<()> {
    // SAFETY: the descriptor is open during the call, which takes no memory of the process.
    if unsafe { libc::fallocate(file.as_raw_fd(), 0, 0, bytes.into()) } == 0 {
        return Ok(());
    }
    Err(io::Error::last_os_error())
}

#[cfg(not(target_os = "linux"))]
fn fallocate(_: &std::fs::File, _: u32) -> io::Result<()> {
    Ok(())
}
