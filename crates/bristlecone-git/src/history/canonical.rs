//! Git's bytes of commits and tags that are kept in parts.

use bristlecone::{
    Commit, Format, Kind, Location, Oid, Signature, Sink, Tag,
    core::{FormatError, git::Git},
};

/// The header of a commit or tag that holds Git's bytes of it, where they would not come back from its parts. The
/// last of this name counts.
pub const RAW_HEADER: &[u8] = b"git-raw";

/// Whether Git takes a name otherwise than it is.
pub(crate) fn is_respelled(git: Git, who: &Signature) -> bool {
    git.signatures(who.clone(), who.clone()).0.ident != who.ident
}

/// Returns Git's id and bytes of a commit whose tree and parents have Git's ids. Who made it is written so that Git
/// accepts it.
pub(crate) fn commit_bytes(git: Git, mut commit: Commit) -> Result<(Oid, Vec<u8>), FormatError> {
    (commit.author, commit.committer) = git.signatures(commit.author, commit.committer);
    let mut capture = Capture::default();
    let at = git.put_commit(&mut capture, &commit, 0)?;
    Ok((at.oid, capture.body))
}

/// The same for a tag.
pub(crate) fn tag_bytes(git: Git, mut tag: Tag) -> Result<(Oid, Vec<u8>), FormatError> {
    if let Some(tagger) = tag.tagger.take() {
        tag.tagger = Some(git.signatures(tagger.clone(), tagger).0);
    }
    let mut capture = Capture::default();
    let at = git.put_tag(&mut capture, &tag)?;
    Ok((at.oid, capture.body))
}

/// Returns what an object of this kind is in Git: a value in pieces is a blob as others are.
pub(crate) const fn kind_in_git(kind: Kind) -> Kind {
    match kind {
        Kind::Pieces => Kind::Contents,
        kind => kind,
    }
}

/// Takes the header with Git's bytes out of others, if it is there.
pub(crate) fn take_raw(headers: &mut Vec<(Vec<u8>, Vec<u8>)>) -> Option<Vec<u8>> {
    match headers.last() {
        Some((key, _)) if key == RAW_HEADER => headers.pop().map(|(_, raw)| raw),
        _ => None,
    }
}

/// A sink that keeps the bytes of the last object.
#[derive(Default)]
struct Capture {
    body: Vec<u8>,
}

impl Sink for Capture {
    fn put(&mut self, _: Kind, _: Oid, body: &[u8], _: &[Location], _: &[u64]) -> Location {
        self.body = body.to_vec();
        Location::NONE
    }

    fn known(&self, _: &Oid) -> Option<Location> {
        None
    }
}
