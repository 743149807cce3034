//! Reading of a trace, row by row.
//!
//! One buffer holds what was read ahead. A row is decoded where it lies in it, so that neither its bytes nor its
//! keys are copied. The buffer grows as bytes of a long row arrive, never by what a length announces.

use std::{
    fs::File,
    io::{self, Read},
    path::Path,
};

use crate::{
    TraceError,
    cursor::{Fault, Varint, varint},
    decode::decode,
    row::Row,
};

/// A trace starts with this.
pub(crate) const MAGIC: [u8; 8] = *b"IrmRepBT";
/// A trace of the later format starts with this.
const LATER_MAGIC: [u8; 8] = *b"TezosRep";
/// The one version there is.
pub(crate) const VERSION: i32 = 0;
/// Magic and version: 8 + 4.
const PREAMBLE_BYTES: usize = 12;

/// How much is read at once, in bytes.
const BUFFER_BYTES: usize = 1 << 17;
/// The longest row that is read, in bytes. Real ones stay below a few MiB.
const ROW_BYTES_MAX: usize = 1 << 30;

/// The rows of a trace, read as they are asked for.
///
/// A trace that ends within a row is cut: the rows before it are returned, and then [`TraceError::Cut`]. One that was cut
/// between two rows cannot be told from one that ends there, since a trace says nowhere how many rows it has.
///
/// ```
/// use bristlecone_tezos::{Reader, Writer};
///
/// let empty = Writer::new(Vec::new())?.finish()?;
/// let mut reader = Reader::new(&empty[..], "empty.repr")?;
/// while let Some(row) = reader.next()? {
///     println!("{} at byte {}", row.name(), row.key().unwrap_or_default());
/// }
/// assert_eq!(reader.rows(), 0);
/// # Ok::<(), bristlecone_tezos::TraceError>(())
/// ```
#[derive(Debug)]
pub struct Reader<R> {
    read: R,
    name: String,
    bytes_total: Option<u64>,
    // Read and not yet decoded: buffer[at..end].
    buffer: Vec<u8>,
    at: usize,
    end: usize,
    // The offset in the trace of the buffer's first byte.
    base: u64,
    partial: u64,
    row_offset: u64,
    rows: u64,
    row_bytes_max: usize,
}

/// The length that comes next.
enum Length {
    /// It is there, and takes this many bytes.
    Whole { value: u64, bytes: usize },
    /// The trace ends before it.
    End,
    /// The trace ends within it.
    Cut,
}

impl Reader<File> {
    /// Opens a trace in a file.
    ///
    /// # Errors
    /// As [`Reader::new`].
    pub fn open(path: impl AsRef<Path>) -> Result<Self, TraceError> {
        let path = path.as_ref();
        let name = path.display().to_string();
        let opened = File::open(path).and_then(|file| {
            let about = file.metadata()?;
            Ok((file, about.is_file().then_some(about.len())))
        });
        let (file, bytes_total) = opened.map_err(|source| TraceError::io(&name, source))?;
        let mut reader = Self::new(file, name)?;
        reader.bytes_total = bytes_total;
        Ok(reader)
    }
}

impl<R: Read> Reader<R> {
    /// Begins to read a trace; `name` stands for it in messages.
    ///
    /// # Errors
    /// [`TraceError::NotATrace`], [`TraceError::LaterFormat`] and [`TraceError::Version`] by what its first 12 bytes
    /// say, and for one that ends within its header; [`TraceError::Corrupt`] for a header that is not empty;
    /// [`TraceError::Io`].
    pub fn new(read: R, name: impl Into<String>) -> Result<Self, TraceError> {
        let mut reader = Self {
            read,
            name: name.into(),
            bytes_total: None,
            buffer: vec![0; BUFFER_BYTES],
            at: 0,
            end: 0,
            base: 0,
            partial: 0,
            row_offset: 0,
            rows: 0,
            row_bytes_max: ROW_BYTES_MAX,
        };
        reader.preamble()?;
        Ok(reader)
    }

