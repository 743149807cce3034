//! The same blocks in redb and in fjall, as an application would keep them: three tables, by hash, slot and number, each with
//! the whole record, so that a lookup is one get. Nothing is checked beyond what they check themselves.

use std::{ops::RangeInclusive, path::Path};

use bristlecone_cardano::{BlockHash, BlockPlace, Indexed, Point};
use fjall::{Keyspace, KeyspaceCreateOptions, PersistMode};
use redb::{ReadOnlyTable, ReadableDatabase, TableDefinition};

use super::rows::{Lookups, mark};
use crate::{BenchError, error::Result, peers::PEER_CACHE_BYTES};

/// Blocks of a batch of fjall, which keeps a batch in memory until it is committed.
const BATCH: usize = 1000;
const RECORD_BYTES: usize = 64;

/// A database that holds the blocks.
pub(super) trait PeerIndex {
    /// Empties the tables.
    fn clear(&mut self) -> Result<()>;
    /// Fills the tables, which are empty.
    fn fill(&mut self, blocks: &[Indexed]) -> Result<()>;
    /// Makes what was filled in durable.
    fn sync(&mut self) -> Result<()>;
    /// Returns the mark of the block that a table has for a key.
    fn get(&self, table: Table, key: &[u8]) -> Result<Option<u64>>;
    /// Gives each block in a range of slots to `take`, in order.
    fn each(&self, slots: RangeInclusive<u64>, take: &mut dyn FnMut(Indexed)) -> Result<()>;
}

/// The tables, by what their keys are.
#[derive(Clone, Copy)]
pub(super) enum Table {
    Hashes,
    Slots,
    Numbers,
}

impl Lookups for dyn PeerIndex + '_ {
    fn hash(&self, hash: &BlockHash) -> Result<Option<u64>> {
        self.get(Table::Hashes, &hash.0)
    }

    fn slot(&self, slot: u64) -> Result<Option<u64>> {
        self.get(Table::Slots, &slot.to_be_bytes())
    }

    fn number(&self, number: u64) -> Result<Option<u64>> {
        self.get(Table::Numbers, &number.to_be_bytes())
    }

    fn each(&self, slots: RangeInclusive<u64>, take: &mut dyn FnMut(Indexed)) -> Result<()> {
        PeerIndex::each(self, slots, take)
    }
}

fn encode(block: &Indexed) -> [u8; RECORD_BYTES] {
    let mut record = [0; RECORD_BYTES];
    record[..32].copy_from_slice(&block.point.hash.0);
    record[32..40].copy_from_slice(&block.point.slot.to_le_bytes());
    record[40..48].copy_from_slice(&block.point.number.to_le_bytes());
    record[48..56].copy_from_slice(&block.place.offset.to_le_bytes());
    record[56..60].copy_from_slice(&block.place.chunk.to_le_bytes());
    record[60..].copy_from_slice(&block.place.bytes.to_le_bytes());
    record
}

fn decode(record: &[u8]) -> Option<Indexed> {
    let long = |at: usize| Some(u64::from_le_bytes(*record.get(at..)?.first_chunk()?));
    let short = |at: usize| Some(u32::from_le_bytes(*record.get(at..)?.first_chunk()?));
    let point = Point { hash: BlockHash(*record.first_chunk()?), slot: long(32)?, number: long(40)? };
    Some(Indexed { point, place: BlockPlace { offset: long(48)?, chunk: short(56)?, bytes: short(60)? } })
}

fn decoded(peer: &'static str, record: &[u8]) -> Result<Indexed> {
    decode(record).ok_or_else(|| BenchError::Peer { peer, reason: "a record is cut short".to_owned() })
}

type RedbTable = ReadOnlyTable<&'static [u8], &'static [u8]>;

const HASHES: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("hashes");
const SLOTS: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("slots");
const NUMBERS: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("numbers");

/// redb: all lookups of a fill are in one read transaction, which is the fastest way.
pub(super) struct RedbIndex {
    database: redb::Database,
    tables: Option<[RedbTable; 3]>,
}

fn redb_failed(error: impl std::fmt::Display) -> BenchError {
    BenchError::Peer { peer: "redb", reason: error.to_string() }
}

impl RedbIndex {
    pub(super) fn create(dir: &Path) -> Result<Self> {
        std::fs::create_dir_all(dir).map_err(BenchError::io(dir))?;
        let database = redb::Database::create(dir.join("blocks.redb")).map_err(redb_failed)?;
        Ok(Self { database, tables: None })
    }

