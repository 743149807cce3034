//! Git's bytes of a tree: entries one after another, each a mode, a name and an id. Section 2 of the format's page.

use core::cmp::Ordering;

use smallvec::SmallVec;

use super::Algorithm;
use crate::{DecodeError, EntryKind, Mode, Oid};

/// The bits of a mode that say what an entry is.
const TYPE: u32 = 0o170_000;

/// One entry of a tree, as Git spells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RawEntry<'a> {
    /// The mode: 1 to 11 octal digits.
    pub mode: &'a [u8],
    /// The name, which is not empty.
    pub name: &'a [u8],
    /// The id, of as many bytes as those of the algorithm.
    pub oid: &'a [u8],
}

impl RawEntry<'_> {
    /// Returns what the entry is, as Git takes it, whatever else the mode says.
    #[must_use]
    #[inline]
    pub fn kind(&self) -> EntryKind {
        mode_kind(self.mode)
    }

    /// Returns how the kind is spelled, if not as usual.
    #[must_use]
    #[inline]
    pub fn spelling(&self) -> Mode {
        Mode::spelled(self.kind(), self.mode).unwrap_or_default()
    }

    /// Returns the id.
    #[must_use]
    #[inline]
    pub fn oid(&self) -> Oid {
        Oid::new(self.oid).expect("ids of algorithms have 20 or 32 bytes")
    }
}

/// Returns the kind that Git takes a mode for: a regular file (executable if its owner may execute it), a link, a
/// directory, and everything else for a submodule.
#[inline]
pub(super) fn mode_kind(digits: &[u8]) -> EntryKind {
    match digits {
        b"100644" => return EntryKind::Value,
        b"40000" => return EntryKind::Dir,
        _ => {}
    }
    let mode = digits.iter().fold(0_u32, |mode, &digit| mode << 3 | u32::from(digit & 7));
    match mode & TYPE {
        0o100_000 if mode & 0o100 != 0 => EntryKind::Executable,
        0o100_000 => EntryKind::Value,
        0o120_000 => EntryKind::Link,
        0o040_000 => EntryKind::Dir,
        _ => EntryKind::Foreign,
    }
}

/// The entries of a tree in Git's order. They end at the first bytes that are no entry.
#[derive(Clone, Debug)]
pub struct RawEntries<'a> {
    raw: &'a [u8],
    at: usize,
    oid_bytes: usize,
}

impl<'a> RawEntries<'a> {
    pub(super) const fn new(oid_bytes: usize, raw: &'a [u8]) -> Self {
        Self { raw, at: 0, oid_bytes }
    }

    /// Returns where the next entry begins, in bytes.
    #[must_use]
    pub const fn offset(&self) -> usize {
        self.at
    }

    fn entry(&mut self) -> Result<RawEntry<'a>, DecodeError> {
        let wrong = |reason| DecodeError { offset: self.at, reason };
        let rest = &self.raw[self.at..];
        let mode = mode_of(rest).ok_or(wrong("an entry does not begin with a mode in octal digits"))?;
        let named = &rest[mode.len() + 1..];
        let end = memchr::memchr(0, named).ok_or(wrong("a name does not end"))?;
        if end == 0 {
            return Err(wrong("a name is empty"));
        }
        let oid = named.get(end + 1..end + 1 + self.oid_bytes).ok_or(wrong("an id is cut short"))?;
        self.at += mode.len() + end + 2 + self.oid_bytes;
        Ok(RawEntry { mode, name: &named[..end], oid })
    }
}

impl<'a> Iterator for RawEntries<'a> {
    type Item = Result<RawEntry<'a>, DecodeError>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.at >= self.raw.len() {
            return None;
        }
        let entry = self.entry();
        if entry.is_err() {
            self.at = self.raw.len();
        }
        Some(entry)
    }
}

/// Returns the entries of the tree whose bytes, as Git has them, are `raw`.
///
/// Each entry is checked by itself: a mode of 1 to 11 octal digits, a name that is not empty, a whole id. Their
/// order is not; [`super::tree_body`] checks that.
#[must_use]
pub const fn raw_entries(algorithm: Algorithm, raw: &[u8]) -> RawEntries<'_> {
    RawEntries::new(algorithm.oid_bytes(), raw)
}

