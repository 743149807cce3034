//! Where a sequence of items is cut into pieces. Section 4 of the format's page.
//!
//! Each item has a hash of its step (and of the level) and a weight. Think of the treap over the items ordered by step,
//! with the smallest hash at the top: a piece is a largest subtree that is no heavier than the bound. Locally, an item
//! begins a piece if and only if the stretch in which its hash is the smallest, from the nearest smaller hash on its left
//! (that item included) to the nearest smaller one on its right (that item left out), weighs more than the bound.
//!
//! So the cuts are a function of the set of steps; a change moves cuts only within one bound's weight of
//! itself, for names ground against the hash too; and no piece is heavier than the bound unless it is a
//! single item.

use alloc::{vec, vec::Vec};

use twox_hash::XxHash3_64;

use crate::STEP_BYTES_MAX;

/// The heaviest piece. With short steps it has this many items at most, and 33 on average.
pub(super) const WEIGHT_MAX: u64 = 64;
/// A step of a leaf weighs one, and one more for each run of this many bytes.
const LEAF_BYTES_PER_WEIGHT: usize = 64;
/// The same above the leaves, where any seven steps are light enough for one piece. Were they as heavy as in leaves, two
/// long ones would be parted on every level, and there would be no root.
const INNER_BYTES_PER_WEIGHT: usize = 512;
const _: () = assert!(7 * (1 + STEP_BYTES_MAX / INNER_BYTES_PER_WEIGHT) as u64 <= WEIGHT_MAX);

/// Returns the hash of a step that decides on the cuts of the leaves: XXH3-64 without seed.
#[must_use]
#[inline]
pub fn step_hash(step: &[u8]) -> u64 {
    XxHash3_64::oneshot(step)
}

/// Returns the hash that decides on the cuts of a level: XXH3-64 with the level for its seed. Names ground
/// to make poor pieces at one level are as good as random at the next.
#[inline]
pub(super) fn level_hash(level: u8, step: &[u8]) -> u64 {
    XxHash3_64::oneshot_with_seed(u64::from(level), step)
}

/// Returns the weight of an item of a level with this step.
#[inline]
pub(super) const fn weight(level: u8, step: &[u8]) -> u64 {
    let bytes = if level == 0 { LEAF_BYTES_PER_WEIGHT } else { INNER_BYTES_PER_WEIGHT };
    1 + (step.len() / bytes) as u64
}

/// An item of the sequence, or a whole piece whose inner cuts cannot have changed: its first hash and
/// its weight stand for it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Token {
    pub(super) hash: u64,
    pub(super) weight: u64,
}

/// Returns for each token whether it begins a piece.
///
/// `open_start` and `open_end` say that the sequence goes on beyond the tokens: a stretch that reaches an
/// open end counts as too heavy, for which the caller must have given enough context.
pub(super) fn starts(tokens: &[Token], weight_max: u64, open_start: bool, open_end: bool) -> Vec<bool> {
    let mut starts = vec![false; tokens.len()];
    // Sums of weights before each token, and for each token the stretch's left end, on a stack of tokens
    // with rising hashes.
    let mut before = Vec::with_capacity(tokens.len() + 1);
    let mut sum = 0u64;
    for token in tokens {
        before.push(sum);
        sum = sum.saturating_add(token.weight);
    }
    before.push(sum);
    let mut stack: Vec<(usize, usize, bool)> = Vec::new();
    let close = |stack: &mut Vec<(usize, usize, bool)>, end: usize, open: bool, starts: &mut Vec<bool>| {
        if let Some((token, left, open_left)) = stack.pop() {
            starts[token] = open || open_left || before[end] - before[left] > weight_max;
        }
    };
    for (index, token) in tokens.iter().enumerate() {
        while stack.last().is_some_and(|&(top, ..)| tokens[top].hash > token.hash) {
            close(&mut stack, index, false, &mut starts);
        }
        match stack.last() {
            Some(&(top, ..)) => stack.push((index, top, false)),
            // No smaller hash on the left: the stretch begins with the first item of all.
            None => stack.push((index, 0, open_start)),
        }
    }
    while !stack.is_empty() {
        close(&mut stack, tokens.len(), open_end, &mut starts);
    }
    if let Some(first) = starts.first_mut() {
        *first = true;
    }
    starts
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The definition by splitting at the smallest hash, again and again.
    fn split(tokens: &[Token], weight_max: u64, out: &mut Vec<usize>, base: usize) {
        let total: u64 = tokens.iter().map(|token| token.weight).sum();
        if total <= weight_max || tokens.len() < 2 {
            out.push(base);
            return;
        }
        let at = (1..tokens.len()).min_by_key(|&index| tokens[index].hash).unwrap();
        split(&tokens[..at], weight_max, out, base);
        split(&tokens[at..], weight_max, out, base + at);
    }

    #[test]
    fn the_local_rule_is_the_split_at_the_smallest_hash() {
        let mut state = 1u64;
        let mut next = move || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            state >> 33
        };
        for round in 0..2000 {
            let count = (next() % 200) as usize;
            let tokens: Vec<Token> = (0..count)
                .map(|index| Token {
                    hash: match round % 3 {
                        0 => next() % 50,
                        1 => next(),
                        _ if round % 2 == 0 => index as u64,
                        _ => 1000 - index as u64,
                    },
                    weight: 1 + next() % if round % 5 == 0 { 20 } else { 1 },
                })
                .collect();
            let mut expected = vec![false; count];
            let mut out = Vec::new();
            split(&tokens, 16, &mut out, 0);
            if count > 0 {
                out.iter().for_each(|&at| expected[at] = true);
            }
            assert_eq!(starts(&tokens, 16, false, false), expected, "round {round}");
        }
    }

    #[test]
    fn an_insertion_moves_cuts_only_nearby() {
        // Names ground so that hashes rise with the names: the worst shape, one item to a piece.
        for rising in [true, false] {
            let token = |hash: u64| Token { hash, weight: 1 };
            let keys: Vec<u64> = (0..1000).map(|n| if rising { n * 2 } else { 4000 - n * 2 }).collect();
            let before: Vec<Token> = keys.iter().map(|&hash| token(hash)).collect();
            for at in [1, 10, 500, 900, 999] {
                let mut after = before.clone();
                after.insert(at, token(3));
                let old = starts(&before, 64, false, false);
                let mut new = starts(&after, 64, false, false);
                new.remove(at);
                let moved = (0..old.len()).filter(|&n| old[n] != new[n]);
                assert!(moved.into_iter().all(|n| n.abs_diff(at) <= 64), "insertion at {at}");
            }
        }
    }
}
