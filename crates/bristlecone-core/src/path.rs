//! Paths: how an entry is named from the root of a tree.
//!
//! A [`Path`] is a sequence of steps, each of 1 to 4,096 bytes without `/`, kept as one run of bytes
//! joined by `/`. Steps are bytes, not text; text shows and accepts odd bytes as `%XX`. The node codec
//! itself takes any step of 0 to 4,096 bytes, so maps may have binary keys; a path may not.

use alloc::{borrow::Cow, string::String, vec::Vec};
use core::{cmp::Ordering, error, fmt, str::FromStr};

/// The longest step, in bytes.
pub const STEP_BYTES_MAX: usize = 4096;
/// The most steps in a path. Walks over stored trees stop here too, so that what they hold is bounded.
pub const PATH_STEPS_MAX: usize = 1024;

/// The place of an entry or directory: steps from the root. The empty path is the root itself.
///
/// Paths are ordered step by step, and steps by their bytes: `a`, `a/b`, `a-`. So what is below a directory comes right
/// behind it, as in a walk; it is the order of everything that gives paths in order.
///
/// ```
/// use bristlecone_core::Path;
/// let path: Path = "a/b%20c".parse()?;
/// assert_eq!(path.steps().last(), Some(&b"b c"[..]));
/// assert_eq!("a/b c".parse::<Path>()?.to_string(), "a/b c");
/// # Ok::<(), bristlecone_core::PathError>(())
/// ```
#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub struct Path {
    // Steps joined by '/'; the invariants of `from_bytes` hold.
    bytes: Vec<u8>,
}

impl Path {
    /// Returns the path of the root: no steps.
    #[must_use]
    pub const fn root() -> Self {
        Self { bytes: Vec::new() }
    }

    /// Returns the path with these steps joined by `/`, taken as they are.
    ///
    /// # Errors
    /// [`PathError`] for an empty step (also a leading, trailing or doubled `/`), a step over 4,096
    /// bytes or more than 1,024 steps.
    pub fn from_bytes(bytes: impl Into<Vec<u8>>) -> Result<Self, PathError> {
        let bytes = bytes.into();
        if bytes.is_empty() {
            return Ok(Self { bytes });
        }
        let mut count = 0;
        for step in bytes.split(|&b| b == b'/') {
            count += 1;
            if step.is_empty() {
                return Err(PathError::EmptyStep { path: escape(&bytes) });
            }
            if step.len() > STEP_BYTES_MAX {
                return Err(PathError::LongStep { bytes: step.len() });
            }
        }
        if count > PATH_STEPS_MAX {
            return Err(PathError::TooDeep { steps: count });
        }
        Ok(Self { bytes })
    }

    /// Returns the path made of these steps.
    ///
    /// # Errors
    /// As [`Path::from_bytes`], and [`PathError::Slash`] for a step that holds `/`.
    pub fn from_steps<S: AsRef<[u8]>>(steps: impl IntoIterator<Item = S>) -> Result<Self, PathError> {
        let mut path = Self::root();
        for step in steps {
            path.push(step.as_ref())?;
        }
        Ok(path)
    }

    /// Makes this the path of these steps, in the memory that it has: for callers that take many paths in turn.
    ///
    /// # Errors
    /// As [`Path::from_steps`]; this is then the root.
    pub fn set_steps<S: AsRef<[u8]>>(&mut self, steps: impl IntoIterator<Item = S>) -> Result<(), PathError> {
        self.bytes.clear();
        for (above, step) in steps.into_iter().enumerate() {
            if let Err(error) = self.append(step.as_ref(), above) {
                self.bytes.clear();
                return Err(error);
            }
        }
        Ok(())
    }

    /// Appends one step.
    ///
    /// # Errors
    /// [`PathError`] where the step or the longer path is not valid; the path is then unchanged.
    pub fn push(&mut self, step: &[u8]) -> Result<(), PathError> {
        self.append(step, self.len())
    }

