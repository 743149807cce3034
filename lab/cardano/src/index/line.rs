//! Lines: the 64 bytes that records, buckets and headers have, and their checksum.

/// The bytes of a record, a bucket or a header: a cache line.
pub(super) type Line = [u8; LINE_BYTES];

/// How many bytes a line has.
pub(super) const LINE_BYTES: usize = 64;

/// Odd numbers without a pattern, one for each word of a line: words that change places change the sum.
const KEYS: [u64; 8] = [
    0x9E37_79B9_7F4A_7C15,
    0xC2B2_AE3D_27D4_EB4F,
    0x1656_67B1_9E37_79F9,
    0x85EB_CA77_C2B2_AE63,
    0xD6E8_FEB8_6659_FD93,
    0xA076_1D64_78BD_642F,
    0xE703_7ED1_A0B4_28DB,
    0x8EBC_6AF0_9C88_C6E3,
];

/// Returns a word of a line, counted from 0.
#[inline]
pub(super) fn word(line: &Line, index: usize) -> u64 {
    let (words, _) = line.as_chunks();
    u64::from_le_bytes(words[index])
}

/// Returns four bytes of a line as a number; `offset` in bytes.
#[inline]
pub(super) fn half(line: &Line, offset: usize) -> u32 {
    u32::from_le_bytes([line[offset], line[offset + 1], line[offset + 2], line[offset + 3]])
}

/// Writes bytes into a line.
#[inline]
pub(super) fn put(line: &mut Line, offset: usize, bytes: &[u8]) {
    line[offset..offset + bytes.len()].copy_from_slice(bytes);
}

/// Multiplies and folds the 128 bits of the product into 64.
#[inline]
pub(super) const fn fold(one: u64, other: u64) -> u64 {
    let product = one as u128 * other as u128;
    product as u64 ^ (product >> 64) as u64
}

/// Returns the sum of a line. `last` stands in the place of the last word, where the sum itself lies; `whose` is the
/// identity of the index and `number` the place of the line in it, so that a line is right in one place alone.
#[inline]
pub(super) fn sum(line: &Line, last: u64, whose: u64, number: u64) -> u64 {
    let keyed = |index: usize| word(line, index) ^ KEYS[index];
    fold(keyed(0), keyed(1)).wrapping_add(fold(keyed(2), keyed(3)).rotate_left(16))
        ^ fold(keyed(4), keyed(5)).wrapping_add(fold(keyed(6), last ^ KEYS[7]).rotate_left(32))
        ^ fold(whose ^ KEYS[0], number.wrapping_add(KEYS[7]))
}
