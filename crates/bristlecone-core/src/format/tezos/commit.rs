//! The commit object: stored as it is hashed. Section 2 of the format's page.

use alloc::vec::Vec;

use super::{
    id::{self, ID_BYTES},
    unsupported,
};
use crate::{
    Commit, CommitId, FormatError, Kind, Location, ObjRef, Oid, Signature, Sink, Zone,
    codec::{ByteReader, DecodeError},
};

pub(super) fn put<K: Sink>(sink: &mut K, commit: &Commit, generation: u64) -> Result<ObjRef, FormatError> {
    if commit.author != commit.committer {
        return Err(unsupported("a committer who is not the author"));
    }
    if commit.author.zone != Zone::default() {
        return Err(unsupported("a time zone other than +0000"));
    }
    if !commit.headers.is_empty() {
        return Err(unsupported("further headers"));
    }
    if commit.message.len().saturating_add(commit.author.ident.len()) > u32::MAX as usize / 2 {
        return Err(unsupported("a commit of more than 2 GiB"));
    }
    // The hash takes parents in the order of their ids, so they are kept in it.
    let mut parents = commit.parents.clone();
    parents.sort_unstable();
    let mut body = Vec::with_capacity(128 + ID_BYTES * parents.len() + commit.message.len());
    let mut locations = Vec::with_capacity(1 + parents.len());
    let mut put_oid = |body: &mut Vec<u8>, at: ObjRef| {
        if at.oid.as_bytes().len() != ID_BYTES {
            return Err(unsupported("an id that is not 32 bytes long"));
        }
        put_bytes(body, at.oid.as_bytes());
        locations.push(at.at);
        Ok(())
    };
    put_oid(&mut body, commit.tree.into())?;
    body.extend_from_slice(&(parents.len() as u64).to_be_bytes());
    for parent in parents {
        put_oid(&mut body, parent.into())?;
    }
    body.extend_from_slice(&commit.author.seconds.to_be_bytes());
    put_bytes(&mut body, &commit.author.ident);
    put_bytes(&mut body, &commit.message);
    let oid = Oid::from_array(id::blake2b(&body));
    Ok(ObjRef::new(oid, sink.put(Kind::Commit, oid, &body, &locations, &[generation])))
}

fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend_from_slice(&(bytes.len() as u64).to_be_bytes());
    out.extend_from_slice(bytes);
}

pub(super) fn decode(body: &[u8], at: impl Fn(usize) -> Location) -> Result<Commit, DecodeError> {
    let mut reader = ByteReader::new(body);
    let tree = ObjRef::new(oid(&mut reader)?, at(0));
    let count = u64::from_be_bytes(reader.array()?);
    if count > (body.len() / ID_BYTES) as u64 {
        return Err(reader.error("it has more parents than bytes"));
    }
    let mut parents: Vec<CommitId> = Vec::with_capacity(count as usize);
    for index in 0..count as usize {
        let parent = CommitId::from(ObjRef::new(oid(&mut reader)?, at(index + 1)));
        if parents.last().is_some_and(|before| *before > parent) {
            return Err(reader.error("its parents are not in the order of their ids"));
        }
        parents.push(parent);
    }
    let seconds = i64::from_be_bytes(reader.array()?);
    let author = Signature::new(bytes(&mut reader)?, seconds);
    let message = bytes(&mut reader)?;
    if !reader.is_empty() {
        return Err(reader.error("a commit has stray bytes"));
    }
    Ok(Commit::new(tree.into(), parents, author, message))
}

fn bytes<'a>(reader: &mut ByteReader<'a>) -> Result<&'a [u8], DecodeError> {
    let length = u64::from_be_bytes(reader.array()?);
    let error = reader.error("a length goes beyond the end");
    reader.take(usize::try_from(length).map_err(|_| error)?)
}

fn oid(reader: &mut ByteReader<'_>) -> Result<Oid, DecodeError> {
    let error = reader.error("an id is not 32 bytes long");
    Ok(Oid::from_array(bytes(reader)?.try_into().map_err(|_| error)?))
}
