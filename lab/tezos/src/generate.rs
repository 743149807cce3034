//! Makes traces up: as long as one likes, in the proportions of those that Tezos nodes recorded.
//!
//! A small protocol runs over a real store: blocks with their baking and endorsing rights, accounts, delegates and
//! rolls, in the layout that the first years had. What it does to its context is written as rows, so every answer
//! and every hash is right. `docs/trace-generator.md` compares the result with the real traces.
//!
//! The bytes follow from the seed alone, and a trace is the beginning of every longer one of its seed. Memory
//! does not grow with the number of commits.

use std::{
    io::{self, Write},
    path::{Path, PathBuf},
};

use thiserror::Error;

use self::{chain::Chain, profile::Pace, scratch::Scratch, scribe::Scribe};
use crate::{TraceError, replay::RowCounts};

mod block;
mod chain;
mod names;
mod profile;
mod random;
mod scratch;
mod scribe;
mod state;
mod values;

type Result<T = (), E = GenerateError> = std::result::Result<T, E>;

/// How to make a trace up.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct GenerateOptions {
    /// What everything follows from.
    pub seed: u64,
    /// The folder in which the store that the trace is made over has its own, for as long as it takes.
    pub dir: PathBuf,
    /// How many bytes that store takes on disk at most, apart from nine times what one state takes.
    pub room_bytes: u64,
}

bristlecone::setters! {
    GenerateOptions {
        seed: u64,
        dir: into PathBuf,
        room_bytes: u64,
    }
}

impl Default for GenerateOptions {
    /// Seed 0, in the system's temporary folder, 4 GiB.
    fn default() -> Self {
        Self { seed: 0, dir: std::env::temp_dir(), room_bytes: 4 << 30 }
    }
}

/// A trace being made up, commit by commit.
///
/// ```no_run
/// use bristlecone_tezos::{GenerateOptions, Generator};
///
/// let mut generator = Generator::new(&GenerateOptions::default(), Vec::new())?;
/// for _ in 0..100 {
///     generator.commit()?;
/// }
/// let trace = generator.finish()?;
/// # Ok::<(), bristlecone_tezos::GenerateError>(())
/// ```
#[derive(Debug)]
pub struct Generator<W> {
    chain: Chain,
    scribe: Scribe<W>,
}

impl<W: Write> Generator<W> {
    /// Begins a trace: writes its header.
    ///
    /// # Errors
    /// [`GenerateError`].
    pub fn new(options: &GenerateOptions, write: W) -> Result<Self> {
        Self::at_pace(options, Pace::default(), write)
    }

    fn at_pace(options: &GenerateOptions, pace: Pace, write: W) -> Result<Self> {
        let scratch = Scratch::new(&options.dir, options.room_bytes)?;
        Ok(Self { chain: Chain::new(options.seed, pace), scribe: Scribe::new(scratch, write)? })
    }

    /// Writes the rows of one more commit.
    ///
    /// # Errors
    /// [`GenerateError`]; the trace cannot be gone on with.
    pub fn commit(&mut self) -> Result {
        self.chain.commit(&mut self.scribe)
    }

    /// Returns how many rows of each kind there are so far.
    #[must_use]
    pub const fn counts(&self) -> &RowCounts {
        self.scribe.counts()
    }

    /// Returns how many bytes the trace has so far.
    #[must_use]
    pub const fn bytes(&self) -> u64 {
        self.scribe.bytes()
    }

    /// Returns how many stores it took so far.
    #[cfg(test)]
    const fn stores(&self) -> u64 {
        self.scribe.stores()
    }

    /// Writes out everything and returns what was written to.
    ///
    /// # Errors
    /// [`GenerateError::Trace`].
    pub fn finish(self) -> Result<W> {
        self.scribe.finish()
    }
}

/// What can go wrong while a trace is made up.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum GenerateError {
    /// The trace cannot be written.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// The store that it is made over failed.
    #[error("the store that the trace is made over failed")]
    Store(#[from] bristlecone::Error),
    /// The folder of that store cannot be made or removed.
    #[error("{} cannot be made or removed", dir.display())]
    Scratch {
        /// The folder.
        dir: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// The state is not what the protocol made of it: a mistake in the generator or the store.
    #[error("no {expected} at {key}, where the protocol put one: a mistake of this program")]
    Model {
        /// Where.
        key: String,
        /// What should be there.
        expected: &'static str,
    },
}

impl GenerateError {
    fn scratch(dir: &Path, source: io::Error) -> Self {
        Self::Scratch { dir: dir.to_owned(), source }
    }
}

/// Returns the path of a roll below `dir`: its number's two low bytes, each by itself, and the number.
fn rolls_path(dir: &str, roll: u32) -> String {
    format!("{dir}/{}/{}/{roll}", roll & 0xff, roll >> 8 & 0xff)
}

#[cfg(test)]
mod tests;
