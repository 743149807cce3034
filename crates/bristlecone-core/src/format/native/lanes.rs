//! Many short inputs hashed side by side, in the lanes of vector instructions.
//!
//! Each digest is plain keyed BLAKE3 of its input; only the order of the work differs. The entry point of
//! the `blake3` crate for this is public but not promised, so the crate's version is bounded in the
//! workspace, and a test compares every digest with the plain hash (`docs/decisions/0002-commitment.md`).

use alloc::vec::Vec;

use blake3::{IncrementCounter, platform::Platform};
use smallvec::SmallVec;

pub(super) type Digests = SmallVec<[[u8; 32]; 24]>;

const BLOCK: usize = 64;
/// Inputs of more blocks are hashed one by one.
const BLOCKS_MAX: usize = 4;
/// As many lanes as the widest vectors have.
const LANES: usize = 16;
const CHUNK_START: u8 = 1;
const CHUNK_END: u8 = 2;
const ROOT: u8 = 8;
const KEYED: u8 = 16;

/// Hashes each input, padded with zeroes to a multiple of 64 bytes, at least 64.
pub(super) fn hash_padded(key: &[u8; 32], inputs: &[&[u8]], digests: &mut Digests) {
    let blocks = |input: &[u8]| input.len().div_ceil(BLOCK).max(1);
    let mut present = [false; BLOCKS_MAX + 1];
    for (input, digest) in inputs.iter().zip(digests.iter_mut()) {
        let count = blocks(input);
        if count <= BLOCKS_MAX {
            present[count] = true;
            continue;
        }
        let mut padded = Vec::with_capacity(count * BLOCK);
        padded.extend_from_slice(input);
        padded.resize(count * BLOCK, 0);
        *digest = *blake3::keyed_hash(key, &padded).as_bytes();
    }
    let of = |count: usize| (0..inputs.len()).filter(move |&index| blocks(inputs[index]) == count);
    if present[1] {
        run::<64>(key, inputs, of(1), digests);
    }
    if present[2] {
        run::<128>(key, inputs, of(2), digests);
    }
    if present[3] {
        run::<192>(key, inputs, of(3), digests);
    }
    if present[4] {
        run::<256>(key, inputs, of(4), digests);
    }
}

/// Hashes blocks of 64 bytes.
pub(super) fn hash_blocks(key: &[u8; 32], inputs: &[[u8; BLOCK]], digests: &mut Digests) {
    let lanes: SmallVec<[&[u8; BLOCK]; LANES]> = inputs.iter().collect();
    hash_many(key, &lanes, digests.as_flattened_mut());
}

fn run<const N: usize>(key: &[u8; 32], inputs: &[&[u8]], chosen: impl Iterator<Item = usize>, digests: &mut Digests) {
    let mut chosen = chosen.peekable();
    while chosen.peek().is_some() {
        let mut padded = [[0; N]; LANES];
        let mut places = [0; LANES];
        let mut count = 0;
        for index in chosen.by_ref().take(LANES) {
            padded[count][..inputs[index].len()].copy_from_slice(inputs[index]);
            places[count] = index;
            count += 1;
        }
        let lanes: SmallVec<[&[u8; N]; LANES]> = padded[..count].iter().collect();
        let mut out = [0; LANES * 32];
        hash_many(key, &lanes, &mut out[..count * 32]);
        for (digest, &index) in out.chunks_exact(32).zip(&places[..count]) {
            digests[index].copy_from_slice(digest);
        }
    }
}

fn hash_many<const N: usize>(key: &[u8; 32], inputs: &[&[u8; N]], out: &mut [u8]) {
    let mut words = [0; 8];
    for (word, bytes) in words.iter_mut().zip(key.chunks_exact(4)) {
        *word = u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
    }
    Platform::detect().hash_many(inputs, &words, 0, IncrementCounter::No, KEYED, CHUNK_START, CHUNK_END | ROOT, out);
}