/// Returns what an entry that begins so is and how long its mode is, if that is spelled as usual.
#[inline(always)]
pub(super) fn usual(entry: &[u8]) -> Option<(EntryKind, usize)> {
    let &[a, b, c, d, e, f, g] = entry.first_chunk::<7>()?;
    if [a, b, c, d] == *b"4000" && [e, f] == *b"0 " {
        return Some((EntryKind::Dir, 5));
    }
    let kind = match &[a, b, c, d] {
        b"1006" if [e, f] == *b"44" => EntryKind::Value,
        b"1007" if [e, f] == *b"55" => EntryKind::Executable,
        b"1200" if [e, f] == *b"00" => EntryKind::Link,
        b"1600" if [e, f] == *b"00" => EntryKind::Foreign,
        _ => return None,
    };
    (g == b' ').then_some((kind, 6))
}

/// Returns the mode at the start of an entry, which a space ends.
#[inline]
pub(super) fn mode_of(entry: &[u8]) -> Option<&[u8]> {
    if let Some((_, bytes)) = usual(entry) {
        return Some(&entry[..bytes]);
    }
    let space = entry.iter().take(Mode::BYTES_MAX + 1).position(|&byte| byte == b' ')?;
    let mode = &entry[..space];
    (space > 0 && mode.iter().all(|digit| (b'0'..=b'7').contains(digit))).then_some(mode)
}

/// Compares entries in Git's order: by name, as if the names of directories ended in `/`. Of a file and a directory
/// of one name, which no tree holds together, the file is less.
#[inline]
pub(super) fn compare(one: &[u8], one_dir: bool, other: &[u8], other_dir: bool) -> Ordering {
    let common = one.len().min(other.len());
    // Names hold no zero byte: one that ends is less than one that goes on, unless it is a directory's.
    let next = |name: &[u8], dir: bool| name.get(common).copied().unwrap_or(if dir { b'/' } else { 0 });
    one[..common].cmp(&other[..common]).then_with(|| next(one, one_dir).cmp(&next(other, other_dir)))
}

/// Whether entries follow each other as Git wants them, without duplicates.
#[derive(Default)]
pub(super) struct NameOrder<'a> {
    previous: Option<(&'a [u8], bool)>,
    // Files, each the beginning of the next one's name, whose names a directory may still bear further on: `a` in
    // `a`, `a-`, `a-b`, `a/`.
    open: SmallVec<[&'a [u8]; 4]>,
}

impl<'a> NameOrder<'a> {
    /// Takes the next entry; the reason if it is out of place.
    #[inline]
    pub(super) fn next(&mut self, name: &'a [u8], dir: bool) -> Result<(), &'static str> {
        const TWICE: &str = "a name is there twice";
        if matches!(name, b"." | b"..") {
            return Err("a name is \".\" or \"..\"");
        }
        if memchr::memchr(b'/', name).is_some() {
            return Err("a name holds a slash");
        }
        if let Some((before, before_dir)) = self.previous.replace((name, dir)) {
            match compare(before, before_dir, name, dir) {
                Ordering::Less if before == name => return Err(TWICE),
                Ordering::Less => {}
                Ordering::Equal => return Err(TWICE),
                Ordering::Greater => return Err("its entries are not in Git's order"),
            }
            if !before_dir && goes_on(before, name) {
                self.open.push(before);
            }
        }
        while let Some(file) = self.open.last() {
            if *file == name {
                return Err(TWICE);
            }
            if goes_on(file, name) {
                break;
            }
            self.open.pop();
        }
        Ok(())
    }
}

/// Whether an entry of this name lies between the file `file` and the directory of the same name.
#[inline]
fn goes_on(file: &[u8], name: &[u8]) -> bool {
    name.len() > file.len() && name[file.len()] < b'/' && name.starts_with(file)
}
