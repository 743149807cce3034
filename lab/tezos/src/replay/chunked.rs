//! A trace replayed in pieces that know nothing of each other, as a published parallel replay does it.
//!
//! Each piece starts from an empty tree and takes every row for one of that tree, so lookups find little, edits
//! touch small directories and commits hold what the piece has set. It is not the work of the trace, and nothing can
//! be checked; it exists to be compared with figures that were made so.

use std::{
    fs::File,
    io::{Read, Seek, SeekFrom},
    path::Path as FilePath,
    sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    thread,
    time::{Duration, Instant},
};

use bristlecone::{Format, Info, Path, Repo, Signature, Tree};

use super::{
    End, Memory, Observer, Progress, ReplayError, ReplayOptions, Report,
    apply::{Found, Keys, copy},
    commit::AUTHOR,
    report::{RowCounts, Sample, per_second},
};
use crate::{
    Reader, Row, RowKind, TraceError,
    cursor::{Varint, varint},
    decode::decode,
};

/// The trace is held in memory; so much of it at most.
const BYTES_MAX: u64 = 8 << 30;
/// How often the clock is looked at.
const TICK: Duration = Duration::from_millis(20);
const SAMPLED_EVERY: Duration = Duration::from_millis(250);
/// This many rows are counted together.
const ROWS_COUNTED: u64 = 1024;

/// How a trace is cut. Nothing counts as one; each piece takes eight bytes of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pieces {
    /// How many threads work.
    pub threads: usize,
    /// How many pieces each of them takes, one after another.
    pub each: usize,
}

/// Replays a trace in pieces. The report has no answers, hashes, latencies and head. The time is that of the pieces;
/// the trace is read beforehand.
///
/// # Errors
/// [`ReplayError::TooLarge`] for more than 8 GiB of it; a trace that is damaged; those of the backend.
pub fn replay<F: Format>(
    repo: &Repo<F>,
    trace: &FilePath,
    options: &ReplayOptions,
    pieces: Pieces,
    observer: &mut dyn Observer,
) -> Result<Report, ReplayError> {
    let pieces = Pieces { threads: pieces.threads.max(1), each: pieces.each.max(1) };
    let cut = Cut::read(trace, options, pieces)?;
    let before = repo.backend().stats();
    let shared = Shared::default();
    let began = Instant::now();
    let (parts, samples, end) = thread::scope(|scope| {
        let work = |starts| Worker::new(repo, options, &shared).run(&cut.bytes, starts);
        let spawn = |index: usize| {
            let starts = &cut.starts[index * pieces.each..=(index + 1) * pieces.each];
            scope.spawn(move || work(starts))
        };
        let threads: Vec<_> = (0..pieces.threads).map(spawn).collect();
        let (samples, end) = watch(&shared, &cut, began, observer, || threads.iter().all(|t| t.is_finished()));
        let join = |thread: thread::ScopedJoinHandle<'_, _>| thread.join().expect("a piece does not panic");
        (threads.into_iter().map(join).collect::<Vec<bristlecone::Result<Part>>>(), samples, end)
    });
    let mut report = Report { samples, end, cut: cut.note, memory: observer.memory(), ..Report::default() };
    for part in parts {
        let part = part?;
        report.rows.add_all(&part.rows);
        report.value_bytes += part.found.value_bytes;
        report.value_sum = report.value_sum.wrapping_add(part.found.value_sum);
        report.seconds = report.seconds.max((part.ended - began).as_secs_f64());
    }
    let now = repo.backend().stats();
    report.commits = report.rows.of(RowKind::Commit);
    report.memory_max = report.samples.iter().map(|sample| sample.memory).fold(report.memory, Memory::max);
    (report.bytes_written, report.syncs) = (now.bytes_written - before.bytes_written, now.syncs - before.syncs);
    (report.store_bytes, report.file_bytes) = (now.store_bytes, now.file_bytes);
    Ok(report)
}

/// A trace in memory, cut into pieces.
struct Cut {
    // The rows, each with its length.
    bytes: Vec<u8>,
    // Where each piece starts in `bytes`, and where the last one ends.
    starts: Vec<usize>,
    rows: u64,
    // What is said of a row in which the trace ends.
    note: Option<String>,
}

