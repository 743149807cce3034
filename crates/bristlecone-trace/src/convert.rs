//! Rewriting of keys from the layout of the first years, which chops hashes into short steps, to flat ones.

use std::{fmt, str::FromStr};

use thiserror::Error;

use crate::key::{Key, KeyBuf, Steps};

/// How keys are rewritten.
///
/// ```
/// use bristlecone_trace::{KeyBuf, PathConversion};
///
/// let key = KeyBuf::from_steps("data/big_maps/index/a1/b2/c3/d4/e5/f6/7/contents".split('/'));
/// let mut flat = KeyBuf::new();
/// PathConversion::V1.convert(key.as_key(), &mut flat);
/// assert_eq!(flat.to_string(), "data/big_maps/index/7/contents");
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum PathConversion {
    /// Keys stay as they are.
    #[default]
    None,
    /// Joins each hash of 40 hexadecimal digits that was chopped into steps of 2, 2, 2, 2, 2 and 30.
    V0,
    /// Drops the steps at the beginning of a key that only spread entries over directories.
    V1,
    /// V1, and then V0 on what it gives.
    V0V1,
}

impl PathConversion {
    /// Every conversion.
    pub const ALL: [Self; 4] = [Self::None, Self::V0, Self::V1, Self::V0V1];

    /// Makes `out` what `key` becomes.
    pub fn convert(self, key: Key<'_>, out: &mut KeyBuf) {
        if self == Self::None {
            return out.set(key);
        }
        out.clear();
        match self {
            Self::None | Self::V0 => join_chopped(key.walk(), out),
            Self::V1 => without_sharding(key).for_each(|step| out.push(step)),
            Self::V0V1 => join_chopped(without_sharding(key), out),
        }
    }

    const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::V0 => "v0",
            Self::V1 => "v1",
            Self::V0V1 => "v0+v1",
        }
    }
}

impl fmt::Display for PathConversion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for PathConversion {
    type Err = UnknownConversion;

    fn from_str(text: &str) -> Result<Self, UnknownConversion> {
        let known = Self::ALL.into_iter().find(|conversion| conversion.name() == text);
        known.ok_or_else(|| UnknownConversion { name: text.to_owned() })
    }
}

/// A path conversion that does not exist.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("there is no path conversion \"{name}\"; those there are: none, v0, v1, v0+v1")]
pub struct UnknownConversion {
    /// What was asked for.
    pub name: String,
}

/// Whether a step is so many hexadecimal digits, of either case.
#[inline]
fn is_hex(step: &[u8], digits: usize) -> bool {
    step.len() == digits && step.iter().all(u8::is_ascii_hexdigit)
}

/// Appends `steps` to `out`, with every chopped hash as one step.
fn join_chopped<'a>(mut steps: impl Iterator<Item = &'a [u8]> + Clone, out: &mut KeyBuf) {
    while let Some(step) = steps.next() {
        if is_hex(step, 2) {
            let mut ahead = steps.clone();
            if let Some(hash) = chopped(step, &mut ahead) {
                out.push(&hash);
                steps = ahead;
                continue;
            }
        }
        out.push(step);
    }
}

/// Returns the hash that begins with `first`, of two digits, and goes on in `steps`.
fn chopped<'a>(first: &[u8], steps: &mut impl Iterator<Item = &'a [u8]>) -> Option<[u8; 40]> {
    let mut hash = [0; 40];
    hash[..2].copy_from_slice(first);
    for place in hash[2..10].chunks_exact_mut(2) {
        place.copy_from_slice(steps.next().filter(|step| is_hex(step, 2))?);
    }
    hash[10..].copy_from_slice(steps.next().filter(|step| is_hex(step, 30))?);
    Some(hash)
}

/// Returns the steps without those that spread entries. All of it is a choice of the key's own steps: some at the
/// beginning, some in the middle, and the rest.
fn without_sharding<'a>(key: Key<'a>) -> impl Iterator<Item = &'a [u8]> + Clone {
    let all = key.walk();
    let (kept, (middle, count), rest) = sharding(&all).unwrap_or((0, (all.clone(), 0), all.clone()));
    all.take(kept).chain(middle.take(count)).chain(rest)
}

/// Returns how many steps at the beginning stay, where in the middle others begin that stay and how many, and the
/// rest; `None` if the key has no such steps.
fn sharding<'a>(all: &Steps<'a>) -> Option<(usize, (Steps<'a>, usize), Steps<'a>)> {
    let beginning = |kept, rest: Steps<'a>| Some((kept, (rest.clone(), 0), rest));
    let below = after(all.clone(), b"data")?;
    if let Some(contracts) = after(below.clone(), b"contracts") {
        let rest = after_pairs(after(contracts, b"index")?)?;
        let delegated = after_any(rest.clone(), 1).and_then(|rest| after(rest, b"delegated"));
        return match delegated.and_then(after_pairs) {
            Some(last) => Some((3, (rest, 2), last)),
            None => beginning(3, rest),
        };
    }
    if let Some(big_maps) = after(below.clone(), b"big_maps") {
        return beginning(3, after_pairs(after(big_maps, b"index")?)?);
    }
    let rolls = after(below, b"rolls")?;
    if let Some(index) = after(rolls.clone(), b"index") {
        return beginning(3, after_any(index, 2)?);
    }
    let owner = after(rolls, b"owner")?;
    if let Some(current) = after(owner.clone(), b"current") {
        return beginning(4, after_any(current, 2)?);
    }
    let snapshot = after(owner, b"snapshot")?;
    beginning(6, after_any(snapshot, 4)?)
}

/// Returns what follows a step of this name.
fn after<'a>(mut steps: Steps<'a>, name: &[u8]) -> Option<Steps<'a>> {
    (steps.next()? == name).then_some(steps)
}

/// Returns what follows so many steps.
fn after_any(mut steps: Steps<'_>, count: usize) -> Option<Steps<'_>> {
    for _ in 0..count {
        steps.next()?;
    }
    Some(steps)
}

/// Returns what follows six steps of two hexadecimal digits.
fn after_pairs(mut steps: Steps<'_>) -> Option<Steps<'_>> {
    for _ in 0..6 {
        steps.next().filter(|step| is_hex(step, 2))?;
    }
    Some(steps)
}

#[cfg(test)]
mod tests;