    /// Does something to each table in one transaction.
    fn commit(
        &self,
        durability: redb::Durability,
        mut each: impl FnMut(Table, &mut redb::Table<'_, &'static [u8], &'static [u8]>) -> Result<()>,
    ) -> Result<()> {
        let mut transaction = self.database.begin_write().map_err(redb_failed)?;
        transaction.set_durability(durability).map_err(redb_failed)?;
        for (table, name) in [(Table::Hashes, HASHES), (Table::Slots, SLOTS), (Table::Numbers, NUMBERS)] {
            each(table, &mut transaction.open_table(name).map_err(redb_failed)?)?;
        }
        transaction.commit().map_err(redb_failed)
    }
}

impl PeerIndex for RedbIndex {
    fn clear(&mut self) -> Result<()> {
        self.tables = None;
        let transaction = self.database.begin_write().map_err(redb_failed)?;
        for name in [HASHES, SLOTS, NUMBERS] {
            transaction.delete_table(name).map_err(redb_failed)?;
        }
        transaction.commit().map_err(redb_failed)
    }

    fn fill(&mut self, blocks: &[Indexed]) -> Result<()> {
        self.commit(redb::Durability::None, |table, opened| {
            for block in blocks {
                let (slot, number) = (block.point.slot.to_be_bytes(), block.point.number.to_be_bytes());
                let key: &[u8] = match table {
                    Table::Hashes => &block.point.hash.0,
                    Table::Slots => &slot,
                    Table::Numbers => &number,
                };
                opened.insert(key, &encode(block)[..]).map_err(redb_failed)?;
            }
            Ok(())
        })?;
        let read = self.database.begin_read().map_err(redb_failed)?;
        let open = |name| read.open_table(name).map_err(redb_failed);
        self.tables = Some([open(HASHES)?, open(SLOTS)?, open(NUMBERS)?]);
        Ok(())
    }

    fn sync(&mut self) -> Result<()> {
        self.commit(redb::Durability::Immediate, |_, _| Ok(()))
    }

    fn get(&self, table: Table, key: &[u8]) -> Result<Option<u64>> {
        let Some(tables) = &self.tables else { return Ok(None) };
        match tables[table as usize].get(key).map_err(redb_failed)? {
            Some(record) => Ok(Some(mark(&decoded("redb", record.value())?))),
            None => Ok(None),
        }
    }

    fn each(&self, slots: RangeInclusive<u64>, take: &mut dyn FnMut(Indexed)) -> Result<()> {
        let Some(tables) = &self.tables else { return Ok(()) };
        let (first, last) = (slots.start().to_be_bytes(), slots.end().to_be_bytes());
        let range = tables[Table::Slots as usize].range::<&[u8]>(&first[..]..=&last[..]).map_err(redb_failed)?;
        for entry in range {
            take(decoded("redb", entry.map_err(redb_failed)?.1.value())?);
        }
        Ok(())
    }
}

/// fjall: three keyspaces of one database.
pub(super) struct FjallIndex {
    database: fjall::Database,
    tables: [Keyspace; 3],
}

#[expect(clippy::needless_pass_by_value, reason = "map_err gives the error")]
fn fjall_failed(error: fjall::Error) -> BenchError {
    BenchError::Peer { peer: "fjall", reason: bristlecone::report(&error) }
}

impl FjallIndex {
    pub(super) fn create(dir: &Path) -> Result<Self> {
        let database = fjall::Database::builder(dir).cache_size(PEER_CACHE_BYTES).open().map_err(fjall_failed)?;
        let open = |name| database.keyspace(name, KeyspaceCreateOptions::default).map_err(fjall_failed);
        let tables = [open("hashes")?, open("slots")?, open("numbers")?];
        Ok(Self { database, tables })
    }
}

impl PeerIndex for FjallIndex {
    fn clear(&mut self) -> Result<()> {
        self.tables.iter().try_for_each(|table| table.clear().map_err(fjall_failed))
    }

    fn fill(&mut self, blocks: &[Indexed]) -> Result<()> {
        for blocks in blocks.chunks(BATCH) {
            let mut batch = self.database.batch().durability(Some(PersistMode::Buffer));
            for block in blocks {
                let record = encode(block);
                batch.insert(&self.tables[0], block.point.hash.0, record);
                batch.insert(&self.tables[1], block.point.slot.to_be_bytes(), record);
                batch.insert(&self.tables[2], block.point.number.to_be_bytes(), record);
            }
            batch.commit().map_err(fjall_failed)?;
        }
        Ok(())
    }

    fn sync(&mut self) -> Result<()> {
        self.database.persist(PersistMode::SyncData).map_err(fjall_failed)
    }

    fn get(&self, table: Table, key: &[u8]) -> Result<Option<u64>> {
        match self.tables[table as usize].get(key).map_err(fjall_failed)? {
            Some(record) => Ok(Some(mark(&decoded("fjall", &record)?))),
            None => Ok(None),
        }
    }

    fn each(&self, slots: RangeInclusive<u64>, take: &mut dyn FnMut(Indexed)) -> Result<()> {
        let range = slots.start().to_be_bytes()..=slots.end().to_be_bytes();
        for entry in self.tables[Table::Slots as usize].range(range) {
            take(decoded("fjall", &entry.value().map_err(fjall_failed)?)?);
        }
        Ok(())
    }
}
