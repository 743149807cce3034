//! `packed-refs`: many refs in one file, each where it has none of its own.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, OnceLock, PoisonError},
};

use bristlecone::{Error, Oid, Result, core::git::Algorithm, storage::Stat};

use super::{
    letters::FoldedNames,
    lock::{self, LockWait, RefLock},
    value::parse_hex,
};
use crate::repository::{error, files::Files};

/// The name of the file.
pub(crate) const PACKED_REFS: &str = "packed-refs";
/// Where its new bytes are until they take its name, here as in Git: whoever writes them holds the lock of the file.
const NEW: &str = "packed-refs.new";
/// What the file begins with when it is written here: ids of tags come with what they lead to, and names are in order.
const HEADER: &str = "# pack-refs with: peeled fully-peeled sorted \n";

/// One line: the id, and what it leads to if it is a tag's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PackedRef {
    pub(crate) oid: Oid,
    pub(crate) peeled: Option<Oid>,
}

/// The refs of the file by name.
#[derive(Debug, Default)]
pub(crate) struct PackedRefs {
    pub(crate) by_name: BTreeMap<String, PackedRef>,
    /// Whether every tag's line says what the tag leads to.
    pub(crate) fully_peeled: bool,
    /// Names of refs that are no text.
    pub(crate) unnamed: Vec<Vec<u8>>,
    // Made when it is first asked for.
    folded: OnceLock<FoldedNames>,
}

/// The file as it was read last; it is read again once its number, size or time differ.
#[derive(Debug, Default)]
pub(crate) struct PackedCache {
    last: Mutex<Option<(Stat, Arc<PackedRefs>)>>,
}

impl PackedCache {
    /// Returns the refs of the file as it is now.
    pub(crate) fn get(&self, files: &Files, algorithm: Algorithm) -> Result<Arc<PackedRefs>> {
        let Some(stat) = files.stat(PACKED_REFS)? else { return Ok(Arc::default()) };
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((known, refs)) = &*last
            && *known == stat
        {
            return Ok(refs.clone());
        }
        // Replaced between the two calls it is newer than its key, and so is read once more next time.
        let Some(bytes) = files.read(PACKED_REFS)? else { return Ok(Arc::default()) };
        let refs = PackedRefs::parse(&bytes, algorithm)
            .map_err(|(at, reason)| error::corrupt(files.describe(PACKED_REFS), at as u64, None, reason))?;
        let refs = Arc::new(refs);
        *last = Some((stat, refs.clone()));
        Ok(refs)
    }
}

impl PackedRefs {
    /// Reads the bytes of the file.
    ///
    /// # Errors
    /// Where and what is wrong.
    fn parse(bytes: &[u8], algorithm: Algorithm) -> Result<Self, (usize, &'static str)> {
        let digits = algorithm.oid_bytes() * 2;
        let mut refs = Self::default();
        // The name of the ref before; `Some(None)` for one whose name is no text.
        let mut last: Option<Option<String>> = None;
        let mut at = 0;
        for line in bytes.split_inclusive(|&byte| byte == b'\n') {
            let wrong = |reason| (at, reason);
            let text = line.strip_suffix(b"\n").ok_or(wrong("the last line has no end"))?;
            if let Some(traits) = text.strip_prefix(b"# pack-refs with:") {
                refs.fully_peeled = traits.split(|&byte| byte == b' ').any(|word| word == b"fully-peeled");
            } else if let Some(hex) = text.strip_prefix(b"^") {
                let peeled = parse_hex(hex).filter(|_| hex.len() == digits).ok_or(wrong("a tag leads to no id"))?;
                let name = last.take().ok_or(wrong("what a tag leads to stands behind no ref"))?;
                if let Some(found) = name.and_then(|name| refs.by_name.get_mut(&name)) {
                    found.peeled = Some(peeled);
                }
            } else if !text.starts_with(b"#") {
                let (hex, rest) = text.split_at_checked(digits).ok_or(wrong("a line is too short"))?;
                let oid = parse_hex(hex).ok_or(wrong("a line begins with no id"))?;
                let name = rest.strip_prefix(b" ").ok_or(wrong("no space follows an id"))?;
                // A name that is no text cannot be asked for here; the line stays as it is when others change.
                let named = str::from_utf8(name).ok().map(str::to_owned);
                match &named {
                    Some(name) => _ = refs.by_name.insert(name.clone(), PackedRef { oid, peeled: None }),
                    None => refs.unnamed.push(name.to_vec()),
                }
                last = Some(named);
            }
            at += line.len();
        }
        Ok(refs)
    }

    /// Returns a ref whose name differs from this one by the case of letters alone.
    pub(super) fn in_other_case(&self, name: &str) -> Option<&str> {
        self.folded().name_in_other_case(name)
    }

    /// Returns a ref in a folder whose name differs from that of a folder of this one by the case of letters alone.
    pub(super) fn folder_in_other_case(&self, name: &str) -> Option<&str> {
        self.first_from(self.folded().folder_in_other_case(name)?)
    }

    /// Returns a ref that has this name as a folder, or is a folder of this name's, but for the case of letters.
    pub(super) fn place_in_other_case(&self, name: &str) -> Option<&str> {
        self.first_from(self.folded().place_in_other_case(name)?)
    }

    /// Returns the ref of this name, or the first in this folder.
    fn first_from(&self, found: &str) -> Option<&str> {
        self.by_name.range(found.to_owned()..).next().map(|(other, _)| other.as_str())
    }

