//! Recordings of reads: fio's iolog, version 2 or 3, read line by line.
//!
//! A recording is text: `fio version 2 iolog`, then lines `FILE add`, `FILE open`, `FILE close` and
//! `FILE read OFFSET LENGTH`, with absolute names and bytes; in version 3 each line begins with a time, which is
//! not kept. Whoever wrote it is not trusted: lines, names, files and reads have bounds, and every read must
//! lie in its file, which must be a plain one.
//!
//! Source: fio, HOWTO, "Trace file format v2", "v3".

use std::{
    collections::HashMap,
    fs::{self, File},
    io::{BufRead, BufReader, Read as _, Seek},
    path::{Path, PathBuf},
};

use super::{pattern::Read, size::READ_BYTES_MAX};
use crate::{BenchError, error::Result};

/// The first line of what we write.
pub(crate) const VERSION_2: &str = "fio version 2 iolog";
const VERSION_3: &str = "fio version 3 iolog";
/// The longest line, in bytes: a name and two numbers.
const LINE_BYTES_MAX: usize = 4400;
/// The most files of a recording.
const FILES_MAX: usize = 1 << 16;

/// Whether a file begins as a recording does.
pub(crate) fn is_recording(file: &Path) -> Result<bool> {
    let mut start = [0; 12];
    let mut opened = File::open(file).map_err(BenchError::io(file))?;
    let complete = opened.read_exact(&mut start);
    Ok(complete.is_ok() && &start == b"fio version ")
}

/// What a whole recording asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Summary {
    pub(crate) files: Vec<PathBuf>,
    pub(crate) reads: u64,
    pub(crate) bytes: u64,
    pub(crate) bytes_min: u64,
    pub(crate) bytes_max: u64,
}

/// A recording that is read from the start to the end, again and again.
#[derive(Debug)]
pub(crate) struct Recording {
    name: PathBuf,
    from: BufReader<File>,
    timed: bool,
    line: Vec<u8>,
    number: u64,
    files: HashMap<Vec<u8>, Known>,
    paths: Vec<PathBuf>,
    /// The file of the last read: it is mostly that of the next.
    last: (Vec<u8>, Known),
}

/// A file that a recording has named.
#[derive(Clone, Copy, Debug, Default)]
struct Known {
    index: u32,
    bytes: u64,
}

impl Recording {
    /// Opens a recording and reads its first line.
    ///
    /// # Errors
    /// [`BenchError::Usage`] if it is none; [`BenchError::Io`].
    pub(crate) fn open(name: &Path) -> Result<Self> {
        let from = BufReader::with_capacity(1 << 16, File::open(name).map_err(BenchError::io(name))?);
        let mut recording = Self {
            name: name.to_owned(),
            from,
            timed: false,
            line: Vec::new(),
            number: 0,
            files: HashMap::new(),
            paths: Vec::new(),
            last: (Vec::new(), Known::default()),
        };
        recording.restart()?;
        Ok(recording)
    }

    /// Goes back to the start. Files keep their indexes.
    pub(crate) fn restart(&mut self) -> Result<()> {
        self.from.rewind().map_err(BenchError::io(&self.name))?;
        self.number = 0;
        self.timed = match self.next_line()?.then(|| self.line.trim_ascii()) {
            Some(first) if first == VERSION_2.as_bytes() => false,
            Some(first) if first == VERSION_3.as_bytes() => true,
            _ => return Err(self.wrong(&format!("a recording begins with \"{VERSION_2}\", or version 3"))),
        };
        Ok(())
    }

    /// Reads everything, once.
    pub(crate) fn summary(mut self) -> Result<Summary> {
        let mut summary = Summary { files: Vec::new(), reads: 0, bytes: 0, bytes_min: u64::MAX, bytes_max: 0 };
        while let Some(read) = self.next()? {
            let bytes = u64::from(read.bytes);
            summary.reads += 1;
            summary.bytes += bytes;
            summary.bytes_min = summary.bytes_min.min(bytes);
            summary.bytes_max = summary.bytes_max.max(bytes);
        }
        if summary.reads == 0 {
            return Err(self.wrong("nothing is read"));
        }
        summary.files = self.paths;
        Ok(summary)
    }

    /// Returns the next read; `None` at the end.
    pub(crate) fn next(&mut self) -> Result<Option<Read>> {
        while self.next_line()? {
            let line = std::mem::take(&mut self.line);
            let read = self.parse(&line);
            self.line = line;
            match read {
                Ok(None) => {}
                Ok(read) => return Ok(read),
                Err(reason) => return Err(self.wrong(&reason)),
            }
        }
        Ok(None)
    }

    fn next_line(&mut self) -> Result<bool> {
        self.line.clear();
        let mut limited = (&mut self.from).take(LINE_BYTES_MAX as u64);
        limited.read_until(b'\n', &mut self.line).map_err(BenchError::io(&self.name))?;
        self.number += 1;
        if self.line.len() == LINE_BYTES_MAX {
            return Err(self.wrong(&format!("a line has at most {LINE_BYTES_MAX} bytes")));
        }
        Ok(!self.line.is_empty())
    }

    /// Returns the read that a line asks for, if it asks for one.
    fn parse(&mut self, line: &[u8]) -> Result<Option<Read>, String> {
        let mut words = line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
        if self.timed {
            words.next();
        }
        let Some(name) = words.next() else { return Ok(None) };
        let action = words.next().ok_or("a line has a file and an action")?;
        match action {
            b"read" => {
                let file = self.known(name)?;
                let offset = number(words.next(), "an offset")?;
                let bytes = number(words.next(), "a length")?;
                let end = offset.checked_add(bytes).filter(|end| *end <= file.bytes);
                if end.is_none() {
                    return Err(format!(
                        "the read of {bytes} bytes at {offset} ends beyond the file's {} bytes",
                        file.bytes
                    ));
                }
                if bytes == 0 || bytes > READ_BYTES_MAX {
                    return Err(format!("a read has 1 to {READ_BYTES_MAX} bytes, not {bytes}"));
                }
                Ok(Some(Read { offset, bytes: bytes as u32, file: file.index }))
            }
            b"add" => self.add(name).map(|()| None),
            // Times are not kept, and every file stays open.
            b"open" | b"close" | b"wait" => Ok(None),
            other => Err(format!("{:?} is not done: a recording for this bench has reads alone", lossy(other))),
        }
    }

