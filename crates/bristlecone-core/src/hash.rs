//! Object ids: raw digest bytes of up to 32 bytes, with their length.
//!
//! An [`Oid`] says nothing about which hash made it; formats do. It is `Copy`, ordered by its bytes
//! and prints as lower-case hexadecimal.

use alloc::string::String;
use core::{error, fmt, hash, ops::RangeInclusive, str::FromStr};

/// The id of an object: the digest of its hashed bytes, 1 to 32 bytes long.
///
/// `oid.to_string().parse::<Oid>() == Ok(oid)`.
#[derive(Clone, Copy, Eq, PartialOrd, Ord)]
pub struct Oid {
    bytes: [u8; Self::BYTES_MAX],
    len: u8,
}

impl Oid {
    /// The longest digest that an id holds, in bytes.
    pub const BYTES_MAX: usize = 32;

    /// Returns the id with these digest bytes.
    ///
    /// # Errors
    /// [`OidError::Length`] unless there are 1 to 32 bytes.
    pub fn new(digest: &[u8]) -> Result<Self, OidError> {
        if digest.is_empty() || digest.len() > Self::BYTES_MAX {
            return Err(OidError::Length { bytes: digest.len() });
        }
        let mut bytes = [0; Self::BYTES_MAX];
        bytes[..digest.len()].copy_from_slice(digest);
        Ok(Self { bytes, len: digest.len() as u8 })
    }

    /// Returns the id of a 32-byte digest.
    #[must_use]
    pub const fn from_array(bytes: [u8; 32]) -> Self {
        Self { bytes, len: 32 }
    }

    /// Returns the digest bytes.
    #[must_use]
    #[inline]
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }

    /// Returns the digest padded with zeroes to 32 bytes, as records on disk hold it.
    #[must_use]
    #[inline]
    pub const fn padded(&self) -> &[u8; 32] {
        &self.bytes
    }

    /// Returns the first eight bytes as an integer: enough to place an id in a table.
    #[must_use]
    #[inline]
    pub fn prefix(&self) -> u64 {
        let mut word = [0; 8];
        word.copy_from_slice(&self.bytes[..8]);
        u64::from_le_bytes(word)
    }
}

impl PartialEq for Oid {
    #[inline]
    fn eq(&self, other: &Self) -> bool {
        // Different digests differ in their first word, all but surely: no call is made for them.
        self.prefix() == other.prefix() && self.bytes == other.bytes && self.len == other.len
    }
}

impl hash::Hash for Oid {
    fn hash<H: hash::Hasher>(&self, state: &mut H) {
        // A digest is already uniform; one word of it is as good as all.
        state.write_u64(self.prefix());
    }
}

impl AsRef<[u8]> for Oid {
    fn as_ref(&self) -> &[u8] {
        self.as_bytes()
    }
}

impl TryFrom<&[u8]> for Oid {
    type Error = OidError;

    /// As [`Oid::new`].
    fn try_from(digest: &[u8]) -> Result<Self, OidError> {
        Self::new(digest)
    }
}

impl fmt::Display for Oid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for byte in self.as_bytes() {
            write!(f, "{byte:02x}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Oid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Oid({self})")
    }
}

impl FromStr for Oid {
    type Err = OidError;

    fn from_str(text: &str) -> Result<Self, OidError> {
        let digits = text.as_bytes();
        if !digits.len().is_multiple_of(2) {
            return Err(OidError::OddDigits { digits: digits.len() });
        }
        if digits.is_empty() || digits.len() > 2 * Self::BYTES_MAX {
            return Err(OidError::Length { bytes: digits.len() / 2 });
        }
        let mut bytes = [0; Self::BYTES_MAX];
        for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
            *byte = hex_digit(pair[0])? << 4 | hex_digit(pair[1])?;
        }
        Ok(Self { bytes, len: (digits.len() / 2) as u8 })
    }
}

