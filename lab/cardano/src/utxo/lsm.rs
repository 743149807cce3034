//! The set as plain keys and values of a log-structured merge tree, for comparison: no history, no hashes.

use std::path::Path;

use bristlecone::Durability;
use fjall::{Database, Keyspace, KeyspaceCreateOptions, PersistMode, Readable};

use super::{Changes, EachOutput, UtxoError, UtxoStore, UtxoTip};
use crate::{OutputRef, TxId};

/// The length of a key: a transaction's id, and a place in four big-endian bytes.
const KEY_BYTES: usize = 36;
/// The key of the point, and of the number of entries, in a keyspace of their own.
const TIP: &[u8] = b"tip";
/// The key of the point of the first commit, which earlier versions did not keep.
const BEGAN: &[u8] = b"began";

/// The set in a database of its own, the last state alone.
pub struct LsmUtxo {
    file: String,
    database: Database,
    outputs: Keyspace,
    state: Keyspace,
    mode: PersistMode,
    tip: UtxoTip,
    began: Option<UtxoTip>,
    entries: u64,
}

impl std::fmt::Debug for LsmUtxo {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LsmUtxo").field("file", &self.file).field("tip", &self.tip).finish_non_exhaustive()
    }
}

impl LsmUtxo {
    /// Opens the set in a folder, or begins one, with a budget in bytes for blocks of tables in memory.
    ///
    /// # Errors
    /// [`UtxoError::Lsm`]; [`UtxoError::OtherStore`] for a database of another program.
    pub fn open(dir: &Path, cache_bytes: u64, durability: Durability) -> Result<Self, UtxoError> {
        let file = dir.display().to_string();
        let failed = |source| UtxoError::Lsm { file: file.clone(), source };
        let database = Database::builder(dir).cache_size(cache_bytes).open().map_err(failed)?;
        let outputs = database.keyspace("outputs", KeyspaceCreateOptions::default).map_err(failed)?;
        let state = database.keyspace("state", KeyspaceCreateOptions::default).map_err(failed)?;
        let mode = match durability {
            Durability::None => PersistMode::Buffer,
            _ => PersistMode::SyncData,
        };
        let (tip, entries) = match state.get(TIP).map_err(failed)? {
            None => (UtxoTip::Empty, 0),
            Some(text) => {
                let parsed = std::str::from_utf8(&text).ok().and_then(|text| {
                    let (entries, tip) = text.split_once(' ')?;
                    Some((UtxoTip::parse(tip)?, entries.parse().ok()?))
                });
                parsed.ok_or_else(|| UtxoError::OtherStore {
                    reason: format!("{file}: its state is not that of a set"),
                })?
            }
        };
        let began = state.get(BEGAN).map_err(failed)?;
        let began = began.and_then(|text| UtxoTip::parse(std::str::from_utf8(&text).ok()?));
        Ok(Self { file, database, outputs, state, mode, tip, began, entries })
    }

    /// Makes durable what was committed.
    ///
    /// # Errors
    /// [`UtxoError::Lsm`].
    pub fn sync(&self) -> Result<(), UtxoError> {
        self.database.persist(PersistMode::SyncAll).map_err(|source| self.failed(source))
    }

    fn failed(&self, source: fjall::Error) -> UtxoError {
        UtxoError::Lsm { file: self.file.clone(), source }
    }
}

impl UtxoStore for LsmUtxo {
    fn contains(&self, output: &OutputRef) -> Result<bool, UtxoError> {
        self.outputs.contains_key(key(output)).map_err(|source| self.failed(source))
    }

    fn get(&self, output: &OutputRef) -> Result<Option<Vec<u8>>, UtxoError> {
        let found = self.outputs.get(key(output)).map_err(|source| self.failed(source))?;
        Ok(found.map(|value| value.to_vec()))
    }

    fn commit(&mut self, changes: &mut Changes, tip: UtxoTip) -> Result<(), UtxoError> {
        let mut entries = self.entries;
        let mut batch = self.database.batch().durability(Some(self.mode));
        for (output, value) in changes.iter() {
            let there = self.contains(output)?;
            match value {
                Some(value) => {
                    entries += u64::from(!there);
                    batch.insert(&self.outputs, key(output), value);
                }
                None => {
                    entries = entries.checked_sub(u64::from(there)).ok_or_else(|| UtxoError::OtherStore {
                        reason: format!("{}: it holds more outputs than its state says", self.file),
                    })?;
                    batch.remove(&self.outputs, key(output));
                }
            }
        }
        batch.insert(&self.state, TIP, format!("{entries} {tip}").as_bytes());
        let is_first = self.tip == UtxoTip::Empty;
        if is_first {
            batch.insert(&self.state, BEGAN, tip.to_string().as_bytes());
        }
        batch.commit().map_err(|source| self.failed(source))?;
        changes.clear();
        (self.tip, self.entries) = (tip, entries);
        if is_first {
            self.began = Some(tip);
        }
        Ok(())
    }

    fn tip(&self) -> UtxoTip {
        self.tip
    }

    fn began(&self) -> Result<Option<UtxoTip>, UtxoError> {
        Ok(self.began)
    }

    fn entries(&self) -> Result<u64, UtxoError> {
        Ok(self.entries)
    }

    fn each(&self, each: &mut EachOutput<'_>) -> Result<(), UtxoError> {
        for entry in self.database.snapshot().iter(&self.outputs) {
            let (key, value) = entry.into_inner().map_err(|source| self.failed(source))?;
            let output = parse(&key)
                .ok_or_else(|| UtxoError::OtherStore { reason: format!("{}: an entry names no output", self.file) })?;
            each(output, &value)?;
        }
        Ok(())
    }
}

fn key(output: &OutputRef) -> [u8; KEY_BYTES] {
    let mut key = [0; KEY_BYTES];
    key[..32].copy_from_slice(&output.tx.0);
    key[32..].copy_from_slice(&output.index.to_be_bytes());
    key
}

fn parse(key: &[u8]) -> Option<OutputRef> {
    let key: &[u8; KEY_BYTES] = key.try_into().ok()?;
    let (tx, index) = key.split_first_chunk::<32>()?;
    Some(OutputRef { tx: TxId(*tx), index: u32::from_be_bytes(index.try_into().ok()?) })
}
