//! Keys and values of other types than bytes.

use std::{error, fmt};

/// Bytes that are none of the type that a map has.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CodecError {
    /// Fewer or more bytes than the type has.
    Length {
        /// The type.
        type_name: &'static str,
        /// How many bytes there are.
        bytes: usize,
    },
    /// Bytes that make no sense as that type.
    Invalid {
        /// The type.
        type_name: &'static str,
        /// What is wrong.
        reason: String,
    },
}

impl fmt::Display for CodecError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Length { type_name, bytes } => write!(f, "{bytes} bytes are no {type_name}"),
            Self::Invalid { type_name, reason } => write!(f, "the bytes are no {type_name}: {reason}"),
        }
    }
}

impl error::Error for CodecError {}

/// A type of keys.
///
/// **Law (order).** `a < b` if and only if the bytes of `a` are before those of `b`; equal keys have equal bytes.
///
/// **Law (parts).** Parts that are written one after another are read back in turn, and order as tuples do.
///
/// Integers are big-endian, signed ones with the sign bit flipped. Text and bytes are taken as they are; as a part of a tuple
/// but alone each zero byte is written as 0, 255, and 0, 1 ends them.
///
/// ```
/// # use bristlecone::MapKey;
/// assert!((-1_i64).to_bytes().as_ref() < 0_i64.to_bytes().as_ref());
/// let pair = (String::from("a"), -5_i16);
/// assert_eq!(<(String, i16)>::from_bytes(&pair.to_bytes())?, pair);
/// # Ok::<(), bristlecone::CodecError>(())
/// ```
pub trait MapKey: Sized {
    /// The bytes of a key.
    type Bytes<'k>: AsRef<[u8]>
    where
        Self: 'k;

    /// Returns the bytes of the key.
    fn to_bytes(&self) -> Self::Bytes<'_>;

    /// Returns the key with these bytes.
    ///
    /// # Errors
    /// [`CodecError`] for bytes that no key has.
    fn from_bytes(bytes: &[u8]) -> Result<Self, CodecError>;

    /// Appends the key as a part of a tuple: so that it is known where it ends.
    fn write_part(&self, out: &mut Vec<u8>);

    /// Reads such a part and goes behind it.
    ///
    /// # Errors
    /// [`CodecError`] for bytes that do not begin with a part.
    fn read_part(bytes: &mut &[u8]) -> Result<Self, CodecError>;
}

/// A type of values.
///
/// **Law.** `from_bytes(to_bytes(v)) == v`. Equal values should have equal bytes, or maps with equal entries have different
/// roots.
pub trait MapValue: Sized {
    /// The bytes of a value.
    type Bytes<'v>: AsRef<[u8]>
    where
        Self: 'v;

    /// Returns the bytes of the value.
    fn to_bytes(&self) -> Self::Bytes<'_>;

    /// Returns the value with these bytes.
    ///
    /// # Errors
    /// [`CodecError`] for bytes that no value has.
    fn from_bytes(bytes: &[u8]) -> Result<Self, CodecError>;
}

/// Integers as keys, and as values in the same bytes; `$flip` turns a number into one that orders without a sign.
macro_rules! integers {
    ($($type:ident, $unsigned:ident, $flip:expr;)*) => {$(
        impl MapKey for $type {
            type Bytes<'k> = [u8; size_of::<$type>()];

            #[inline]
            fn to_bytes(&self) -> Self::Bytes<'_> {
                (*self as $unsigned ^ $flip).to_be_bytes()
            }

            #[inline]
            fn from_bytes(bytes: &[u8]) -> Result<Self, CodecError> {
                match bytes.try_into() {
                    Ok(bytes) => Ok(($unsigned::from_be_bytes(bytes) ^ $flip) as $type),
                    Err(_) => Err(CodecError::Length { type_name: stringify!($type), bytes: bytes.len() }),
                }
            }

            fn write_part(&self, out: &mut Vec<u8>) {
                out.extend_from_slice(&MapKey::to_bytes(self));
            }

            fn read_part(bytes: &mut &[u8]) -> Result<Self, CodecError> {
                let Some((part, rest)) = bytes.split_at_checked(size_of::<$type>()) else {
                    return Err(CodecError::Length { type_name: stringify!($type), bytes: bytes.len() });
                };
                *bytes = rest;
                <Self as MapKey>::from_bytes(part)
            }
        }

        impl MapValue for $type {
            type Bytes<'v> = [u8; size_of::<$type>()];

            #[inline]
            fn to_bytes(&self) -> Self::Bytes<'_> {
                MapKey::to_bytes(self)
            }

            #[inline]
            fn from_bytes(bytes: &[u8]) -> Result<Self, CodecError> {
                MapKey::from_bytes(bytes)
            }
        }
    )*};
}

integers! {
    u8, u8, 0;
    u16, u16, 0;
    u32, u32, 0;
    u64, u64, 0;
    u128, u128, 0;
    i8, u8, 1 << 7;
    i16, u16, 1 << 15;
    i32, u32, 1 << 31;
    i64, u64, 1 << 63;
    i128, u128, 1 << 127;
}

/// In a part, a zero byte is followed by this one.
const ZERO: u8 = 255;
/// A part ends with a zero byte and this one, which is smaller.
const END: u8 = 1;

fn write_run(run: &[u8], out: &mut Vec<u8>) {
    for &byte in run {
        out.push(byte);
        if byte == 0 {
            out.push(ZERO);
        }
    }
    out.extend([0, END]);
}

