//! Chains of Byron: networks with epochs of their own, and the order of boundary blocks and others. The order of the eras behind it.

use std::{fs, sync::Arc};

use bristlecone::storage::RealStorage;

use super::{all, copy, read, read_until};
use crate::{
    Block, ChainError, Era, Genesis, ReadOptions, TornTail,
    immutable::Appender,
    made_up::{byron_blocks, empty_blocks, files_of},
};

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

#[test]
fn a_slot_has_one_block_and_a_boundary_block_comes_before_all_of_its_epoch() {
    let all = [(0, None), (0, Some(0)), (0, Some(5))];
    // How a chain begins, and what cannot come behind it.
    for (start, next) in [
        (&all[..2], (0, Some(0))),
        (&all[..], (0, Some(5))),
        (&all[..], (0, Some(4))),
        (&all[..], (0, None)),
        (&all[..1], (0, None)),
        (&all[1..2], (0, None)),
    ] {
        let blocks = byron_blocks(&[start, &[next]].concat());
        let (dir, db) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let (points, ended) = read_until(&files_of(dir.path(), &blocks), ReadOptions::default());
        assert_eq!(points.len(), start.len(), "{next:?} behind {start:?}");
        assert!(matches!(ended, Err(ChainError::Order { .. })), "{next:?} behind {start:?}: {ended:?}");
        let mut appender = Appender::open(Arc::new(RealStorage::new(db.path())), 21_600).unwrap();
        let mut written = Vec::new();
        for block in &blocks {
            let block = Block::parse(block).unwrap();
            match appender.append(&block) {
                Ok(place) => written.push((block.point(), place)),
                Err(error) => assert!(matches!(error, ChainError::Order { .. }), "{error}"),
            }
        }
        appender.sync().unwrap();
        assert_eq!(written.len(), start.len(), "{next:?} behind {start:?}");
        assert_eq!(read(&[db.path().to_owned()], ReadOptions::default()).unwrap(), (written, None));
    }
    // Chunks that are not as long as the epochs have no place for a boundary block amid them.
    let db = tempfile::tempdir().unwrap();
    let blocks = byron_blocks(&[(1, None)]);
    let mut appender = Appender::open(Arc::new(RealStorage::new(db.path())), 1_000).unwrap();
    let error = appender.append(&Block::parse(&blocks[0]).unwrap()).unwrap_err();
    assert!(error.to_string().contains("begins no chunk"), "{error}");
}

#[test]
fn a_block_of_an_era_that_is_past_does_not_continue_the_chain() {
    let (dir, db) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    // No hash covers the era, and blocks of these three have one shape.
    let blocks = empty_blocks(&[Era::Shelley, Era::Mary, Era::Allegra]);
    let (points, ended) = read_until(&files_of(dir.path(), &blocks), ReadOptions::default());
    assert_eq!(points.len(), 2);
    let Err(error @ ChainError::Order { offset: 0, slot: 102, .. }) = ended else { panic!("{ended:?}") };
    assert!(error.to_string().contains("it is of the era Allegra, and the block before it is of Mary"), "{error}");
    let mut appender = Appender::open(Arc::new(RealStorage::new(db.path())), 1_000).unwrap();
    let placed: Vec<_> = blocks.iter().map(|block| appender.append(&Block::parse(block).unwrap()).is_ok()).collect();
    assert_eq!(placed, [true, true, false]);
}

#[test]
fn a_boundary_block_that_is_damaged_is_named_by_its_slot_and_not_by_its_epoch() {
    let dir = tempfile::tempdir().unwrap();
    let mut appender = Appender::open(Arc::new(RealStorage::new(dir.path())), 100).unwrap();
    let blocks = byron_blocks(&[(0, Some(3)), (1, None), (1, Some(0)), (2, Some(5))]);
    for block in &blocks {
        appender.append(&Block::parse_with(block, 100).unwrap()).unwrap();
    }
    appender.sync().unwrap();
    let file = dir.path().join("00001.chunk");
    let mut bytes = fs::read(&file).unwrap();
    bytes[blocks[1].len() - 1] ^= 1;
    fs::write(&file, bytes).unwrap();
    let at = |paths: &[std::path::PathBuf]| {
        let (points, ended) = read_until(paths, ReadOptions::default().byron_epoch_slots(100));
        let Err(ChainError::Damaged { chunk: 1, offset: 0, slot, .. }) = ended else { panic!("{ended:?}") };
        (points.len(), slot)
    };
    assert_eq!(at(&[dir.path().to_owned()]), (1, Some(100)));
    // As the newest chunk.
    assert_eq!(at(std::slice::from_ref(&file)), (0, Some(100)));
    // Without its era, or without a byte.
    for bytes in [&[0x82_u8][..], &[]] {
        fs::write(&file, bytes).unwrap();
        assert_eq!(at(&[dir.path().to_owned()]), (1, Some(100)), "{bytes:?}");
        let (points, ended) = read_until(std::slice::from_ref(&file), ReadOptions::default().byron_epoch_slots(100));
        assert!(points.is_empty(), "{bytes:?}");
        let note = ended.unwrap().unwrap();
        assert!(note.contains("chunk 1 is damaged at byte 0, in the block of slot 100: "), "{note}");
    }
}