    fn add(&mut self, name: &[u8]) -> Result<(), String> {
        if self.files.contains_key(name) {
            return Ok(());
        }
        if self.paths.len() == FILES_MAX {
            return Err(format!("a recording has at most {FILES_MAX} files"));
        }
        let path = PathBuf::from(std::str::from_utf8(name).map_err(|_| "the file's name is no UTF-8")?);
        let bytes = plain_file(&path)?;
        self.files.insert(name.to_owned(), Known { index: self.paths.len() as u32, bytes });
        self.paths.push(path);
        Ok(())
    }

    fn known(&mut self, name: &[u8]) -> Result<Known, String> {
        if self.last.0 != name {
            let known = self.files.get(name).ok_or_else(|| format!("{} was not added before", lossy(name)))?;
            self.last = (name.to_owned(), *known);
        }
        Ok(self.last.1)
    }

    fn wrong(&self, reason: &str) -> BenchError {
        BenchError::usage(format!("{}, line {}: {reason}", self.name.display(), self.number))
    }
}

/// Returns the length of a plain file; opening anything else might wait for ever.
fn plain_file(path: &Path) -> Result<u64, String> {
    let name = path.display();
    match fs::metadata(path) {
        Ok(metadata) if metadata.is_file() => Ok(metadata.len()),
        Ok(_) => Err(format!("{name} is no plain file")),
        Err(error) => Err(format!("{name}: {error}; the store that was recorded must still be there")),
    }
}

fn number(word: Option<&[u8]>, what: &str) -> Result<u64, String> {
    let parsed = word.and_then(|word| std::str::from_utf8(word).ok()).and_then(|word| word.parse().ok());
    parsed.ok_or_else(|| format!("{what} is missing or no number of bytes"))
}

fn lossy(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).chars().take(80).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recording(dir: &Path, text: impl AsRef<[u8]>) -> Result<Summary> {
        let file = dir.join("log");
        fs::write(&file, text).unwrap();
        Recording::open(&file)?.summary()
    }

    #[test]
    fn both_versions_are_read_again_and_again() {
        let dir = tempfile::tempdir().unwrap();
        let data = dir.path().join("data");
        fs::write(&data, [7; 1000]).unwrap();
        let name = data.display();
        let two = format!(
            "{VERSION_2}\n{name} add\n{name} open\n{name} read 10 20\nx wait 5 0\n{name} read 0 1000\n{name} close\n"
        );
        let three = format!("{VERSION_3}\n0 {name} add\n1 {name} open\n\n2 {name} read 10 20\n9 {name} read 0 1000");
        for text in [two, three] {
            let summary = recording(dir.path(), &text).unwrap();
            assert_eq!((summary.reads, summary.bytes, summary.bytes_min, summary.bytes_max), (2, 1020, 20, 1000));
            assert_eq!(summary.files, std::slice::from_ref(&data));
            let mut again = Recording::open(&dir.path().join("log")).unwrap();
            for _ in 0..2 {
                let mut reads = Vec::new();
                while let Some(read) = again.next().unwrap() {
                    reads.push(read);
                }
                let read = |offset, bytes| Read { offset, bytes, file: 0 };
                assert_eq!(reads, [read(10, 20), read(0, 1000)]);
                again.restart().unwrap();
            }
        }
    }

    #[test]
    fn hostile_recordings_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let data = dir.path().join("data");
        fs::write(&data, [7; 1000]).unwrap();
        let name = data.display().to_string();
        let add = format!("{VERSION_2}\n{name} add\n");
        let big = u64::MAX;
        for (text, reason) in [
            (String::new(), "begins with"),
            ("fio version 9 iolog\n".into(), "begins with"),
            (format!("{VERSION_2}\n"), "nothing is read"),
            (add.clone(), "nothing is read"),
            (format!("{VERSION_2}\n{name} read 0 1\n"), "line 2: "),
            (format!("{add}{name} read 0\n"), "a length is missing"),
            (format!("{add}{name} read -1 5\n"), "an offset"),
            (format!("{add}{name} read 0 0\n"), "1 to"),
            (format!("{add}{name} read 0 1001\n"), "line 3: the read of 1001 bytes at 0 ends beyond"),
            (format!("{add}{name} read {big} {big}\n"), "ends beyond"),
            (format!("{add}{name} write 0 1\n"), "\"write\" is not done"),
            (format!("{add}{name}\n"), "an action"),
            (format!("{VERSION_2}\n/dev/zero add\n"), "no plain file"),
            (format!("{VERSION_2}\n{} add\n", dir.path().display()), "no plain file"),
            (format!("{VERSION_2}\n{name}-gone add\n"), "must still be there"),
            (format!("{VERSION_2}\n{}\n", "x".repeat(100_000)), "at most"),
        ] {
            let error = recording(dir.path(), &text).unwrap_err();
            assert!(error.is_usage() && error.to_string().contains(reason), "{text:.60}: {error}");
        }
        assert!(recording(dir.path(), [VERSION_2.as_bytes(), b"\n\xff\xfe add\n"].concat()).is_err());
        assert!(recording(dir.path(), [0; 5000]).is_err());
    }
}