impl Cut {
    fn read(trace: &FilePath, options: &ReplayOptions, pieces: Pieces) -> Result<Self, ReplayError> {
        let mut reader = Reader::open(trace)?;
        let (file, start) = (reader.name().to_owned(), reader.offset());
        let (mut made, mut note) = (0, None);
        while options.commits.is_none_or(|commits| made < commits) {
            let row = match reader.next() {
                Ok(Some(row)) => row,
                Ok(None) => break,
                Err(cut @ TraceError::Cut { .. }) if !options.strict => {
                    note = Some(cut.to_string());
                    break;
                }
                Err(error) => return Err(error.into()),
            };
            made += u64::from(row.kind() == RowKind::Commit);
            if reader.offset() - start > BYTES_MAX {
                return Err(ReplayError::TooLarge { file, bytes: reader.offset() - start, bytes_max: BYTES_MAX });
            }
        }
        let mut bytes = vec![0; (reader.offset() - start) as usize];
        File::open(trace)
            .and_then(|mut file| file.seek(SeekFrom::Start(start)).and_then(|_| file.read_exact(&mut bytes)))
            .map_err(|source| TraceError::io(&file, source))?;
        let rows = reader.rows();
        let count = pieces.threads as u64 * pieces.each as u64;
        let mut starts = Vec::with_capacity(count as usize + 1);
        let (mut at, mut row) = (0, 0);
        for piece in 0..=count {
            let first = (u128::from(rows) * u128::from(piece) / u128::from(count)) as u64;
            while row < first {
                at = row_at(&bytes, at).map_or(bytes.len(), |(_, end)| end);
                row += 1;
            }
            starts.push(at);
        }
        Ok(Self { bytes, starts, rows, note })
    }
}

/// Returns where the bytes of the row at `at` begin and end.
fn row_at(bytes: &[u8], at: usize) -> Option<(usize, usize)> {
    match varint(bytes.get(at..)?) {
        Varint::Whole { value, bytes: prefix } => {
            let start = at + prefix;
            let end = start.checked_add(usize::try_from(value).ok()?)?;
            (end <= bytes.len()).then_some((start, end))
        }
        _ => None,
    }
}

/// What threads tell each other.
#[derive(Debug, Default)]
struct Shared {
    rows: AtomicU64,
    commits: AtomicU64,
    stop: AtomicBool,
}

/// Samples and lets the observer look until the threads are done.
fn watch(
    shared: &Shared,
    cut: &Cut,
    began: Instant,
    observer: &mut dyn Observer,
    done: impl Fn() -> bool,
) -> (Vec<Sample>, End) {
    let (mut samples, mut end): (Vec<Sample>, _) = (Vec::new(), End::Trace);
    while !done() {
        thread::sleep(TICK);
        let seconds = began.elapsed().as_secs_f64();
        let (rows, commits) = (shared.rows.load(Relaxed), shared.commits.load(Relaxed));
        let last = samples.last().copied().unwrap_or_default();
        if seconds - last.seconds >= SAMPLED_EVERY.as_secs_f64() {
            let rows_per_s = per_second(rows - last.rows, seconds - last.seconds);
            let memory = observer.memory();
            samples.push(Sample { seconds, rows, commits, rows_per_s, memory, ..Sample::default() });
        }
        let now = Progress { seconds, rows, commits, done: Some(rows as f64 / cut.rows.max(1) as f64) };
        if observer.progress(&now).is_break() {
            end = End::Stopped;
            shared.stop.store(true, Relaxed);
        }
    }
    (samples, end)
}

/// What one thread has done.
struct Part {
    rows: RowCounts,
    found: Found,
    ended: Instant,
}

/// One thread's work on its pieces.
struct Worker<'a, F: Format> {
    repo: &'a Repo<F>,
    options: &'a ReplayOptions,
    shared: &'a Shared,
    rows: RowCounts,
    found: Found,
    keys: Keys,
    path: Path,
    source: Path,
}

impl<'a, F: Format> Worker<'a, F> {
    fn new(repo: &'a Repo<F>, options: &'a ReplayOptions, shared: &'a Shared) -> Self {
        let keys = Keys::new(options.path_conversion);
        let (rows, found) = Default::default();
        Self { repo, options, shared, rows, found, keys, path: Path::root(), source: Path::root() }
    }

