//! Archives, which a thread of its own reads and unpacks ahead.

use std::{
    cell::Cell,
    collections::BTreeMap,
    io::{self, ErrorKind, Read},
    path::Path,
    rc::Rc,
    sync::mpsc::{Receiver, SyncSender, sync_channel},
    thread,
};

use super::{
    layout::{Part, file_name, parse_name},
    sources::{Files, Source, read_whole},
};
use crate::ChainError;

/// Files of an archive wait for the others of their chunk, and chunks for those before them, so many bytes in all.
const WAITING_BYTES_MAX: usize = 512 << 20;
/// Chunks wait for an earlier one with which the archive could begin, so many bytes in all. Few, since those of an archive that
/// holds the middle of a chain wait in vain.
const BEGINNING_BYTES_MAX: usize = 32 << 20;
/// How many chunks are unpacked ahead.
const AHEAD: usize = 2;
/// The longest header of a file with what extends it, long names and PAX records, which is read into memory whole.
const HEADERS_BYTES_MAX: u64 = 256 << 10;

/// An archive. Files come in any order, as `tar` finds them in a folder, as long as those that wait for others are few enough
/// for memory; chunks are given in the order of the chain.
pub(super) struct Archive {
    chunks: Receiver<Result<Files, ChainError>>,
}

impl Archive {
    /// Begins to unpack. `after` is the last chunk that was read elsewhere, which the archive may continue.
    pub(super) fn open(path: &Path, stream: Box<dyn Read + Send>, after: Option<u32>) -> Self {
        let (to, chunks) = sync_channel(AHEAD);
        let name = path.display().to_string();
        let first = after.map_or(0, |after| after.saturating_add(1));
        let (waiting, next) = (BTreeMap::new(), None);
        let mut unpacking = Unpacking { name, to, waiting, waiting_bytes: 0, first, next };
        // It ends with the archive, or when the receiver is gone.
        thread::spawn(move || {
            if let Err(error) = unpacking.unpack(stream) {
                // Where an archive is cut, what is whole counts.
                unpacking.send_whole(true);
                let _ = unpacking.to.send(Err(error));
            }
        });
        Self { chunks }
    }
}

impl Source for Archive {
    fn next(&mut self) -> Result<Option<Files>, ChainError> {
        self.chunks.recv().ok().transpose()
    }
}

/// An archive's bytes, of which no more are read between two files than their contents and headers may have.
struct Bounded {
    stream: Box<dyn Read + Send>,
    left: Rc<Cell<u64>>,
}

impl Read for Bounded {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let left = self.left.get();
        if left == 0 && !buffer.is_empty() {
            let reason =
                format!("a file's name and what else stands before it have more than {HEADERS_BYTES_MAX} bytes");
            return Err(io::Error::new(ErrorKind::InvalidData, reason));
        }
        let count = buffer.len().min(usize::try_from(left).unwrap_or(usize::MAX));
        let read = self.stream.read(&mut buffer[..count])?;
        self.left.set(left - read as u64);
        Ok(read)
    }
}

/// What was unpacked of a chunk.
type Parts = [Option<Vec<u8>>; 3];

/// Returns how many bytes a file takes while it waits: empty ones take some too.
const fn waits(bytes: &[u8]) -> usize {
    bytes.len() + 512
}

struct Unpacking {
    name: String,
    to: SyncSender<Result<Files, ChainError>>,
    /// Chunks of which a file is missing, or that wait for earlier ones.
    waiting: BTreeMap<u32, Parts>,
    waiting_bytes: usize,
    /// A chunk up to this one is the first of the archive without waiting.
    first: u32,
    /// The chunk that follows the last one that was sent.
    next: Option<u32>,
}

impl Unpacking {
    fn none(&self, reason: String) -> ChainError {
        ChainError::NoChain { file: self.name.clone(), reason }
    }