fn read_run(bytes: &mut &[u8], type_name: &'static str) -> Result<Vec<u8>, CodecError> {
    let mut run = Vec::new();
    let mut rest = bytes.iter();
    while let Some(&byte) = rest.next() {
        match byte {
            0 => match rest.next() {
                Some(&ZERO) => run.push(0),
                Some(&END) => {
                    *bytes = rest.as_slice();
                    return Ok(run);
                }
                _ => break,
            },
            byte => run.push(byte),
        }
    }
    Err(CodecError::Invalid { type_name, reason: "a part of a key has no end".into() })
}

fn text(bytes: &[u8]) -> Result<String, CodecError> {
    match std::str::from_utf8(bytes) {
        Ok(text) => Ok(text.to_owned()),
        Err(error) => Err(CodecError::Invalid { type_name: "text", reason: error.to_string() }),
    }
}

impl MapKey for Vec<u8> {
    type Bytes<'k> = &'k [u8];

    fn to_bytes(&self) -> &[u8] {
        self
    }

    fn from_bytes(bytes: &[u8]) -> Result<Self, CodecError> {
        Ok(bytes.to_vec())
    }

    fn write_part(&self, out: &mut Vec<u8>) {
        write_run(self, out);
    }

    fn read_part(bytes: &mut &[u8]) -> Result<Self, CodecError> {
        read_run(bytes, "byte string")
    }
}

impl MapKey for String {
    type Bytes<'k> = &'k str;

    fn to_bytes(&self) -> &str {
        self
    }

    fn from_bytes(bytes: &[u8]) -> Result<Self, CodecError> {
        text(bytes)
    }

    fn write_part(&self, out: &mut Vec<u8>) {
        write_run(self.as_bytes(), out);
    }

    fn read_part(bytes: &mut &[u8]) -> Result<Self, CodecError> {
        text(&read_run(bytes, "text")?)
    }
}

impl MapKey for () {
    type Bytes<'k> = [u8; 0];

    fn to_bytes(&self) -> [u8; 0] {
        []
    }

    fn from_bytes(bytes: &[u8]) -> Result<Self, CodecError> {
        if bytes.is_empty() { Ok(()) } else { Err(CodecError::Length { type_name: "()", bytes: bytes.len() }) }
    }

    fn write_part(&self, _: &mut Vec<u8>) {}

    fn read_part(_: &mut &[u8]) -> Result<Self, CodecError> {
        Ok(())
    }
}

/// Tuples of keys, which order as their parts do.
macro_rules! tuples {
    ($(($($part:ident $place:tt),*))*) => {$(
        impl<$($part: MapKey),*> MapKey for ($($part,)*) {
            type Bytes<'k> = Vec<u8> where Self: 'k;

            fn to_bytes(&self) -> Vec<u8> {
                let mut out = Vec::new();
                self.write_part(&mut out);
                out
            }

            fn from_bytes(mut bytes: &[u8]) -> Result<Self, CodecError> {
                let key = Self::read_part(&mut bytes)?;
                if bytes.is_empty() { Ok(key) } else { Err(CodecError::Length { type_name: "tuple", bytes: bytes.len() }) }
            }

            fn write_part(&self, out: &mut Vec<u8>) {
                $(self.$place.write_part(out);)*
            }

            fn read_part(bytes: &mut &[u8]) -> Result<Self, CodecError> {
                Ok(($($part::read_part(bytes)?,)*))
            }
        }
    )*};
}

tuples! {
    (A 0, B 1)
    (A 0, B 1, C 2)
    (A 0, B 1, C 2, D 3)
}

impl MapValue for Vec<u8> {
    type Bytes<'v> = &'v [u8];

    fn to_bytes(&self) -> &[u8] {
        self
    }

    fn from_bytes(bytes: &[u8]) -> Result<Self, CodecError> {
        Ok(bytes.to_vec())
    }
}

impl MapValue for String {
    type Bytes<'v> = &'v str;

    fn to_bytes(&self) -> &str {
        self
    }

    fn from_bytes(bytes: &[u8]) -> Result<Self, CodecError> {
        text(bytes)
    }
}

impl MapValue for () {
    type Bytes<'v> = [u8; 0];

    fn to_bytes(&self) -> [u8; 0] {
        []
    }

    fn from_bytes(bytes: &[u8]) -> Result<Self, CodecError> {
        <Self as MapKey>::from_bytes(bytes)
    }
}

/// A value that serde makes JSON of, in the order of its fields: small, and read by everything.
///
/// Maps within values should be sorted ones, as `BTreeMap` is: a hash map has another order each time, and so another root. A number
/// with a fraction comes back bit by bit; infinities and what is no number JSON has not: they are written as `null` and cannot be read.
///
/// ```
/// # use bristlecone::{Json, Repo, TypedMap};
/// let mut points: TypedMap<u32, Json<(i32, i32)>> = Repo::memory().map().into();
/// points.insert(&7, &Json((1, -2)))?;
/// assert_eq!(points.get(&7)?, Some(Json((1, -2))));
/// # Ok::<(), bristlecone::Error>(())
/// ```
#[cfg(feature = "serde")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Json<T>(pub T);

#[cfg(feature = "serde")]
impl<T: serde_core::Serialize + serde_core::de::DeserializeOwned> MapValue for Json<T> {
    type Bytes<'v>
        = Vec<u8>
    where
        Self: 'v;

    /// # Panics
    /// If the value's own `Serialize` fails, or it has a map whose keys are no text or numbers.
    fn to_bytes(&self) -> Vec<u8> {
        serde_json::to_vec(&self.0).expect("the value serializes")
    }

    fn from_bytes(bytes: &[u8]) -> Result<Self, CodecError> {
        let value = serde_json::from_slice(bytes);
        value
            .map(Self)
            .map_err(|error| CodecError::Invalid { type_name: "JSON of the value's type", reason: error.to_string() })
    }
}
