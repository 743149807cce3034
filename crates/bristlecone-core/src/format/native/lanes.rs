//! Many short inputs hashed side by side, in the lanes of vector instructions.
//!
//! Each digest is plain keyed BLAKE3 of its input; only the order of the work differs. The entry point of
//! the `blake3` crate for this is public but not promised, so the crate's version is bounded in the
//! workspace, and a test compares every digest with the plain hash (`docs/decisions/0002-commitment.md`).

use alloc::vec::Vec;
use core::ops::Range;

use blake3::{
    IncrementCounter,
    platform::{self, Platform, words_from_le_bytes_32 as words},
};
use smallvec::SmallVec;

use crate::Oid;

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

/// The lengths of inputs of which several are hashed together: more than one block, and one chunk at most.
pub(super) const WHOLE_BYTES: Range<usize> = BLOCK + 1..1025;
/// Fewer inputs of one length in blocks are hashed one by one.
const WHOLE_MIN: usize = 3;

/// Hashes each input as it is, and adds the digests in the order of the inputs, whose lengths are within [`WHOLE_BYTES`].
pub(super) fn hash_whole(key: &[u8; 32], inputs: &[&[u8]], digests: &mut Vec<Oid>) {
    let first = digests.len();
    digests.resize(first + inputs.len(), Oid::from_array([0; 32]));
    let digests = &mut digests[first..];
    // Inputs by their full blocks before the last one, which may be shorter and is hashed by itself.
    let full = |index: usize| (inputs[index].len() - 1) / BLOCK;
    let mut order: SmallVec<[usize; 64]> = (0..inputs.len()).collect();
    order.sort_unstable_by_key(|&index| full(index));
    for alike in order.chunk_by(|&one, &other| full(one) == full(other)) {
        for places in alike.chunks(LANES) {
            if places.len() < WHOLE_MIN {
                for &place in places {
                    digests[place] = Oid::from_array(*blake3::keyed_hash(key, inputs[place]).as_bytes());
                }
                continue;
            }
            BEGIN_MANY[full(places[0]) - 1](key, inputs, places, digests);
        }
    }
}

type BeginMany = fn(&[u8; 32], &[&[u8]], &[usize], &mut [Oid]);

/// By the number of full blocks, less one.
const BEGIN_MANY: [BeginMany; 15] = [
    begin_many::<64>,
    begin_many::<128>,
    begin_many::<192>,
    begin_many::<256>,
    begin_many::<320>,
    begin_many::<384>,
    begin_many::<448>,
    begin_many::<512>,
    begin_many::<576>,
    begin_many::<640>,
    begin_many::<704>,
    begin_many::<768>,
    begin_many::<832>,
    begin_many::<896>,
    begin_many::<960>,
];

/// Hashes inputs with `N` bytes in full blocks: these side by side, and the last block of each by itself.
fn begin_many<const N: usize>(key: &[u8; 32], inputs: &[&[u8]], places: &[usize], digests: &mut [Oid]) {
    let here = Platform::detect();
    let starts: SmallVec<[&[u8; N]; LANES]> =
        places.iter().map(|&place| inputs[place].first_chunk().expect("so many bytes")).collect();
    let mut states = [0; LANES * 32];
    let states = &mut states[..places.len() * 32];
    here.hash_many(&starts, &words(key), 0, IncrementCounter::No, KEYED, CHUNK_START, 0, states);
    for (state, &place) in states.as_chunks().0.iter().zip(places) {
        let rest = &inputs[place][N..];
        let (mut block, mut state) = ([0; BLOCK], words(state));
        block[..rest.len()].copy_from_slice(rest);
        here.compress_in_place(&mut state, &block, rest.len() as u8, 0, KEYED | CHUNK_END | ROOT);
        digests[place] = Oid::from_array(platform::le_bytes_from_words_32(&state));
    }
}

fn hash_many<const N: usize>(key: &[u8; 32], inputs: &[&[u8; N]], out: &mut [u8]) {
    let (key, end) = (words(key), CHUNK_END | ROOT);
    Platform::detect().hash_many(inputs, &key, 0, IncrementCounter::No, KEYED, CHUNK_START, end, out);
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use super::*;

    #[test]
    fn whole_inputs_have_the_plain_hash_whatever_is_beside_them() {
        let key = &[7; 32];
        let bytes: Vec<u8> = (0..1024_u32).map(|n| (n * n / 7) as u8).collect();
        for count in [0, 1, 2, 3, 15, 16, 17, 50, 200] {
            for step in [0, 1, 7, 64, 389] {
                let length = |index: usize| 65 + index * step % 960;
                let inputs: Vec<&[u8]> =
                    (0..count).map(|index| &bytes[index % 5..][..length(index).min(1019)]).collect();
                let mut found = vec![Oid::from_array([1; 32])];
                hash_whole(key, &inputs, &mut found);
                let plain = inputs.iter().map(|input| Oid::from_array(*blake3::keyed_hash(key, input).as_bytes()));
                assert!(found[1..].iter().copied().eq(plain), "{count} inputs, step {step}");
            }
        }
        for length in WHOLE_BYTES {
            let inputs = [&bytes[..length]; 3];
            let mut found = Vec::new();
            hash_whole(key, &inputs, &mut found);
            assert_eq!(found, [Oid::from_array(*blake3::keyed_hash(key, inputs[0]).as_bytes()); 3], "{length}");
        }
    }
}
