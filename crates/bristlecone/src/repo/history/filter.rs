//! Bloom filters over paths.
//!
//! A filter holds 32-bit hashes of paths at 10 bits each and answers "no" or "maybe"; a wrong "maybe" comes up
//! about once in a hundred. No bits at all answer "no" to everything, one byte of ones "maybe".

use twox_hash::XxHash3_64;

const BITS_PER_PATH: usize = 10;
/// 7 = 10 ln 2, which makes wrong answers rarest.
const PROBES: u32 = 7;
/// The filter that says "maybe" to everything.
pub(super) const ALWAYS: &[u8] = &[0xff];

/// Returns the hash under which filters know a path: its steps joined by `/`.
pub(super) fn path_hash(path: &[u8]) -> u32 {
    XxHash3_64::oneshot(path) as u32
}

/// Returns the filter of these paths, each given once.
pub(super) fn build(hashes: &[u32]) -> Vec<u8> {
    let mut bits = vec![0; (hashes.len() * BITS_PER_PATH).div_ceil(8)];
    let count = bits.len() as u64 * 8;
    for &hash in hashes {
        for bit in probes(hash, count) {
            bits[bit / 8] |= 1 << (bit % 8);
        }
    }
    bits
}

/// Whether a filter may hold a path.
pub(super) fn may_hold(bits: &[u8], hash: u32) -> bool {
    !bits.is_empty() && probes(hash, bits.len() as u64 * 8).all(|bit| bits[bit / 8] >> (bit % 8) & 1 == 1)
}

/// Returns the bits, of `count`, that stand for a hash.
fn probes(hash: u32, count: u64) -> impl Iterator<Item = usize> {
    // The finaliser of SplitMix64 spreads the hash over two words.
    let mut word = u64::from(hash).wrapping_add(0x9e37_79b9_7f4a_7c15);
    word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^= word >> 31;
    let (start, stride) = (word as u32, (word >> 32) as u32 | 1);
    (0..PROBES).map(move |probe| {
        let place = start.wrapping_add(probe.wrapping_mul(stride));
        ((u64::from(place) * count) >> 32) as usize
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holds_what_was_put_in_and_little_else() {
        let hash = |n: u32| path_hash(format!("dir/{n}").as_bytes());
        for size in [1, 2, 10, 100, 5000] {
            let filter = build(&(0..size).map(hash).collect::<Vec<_>>());
            assert!((0..size).all(|n| may_hold(&filter, hash(n))));
            let wrong = (100_000..120_000).filter(|&n| may_hold(&filter, hash(n))).count();
            assert!(wrong < if size < 10 { 1500 } else { 300 }, "{wrong} of 20,000 at {size}");
        }
        assert!(!may_hold(&build(&[]), 7));
        assert!(may_hold(ALWAYS, 7));
    }
}
