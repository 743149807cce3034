//! Where chunks come from: folders, archives and single files.

use std::{
    fs::{self, File},
    io::{self, Read},
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

use super::{
    NO_CHUNK,
    archive::Archive,
    layout::{Entry, Part, entries, file_name, filled_slots, parse_name},
};
use crate::ChainError;

/// The largest file that is read. A full chunk of mainnet has about 100 MB.
pub(super) const FILE_BYTES_MAX: u64 = 256 << 20;
/// The largest window of an archive: 128 MiB.
const WINDOW_LOG_MAX: u32 = 27;

/// A chunk as it was found.
#[derive(Debug, Default)]
pub(super) struct Files {
    pub(super) number: u32,
    /// What messages call the chunk's file.
    pub(super) name: String,
    pub(super) chunk: Vec<u8>,
    pub(super) primary: Option<Vec<u8>>,
    pub(super) secondary: Option<Vec<u8>>,
    /// It is one block that stands for itself.
    pub(super) single: bool,
}

impl Files {
    /// Returns the error that says what is wrong at an offset of the chunk.
    pub(super) fn damaged(&self, offset: u64, slot: Option<u64>, reason: impl Into<String>) -> ChainError {
        let (file, chunk) = (self.name.clone(), self.number);
        ChainError::Damaged { file, chunk, offset, slot, reason: reason.into() }
    }
}

/// Chunks, one after another, from several places.
pub(super) struct Sources {
    rest: std::vec::IntoIter<PathBuf>,
    open: Option<Box<dyn Source>>,
    pub(super) read: Arc<AtomicU64>,
    pub(super) total: Option<u64>,
    /// Folders leave out chunks that end before this slot.
    from: Option<u64>,
    /// The last chunk that was read.
    last: Option<u32>,
}

/// One place.
pub(super) trait Source: Send {
    fn next(&mut self) -> Result<Option<Files>, ChainError>;
}

impl Sources {
    pub(super) fn new(paths: &[PathBuf], from: Option<u64>) -> Result<Self, ChainError> {
        let mut total = Some(0);
        for path in paths {
            let bytes = measure(path)?;
            total = total.zip(bytes).map(|(total, bytes)| total + bytes);
        }
        let rest: Vec<PathBuf> = paths.to_vec();
        Ok(Self { rest: rest.into_iter(), open: None, read: Arc::default(), total, from, last: None })
    }

    pub(super) fn next(&mut self) -> Result<Option<Files>, ChainError> {
        loop {
            if let Some(open) = &mut self.open {
                if let Some(files) = open.next()? {
                    self.last = Some(files.number).filter(|_| !files.single);
                    return Ok(Some(files));
                }
                self.open = None;
            }
            let Some(path) = self.rest.next() else { return Ok(None) };
            self.open = Some(open(&path, self.read.clone(), self.from, self.last)?);
        }
    }
}

fn no_chain(path: &Path, reason: &str) -> ChainError {
    ChainError::NoChain { file: path.display().to_string(), reason: reason.into() }
}

/// Returns the folder of chunks that a path stands for; `None` for a file.
fn folder(path: &Path) -> Result<Option<PathBuf>, ChainError> {
    if !fs::metadata(path).map_err(ChainError::io(path))?.is_dir() {
        return Ok(None);
    }
    let inner = path.join("immutable");
    Ok(Some(if inner.is_dir() { inner } else { path.to_owned() }))
}

/// Returns the numbers of a folder's chunks, ascending: up to the last file of blocks also those whose indexes alone are there,
/// so that a file which is missing is noticed.
pub(super) fn numbers(dir: &Path) -> Result<Vec<u32>, ChainError> {
    let (mut numbers, mut newest) = (Vec::new(), None);
    for entry in fs::read_dir(dir).map_err(ChainError::io(dir))? {
        let name = entry.map_err(ChainError::io(dir))?.file_name();
        if let Some((number, part)) = name.to_str().and_then(parse_name) {
            numbers.push(number);
            newest = newest.max(Some(number).filter(|_| part == Part::Chunk));
        }
    }
    let Some(newest) = newest else {
        return Err(no_chain(dir, "there are no chunks (files such as 00000.chunk) in this folder"));
    };
    numbers.retain(|number| *number <= newest);
    numbers.sort_unstable();
    numbers.dedup();
    Ok(numbers)
}

/// Returns how many bytes will be read of a place.
fn measure(path: &Path) -> Result<Option<u64>, ChainError> {
    let Some(dir) = folder(path)? else {
        return Ok(Some(fs::metadata(path).map_err(ChainError::io(path))?.len()));
    };
    let mut bytes = 0;
    for number in numbers(&dir)? {
        bytes += chunk_bytes(&dir, number)?;
    }
    Ok(Some(bytes))
}

/// Returns the length of a chunk's blocks: 0 where the file is missing, which is told when the chunk is read.
fn chunk_bytes(dir: &Path, number: u32) -> Result<u64, ChainError> {
    let file = dir.join(file_name(number, Part::Chunk));
    match fs::metadata(&file) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(0),
        found => Ok(found.map_err(ChainError::io(&file))?.len()),
    }
}

