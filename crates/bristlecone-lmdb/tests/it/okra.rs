//! Okra's map: roots, bytes, transactions, damage, sync.

mod batches;
mod damage;
mod killed;
mod model;
mod opening;
mod reading;
mod roots;
mod stored;
mod sync;
mod written;

use std::{
    path::Path,
    process::{Command, Output},
};

use bristlecone_lmdb::okra::{Mode, OkraMap, OkraOptions, OkraRoot};

/// Makes an empty map that does not sync: what tests of contents need.
fn create(dir: &Path, mode: Mode) -> OkraMap {
    OkraMap::create(dir, &OkraOptions::default().mode(mode).sync(false)).unwrap()
}

/// Sets entries in one batch, and returns the root.
fn set_many<K: AsRef<[u8]>, V: AsRef<[u8]>>(map: &OkraMap, entries: impl IntoIterator<Item = (K, V)>) -> OkraRoot {
    let mut writer = map.write().unwrap();
    writer.insert_many(entries).unwrap();
    writer.commit().unwrap()
}

/// Does a test in another process, to which a variable names the folder.
fn in_a_child(test: &str, variable: &str, dir: &Path) -> Output {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "--nocapture", "--test-threads=1", &format!("okra::{test}")])
        .env(variable, dir)
        .output()
        .unwrap()
}

/// Numbers that look random, from a seed that a failure prints.
struct Numbers(u64);

impl Numbers {
    /// A number below `bound`.
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut number = self.0;
        number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (number ^ (number >> 31)) % bound
    }
}
