//! fjall: one keyspace, a batch for each transaction, `SyncData` where it is to be durable.

use std::path::Path;

use bristlecone::Durability;
use fjall::{Database, Keyspace, KeyspaceCreateOptions, PersistMode, Readable};

use super::super::{
    engine::{EngineName, MapEngine},
    random::{Key, Sum},
};
use crate::{error::Result, peers::PEER_CACHE_BYTES};

pub(super) struct Fjall {
    database: Database,
    entries: Keyspace,
    mode: PersistMode,
}

fn failed(error: fjall::Error) -> crate::BenchError {
    EngineName::Fjall.failed(error)
}

impl Fjall {
    pub(super) fn create(dir: &Path, durability: Durability) -> Result<Self> {
        let mode = match durability {
            Durability::None => PersistMode::Buffer,
            _ => PersistMode::SyncData,
        };
        let database = Database::builder(dir).cache_size(PEER_CACHE_BYTES).open().map_err(failed)?;
        let entries = database.keyspace("entries", KeyspaceCreateOptions::default).map_err(failed)?;
        Ok(Self { database, entries, mode })
    }
}

impl MapEngine for Fjall {
    fn load(&mut self, entries: &[(Key, Vec<u8>)]) -> Result<()> {
        // What its documentation has for sorted entries; the end of it is durable.
        let mut ingestion = self.entries.start_ingestion().map_err(failed)?;
        for (key, value) in entries {
            ingestion.write(&key[..], &value[..]).map_err(failed)?;
        }
        ingestion.finish().map_err(failed)
    }

    fn get(&mut self, keys: &[Key], sum: &mut Sum) -> Result<()> {
        let snapshot = self.database.snapshot();
        for key in keys {
            if let Some(value) = snapshot.get(&self.entries, key).map_err(failed)? {
                sum.value(&value);
            }
        }
        Ok(())
    }

    fn iterate(&mut self, sum: &mut Sum) -> Result<()> {
        for entry in self.database.snapshot().iter(&self.entries) {
            let (key, value) = entry.into_inner().map_err(failed)?;
            sum.entry(&key, &value);
        }
        Ok(())
    }

    fn set(&mut self, entries: &[(Key, Vec<u8>)]) -> Result<()> {
        let mut batch = self.database.batch().durability(Some(self.mode));
        for (key, value) in entries {
            batch.insert(&self.entries, &key[..], &value[..]);
        }
        batch.commit().map_err(failed)
    }
}
