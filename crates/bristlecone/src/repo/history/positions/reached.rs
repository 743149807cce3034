//! Which positions some tips lead to, found as far down as is asked for.

use std::sync::Arc;

use super::{PART_COMMITS, Positions, Reader, Stop, part::Part};
use crate::Backend;

/// Words of a part's bits.
const WORDS: usize = PART_COMMITS / 64;
/// Of so many tips at most it is asked whether a commit is on their lines of first parents.
const LINES_MAX: usize = 4;
/// So far below what was walked a commit is looked for on lines of first parents before all between is walked.
const FAR: u32 = PART_COMMITS as u32;

/// The commits with positions that some tips lead to. A walk goes down from the highest one, no further than to what was asked for
/// last, so that questions in the order of a log cost one walk together.
#[derive(Debug)]
pub(in super::super) struct Reached {
    graph: Arc<Positions>,
    // The part that was used last.
    last: Option<Arc<Part>>,
    // A bit for each commit that is known to be reached.
    pages: Vec<Option<Box<[u64; WORDS]>>>,
    // From here on upwards all bits were handed down to parents.
    walked: u32,
    tips: Vec<u32>,
}

impl Reached {
    /// Returns what no tips lead to, in a graph.
    pub(in super::super) fn new(graph: Arc<Positions>) -> Self {
        let pages = (0..graph.parts.len()).map(|_| None).collect();
        Self { last: None, pages, walked: 0, tips: Vec::new(), graph }
    }

    /// Returns the graph.
    pub(in super::super) fn graph(&self) -> &Positions {
        &self.graph
    }

    /// Does something with a reader of the graph.
    pub(in super::super) fn read<T>(&mut self, backend: &dyn Backend, read: impl FnOnce(&mut Reader<'_>) -> T) -> T {
        let mut reader = Reader { backend, graph: &self.graph, last: self.last.take() };
        let done = read(&mut reader);
        self.last = reader.last;
        done
    }

    /// Adds a tip.
    pub(in super::super) fn add(&mut self, position: u32) {
        self.set(position);
        self.tips.push(position);
        self.walked = self.walked.max(position + 1);
    }

    /// Whether a tip leads to a commit, or is it.
    pub(in super::super) fn has(&mut self, backend: &dyn Backend, position: u32) -> Result<bool, Stop> {
        if self.is_set(position) {
            return Ok(true);
        }
        if position + 1 >= self.walked {
            return Ok(false);
        }
        if self.walked - position > FAR && self.tips.len() <= LINES_MAX {
            for index in 0..self.tips.len() {
                let tip = self.tips[index];
                if tip > position && self.read(backend, |reader| reader.on_first_parents(position, tip))? {
                    self.set(position);
                    return Ok(true);
                }
            }
        }
        self.walk(backend, position + 1)?;
        Ok(self.is_set(position))
    }

    /// Hands bits down to parents until that was done for all commits from `end` on upwards.
    fn walk(&mut self, backend: &dyn Backend, end: u32) -> Result<(), Stop> {
        let last = self.walked.saturating_sub(1) as usize / PART_COMMITS;
        for index in (end as usize / PART_COMMITS..=last).rev() {
            if self.pages.get(index).is_some_and(Option::is_some) {
                let part = self.graph.part(backend, index)?;
                let from = (self.walked as usize - index * PART_COMMITS).min(PART_COMMITS);
                let to = (end as usize).saturating_sub(index * PART_COMMITS);
                self.walk_part(index, &part, to, from)?;
            }
            self.walked = ((index * PART_COMMITS) as u32).max(end);
        }
        Ok(())
    }

    /// Hands bits down from the commits of a part between two places, the higher ones first.
    fn walk_part(&mut self, index: usize, part: &Part, to: usize, from: usize) -> Result<(), Stop> {
        for word in (to / 64..from.div_ceil(64)).rev() {
            // What is handed down within the word is met by the same loop.
            let mut below = if from >= (word + 1) * 64 { u64::MAX } else { (1 << (from % 64)) - 1 };
            if to > word * 64 {
                below &= u64::MAX << (to % 64);
            }
            loop {
                let set = self.pages[index].as_ref().map_or(0, |page| page[word]) & below;
                if set == 0 {
                    break;
                }
                let bit = 63 - set.leading_zeros();
                below &= (1 << bit) - 1;
                let position = part.base() + (word * 64) as u32 + bit;
                let link = part.link(position).ok_or(Stop::Lost(index))?;
                part.each_parent(link, |parent| self.set(parent));
            }
        }
        Ok(())
    }

    fn set(&mut self, position: u32) {
        if let Some(page) = self.pages.get_mut(position as usize / PART_COMMITS) {
            let page = page.get_or_insert_with(|| Box::new([0; WORDS]));
            page[position as usize % PART_COMMITS / 64] |= 1 << (position % 64);
        }
    }

    fn is_set(&self, position: u32) -> bool {
        let page = self.pages.get(position as usize / PART_COMMITS).and_then(Option::as_ref);
        page.is_some_and(|page| page[position as usize % PART_COMMITS / 64] >> (position % 64) & 1 == 1)
    }
}

#[cfg(test)]
mod tests {
    use bristlecone_core::Oid;

