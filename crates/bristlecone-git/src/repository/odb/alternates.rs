//! Alternates: other folders of objects that a repository borrows from.

use std::collections::HashSet;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bristlecone::Result;
use bristlecone::storage::{RealStorage, Storage};

use crate::repository::files::Files;

/// How many levels deep alternates of alternates are followed, by Git too.
const LEVELS_MAX: usize = 6;

/// The folders that a folder of objects borrows from.
pub(super) struct Alternates {
    /// Nearest first, each once.
    pub(super) found: Vec<Arc<dyn Storage>>,
    /// Those that are not there: what is missing then is named when it is looked for.
    pub(super) absent: Vec<PathBuf>,
}

/// Returns the folders that the folder of objects `objects` borrows from.
pub(super) fn of(objects: &Path) -> Result<Alternates> {
    let mut absent = Vec::new();
    let mut seen: HashSet<PathBuf> = objects.canonicalize().into_iter().collect();
    let mut found: Vec<Arc<dyn Storage>> = Vec::new();
    let mut level = vec![(objects.to_owned(), folder(objects))];
    for _ in 0..LEVELS_MAX {
        let mut next = Vec::new();
        for (dir, storage) in level {
            for named in listed(&dir, storage)? {
                // The system alone tells whether two paths are one folder.
                let Some(other) = named.canonicalize().ok().filter(|other| other.is_dir()) else {
                    absent.push(named);
                    continue;
                };
                if seen.insert(other.clone()) {
                    let storage = folder(&other);
                    found.push(storage.clone());
                    next.push((other, storage));
                }
            }
        }
        level = next;
    }
    Ok(Alternates { found, absent })
}

/// Returns the storage of a folder of objects.
fn folder(objects: &Path) -> Arc<dyn Storage> {
    Arc::new(RealStorage::new(objects).following_links())
}

/// Returns what `info/alternates` of a folder of objects lists.
fn listed(objects: &Path, storage: Arc<dyn Storage>) -> Result<Vec<PathBuf>> {
    let bytes = Files::new(storage).read("info/alternates")?.unwrap_or_default();
    let lines = bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty() && line[0] != b'#');
    Ok(lines.map(|line| objects.join(OsString::from_vec(unquote(line)))).collect())
}

/// Undoes the quotes around a path with odd bytes: `"a\tb\303\251"`.
fn unquote(line: &[u8]) -> Vec<u8> {
    let Some(inner) = line.strip_prefix(b"\"").and_then(|line| line.strip_suffix(b"\"")) else { return line.to_vec() };
    let mut out = Vec::with_capacity(inner.len());
    let mut rest = inner.iter().copied().peekable();
    while let Some(byte) = rest.next() {
        if byte != b'\\' {
            out.push(byte);
            continue;
        }
        match rest.next() {
            Some(b'a') => out.push(7),
            Some(b'b') => out.push(8),
            Some(b't') => out.push(b'\t'),
            Some(b'n') => out.push(b'\n'),
            Some(b'v') => out.push(11),
            Some(b'f') => out.push(12),
            Some(b'r') => out.push(b'\r'),
            Some(first @ b'0'..=b'7') => {
                let mut value = u32::from(first - b'0');
                for _ in 0..2 {
                    let Some(digit) = rest.next_if(|digit| (b'0'..=b'7').contains(digit)) else { break };
                    value = value << 3 | u32::from(digit - b'0');
                }
                out.push(value as u8);
            }
            Some(other) => out.push(other),
            None => {}
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_are_undone() {
        assert_eq!(unquote(b"/plain \\path"), b"/plain \\path");
        assert_eq!(unquote(br#""a\tb\303\251\"\\""#), "a\tbé\"\\".as_bytes());
        assert_eq!(unquote(b"\"open"), b"\"open");
    }
}