fn open(
    path: &Path,
    read: Arc<AtomicU64>,
    from: Option<u64>,
    last: Option<u32>,
) -> Result<Box<dyn Source>, ChainError> {
    if let Some(dir) = folder(path)? {
        let numbers = numbers(&dir)?.into_iter();
        return Ok(Box::new(Folder { dir, numbers, read, from }));
    }
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or("").to_owned();
    let compressed = [".tar.zst", ".tzst"].iter().any(|end| name.ends_with(end));
    if compressed || name.ends_with(".tar") {
        let counted = Counted { file: File::open(path).map_err(ChainError::io(path))?, read };
        let stream: Box<dyn Read + Send> = if compressed {
            let mut decoder = zstd::stream::read::Decoder::new(counted).map_err(ChainError::io(path))?;
            decoder.window_log_max(WINDOW_LOG_MAX).map_err(ChainError::io(path))?;
            Box::new(decoder)
        } else {
            Box::new(io::BufReader::with_capacity(1 << 17, counted))
        };
        return Ok(Box::new(Archive::open(path, stream, last)));
    }
    Ok(Box::new(Single { path: Some(path.to_owned()), name, read }))
}

/// Reads a whole file that is not too large.
pub(super) fn read_file(path: &Path) -> Result<Vec<u8>, ChainError> {
    let mut file = File::open(path).map_err(ChainError::io(path))?;
    let bytes = file.metadata().map_err(ChainError::io(path))?.len();
    read_whole(&mut file, bytes, &path.display().to_string())
}

pub(super) fn read_whole(from: &mut dyn Read, bytes: u64, name: &str) -> Result<Vec<u8>, ChainError> {
    if bytes > FILE_BYTES_MAX {
        return Err(ChainError::TooLarge { file: name.to_owned(), bytes, bytes_max: FILE_BYTES_MAX });
    }
    let io = |source| ChainError::Io { file: name.to_owned(), source };
    let mut read = Vec::with_capacity(bytes as usize);
    from.take(FILE_BYTES_MAX + 1).read_to_end(&mut read).map_err(io)?;
    if read.len() as u64 > FILE_BYTES_MAX {
        let bytes = read.len() as u64;
        return Err(ChainError::TooLarge { file: name.to_owned(), bytes, bytes_max: FILE_BYTES_MAX });
    }
    Ok(read)
}

