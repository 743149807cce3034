//! The file `shallow`: the commits whose parents were never fetched, one id a line.

use std::collections::HashSet;

use bristlecone::{Oid, Result, core::git::Algorithm};

use super::files::Files;

/// The name of the file, below the common folder.
pub(crate) const SHALLOW_FILE: &str = "shallow";

/// What the file lists.
#[derive(Debug, Default)]
pub(crate) struct ShallowFile {
    /// The commits.
    pub(crate) commits: HashSet<Oid>,
    /// Where the first line begins, in bytes, that is not the id of a commit.
    pub(crate) damaged_at: Option<u64>,
}

impl ShallowFile {
    /// Reads the file; one that is absent lists nothing.
    ///
    /// # Errors
    /// Those of the system.
    pub(crate) fn read(files: &Files, algorithm: Algorithm) -> Result<Self> {
        Ok(Self::parse(&files.read(SHALLOW_FILE)?.unwrap_or_default(), algorithm))
    }

    fn parse(bytes: &[u8], algorithm: Algorithm) -> Self {
        let mut found = Self::default();
        let mut offset = 0;
        for line in bytes.split_inclusive(|&byte| byte == b'\n') {
            let text = str::from_utf8(line).unwrap_or_default().trim();
            match text.parse::<Oid>().ok().filter(|oid| oid.as_bytes().len() == algorithm.oid_bytes()) {
                Some(oid) => _ = found.commits.insert(oid),
                None => _ = found.damaged_at.get_or_insert(offset),
            }
            offset += line.len() as u64;
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commits_are_listed_and_the_first_line_that_is_none_is_told() {
        let (one, two) = ("1".repeat(40), "2".repeat(40));
        let read = |text: String| ShallowFile::parse(text.as_bytes(), Algorithm::Sha1);
        assert!(read(String::new()).commits.is_empty());
        let whole = read(format!("{one}\n{two}\n"));
        assert_eq!((whole.commits.len(), whole.damaged_at), (2, None));
        assert!(whole.commits.contains(&two.parse().unwrap()));
        let damaged = read(format!("{one}\r\n{}\nodd\n{two}", "3".repeat(64)));
        assert_eq!((damaged.commits.len(), damaged.damaged_at), (2, Some(42)));
    }
}
