//! Which commits a store keeps, as rules over the names of refs.

use std::{collections::BTreeMap, fmt, num::NonZeroU32, str::FromStr};

use crate::Error;

/// Which commits a ref keeps, along the first parents from where it stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Keep {
    /// All that led there, by every parent.
    #[default]
    All,
    /// The last so many.
    Last(NonZeroU32),
    /// Those of the last so many seconds, by the committer's date, up to the first that is older; the last one always.
    Within(u32),
}

/// Which commits a store keeps: a rule for each of some patterns of ref names. Refs that none of them matches keep all.
///
/// A pattern is the full name of a ref, in which `*` stands for any run of characters. Of several that match, the one with the
/// most other characters counts.
///
/// ```
/// use bristlecone::{Keep, Retention};
///
/// let mut retention: Retention = "last 100 refs/heads/*".parse()?;
/// retention.set("refs/heads/release", Some("last 90d".parse()?));
/// assert_eq!(retention.keep("refs/heads/main"), "last 100".parse()?);
/// assert_eq!(retention.keep("refs/heads/release"), Keep::Within(90 * 86_400));
/// assert_eq!(retention.keep("refs/tags/v1"), Keep::All);
/// # assert_eq!(retention.to_string().parse::<Retention>()?, retention);
/// # Ok::<(), bristlecone::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Retention {
    rules: BTreeMap<String, Keep>,
}

impl Retention {
    /// Whether every ref keeps all.
    #[must_use]
    pub fn is_all(&self) -> bool {
        self.rules.values().all(|keep| *keep == Keep::All)
    }

    /// Returns patterns and their rules, in order of patterns.
    pub fn rules(&self) -> impl Iterator<Item = (&str, Keep)> {
        self.rules.iter().map(|(pattern, keep)| (&**pattern, *keep))
    }

    /// Sets the rule of a pattern, or removes it; returns the one that it had.
    pub fn set(&mut self, pattern: &str, keep: Option<Keep>) -> Option<Keep> {
        match keep {
            Some(keep) => self.rules.insert(pattern.to_owned(), keep),
            None => self.rules.remove(pattern),
        }
    }

    /// Returns what the ref of this name keeps.
    #[must_use]
    pub fn keep(&self, name: &str) -> Keep {
        let matching = self.rules.iter().filter(|(pattern, _)| matches(pattern, name));
        let exact = |pattern: &str| (pattern.bytes().filter(|&byte| byte != b'*').count(), !pattern.contains('*'));
        matching.max_by_key(|(pattern, _)| exact(pattern)).map(|(_, keep)| *keep).unwrap_or_default()
    }
}

/// Whether a name is of a pattern, in which `*` stands for any run of characters.
fn matches(pattern: &str, name: &str) -> bool {
    let mut parts = pattern.split('*');
    let Some(rest) = parts.next().and_then(|first| name.strip_prefix(first)) else { return false };
    let mut parts: Vec<&str> = parts.collect();
    let Some(last) = parts.pop() else { return rest.is_empty() };
    let mut rest = rest;
    for part in parts {
        let Some(at) = rest.find(part) else { return false };
        rest = &rest[at + part.len()..];
    }
    rest.ends_with(last)
}

impl fmt::Display for Keep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::All => f.write_str("all"),
            Self::Last(commits) => write!(f, "last {commits}"),
            Self::Within(seconds) => {
                let units = [(86_400, 'd'), (3600, 'h'), (60, 'm'), (1, 's')];
                let (unit, letter) = units.into_iter().find(|(unit, _)| seconds % unit == 0).unwrap_or((1, 's'));
                write!(f, "last {}{letter}", seconds / unit)
            }
        }
    }
}

impl FromStr for Keep {
    type Err = Error;

    /// Parses `all`, `last 100` or `last 30d`; the units are s, m, h and d.
    fn from_str(text: &str) -> Result<Self, Error> {
        let wrong =
            || Error::Usage { reason: "a rule is `all`, `last N` or `last N` with s, m, h or d, such as `last 30d`" };
        if text == "all" {
            return Ok(Self::All);
        }
        let amount = text.strip_prefix("last ").ok_or_else(wrong)?;
        let digits = amount.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
        if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(wrong());
        }
        let number: u32 = digits.parse().map_err(|_| wrong())?;
        let unit = match &amount[digits.len()..] {
            "" => return NonZeroU32::new(number).map(Self::Last).ok_or_else(wrong),
            "s" => 1,
            "m" => 60,
            "h" => 3600,
            "d" => 86_400,
            _ => return Err(wrong()),
        };
        number.checked_mul(unit).filter(|&seconds| seconds > 0).map(Self::Within).ok_or_else(wrong)
    }
}

impl fmt::Display for Retention {
    /// Writes a line for each rule: the rule, a space and the pattern.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.rules.iter().try_for_each(|(pattern, keep)| writeln!(f, "{keep} {pattern}"))
    }
}

impl FromStr for Retention {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let mut rules = BTreeMap::new();
        for line in text.lines() {
            let wrong =
                Error::Usage { reason: "a line of the retention is a rule, a space and a pattern of ref names" };
            let (keep, pattern) = line.rsplit_once(' ').ok_or(wrong)?;
            rules.insert(pattern.to_owned(), keep.parse()?);
        }
        Ok(Self { rules })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_round_trip_and_others_are_refused() {
        for text in ["all", "last 1", "last 4294967295", "last 1s", "last 90s", "last 2m", "last 25h", "last 30d"] {
            assert_eq!(text.parse::<Keep>().unwrap().to_string(), text);
        }
        assert_eq!("last 24h".parse::<Keep>().unwrap().to_string(), "last 1d");
        for wrong in
            ["", "last", "last ", "last 0", "last 0d", "last -1", "last 1w", "last 1.5d", "first 1", "last  1", "all 1"]
        {
            assert!(wrong.parse::<Keep>().is_err(), "{wrong}");
        }
        for wrong in ["last 100", "x refs/heads/*", "last 99999999999d refs/heads/*", "thin 5 refs/heads/*"] {
            assert!(wrong.parse::<Retention>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_most_exact_pattern_counts() {
        let retention: Retention =
            "last 1 refs/heads/*\nlast 2 refs/heads/a*\nlast 3 refs/heads/*z\nlast 4 refs/heads/ab".parse().unwrap();
        let last = |name: &str| match retention.keep(name) {
            Keep::Last(commits) => commits.get(),
            _ => 0,
        };
        for (name, wanted) in [("main", 1), ("a", 2), ("abc", 2), ("ab", 4), ("bz", 3), ("x/y", 1)] {
            assert_eq!(last(&format!("refs/heads/{name}")), wanted, "{name}");
        }
        assert_eq!((last("refs/tags/a"), last("HEAD")), (0, 0));
    }

    #[test]
    fn stars_stand_for_any_run() {
        for (pattern, name, wanted) in [
            ("a", "a", true),
            ("a", "ab", false),
            ("a*", "a", true),
            ("*", "", true),
            ("*b*d", "abcd", true),
            ("*b*d", "abc", false),
            ("ab*ba", "aba", false),
            ("a**b", "ab", true),
            ("*ab*ab", "ab", false),
        ] {
            assert_eq!(matches(pattern, name), wanted, "{pattern} {name}");
        }
    }
}