    use super::{
        super::{Slot, part::Part},
        *,
    };
    use crate::MemoryBackend;

    /// SplitMix64.
    struct Random(u64);

    impl Random {
        fn below(&mut self, end: u32) -> u32 {
            self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let word = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            let word = (word ^ word >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
            ((word ^ word >> 31) % u64::from(end)) as u32
        }
    }

    /// A graph of these parents, and what each commit's first parents lead to jumps over one at a time.
    fn graph(parents: &[Vec<u32>]) -> Arc<Positions> {
        let mut parts = Vec::new();
        let mut depths = Vec::new();
        for (at, above) in parents.chunks(PART_COMMITS).enumerate() {
            let mut part = Part::new((at * PART_COMMITS) as u32, 32);
            for own in above {
                let depth = own.first().map_or(0, |&first| depths[first as usize] + 1);
                let position = depths.len() as u32;
                part.push(&Oid::from_array([1; 32]), depth + 1, own, depth, own.first().copied().unwrap_or(position));
                depths.push(depth);
            }
            parts.push(Arc::new(Slot::made(part)));
        }
        Arc::new(Positions::new(0, parts))
    }

    /// Which commits the tips lead to, by brute force.
    fn reached(parents: &[Vec<u32>], tips: &[u32]) -> Vec<bool> {
        let (mut found, mut stack) = (vec![false; parents.len()], tips.to_vec());
        while let Some(at) = stack.pop() {
            if !std::mem::replace(&mut found[at as usize], true) {
                stack.extend(&parents[at as usize]);
            }
        }
        found
    }

    #[test]
    fn what_tips_lead_to_agrees_with_brute_force_in_any_order_of_questions() {
        let backend = MemoryBackend::new();
        for seed in 0..40 {
            let random = &mut Random(seed);
            let count = [70, 4096, 4097, 14_000][seed as usize % 4];
            let side = [2, 30, 1000][seed as usize % 3];
            let parents: Vec<Vec<u32>> = (0..count)
                .map(|at: u32| {
                    let wanted = if at == 0 || random.below(side * 4) == 0 { 0 } else { 1 + random.below(3) / 2 };
                    let reach = if random.below(side) == 0 { at.max(1) } else { 3 };
                    (0..wanted).map(|_| at - 1 - random.below(reach.min(at).max(1))).collect()
                })
                .collect();
            let graph = graph(&parents);
            for _ in 0..6 {
                let mut state = Reached::new(graph.clone());
                let mut tips = Vec::new();
                let mut known = vec![false; count as usize];
                for step in 0..60 {
                    // Tips may come late, above what was walked and below.
                    if step == 0 || random.below(20) == 0 {
                        tips.push(random.below(count));
                        state.add(*tips.last().unwrap());
                        known = reached(&parents, &tips);
                    }
                    let at =
                        if random.below(2) == 0 { random.below(count) } else { count - 1 - random.below(count / 2) };
                    let found = state.has(&backend, at).unwrap();
                    assert_eq!(found, known[at as usize], "seed {seed}: {at} from {tips:?}");
                }
            }
        }
    }
}
