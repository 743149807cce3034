//! Our map with Okra's roots and entries, on LMDB.

use std::path::{Path, PathBuf};

use bristlecone::Durability;
use bristlecone_lmdb::okra::{OkraMap, OkraOptions, OkraRoot};

use super::super::{
    engine::{EngineName, MapEngine},
    random::{Key, Sum},
};
use crate::{BenchError, error::Result};

pub(super) struct Okra {
    map: OkraMap,
    dir: PathBuf,
}

fn failed(error: impl std::fmt::Display) -> crate::BenchError {
    EngineName::Okra.failed(error)
}

fn shown(root: OkraRoot) -> String {
    format!("{} at level {}", root.hash, root.level)
}

impl Okra {
    pub(super) fn create(dir: &Path, durability: Durability) -> Result<Self> {
        let options = OkraOptions::default().sync(durability != Durability::None);
        let map = OkraMap::create(dir.join("map"), &options).map_err(failed)?;
        Ok(Self { map, dir: dir.to_owned() })
    }
}

impl MapEngine for Okra {
    fn load(&mut self, entries: &[(Key, Vec<u8>)]) -> Result<()> {
        let mut writer = self.map.write().map_err(failed)?;
        writer.load_sorted(entries.iter().map(|(key, value)| (key, value))).map_err(failed)?;
        writer.commit().map(drop).map_err(failed)
    }

    fn get(&mut self, keys: &[Key], sum: &mut Sum) -> Result<()> {
        let reader = self.map.read().map_err(failed)?;
        for key in keys {
            if let Some(value) = reader.get(key).map_err(failed)? {
                sum.value(value);
            }
        }
        Ok(())
    }

    fn iterate(&mut self, sum: &mut Sum) -> Result<()> {
        let reader = self.map.read().map_err(failed)?;
        let mut cursor = reader.cursor().map_err(failed)?;
        while let Some((key, value)) = cursor.next().map_err(failed)? {
            sum.entry(key, value);
        }
        Ok(())
    }

    fn set(&mut self, entries: &[(Key, Vec<u8>)]) -> Result<()> {
        let mut writer = self.map.write().map_err(failed)?;
        writer.insert_many(entries.iter().map(|(key, value)| (key, value))).map_err(failed)?;
        writer.commit().map(drop).map_err(failed)
    }

    fn root(&mut self) -> Result<Option<String>> {
        Ok(Some(shown(self.map.read().map_err(failed)?.root().map_err(failed)?)))
    }

    fn expected_root(&mut self, entries: &[(Key, Vec<u8>)]) -> Result<Option<String>> {
        let dir = self.dir.join("expected");
        let map = OkraMap::create(&dir, &OkraOptions::default().sync(false)).map_err(failed)?;
        let mut writer = map.write().map_err(failed)?;
        writer.load_sorted(entries.iter().map(|(key, value)| (key, value))).map_err(failed)?;
        let root = writer.commit().map_err(failed)?;
        // Every level is computed again from the entries, of both.
        self.map.read().and_then(|reader| reader.check()).map_err(failed)?;
        drop(map);
        std::fs::remove_dir_all(&dir).map_err(BenchError::io(&dir))?;
        Ok(Some(shown(root)))
    }
}