/// The first digits of an id: 1 to 64 hexadecimal ones, of either case.
///
/// `prefix.to_string().parse::<OidPrefix>() == Ok(prefix)`, in lower case.
///
/// ```
/// use bristlecone_core::{Oid, OidPrefix};
///
/// let prefix: OidPrefix = "1f3".parse()?;
/// assert!(prefix.matches(&"1f3a".parse::<Oid>()?));
/// assert!(!prefix.matches(&"1f4a".parse::<Oid>()?));
/// # Ok::<(), bristlecone_core::OidError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct OidPrefix {
    bytes: [u8; Oid::BYTES_MAX],
    digits: u8,
}

impl OidPrefix {
    /// Whether an id begins with these digits.
    #[must_use]
    pub fn matches(&self, oid: &Oid) -> bool {
        let whole = usize::from(self.digits / 2);
        let bytes = oid.as_bytes();
        bytes.starts_with(&self.bytes[..whole])
            && (self.digits.is_multiple_of(2) || bytes.get(whole).is_some_and(|byte| byte & 0xf0 == self.bytes[whole]))
    }

    /// Returns the bytes of the least such id, up to the last digit.
    #[must_use]
    pub fn least(&self) -> &[u8] {
        &self.bytes[..usize::from(self.digits.div_ceil(2))]
    }

    /// Returns what the first eight bytes of such ids may be, as big-endian integers.
    #[must_use]
    pub fn first_words(&self) -> RangeInclusive<u64> {
        let mut word = [0; 8];
        word.copy_from_slice(&self.bytes[..8]);
        let low = u64::from_be_bytes(word);
        let free_bits = 64 - u32::from(self.digits.min(16)) * 4;
        low..=low | 1_u64.checked_shl(free_bits).unwrap_or(0).wrapping_sub(1)
    }
}

impl From<Oid> for OidPrefix {
    /// All digits of an id.
    fn from(oid: Oid) -> Self {
        Self { bytes: *oid.padded(), digits: 2 * oid.as_bytes().len() as u8 }
    }
}

impl fmt::Display for OidPrefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for index in 0..usize::from(self.digits) {
            let byte = self.bytes[index / 2];
            write!(f, "{:x}", if index % 2 == 0 { byte >> 4 } else { byte & 15 })?;
        }
        Ok(())
    }
}

impl FromStr for OidPrefix {
    type Err = OidError;

    fn from_str(text: &str) -> Result<Self, OidError> {
        let digits = text.as_bytes();
        if digits.is_empty() || digits.len() > 2 * Oid::BYTES_MAX {
            return Err(OidError::Length { bytes: digits.len() / 2 });
        }
        let mut bytes = [0; Oid::BYTES_MAX];
        for (index, &digit) in digits.iter().enumerate() {
            bytes[index / 2] |= hex_digit(digit)? << if index % 2 == 0 { 4 } else { 0 };
        }
        Ok(Self { bytes, digits: digits.len() as u8 })
    }
}

/// The hash that ids of Git's objects are made by. What it hashes is in `git`, with the feature of that name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Algorithm {
    /// SHA-1: ids of 20 bytes.
    #[default]
    Sha1,
    /// SHA-256: ids of 32 bytes.
    Sha256,
}

impl Algorithm {
    /// Returns the length of an id in bytes.
    #[must_use]
    pub const fn oid_bytes(self) -> usize {
        match self {
            Self::Sha1 => 20,
            Self::Sha256 => 32,
        }
    }

    /// Returns the name, as Git's configuration and the option `hash` write it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sha1 => "sha1",
            Self::Sha256 => "sha256",
        }
    }

    /// Returns the algorithm with this name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::Sha1, Self::Sha256].into_iter().find(|one| one.name() == name)
    }
}

impl fmt::Display for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Returns `bytes` as lower-case hexadecimal.
#[must_use]
pub fn to_hex(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        for digit in [byte >> 4, byte & 15] {
            text.push(char::from(b"0123456789abcdef"[usize::from(digit)]));
        }
    }
    text
}

