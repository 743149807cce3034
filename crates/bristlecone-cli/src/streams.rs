//! Standard input and output as the caller gave them.
//!
//! The standard library opens something empty in place of one that is closed, and takes one that is open the other way for one that
//! has ended, or that everything was written to.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use crate::failure::{Failure, Result};

/// Whether the process began without a standard input that can be read.
static NO_INPUT: AtomicBool = AtomicBool::new(false);
/// Whether the process began without a standard output that can be written to.
static NO_OUTPUT: AtomicBool = AtomicBool::new(false);

/// Looks for them before the standard library does.
#[cfg(target_os = "linux")]
#[used]
#[unsafe(link_section = ".init_array")]
static LOOK: extern "C" fn() = {
    extern "C" fn look() {
        let lacks = |handle: libc::c_int, useless: libc::c_int| {
            // SAFETY: the call asks for the flags of a file handle, and there may be none of this number.
            let flags = unsafe { libc::fcntl(handle, libc::F_GETFL) };
            flags < 0 || flags & libc::O_ACCMODE == useless
        };
        NO_INPUT.store(lacks(0, libc::O_WRONLY), Relaxed);
        NO_OUTPUT.store(lacks(1, libc::O_RDONLY), Relaxed);
    }
    look
};

/// Fails if the process has no standard input; `way` says what to do then.
pub(crate) fn check_input(way: &str) -> Result<()> {
    if !NO_INPUT.load(Relaxed) {
        return Ok(());
    }
    Err(Failure::usage(format!("standard input is closed or cannot be read, so there is nothing to read; {way}")))
}

/// Whether the process has a standard output.
pub(crate) fn has_output() -> bool {
    !NO_OUTPUT.load(Relaxed)
}

/// Fails if the process has no standard output, for what is written without [`crate::output::Output`].
pub(crate) fn check_output() -> Result<()> {
    if has_output() { Ok(()) } else { Err(no_output().into()) }
}

/// Why nothing can be written to standard output.
pub(crate) fn no_output() -> std::io::Error {
    std::io::Error::other("it is closed or cannot be written to")
}
