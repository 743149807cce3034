//! Patterns of paths that are left out: `.gitignore` and its like.
//!
//! One [`Patterns`] is one file of them. Which files count, and in which order, the caller that walks the folders
//! decides. What is below an ignored folder is ignored, too, whatever a pattern says of it, so the caller does not ask
//! for that.
//!
//! Source: Git's documentation, `gitignore`.

use std::{
    fs::OpenOptions,
    io::{self, Read},
    os::unix::fs::OpenOptionsExt,
    path::Path,
};

use rustix::{fs::OFlags, io::Errno};

use super::glob::Glob;

/// The longest file of patterns that counts. Git passes over longer ones, too.
const FILE_BYTES_MAX: u64 = 100 << 20;

/// The patterns of one file, or of one place where they are given.
#[derive(Debug)]
pub struct Patterns {
    // The folder of the file, with a slash at its end; empty for the top.
    folder: Vec<u8>,
    fold: bool,
    patterns: Vec<Pattern>,
}

#[derive(Debug)]
struct Pattern {
    glob: Glob,
    // Whether it is for the path from the folder on, and not for the last step alone.
    whole: bool,
    folders_alone: bool,
    // Whether it includes again what an earlier pattern ignored.
    negated: bool,
}

impl Patterns {
    /// No patterns, for paths below `folder`, which ends with a slash unless it is the top. With `fold`, capital
    /// letters count as small ones.
    #[must_use]
    pub fn new(folder: &[u8], fold: bool) -> Self {
        Self { folder: folder.to_vec(), fold, patterns: Vec::new() }
    }

    /// Adds the patterns of a file.
    #[must_use]
    pub fn with_lines(mut self, bytes: &[u8]) -> Self {
        let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
        for line in bytes.split(|&byte| byte == b'\n') {
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            if !line.starts_with(b"#") {
                self.add(without_blanks_behind(line));
            }
        }
        self
    }

    /// Adds one pattern.
    pub fn add(&mut self, pattern: &[u8]) {
        let (negated, pattern) = match pattern.strip_prefix(b"!") {
            Some(rest) => (true, rest),
            None => (false, pattern),
        };
        let (folders_alone, pattern) = match pattern.strip_suffix(b"/") {
            Some(rest) => (true, rest),
            None => (false, pattern),
        };
        if pattern.is_empty() {
            return;
        }
        let whole = pattern.contains(&b'/');
        let glob = Glob::of_path(pattern.strip_prefix(b"/").unwrap_or(pattern), self.fold);
        self.patterns.push(Pattern { glob, whole, folders_alone, negated });
    }

    /// Whether there are no patterns.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.patterns.is_empty()
    }

    /// Whether the path is ignored; `None` if no pattern is for it. The last one that is decides.
    ///
    /// `path` is from the top on, as the folder is.
    #[must_use]
    pub fn ignores(&self, path: &[u8], is_folder: bool) -> Option<bool> {
        let path = path.strip_prefix(&self.folder[..])?;
        let last = path.rsplit(|&byte| byte == b'/').next().unwrap_or(path);
        let decides = |pattern: &&Pattern| {
            (is_folder || !pattern.folders_alone) && pattern.glob.matches(if pattern.whole { path } else { last })
        };
        self.patterns.iter().rev().find(decides).map(|pattern| !pattern.negated)
    }
}

/// Returns a line without the blanks at its end that no backslash stands before.
fn without_blanks_behind(line: &[u8]) -> &[u8] {
    let (mut end, mut at) = (0, 0);
    while at < line.len() {
        let escaped = line[at] == b'\\';
        at += if escaped { 2 } else { 1 };
        if escaped || line[at - 1] != b' ' {
            end = at;
        }
    }
    &line[..end.min(line.len())]
}

/// Reads a file of patterns in a working tree; `None` if none is there. A link counts for none, since Git follows none, and so does
/// what has a name that is too long for the system.
///
/// # Errors
/// Those of the system, where the file is there.
pub fn read(file: &Path) -> io::Result<Option<Vec<u8>>> {
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let opened = OpenOptions::new().read(true).custom_flags(flags.bits().cast_signed()).open(file);
    let file = match opened {
        Ok(file) => file,
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            return Ok(None);
        }
        Err(error) => {
            let none = [Errno::LOOP, Errno::NAMETOOLONG].map(|none| Some(none.raw_os_error()));
            return if none.contains(&error.raw_os_error()) { Ok(None) } else { Err(error) };
        }
    };
    let found = file.metadata()?;
    if !found.is_file() || found.len() > FILE_BYTES_MAX {
        return Ok(None);
    }
    let mut bytes = Vec::new();
    file.take(FILE_BYTES_MAX).read_to_end(&mut bytes)?;
    Ok(Some(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_pattern_decides() {
        let all =
            Patterns::new(b"", false).with_lines(b"\xef\xbb\xbf# no pattern\n*.o\r\n!keep.o\nbuild/\n/top\na/b\n");
        for (path, is_folder, wanted) in [
            ("x.o", false, Some(true)),
            ("d/x.o", false, Some(true)),
            ("d/keep.o", false, Some(false)),
            ("d/build", true, Some(true)),
            ("d/build", false, None),
            ("top", false, Some(true)),
            ("d/top", false, None),
            ("a/b", false, Some(true)),
            ("d/a/b", false, None),
            ("# no pattern", false, None),
        ] {
            assert_eq!(all.ignores(path.as_bytes(), is_folder), wanted, "{path}");
        }
        let below = Patterns::new(b"d/", false).with_lines(b"/a");
        assert_eq!(below.ignores(b"d/a", false), Some(true));
        assert_eq!((below.ignores(b"a", false), below.ignores(b"d/d/a", false)), (None, None));
    }

    #[test]
    fn blanks_and_signs_may_be_escaped() {
        let all = Patterns::new(b"", false).with_lines(b"a  \nb\\ \n\\!c\n\\#d\ne\\\n/\n!\n");
        for path in ["a", "b ", "!c", "#d"] {
            assert_eq!(all.ignores(path.as_bytes(), false), Some(true), "{path}");
        }
        for path in ["a  ", "b", "e", "e\\", "/", "c"] {
            assert_eq!(all.ignores(path.as_bytes(), false), None, "{path}");
        }
    }
}