    fn folded(&self) -> &FoldedNames {
        self.folded.get_or_init(|| FoldedNames::of(self.by_name.keys()))
    }
}

/// Takes a ref out of the file, if it is there, and makes that durable: a line that came back after a power cut would
/// be an old value of a ref that was removed.
///
/// Returns the lock of the file, which the caller holds until the ref has no file of its own any more, as Git does it: a
/// Git that packs refs holds this lock alone while it reads their files, and would bring the ref back.
pub(crate) fn remove(files: &Files, wait: LockWait, name: &str) -> Result<RefLock> {
    let lock = RefLock::take(files, PACKED_REFS, wait)?;
    if let Some(bytes) = files.read(PACKED_REFS)?
        && let Some(rest) = without(&bytes, name)
    {
        replace(files, &rest)?;
    }
    Ok(lock)
}

/// Replaces the bytes of the file, durably. Its lock must be held.
fn replace(files: &Files, bytes: &[u8]) -> Result<()> {
    let renamed = files
        .write(NEW, bytes)
        .and_then(|file| files.sync_open(NEW, &*file))
        .and_then(|()| files.rename(NEW, PACKED_REFS));
    if renamed.is_err() {
        // A Git that finds the file writes no refs. What stays is removed by a later opening.
        let _ = files.remove(NEW);
    }
    renamed?;
    files.sync_dir("").map(drop)
}

/// Removes what a process of ours left that was killed while it changed the file. The lock of the store must be held.
///
/// New bytes that wait while no process holds the lock of the file are nobody's.
pub(crate) fn sweep(files: &Files) -> Result<()> {
    if files.stat(NEW)?.is_none() {
        return lock::remove_left(files, PACKED_REFS);
    }
    match RefLock::take(files, PACKED_REFS, LockWait { held_ms: 0 }) {
        Ok(lock) => {
            files.remove(NEW)?;
            lock.release()
        }
        Err(Error::Locked { .. }) => Ok(()),
        Err(error) => Err(error),
    }
}

/// Returns the bytes of the file without a ref; `None` if it is not there.
fn without(bytes: &[u8], name: &str) -> Option<Vec<u8>> {
    let mut rest = Vec::with_capacity(bytes.len());
    let mut found = false;
    let mut within = false;
    for line in bytes.split_inclusive(|&byte| byte == b'\n') {
        let text = line.strip_suffix(b"\n").unwrap_or(line);
        // The line of what a tag leads to goes with the tag's.
        within = if text.starts_with(b"^") {
            within
        } else {
            !text.starts_with(b"#") && text.split(|&byte| byte == b' ').nth(1) == Some(name.as_bytes())
        };
        found |= within;
        if !within {
            rest.extend_from_slice(line);
        }
    }
    found.then(|| if rest.is_empty() { HEADER.as_bytes().to_vec() } else { rest })
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: &str = "1111111111111111111111111111111111111111";
    const TWO: &str = "2222222222222222222222222222222222222222";

    #[test]
    fn lines_are_read_and_taken_out() {
        let text = format!("{HEADER}{ONE} refs/heads/a\n{ONE} refs/tags/t\n^{TWO}\n{TWO} refs/tags/u\n");
        let refs = PackedRefs::parse(text.as_bytes(), Algorithm::Sha1).unwrap();
        assert!(refs.fully_peeled);
        assert_eq!(refs.by_name.keys().collect::<Vec<_>>(), ["refs/heads/a", "refs/tags/t", "refs/tags/u"]);
        assert_eq!(refs.by_name["refs/tags/t"].peeled, Some(TWO.parse().unwrap()));
        assert_eq!(refs.by_name["refs/tags/u"].peeled, None);
        let rest = without(text.as_bytes(), "refs/tags/t").unwrap();
        assert_eq!(rest, format!("{HEADER}{ONE} refs/heads/a\n{TWO} refs/tags/u\n").as_bytes());
        assert!(without(text.as_bytes(), "refs/tags/none").is_none());
    }

    #[test]
    fn a_tag_whose_name_is_no_text_is_left_out_with_what_it_leads_to() {
        let tag = format!("{ONE} refs/tags/t\n^{TWO}\n");
        let others =
            [format!("{HEADER}{ONE} refs/heads/a\n{ONE} refs/tags/caf").as_bytes(), format!("\n^{TWO}\n").as_bytes()]
                .join(&0xe9);
        let text = [&others, tag.as_bytes()].concat();
        let refs = PackedRefs::parse(&text, Algorithm::Sha1).unwrap();
        assert_eq!(refs.by_name.keys().collect::<Vec<_>>(), ["refs/heads/a", "refs/tags/t"]);
        assert_eq!(refs.by_name["refs/heads/a"].peeled, None);
        assert_eq!(refs.by_name["refs/tags/t"].peeled, Some(TWO.parse().unwrap()));
        assert_eq!(refs.unnamed, [b"refs/tags/caf\xe9"]);
        assert_eq!(without(&text, "refs/tags/t").unwrap(), others);
    }

    #[test]
    fn damage_is_told() {
        let twice = format!("{ONE} refs/tags/t\n^{TWO}\n^{TWO}\n");
        for text in
            ["x\n", &format!("{ONE} refs/heads/a"), &format!("^{ONE}\n"), &format!("{ONE}\trefs/heads/a\n"), &twice]
        {
            assert!(PackedRefs::parse(text.as_bytes(), Algorithm::Sha1).is_err(), "{text:?}");
        }
    }
}
