//! RocksDB: the default column family, a batch for each transaction, `sync` where it is to be durable; sorted loads by taking in a
//! file of a table.

use std::path::{Path, PathBuf};

use bristlecone::Durability;
use rocksdb::{
    BlockBasedOptions, Cache, DB, IngestExternalFileOptions, Options, SstFileWriter, WriteBatch, WriteOptions,
};

use super::super::{
    engine::{EngineName, MapEngine},
    random::{Key, Sum},
};
use crate::{error::Result, peers::PEER_CACHE_BYTES};

pub(super) struct RocksDb {
    database: DB,
    options: Options,
    write: WriteOptions,
    /// A table that is loaded, until the database takes it in.
    table: PathBuf,
}

fn failed(error: rocksdb::Error) -> crate::BenchError {
    EngineName::RocksDb.failed(error)
}

impl RocksDb {
    pub(super) fn create(dir: &Path, durability: Durability) -> Result<Self> {
        let mut options = Options::default();
        options.create_if_missing(true);
        // What its tuning guide advises for a small number of cores.
        options.increase_parallelism(2);
        options.optimize_level_style_compaction(512 << 20);
        // What its guide for setting up advises beside: a cache of blocks, and filters of 10 bits a key.
        let mut blocks = BlockBasedOptions::default();
        blocks.set_block_cache(&Cache::new_lru_cache(PEER_CACHE_BYTES as usize));
        blocks.set_bloom_filter(10.0, false);
        options.set_block_based_table_factory(&blocks);
        let database = DB::open(&options, dir).map_err(failed)?;
        let mut write = WriteOptions::default();
        write.set_sync(durability != Durability::None);
        Ok(Self { database, options, write, table: dir.with_extension("sst") })
    }
}

impl MapEngine for RocksDb {
    fn load(&mut self, entries: &[(Key, Vec<u8>)]) -> Result<()> {
        // What its documentation has for sorted entries; the file is durable once it is taken in.
        let mut writer = SstFileWriter::create(&self.options);
        writer.open(&self.table).map_err(failed)?;
        for (key, value) in entries {
            writer.put(key, value).map_err(failed)?;
        }
        writer.finish().map_err(failed)?;
        let mut options = IngestExternalFileOptions::default();
        options.set_move_files(true);
        self.database.ingest_external_file_opts(&options, vec![&self.table]).map_err(failed)
    }

    fn get(&mut self, keys: &[Key], sum: &mut Sum) -> Result<()> {
        let snapshot = self.database.snapshot();
        for key in keys {
            if let Some(value) = snapshot.get_pinned(key).map_err(failed)? {
                sum.value(&value);
            }
        }
        Ok(())
    }

    fn iterate(&mut self, sum: &mut Sum) -> Result<()> {
        let mut cursor = self.database.raw_iterator();
        cursor.seek_to_first();
        while let Some((key, value)) = cursor.item() {
            sum.entry(key, value);
            cursor.next();
        }
        cursor.status().map_err(failed)
    }

    fn set(&mut self, entries: &[(Key, Vec<u8>)]) -> Result<()> {
        let mut batch = WriteBatch::default();
        for (key, value) in entries {
            batch.put(key, value);
        }
        self.database.write_opt(batch, &self.write).map_err(failed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_has_the_cache_that_is_advised() {
        let dir = tempfile::tempdir().unwrap();
        let engine = RocksDb::create(dir.path(), Durability::None).unwrap();
        let capacity = engine.database.property_int_value("rocksdb.block-cache-capacity").unwrap();
        assert_eq!(capacity, Some(PEER_CACHE_BYTES));
    }
}
