//! redb: one table, every transaction its own, `Durability::Immediate` where it is to be durable.

use std::path::Path;

use bristlecone::Durability;
use redb::{Database, ReadableDatabase, ReadableTable, TableDefinition};

use super::super::{
    engine::{EngineName, MapEngine},
    random::{Key, Sum},
};
use crate::error::Result;

const ENTRIES: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("entries");

pub(super) struct Redb {
    database: Database,
    durability: redb::Durability,
}

fn failed(error: impl std::fmt::Display) -> crate::BenchError {
    EngineName::Redb.failed(error)
}

impl Redb {
    pub(super) fn create(dir: &Path, durability: Durability) -> Result<Self> {
        let durability = match durability {
            Durability::None => redb::Durability::None,
            _ => redb::Durability::Immediate,
        };
        let database = Database::create(dir.join("map.redb")).map_err(failed)?;
        let mut redb = Self { database, durability };
        redb.set(&[])?;
        Ok(redb)
    }
}

impl MapEngine for Redb {
    fn load(&mut self, entries: &[(Key, Vec<u8>)]) -> Result<()> {
        self.set(entries)
    }

    fn get(&mut self, keys: &[Key], sum: &mut Sum) -> Result<()> {
        let table = self.database.begin_read().map_err(failed)?.open_table(ENTRIES).map_err(failed)?;
        for key in keys {
            if let Some(value) = table.get(&key[..]).map_err(failed)? {
                sum.value(value.value());
            }
        }
        Ok(())
    }

    fn iterate(&mut self, sum: &mut Sum) -> Result<()> {
        let table = self.database.begin_read().map_err(failed)?.open_table(ENTRIES).map_err(failed)?;
        for entry in table.iter().map_err(failed)? {
            let (key, value) = entry.map_err(failed)?;
            sum.entry(key.value(), value.value());
        }
        Ok(())
    }

    fn set(&mut self, entries: &[(Key, Vec<u8>)]) -> Result<()> {
        let mut transaction = self.database.begin_write().map_err(failed)?;
        transaction.set_durability(self.durability).map_err(failed)?;
        let mut table = transaction.open_table(ENTRIES).map_err(failed)?;
        for (key, value) in entries {
            table.insert(&key[..], &value[..]).map_err(failed)?;
        }
        drop(table);
        transaction.commit().map_err(failed)
    }
}
