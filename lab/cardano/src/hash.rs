//! Hashes and what is named by them.

use std::{fmt, str::FromStr};

use blake2b_simd::Params;

/// Defines a hash of 32 bytes that is written in hexadecimal.
macro_rules! hash {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub [u8; 32]);

        impl $name {
            /// Returns the BLAKE2b-256 hash of the parts, one after another.
            #[must_use]
            pub fn of(parts: &[&[u8]]) -> Self {
                Self(blake2b_256(parts))
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
            }
        }

        impl FromStr for $name {
            type Err = BadHash;

            fn from_str(text: &str) -> Result<Self, BadHash> {
                from_hex(text.as_bytes()).map(Self).ok_or(BadHash)
            }
        }
    };
}

hash! {
    /// The hash of a block: of its header's bytes as they stand in the block.
    BlockHash
}

hash! {
    /// The id of a transaction: the hash of its body's bytes as they stand in the block.
    TxId
}

/// Text that is not 64 hexadecimal digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not 64 hexadecimal digits")]
pub struct BadHash;

/// Names an output: the transaction that made it, and its place among that transaction's outputs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OutputRef {
    /// The transaction.
    pub tx: TxId,
    /// The place, counted from 0.
    pub index: u32,
}

impl fmt::Display for OutputRef {
    /// Writes `TRANSACTION#INDEX`, as Cardano's tools do.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}#{}", self.tx, self.index)
    }
}

/// Returns the BLAKE2b-256 hash of the parts, one after another.
pub(crate) fn blake2b_256(parts: &[&[u8]]) -> [u8; 32] {
    let mut state = Params::new().hash_length(32).to_state();
    for part in parts {
        state.update(part);
    }
    let mut hash = [0; 32];
    hash.copy_from_slice(state.finalize().as_bytes());
    hash
}

fn from_hex(text: &[u8]) -> Option<[u8; 32]> {
    from_hex_bytes(text)?.try_into().ok()
}

/// Returns the bytes that pairs of hexadecimal digits stand for.
pub(crate) fn from_hex_bytes(text: &[u8]) -> Option<Vec<u8>> {
    let digit = |byte: u8| char::from(byte).to_digit(16).map(|digit| digit as u8);
    let (pairs, rest) = text.as_chunks::<2>();
    if !rest.is_empty() {
        return None;
    }
    pairs.iter().map(|[high, low]| Some(digit(*high)? << 4 | digit(*low)?)).collect()
}
