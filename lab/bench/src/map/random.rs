//! Keys and values: the same for every engine, made outside of what is timed.

/// A key: a number, big-endian, so that keys are in the order of numbers.
pub(crate) type Key = [u8; 4];

/// Returns the key of an entry.
pub(crate) fn key(number: u64) -> Key {
    u32::try_from(number).expect("maps of the bench have fewer than 2^32 entries").to_be_bytes()
}

/// Returns the first value of an entry: the start of the hash of its key, as Okra's own bench has it.
pub(super) fn first_value(key: Key) -> [u8; 8] {
    *blake3::hash(&key).as_bytes().first_chunk().expect("a hash has more than 8 bytes")
}

/// A stream of numbers, decided by its seed.
///
/// Source: Vigna, "SplitMix64".
#[derive(Clone, Debug)]
pub(super) struct Numbers(u64);

impl Numbers {
    pub(super) const fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(super) const fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ mixed >> 31
    }

    /// Returns a number below `bound`.
    pub(super) const fn below(&mut self, bound: u64) -> u64 {
        ((self.next() as u128 * bound as u128) >> 64) as u64
    }

    /// Returns `bytes` bytes that no compression makes shorter.
    pub(super) fn value(&mut self, bytes: usize) -> Vec<u8> {
        let mut value = Vec::with_capacity(bytes + 8);
        while value.len() < bytes {
            value.extend_from_slice(&self.next().to_le_bytes());
        }
        value.truncate(bytes);
        value
    }
}

/// Parts the words of a value: an odd number, by which no word's product is 0.
const ODD: u64 = 0x9E37_79B9_7F4A_7C15;

/// What is compared of entries that were read: a sum in which every key, every byte of a value and their order count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sum {
    pub(super) entries: u64,
    pub(super) total: u64,
}

impl Sum {
    /// Takes in the value of an entry that was found.
    #[inline]
    pub(crate) fn value(&mut self, value: &[u8]) {
        self.entries += 1;
        let (words, rest) = value.as_chunks();
        let start = rest.iter().fold(value.len() as u64, |sum, byte| sum << 8 | u64::from(*byte));
        let add = |sum: u64, word: &[u8; 8]| sum.wrapping_mul(ODD).wrapping_add(u64::from_le_bytes(*word));
        let weight = words.iter().fold(start, add);
        // So that two entries that hold each other's values have another sum.
        self.total = self.total.wrapping_mul(ODD).wrapping_add(weight);
    }

    /// Takes in an entry.
    #[inline]
    pub(super) fn entry(&mut self, key: &[u8], value: &[u8]) {
        self.value(value);
        let word = key.first_chunk().map_or(key.len() as u64, |chunk| u64::from(u32::from_be_bytes(*chunk)));
        self.total = self.total.wrapping_add(word.wrapping_mul(self.entries));
    }
}
