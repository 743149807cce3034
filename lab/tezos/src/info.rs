//! What a trace consists of, gathered in one pass and in bounded memory.

use std::io::Read;

use crate::{
    TraceError,
    reader::Reader,
    row::{Row, RowKind},
    scoped::{ContextId, Scoped},
};

mod shape;
mod spread;

pub use shape::Shape;
pub use spread::Percentiles;

use shape::Shapes;
use spread::Spread;

/// Depths from this on are counted together.
const DEPTH_MAX: usize = 32;
/// How many of the largest commits are named.
const LARGEST: usize = 10;
/// How much of their messages, and of hashes, is kept, in bytes.
const TEXT_BYTES_MAX: usize = 200;

/// Ranges of sizes of values, in bytes: from, and up to and with.
pub const VALUE_BUCKETS: [(u64, Option<u64>); 4] = [(0, Some(31)), (32, Some(127)), (128, Some(511)), (512, None)];

/// Statistics of a trace, or of its beginning.
///
/// ```no_run
/// use bristlecone_tezos::{Reader, RowKind, TraceInfo};
///
/// let (mut reader, mut info) = (Reader::open("some.repr")?, TraceInfo::new());
/// while info.read_row(&mut reader)? {}
/// println!("{} commits, {} values added", info.rows(RowKind::Commit), info.rows(RowKind::Add));
/// # Ok::<(), bristlecone_tezos::TraceError>(())
/// ```
#[derive(Debug)]
pub struct TraceInfo {
    rows: [u64; RowKind::ALL.len()],
    found: [u64; RowKind::ALL.len()],
    bytes: u64,
    depths: Vec<Depth>,
    values: [ValueBucket; VALUE_BUCKETS.len()],
    // Rows of each commit.
    spread: Spread,
    largest: Vec<LargeCommit>,
    shapes: Shapes,
    // The rows since the last commit, then the commit itself.
    current: LargeCommit,
    first_date: Option<i64>,
    last_date: Option<i64>,
    old_checkouts: u64,
    contexts: u64,
    contexts_max: u64,
}

/// Keys of one depth.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Depth {
    /// How many `Add`s have such a key.
    pub added: u64,
    /// How many other rows.
    pub others: u64,
}

impl Depth {
    /// Returns how many rows have such a key.
    #[must_use]
    pub const fn rows(&self) -> u64 {
        self.added + self.others
    }
}

/// Values of one range of sizes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ValueBucket {
    /// How many were added.
    pub count: u64,
    /// How many bytes they have together.
    pub bytes: u64,
}

/// One of the largest commits.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LargeCommit {
    /// Which one, counted from 0.
    pub index: u64,
    /// Its rows: those since the commit before, and its own.
    pub rows: u64,
    /// Their bytes in the trace, lengths included.
    pub bytes: u64,
    /// Its recorded hash, as base58 text; of what is longer than 200 bytes, and so no hash, the first 200.
    pub hash: Vec<u8>,
    /// Its message, of which the first 200 bytes are kept.
    pub message: Vec<u8>,
}

impl Default for TraceInfo {
    fn default() -> Self {
        Self::new()
    }
}

impl TraceInfo {
    /// Returns the statistics of nothing.
    #[must_use]
    pub fn new() -> Self {
        Self {
            rows: Default::default(),
            found: Default::default(),
            bytes: 0,
            depths: vec![Depth::default(); DEPTH_MAX + 1],
            values: Default::default(),
            spread: Spread::default(),
            largest: Vec::new(),
            shapes: Shapes::default(),
            current: LargeCommit::default(),
            first_date: None,
            last_date: None,
            old_checkouts: 0,
            // The empty tree has an id before the first row.
            contexts: 1,
            contexts_max: 1,
        }
    }

    /// Reads the next row of a trace and counts it; returns whether there was one.
    ///
    /// # Errors
    /// As [`Reader::next`].
    pub fn read_row<R: Read>(&mut self, reader: &mut Reader<R>) -> Result<bool, TraceError> {
        let start = reader.offset();
        let Some(row) = reader.next()? else { return Ok(false) };
        let kind = row.kind();
        self.count(&row);
        let bytes = reader.offset() - start;
        self.bytes += bytes;
        self.current.bytes += bytes;
        if kind == RowKind::Commit {
            self.commit();
        }
        Ok(true)
    }

