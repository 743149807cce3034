//! Which objects of the segments that a collection empties are live, and where each has gone: a bit for each 32 bytes, in
//! which at most one record begins, and a word for each live object.

use std::collections::HashMap;

/// Bytes that a bit stands for.
const GRANULE_BYTES: u64 = 32;
/// Bytes that a word of bits stands for.
pub(super) const LIVE_WORD_BYTES: u64 = GRANULE_BYTES * 64;
/// Words of bits between two counts.
const COUNTED_WORDS: usize = 8;

/// Returns the byte and the bit in it that stand for what begins at an offset, in words whose lowest byte comes first.
pub(super) const fn bit_of(offset: u64) -> (u64, u8) {
    let granule = offset / GRANULE_BYTES;
    (granule / 8, 1 << (granule % 8))
}

/// The live objects of some segments.
#[derive(Debug, Default)]
pub(super) struct LiveSet {
    // Ascending by number.
    segments: Vec<LiveSegment>,
    // Where each object that was marked has gone, in the order of bits; 0 as long as it has not.
    places: Vec<u64>,
    // The same of objects that were found to be live after the bits had been counted.
    late: HashMap<u64, u64>,
}

#[derive(Debug)]
struct LiveSegment {
    number: u32,
    bits: Vec<u64>,
    // Bytes of the records that are marked.
    bytes: u64,
    // How many bits are set before each run of words, once they are counted; none where nothing goes elsewhere.
    counts: Vec<u64>,
}

impl LiveSet {
    /// Returns an empty set over segments of these numbers and lengths.
    pub(super) fn new(mut segments: Vec<(u32, u64)>) -> Self {
        segments.sort_unstable();
        let empty = |(number, bytes): (u32, u64)| {
            let bits = vec![0; bytes.div_ceil(LIVE_WORD_BYTES) as usize];
            LiveSegment { number, bits, bytes: 0, counts: Vec::new() }
        };
        Self { segments: segments.into_iter().map(empty).collect(), ..Self::default() }
    }

    /// Returns the segments and their lengths, rounded up to a whole word of bits.
    pub(super) fn segments(&self) -> impl Iterator<Item = (u32, u64)> {
        self.segments.iter().map(|segment| (segment.number, segment.bits.len() as u64 * LIVE_WORD_BYTES))
    }

    /// Returns the bits of a segment, how many are set, and the bytes of the records that they stand for.
    pub(super) fn marks(&self, number: u32) -> Option<(&[u64], u64, u64)> {
        let place = self.segments.binary_search_by_key(&number, |segment| segment.number).ok()?;
        let segment = &self.segments[place];
        let count = segment.bits.iter().map(|word| u64::from(word.count_ones())).sum();
        Some((&segment.bits, count, segment.bytes))
    }

    /// Returns an empty set over the same segments.
    pub(super) fn unmarked(&self) -> Self {
        let empty = |segment: &LiveSegment| {
            let bits = vec![0; segment.bits.len()];
            LiveSegment { number: segment.number, bits, bytes: 0, counts: Vec::new() }
        };
        Self { segments: self.segments.iter().map(empty).collect(), ..Self::default() }
    }

    fn segment(&self, at: u64) -> Option<usize> {
        self.segments.binary_search_by_key(&((at >> 32) as u32), |segment| segment.number).ok()
    }

    /// Whether a location lies in one of the segments.
    pub(super) fn covers(&self, at: u64) -> bool {
        self.segment(at).is_some()
    }

    /// Marks the object at a location; returns whether it was not marked.
    pub(super) fn mark(&mut self, at: u64) -> bool {
        let Some(segment) = self.segment(at) else { return false };
        let granule = (at & 0xffff_ffff) / GRANULE_BYTES;
        let Some(word) = self.segments[segment].bits.get_mut(granule as usize / 64) else { return false };
        let new = *word & 1 << (granule % 64) == 0;
        *word |= 1 << (granule % 64);
        new
    }

    /// Counts the bytes of the record at a location, which is marked.
    pub(super) fn add_bytes(&mut self, at: u64, bytes: u64) {
        if let Some(segment) = self.segment(at) {
            self.segments[segment].bytes += bytes;
        }
    }

    /// Whether the object at a location is marked.
    pub(super) fn is_marked(&self, at: u64) -> bool {
        self.bit(at).is_some()
    }

    // The segment of a location whose bit is set, and the bit's number.
    fn bit(&self, at: u64) -> Option<(&LiveSegment, usize)> {
        let segment = &self.segments[self.segment(at)?];
        let granule = ((at & 0xffff_ffff) / GRANULE_BYTES) as usize;
        (segment.bits.get(granule / 64)? & 1 << (granule % 64) != 0).then_some((segment, granule))
    }

    /// Ends marking: from now on it is kept where objects go of the segments whose numbers are less than `end`.
    pub(super) fn count(&mut self, end: u32) {
        let mut count = 0;
        for segment in self.segments.iter_mut().filter(|segment| segment.number < end) {
            segment.counts = segment
                .bits
                .chunks(COUNTED_WORDS)
                .map(|run| {
                    let before = count;
                    count += run.iter().map(|word| u64::from(word.count_ones())).sum::<u64>();
                    before
                })
                .collect();
        }
        self.places = vec![0; count as usize];
    }

    fn index(&self, at: u64) -> Option<usize> {
        let (segment, granule) = self.bit(at)?;
        let word = granule / 64;
        let run = word / COUNTED_WORDS;
        let before =
            segment.bits[run * COUNTED_WORDS..word].iter().map(|word| word.count_ones() as usize).sum::<usize>();
        let within = (segment.bits[word] & ((1 << (granule % 64)) - 1)).count_ones() as usize;
        Some(*segment.counts.get(run)? as usize + before + within)
    }

    /// Returns where an object has gone, if it has.
    pub(super) fn place(&self, at: u64) -> Option<u64> {
        let place = match self.index(at) {
            Some(index) => *self.places.get(index)?,
            None => *self.late.get(&at)?,
        };
        (place != 0).then_some(place)
    }

    /// Notes where an object has gone.
    pub(super) fn put(&mut self, at: u64, place: u64) {
        match self.index(at) {
            Some(index) if index < self.places.len() => self.places[index] = place,
            _ => _ = self.late.insert(at, place),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_marked_has_a_place_of_its_own() {
        let mut live = LiveSet::new(vec![(7, 1 << 20), (3, 100_000)]);
        let at = |number: u64, offset: u64| number << 32 | offset;
        let marked: Vec<u64> = (0..2000).map(|n| at(if n % 3 == 0 { 3 } else { 7 }, 64 + n * 48)).collect();
        marked.iter().filter(|&&one| live.covers(one) && live.mark(one)).for_each(|_| ());
        assert!(!live.mark(marked[0]) && !live.mark(at(9, 64)) && !live.covers(at(9, 64)));
        live.count(u32::MAX);
        let known: Vec<u64> = marked.iter().copied().filter(|&one| live.is_marked(one)).collect();
        assert_eq!(live.places.len(), known.len());
        assert!(known.len() > 1900);
        for (number, &one) in known.iter().enumerate() {
            assert_eq!(live.place(one), None);
            live.put(one, number as u64 + 1);
        }
        for (number, &one) in known.iter().enumerate() {
            assert_eq!(live.place(one), Some(number as u64 + 1));
        }
        // One that was not marked in time.
        live.put(at(7, 1 << 19), 5);
        assert_eq!((live.place(at(7, 1 << 19)), live.place(at(7, (1 << 19) + 64))), (Some(5), None));
    }
}
