//! Hashes of the Tezos context: pre-images, the seeded string hash, and the text of commit hashes. Sections 2
//! to 4 of the format's page.

use alloc::{string::String, vec::Vec};

use blake2b_simd::Params;
use smallvec::SmallVec;

use crate::{Oid, codec::write_varint};

/// The bytes of every id.
pub(super) const ID_BYTES: usize = 32;
/// What base58 texts of commit hashes begin with, before encoding: it makes them begin with `Co`.
const TEXT_PREFIX: [u8; 2] = [0x4f, 0xc7];

/// Returns the BLAKE2b digest of 32 bytes.
#[inline]
pub(super) fn blake2b(bytes: &[u8]) -> [u8; ID_BYTES] {
    let mut digest = [0; ID_BYTES];
    digest.copy_from_slice(Params::new().hash_length(ID_BYTES).hash(bytes).as_bytes());
    digest
}

/// Returns the id of a value.
pub(super) fn contents(value: &[u8]) -> [u8; ID_BYTES] {
    let mut preimage: SmallVec<[u8; 256]> = SmallVec::new();
    let length = (value.len() as u64).to_be_bytes();
    if value.len() + length.len() <= preimage.inline_size() {
        preimage.extend_from_slice(&length);
        preimage.extend_from_slice(value);
        return blake2b(&preimage);
    }
    let mut state = Params::new().hash_length(ID_BYTES).to_state();
    state.update(&length).update(value);
    let mut digest = [0; ID_BYTES];
    digest.copy_from_slice(state.finalize().as_bytes());
    digest
}

/// Appends what a flat directory's pre-image has for one entry.
#[inline]
pub(super) fn append_flat(out: &mut Vec<u8>, dir: bool, prefixed_name: &[u8], hash: &[u8; ID_BYTES]) {
    out.extend_from_slice(&[if dir { 0 } else { 0xff }, 0, 0, 0, 0, 0, 0, 0]);
    out.extend_from_slice(prefixed_name);
    out.extend_from_slice(&(ID_BYTES as u64).to_be_bytes());
    out.extend_from_slice(hash);
}

/// Appends what a leaf piece's pre-image has for one entry.
#[inline]
pub(super) fn append_piece(out: &mut Vec<u8>, dir: bool, prefixed_name: &[u8], hash: &[u8; ID_BYTES]) {
    out.extend_from_slice(prefixed_name);
    out.push(u8::from(!dir));
    out.extend_from_slice(hash);
}

/// Returns the hash of an inner piece, of whose buckets those in `bitmap` are not empty.
pub(super) fn inner(depth: u8, count: u64, bitmap: u64, hashes: &[u8]) -> [u8; ID_BYTES] {
    let mut preimage: SmallVec<[u8; 1100]> = SmallVec::new();
    preimage.push(1);
    write_varint(&mut preimage, u64::from(depth));
    write_varint(&mut preimage, count);
    write_varint(&mut preimage, u64::from(bitmap.count_ones()));
    let mut rest = bitmap;
    for hash in hashes.chunks_exact(ID_BYTES) {
        write_varint(&mut preimage, u64::from(rest.trailing_zeros()));
        rest &= rest.wrapping_sub(1);
        preimage.extend_from_slice(hash);
    }
    blake2b(&preimage)
}

/// Returns the OCaml runtime's hash of a string with a seed: MurmurHash3 of 32 bits with a tail of its own, of
/// which 30 bits are kept.
///
/// ```
/// use bristlecone_core::tezos::seeded_hash;
/// assert_eq!(seeded_hash(1, b"a") % 32, 23);
/// assert_eq!(seeded_hash(42, b"foo") % 32, 10);
/// ```
#[must_use]
#[inline]
pub fn seeded_hash(seed: u32, text: &[u8]) -> u32 {
    let mix = |hash: u32, word: u32| {
        let word = word.wrapping_mul(0xcc9e_2d51).rotate_left(15).wrapping_mul(0x1b87_3593);
        (hash ^ word).rotate_left(13).wrapping_mul(5).wrapping_add(0xe654_6b64)
    };
    let (words, tail) = text.as_chunks::<4>();
    let mut hash = words.iter().fold(seed, |hash, word| mix(hash, u32::from_le_bytes(*word)));
    if !tail.is_empty() {
        let word = tail.iter().rev().fold(0, |word, &byte| word << 8 | u32::from(byte));
        hash = mix(hash, word);
    }
    hash ^= text.len() as u32;
    hash ^= hash >> 16;
    hash = hash.wrapping_mul(0x85eb_ca6b);
    hash ^= hash >> 13;
    hash = hash.wrapping_mul(0xc2b2_ae35);
    hash ^= hash >> 16;
    hash & 0x3fff_ffff
}

/// Returns the text of a commit hash: base58 with a checksum, 52 characters that begin with `Co`.
///
/// ```
/// use bristlecone_core::{Oid, tezos::{commit_text, parse_commit_text}};
/// let oid: Oid = "3fdf8e76abec28f333dca1964e86404e455f5fc7838012558d9e43e23937ea88".parse()?;
/// assert_eq!(commit_text(&oid), "CoV8SQumiVU9saiu3FVNeDNewJaJH8yWdsGF3WLdsRr2P9S7MzCj");
/// assert_eq!(parse_commit_text("CoV8SQumiVU9saiu3FVNeDNewJaJH8yWdsGF3WLdsRr2P9S7MzCj".as_bytes()), Some(oid));
/// # Ok::<(), bristlecone_core::OidError>(())
/// ```
#[must_use]
pub fn commit_text(oid: &Oid) -> String {
    let mut bytes = [0; 2 + ID_BYTES];
    bytes[..2].copy_from_slice(&TEXT_PREFIX);
    bytes[2..].copy_from_slice(oid.padded());
    bs58::encode(bytes).with_check().into_string()
}

/// Returns the commit hash of a text, if it is one: of the right length and prefix, with a sound checksum.
#[must_use]
pub fn parse_commit_text(text: &[u8]) -> Option<Oid> {
    if text.len() != 52 {
        return None;
    }
    // Room for any 52 digits, so that a wrong text is refused by its prefix or checksum.
    let mut bytes = [0; 52];
    let length = bs58::decode(text).with_check(None).onto(&mut bytes).ok()?;
    let (prefix, digest) = bytes.get(..length)?.split_first_chunk::<2>()?;
    if *prefix != TEXT_PREFIX {
        return None;
    }
    Some(Oid::from_array(digest.try_into().ok()?))
}