    fn run(mut self, bytes: &[u8], starts: &[usize]) -> bristlecone::Result<Part> {
        for piece in starts.windows(2) {
            let done = self.piece(&bytes[piece[0]..piece[1]]);
            // Whatever ends this thread's work early ends that of the others.
            if done.is_err() {
                self.shared.stop.store(true, Relaxed);
            }
            done?;
            if self.shared.stop.load(Relaxed) {
                break;
            }
        }
        Ok(Part { rows: self.rows, found: self.found, ended: Instant::now() })
    }

    fn piece(&mut self, bytes: &[u8]) -> bristlecone::Result<()> {
        let mut tree = self.repo.tree();
        let (mut at, mut counted) = (0, 0);
        // The rows are sound: they were read once before.
        while let Some((start, end)) = row_at(bytes, at)
            && let Ok(row) = decode(&bytes[start..end])
        {
            self.row(&mut tree, &row)?;
            self.rows.add(row.kind());
            (at, counted) = (end, counted + 1);
            if counted % ROWS_COUNTED == 0 {
                self.shared.rows.fetch_add(ROWS_COUNTED, Relaxed);
                if self.shared.stop.load(Relaxed) {
                    break;
                }
            }
        }
        self.shared.rows.fetch_add(counted % ROWS_COUNTED, Relaxed);
        Ok(())
    }

    fn row(&mut self, tree: &mut Tree<F>, row: &Row<'_>) -> bristlecone::Result<()> {
        if let Some(key) = row.key() {
            self.keys.set(&mut self.path, key)?;
        }
        match *row {
            Row::Find { .. } => {
                if let Some(value) = tree.get(&self.path)? {
                    self.found.touch(&value);
                }
            }
            Row::Mem { .. } | Row::MemTree { .. } => _ = tree.kind(&self.path)?,
            Row::Add { value, .. } => tree.replace(&self.path, if self.options.empty_blobs { &[] } else { value })?,
            Row::Remove { .. } => tree.remove(&self.path)?,
            Row::Copy { source, .. } => {
                self.keys.set(&mut self.source, source)?;
                // There may be nothing in this piece.
                copy(tree, &self.source, &self.path)?;
            }
            Row::Checkout { .. } => {}
            Row::Commit { date, message, .. } => {
                self.shared.commits.fetch_add(1, Relaxed);
                if !tree.is_empty()? {
                    let info = Info::message(message).by(Signature::new(AUTHOR, date));
                    self.repo.commit_tree(tree, &[], &info.durability(self.options.durability))?;
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{KeyBuf, Scoped, Writer};

    /// Twelve rows: a value is added, found, asked for, and committed, three times.
    fn trace() -> tempfile::NamedTempFile {
        let mut writer = Writer::new(Vec::new()).unwrap();
        let hash = b"CoV8SQumiVU9saiu3FVNeDNewJaJH8yWdsGF3WLdsRr2P9S7MzCj";
        let (input, output) = (Scoped::keep(0), Scoped::keep(0));
        for value in [b"1", b"2", b"3"] {
            let key = KeyBuf::from_steps(["a", "b"]);
            let key = key.as_key();
            writer.row(&Row::Add { key, value, input, output }).unwrap();
            writer.row(&Row::Find { key, found: true, input }).unwrap();
            writer.row(&Row::Mem { key, found: true, input }).unwrap();
            let (hash, parents) = (Scoped::keep(&hash[..]), crate::Hashes::default());
            writer.row(&Row::Commit { hash, date: 0, message: b"", parents, input }).unwrap();
        }
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), writer.finish().unwrap()).unwrap();
        file
    }

    #[test]
    fn every_row_is_in_one_piece() {
        let trace = trace();
        for (threads, each) in [(1, 1), (1, 5), (3, 4), (2, 100)] {
            let repo = Repo::memory();
            let pieces = Pieces { threads, each };
            let report = replay(&repo, trace.path(), &ReplayOptions::default(), pieces, &mut ()).unwrap();
            assert_eq!((report.rows.total(), report.commits, report.end), (12, 3, End::Trace));
            assert_eq!((report.answers_checked, report.hashes_checked, report.head), (0, 0, None));
            // Pieces of one row find nothing.
            assert_eq!(report.value_bytes > 0, threads * each < 12, "{threads}x{each}");
        }
        let options = ReplayOptions { commits: Some(2), ..ReplayOptions::default() };
        let pieces = Pieces { threads: 2, each: 1 };
        assert_eq!(replay(&Repo::memory(), trace.path(), &options, pieces, &mut ()).unwrap().rows.total(), 8);
    }
}
