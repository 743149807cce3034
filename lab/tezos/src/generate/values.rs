//! Values as the ledger writes them, and as long as real ones are.

use super::random::Random;

/// What members of a set are bound to.
pub(super) const INITED: &[u8] = b"inited";

/// Returns a natural number: 7 bits a byte, low bits first, the high bit set on every byte but the last.
pub(super) fn nat(mut number: u64) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(8);
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
    bytes
}

/// Returns the number that [`nat`] wrote; nothing is 0.
pub(super) fn number(nat: Option<&[u8]>) -> u64 {
    let bytes = nat.unwrap_or_default().iter().take(9).enumerate();
    bytes.fold(0, |number, (index, &byte)| number | u64::from(byte & 0x7f) << (7 * index))
}

/// Returns a roll's number as it is stored.
pub(super) fn roll(number: u32) -> [u8; 4] {
    number.to_be_bytes()
}

/// Returns the number that [`roll`] wrote.
pub(super) fn roll_number(bytes: &[u8]) -> Option<u32> {
    bytes.try_into().ok().map(u32::from_be_bytes)
}

/// How long values are: a weight, and the bounds in bytes.
type Lengths = [(u64, u64, u64); 4];

/// Values of big maps: 23.8, 69.4, 6.8 and 0.07 %.
const ENTRY: Lengths = [(2380, 1, 25), (6933, 34, 96), (680, 128, 310), (7, 512, 2700)];
/// Storage of contracts: 34, 26, 30 and 10 %.
const STORAGE: Lengths = [(34, 2, 31), (26, 32, 127), (30, 128, 400), (10, 512, 2700)];
/// Code of contracts: 80 % above 512 bytes, 4 kB in the mean.
const CODE: Lengths = [(0, 1, 2), (5, 60, 127), (15, 128, 511), (80, 512, 9600)];

pub(super) fn entry(random: &mut Random) -> Vec<u8> {
    drawn(random, &ENTRY)
}

pub(super) fn storage(random: &mut Random) -> Vec<u8> {
    drawn(random, &STORAGE)
}

pub(super) fn code(random: &mut Random) -> Vec<u8> {
    drawn(random, &CODE)
}

fn drawn(random: &mut Random, lengths: &Lengths) -> Vec<u8> {
    let (_, low, end) = lengths[random.weighted(&lengths.map(|(share, ..)| share))];
    let length = random.within(low, end);
    random.bytes(length as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_come_back() {
        for n in [0, 1, 127, 128, 16_383, 16_384, 1 << 40, (1 << 56) - 1] {
            assert_eq!(number(Some(&nat(n))), n);
        }
        assert_eq!((number(None), nat(0), nat(300)), (0, vec![0], vec![0xac, 2]));
        assert_eq!(roll_number(&roll(70_000)), Some(70_000));
    }
}
