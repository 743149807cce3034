//! Rewriting of keys from the layout of the first years, which chops hashes into short steps, to flat ones.

use std::{fmt, str::FromStr};

use thiserror::Error;

use crate::{
    cursor::Cursor,
    key::{Key, KeyBuf, Steps},
};

/// How keys are rewritten.
///
/// ```
/// use bristlecone_tezos::{KeyBuf, PathConversion};
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
        match self {
            Self::None | Self::V0 => out.set(key),
            Self::V1 | Self::V0V1 => match without_sharding(&key.walk()) {
                Some(parts) => {
                    out.clear();
                    parts.into_iter().for_each(|part| out.append(part));
                }
                None => out.set(key),
            },
        }
        if matches!(self, Self::V0 | Self::V0V1) {
            join_chopped(out);
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

/// Whether a step is `digits` hexadecimal digits, of either case.
#[inline]
fn is_hex(step: &[u8], digits: usize) -> bool {
    step.len() == digits && step.iter().all(u8::is_ascii_hexdigit)
}

/// Makes every chopped hash one step. In place: the one step takes fewer bytes than the six.
fn join_chopped(key: &mut KeyBuf) {
    let (mut from, mut to) = (0, 0);
    loop {
        let mut rest = Cursor::at(&key.steps, from);
        let Ok(step) = rest.string() else { break };
        if is_hex(step, 2)
            && let Some((hash, end)) = chopped(step, rest.clone())
        {
            key.steps[to] = hash.len() as u8;
            key.steps[to + 1..to + 41].copy_from_slice(&hash);
            key.count -= 5;
            (from, to) = (end, to + 41);
            continue;
        }
        let end = rest.offset();
        if from != to {
            key.steps.copy_within(from..end, to);
        }
        (from, to) = (end, to + end - from);
    }
    key.steps.truncate(to);
}

/// Returns the hash that begins with the two digits `first` and goes on in the steps of `rest`, and where it ends.
fn chopped(first: &[u8], mut rest: Cursor<'_>) -> Option<([u8; 40], usize)> {
    let mut hash = [0; 40];
    hash[..2].copy_from_slice(first);
    for place in hash[2..10].chunks_exact_mut(2) {
        place.copy_from_slice(rest.string().ok().filter(|step| is_hex(step, 2))?);
    }
    hash[10..].copy_from_slice(rest.string().ok().filter(|step| is_hex(step, 30))?);
    Some((hash, rest.offset()))
}

/// Returns the parts of a key that stay when the steps go that only spread entries: some steps at the beginning,
/// some in the middle, and the rest. `None` if all stay.
fn without_sharding<'a>(all: &Steps<'a>) -> Option<[Key<'a>; 3]> {
    let below = after(all.clone(), b"data")?;
    let parts = |spread: &Steps<'a>, rest: Steps<'a>| [all.until(spread), Key::default(), rest.as_key()];
    if let Some(contracts) = after(below.clone(), b"contracts") {
        let spread = after(contracts, b"index")?;
        let rest = after_pairs(spread.clone())?;
        let delegated = after_any(rest.clone(), 1).and_then(|contract| after(contract, b"delegated"));
        return Some(match delegated.and_then(|spread| Some((after_pairs(spread.clone())?, spread))) {
            Some((last, delegated)) => [all.until(&spread), rest.until(&delegated), last.as_key()],
            None => parts(&spread, rest),
        });
    }
    if let Some(big_maps) = after(below.clone(), b"big_maps") {
        let spread = after(big_maps, b"index")?;
        return Some(parts(&spread, after_pairs(spread.clone())?));
    }
    let rolls = after(below, b"rolls")?;
    let spread = match after(rolls.clone(), b"index") {
        Some(index) => index,
        None => {
            let owner = after(rolls, b"owner")?;
            match after(owner.clone(), b"current") {
                Some(current) => current,
                None => after_any(after(owner, b"snapshot")?, 2)?,
            }
        }
    };
    Some(parts(&spread, after_any(spread.clone(), 2)?))
}

/// Returns what follows a step of this name.
fn after<'a>(mut steps: Steps<'a>, name: &[u8]) -> Option<Steps<'a>> {
    (steps.next()? == name).then_some(steps)
}

/// Returns what follows the first `count` steps.
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
