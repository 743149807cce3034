//! The set as a native map on the disk engine, with history and hashes.

use std::{path::Path, sync::Arc};

use bristlecone::{
    Branch, Durability, Info, LogOptions, Map, MemoryBackend, Native, Repo, SweepLimits, disk::DiskOptions,
};

use super::{
    COMPARED_MAX, Retained, UtxoTable,
    made_up::{Batch, Key, Set, weight},
};
use crate::{BenchError, error::Result, measure::Run, workload::add_up};

/// Values lie in their directory.
const FORMAT: Native = Native::new().inline(128);
/// Pages of maps are let go beyond this. With the default of 192 MiB a store of gigabytes, every part of which is read all the
/// time, spends half of a batch on letting pages go and taking them again.
const MAP_BYTES: u64 = 4 << 30;
/// The size of the files is looked at after each so many batches.
const WATCHED: u64 = 16;

pub(super) struct NativeSet {
    repo: Repo<Native>,
    branch: Branch<Native>,
    map: Map,
    durability: Durability,
    before: bristlecone::BackendStats,
    retain: Option<u32>,
    batches: u64,
    // The sizes of the files that were seen; where the store keeps all, that at the end.
    sizes: Vec<u64>,
}

impl NativeSet {
    pub(super) fn create(dir: &Path, durability: Durability, retain: Option<u32>) -> Result<Self> {
        let repo = Repo::create(dir, FORMAT, DiskOptions::default().map_bytes(MAP_BYTES))?;
        if let Some(retain) = retain {
            repo.set_retention(&format!("last {retain} refs/heads/*").parse()?)?;
        }
        let branch = repo.branch("main")?;
        let map = branch.map()?;
        let before = repo.backend().stats();
        Ok(Self { before, repo, branch, map, durability, retain, batches: 0, sizes: Vec::new() })
    }
}

fn load(repo: &Repo<Native>, set: &Set) -> Result<Map> {
    let mut loader = repo.map_loader();
    set.in_order(|key, value| loader.push(key, &value[..]))?;
    Ok(loader.finish()?)
}

impl UtxoTable for NativeSet {
    fn name(&self) -> &'static str {
        "native map"
    }

    fn load(&mut self, set: &Set) -> Result<()> {
        self.map = load(&self.repo, set)?;
        self.map.commit(&self.branch, &Info::unsigned("loaded"))?;
        self.before = self.repo.backend().stats();
        Ok(())
    }

    fn batch(&mut self, batch: &Batch) -> Result<u64> {
        let found = self.look_up(&batch.lookups)?;
        let added = batch.added.iter().map(|(key, value)| (&key[..], Some(&value[..])));
        let removed = batch.removed.iter().map(|key| (&key[..], None));
        self.map.apply(added.chain(removed))?;
        self.map.commit(&self.branch, &Info::unsigned("batch").durability(self.durability))?;
        self.batches += 1;
        if self.retain.is_some() && self.batches.is_multiple_of(WATCHED) {
            self.sizes.push(self.repo.backend().stats().file_bytes);
        }
        Ok(found)
    }

    fn look_up(&mut self, keys: &[Key]) -> Result<u64> {
        let mut sum = 0_u64;
        for key in keys {
            sum = add_up(sum, self.map.get(key)?.map_or(0, |value| weight(&value)));
        }
        Ok(sum)
    }

    fn retained(&mut self) -> Result<Option<Retained>> {
        let Some(retain) = self.retain else { return Ok(None) };
        self.repo.wait_for_collection()?;
        self.repo.sweep(&[], &SweepLimits::default())?;
        let head = self.branch.head()?;
        let mut log = self.repo.log(head.as_slice(), LogOptions::default());
        let kept = log.try_fold(0, |count, commit| commit.map(|_| count + 1))?;
        let wanted = u64::from(retain).min(self.batches + 1);
        if kept != wanted {
            return Err(BenchError::Wrong {
                scenario: "utxo".to_owned(),
                reason: format!("{kept} states are kept, and there should be {wanted}"),
            });
        }
        let stats = self.repo.backend().stats();
        let segment_bytes = DiskOptions::default().segment_bytes;
        let largest = |sizes: &[u64]| sizes.iter().copied().max().unwrap_or(0);
        let (largest, later) = (largest(&self.sizes), largest(&self.sizes[self.sizes.len() / 2..]));
        Ok(Some(Retained { largest, later, live: stats.store_bytes, segment_bytes }))
    }

    fn finish(&mut self, run: &mut Run) -> Result<()> {
        let stats = self.repo.backend().stats();
        // There may be fewer batches than one looks at.
        self.sizes.push(stats.file_bytes);
        run.bytes_written = stats.bytes_written - self.before.bytes_written;
        run.syncs = stats.syncs - self.before.syncs;
        (run.store_bytes, run.file_bytes) = (stats.store_bytes, stats.file_bytes);
        run.root = Some(self.map.root()?.to_string());
        Ok(())
    }

    fn check(&mut self, set: &Set) -> Result<Option<String>> {
        let map = self.branch.map()?;
        if map.len()? != set.len() {
            return Ok(Some(format!("{} entries, and there should be {}", map.len()?, set.len())));
        }
        if set.len() <= COMPARED_MAX {
            let anew = load(&Repo::with_backend(FORMAT, Arc::new(MemoryBackend::new())), set)?;
            if anew.root()? != map.root()? {
                return Ok(Some("the root is not that of the same entries loaded at once".into()));
            }
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_values_of_other_entries_add_up_to_something_else() {
        let dir = tempfile::tempdir().unwrap();
        let set = Set::new(1000);
        let mut native = NativeSet::create(dir.path(), Durability::None, None).unwrap();
        native.load(&set).unwrap();
        let (mut keys, sum) = set.random_keys(1, 20);
        assert_eq!(native.look_up(&keys).unwrap(), sum);
        assert_ne!(keys[3], keys[7]);
        // As where two entries hold each other's values.
        keys.swap(3, 7);
        assert_ne!(native.look_up(&keys).unwrap(), sum);
    }

    #[test]
    fn few_batches_have_looked_at_the_files() {
        let dir = tempfile::tempdir().unwrap();
        let mut set = Set::new(1000);
        let mut native = NativeSet::create(dir.path(), Durability::None, Some(4)).unwrap();
        native.load(&set).unwrap();
        let batch = set.next_batch(10);
        assert_eq!(native.batch(&batch).unwrap(), batch.sum);
        native.finish(&mut Run::default()).unwrap();
        let retained = native.retained().unwrap().unwrap();
        assert!(retained.largest > 0 && retained.live > 0, "{} and {}", retained.largest, retained.live);
        assert_eq!(retained.later, retained.largest);
    }
}