    fn count(&mut self, row: &Row<'_>) {
        let kind = row.kind();
        self.rows[kind as usize] += 1;
        self.current.rows += 1;
        if let Some(key) = row.key() {
            let depth = &mut self.depths[key.len().min(DEPTH_MAX)];
            *if kind == RowKind::Add { &mut depth.added } else { &mut depth.others } += 1;
            self.shapes.count(key, kind);
        }
        match *row {
            Row::Checkout { hash, output } => {
                // Of the commit read last, `current` still has the hash.
                self.old_checkouts += u64::from(start(hash.value) != self.current.hash);
                self.output(output);
            }
            Row::Add { value, input, output, .. } => {
                let bytes = value.len() as u64;
                let at = VALUE_BUCKETS.iter().position(|(_, to)| to.is_none_or(|to| bytes <= to)).unwrap_or(0);
                self.values[at].count += 1;
                self.values[at].bytes += bytes;
                self.input(input);
                self.output(output);
            }
            Row::Remove { input, output, .. } | Row::Copy { input, output, .. } => {
                self.input(input);
                self.output(output);
            }
            Row::Find { found, input, .. } | Row::Mem { found, input, .. } | Row::MemTree { found, input, .. } => {
                self.found[kind as usize] += u64::from(found);
                self.input(input);
            }
            Row::Commit { hash, date, message, input, .. } => {
                self.current.hash.clear();
                self.current.hash.extend_from_slice(start(hash.value));
                self.current.message.clear();
                self.current.message.extend_from_slice(start(message));
                self.first_date.get_or_insert(date);
                self.last_date = Some(date);
                self.input(input);
            }
        }
    }

    fn input(&mut self, context: Scoped<ContextId>) {
        self.contexts = self.contexts.saturating_sub(u64::from(!context.keep));
    }

    fn output(&mut self, context: Scoped<ContextId>) {
        self.contexts_max = self.contexts_max.max(self.contexts + 1);
        self.contexts += u64::from(context.keep);
    }

    /// Ends a commit.
    fn commit(&mut self) {
        self.spread.count(self.current.rows);
        let place = self.largest.partition_point(|other| other.rows >= self.current.rows);
        if place < LARGEST {
            self.largest.truncate(LARGEST - 1);
            self.largest.insert(place, self.current.clone());
        }
        self.current.index += 1;
        (self.current.rows, self.current.bytes) = (0, 0);
    }
}

/// Returns what is kept of a text.
fn start(text: &[u8]) -> &[u8] {
    &text[..text.len().min(TEXT_BYTES_MAX)]
}

/// What was found.
impl TraceInfo {
    /// Returns how many rows of a kind there are.
    #[must_use]
    pub const fn rows(&self, kind: RowKind) -> u64 {
        self.rows[kind as usize]
    }

    /// Returns how many rows there are.
    #[must_use]
    pub fn rows_all(&self) -> u64 {
        self.rows.iter().sum()
    }

    /// Returns how many rows follow the last commit.
    #[must_use]
    pub const fn rows_uncommitted(&self) -> u64 {
        self.current.rows
    }

    /// Returns how many reads of a kind found something.
    #[must_use]
    pub const fn found(&self, kind: RowKind) -> u64 {
        self.found[kind as usize]
    }

    /// Returns the bytes of all rows, lengths included.
    #[must_use]
    pub const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns the keys by their number of steps; the last entry counts all that have as many or more.
    #[must_use]
    pub fn depths(&self) -> &[Depth] {
        &self.depths
    }

    /// Returns the values that were added by their size, as [`VALUE_BUCKETS`] has it.
    #[must_use]
    pub const fn values(&self) -> &[ValueBucket; VALUE_BUCKETS.len()] {
        &self.values
    }

    /// Returns how the rows spread over the commits; `None` without commits.
    #[must_use]
    pub fn rows_per_commit(&self) -> Option<Percentiles> {
        self.spread.percentiles()
    }

    /// Returns the commits with the most rows, at most ten, largest first.
    #[must_use]
    pub fn largest(&self) -> &[LargeCommit] {
        &self.largest
    }

    /// Returns the most frequent shapes of keys, at most `count_max` of them.
    #[must_use]
    pub fn shapes(&self, count_max: usize) -> Vec<Shape> {
        self.shapes.most_frequent(count_max)
    }

    /// Whether there were too many shapes, so that rare ones were dropped; counts are then at least what is said.
    #[must_use]
    pub const fn shapes_were_dropped(&self) -> bool {
        self.shapes.were_dropped()
    }

    /// Returns how many checkouts are of another commit than the newest.
    #[must_use]
    pub const fn old_checkouts(&self) -> u64 {
        self.old_checkouts
    }

    /// Returns how many contexts are alive at most, and how many at the end.
    #[must_use]
    pub const fn contexts(&self) -> (u64, u64) {
        (self.contexts_max, self.contexts)
    }

    /// Returns the dates of the first and the last commit, in seconds since 1970-01-01 00:00 UTC.
    #[must_use]
    pub fn dates(&self) -> Option<(i64, i64)> {
        self.first_date.zip(self.last_date)
    }

    /// Returns the hash of the last commit, as base58 text; empty without commits.
    #[must_use]
    pub fn last_commit(&self) -> &[u8] {
        &self.current.hash
    }
}

#[cfg(test)]
mod tests;
