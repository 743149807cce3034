//! Finding a delta.
//!
//! Versions of an object mostly differ in one place, so what both begin and end with is found first, at the speed of a
//! comparison. If more than a little remains, the base is indexed by the hashes of its blocks, and the rest of the
//! target is looked up in it, at every byte as long as that finds something. A block has one place in the index:
//! a user who makes blocks collide gets a longer delta, not a slower search.

use std::sync::OnceLock;

/// The length of the blocks of a base that are indexed, in bytes. Shorter matches than this are not found.
const BLOCK_BYTES: usize = 16;
/// The most that one copy takes, as Git writes them.
const COPY_BYTES_MAX: usize = 0x1_0000;
/// The most bytes of its own that one instruction holds.
const OWN_BYTES_MAX: usize = 0x7f;
/// A target that differs from its base in no more than this in one place is not searched further.
const SHORT_BYTES: usize = 48;

/// After each `HOPELESS_BYTES` bytes without a match the steps of the search grow by two bytes, at most `HOPELESS_MAX`
/// times.
const HOPELESS_BYTES: usize = 2048;
const HOPELESS_MAX: usize = 4;

/// Returns a delta that makes `target` of `base`, if there is one that is worth it: shorter than half of `target`.
#[must_use]
pub fn create(base: &[u8], target: &[u8]) -> Option<Vec<u8>> {
    BaseIndex::new().create(base, target, target.len() / 2)
}

/// What is known of a base, for one delta after another against it. Nothing is made before it is needed.
#[derive(Debug, Default)]
pub struct BaseIndex(OnceLock<Blocks>);

impl BaseIndex {
    /// Returns the index of a base that is not known yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns a delta of at most `bytes_max` bytes that makes `target` of `base`, which must be the same each time.
    ///
    /// Bases and targets of 4 GiB and more have none.
    #[must_use]
    pub fn create(&self, base: &[u8], target: &[u8], bytes_max: usize) -> Option<Vec<u8>> {
        if base.len() > u32::MAX as usize || target.len() > u32::MAX as usize {
            return None;
        }
        let mut delta = Delta { out: Vec::with_capacity(bytes_max.min(256)), bytes_max };
        delta.size(base.len());
        delta.size(target.len());
        let front = common_front(base, target);
        let back = common_back(&base[front..], &target[front..]);
        let middle = front..target.len() - back;
        delta.copy(0, front)?;
        if middle.len() <= SHORT_BYTES {
            delta.own(&target[middle.clone()])?;
        } else {
            let blocks = self.0.get_or_init(|| Blocks::new(base));
            blocks.find(base, target, middle, &mut delta)?;
        }
        delta.copy(base.len() - back, back)?;
        Some(delta.out)
    }

    /// Returns how many bytes of memory the index takes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.0.get().map_or(0, |blocks| blocks.places.len() * 4)
    }
}

/// Places of the blocks of a base, by hash.
#[derive(Debug)]
struct Blocks {
    /// For each hash, one more than the number of a block that has it; 0 for none.
    places: Vec<u32>,
    shift: u32,
}

impl Blocks {
    fn new(base: &[u8]) -> Self {
        let count = base.len() / BLOCK_BYTES;
        let bits = (count * 2).max(16).next_power_of_two().trailing_zeros();
        let mut blocks = Self { places: vec![0; 1 << bits], shift: 64 - bits };
        // Backwards, so that the first of equal blocks stays: what follows it is longest.
        for (n, block) in base.chunks_exact(BLOCK_BYTES).enumerate().rev() {
            let slot = blocks.slot(block);
            blocks.places[slot] = n as u32 + 1;
        }
        blocks
    }

    /// Returns the slot of the block at the front of `bytes`.
    #[inline]
    fn slot(&self, bytes: &[u8]) -> usize {
        let word = |at| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
        let hash = word(0).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ word(8).wrapping_mul(0xc2b2_ae3d_27d4_eb4f);
        ((hash ^ hash >> 29).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> self.shift) as usize
    }

    /// Adds what makes `target[middle]`.
    fn find(&self, base: &[u8], target: &[u8], middle: std::ops::Range<usize>, delta: &mut Delta) -> Option<()> {
        let mut at = middle.start;
        // From here on nothing is written yet.
        let mut own = at;
        while at + BLOCK_BYTES <= middle.end {
            let place = self.places[self.slot(&target[at..])];
            let from = (place as usize).wrapping_sub(1).wrapping_mul(BLOCK_BYTES);
            if place == 0 || base[from..from + BLOCK_BYTES] != target[at..at + BLOCK_BYTES] {
                // The longer nothing is found, the longer the steps. Odd ones meet every block of a longer match in the
                // end, whose front is found backwards then.
                at += 1 + 2 * ((at - own) / HOPELESS_BYTES).min(HOPELESS_MAX);
                // Sooner or later there is too much for a delta; then the sooner the better.
                if at - own > delta.room() {
                    return None;
                }
                continue;
            }
            let before = common_back(&base[..from], &target[own..at]);
            let after = common_front(&base[from..], &target[at..middle.end]);
            delta.own(&target[own..at - before])?;
            delta.copy(from - before, before + after)?;
            at += after;
            own = at;
        }
        delta.own(&target[own..middle.end])
    }
}

/// A delta in the making.
struct Delta {
    out: Vec<u8>,
    bytes_max: usize,
}

impl Delta {
    /// Returns how much more fits.
    fn room(&self) -> usize {
        self.bytes_max.saturating_sub(self.out.len())
    }

    fn size(&mut self, mut size: usize) {
        while size >= 0x80 {
            self.out.push(size as u8 | 0x80);
            size >>= 7;
        }
        self.out.push(size as u8);
    }

    fn copy(&mut self, mut from: usize, mut bytes: usize) -> Option<()> {
        while bytes > 0 {
            let now = bytes.min(COPY_BYTES_MAX);
            let code = self.out.len();
            self.out.push(0x80);
            let size = if now == COPY_BYTES_MAX { 0 } else { now };
            let word = from as u64 | (size as u64) << 32;
            for bit in 0..7 {
                let byte = (word >> (8 * bit)) as u8;
                if byte != 0 {
                    self.out[code] |= 1 << bit;
                    self.out.push(byte);
                }
            }
            from += now;
            bytes -= now;
        }
        (self.out.len() <= self.bytes_max).then_some(())
    }

    fn own(&mut self, bytes: &[u8]) -> Option<()> {
        if bytes.len() > self.room() {
            return None;
        }
        for part in bytes.chunks(OWN_BYTES_MAX) {
            self.out.push(part.len() as u8);
            self.out.extend_from_slice(part);
        }
        (self.out.len() <= self.bytes_max).then_some(())
    }
}

/// How many bytes are compared at a time.
const STRIDE: usize = 64;

/// Returns how many bytes both begin with.
fn common_front(one: &[u8], other: &[u8]) -> usize {
    let len = one.len().min(other.len());
    let mut at = 0;
    while at + STRIDE <= len && one[at..at + STRIDE] == other[at..at + STRIDE] {
        at += STRIDE;
    }
    while at < len && one[at] == other[at] {
        at += 1;
    }
    at
}

/// Returns how many bytes both end with.
fn common_back(one: &[u8], other: &[u8]) -> usize {
    let len = one.len().min(other.len());
    let (one, other) = (&one[one.len() - len..], &other[other.len() - len..]);
    let mut at = len;
    while at >= STRIDE && one[at - STRIDE..at] == other[at - STRIDE..at] {
        at -= STRIDE;
    }
    while at > 0 && one[at - 1] == other[at - 1] {
        at -= 1;
    }
    len - at
}
