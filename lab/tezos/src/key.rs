//! Keys in the trace's own encoding, so that a row needs no allocation to be read or written.

use std::fmt;

use bristlecone::escape;

use crate::{cursor::Cursor, encode::put_string};

/// Messages show so many bytes of a key, slashes between steps included.
const SHOWN_BYTES_MAX: usize = 4096;

/// A key: a path as a list of steps, in the trace's own encoding (a count, then each step with its length).
///
/// Steps are any bytes: empty ones and ones with slashes are legal in a trace.
#[derive(Clone, Copy, Debug, Default)]
pub struct Key<'a> {
    // The steps, each with its length as a varint in front; checked when the row was decoded.
    pub(crate) steps: &'a [u8],
    pub(crate) count: usize,
}

impl<'a> Key<'a> {
    /// Returns the steps, from the root down.
    #[inline]
    pub fn steps(&self) -> impl Iterator<Item = &'a [u8]> + Clone + use<'a> {
        self.walk()
    }

    #[inline]
    pub(crate) const fn walk(&self) -> Steps<'a> {
        Steps { cursor: Cursor::new(self.steps), left: self.count }
    }

    /// Returns the number of steps.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.count
    }

    /// Whether it is the root: no steps.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Returns the key as messages have it: as it is displayed, but that a very long one is cut.
    pub(crate) fn shown(&self) -> String {
        let (mut shown, mut left) = (String::new(), SHOWN_BYTES_MAX);
        for (index, step) in self.steps().enumerate() {
            if index > 0 {
                shown.push('/');
            }
            let end = step.len().min(left);
            shown.push_str(&escape(&step[..end]).replace('/', "%2F"));
            if end < step.len() || left == 0 {
                shown.push('…');
                break;
            }
            left = (left - end).saturating_sub(1);
        }
        shown
    }

    /// Returns a copy of it.
    #[must_use]
    pub fn to_buf(&self) -> KeyBuf {
        let mut owned = KeyBuf::new();
        owned.set(*self);
        owned
    }
}

/// Equal steps: lengths may be encoded in several ways.
impl PartialEq for Key<'_> {
    fn eq(&self, other: &Key<'_>) -> bool {
        self.count == other.count && (self.steps == other.steps || self.steps().eq(other.steps()))
    }
}

impl Eq for Key<'_> {}

/// Steps joined by `/`; bytes that are no text, and slashes inside a step, as `%XX`.
impl fmt::Display for Key<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, step) in self.steps().enumerate() {
            if index > 0 {
                f.write_str("/")?;
            }
            f.write_str(&escape(step).replace('/', "%2F"))?;
        }
        Ok(())
    }
}

/// The steps of a key.
#[derive(Clone)]
pub(crate) struct Steps<'a> {
    cursor: Cursor<'a>,
    left: usize,
}

impl<'a> Steps<'a> {
    /// Returns the steps from here to `end`, which is further in the same key.
    pub(crate) fn until(&self, end: &Self) -> Key<'a> {
        Key { steps: self.cursor.until(&end.cursor), count: self.left - end.left }
    }

    /// Returns the steps from here on.
    pub(crate) fn as_key(&self) -> Key<'a> {
        Key { steps: self.cursor.rest(), count: self.left }
    }
}

impl<'a> Iterator for Steps<'a> {
    type Item = &'a [u8];

    #[inline]
    fn next(&mut self) -> Option<&'a [u8]> {
        self.left = self.left.checked_sub(1)?;
        // The bytes are sound: nothing ends early.
        self.cursor.string().ok()
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl ExactSizeIterator for Steps<'_> {}

/// A key that owns its bytes, to be filled again and again.
#[derive(Clone, Debug, Default)]
pub struct KeyBuf {
    pub(crate) steps: Vec<u8>,
    pub(crate) count: usize,
}

impl KeyBuf {
    /// Returns the key of the root: no steps.
    #[must_use]
    pub const fn new() -> Self {
        Self { steps: Vec::new(), count: 0 }
    }

    /// Returns the key made of these steps.
    #[must_use]
    pub fn from_steps<S: AsRef<[u8]>>(steps: impl IntoIterator<Item = S>) -> Self {
        let mut key = Self::new();
        for step in steps {
            key.push(step.as_ref());
        }
        key
    }

    /// Removes all steps and keeps the space.
    pub fn clear(&mut self) {
        self.steps.clear();
        self.count = 0;
    }

    /// Makes it equal to `key`.
    #[inline]
    pub fn set(&mut self, key: Key<'_>) {
        self.clear();
        self.append(key);
    }

    /// Appends the steps of `key`.
    #[inline]
    pub fn append(&mut self, key: Key<'_>) {
        self.steps.extend_from_slice(key.steps);
        self.count += key.count;
    }

    /// Appends one step, of any bytes.
    pub fn push(&mut self, step: &[u8]) {
        put_string(&mut self.steps, step);
        self.count += 1;
    }

    /// Returns the key.
    #[must_use]
    pub fn as_key(&self) -> Key<'_> {
        Key { steps: &self.steps, count: self.count }
    }
}

impl PartialEq for KeyBuf {
    fn eq(&self, other: &Self) -> bool {
        self.as_key() == other.as_key()
    }
}

impl Eq for KeyBuf {}

impl fmt::Display for KeyBuf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_key().fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_come_back_as_they_went_in() {
        let long = vec![7; 300];
        let steps: [&[u8]; 5] = [b"data", b"", b"a/b", &long, b"\xff%"];
        let mut key = KeyBuf::from_steps(steps);
        assert_eq!(key.as_key().len(), 5);
        assert_eq!(key.as_key().steps().collect::<Vec<_>>(), steps);
        assert_eq!(KeyBuf::from_steps(["data", "", "a/b", "\u{e9}%"]).to_string(), "data//a%2Fb/\u{e9}%25");
        assert_eq!(KeyBuf::from_steps([&b"a"[..], b"\xff"]).to_string(), "a/%FF");
        key.clear();
        assert!(key.as_key().is_empty() && key == KeyBuf::new());
    }

    #[test]
    fn very_long_keys_are_cut_in_messages() {
        let longest = "x".repeat(SHOWN_BYTES_MAX);
        for steps in [&["a", "b/c", ""][..], &["data"; 500], &[&longest[..]], &[]] {
            let key = KeyBuf::from_steps(steps);
            assert_eq!(key.as_key().shown(), key.to_string());
        }
        for steps in [vec!["x".repeat(1 << 20)], vec![String::new(); 1 << 20], vec!["data".to_owned(); 1 << 20]] {
            let key = KeyBuf::from_steps(&steps);
            let shown = key.as_key().shown();
            let start = shown.strip_suffix('…').unwrap();
            assert!((4000..=4097).contains(&start.len()) && key.to_string().starts_with(start), "{}", start.len());
        }
    }

    #[test]
    fn equal_steps_are_equal_keys() {
        // The same step with its length in one byte and in two.
        let (short, long) = (Key { steps: b"\x01a", count: 1 }, Key { steps: b"\x81\x00a", count: 1 });
        assert_eq!(short, long);
        assert_ne!(short, Key { steps: b"\x01b", count: 1 });
        assert_ne!(KeyBuf::from_steps(["ab"]), KeyBuf::from_steps(["a", "b"]));
    }
}