fn hex_digit(digit: u8) -> Result<u8, OidError> {
    match digit {
        b'0'..=b'9' => Ok(digit - b'0'),
        b'a'..=b'f' => Ok(digit - b'a' + 10),
        b'A'..=b'F' => Ok(digit - b'A' + 10),
        _ => Err(OidError::Digit { digit }),
    }
}

/// Why bytes or text are not an object id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum OidError {
    /// The digest is empty or too long.
    Length {
        /// How many bytes were given.
        bytes: usize,
    },
    /// A byte is written as two digits, and there is one too few.
    OddDigits {
        /// How many digits were given.
        digits: usize,
    },
    /// The id of a commit, a tree or a tag is not whole.
    Short {
        /// How many bytes were given.
        bytes: usize,
    },
    /// A character is no hexadecimal digit.
    Digit {
        /// The offending byte.
        digit: u8,
    },
}

impl fmt::Display for OidError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Length { bytes } => {
                write!(f, "an object id has 1 to 32 bytes (2 to 64 hexadecimal digits), not {bytes} bytes")
            }
            Self::OddDigits { digits } => {
                write!(f, "an object id is written in pairs of hexadecimal digits; {digits} were given, which is odd")
            }
            Self::Short { bytes } => {
                write!(f, "a whole id has 40 or 64 hexadecimal digits, not {}; a revision may be shorter", 2 * bytes)
            }
            Self::Digit { digit } => {
                write!(f, "an object id is written in hexadecimal digits; found byte {digit:#04x}")
            }
        }
    }
}

impl error::Error for OidError {}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn text_round_trips_at_every_length() {
        for len in 1..=32 {
            let digest: alloc::vec::Vec<u8> = (0..len).map(|n| n * 7 + 3).collect();
            let oid = Oid::new(&digest).unwrap();
            assert_eq!(oid.as_bytes(), &digest[..]);
            assert_eq!(Oid::try_from(AsRef::<[u8]>::as_ref(&oid)), Ok(oid));
            assert_eq!(oid.to_string().parse(), Ok(oid));
            assert_eq!(oid.to_string(), to_hex(&digest));
        }
    }

    #[test]
    fn refuses_odd_lengths_and_other_characters() {
        assert!(Oid::new(&[]).is_err());
        assert!(Oid::new(&[0; 33]).is_err());
        assert!("".parse::<Oid>().is_err());
        assert!("abc".parse::<Oid>().is_err());
        assert!("zz".parse::<Oid>().is_err());
        assert!("é9".parse::<Oid>().is_err());
    }

    #[test]
    fn prefixes_match_the_ids_whose_digits_they_are() {
        let oid = Oid::from_array(core::array::from_fn(|index| (index as u8).wrapping_mul(37).wrapping_add(0x1e)));
        let short = Oid::new(&oid.as_bytes()[..3]).unwrap();
        let text = oid.to_string();
        for digits in 1..=64 {
            let prefix: OidPrefix = text[..digits].to_uppercase().parse().unwrap();
            assert!(prefix.matches(&oid) && prefix.first_words().contains(&oid.prefix().swap_bytes()), "{digits}");
            assert_eq!(prefix.matches(&short), digits <= 6, "{digits}");
            assert_eq!(prefix.to_string(), text[..digits]);
            for byte in 0..32 {
                let mut other = *oid.padded();
                other[byte] ^= 1;
                let other = Oid::from_array(other);
                let same = other.to_string().starts_with(&text[..digits]);
                assert_eq!(prefix.matches(&other), same, "{digits}, {byte}");
                let word = other.prefix().swap_bytes();
                assert_eq!(prefix.first_words().contains(&word), same || byte > 7, "{digits}, {byte}");
            }
        }
        assert_eq!("".parse::<OidPrefix>(), Err(OidError::Length { bytes: 0 }));
        assert!(matches!("12g".parse::<OidPrefix>(), Err(OidError::Digit { .. })));
        assert!("1".repeat(65).parse::<OidPrefix>().is_err());
    }
}
