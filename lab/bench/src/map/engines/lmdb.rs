//! Plain LMDB, by heed: one database, sorted loads by appending, its own read transaction for each look.

use std::path::Path;

use bristlecone::Durability;
use heed::{CommitOrAbort, Database, Env, EnvFlags, EnvOpenOptions, PutFlags, types::Bytes};

use super::super::{
    engine::{EngineName, MapEngine},
    random::{Key, Sum},
};
use crate::error::Result;

/// Address space for the file.
const MAP_BYTES: usize = 64 << 30;

pub(super) struct Lmdb {
    // Borrows the environment, so it is dropped first.
    entries: Database<'static, Bytes, Bytes>,
    env: &'static Env,
    // The same, to be freed.
    owned: *mut Env,
}

impl Drop for Lmdb {
    fn drop(&mut self) {
        // SAFETY: it came from a box when this was made, and what borrows it is not used any more.
        drop(unsafe { Box::from_raw(self.owned) });
    }
}

fn failed(error: heed::Error) -> crate::BenchError {
    EngineName::Lmdb.failed(error)
}

impl Lmdb {
    pub(super) fn create(dir: &Path, durability: Durability) -> Result<Self> {
        let mut options = EnvOpenOptions::new();
        options.map_size(MAP_BYTES);
        if durability == Durability::None {
            // SAFETY: a power cut may damage the file, which is a scratch file of this process.
            unsafe { options.flags(EnvFlags::NO_SYNC) };
        }
        // SAFETY: the folder is a new one of this process, and no other opens it.
        let owned = Box::into_raw(Box::new(unsafe { options.open(dir) }.map_err(failed)?));
        // SAFETY: it is freed when this is dropped, and nothing else takes it mutably.
        let env: &'static Env = unsafe { &*owned };
        let transaction = env.write_txn().map_err(failed)?;
        let made = env.create_databases_and_commit(transaction, |opener, transaction| {
            opener.create_database(transaction, None).map(CommitOrAbort::<_, ()>::Commit)
        });
        Ok(Self { entries: made.map_err(failed)?.unwrap_commit(), env, owned })
    }
}

impl MapEngine for Lmdb {
    fn load(&mut self, entries: &[(Key, Vec<u8>)]) -> Result<()> {
        let mut transaction = self.env.write_txn().map_err(failed)?;
        for (key, value) in entries {
            self.entries.put_with_flags(&mut transaction, PutFlags::APPEND, key, value).map_err(failed)?;
        }
        transaction.commit().map_err(failed)
    }

    fn get(&mut self, keys: &[Key], sum: &mut Sum) -> Result<()> {
        let transaction = self.env.read_txn().map_err(failed)?;
        for key in keys {
            if let Some(value) = self.entries.get(&transaction, key).map_err(failed)? {
                sum.value(value);
            }
        }
        Ok(())
    }

    fn iterate(&mut self, sum: &mut Sum) -> Result<()> {
        let transaction = self.env.read_txn().map_err(failed)?;
        for entry in self.entries.iter(&transaction).map_err(failed)? {
            let (key, value) = entry.map_err(failed)?;
            sum.entry(key, value);
        }
        Ok(())
    }

    fn set(&mut self, entries: &[(Key, Vec<u8>)]) -> Result<()> {
        let mut transaction = self.env.write_txn().map_err(failed)?;
        for (key, value) in entries {
            self.entries.put(&mut transaction, key, value).map_err(failed)?;
        }
        transaction.commit().map_err(failed)
    }
}