    /// Appends one step to the `above` there are.
    #[inline]
    fn append(&mut self, step: &[u8], above: usize) -> Result<(), PathError> {
        if step.is_empty() {
            return Err(PathError::EmptyStep { path: escape(&self.bytes) });
        }
        if step.len() > STEP_BYTES_MAX {
            return Err(PathError::LongStep { bytes: step.len() });
        }
        if step.contains(&b'/') {
            return Err(PathError::Slash { step: escape(step) });
        }
        if above >= PATH_STEPS_MAX {
            return Err(PathError::TooDeep { steps: above + 1 });
        }
        if !self.bytes.is_empty() {
            self.bytes.push(b'/');
        }
        self.bytes.extend_from_slice(step);
        Ok(())
    }

    /// Takes the last step away; returns whether there was one.
    pub fn pop(&mut self) -> bool {
        let Some((parent, _)) = self.split_last() else { return false };
        let bytes = parent.len();
        self.bytes.truncate(bytes);
        true
    }

    /// Returns this path followed by `step`.
    ///
    /// # Errors
    /// As [`Path::push`].
    pub fn join(&self, step: &[u8]) -> Result<Self, PathError> {
        let mut path = self.clone();
        path.push(step)?;
        Ok(path)
    }

    /// Returns the steps joined by `/`.
    #[must_use]
    #[inline]
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns the steps in order.
    pub fn steps(&self) -> impl DoubleEndedIterator<Item = &[u8]> + Clone {
        let bytes = &self.bytes[..];
        bytes.split(|&b| b == b'/').filter(|step| !step.is_empty())
    }

    /// Returns the number of steps.
    #[must_use]
    pub fn len(&self) -> usize {
        if self.bytes.is_empty() { 0 } else { memchr::memchr_iter(b'/', &self.bytes).count() + 1 }
    }

    /// Whether this is the root.
    #[must_use]
    pub fn is_root(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Whether this is the root. The same as [`Path::is_root`].
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.is_root()
    }

    /// Returns the bytes of the parent's path and the last step; `None` for the root.
    #[must_use]
    #[inline]
    pub fn split_last(&self) -> Option<(&[u8], &[u8])> {
        if self.bytes.is_empty() {
            return None;
        }
        // Last steps are short: most slashes are found before a search by words would have begun.
        let near = self.bytes.len().saturating_sub(12);
        let slash = match self.bytes[near..].iter().rposition(|&byte| byte == b'/') {
            Some(at) => Some(near + at),
            None => memchr::memrchr(b'/', &self.bytes[..near]),
        };
        Some(match slash {
            Some(at) => (&self.bytes[..at], &self.bytes[at + 1..]),
            None => (&[], &self.bytes[..]),
        })
    }
}

impl Ord for Path {
    fn cmp(&self, other: &Self) -> Ordering {
        let same = self.bytes.iter().zip(&other.bytes).take_while(|(one, other)| one == other).count();
        // The end of a path comes first, then the end of a step, which no byte of a step comes before.
        let rank = |path: &Self| path.bytes.get(same).map(|&byte| (byte != b'/', byte));
        rank(self).cmp(&rank(other))
    }
}

impl PartialOrd for Path {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&escape(&self.bytes))
    }
}

impl fmt::Debug for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Path({self})")
    }
}

impl FromStr for Path {
    type Err = PathError;

    /// Parses what [`Path`]'s `Display` prints: steps joined by `/`, `%XX` for any byte.
    fn from_str(text: &str) -> Result<Self, PathError> {
        if !text.contains('%') {
            return Self::from_bytes(text.as_bytes());
        }
        if text.is_empty() {
            return Ok(Self::root());
        }
        let steps: Result<Vec<Vec<u8>>, _> = text.split('/').map(unescape).collect();
        Self::from_steps(steps?)
    }
}

