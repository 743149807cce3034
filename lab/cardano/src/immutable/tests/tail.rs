//! Newest chunks whose end is torn, and what is told from it.

use std::fs;

use super::{all, copy, read, read_until};
use crate::{Block, ChainError, ReadOptions, TornTail};

#[test]
fn a_last_block_that_is_as_long_as_its_header_says_is_altered_and_not_cut_off() {
    let dir = copy("devnet/immutable");
    let whole = all("devnet")[300..].to_vec();
    let file = dir.path().join("00003.chunk");
    let bytes = fs::read(&file).unwrap();
    let (last, place) = whole[99];
    let header = Block::parse(&bytes[place.offset as usize..]).unwrap().header_range();
    let (from, behind) = (place.offset as usize, place.offset as usize + header.end);
    for is_indexed in [true, false] {
        if !is_indexed {
            fs::remove_file(dir.path().join("00003.secondary")).unwrap();
        }
        // Only the index says which header it is.
        let before = if is_indexed { 8 * from } else { 8 * behind };
        for bit in (before..8 * behind).step_by(6).chain(8 * behind..8 * bytes.len()) {
            let mut flipped = bytes.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            fs::write(&file, &flipped).unwrap();
            let (points, ended) = read_until(std::slice::from_ref(&file), ReadOptions::default());
            assert_eq!(points, whole[..99], "bit {bit}");
            let Err(ChainError::Damaged { chunk: 3, slot, .. }) = ended else { panic!("bit {bit}: {ended:?}") };
            assert_eq!(slot, Some(last.slot), "bit {bit}");
        }
    }
}

#[test]
fn zeros_behind_the_whole_blocks_of_the_newest_chunk_are_a_torn_tail() {
    let dir = copy("devnet/immutable");
    let whole = all("devnet");
    let file = dir.path().join("00003.chunk");
    let bytes = fs::read(&file).unwrap();
    let (amid, last) = (whole[350].1, whole[399].1);
    let within = |bytes: u64| [0, 1, 100, bytes / 2, bytes - 50, bytes - 5, bytes - 3, bytes - 2];
    let places = within(amid.bytes.into()).map(|within| (350, amid.offset + within));
    let at_end = within(last.bytes.into()).map(|within| (399, last.offset + within));
    let between = [(351, amid.offset + u64::from(amid.bytes))];
    for (count, from) in places.into_iter().chain(at_end).chain(between) {
        let mut torn = bytes.clone();
        torn[from as usize..].fill(0);
        fs::write(&file, &torn).unwrap();
        let (points, note) = read(&[dir.path().to_owned()], ReadOptions::default()).unwrap();
        assert_eq!(points, whole[..count], "zeros from {from}");
        assert!(note.unwrap().contains("left out"));
        let (points, ended) = read_until(&[dir.path().to_owned()], ReadOptions::default().tail(TornTail::Refuse));
        assert_eq!(points, whole[..count], "zeros from {from}");
        assert!(matches!(ended, Err(ChainError::Damaged { chunk: 3, .. })), "{ended:?}");
    }
    // A last byte that is zero is altered, not missing.
    let altered = [&bytes[..bytes.len() - 1], &[0]].concat();
    fs::write(&file, altered).unwrap();
    let (points, ended) = read_until(&[dir.path().to_owned()], ReadOptions::default());
    assert_eq!(points, whole[..399]);
    assert!(matches!(ended, Err(ChainError::Damaged { chunk: 3, .. })), "{ended:?}");
}

#[test]
fn zeros_at_the_end_of_the_newest_secondary_index_leave_all_blocks_and_a_note() {
    let dir = copy("devnet/immutable");
    let whole = all("devnet");
    let (index, file) = (dir.path().join("00003.secondary"), dir.path().join("00003.chunk"));
    let bytes = fs::read(&index).unwrap();
    let chain = [dir.path().to_owned()];
    // Whole entries and a part of one, and zeros up to where the index should end, or beyond.
    for (entries, part) in [(0, 0), (1, 8), (50, 0), (50, 1), (50, 16), (99, 48), (100, 0)] {
        for more in [0, 1, 56, 4096] {
            let mut torn = bytes[..entries * 56 + part].to_vec();
            torn.resize(bytes.len() + more, 0);
            if torn == bytes {
                continue;
            }
            fs::write(&index, &torn).unwrap();
            let (points, note) = read(&chain, ReadOptions::default()).unwrap();
            assert_eq!(points, whole, "{entries} entries and {part} bytes");
            assert!(note.unwrap().contains("secondary index"), "{entries} entries and {part} bytes");
            let (points, ended) = read_until(&chain, ReadOptions::default().tail(TornTail::Refuse));
            assert_eq!(points, whole, "{entries} entries and {part} bytes");
            assert!(matches!(ended, Err(ChainError::Damaged { chunk: 3, .. })), "{ended:?}");
        }
    }
    // Without their entries blocks are compared with what their headers say of them.
    fs::write(&index, vec![0; bytes.len()]).unwrap();
    let mut chunk = fs::read(&file).unwrap();
    let output = |index: usize| {
        let place = whole[index].1;
        let block = Block::parse(&chunk[place.offset as usize..][..place.bytes as usize]).unwrap();
        let transaction = block.transactions().unwrap().next()?.unwrap();
        let (_, output) = transaction.created().next().unwrap().unwrap();
        Some((index, output.as_ptr() as usize - chunk.as_ptr() as usize))
    };
    let (altered, at) = (300..400).find_map(output).unwrap();
    chunk[at + 10] ^= 1;
    fs::write(&file, &chunk).unwrap();
    let (points, ended) = read_until(&chain, ReadOptions::default());
    assert_eq!(points, whole[..altered]);
    assert!(matches!(ended, Err(ChainError::Damaged { chunk: 3, .. })), "{ended:?}");
}
