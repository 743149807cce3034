//! Appending while the disk fails.

use std::sync::Arc;

use bristlecone::storage::Storage;
use bristlecone_testkit::sim::{Fault, Policy, SimStorage, Times};

use super::{append, compare, data};
use crate::{
    Block, ChainError, ReadOptions,
    immutable::{Appender, ChainReader},
};

#[test]
fn after_a_failure_nothing_is_acknowledged_until_the_database_is_opened_again() {
    let mut reader = ChainReader::open(&[data("devnet")], ReadOptions::default()).unwrap();
    let mut next = || reader.next_block().unwrap().unwrap().block.bytes().to_vec();
    let (first, second) = (next(), next());
    let (first, second) = (Block::parse(&first).unwrap(), Block::parse(&second).unwrap());
    for fails_at_sync in [true, false] {
        let disk = SimStorage::new();
        let storage: Arc<dyn Storage> = Arc::new(disk.clone());
        let mut appender = Appender::open(storage.clone(), 100).unwrap();
        appender.append(&first).unwrap();
        disk.fail_at(disk.calls() + 1, Fault::Io, Times::Once);
        if fails_at_sync {
            appender.sync().unwrap_err();
        } else {
            appender.append(&second).unwrap_err();
        }
        disk.heal();
        for refused in [appender.sync(), appender.append(&second).map(|_| ())] {
            let Err(ChainError::Io { source, .. }) = refused else { panic!("{refused:?}") };
            assert!(source.to_string().contains("open the database again"), "{source}");
        }
        drop(appender);
        // Opened again it goes on, and what is synced then is durable.
        append(&storage, "devnet", 100, 50).unwrap();
        compare(&disk.reboot(1, Policy::Lost), "devnet/immutable");
    }
}
