//! The commit object. Section 6 of the format's page.

use alloc::vec::Vec;

use super::{id, read_oid};
use crate::{
    Commit, FormatError, Kind, Location, ObjRef, Signature, Sink, Zone,
    codec::{ByteReader, DecodeError, write_prefixed, write_varint},
};

pub(super) const ID_BYTES: usize = 32;
pub(super) const BODY_BYTES_MAX: usize = u32::MAX as usize / 2;

/// Headers in order: key, value.
pub(super) type Headers = Vec<(Vec<u8>, Vec<u8>)>;

pub(super) fn put<K: Sink>(sink: &mut K, commit: &Commit, generation: u64) -> Result<ObjRef, FormatError> {
    let lost = |what| FormatError::Unsupported { format: "native", what };
    let mut body = Vec::with_capacity(128 + commit.message.len());
    let mut locations = Vec::with_capacity(1 + commit.parents.len());
    for at in commit.references() {
        if at.oid.as_bytes().len() != ID_BYTES {
            return Err(lost("an id that is not 32 bytes long"));
        }
        locations.push(at.at);
    }
    body.extend_from_slice(commit.tree.oid().as_bytes());
    write_varint(&mut body, commit.parents.len() as u64);
    commit.parents.iter().for_each(|parent| body.extend_from_slice(parent.oid().as_bytes()));
    write_signature(&mut body, &commit.author);
    if commit.committer == commit.author {
        body.push(0);
    } else {
        body.push(1);
        write_signature(&mut body, &commit.committer);
    }
    write_headers(&mut body, &commit.headers);
    write_prefixed(&mut body, &commit.message);
    if body.len() > BODY_BYTES_MAX {
        return Err(lost("a commit of more than 2 GiB"));
    }
    let oid = id::commit(&body);
    Ok(ObjRef::new(oid, sink.put(Kind::Commit, oid, &body, &locations, &[generation])))
}

pub(super) fn write_signature(out: &mut Vec<u8>, signature: &Signature) {
    write_prefixed(out, &signature.ident);
    out.extend_from_slice(&signature.seconds.to_le_bytes());
    write_prefixed(out, signature.zone.as_bytes());
}

pub(super) fn write_headers(out: &mut Vec<u8>, headers: &Headers) {
    write_varint(out, headers.len() as u64);
    for (key, value) in headers {
        write_prefixed(out, key);
        write_prefixed(out, value);
    }
}

pub(super) fn decode(body: &[u8], at: impl Fn(usize) -> Location) -> Result<Commit, DecodeError> {
    let mut reader = ByteReader::new(body);
    let tree = ObjRef::new(read_oid(&mut reader)?, at(0)).into();
    let count = reader.length()?;
    if count > body.len() / ID_BYTES {
        return Err(reader.error("it has more parents than bytes"));
    }
    let mut parents = Vec::with_capacity(count);
    for index in 0..count {
        parents.push(ObjRef::new(read_oid(&mut reader)?, at(index + 1)).into());
    }
    let author = read_signature(&mut reader)?;
    let committer = match reader.byte()? {
        0 => author.clone(),
        1 => {
            let committer = read_signature(&mut reader)?;
            if committer == author {
                return Err(reader.error("the committer is written though it is the author"));
            }
            committer
        }
        _ => return Err(reader.error("a flag is neither 0 nor 1")),
    };
    let headers = read_headers(&mut reader)?;
    let message = reader.prefixed()?.to_vec();
    if !reader.is_empty() {
        return Err(reader.error("there are bytes after the message"));
    }
    Ok(Commit { tree, parents, author, committer, headers, message })
}

pub(super) fn read_signature(reader: &mut ByteReader<'_>) -> Result<Signature, DecodeError> {
    let ident = reader.prefixed()?.to_vec();
    let seconds = i64::from_le_bytes(reader.array()?);
    Ok(Signature { ident, seconds, zone: Zone::from_bytes(reader.prefixed()?) })
}

pub(super) fn read_headers(reader: &mut ByteReader<'_>) -> Result<Headers, DecodeError> {
    let mut headers = Vec::new();
    for _ in 0..reader.length()? {
        let key = reader.prefixed()?.to_vec();
        headers.push((key, reader.prefixed()?.to_vec()));
    }
    Ok(headers)
}
