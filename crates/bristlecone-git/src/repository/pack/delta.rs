//! Deltas: an object as copies from another one and bytes of its own.
//!
//! ```text
//! delta = size of the base, size of the result, instruction*
//! copy  = 1 o o o s s s s → which of 4 bytes of offset and 3 of size follow; size 0 is 65,536
//! own   = 0 n n n n n n n → n bytes follow, 1 to 127
//! ```
//!
//! Sizes are in groups of seven bits, lowest first.
//!
//! Source: Git's documentation, gitformat-pack.

use crate::repository::zlib;

mod create;

pub use create::{BaseIndex, create};

/// Returns the sizes of the base and of the result that a delta states, and where its instructions begin.
pub(crate) fn sizes(delta: &[u8]) -> Result<(u64, u64, usize), &'static str> {
    let mut at = 0;
    let mut next = || {
        let mut size = 0;
        let mut shift = 0;
        loop {
            let byte = *delta.get(at).ok_or("a delta is cut off")?;
            at += 1;
            if shift > 56 {
                return Err("a size in a delta is too large");
            }
            size |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(size);
            }
            shift += 7;
        }
    };
    let (base, result) = (next()?, next()?);
    Ok((base, result, at))
}

/// Appends to `out` what `delta` makes of `base`.
///
/// # Errors
/// What is wrong with the delta. `out` may then hold a part.
pub fn apply(base: &[u8], delta: &[u8], out: &mut Vec<u8>) -> Result<(), &'static str> {
    let (base_bytes, result_bytes, mut at) = sizes(delta)?;
    if base_bytes != base.len() as u64 {
        return Err("a delta is against an object of another size");
    }
    let begin = out.len();
    // An instruction makes at most 2^24 - 1 bytes of one; what is claimed beyond that is a lie.
    if result_bytes > zlib::OBJECT_BYTES_MAX && result_bytes <= delta.len() as u64 * 0xff_ffff {
        return Err(zlib::TOO_LARGE);
    }
    if result_bytes > delta.len() as u64 * 0xff_ffff {
        return Err("a delta claims more than it can make");
    }
    // A small delta may truly make much, but only of what there is: room for more than that is made as it comes.
    out.reserve(result_bytes.min((base.len() + delta.len()) as u64 * 2) as usize);
    let left = |out: &Vec<u8>| result_bytes - (out.len() - begin) as u64;
    while let Some(&code) = delta.get(at) {
        at += 1;
        if code & 0x80 != 0 {
            let (offset, size) = copy_range(code, delta, &mut at)?;
            let from = base.get(offset..offset + size).ok_or("a delta copies from beyond its base")?;
            if from.len() as u64 > left(out) {
                return Err("a delta makes more than it claims");
            }
            out.extend_from_slice(from);
        } else {
            let own = delta.get(at..at + usize::from(code)).ok_or("a delta is cut off")?;
            if own.is_empty() {
                return Err("a delta has an empty instruction");
            }
            if own.len() as u64 > left(out) {
                return Err("a delta makes more than it claims");
            }
            out.extend_from_slice(own);
            at += own.len();
        }
    }
    if left(out) == 0 { Ok(()) } else { Err("a delta makes less than it claims") }
}

/// Reads the offset and the size of a copy.
#[inline]
fn copy_range(code: u8, delta: &[u8], at: &mut usize) -> Result<(usize, usize), &'static str> {
    let mut word = 0_u64;
    for bit in 0..7 {
        if code & 1 << bit != 0 {
            word |= u64::from(*delta.get(*at).ok_or("a delta is cut off")?) << (8 * bit);
            *at += 1;
        }
    }
    let (offset, size) = ((word & 0xffff_ffff) as usize, (word >> 32) as usize);
    Ok((offset, if size == 0 { 0x1_0000 } else { size }))
}

#[cfg(test)]
mod tests;