    /// Returns the next row; `None` at the end of the trace. After an error, the same error.
    ///
    /// # Errors
    /// [`TraceError::Corrupt`] for a row that does not decode to its last byte; [`TraceError::Cut`] for one that the
    /// trace ends within; [`TraceError::RowTooLarge`]; [`TraceError::Io`].
    // Rows borrow from the reader, so this cannot be an iterator.
    #[allow(clippy::should_implement_trait, reason = "an iterator cannot lend its items")]
    #[inline]
    pub fn next(&mut self) -> Result<Option<Row<'_>>, TraceError> {
        // Nearly always: a short row that is there.
        let (start, end) = match self.buffer.get(self.at) {
            Some(&length) if length < 0x80 && self.at + 1 + usize::from(length) <= self.end => {
                (self.at + 1, self.at + 1 + usize::from(length))
            }
            _ => match self.locate()? {
                Some(range) => range,
                None => return Ok(None),
            },
        };
        match decode(&self.buffer[start..end]) {
            Ok(row) => {
                self.row_offset = self.base + self.at as u64;
                self.at = end;
                self.rows += 1;
                Ok(Some(row))
            }
            Err(Fault { at, reason }) => {
                let offset = self.base + (start + at) as u64;
                Err(TraceError::Corrupt { file: self.name.clone(), offset, row: self.rows, reason })
            }
        }
    }

    /// Returns the offset of the row returned last, in bytes from the start of the trace.
    #[must_use]
    pub const fn row_offset(&self) -> u64 {
        self.row_offset
    }

    /// Returns how many rows were returned so far.
    #[must_use]
    pub const fn rows(&self) -> u64 {
        self.rows
    }

    /// Returns the offset of the next row, in bytes from the start of the trace.
    #[must_use]
    pub const fn offset(&self) -> u64 {
        self.base + self.at as u64
    }

    /// Returns the length of the trace in bytes, where it is a file.
    #[must_use]
    pub const fn bytes_total(&self) -> Option<u64> {
        self.bytes_total
    }

    /// Returns how many bytes at the end of the trace are only the beginning of a row: 0 until [`Reader::next`] has
    /// returned [`TraceError::Cut`].
    #[must_use]
    pub const fn partial(&self) -> u64 {
        self.partial
    }

    /// Returns the name for messages.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    fn preamble(&mut self) -> Result<(), TraceError> {
        while self.end < PREAMBLE_BYTES && self.fill()? {}
        let file = self.name.clone();
        let start = &self.buffer[..self.end];
        if let Some(magic) = start.first_chunk::<8>()
            && *magic != MAGIC
        {
            return Err(match *magic == LATER_MAGIC {
                true => TraceError::LaterFormat { file },
                false => TraceError::NotATrace { file, reason: "it does not begin with \"IrmRepBT\"" },
            });
        }
        let Some(version) = start.get(MAGIC.len()..).and_then(|rest| rest.first_chunk()) else {
            return Err(TraceError::NotATrace { file, reason: "it has fewer than 12 bytes" });
        };
        let version = i32::from_be_bytes(*version);
        if version != VERSION {
            return Err(TraceError::Version { file, version });
        }
        self.at = PREAMBLE_BYTES;
        // The header of version 0 is empty: its length, which is 0, as a varint.
        match self.length()? {
            Length::Whole { value: 0, bytes } => self.at += bytes,
            Length::Whole { .. } => return Err(self.corrupt("the header is not empty")),
            Length::End | Length::Cut => {
                return Err(TraceError::NotATrace { file: self.name.clone(), reason: "it ends within its header" });
            }
        }
        self.row_offset = self.offset();
        Ok(())
    }

    /// Returns where the next row's bytes lie in the buffer, reading until they are there.
    #[cold]
    #[inline(never)]
    fn locate(&mut self) -> Result<Option<(usize, usize)>, TraceError> {
        let (bytes, prefix) = match self.length()? {
            Length::Whole { value, bytes } => (value, bytes),
            Length::End => return Ok(None),
            Length::Cut => return Err(self.cut()),
        };
        while ((self.end - self.at - prefix) as u64) < bytes {
            if self.end - self.at >= self.row_bytes_max {
                let (offset, row, bytes_max) = (self.offset(), self.rows, self.row_bytes_max as u64);
                return Err(TraceError::RowTooLarge { file: self.name.clone(), offset, row, bytes, bytes_max });
            }
            if !self.fill()? {
                return Err(self.cut());
            }
        }
        let start = self.at + prefix;
        Ok(Some((start, start + bytes as usize)))
    }

    /// Returns the length that comes next.
    fn length(&mut self) -> Result<Length, TraceError> {
        loop {
            match varint(&self.buffer[self.at..self.end]) {
                Varint::Whole { value, bytes } => return Ok(Length::Whole { value, bytes }),
                Varint::TooLarge => return Err(self.corrupt("a length has more than 9 bytes or is not below 2^62")),
                Varint::Partial => {
                    if !self.fill()? {
                        return Ok(if self.at == self.end { Length::End } else { Length::Cut });
                    }
                }
            }
        }
    }

    /// Notes how much of a row there is at the end.
    fn cut(&mut self) -> TraceError {
        self.partial = (self.end - self.at) as u64;
        TraceError::Cut { file: self.name.clone(), offset: self.offset(), row: self.rows, bytes: self.partial }
    }

    /// Reads more behind what is there, which may move to the front of the buffer. Returns whether anything came.
    fn fill(&mut self) -> Result<bool, TraceError> {
        if self.at > 0 {
            self.buffer.copy_within(self.at..self.end, 0);
            self.base += self.at as u64;
            self.end -= self.at;
            self.at = 0;
        }
        if self.end == self.buffer.len() {
            // As large again: what has arrived fills half of it.
            self.buffer.resize(2 * self.end, 0);
        }
        loop {
            match self.read.read(&mut self.buffer[self.end..]) {
                Ok(count) => {
                    self.end += count;
                    return Ok(count > 0);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(TraceError::io(&self.name, error)),
            }
        }
    }

    fn corrupt(&self, reason: &'static str) -> TraceError {
        TraceError::Corrupt { file: self.name.clone(), offset: self.offset(), row: self.rows, reason }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_beyond_the_bound_are_refused() {
        // A row of 2^40 bytes, all of which would come.
        let endless = [&MAGIC[..], &[0; 5], &[0x80, 0x80, 0x80, 0x80, 0x80, 0x20]].concat();
        let mut reader = Reader::new(endless.chain(io::repeat(1)), "endless").unwrap();
        reader.row_bytes_max = 3 * BUFFER_BYTES;
        for _ in 0..2 {
            match reader.next() {
                Err(TraceError::RowTooLarge { offset: 13, row: 0, bytes, .. }) => assert_eq!(bytes, 1 << 40),
                other => panic!("{other:?}"),
            }
        }
        assert!(reader.buffer.len() <= 4 * BUFFER_BYTES, "{}", reader.buffer.len());
    }
}
