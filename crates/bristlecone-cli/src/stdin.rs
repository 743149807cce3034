//! Standard input: whether there is one, and values from it.

use std::{
    io::{self, IsTerminal, Read},
    sync::atomic::{AtomicBool, Ordering::Relaxed},
};

use bristlecone::VALUE_BYTES_MAX;

use crate::{
    failure::{Failure, Result},
    output::say,
};

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

/// Reads a value, up to the end.
pub(crate) fn value() -> Result<Vec<u8>> {
    check_open()?;
    let input = io::stdin().lock();
    if input.is_terminal() {
        say!("reading the value from the terminal; end it with Ctrl-D");
    }
    let mut bytes = Vec::new();
    let read = input.take(VALUE_BYTES_MAX + 1).read_to_end(&mut bytes);
    read.map_err(|error| Failure::file("read", "standard input", &error))?;
    if bytes.len() as u64 > VALUE_BYTES_MAX {
        return Err(Failure::too_large("standard input", None));
    }
    Ok(bytes)
}
