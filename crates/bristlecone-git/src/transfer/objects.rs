//! Where Git's objects come from: a repository, or a store whose format is Git's.

use bristlecone::{Backend, Kind, ObjRef, Oid, Result, core::git};

use crate::odb::Odb;

/// Objects by id, as Git has them.
pub(super) trait Objects: Sync {
    /// Replaces `out` by the bytes of an object and returns its kind; `None` if there is none.
    fn read(&self, oid: &Oid, out: &mut Vec<u8>) -> Result<Option<Kind>>;
}

impl Objects for Odb {
    fn read(&self, oid: &Oid, out: &mut Vec<u8>) -> Result<Option<Kind>> {
        Self::read(self, oid, out)
    }
}

/// The objects of a store of the format `git`.
#[derive(Debug)]
pub(super) struct StoreObjects<'b>(pub(super) &'b dyn Backend);

impl Objects for StoreObjects<'_> {
    fn read(&self, oid: &Oid, out: &mut Vec<u8>) -> Result<Option<Kind>> {
        let Some(object) = self.0.read(&ObjRef::from(*oid))? else { return Ok(None) };
        let raw = git::raw(object.kind(), object.body());
        let raw = raw.map_err(|source| bristlecone::Error::BadObject {
            oid: *oid,
            source: bristlecone::core::FormatError::Decode { kind: object.kind(), source },
        })?;
        out.clear();
        out.extend_from_slice(raw);
        Ok(Some(object.kind()))
    }
}

/// What a walk needs of a commit.
#[derive(Debug)]
pub(super) struct CommitHead {
    pub(super) tree: Oid,
    pub(super) parents: Vec<Oid>,
    /// The committer's seconds; 0 where none can be read.
    pub(super) seconds: i64,
}

impl CommitHead {
    /// Reads the first lines of a commit; `None` if they are none of a commit.
    pub(super) fn parse(width: usize, raw: &[u8]) -> Option<Self> {
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
pub(super) fn id_line(rest: &mut &[u8], word: &[u8], width: usize) -> Option<Oid> {
    let line = rest.strip_prefix(word)?;
    let (digits, after) = line.split_at_checked(width * 2)?;
    *rest = after.strip_prefix(b"\n")?;
    std::str::from_utf8(digits).ok()?.parse().ok()
}

/// Returns the seconds of the committer's line, which is looked for before the first empty line.
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
            (&"4b825dc642cb6eb9a060e54bf8d69288fbee4904"[..], 1, 17)
        );
        assert_eq!(CommitHead::parse(20, &raw[..46]).unwrap().seconds, 0);
        assert!(CommitHead::parse(20, &raw[..40]).is_none());
        assert!(CommitHead::parse(32, raw).is_none());
        assert!(CommitHead::parse(20, b"").is_none());
    }
}