/// What can be used as a path: a [`Path`], text that is parsed (`"a/b"`, `%XX` for odd bytes), or steps as they are
/// (`["a", "b"]`, or a slice or vector of them).
///
/// ```
/// # use bristlecone_core::AsPath;
/// assert_eq!("a/100%25".as_path(), ["a", "100%"].as_path());
/// assert!(["a/b"].as_path().is_err(), "a step has no slash");
/// ```
pub trait AsPath {
    /// Returns the path.
    ///
    /// # Errors
    /// [`PathError`] if the text is no path.
    fn as_path(&self) -> Result<Cow<'_, Path>, PathError>;
}

impl AsPath for Path {
    #[inline]
    fn as_path(&self) -> Result<Cow<'_, Path>, PathError> {
        Ok(Cow::Borrowed(self))
    }
}

impl AsPath for str {
    fn as_path(&self) -> Result<Cow<'_, Path>, PathError> {
        self.parse().map(Cow::Owned)
    }
}

impl AsPath for String {
    fn as_path(&self) -> Result<Cow<'_, Path>, PathError> {
        self.parse().map(Cow::Owned)
    }
}

impl<S: AsRef<str>> AsPath for [S] {
    fn as_path(&self) -> Result<Cow<'_, Path>, PathError> {
        Path::from_steps(self.iter().map(|step| step.as_ref().as_bytes())).map(Cow::Owned)
    }
}

impl<S: AsRef<str>, const N: usize> AsPath for [S; N] {
    fn as_path(&self) -> Result<Cow<'_, Path>, PathError> {
        self[..].as_path()
    }
}

impl<S: AsRef<str>> AsPath for Vec<S> {
    fn as_path(&self) -> Result<Cow<'_, Path>, PathError> {
        self[..].as_path()
    }
}

impl<T: AsPath + ?Sized> AsPath for &T {
    #[inline]
    fn as_path(&self) -> Result<Cow<'_, Path>, PathError> {
        (**self).as_path()
    }
}

/// Shows bytes as text: printable UTF-8 as it is, `%` and everything else as `%XX`.
#[must_use]
pub fn escape(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        for c in chunk.valid().chars() {
            if c == '%' || c.is_control() {
                let mut buffer = [0; 4];
                push_escaped(&mut text, c.encode_utf8(&mut buffer).as_bytes());
            } else {
                text.push(c);
            }
        }
        push_escaped(&mut text, chunk.invalid());
    }
    text
}

fn push_escaped(text: &mut String, bytes: &[u8]) {
    for byte in bytes {
        text.push('%');
        for digit in [byte >> 4, byte & 15] {
            text.push(char::from(b"0123456789ABCDEF"[usize::from(digit)]));
        }
    }
}

fn unescape(text: &str) -> Result<Vec<u8>, PathError> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, tail)) = rest.split_first() {
        if first != b'%' {
            bytes.push(first);
            rest = tail;
            continue;
        }
        let value = tail.get(..2).and_then(|pair| {
            let high = char::from(pair[0]).to_digit(16)?;
            let low = char::from(pair[1]).to_digit(16)?;
            Some((high * 16 + low) as u8)
        });
        bytes.push(value.ok_or_else(|| PathError::Escape { step: text.into() })?);
        rest = &tail[2..];
    }
    Ok(bytes)
}

/// Why text or bytes are not a path.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PathError {
    /// A step is empty.
    EmptyStep {
        /// The path, shown as text.
        path: String,
    },
    /// A step holds a slash.
    Slash {
        /// The step, shown as text.
        step: String,
    },
    /// A step is too long.
    LongStep {
        /// Its length in bytes.
        bytes: usize,
    },
    /// Too many steps.
    TooDeep {
        /// How many it has.
        steps: usize,
    },
    /// A percent sign without two hexadecimal digits.
    Escape {
        /// The step as written.
        step: String,
    },
}

