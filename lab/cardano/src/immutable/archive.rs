//! Archives, which a thread of its own reads and unpacks ahead.

use std::{
    collections::BTreeMap,
    io::{ErrorKind, Read},
    path::Path,
    sync::mpsc::{Receiver, SyncSender, sync_channel},
    thread,
};

use super::{
    layout::{Part, parse_name},
    sources::{Files, Source, read_whole},
};
use crate::ChainError;

/// Files of an archive wait for the others of their chunk, so many bytes in all.
const WAITING_BYTES_MAX: usize = 512 << 20;
/// How many chunks are unpacked ahead.
const AHEAD: usize = 2;

/// An archive. The files of a chunk come in any order, chunks in that of the chain.
pub(super) struct Archive {
    chunks: Receiver<Result<Files, ChainError>>,
}

impl Archive {
    pub(super) fn open(path: &Path, stream: Box<dyn Read + Send>) -> Self {
        let (sender, chunks) = sync_channel(AHEAD);
        let name = path.display().to_string();
        // It ends with the archive, or when the receiver is gone.
        thread::spawn(move || {
            if let Err(error) = unpack(&name, stream, &sender) {
                let _ = sender.send(Err(error));
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

/// What was unpacked of a chunk.
type Parts = [Option<Vec<u8>>; 3];

/// Unpacks chunk by chunk. Returns without an error when the receiver is gone.
fn unpack(
    name: &str,
    stream: Box<dyn Read + Send>,
    to: &SyncSender<Result<Files, ChainError>>,
) -> Result<(), ChainError> {
    // Where the archive could no longer be read.
    let mut last = String::new();
    let io = |last: &str| {
        let file = if last.is_empty() { name.to_owned() } else { format!("{name} behind {last}") };
        move |source| ChainError::Io { file, source }
    };
    let none = |reason: &str| ChainError::NoChain { file: name.to_owned(), reason: reason.into() };
    let mut waiting: BTreeMap<u32, Parts> = BTreeMap::new();
    let (mut waiting_bytes, mut found) = (0, false);
    let mut archive = tar::Archive::new(stream);
    for entry in archive.entries().map_err(io(&last))? {
        let mut entry = entry.map_err(io(&last))?;
        let path = entry.path().map_err(io(&last))?.into_owned();
        last = path.display().to_string();
        let Some((number, part)) = path.file_name().and_then(|name| name.to_str()).and_then(parse_name) else {
            continue;
        };
        if !entry.header().entry_type().is_file() {
            continue;
        }
        found = true;
        let within = format!("{name}({})", path.display());
        let size = entry.size();
        let bytes = read_whole(&mut entry, size, &within)?;
        if bytes.len() as u64 != size {
            return Err(ChainError::Io { file: within, source: ErrorKind::UnexpectedEof.into() });
        }
        waiting_bytes += bytes.len();
        let parts = waiting.entry(number).or_default();
        if parts[part as usize].replace(bytes).is_some() {
            return Err(none(&format!("{} is in the archive twice", path.display())));
        }
        if parts.iter().all(Option::is_some) {
            let parts = waiting.remove(&number).unwrap_or_default();
            waiting_bytes -= parts.iter().flatten().map(Vec::len).sum::<usize>();
            if to.send(Ok(files(name, number, parts))).is_err() {
                return Ok(());
            }
        } else if waiting_bytes > WAITING_BYTES_MAX {
            return Err(none("the files of a chunk lie too far apart in the archive: unpack it and name the folder"));
        }
    }
    if !found {
        return Err(none("there are no chunks (files such as 00000.chunk) in this archive"));
    }
    for (number, parts) in waiting {
        if parts[Part::Chunk as usize].is_none() {
            return Err(none(&format!("chunk {number} has an index in the archive, and no blocks")));
        }
        if to.send(Ok(files(name, number, parts))).is_err() {
            break;
        }
    }
    Ok(())
}

fn files(name: &str, number: u32, parts: Parts) -> Files {
    let [chunk, primary, secondary] = parts;
    let name = format!("{name}({number:05}.chunk)");
    Files { number, name, chunk: chunk.unwrap_or_default(), primary, secondary, single: false }
}
