//! Values from standard input.

use std::io::{self, IsTerminal, StdinLock};

use bristlecone::{Error, StoredValue, VALUE_BYTES_MAX};

use crate::{
    failure::{Failure, Result},
    output::say,
    streams,
};
use bristlecone_any::Repo;

/// Opens standard input for a value, and says so where somebody has to type it.
pub(crate) fn open() -> Result<StdinLock<'static>> {
    streams::check_input("redirect a file or a pipe, or give an empty value as ''")?;
    let input = io::stdin().lock();
    if input.is_terminal() {
        say!("reading the value from the terminal; end it with Ctrl-D");
    }
    Ok(input)
}

/// Reads a value, up to the end, and writes it as it comes. A file that is too large is refused before.
pub(crate) fn value(repo: &Repo) -> Result<StoredValue> {
    let mut input = open()?;
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