impl fmt::Display for PathError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::EmptyStep { path } => write!(
                f,
                "the path \"{path}\" has an empty step; steps are separated by single slashes, with none at either end"
            ),
            Self::Slash { step } => write!(f, "the step \"{step}\" holds a slash, which separates steps"),
            Self::LongStep { bytes } => write!(f, "a step has at most {STEP_BYTES_MAX} bytes, not {bytes}"),
            Self::TooDeep { steps } => write!(f, "a path has at most {PATH_STEPS_MAX} steps, not {steps}"),
            Self::Escape { step } => write!(
                f,
                "in \"{step}\" a percent sign is not followed by two hexadecimal digits; write %25 for the sign itself"
            ),
        }
    }
}

impl error::Error for PathError {}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn text_round_trips_for_every_byte() {
        let all: Vec<u8> = (0..=255).filter(|&b| b != b'/').collect();
        let path = Path::from_steps([&all[..], b"plain", "\u{e9}t\u{e9}".as_bytes()]).unwrap();
        assert_eq!(path.to_string().parse(), Ok(path));
    }

    #[test]
    fn refuses_what_is_no_path() {
        for text in ["/a", "a/", "a//b", "/", "a/%2", "a/%zz", "%2F", "%"] {
            assert!(text.parse::<Path>().is_err(), "{text}");
        }
        assert!(Path::from_bytes(alloc::vec![b'a'; 4097]).is_err());
        let deep = alloc::vec!["a"; 1025].join("/");
        assert!(deep.parse::<Path>().is_err());
        assert!(deep[2..].parse::<Path>().is_ok());
    }

    #[test]
    fn steps_are_a_path_however_they_are_kept() {
        let (array, kept) = (["a", "b%"], alloc::vec![String::from("a"), String::from("b%")]);
        let path = Path::from_steps(array).unwrap();
        assert_eq!(array.as_path().as_deref(), Ok(&path));
        assert_eq!(kept.as_path().as_deref(), Ok(&path));
        assert_eq!(kept[..].as_path().as_deref(), Ok(&path));
        assert!(alloc::vec!["a/b"].as_path().is_err());
    }

    #[test]
    fn set_again_it_is_the_path_of_the_new_steps() {
        let mut path = Path::root();
        for steps in [&["a", "b"][..], &["c"], &[], &["x", "y", "z"]] {
            path.set_steps(steps).unwrap();
            assert_eq!(path, Path::from_steps(steps).unwrap());
        }
        for steps in [&["a", ""][..], &["a/b"], &["a"; 1025]] {
            assert_eq!(path.set_steps(steps), Path::from_steps(steps).map(|_| ()));
            assert!(path.is_root());
        }
    }

    #[test]
    fn splits_parent_and_last_step() {
        let path: Path = "a/b/c".parse().unwrap();
        assert_eq!(path.split_last(), Some((&b"a/b"[..], &b"c"[..])));
        assert_eq!(path.len(), 3);
        assert_eq!(Path::root().split_last(), None);
        assert_eq!(Path::root().steps().count(), 0);
    }

    #[test]
    fn steps_are_taken_away_from_the_end() {
        let mut path: Path = "a/b-c/d".parse().unwrap();
        for left in ["a/b-c", "a", ""] {
            assert!(path.pop());
            assert_eq!(path, left.parse().unwrap());
        }
        assert!(!path.pop());
    }

    #[test]
    fn paths_are_ordered_step_by_step() {
        let texts = ["", "a", "a/%01", "a/b", "a/b/c", "a/b-", "a%01", "a!/x", "a-", "a-/b", "a.b", "a0", "%C3%A4"];
        let paths: Vec<Path> = texts.iter().map(|text| text.parse().unwrap()).collect();
        for (i, one) in paths.iter().enumerate() {
            for (j, other) in paths.iter().enumerate() {
                assert_eq!(one.cmp(other), i.cmp(&j), "{one} {other}");
                assert!(one.steps().cmp(other.steps()) == i.cmp(&j));
            }
        }
    }
}
