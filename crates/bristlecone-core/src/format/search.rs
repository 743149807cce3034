//! Searching short names: eight bytes at a time, without calls.

use core::cmp::Ordering;

/// The bits of the first eight bytes that a step of this length has.
#[inline(always)]
pub(super) const fn mask(length: u8) -> u64 {
    let bits = 4 * if length < 8 { length as u32 } else { 8 };
    !(u64::MAX >> bits >> bits)
}

/// Returns the place of the first `fingerprint` among the first `count` bytes of `table`, which starts with the fingerprints of a
/// leaf. What stands behind them may be anything.
///
/// No jump depends on the place, which no processor foresees: vectors compare as many bytes as a leaf has entries at most.
#[inline(always)]
pub(super) fn first_fingerprint(table: &[u8], count: usize, fingerprint: u8) -> Option<usize> {
    const BYTES: usize = 64;
    const PLACES: [u8; BYTES] = {
        let mut places = [0; BYTES];
        let mut place = 0;
        while place < BYTES {
            places[place] = place as u8;
            place += 1;
        }
        places
    };
    match table.first_chunk::<BYTES>() {
        // A few are found sooner by words.
        Some(window) if count > 8 && count <= BYTES => {
            let mut first = u8::MAX;
            for (&byte, &place) in window.iter().zip(&PLACES) {
                first = first.min(if byte == fingerprint { place } else { u8::MAX });
            }
            let first = usize::from(first);
            (first < count).then_some(first)
        }
        _ => next_fingerprint(table.get(..count)?, fingerprint, 0),
    }
}

/// Returns the place of the first `fingerprint` in `fingerprints` from `from` on. Eight at a time, without a call.
#[inline(always)]
pub(super) fn next_fingerprint(fingerprints: &[u8], fingerprint: u8, from: usize) -> Option<usize> {
    const ONES: u64 = 0x0101_0101_0101_0101;
    let pattern = u64::from(fingerprint) * ONES;
    let rest = fingerprints.get(from..)?;
    let mut at = from;
    let mut chunks = rest.chunks_exact(8);
    for chunk in &mut chunks {
        let word = u64::from_le_bytes(*chunk.first_chunk()?) ^ pattern;
        // The lowest zero byte of the word is marked; marks above it may be false.
        let marks = word.wrapping_sub(ONES) & !word & (ONES << 7);
        if marks != 0 {
            return Some(at + (marks.trailing_zeros() / 8) as usize);
        }
        at += 8;
    }
    chunks.remainder().iter().position(|&byte| byte == fingerprint).map(|offset| at + offset)
}

/// Returns the first eight bytes as an integer that orders as they do, padded with zeroes.
#[inline(always)]
pub(super) fn prefix(step: &[u8]) -> u64 {
    if let Some(first) = step.first_chunk::<8>() {
        return u64::from_be_bytes(*first);
    }
    let len = step.len();
    if let (Some(first), Some(last)) = (step.first_chunk::<4>(), step.last_chunk::<4>()) {
        // Bytes 4.. are the lowest bytes of the last four.
        let tail = u64::from(u32::from_be_bytes(*last)) << (8 * (8 - len)) & 0xffff_ffff;
        return u64::from(u32::from_be_bytes(*first)) << 32 | tail;
    }
    match *step {
        [one, two, three] => u64::from(u32::from_be_bytes([one, two, three, 0])) << 32,
        [one, two] => u64::from(u16::from_be_bytes([one, two])) << 48,
        [one] => u64::from(one) << 56,
        _ => 0,
    }
}

#[inline(always)]
pub(super) fn compare(one: &[u8], one_prefix: u64, other: &[u8], other_prefix: u64) -> Ordering {
    match one_prefix.cmp(&other_prefix) {
        Ordering::Equal if one.len() <= 8 && other.len() <= 8 => one.len().cmp(&other.len()),
        Ordering::Equal => one.cmp(other),
        decided => decided,
    }
}

/// Returns how many bytes precede the next `/`.
#[inline(always)]
pub(super) fn slash(path: &[u8]) -> usize {
    // Steps are short: a search by words would spend its time on starting.
    let near = path.len().min(8);
    match path[..near].iter().position(|&byte| byte == b'/') {
        Some(at) => at,
        None => near + memchr::memchr(b'/', &path[near..]).unwrap_or(path.len() - near),
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;

    #[test]
    fn the_first_fingerprint_is_found_in_tables_of_any_size_whatever_follows() {
        for count in 0..=80 {
            for behind in [0, 1, 60, 100] {
                let table: Vec<u8> = (0..count + behind).map(|n| (n * n % 31) as u8).collect();
                for fingerprint in 0..32 {
                    let wanted = table[..count].iter().position(|&byte| byte == fingerprint);
                    assert_eq!(
                        first_fingerprint(&table, count, fingerprint),
                        wanted,
                        "{count} + {behind}: {fingerprint}"
                    );
                    let next = wanted.and_then(|at| next_fingerprint(&table[..count], fingerprint, at + 1));
                    let wanted = table[..count].iter().enumerate().filter(|(_, byte)| **byte == fingerprint).nth(1);
                    assert_eq!(next, wanted.map(|(at, _)| at), "{count} + {behind}: {fingerprint}");
                }
            }
        }
    }
}
