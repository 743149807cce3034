//! SQLite: a table without row ids, prepared statements, WAL, `synchronous=FULL` where it is to be durable.

use std::path::Path;

use bristlecone::Durability;
use rusqlite::{Connection, params};

use super::super::{
    engine::{EngineName, MapEngine},
    random::{Key, Sum},
};
use crate::error::Result;

pub(super) struct Sqlite {
    connection: Connection,
}

fn failed(error: rusqlite::Error) -> crate::BenchError {
    EngineName::Sqlite.failed(error)
}

impl Sqlite {
    pub(super) fn create(dir: &Path, durability: Durability) -> Result<Self> {
        let connection = Connection::open(dir.join("map.sqlite")).map_err(failed)?;
        let synchronous = if durability == Durability::None { "OFF" } else { "FULL" };
        // 256 MiB of pages and maps: the others have as much of memory as they want.
        let options = format!(
            "PRAGMA journal_mode=WAL; PRAGMA synchronous={synchronous}; PRAGMA cache_size=-262144;
             PRAGMA mmap_size=268435456;
             CREATE TABLE entries (key BLOB PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID;"
        );
        connection.execute_batch(&options).map_err(failed)?;
        Ok(Self { connection })
    }
}

impl MapEngine for Sqlite {
    fn load(&mut self, entries: &[(Key, Vec<u8>)]) -> Result<()> {
        self.set(entries)
    }

    fn get(&mut self, keys: &[Key], sum: &mut Sum) -> Result<()> {
        let transaction = self.connection.transaction().map_err(failed)?;
        let mut statement = transaction.prepare_cached("SELECT value FROM entries WHERE key = ?1").map_err(failed)?;
        for key in keys {
            let mut rows = statement.query(params![&key[..]]).map_err(failed)?;
            if let Some(row) = rows.next().map_err(failed)? {
                sum.value(row.get_ref(0).map_err(failed)?.as_blob().unwrap_or_default());
            }
        }
        Ok(())
    }

    fn iterate(&mut self, sum: &mut Sum) -> Result<()> {
        let sql = "SELECT key, value FROM entries ORDER BY key";
        let mut statement = self.connection.prepare_cached(sql).map_err(failed)?;
        let mut rows = statement.query([]).map_err(failed)?;
        while let Some(row) = rows.next().map_err(failed)? {
            let (key, value) = (row.get_ref(0).map_err(failed)?, row.get_ref(1).map_err(failed)?);
            sum.entry(key.as_blob().unwrap_or_default(), value.as_blob().unwrap_or_default());
        }
        Ok(())
    }

    fn set(&mut self, entries: &[(Key, Vec<u8>)]) -> Result<()> {
        let transaction = self.connection.transaction().map_err(failed)?;
        {
            let sql = "INSERT INTO entries (key, value) VALUES (?1, ?2) ON CONFLICT (key) DO UPDATE SET value = ?2";
            let mut statement = transaction.prepare_cached(sql).map_err(failed)?;
            for (key, value) in entries {
                statement.execute(params![&key[..], value]).map_err(failed)?;
            }
        }
        transaction.commit().map_err(failed)
    }
}
