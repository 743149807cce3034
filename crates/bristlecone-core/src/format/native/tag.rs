//! The annotated tag. Section 7 of the format's page.

use alloc::vec::Vec;

use super::{
    commit::{BODY_BYTES_MAX, ID_BYTES, read_headers, read_signature, write_headers, write_signature},
    id, read_oid,
};
use crate::{
    FormatError, Kind, Location, ObjRef, Sink, Tag,
    codec::{ByteReader, DecodeError, write_prefixed},
};

pub(super) fn put<K: Sink>(sink: &mut K, tag: &Tag) -> Result<ObjRef, FormatError> {
    let lost = |what| FormatError::Unsupported { format: "native", what };
    if tag.target.oid.as_bytes().len() != ID_BYTES {
        return Err(lost("an id that is not 32 bytes long"));
    }
    let mut body = Vec::with_capacity(128 + tag.message.len());
    body.push(tag.kind as u8);
    body.extend_from_slice(tag.target.oid.as_bytes());
    write_prefixed(&mut body, &tag.name);
    match &tag.tagger {
        None => body.push(0),
        Some(tagger) => {
            body.push(1);
            write_signature(&mut body, tagger);
        }
    }
    write_headers(&mut body, &tag.headers);
    write_prefixed(&mut body, &tag.message);
    if body.len() > BODY_BYTES_MAX {
        return Err(lost("a tag of more than 2 GiB"));
    }
    let oid = id::tag(&body);
    Ok(ObjRef::new(oid, sink.put(Kind::Tag, oid, &body, &[tag.target.at], &[])))
}

pub(super) fn decode(body: &[u8], at: Location) -> Result<Tag, DecodeError> {
    let mut reader = ByteReader::new(body);
    let kind = Kind::from_u8(reader.byte()?).ok_or(reader.error("it names an object of an unknown kind"))?;
    let target = ObjRef::new(read_oid(&mut reader)?, at);
    let name = reader.prefixed()?.to_vec();
    let tagger = match reader.byte()? {
        0 => None,
        1 => Some(read_signature(&mut reader)?),
        _ => return Err(reader.error("a flag is neither 0 nor 1")),
    };
    let headers = read_headers(&mut reader)?;
    let message = reader.prefixed()?.to_vec();
    if !reader.is_empty() {
        return Err(reader.error("there are bytes after the message"));
    }
    Ok(Tag { target, kind, name, tagger, headers, message })
}