fn read_if_there(path: &Path) -> Result<Option<Vec<u8>>, ChainError> {
    match read_file(path) {
        Err(ChainError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => Ok(None),
        read => read.map(Some),
    }
}

/// Reads a chunk of a folder.
pub(super) fn read_chunk(dir: &Path, number: u32) -> Result<Files, ChainError> {
    let path = |part| dir.join(file_name(number, part));
    let name = path(Part::Chunk).display().to_string();
    let chunk = read_if_there(&path(Part::Chunk))?.ok_or_else(|| ChainError::NoChain {
        file: name.clone(),
        reason: "the file is missing, and the indexes of its chunk are there".into(),
    })?;
    Ok(Files {
        number,
        name,
        chunk,
        primary: read_if_there(&path(Part::Primary))?,
        secondary: read_if_there(&path(Part::Secondary))?,
        single: false,
    })
}

/// A folder of chunks.
struct Folder {
    dir: PathBuf,
    numbers: std::vec::IntoIter<u32>,
    read: Arc<AtomicU64>,
    from: Option<u64>,
}

impl Folder {
    /// Whether all blocks of a chunk that is followed by another come before the slot where reading begins.
    fn is_before(&self, number: u32) -> Result<bool, ChainError> {
        let Some(from) = self.from.filter(|_| !self.numbers.as_slice().is_empty()) else { return Ok(false) };
        let index = |part| read_if_there(&self.dir.join(file_name(number, part)));
        let Some(secondary) = index(Part::Secondary)? else { return Ok(false) };
        let primary = index(Part::Primary)?.unwrap_or_default();
        Ok(last_slot(&primary, &secondary).is_some_and(|last| last < from))
    }
}

/// Returns the slot of the last block of a chunk: the later one where its indexes disagree, so that the chunk is read, and the damage
/// told, if one of them is altered. Returns nothing where they do not tell it: a boundary block, the first of its chunk, has an epoch
/// for a slot, and a single block beside it has nothing to be compared with.
fn last_slot(primary: &[u8], secondary: &[u8]) -> Option<u64> {
    let listed: Vec<Entry> = entries(secondary).0.collect();
    let last = listed.last().filter(|_| listed.len() > 1)?.slot;
    let (filled, _) = filled_slots(primary);
    if filled.len() < 2 {
        return Some(last);
    }
    // Relative slot 0 is that of a boundary block.
    let mut ordinary = filled.iter().zip(&listed).filter(|(relative, _)| **relative > 0);
    let (relative, entry) = ordinary.next()?;
    ordinary.next()?;
    let apart = filled.last()?.saturating_sub(*relative);
    Some(last.max(entry.slot.saturating_add(u64::from(apart))))
}

impl Source for Folder {
    fn next(&mut self) -> Result<Option<Files>, ChainError> {
        while let Some(number) = self.numbers.next() {
            if self.is_before(number)? {
                self.read.fetch_add(chunk_bytes(&self.dir, number)?, Relaxed);
                continue;
            }
            let files = read_chunk(&self.dir, number)?;
            self.read.fetch_add(files.chunk.len() as u64, Relaxed);
            return Ok(Some(files));
        }
        Ok(None)
    }
}

/// A file whose bytes are counted as they are read.
struct Counted {
    file: File,
    read: Arc<AtomicU64>,
}

impl Read for Counted {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.file.read(buffer)?;
        self.read.fetch_add(count as u64, Relaxed);
        Ok(count)
    }
}

/// A file that is one chunk, or one block.
struct Single {
    path: Option<PathBuf>,
    name: String,
    read: Arc<AtomicU64>,
}

impl Source for Single {
    fn next(&mut self) -> Result<Option<Files>, ChainError> {
        let Some(path) = self.path.take() else { return Ok(None) };
        if let Some((number, Part::Chunk)) = parse_name(&self.name) {
            let files = read_chunk(path.parent().unwrap_or(Path::new("")), number)?;
            self.read.fetch_add(files.chunk.len() as u64, Relaxed);
            return Ok(Some(files));
        }
        let bytes = read_file(&path)?;
        self.read.fetch_add(bytes.len() as u64, Relaxed);
        // No block begins with two digits: those are not an array of two.
        let chunk = crate::hash::from_hex_bytes(bytes.trim_ascii()).filter(|block| !block.is_empty()).unwrap_or(bytes);
        Ok(Some(Files { name: path.display().to_string(), chunk, number: NO_CHUNK, single: true, ..Files::default() }))
    }
}
