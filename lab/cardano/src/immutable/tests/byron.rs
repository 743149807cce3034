//! Chains of Byron: networks with epochs of their own.

use std::{fs, sync::Arc};

use bristlecone::storage::RealStorage;

use super::{read, read_until};
use crate::{Block, ChainError, Genesis, ReadOptions, immutable::Appender, made_up::byron_blocks};

#[test]
fn epochs_have_as_many_slots_as_the_genesis_file_says() {
    let dir = tempfile::tempdir().unwrap();
    let storage = Arc::new(RealStorage::new(dir.path()));
    let blocks = byron_blocks(&[(0, None), (0, Some(0)), (0, Some(99)), (1, None), (1, Some(0)), (1, Some(7))]);
    let mut appender = Appender::open(storage.clone(), 100).unwrap();
    let mut written = Vec::new();
    for block in &blocks {
        let block = Block::parse_with(block, 100).unwrap();
        written.push((block.point(), appender.append(&block).unwrap()));
    }
    appender.sync().unwrap();
    assert_eq!(written.iter().map(|(point, _)| point.slot).collect::<Vec<_>>(), [0, 0, 99, 100, 100, 107]);
    assert_eq!(Appender::open(storage, 100).unwrap().tip(), Some(written[5].0));
    let file = dir.path().join("genesis.json");
    let genesis = |k: &str| {
        let text = format!(r#"{{"nonAvvmBalances":{{}},"protocolConsts":{{"k":{k},"protocolMagic":1}}}}"#);
        fs::write(&file, text).unwrap();
        Genesis::read(&file)
    };
    let slots = genesis("10").unwrap().byron_epoch_slots.unwrap();
    let chain = [dir.path().to_owned()];
    assert_eq!(read(&chain, ReadOptions::default().byron_epoch_slots(slots)).unwrap(), (written.clone(), None));
    assert_eq!(genesis("2160").unwrap().byron_epoch_slots, Some(21_600));
    for none in ["0", "18446744073709551615"] {
        assert!(genesis(none).unwrap_err().to_string().contains("10 k slots"), "{none}");
    }
    // Without that file the error says what was taken for granted.
    let (points, ended) = read_until(&chain, ReadOptions::default());
    assert_eq!(points.len(), 4);
    let Err(error @ ChainError::Damaged { chunk: 1, .. }) = ended else { panic!("{ended:?}") };
    for part in ["of slot 21600, the secondary index has 100", "21600 slots", "--genesis"] {
        assert!(error.to_string().contains(part), "{error}");
    }
}
