//! The primitive encodings, written. `docs/formats/trace.md` lists them.

use crate::scoped::Scoped;

/// Appends an unsigned LEB128 integer in its shortest form.
#[inline]
pub(crate) fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Appends the length of `bytes`, then the bytes.
#[inline]
pub(crate) fn put_string(out: &mut Vec<u8>, bytes: &[u8]) {
    put_varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// Appends a scope's tag.
#[inline]
pub(crate) fn put_scope(out: &mut Vec<u8>, keep: bool) {
    out.push(u8::from(keep));
}

/// Appends a hash with its scope.
#[inline]
pub(crate) fn put_scoped_hash(out: &mut Vec<u8>, hash: Scoped<&[u8]>) {
    put_scope(out, hash.keep);
    put_string(out, hash.value);
}
