//! Shapes of keys: keys with the steps that vary written as `*`.

use std::collections::HashMap;

use bristlecone::escape;

use crate::{key::Key, row::RowKind};

/// How many shapes are kept at most.
const SHAPES_MAX: usize = 1 << 13;
/// How many steps of a shape are kept.
const STEPS_MAX: usize = 24;
/// Longer steps vary.
const NAME_BYTES_MAX: usize = 32;

type Counts = [u64; RowKind::ALL.len()];

/// A shape of keys, and how often it comes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shape {
    /// The steps joined by `/`. A `*` stands for a step that is a number, an even number of hexadecimal digits (more
    /// than two of them: with one below `a` at least), or longer than 32 bytes; `…` for the steps after the 24th.
    pub pattern: String,
    counts: Counts,
}

impl Shape {
    /// Returns how many rows of a kind have such a key.
    #[must_use]
    pub const fn rows(&self, kind: RowKind) -> u64 {
        self.counts[kind as usize]
    }

    /// Returns how many rows have such a key.
    #[must_use]
    pub fn rows_all(&self) -> u64 {
        self.counts.iter().sum()
    }
}

#[derive(Debug)]
pub(super) struct Shapes {
    counts: HashMap<Box<str>, Counts>,
    shapes_max: usize,
    dropped: bool,
    // The pattern being made.
    pattern: String,
}

impl Default for Shapes {
    fn default() -> Self {
        Self { counts: HashMap::new(), shapes_max: SHAPES_MAX, dropped: false, pattern: String::new() }
    }
}

impl Shapes {
    pub(super) fn count(&mut self, key: Key<'_>, kind: RowKind) {
        self.pattern.clear();
        write_pattern(key, &mut self.pattern);
        if let Some(counts) = self.counts.get_mut(&*self.pattern) {
            counts[kind as usize] += 1;
            return;
        }
        if self.counts.len() >= self.shapes_max {
            self.drop_rare();
        }
        let mut counts = Counts::default();
        counts[kind as usize] = 1;
        self.counts.insert(self.pattern.as_str().into(), counts);
    }

    /// Makes room: drops the rarer half at least.
    fn drop_rare(&mut self) {
        let mut all: Vec<u64> = self.counts.values().map(|counts| counts.iter().sum()).collect();
        let middle = all.len() / 2;
        let (_, &mut median, _) = all.select_nth_unstable(middle);
        self.counts.retain(|_, counts| counts.iter().sum::<u64>() > median);
        self.dropped = true;
    }

    pub(super) fn most_frequent(&self, count_max: usize) -> Vec<Shape> {
        let mut all: Vec<Shape> = Vec::with_capacity(self.counts.len());
        all.extend(self.counts.iter().map(|(pattern, &counts)| Shape { pattern: pattern.to_string(), counts }));
        all.sort_unstable_by(|a, b| b.rows_all().cmp(&a.rows_all()).then_with(|| a.pattern.cmp(&b.pattern)));
        all.truncate(count_max);
        all
    }

    pub(super) const fn were_dropped(&self) -> bool {
        self.dropped
    }
}

fn write_pattern(key: Key<'_>, pattern: &mut String) {
    for (index, step) in key.steps().enumerate() {
        if index > 0 {
            pattern.push('/');
        }
        if index == STEPS_MAX {
            pattern.push('…');
            return;
        }
        match std::str::from_utf8(step) {
            _ if varies(step) => pattern.push('*'),
            Ok(name) if name.bytes().all(|byte| byte.is_ascii_graphic() && !b"%/*".contains(&byte)) => {
                pattern.push_str(name);
            }
            _ => pattern.push_str(&escape(step).replace('/', "%2F").replace('*', "%2A")),
        }
    }
}

/// Whether a step looks as if it stood for one thing among many.
fn varies(step: &[u8]) -> bool {
    if step.len() > NAME_BYTES_MAX {
        return true;
    }
    let (mut digits, mut hex) = (0, 0);
    for byte in step {
        digits += usize::from(byte.is_ascii_digit());
        hex += usize::from(byte.is_ascii_hexdigit());
    }
    // Words such as `feed` and names such as `ed25519` have hexadecimal digits alone, too.
    let bytes = hex == step.len() && step.len().is_multiple_of(2) && (step.len() == 2 || digits > 0);
    !step.is_empty() && (digits == step.len() || bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::KeyBuf;

    fn pattern(path: &str) -> String {
        let mut pattern = String::new();
        write_pattern(KeyBuf::from_steps(path.split('/')).as_key(), &mut pattern);
        pattern
    }

    #[test]
    fn steps_that_vary_are_stars() {
        let chopped = "data/contracts/index/ed25519/c0/f1/8A/68/c4/f0a5f64ef5aec35d4615eb781b9890/balance";
        assert_eq!(pattern(chopped), "data/contracts/index/ed25519/*/*/*/*/*/*/balance");
        assert_eq!(pattern("data/rolls/index/7/0/771/successor"), "data/rolls/index/*/*/*/successor");
        assert_eq!(pattern("feed/cafe/abc/a1b/"), "feed/cafe/abc/a1b/");
        assert_eq!(pattern(&format!("a/{}/{}", "x".repeat(32), "x".repeat(33))), format!("a/{}/*", "x".repeat(32)));
        assert_eq!(pattern("a b/*/%"), "a b/%2A/%25");
        let deep = ["a"; 30].join("/");
        assert_eq!(pattern(&deep), format!("{}/…", ["a"; 24].join("/")));
    }

    #[test]
    fn rare_shapes_make_room() {
        let mut shapes = Shapes { shapes_max: 64, ..Default::default() };
        for n in 0..10_000 {
            shapes.count(KeyBuf::from_steps(["often"]).as_key(), RowKind::Find);
            shapes.count(KeyBuf::from_steps([format!("x{n}y")]).as_key(), RowKind::Add);
            assert!(shapes.counts.len() <= 64);
        }
        let first = &shapes.most_frequent(3)[0];
        assert_eq!((first.pattern.as_str(), first.rows(RowKind::Find), first.rows_all()), ("often", 10_000, 10_000));
        assert!(shapes.were_dropped());
    }
}