#[test]
fn a_newest_chunk_that_does_not_follow_the_one_before_is_refused_and_stays_as_it_is() {
    let made = |slot: u32| {
        let dir = tempfile::tempdir().unwrap();
        let mut appender = Appender::open(Arc::new(RealStorage::new(dir.path())), 100).unwrap();
        // Two chunks between them have no blocks.
        for block in byron_blocks(&[(0, Some(0)), (0, Some(slot)), (3, Some(1))]) {
            appender.append(&Block::parse_with(&block, 100).unwrap()).unwrap();
        }
        appender.sync().unwrap();
        dir
    };
    let (dir, other) = (made(5), made(7));
    let open = || Appender::open(Arc::new(RealStorage::new(dir.path())), 100);
    assert_eq!(open().unwrap().tip().map(|tip| tip.slot), Some(301));
    for part in ["chunk", "primary", "secondary"] {
        let name = format!("00000.{part}");
        fs::copy(other.path().join(&name), dir.path().join(&name)).unwrap();
    }
    let newest = ["chunk", "primary", "secondary"].map(|part| dir.path().join(format!("00003.{part}")));
    let contents = || newest.each_ref().map(|file| fs::read(file).unwrap());
    let before = contents();
    let error = open().unwrap_err();
    assert!(matches!(error, ChainError::Order { chunk: 3, offset: 0, slot: 301, .. }), "{error}");
    assert!(error.to_string().contains("00003.chunk"), "{error}");
    assert!(contents() == before);
}

#[test]
fn a_block_far_behind_the_last_one_makes_no_endless_row_of_chunks() {
    let dir = tempfile::tempdir().unwrap();
    let mut appender = Appender::open(Arc::new(RealStorage::new(dir.path())), 10).unwrap();
    let far = byron_blocks(&[(0, Some(0)), (16_385, Some(0))]);
    appender.append(&Block::parse_with(&far[0], 10).unwrap()).unwrap();
    let error = appender.append(&Block::parse_with(&far[1], 10).unwrap()).unwrap_err();
    assert!(matches!(error, ChainError::Order { chunk: 16_385, slot: 163_850, .. }), "{error}");
    assert!(error.to_string().contains("is 16385 behind the newest"), "{error}");
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 3);
    // Nothing else is in the way of one that is near.
    let near = byron_blocks(&[(0, Some(0)), (2, Some(0))]);
    appender.append(&Block::parse_with(&near[1], 10).unwrap()).unwrap();
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 9);
}

#[test]
fn a_block_at_the_place_of_a_boundary_block_is_told() {
    let dir = copy("devnet/immutable");
    let whole = all("devnet");
    for (number, sound) in [(1_u32, 101), (3, 400)] {
        let file = dir.path().join(format!("{number:05}.primary"));
        let bytes = fs::read(&file).unwrap();
        // The first block is of the first slot of its chunk, which is relative slot 1.
        assert_eq!(bytes[5..13], [0, 0, 0, 0, 0, 0, 0, 56]);
        let mut altered = bytes.clone();
        altered[8] = 56;
        fs::write(&file, altered).unwrap();
        let strict = ReadOptions::default().tail(TornTail::Refuse);
        let (points, ended) = read_until(&[dir.path().to_owned()], strict);
        assert_eq!(points, whole[..sound], "chunk {number}");
        let Err(ChainError::Damaged { chunk, reason, .. }) = ended else { panic!("chunk {number}: {ended:?}") };
        assert_eq!((chunk, &*reason), (number, "its indexes disagree about the slot of entry 1"));
        fs::write(&file, bytes).unwrap();
    }
}
