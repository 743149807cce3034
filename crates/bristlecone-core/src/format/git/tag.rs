//! Annotated tags: lines of headers, and a message. Section 5 of the format's page.

use alloc::vec::Vec;

use super::{
    Algorithm, kind_of, type_name,
    who::{self, HeaderLines},
};
use crate::{DecodeError, Kind, Location, ObjRef, Tag};

/// The headers that every tag has.
const OWN: [&[u8]; 4] = [b"object", b"type", b"tag", b"tagger"];

/// Returns the tag whose bytes, as Git has them, are `raw`, without locations. Lenient as
/// [`super::decode_commit`] is.
///
/// # Errors
/// [`DecodeError`] if the first three lines are not an object, its type and a name.
pub fn decode_tag(algorithm: Algorithm, raw: &[u8]) -> Result<Tag, DecodeError> {
    decode(algorithm, raw, Location::NONE)
}

pub(super) fn decode(algorithm: Algorithm, raw: &[u8], at: Location) -> Result<Tag, DecodeError> {
    let mut lines = HeaderLines::new(raw);
    let (target, kind) = target(algorithm, &mut lines, at)?;
    let error = lines.error("a tag has no name");
    let name = lines.after(b"tag ").ok_or(error)?.to_vec();
    let tagger = lines.after(b"tagger ").map(who::decode);
    let (headers, message) = lines.rest();
    Ok(Tag { target, kind, name, tagger, headers, message: message.to_vec() })
}

fn target(algorithm: Algorithm, lines: &mut HeaderLines<'_>, at: Location) -> Result<(ObjRef, Kind), DecodeError> {
    let error = lines.error("it does not begin with its object");
    let oid = lines.oid(b"object ", algorithm.oid_bytes())?.ok_or(error)?;
    let error = lines.error("the type of its object is none of Git's");
    let kind = lines.after(b"type ").and_then(kind_of).ok_or(error)?;
    Ok((ObjRef::new(oid, at), kind))
}

/// Appends the tag as Git has it. Nothing is checked: [`crate::Format::put_tag`] refuses what Git would.
pub fn encode_tag(tag: &Tag, out: &mut Vec<u8>) {
    who::write_oid(out, b"object ", &tag.target.oid);
    for (key, value) in [(&b"type "[..], type_name(tag.kind).unwrap_or_default().as_bytes()), (b"tag ", &tag.name)] {
        out.extend_from_slice(key);
        out.extend_from_slice(value);
        out.push(b'\n');
    }
    if let Some(tagger) = &tag.tagger {
        who::write(out, b"tagger ", tagger);
    }
    tag.headers.iter().for_each(|header| who::write_header(out, header));
    out.push(b'\n');
    out.extend_from_slice(&tag.message);
}

/// Whether [`encode_tag`] of [`decode_tag`] gives these bytes back.
#[must_use]
pub fn is_canonical_tag(algorithm: Algorithm, raw: &[u8]) -> bool {
    let Ok(tag) = decode_tag(algorithm, raw) else { return false };
    let mut encoded = Vec::new();
    encode_tag(&tag, &mut encoded);
    encoded == raw
}

/// Says what of a tag `git fsck --strict` would refuse, or would not come back.
pub(super) fn refused(algorithm: Algorithm, tag: &Tag) -> Option<&'static str> {
    if tag.target.oid.as_bytes().len() != algorithm.oid_bytes() {
        return Some("an id of another hash");
    }
    if type_name(tag.kind).is_none() {
        return Some("a tag of a piece of a value");
    }
    if tag.name.is_empty() || tag.name.iter().any(|byte| matches!(byte, b'\n' | 0)) {
        return Some("a tag whose name is empty or holds a line break or a zero byte");
    }
    tag.tagger.as_ref().and_then(who::refused).or_else(|| who::refused_headers(&tag.headers, &OWN))
}
