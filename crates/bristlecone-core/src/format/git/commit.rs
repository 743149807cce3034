//! Commits: lines of headers, and a message. Section 4 of the format's page.

use alloc::vec::Vec;

use super::{
    Algorithm,
    who::{self, HeaderLines},
};
use crate::{Commit, DecodeError, Location, ObjRef, Signature, Zone};

/// The headers that every commit has.
const OWN: [&[u8]; 4] = [b"tree", b"parent", b"author", b"committer"];

/// Returns the commit whose bytes, as Git has them, are `raw`, without locations.
///
/// Old histories hold commits that Git would not make today, so this is lenient. A line of an author or committer
/// that does not end in seconds and a zone becomes the name, with the zone empty; one that is missing becomes a
/// signature of nothing. Whatever else is out of place is among the headers. [`is_canonical_commit`] tells whether
/// [`encode_commit`] gives the same bytes back.
///
/// # Errors
/// [`DecodeError`] if the first line does not name a tree, or an id is not one.
pub fn decode_commit(algorithm: Algorithm, raw: &[u8]) -> Result<Commit, DecodeError> {
    decode(algorithm, raw, |_| Location::NONE)
}

pub(super) fn decode(algorithm: Algorithm, raw: &[u8], at: impl Fn(usize) -> Location) -> Result<Commit, DecodeError> {
    let mut lines = HeaderLines::new(raw);
    let tree = tree(algorithm, &mut lines, at(0))?.into();
    let mut parents = Vec::new();
    while let Some(oid) = lines.oid(b"parent ", algorithm.oid_bytes())? {
        parents.push(ObjRef::new(oid, at(parents.len() + 1)).into());
    }
    let nobody = || Signature { ident: Vec::new(), seconds: 0, zone: Zone::from_bytes(b"") };
    let author = lines.after(b"author ").map_or_else(nobody, who::decode);
    let committer = lines.after(b"committer ").map_or_else(nobody, who::decode);
    let (headers, message) = lines.rest();
    Ok(Commit { tree, parents, author, committer, headers, message: message.to_vec() })
}

/// Returns the tree that the first line names.
pub(super) fn tree(algorithm: Algorithm, lines: &mut HeaderLines<'_>, at: Location) -> Result<ObjRef, DecodeError> {
    let error = lines.error("it does not begin with its tree");
    Ok(ObjRef::new(lines.oid(b"tree ", algorithm.oid_bytes())?.ok_or(error)?, at))
}

/// Appends the commit as Git has it. Nothing is checked: [`crate::Format::put_commit`] refuses what Git would.
pub fn encode_commit(commit: &Commit, out: &mut Vec<u8>) {
    out.reserve(256 + commit.parents.len() * 72 + commit.message.len());
    who::write_oid(out, b"tree ", &commit.tree.oid());
    for parent in &commit.parents {
        who::write_oid(out, b"parent ", &parent.oid());
    }
    who::write(out, b"author ", &commit.author);
    who::write(out, b"committer ", &commit.committer);
    commit.headers.iter().for_each(|header| who::write_header(out, header));
    out.push(b'\n');
    out.extend_from_slice(&commit.message);
}

/// Whether [`encode_commit`] of [`decode_commit`] gives these bytes back: so that another format may keep the
/// commit in parts, and its id in Git is not lost.
#[must_use]
pub fn is_canonical_commit(algorithm: Algorithm, raw: &[u8]) -> bool {
    let Ok(commit) = decode_commit(algorithm, raw) else { return false };
    let mut encoded = Vec::new();
    encode_commit(&commit, &mut encoded);
    encoded == raw
}

/// Says what of a commit `git fsck --strict` would refuse, or would not come back.
pub(super) fn refused(algorithm: Algorithm, commit: &Commit) -> Option<&'static str> {
    let mut oids = commit.references().map(|at| at.oid);
    if oids.any(|oid| oid.as_bytes().len() != algorithm.oid_bytes()) {
        return Some("an id of another hash");
    }
    if commit.message.contains(&0) {
        return Some("a message with a zero byte in it");
    }
    who::refused(&commit.author)
        .or_else(|| who::refused(&commit.committer))
        .or_else(|| who::refused_headers(&commit.headers, &OWN))
}
