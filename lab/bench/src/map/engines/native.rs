//! Our map on the native format, on the disk engine: a commit is a transaction, and every version is kept.

use std::path::Path;

use bristlecone::{Branch, Durability, Info, LogOptions, Native, Repo};
use bristlecone_any::{AnyRepo, OpenOptions, Place};

use super::super::{
    engine::MapEngine,
    random::{Key, Sum},
};
use crate::error::Result;

pub(super) struct NativeMap {
    branch: Branch<Native>,
    repo: Repo<Native>,
    durability: Durability,
    store: AnyRepo,
}

impl NativeMap {
    pub(super) fn create(dir: &Path, durability: Durability) -> Result<Self> {
        let store = OpenOptions::new().create(Place::Disk(dir.join("store")))?;
        let repo = Repo::with_backend(Native::new(), store.backend().clone());
        Ok(Self { branch: repo.branch("main")?, repo, durability, store })
    }

    fn info(&self) -> Info {
        Info::unsigned("entries").durability(self.durability)
    }
}

impl Drop for NativeMap {
    fn drop(&mut self) {
        // The folder is removed next; what cannot be made durable was told by the commits.
        let _ = self.store.close();
    }
}

impl MapEngine for NativeMap {
    fn load(&mut self, entries: &[(Key, Vec<u8>)]) -> Result<()> {
        let mut map = self.repo.load_map(entries.iter().map(|(key, value)| (key, &value[..])))?;
        map.commit(&self.branch, &self.info())?;
        Ok(())
    }

    fn get(&mut self, keys: &[Key], sum: &mut Sum) -> Result<()> {
        let map = self.branch.map()?;
        for key in keys {
            if let Some(value) = map.get(key)? {
                sum.value(&value);
            }
        }
        Ok(())
    }

    fn iterate(&mut self, sum: &mut Sum) -> Result<()> {
        let map = self.branch.map()?;
        let mut cursor = map.cursor()?;
        while let Some(item) = cursor.next()? {
            sum.entry(item.key(), item.value()?);
        }
        Ok(())
    }

    fn set(&mut self, entries: &[(Key, Vec<u8>)]) -> Result<()> {
        let mut map = self.branch.map()?;
        map.apply(entries.iter().map(|(key, value)| (key, Some(&value[..]))))?;
        map.commit(&self.branch, &self.info())?;
        Ok(())
    }

    fn root(&mut self) -> Result<Option<String>> {
        Ok(Some(self.branch.map()?.root()?.to_string()))
    }

    fn expected_root(&mut self, entries: &[(Key, Vec<u8>)]) -> Result<Option<String>> {
        let mut map = Repo::memory().map();
        for (key, value) in entries {
            map.insert(key, &value[..])?;
        }
        Ok(Some(map.root()?.to_string()))
    }

    fn versions(&mut self) -> Result<Option<u64>> {
        let Some(head) = self.branch.head()? else { return Ok(Some(0)) };
        let mut versions = 0;
        for commit in self.repo.log(&[head], LogOptions::default()) {
            commit?;
            versions += 1;
        }
        Ok(Some(versions))
    }
}
