//! Which commits a store keeps, as rules over the names of refs.

use std::{collections::BTreeMap, fmt, num::NonZeroU32, str::FromStr};

use crate::Error;

/// How the line of the text begins that says for how long a snapshot keeps what a sweep removes.
const SNAPSHOTS: &str = "snapshots ";

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
/// It also says for how long a snapshot may keep what a sweep removes ([`Retention::set_snapshot_limit`]).
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
    snapshot_limit: Option<u32>,
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
    ///
    /// A store takes no pattern with a space or a line's end in it, and no rule of 0 seconds: its rules are kept as text.
    pub fn set(&mut self, pattern: &str, keep: Option<Keep>) -> Option<Keep> {
        match keep {
            Some(keep) => self.rules.insert(pattern.to_owned(), keep),
            None => self.rules.remove(pattern),
        }
    }

    /// Returns for how many seconds a snapshot keeps what a sweep removes; `None`, the default: as long as it is held.
    #[must_use]
    pub const fn snapshot_limit(&self) -> Option<u32> {
        self.snapshot_limit
    }

    /// Sets for how many seconds a snapshot keeps what a sweep removes, in whichever process it is held. After that, its
    /// readers get [`Error::Expired`] for what is gone, and never other bytes. With 0, no snapshot keeps anything.
    pub const fn set_snapshot_limit(&mut self, seconds: Option<u32>) {
        self.snapshot_limit = seconds;
    }

    /// Returns what the ref of this name keeps.
    #[must_use]
    pub fn keep(&self, name: &str) -> Keep {
        let matching = self.rules.iter().filter(|(pattern, _)| matches(pattern, name));
        let exact = |pattern: &str| (pattern.chars().filter(|&letter| letter != '*').count(), !pattern.contains('*'));
        matching.max_by_key(|(pattern, _)| exact(pattern)).map(|(_, keep)| *keep).unwrap_or_default()
    }
}

impl Retention {
    /// Returns the text in which a store keeps the rules.
    ///
    /// # Errors
    /// [`Error::Usage`] for rules that do not come back from it.
    pub(crate) fn to_text(&self) -> Result<String, Error> {
        let text = self.to_string();
        if text.parse().is_ok_and(|again: Self| again == *self) {
            return Ok(text);
        }
        let reason = "a rule of retention cannot be kept: a pattern of ref names has no space and no line's end, and a rule of time \
                      at least one second";
        Err(Error::Usage { reason })
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
            Self::Within(seconds) => write!(f, "last {}", Span(*seconds)),
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
        if amount.bytes().all(|byte| byte.is_ascii_digit()) {
            return amount.parse().map(Self::Last).map_err(|_| wrong());
        }
        Span::parse(amount).filter(|&seconds| seconds > 0).map(Self::Within).ok_or_else(wrong)
    }
}

/// A number of seconds, as `30d` is written.
struct Span(u32);

impl Span {
    const UNITS: [(u32, char); 4] = [(86_400, 'd'), (3600, 'h'), (60, 'm'), (1, 's')];

    /// Returns the seconds of a number with s, m, h or d.
    fn parse(text: &str) -> Option<u32> {
        let (unit, letter) = Self::UNITS.into_iter().find(|&(_, letter)| text.ends_with(letter))?;
        let digits = text.strip_suffix(letter).filter(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()))?;
        digits.parse::<u32>().ok()?.checked_mul(unit)
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let unit = Self::UNITS.into_iter().find(|(unit, _)| self.0 > 0 && self.0.is_multiple_of(*unit));
        let (unit, letter) = unit.unwrap_or((1, 's'));
        write!(f, "{}{letter}", self.0 / unit)
    }
}

impl fmt::Display for Retention {
    /// Writes a line for each rule: the rule, a space and the pattern. A limit of snapshots has a line before them.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(seconds) = self.snapshot_limit {
            writeln!(f, "{SNAPSHOTS}{}", Span(seconds))?;
        }
        self.rules.iter().try_for_each(|(pattern, keep)| writeln!(f, "{keep} {pattern}"))
    }
}

impl FromStr for Retention {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let mut retention = Self::default();
        for line in text.lines() {
            if let Some(limit) = line.strip_prefix(SNAPSHOTS) {
                let wrong =
                    Error::Usage { reason: "the limit of snapshots is a number with s, m, h or d, such as `1h`" };
                retention.snapshot_limit = Some(Span::parse(limit).ok_or(wrong)?);
                continue;
            }
            let wrong =
                Error::Usage { reason: "a line of the retention is a rule, a space and a pattern of ref names" };
            let (keep, pattern) = line.rsplit_once(' ').ok_or(wrong)?;
            retention.rules.insert(pattern.to_owned(), keep.parse()?);
        }
        Ok(retention)
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
        for text in ["snapshots 1h\n", "snapshots 0s\nlast 3 refs/heads/*\n"] {
            assert_eq!(text.parse::<Retention>().unwrap().to_string(), text);
        }
        for wrong in ["snapshots 1", "snapshots", "snapshots -1s", "snapshots +1s", "snapshots 1h\nx"] {
            assert!(wrong.parse::<Retention>().is_err(), "{wrong}");
        }
        for wrong in ["last 100", "x refs/heads/*", "last 99999999999d refs/heads/*", "thin 5 refs/heads/*"] {
            assert!(wrong.parse::<Retention>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn rules_that_do_not_come_back_have_no_text() {
        let with = |pattern: &str, keep| {
            let mut retention = Retention::default();
            retention.set(pattern, Some(keep));
            retention.to_text()
        };
        assert_eq!(with("refs/heads/\u{85}*", Keep::All).unwrap(), "all refs/heads/\u{85}*\n");
        for wrong in ["refs/heads/a b", "a\nb", "a\r", "a\nall b"] {
            assert!(matches!(with(wrong, Keep::All), Err(Error::Usage { .. })), "{wrong:?}");
        }
        assert!(matches!(with("a", Keep::Within(0)), Err(Error::Usage { .. })));
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
        // Characters count, however many bytes they take.
        let retention: Retention = "last 1 refs/heads/é*\nlast 2 refs/heads/*ab".parse().unwrap();
        assert_eq!(retention.keep("refs/heads/éab"), "last 2".parse().unwrap());
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
