//! The table of readers: which processes read, and since which transaction.

use std::ffi::{CStr, c_char, c_int, c_void};

use bristlecone::Error;
use lmdb_master_sys as ffi;

use super::{Code, Env, done};

/// A place in the table of readers that a process has.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LmdbReader {
    /// The process.
    pub process: u32,
    /// The thread that took the place, as the system numbers it; others of its process may use it.
    pub thread: u64,
    /// The number of the transaction that it reads; `None` if it does not read now. Pages that were freed since that
    /// transaction cannot be used again.
    pub txn: Option<u64>,
}

impl LmdbReader {
    /// Reads a line of LMDB's listing: process, thread in hexadecimal digits, transaction or a dash.
    fn parse(line: &str) -> Option<Self> {
        let mut words = line.split_whitespace();
        let process = words.next()?.parse().ok()?;
        let thread = u64::from_str_radix(words.next()?, 16).ok()?;
        let txn = words.next()?;
        let txn = if txn == "-" { None } else { Some(txn.parse().ok()?) };
        Some(Self { process, thread, txn })
    }
}

impl Env {
    /// Returns the places in the table of readers that are taken, by all processes.
    pub(crate) fn readers(&self) -> Result<Vec<LmdbReader>, Error> {
        unsafe extern "C" fn note(line: *const c_char, to: *mut c_void) -> c_int {
            // SAFETY: LMDB gives a text that ends in a zero, and the pointer that it was given below.
            let (line, found) = unsafe { (CStr::from_ptr(line), &mut *to.cast::<Vec<LmdbReader>>()) };
            found.extend(line.to_str().ok().and_then(LmdbReader::parse));
            0
        }
        self.origin.check()?;
        let mut found: Vec<LmdbReader> = Vec::new();
        // SAFETY: the environment is open; `note` is called before the function returns, with a pointer to `found`.
        let code = unsafe { ffi::mdb_reader_list(self.ptr.as_ptr(), Some(note), (&raw mut found).cast()) };
        if code < 0 { Err(self.error(Code(code))) } else { Ok(found) }
    }

    /// Frees the places of processes that ended without giving them back, and returns how many they were.
    pub(crate) fn clear_dead_readers(&self) -> Result<u64, Error> {
        self.origin.check()?;
        let mut dead = 0;
        // SAFETY: the environment is open; a number is written to `dead`.
        done(unsafe { ffi::mdb_reader_check(self.ptr.as_ptr(), &raw mut dead) }).map_err(|code| self.error(code))?;
        Ok(u64::try_from(dead).unwrap_or(0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_the_listing_are_read() {
        let reader = |thread, txn| Some(LmdbReader { process: 12, thread, txn });
        assert_eq!(LmdbReader::parse("        12 7f00aa 33\n"), reader(0x7f00aa, Some(33)));
        assert_eq!(LmdbReader::parse("        12 1 -\n"), reader(1, None));
        for other in ["    pid     thread     txnid\n", "(no active readers)\n", "", "12 1", "12 1 x"] {
            assert_eq!(LmdbReader::parse(other), None, "{other}");
        }
    }
}
