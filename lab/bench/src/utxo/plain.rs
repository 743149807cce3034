//! The same in fjall: plain keys and values, the last state alone.

use std::path::Path;

use bristlecone::Durability;
use fjall::{Database, Keyspace, KeyspaceCreateOptions, PersistMode, Readable};

use super::{
    COMPARED_MAX, UtxoTable,
    made_up::{Batch, Key, Set, weight},
};
use crate::{
    BenchError,
    error::Result,
    measure::{Run, folder_bytes},
    peers::PEER_CACHE_BYTES,
    workload::add_up,
};

pub(super) struct FjallSet {
    database: Database,
    entries: Keyspace,
    mode: PersistMode,
    dir: std::path::PathBuf,
}

#[expect(clippy::needless_pass_by_value, reason = "map_err gives the error")]
fn failed(error: fjall::Error) -> BenchError {
    BenchError::Peer { peer: "fjall", reason: bristlecone::report(&error) }
}

impl FjallSet {
    pub(super) fn create(dir: &Path, durability: Durability) -> Result<Self> {
        let mode = match durability {
            Durability::None => PersistMode::Buffer,
            _ => PersistMode::SyncData,
        };
        let database = Database::builder(dir).cache_size(PEER_CACHE_BYTES).open().map_err(failed)?;
        let entries = database.keyspace("entries", KeyspaceCreateOptions::default).map_err(failed)?;
        Ok(Self { database, entries, mode, dir: dir.to_owned() })
    }
}

impl UtxoTable for FjallSet {
    fn name(&self) -> &'static str {
        "fjall"
    }

    fn load(&mut self, set: &Set) -> Result<()> {
        let mut ingestion = self.entries.start_ingestion().map_err(failed)?;
        set.in_order(|key, value| ingestion.write(&key[..], &value[..])).map_err(failed)?;
        ingestion.finish().map_err(failed)
    }

    fn batch(&mut self, batch: &Batch) -> Result<u64> {
        let found = self.look_up(&batch.lookups)?;
        let mut changes = self.database.batch().durability(Some(self.mode));
        for (key, value) in &batch.added {
            changes.insert(&self.entries, &key[..], &value[..]);
        }
        for key in &batch.removed {
            changes.remove(&self.entries, &key[..]);
        }
        changes.commit().map_err(failed)?;
        Ok(found)
    }

    fn look_up(&mut self, keys: &[Key]) -> Result<u64> {
        let snapshot = self.database.snapshot();
        let mut sum = 0_u64;
        for key in keys {
            sum = add_up(sum, snapshot.get(&self.entries, key).map_err(failed)?.map_or(0, |value| weight(&value)));
        }
        Ok(sum)
    }

    fn finish(&mut self, run: &mut Run) -> Result<()> {
        run.file_bytes = folder_bytes(&self.dir);
        Ok(())
    }

    fn check(&mut self, set: &Set) -> Result<Option<String>> {
        let snapshot = self.database.snapshot();
        let mut count = 0;
        for entry in snapshot.iter(&self.entries) {
            entry.key().map_err(failed)?;
            count += 1;
        }
        if count != set.len() {
            return Ok(Some(format!("{count} entries, and there should be {}", set.len())));
        }
        if count > COMPARED_MAX {
            return Ok(None);
        }
        let (mut entries, mut others) = (snapshot.iter(&self.entries), 0_u64);
        set.in_order(|key, value| -> Result<()> {
            let found = entries.next().map(fjall::Guard::into_inner).transpose().map_err(failed)?;
            let is_same = found.is_some_and(|found| found.0[..] == key[..] && found.1[..] == value[..]);
            others += u64::from(!is_same);
            Ok(())
        })?;
        Ok((others > 0).then(|| format!("{others} entries are not those of the set")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::utxo::made_up::{VALUE_BYTES, key, value};

    #[test]
    fn another_entry_and_another_value_are_found() {
        let dir = tempfile::tempdir().unwrap();
        let mut set = Set::new(1000);
        let mut fjall = FjallSet::create(dir.path(), Durability::None).unwrap();
        fjall.load(&set).unwrap();
        let batch = set.next_batch(10);
        assert_eq!(fjall.batch(&batch).unwrap(), batch.sum);
        assert_eq!(fjall.check(&set).unwrap(), None);
        fjall.entries.insert(&key(500)[..], &[0; VALUE_BYTES][..]).unwrap();
        assert_eq!(fjall.check(&set).unwrap().unwrap(), "1 entries are not those of the set");
        fjall.entries.insert(&key(500)[..], &value(500)[..]).unwrap();
        fjall.entries.remove(&key(700)[..]).unwrap();
        assert_eq!(fjall.check(&set).unwrap().unwrap(), "999 entries, and there should be 1000");
        fjall.entries.insert(&key(5000)[..], &value(5000)[..]).unwrap();
        assert!(fjall.check(&set).unwrap().is_some());
    }
}
