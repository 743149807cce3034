//! Standard input: whether there is one, and values from it.

use std::{
    io::{self, IsTerminal},
    sync::atomic::{AtomicBool, Ordering::Relaxed},
};

use bristlecone::{Error, StoredValue, VALUE_BYTES_MAX};

use crate::{
    failure::{Failure, Result},
    output::say,
};
use bristlecone_any::Repo;

/// Whether the process began without standard input. The standard library opens something empty in its place.
static CLOSED: AtomicBool = AtomicBool::new(false);

/// Looks for standard input before the standard library does.
#[cfg(target_os = "linux")]
#[used]
#[unsafe(link_section = ".init_array")]
static LOOK: extern "C" fn() = {
    extern "C" fn look() {
        // SAFETY: the call asks for the flags of a file handle, and there may be none of this number.
        CLOSED.store(unsafe { libc::fcntl(0, libc::F_GETFD) } < 0, Relaxed);
    }
    look
};

/// Fails if the process has no standard input.
pub(crate) fn check_open() -> Result<()> {
    if !CLOSED.load(Relaxed) {
        return Ok(());
    }
    let way = "redirect a file or a pipe, or give an empty value as ''";
    Err(Failure::usage(format!("standard input is closed, so there is nothing to read; {way}")))
}

/// Reads a value, up to the end, and writes it as it comes. A file that is too large is refused before.
pub(crate) fn value(repo: &Repo) -> Result<StoredValue> {
    check_open()?;
    let mut input = io::stdin().lock();
    if input.is_terminal() {
        say!("reading the value from the terminal; end it with Ctrl-D");
    }
    let size = rustix::fs::fstat(&input).map_or(0, |found| found.st_size.max(0) as u64);
    if size > VALUE_BYTES_MAX {
        return Err(Failure::too_large("standard input", Some(size)));
    }
    repo.write_value(&mut input).map_err(|error| match error {
        Error::Io { source, file } if file == StoredValue::READER => Failure::file("read", "standard input", &source),
        Error::TooLarge { .. } => Failure::too_large("standard input", None),
        error => error.into(),
    })
}
