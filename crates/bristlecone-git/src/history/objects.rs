//! Where Git's objects come from: a repository, or a store whose format is Git's.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
};

use bristlecone::{
    Backend, EntryKind, Error, Format, Kind, Location, ObjRef, Oid, Result, Snapshot,
    core::{
        FormatError,
        git::{self, Algorithm, Git},
    },
};

use crate::{
    history::{error::TransferError, ids::Ids},
    repository::odb::Odb,
};

/// Objects by id, as Git has them.
pub(crate) trait Objects: Sync {
    /// Replaces `out` by the bytes of an object and returns its kind; `None` if there is no such object.
    fn read(&self, oid: &Oid, out: &mut Vec<u8>) -> Result<Option<Kind>>;
}

impl Objects for Odb {
    fn read(&self, oid: &Oid, out: &mut Vec<u8>) -> Result<Option<Kind>> {
        Self::read(self, oid, out)
    }
}

/// Reads the tree without entries, which is there for Git also where nobody wrote it, and so in any store of its format.
fn unwritten(algorithm: Algorithm, oid: &Oid, out: &mut Vec<u8>) -> Option<Kind> {
    if *oid != algorithm.object_id(Kind::Node, b"") {
        return None;
    }
    out.clear();
    Some(Kind::Node)
}

/// The objects of a store of the format `git`.
///
/// Records tell where children are, and a walk that reads an object is likely to read those next: without these
/// locations each would be searched for by its id, in every segment of the store.
#[derive(Debug)]
pub(crate) struct StoreObjects {
    snapshot: Arc<dyn Snapshot>,
    hints: Mutex<Hints>,
}

/// Locations of objects, of which the older half is forgotten from time to time.
#[derive(Debug, Default)]
struct Hints {
    young: HashMap<Oid, Location>,
    old: HashMap<Oid, Location>,
}

/// Locations that are remembered, besides as many older ones.
const HINTS_MAX: usize = 1 << 16;

impl StoreObjects {
    pub(crate) fn new(backend: &dyn Backend) -> Self {
        Self { snapshot: backend.snapshot(&[]), hints: Mutex::default() }
    }
}

