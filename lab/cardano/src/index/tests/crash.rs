//! Power cuts at every flush and between operations, with old and new pages mixed at random: what is there afterwards is
//! what was synced last, whole.

use std::fs;

use super::{Numbers, assert_is, disk};
use crate::{BlockIndex, Indexed, MappedIndex};

#[test]
fn after_a_power_cut_the_index_is_as_it_was_last_synced() {
    for seed in 0..12 {
        let (dir, copy) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let mut index = MappedIndex::create(dir.path()).unwrap();
        disk::watch(seed);
        let _ = disk::images(dir.path());
        index.sync().unwrap();
        let mut numbers = Numbers(seed);
        let (mut chain, mut durable): (Vec<Indexed>, Vec<Indexed>) = (Vec::new(), Vec::new());
        for step in 0..60 {
            let before = durable.clone();
            match numbers.below(8) {
                0..4 => {
                    for _ in 0..numbers.below(150) {
                        let block = numbers.after(chain.last());
                        index.insert(&block.point, block.place).unwrap();
                        chain.push(block);
                    }
                }
                4 if !chain.is_empty() => {
                    let keep = chain.len() - numbers.below(chain.len() as u64 / 3 + 1) as usize - 1;
                    index.truncate(keep.checked_sub(1).map(|last| &chain[last].point)).unwrap();
                    chain.truncate(keep);
                    durable.truncate(keep);
                }
                5 => {
                    index.close().unwrap();
                    durable.clone_from(&chain);
                    index = MappedIndex::open(dir.path()).unwrap().0;
                }
                _ => {
                    index.sync().unwrap();
                    durable.clone_from(&chain);
                }
            }
            for image in disk::images(dir.path()) {
                for (name, bytes) in &image {
                    fs::write(copy.path().join(name), bytes).unwrap();
                }
                let (found, how) =
                    MappedIndex::open(copy.path()).unwrap_or_else(|error| panic!("seed {seed}, step {step}: {error}"));
                let expected = if found.len() == before.len() as u64 && found.tip() == before.last().copied() {
                    &before
                } else {
                    &durable
                };
                assert_eq!(found.tip(), expected.last().copied(), "seed {seed}, step {step}, {how:?}");
                assert_is(&found, expected);
            }
        }
    }
}