    /// Unpacks chunk by chunk. Returns without an error when the receiver is gone.
    fn unpack(&mut self, stream: Box<dyn Read + Send>) -> Result<(), ChainError> {
        // Where the archive could no longer be read.
        let mut last = String::new();
        let name = self.name.clone();
        let io = |last: &str| {
            let file = if last.is_empty() { name.clone() } else { format!("{name} behind {last}") };
            move |source| ChainError::Io { file, source }
        };
        let mut found = false;
        let left = Rc::new(Cell::new(HEADERS_BYTES_MAX));
        let mut archive = tar::Archive::new(Bounded { stream, left: left.clone() });
        for entry in archive.entries().map_err(io(&last))? {
            let mut entry = entry.map_err(io(&last))?;
            // A sparse file has another size in the archive than its own.
            let stored = if entry.header().entry_type().is_gnu_sparse() {
                entry.header().entry_size()
            } else {
                Ok(entry.size())
            };
            left.set(stored.map_err(io(&last))?.saturating_add(HEADERS_BYTES_MAX));
            let path = entry.path().map_err(io(&last))?.into_owned();
            last = path.display().to_string();
            let Some((number, part)) = path.file_name().and_then(|name| name.to_str()).and_then(parse_name) else {
                continue;
            };
            if !entry.header().entry_type().is_file() {
                continue;
            }
            found = true;
            let within = format!("{name}({last})");
            let size = entry.size();
            let bytes = read_whole(&mut entry, size, &within)?;
            if bytes.len() as u64 != size {
                return Err(ChainError::Io { file: within, source: ErrorKind::UnexpectedEof.into() });
            }
            self.add(number, part, bytes)?;
            if !self.send_whole(false) {
                return Ok(());
            }
            self.check_waiting()?;
        }
        if !found {
            return Err(self.none("there are no chunks (files such as 00000.chunk) in this archive".into()));
        }
        self.send_rest()
    }

    /// Takes a file.
    fn add(&mut self, number: u32, part: Part, bytes: Vec<u8>) -> Result<(), ChainError> {
        let file = file_name(number, part);
        if let Some(next) = self.next.filter(|next| number < *next) {
            return Err(self.none(format!(
                "{file} comes behind chunk {} in the archive, and farther than memory allows to put in order; unpack the \
                 archive and name the folder, or pack it with names in order",
                next.saturating_sub(1)
            )));
        }
        self.waiting_bytes += waits(&bytes);
        if self.waiting.entry(number).or_default()[part as usize].replace(bytes).is_some() {
            return Err(self.none(format!("{file} is in the archive twice")));
        }
        Ok(())
    }

    /// Sends the chunks whose turn it is and all of whose files are there; with `ended` none can come before the first.
    /// Returns whether there is a receiver.
    fn send_whole(&mut self, ended: bool) -> bool {
        while let Some((&number, parts)) = self.waiting.first_key_value() {
            let turn = match self.next {
                Some(next) => number == next,
                None => ended || number <= self.first || self.waiting_bytes > BEGINNING_BYTES_MAX,
            };
            if !turn || !parts.iter().all(Option::is_some) {
                break;
            }
            if !self.send(number) {
                return false;
            }
        }
        true
    }

    fn send(&mut self, number: u32) -> bool {
        let [chunk, primary, secondary] = self.waiting.remove(&number).unwrap_or_default();
        self.waiting_bytes -=
            [&chunk, &primary, &secondary].into_iter().flatten().map(|bytes| waits(bytes)).sum::<usize>();
        self.next = Some(number.saturating_add(1));
        let name = format!("{}({:05}.chunk)", self.name, number);
        let chunk = chunk.unwrap_or_default();
        self.to.send(Ok(Files { number, name, chunk, primary, secondary, single: false })).is_ok()
    }

    /// Looks whether what waits has room in memory.
    fn check_waiting(&self) -> Result<(), ChainError> {
        let Some((number, parts)) = self.waiting.first_key_value().filter(|_| self.waiting_bytes > WAITING_BYTES_MAX)
        else {
            return Ok(());
        };
        let absent = Part::ALL.into_iter().find(|part| parts[*part as usize].is_none());
        let file = match (self.next.filter(|next| next < number), absent) {
            (None, Some(part)) => file_name(*number, part),
            (next, _) => file_name(next.unwrap_or(*number), Part::Chunk),
        };
        Err(self.none(format!(
            "{file} is missing, or lies too far behind in the archive; unpack the archive and name the folder, or pack it with \
             names in order"
        )))
    }

    /// Sends what waits when the archive ends, whole or not, in the order of the chain.
    fn send_rest(&mut self) -> Result<(), ChainError> {
        while let Some((&number, parts)) = self.waiting.first_key_value() {
            if parts[Part::Chunk as usize].is_none() {
                return Err(self.none(format!("chunk {number} has an index in the archive, and no blocks")));
            }
            if !self.send(number) {
                break;
            }
        }
        Ok(())
    }
}