impl Hints {
    fn add(&mut self, oid: Oid, at: Location) {
        if self.young.len() == HINTS_MAX {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(oid, at);
    }

    fn get(&self, oid: &Oid) -> Location {
        self.young.get(oid).or_else(|| self.old.get(oid)).copied().unwrap_or(Location::NONE)
    }
}

impl Objects for StoreObjects {
    fn read(&self, oid: &Oid, out: &mut Vec<u8>) -> Result<Option<Kind>> {
        let mut hints = self.hints.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let algorithm = if oid.as_bytes().len() == 20 { Algorithm::Sha1 } else { Algorithm::Sha256 };
        let Some(object) = self.snapshot.read(&ObjRef::new(*oid, hints.get(oid)))? else {
            return Ok(unwritten(algorithm, oid, out));
        };
        let bad = |source| Error::BadObject { oid: *oid, source };
        let raw = git::raw(object.kind(), object.body());
        let raw = raw.map_err(|source| bad(FormatError::Decode { kind: object.kind(), source }))?;
        out.clear();
        out.extend_from_slice(raw);
        if object.children() > 0 {
            let mut index = 0;
            let format = Git::new(algorithm);
            format
                .children(object.kind(), object.body(), &mut |_, child| {
                    hints.add(child, object.child(index));
                    index += 1;
                })
                .map_err(bad)?;
        }
        Ok(Some(object.kind()))
    }
}

/// What a walk needs of a commit.
#[derive(Debug)]
pub(crate) struct CommitHead {
    pub(crate) tree: Oid,
    pub(crate) parents: Vec<Oid>,
    /// The committer's seconds; 0 where none can be read.
    pub(crate) seconds: i64,
}

impl CommitHead {
    /// Reads the first lines of a commit; `None` if they are not those of a commit.
    pub(crate) fn parse(width: usize, raw: &[u8]) -> Option<Self> {
        let mut rest = raw;
        let tree = id_line(&mut rest, b"tree ", width)?;
        let mut parents = Vec::new();
        while rest.starts_with(b"parent ") {
            parents.push(id_line(&mut rest, b"parent ", width)?);
        }
        Some(Self { tree, parents, seconds: committed(rest).unwrap_or(0) })
    }
}

/// Takes a line that is a word and an id.
pub(crate) fn id_line(rest: &mut &[u8], word: &[u8], width: usize) -> Option<Oid> {
    let line = rest.strip_prefix(word)?;
    let (digits, after) = line.split_at_checked(width * 2)?;
    *rest = after.strip_prefix(b"\n")?;
    std::str::from_utf8(digits).ok()?.parse().ok()
}

/// Returns the seconds of the committer's line, which stands before the first empty line.
fn committed(headers: &[u8]) -> Option<i64> {
    for line in headers.split(|&byte| byte == b'\n') {
        if line.is_empty() {
            return None;
        }
        if let Some(who) = line.strip_prefix(b"committer ") {
            let date = &who[who.iter().rposition(|&byte| byte == b'>')? + 1..];
            let digits = date.split(|&byte| byte == b' ').find(|word| !word.is_empty())?;
            return std::str::from_utf8(digits).ok()?.parse().ok();
        }
    }
    None
}

/// Reads an object that must be of this kind. What is wrong with it: `None` if it is missing.
pub(crate) fn read_as(
    objects: &impl Objects,
    oid: &Oid,
    kind: Kind,
    out: &mut Vec<u8>,
) -> Result<Result<(), Option<String>>, TransferError> {
    use bristlecone::Error;
    match objects.read(oid, out) {
        Ok(Some(found)) if found == kind => Ok(Ok(())),
        Ok(Some(found)) => {
            let name = |kind| bristlecone::core::git::type_name(kind).unwrap_or("object");
            Ok(Err(Some(format!("it is a {}, where a {} is expected", name(found), name(kind)))))
        }
        Ok(None) => Ok(Err(None)),
        Err(Error::Corrupt { file, offset, reason, .. }) => Ok(Err(Some(format!("{file}, byte {offset}: {reason}")))),
        Err(Error::BadObject { source, .. }) => Ok(Err(Some(source.to_string()))),
        Err(error) => Err(error.into()),
    }
}

/// Reads an object of any kind. What is wrong with it: `None` if it is missing.
pub(crate) fn read_any(
    objects: &impl Objects,
    oid: &Oid,
    out: &mut Vec<u8>,
) -> Result<Result<Kind, Option<String>>, TransferError> {
    use bristlecone::Error;
    match objects.read(oid, out) {
        Ok(Some(kind)) => Ok(Ok(kind)),
        Ok(None) => Ok(Err(None)),
        Err(Error::Corrupt { file, offset, reason, .. }) => Ok(Err(Some(format!("{file}, byte {offset}: {reason}")))),
        Err(Error::BadObject { source, .. }) => Ok(Err(Some(source.to_string()))),
        Err(error) => Err(error.into()),
    }
}

/// Returns what the first two lines of a tag name.
pub(crate) fn tag_target(algorithm: Algorithm, raw: &[u8]) -> Option<(Oid, Kind)> {
    let mut rest = raw;
    let oid = id_line(&mut rest, b"object ", algorithm.oid_bytes())?;
    let line = rest.strip_prefix(b"type ")?.split(|&byte| byte == b'\n').next()?;
    Some((oid, git::kind_of(line)?))
}

/// Notes a tree and all below it.
pub(crate) fn note_tree(
    objects: &impl Objects,
    algorithm: Algorithm,
    root: Oid,
    ids: &mut Ids,
) -> Result<(), TransferError> {
    let mut stack = vec![root];
    let mut raw = Vec::new();
    while let Some(tree) = stack.pop() {
        if ids.get(&tree)?.is_some() || objects.read(&tree, &mut raw).ok().flatten() != Some(Kind::Node) {
            continue;
        }
        ids.insert(&tree)?;
        for entry in git::raw_entries(algorithm, &raw).map_while(Result::ok) {
            match entry.kind() {
                EntryKind::Foreign => {}
                EntryKind::Dir => stack.push(entry.oid()),
                _ => {
                    let oid = entry.oid();
                    if ids.get(&oid)?.is_none() {
                        ids.insert(&oid)?;
                    }
                }
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_of_commits_are_read_as_far_as_they_go() {
        let raw = b"tree 4b825dc642cb6eb9a060e54bf8d69288fbee4904\n\
            parent 1111111111111111111111111111111111111111\n\
            author A <a@b> 5 +0000\ncommitter C <c@d> 17 -0100\n\ncommitter no > 9\n";
        let head = CommitHead::parse(20, raw).unwrap();
        assert_eq!(
            (head.tree.to_string().as_str(), head.parents.len(), head.seconds),
            ("4b825dc642cb6eb9a060e54bf8d69288fbee4904", 1, 17)
        );
        assert_eq!(CommitHead::parse(20, &raw[..46]).unwrap().seconds, 0);
        assert!(CommitHead::parse(20, &raw[..40]).is_none());
        assert!(CommitHead::parse(32, raw).is_none());
        assert!(CommitHead::parse(20, b"").is_none());
    }
}
