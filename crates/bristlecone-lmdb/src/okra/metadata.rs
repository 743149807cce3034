//! The metadata of a map: whose file it is, and how its tree is made.

use super::{
    error::{OkraError, Result},
    node::{FANOUT, HASH_BYTES, hex},
};

const MAGIC: [u8; 4] = *b"okra";

/// The version of the layout.
pub const VERSION: u8 = 3;

/// What the entries of a map hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mode {
    /// Values. The map hashes the entries.
    Store,
    /// Hashes that the caller gives, and no values. Roots, differences and copies go by these alone, so a hash must depend on its key,
    /// too: two maps with the same hashes in the same order at other keys have the same root, and count as equal.
    Index,
}

/// The metadata of a map of this program: constants and a mode.
pub(super) struct Metadata {
    pub(super) mode: Mode,
}

impl Metadata {
    pub(super) fn new(mode: Mode) -> Self {
        Self { mode }
    }

    /// 11 = 4 magic + 1 version + 1 `K` + 4 `Q` + 1 mode.
    pub(super) fn encode(&self) -> [u8; 11] {
        let ([a, b, c, d], [e, f, g, h]) = (MAGIC, FANOUT.to_be_bytes());
        [a, b, c, d, VERSION, HASH_BYTES as u8, e, f, g, h, mode_byte(self.mode)]
    }

    /// Decodes metadata, or says what they are instead; `mode` is the one that the caller wants, if any.
    pub(super) fn decode(file: &str, bytes: &[u8], mode: Option<Mode>) -> Result<Self> {
        let expected = match mode {
            None => "an Okra map with K 16, Q 32, version 3".to_owned(),
            Some(mode) => format!("an Okra map with K 16, Q 32, version 3, in {} mode", mode_name(mode)),
        };
        let refuse = |found: String| Err(OkraError::Incompatible { file: file.to_owned(), found, expected });
        let &[a, b, c, d, version, k, e, f, g, h, found_mode, ..] = bytes else {
            return refuse(format!("an LMDB database of another program, whose entry ff holds {} bytes", bytes.len()));
        };
        let q = u32::from_be_bytes([e, f, g, h]);
        if [a, b, c, d] != MAGIC {
            return refuse(format!(
                "an LMDB database of another program, whose entry ff begins with {}",
                hex(&[a, b, c, d])
            ));
        }
        if version != VERSION {
            return refuse(format!("an Okra map of version {version}"));
        }
        if usize::from(k) != HASH_BYTES || q != FANOUT {
            return refuse(format!("an Okra map with K {k}, Q {q}"));
        }
        let Some(found) = [Mode::Store, Mode::Index].into_iter().find(|mode| mode_byte(*mode) == found_mode) else {
            return refuse(format!("an Okra map in the unknown mode {found_mode}"));
        };
        if mode.is_some_and(|mode| mode != found) {
            return refuse(format!("an Okra map in {} mode", mode_name(found)));
        }
        Ok(Self { mode: found })
    }
}

fn mode_byte(mode: Mode) -> u8 {
    match mode {
        Mode::Index => 0,
        Mode::Store => 1,
    }
}

fn mode_name(mode: Mode) -> &'static str {
    match mode {
        Mode::Index => "index",
        Mode::Store => "store",
    }
}
