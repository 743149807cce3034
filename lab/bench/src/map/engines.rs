//! The engines, a file each.

use std::path::Path;

use bristlecone::Durability;

use super::engine::{EngineName, MapEngine};
use crate::error::Result;

#[cfg(feature = "peers")]
mod fjall;
mod lmdb;
mod native;
mod okra;
#[cfg(feature = "rust-peers")]
mod redb;
#[cfg(feature = "peers")]
mod rocksdb;
#[cfg(feature = "peers")]
mod sqlite;

/// Makes an empty map in a folder that is there and empty.
pub(super) fn create(name: EngineName, dir: &Path, durability: Durability) -> Result<Box<dyn MapEngine>> {
    Ok(match name {
        EngineName::Lmdb => Box::new(lmdb::Lmdb::create(dir, durability)?),
        EngineName::Okra => Box::new(okra::Okra::create(dir, durability)?),
        EngineName::Native => Box::new(native::NativeMap::create(dir, durability)?),
        #[cfg(feature = "rust-peers")]
        EngineName::Redb => Box::new(redb::Redb::create(dir, durability)?),
        #[cfg(feature = "peers")]
        EngineName::Fjall => Box::new(fjall::Fjall::create(dir, durability)?),
        #[cfg(feature = "peers")]
        EngineName::Sqlite => Box::new(sqlite::Sqlite::create(dir, durability)?),
        #[cfg(feature = "peers")]
        EngineName::RocksDb => Box::new(rocksdb::RocksDb::create(dir, durability)?),
        #[cfg(not(feature = "peers"))]
        _ => return Err(crate::BenchError::usage("this program was built without the feature peers")),
    })
}
