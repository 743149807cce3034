//! Writing of a trace, and marking of mentions as the last ones after the fact.
//!
//! What was written last stays in memory for a while: a mention in it is marked there, others in the file.

use std::{
    fs::File,
    io::{Seek, SeekFrom, Write},
    path::Path,
};

use crate::{
    TraceError,
    encode::{put_scope, put_scoped_hash, put_string, put_varint},
    key::Key,
    reader::{MAGIC, VERSION},
    row::Row,
    scoped::{ContextId, Scoped},
};

/// How much stays in memory at least, in bytes, once there is that much; written out when there is twice as much.
const WINDOW_BYTES: usize = 1 << 20;

/// A trace being written.
///
/// What [`Writer::finish`] was not called for is not whole.
#[derive(Debug)]
pub struct Writer<W> {
    write: W,
    name: String,
    // The end of the trace, not yet given to `write`.
    window: Vec<u8>,
    // The offset of the window's first byte.
    base: u64,
    // The row being encoded.
    row: Vec<u8>,
    // Where in `row` the scope tags are.
    tags: Vec<usize>,
    // The same as offsets in the trace, for the row written last.
    scopes: Vec<u64>,
}

impl Writer<File> {
    /// Begins a trace in a file, which is made or replaced.
    ///
    /// # Errors
    /// [`TraceError::Io`].
    pub fn create(path: impl AsRef<Path>) -> Result<Self, TraceError> {
        let path = path.as_ref();
        let name = path.display().to_string();
        let file = File::create(path).map_err(|source| TraceError::io(&name, source))?;
        Self::named(file, name)
    }
}

impl<W: Write> Writer<W> {
    /// Begins a trace: writes its header.
    ///
    /// # Errors
    /// [`TraceError::Io`].
    pub fn new(write: W) -> Result<Self, TraceError> {
        Self::named(write, "the trace being written")
    }

    /// Begins a trace; `name` stands for it in messages.
    ///
    /// # Errors
    /// [`TraceError::Io`].
    pub fn named(write: W, name: impl Into<String>) -> Result<Self, TraceError> {
        let mut window = Vec::with_capacity(64);
        window.extend_from_slice(&MAGIC);
        window.extend_from_slice(&VERSION.to_be_bytes());
        // The length of the header, which is empty.
        put_varint(&mut window, 0);
        let (row, tags, scopes) = Default::default();
        Ok(Self { write, name: name.into(), window, base: 0, row, tags, scopes })
    }

    /// Appends a row.
    ///
    /// # Errors
    /// [`TraceError::Io`].
    pub fn row(&mut self, row: &Row<'_>) -> Result<(), TraceError> {
        self.row.clear();
        self.tags.clear();
        self.encode(row);
        put_varint(&mut self.window, self.row.len() as u64);
        let start = self.offset();
        self.scopes.clear();
        self.scopes.extend(self.tags.iter().map(|&at| start + at as u64));
        self.window.extend_from_slice(&self.row);
        if self.window.len() >= 2 * WINDOW_BYTES {
            self.write_out(self.window.len() - WINDOW_BYTES)?;
        }
        Ok(())
    }

    /// Returns how many bytes the trace has so far.
    #[must_use]
    pub const fn offset(&self) -> u64 {
        self.base + self.window.len() as u64
    }

    /// Returns the offsets of the scope tags of the row written last, in the order in which the row has them: a
    /// commit's hash, its parents, its input; otherwise hash or input, then output.
    #[must_use]
    pub fn scope_offsets(&self) -> &[u64] {
        &self.scopes
    }

    /// Writes out everything and returns what was written to.
    ///
    /// # Errors
    /// [`TraceError::Io`].
    pub fn finish(mut self) -> Result<W, TraceError> {
        self.write_out(self.window.len())?;
        self.write.flush().map_err(|source| TraceError::io(&self.name, source))?;
        Ok(self.write)
    }

    fn write_out(&mut self, bytes: usize) -> Result<(), TraceError> {
        self.write.write_all(&self.window[..bytes]).map_err(|source| TraceError::io(&self.name, source))?;
        self.window.drain(..bytes);
        self.base += bytes as u64;
        Ok(())
    }

    fn encode(&mut self, row: &Row<'_>) {
        self.row.push(row.kind() as u8);
        match *row {
            Row::Checkout { hash, output } => {
                self.hash(hash);
                self.context(output);
            }
            Row::Add { key, value, input, output } => {
                self.key(key);
                put_string(&mut self.row, value);
                self.context(input);
                self.context(output);
            }
            Row::Remove { key, input, output } => {
                self.key(key);
                self.context(input);
                self.context(output);
            }
            Row::Copy { source, destination, input, output } => {
                self.key(source);
                self.key(destination);
                self.context(input);
                self.context(output);
            }
            Row::Find { key, found, input } | Row::Mem { key, found, input } | Row::MemTree { key, found, input } => {
                self.key(key);
                self.row.push(if found { 0xff } else { 0 });
                self.context(input);
            }
            Row::Commit { hash, date, message, parents, input } => {
                self.hash(hash);
                self.row.extend_from_slice(&date.to_be_bytes());
                put_string(&mut self.row, message);
                put_varint(&mut self.row, parents.len() as u64);
                parents.iter().for_each(|parent| self.hash(parent));
                self.context(input);
            }
        }
    }

    fn key(&mut self, key: Key<'_>) {
        put_varint(&mut self.row, key.len() as u64);
        self.row.extend_from_slice(key.steps);
    }

    fn hash(&mut self, hash: Scoped<&[u8]>) {
        self.tags.push(self.row.len());
        put_scoped_hash(&mut self.row, hash);
    }

    fn context(&mut self, context: Scoped<ContextId>) {
        self.tags.push(self.row.len());
        put_scope(&mut self.row, context.keep);
        self.row.extend_from_slice(&context.value.to_be_bytes());
    }
}

impl<W: Write + Seek> Writer<W> {
    /// Marks the mention whose scope tag is at this offset, as [`Writer::scope_offsets`] told it, as the last one.
    ///
    /// # Errors
    /// [`TraceError::Io`].
    pub fn forget(&mut self, scope_offset: u64) -> Result<(), TraceError> {
        if let Some(at) = scope_offset.checked_sub(self.base) {
            let at = at as usize;
            debug_assert!(self.window[at] <= 1, "no scope tag");
            self.window[at] = 0;
            return Ok(());
        }
        // Relative, so that the trace need not be at the start of what it is written to.
        let back = (self.base - scope_offset) as i64;
        let mut mark = || {
            self.write.seek(SeekFrom::Current(-back))?;
            self.write.write_all(&[0])?;
            self.write.seek(SeekFrom::Current(back - 1))
        };
        mark().map(|_| ()).map_err(|source| TraceError::io(&self.name, source))
    }
}
