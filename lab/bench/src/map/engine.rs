//! The engines of the table, and what each must do.

use std::path::Path;

use bristlecone::Durability;
use serde::{Deserialize, Serialize};

use super::{
    engines,
    random::{Key, Sum},
};
use crate::{BenchError, error::Result};

/// An ordered map on files, of keys of 4 bytes, opened and used as its own documentation advises.
pub(crate) trait MapEngine {
    /// Makes the map of sorted entries, in one step if the engine has one; acknowledged as its durability says.
    fn load(&mut self, entries: &[(Key, Vec<u8>)]) -> Result<()>;

    /// Looks the keys up in one read transaction.
    fn get(&mut self, keys: &[Key], sum: &mut Sum) -> Result<()>;

    /// Reads all entries in order, in one read transaction, by the fastest way that lends them.
    fn iterate(&mut self, sum: &mut Sum) -> Result<()>;

    /// Sets entries in one transaction; acknowledged as its durability says, and with its root known where it has one.
    fn set(&mut self, entries: &[(Key, Vec<u8>)]) -> Result<()>;

    /// Returns the root, where the map has one.
    fn root(&mut self) -> Result<Option<String>> {
        Ok(None)
    }

    /// Returns the root of these sorted entries alone, made by another way; `None` where the map has no root.
    fn expected_root(&mut self, entries: &[(Key, Vec<u8>)]) -> Result<Option<String>> {
        let _ = entries;
        Ok(None)
    }

    /// Returns how many versions of the map are kept; `None` where only the last one is.
    fn versions(&mut self) -> Result<Option<u64>> {
        Ok(None)
    }
}

/// An engine by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum EngineName {
    /// Plain LMDB: what the others are compared with.
    Lmdb,
    /// Our map with Okra's roots and entries, on LMDB.
    Okra,
    /// Our map on the native format, on the disk engine.
    Native,
    Redb,
    Fjall,
    Sqlite,
    RocksDb,
}

impl EngineName {
    pub(super) const OURS: [Self; 3] = [Self::Lmdb, Self::Okra, Self::Native];
    pub(super) const PEERS: [Self; 4] = [Self::Redb, Self::Fjall, Self::Sqlite, Self::RocksDb];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Lmdb => "lmdb",
            Self::Okra => "okra map",
            Self::Native => "native map",
            Self::Redb => "redb",
            Self::Fjall => "fjall",
            Self::Sqlite => "sqlite",
            Self::RocksDb => "rocksdb",
        }
    }

    /// Returns the name as options have it.
    pub(super) fn short_name(self) -> &'static str {
        self.name().trim_end_matches(" map")
    }

    /// Whether an option names it.
    pub(super) fn is_called(self, name: &str) -> bool {
        self.short_name() == name
    }

    /// Returns what the engine keeps beside the last state.
    pub(super) const fn keeps(self) -> &'static str {
        match self {
            Self::Okra => "last state, hashes",
            Self::Native => "last state, history, hashes",
            _ => "last state",
        }
    }

    /// Makes an empty map in a new folder.
    pub(crate) fn create(self, dir: &Path, durability: Durability) -> Result<Box<dyn MapEngine>> {
        std::fs::create_dir_all(dir).map_err(BenchError::io(dir))?;
        engines::create(self, dir, durability)
    }

    /// Makes an error of what an engine that is not ours said.
    pub(super) fn failed(self, error: impl std::fmt::Display) -> BenchError {
        BenchError::Peer { peer: self.name(), reason: error.to_string() }
    }
}
