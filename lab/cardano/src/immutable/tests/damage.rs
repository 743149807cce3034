//! Chains that are damaged or cut: what is read of them, and how the rest is told.

use std::{fs, sync::Arc};

use bristlecone::storage::RealStorage;

use super::{all, copy, data, read, read_until};
use crate::{Block, ChainError, ReadOptions, TornTail, hash::from_hex_bytes, immutable::Appender};

#[test]
fn indexes_that_end_early_leave_whole_blocks_and_a_note() {
    let dir = copy("damaged");
    let at = |tail| read(&[dir.path().to_owned()], ReadOptions::default().tail(tail));
    let (points, note) = at(TornTail::Incomplete).unwrap();
    assert_eq!(points.len(), 59);
    let note = note.unwrap();
    for part in ["chunk 10366 is damaged at byte 156680: ", "59 blocks, and a secondary index of 1400 bytes"] {
        assert!(note.contains(part), "{note}");
    }
    let error = at(TornTail::Refuse).unwrap_err().to_string();
    assert!(error.contains("chunk 10366"), "{error}");
    // With another chunk behind it, it is no newest one, and nothing is left out.
    for part in ["chunk", "primary", "secondary"] {
        fs::write(dir.path().join(format!("10367.{part}")), []).unwrap();
    }
    let error = at(TornTail::Incomplete).unwrap_err().to_string();
    assert!(error.contains("chunk 10366") && error.contains("secondary index"), "{error}");
}

#[test]
fn a_newest_chunk_that_is_cut_anywhere_gives_its_whole_blocks() {
    let dir = copy("devnet/immutable");
    let whole = all("devnet");
    let file = dir.path().join("00003.chunk");
    let bytes = fs::read(&file).unwrap();
    let ends: Vec<u64> = whole[300..].iter().map(|(_, at)| at.offset + u64::from(at.bytes)).collect();
    let near = ends.iter().step_by(9).flat_map(|end| [end.saturating_sub(1), *end, end + 1]);
    for cut in near.chain((0..bytes.len() as u64).step_by(1009)).filter(|cut| *cut < bytes.len() as u64) {
        fs::write(&file, &bytes[..cut as usize]).unwrap();
        let (points, note) = read(&[dir.path().to_owned()], ReadOptions::default()).unwrap();
        let count = 300 + ends.iter().filter(|end| **end <= cut).count();
        assert_eq!(points, whole[..count], "cut at {cut}");
        let (next, at) = whole[count];
        let named = format!("chunk 3 is damaged at byte {}, in the block of slot {}: ", at.offset, next.slot);
        assert!(note.as_ref().is_some_and(|note| note.contains(&named)), "cut at {cut}: {note:?}");
    }
}

#[test]
fn a_flipped_bit_is_named_by_its_place() {
    let dir = copy("devnet/immutable");
    let whole = all("devnet");
    for (number, step) in [(1, 997), (3, 1499)] {
        let file = dir.path().join(format!("{number:05}.chunk"));
        let bytes = fs::read(&file).unwrap();
        for at in (0..bytes.len()).step_by(step) {
            let mut flipped = bytes.clone();
            flipped[at] ^= 1 << (at % 8);
            fs::write(&file, &flipped).unwrap();
            let (points, ended) = read_until(&[dir.path().to_owned()], ReadOptions::default());
            let before = whole.iter().position(|(_, place)| {
                place.chunk == number && (place.offset..place.offset + u64::from(place.bytes)).contains(&(at as u64))
            });
            let before = before.unwrap();
            let (point, place) = &whole[before];
            assert_eq!(points, whole[..before], "flipped at {at}");
            match ended {
                Err(ChainError::Damaged { chunk, offset, slot, .. }) => {
                    assert_eq!((chunk, slot), (number, Some(point.slot)), "flipped at {at}");
                    assert!((place.offset..place.offset + u64::from(place.bytes)).contains(&offset), "flipped at {at}");
                }
                other => panic!("flipped at {at}: {other:?}"),
            }
        }
        fs::write(&file, &bytes).unwrap();
    }
}

#[test]
fn without_a_checksum_the_header_says_whether_the_body_is_altered() {
    let dir = copy("devnet/immutable");
    let whole = all("devnet");
    for number in [1, 3] {
        let index = dir.path().join(format!("{number:05}.secondary"));
        let mut entries = fs::read(&index).unwrap();
        entries.chunks_exact_mut(56).for_each(|entry| entry[12..16].fill(0));
        fs::write(&index, entries).unwrap();
    }
    let chain = [dir.path().to_owned()];
    assert_eq!(read(&chain, ReadOptions::default()).unwrap(), (whole.clone(), None));
    // The first blocks of both chunks that have a transaction: its output's address, or what else has room for another byte.
    for (number, from) in [(1, 100), (3, 300)] {
        let file = dir.path().join(format!("{number:05}.chunk"));
        let bytes = fs::read(&file).unwrap();
        let mut tried = 0;
        for (index, (point, place)) in whole.iter().enumerate().skip(from).take(100) {
            let at = place.offset as usize..place.offset as usize + place.bytes as usize;
            let block = Block::parse(&bytes[at.clone()]).unwrap();
            let Some(transaction) = block.transactions().unwrap().next() else { continue };
            let (_, output) = transaction.unwrap().created().next().unwrap().unwrap();
            let mut flipped = bytes.clone();
            flipped[output.as_ptr() as usize - bytes.as_ptr() as usize + 10] ^= 1;
            fs::write(&file, &flipped).unwrap();
            let (points, ended) = read_until(&chain, ReadOptions::default());
            assert_eq!(points, whole[..index]);
            match ended {
                Err(ChainError::Damaged { chunk, slot, offset, .. }) => {
                    assert_eq!((chunk, slot, offset), (number, Some(point.slot), place.offset));
                }
                other => panic!("block {index}: {other:?}"),
            }
            tried += 1;
        }
        fs::write(&file, &bytes).unwrap();
        assert!(tried > 0, "chunk {number}");
    }
}

#[test]
fn a_body_that_is_altered_with_its_checksum_is_damage() {
    let dir = copy("devnet/immutable");
    let whole = all("devnet");
    for (number, from) in [(1, 100), (3, 300)] {
        let names = ["chunk", "secondary"].map(|part| dir.path().join(format!("{number:05}.{part}")));
        let [bytes, entries] = names.each_ref().map(|file| fs::read(file).unwrap());
        let (mut altered, mut index) = (bytes.clone(), from);
        loop {
            let place = whole[index].1;
            let at = place.offset as usize..place.offset as usize + place.bytes as usize;
            let block = Block::parse(&bytes[at.clone()]).unwrap();
            if let Some(transaction) = block.transactions().unwrap().next() {
                let (_, output) = transaction.unwrap().created().next().unwrap().unwrap();
                altered[output.as_ptr() as usize - bytes.as_ptr() as usize + 10] ^= 1;
                let (mut entries, entry) = (entries.clone(), 56 * (index - from));
                entries[entry + 12..entry + 16].copy_from_slice(&crc32fast::hash(&altered[at]).to_be_bytes());
                fs::write(&names[0], &altered).unwrap();
                fs::write(&names[1], entries).unwrap();
                break;
            }
            index += 1;
        }
        let (points, ended) = read_until(&[dir.path().to_owned()], ReadOptions::default());
        assert_eq!(points, whole[..index]);
        let Err(ChainError::Damaged { chunk, reason, .. }) = ended else { panic!("chunk {number}: {ended:?}") };
        assert!(chunk == number && reason.contains("the body of the block"), "{reason}");
        fs::write(&names[0], &bytes).unwrap();
        fs::write(&names[1], &entries).unwrap();
    }
}

/// Returns a block of Byron as bytes.
fn byron(name: &str) -> Vec<u8> {
    let text = fs::read(data(&format!("blocks/pallas/{name}.block"))).unwrap();
    from_hex_bytes(text.trim_ascii()).unwrap()
}

#[test]
fn without_a_checksum_the_header_of_byron_says_whether_the_body_is_altered() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("byron.cbor");
    let mut seen = 0;
    for (name, step) in
        [("byron1", 7), ("byron3", 41), ("byron4", 7), ("byron6", 7), ("byron7", 101), ("genesis", 40_009)]
    {
        let whole = byron(name);
        let block = Block::parse(&whole).unwrap();
        // The extra data of a boundary block are in no hash.
        let free = if block.boundary_epoch().is_some() { 2 } else { 0 };
        for at in (0..whole.len() - free).step_by(step) {
            let mut flipped = whole.clone();
            flipped[at] ^= 1 << (at / step % 8);
            fs::write(&file, &flipped).unwrap();
            match read(std::slice::from_ref(&file), ReadOptions::default()) {
                Err(ChainError::Damaged { .. }) => seen += 1,
                // Another header is that of another block.
                Ok((points, None)) if block.header_range().contains(&at) => {
                    assert_ne!(points[0].0.hash, block.hash(), "{name} flipped at {at}");
                }
                other => panic!("{name} flipped at {at}: {other:?}"),
            }
        }
    }
    assert!(seen > 200, "{seen}");
}

#[test]
fn a_chunk_of_byron_without_checksums_is_read_only_where_it_is_whole() {
    let dir = tempfile::tempdir().unwrap();
    let whole = byron("byron7");
    let block = Block::parse(&whole).unwrap();
    let mut appender = Appender::open(Arc::new(RealStorage::new(dir.path())), 21_600).unwrap();
    appender.append(&block).unwrap();
    appender.sync().unwrap();
    let (_, output) = block.transactions().unwrap().next().unwrap().unwrap().created().next().unwrap().unwrap();
    let mut flipped = whole.clone();
    flipped[output.as_ptr() as usize - whole.as_ptr() as usize + 10] ^= 1;
    let index = dir.path().join("00013.secondary");
    let mut entry = fs::read(&index).unwrap();
    entry[12..16].fill(0);
    let altered = |is_newest: bool| {
        for bytes in [&whole, &flipped] {
            fs::write(dir.path().join("00013.chunk"), bytes).unwrap();
            let (points, ended) = read_until(&[dir.path().to_owned()], ReadOptions::default());
            if *bytes == whole {
                assert_eq!(points, [(block.point(), points[0].1)], "newest: {is_newest}");
                continue;
            }
            assert!(points.is_empty(), "newest: {is_newest}");
            assert!(matches!(ended, Err(ChainError::Damaged { chunk: 13, offset: 0, .. })), "{ended:?}");
        }
    };
    fs::write(&index, &entry).unwrap();
    altered(true);
    fs::remove_file(&index).unwrap();
    altered(true);
    // With another chunk behind it.
    fs::write(&index, &entry).unwrap();
    for part in ["chunk", "primary", "secondary"] {
        fs::write(dir.path().join(format!("00014.{part}")), []).unwrap();
    }
    altered(false);
}

#[test]
fn a_single_block_that_is_damaged_is_named_by_its_slot_and_by_no_chunk() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("block.cbor");
    let whole = byron("byron7");
    let block = Block::parse(&whole).unwrap();
    let (_, output) = block.transactions().unwrap().next().unwrap().unwrap().created().next().unwrap().unwrap();
    let mut altered = whole.clone();
    altered[output.as_ptr() as usize - whole.as_ptr() as usize + 10] ^= 1;
    let longer = [&whole[..], &[0]].concat();
    let behind = block.header_range().end;
    for (bytes, said) in [
        (&altered[..], true),
        (&longer[..], true),
        (&whole[..whole.len() - 1], true),
        (&whole[..behind], true),
        (&whole[..behind - 1], false),
    ] {
        fs::write(&file, bytes).unwrap();
        let error = read(std::slice::from_ref(&file), ReadOptions::default()).unwrap_err();
        let ChainError::Damaged { slot, .. } = error else { panic!("{error}") };
        assert_eq!(slot, Some(block.slot()).filter(|_| said), "{error}");
        let named = format!("{}: a single block is damaged at byte ", file.display());
        assert!(error.to_string().starts_with(&named), "{error}");
    }
}

#[test]
fn an_older_chunk_that_is_cut_gives_its_whole_blocks_and_an_error() {
    let dir = copy("devnet/immutable");
    let whole = all("devnet");
    let cut = |name: &str, bytes: u64| {
        let file = dir.path().join(name);
        let before = fs::read(&file).unwrap();
        fs::write(&file, &before[..bytes as usize]).unwrap();
        let (points, ended) = read_until(&[dir.path().to_owned()], ReadOptions::default());
        fs::write(&file, before).unwrap();
        match ended {
            Err(ChainError::Damaged { chunk: 1, offset, slot, .. }) => (points, offset, slot),
            other => panic!("{name} cut at {bytes}: {other:?}"),
        }
    };
    let (point, place) = whole[150];
    for bytes in [place.offset, place.offset + 1, place.offset + u64::from(place.bytes) - 1] {
        assert_eq!(cut("00001.chunk", bytes), (whole[..150].to_vec(), place.offset, Some(point.slot)));
    }
    // A secondary index that ends with an entry or within one, and a primary index.
    for bytes in [50 * 56, 50 * 56 + 9] {
        let found = (whole[..150].to_vec(), place.offset, Some(point.slot));
        assert_eq!(cut("00001.secondary", bytes), found, "{bytes}");
    }
    for bytes in [1 + 4 * 52, 1 + 4 * 52 + 3] {
        assert_eq!(cut("00001.primary", bytes), (whole[..150].to_vec(), place.offset, Some(point.slot)), "{bytes}");
    }
}

#[test]
fn an_older_chunk_whose_primary_index_ends_behind_its_last_block_is_told() {
    let dir = copy("preview/immutable");
    let whole = all("preview");
    let chain = [dir.path().to_owned()];
    for number in [0, 1] {
        let file = dir.path().join(format!("{number:05}.primary"));
        let bytes = fs::read(&file).unwrap();
        let count = 216 * (number as usize + 1);
        let (last, place) = whole[count - 1];
        // The version, and the offsets up to the one behind the last block.
        let filled = 1 + 4 * (last.slot as usize - 4320 * number as usize + 3);
        for cut in [filled, filled + 4, bytes.len() - 4] {
            fs::write(&file, &bytes[..cut]).unwrap();
            let (points, ended) = read_until(&chain, ReadOptions::default());
            assert_eq!(points, whole[..count], "chunk {number} cut at {cut}");
            let Err(ChainError::Damaged { chunk, offset, reason, .. }) = ended else { panic!("{cut}: {ended:?}") };
            assert_eq!((chunk, offset), (number, place.offset + u64::from(place.bytes)), "cut at {cut}");
            assert!(reason.contains(&format!("has {} offsets", cut / 4)) && reason.contains("4322"), "{reason}");
            let (points, ended) = read_until(&chain, ReadOptions::default().check(false));
            assert!(points == whole && ended.is_ok(), "{ended:?}");
        }
        fs::write(&file, bytes).unwrap();
    }
    assert_eq!(read(&chain, ReadOptions::default()).unwrap(), (whole, None));
}

#[test]
fn older_chunks_that_are_numbered_in_another_way_may_have_primary_indexes_of_other_lengths() {
    // As epochs number them, without a place for a boundary block.
    let dir = copy("devnet/immutable");
    for number in 0..4 {
        let file = dir.path().join(format!("{number:05}.primary"));
        let bytes = fs::read(&file).unwrap();
        assert_eq!(bytes[1..9], [0; 8]);
        fs::write(&file, [&bytes[..1], &bytes[5..]].concat()).unwrap();
    }
    assert_eq!(read(&[dir.path().to_owned()], ReadOptions::default()).unwrap().0, all("devnet"));
}

#[test]
fn flipped_bits_in_indexes_are_errors_or_change_nothing() {
    let dir = copy("devnet/immutable");
    let whole = all("devnet");
    for (name, step) in [("00001.primary", 3), ("00001.secondary", 13), ("00003.secondary", 13), ("00003.primary", 5)] {
        let file = dir.path().join(name);
        let bytes = fs::read(&file).unwrap();
        for at in (0..bytes.len()).step_by(step) {
            let mut flipped = bytes.clone();
            flipped[at] ^= 1 << (at % 8);
            fs::write(&file, &flipped).unwrap();
            let (points, ended) = read_until(&[dir.path().to_owned()], ReadOptions::default());
            // There is a block in every slot, so that an index tells by the place of a byte which blocks it is about: an
            // entry of the one before it too, whose end it is.
            let about = if name.ends_with("primary") { at.saturating_sub(1) / 4 } else { at / 56 + 1 };
            let sound = 100 * name[..5].parse::<usize>().unwrap() + about.saturating_sub(2);
            assert!(whole.starts_with(&points) && points.len() >= sound, "{name} flipped at {at}: {}", points.len());
            match ended {
                Err(ChainError::Damaged { chunk, .. }) => assert_eq!(format!("{chunk:05}"), name[..5]),
                // Of the newest chunk the primary index is not needed.
                Ok(Some(note)) if name == "00003.primary" => {
                    assert!(points == whole && note.contains("index"), "flipped at {at}: {note}");
                    let strict = ReadOptions::default().tail(TornTail::Refuse);
                    let (points, ended) = read_until(&[dir.path().to_owned()], strict);
                    assert_eq!(points, whole, "flipped at {at}");
                    assert!(matches!(ended, Err(ChainError::Damaged { chunk: 3, .. })), "flipped at {at}: {ended:?}");
                }
                other => panic!("{name} flipped at {at}: {other:?}"),
            }
        }
        fs::write(&file, &bytes).unwrap();
    }
}

#[test]
fn a_newest_chunk_without_its_whole_primary_index_is_told_or_refused() {
    let dir = copy("devnet/immutable");
    let whole = all("devnet");
    let file = dir.path().join("00003.primary");
    let bytes = fs::read(&file).unwrap();
    let at = |tail| read_until(&[dir.path().to_owned()], ReadOptions::default().tail(tail));
    assert!(matches!(at(TornTail::Refuse), (points, Ok(None)) if points == whole));
    for cut in [Some(0), Some(1), Some(4 * 50), Some(1 + 4 * 50), None] {
        match cut {
            Some(cut) => fs::write(&file, &bytes[..cut]).unwrap(),
            None => fs::remove_file(&file).unwrap(),
        }
        let (points, ended) = at(TornTail::Refuse);
        assert_eq!(points, whole, "cut at {cut:?}");
        assert!(matches!(ended, Err(ChainError::Damaged { chunk: 3, .. })), "cut at {cut:?}: {ended:?}");
        for tail in [TornTail::Incomplete, TornTail::Cut] {
            let (points, ended) = at(tail);
            assert_eq!(points, whole, "cut at {cut:?}");
            assert!(ended.unwrap().unwrap().contains("primary index"), "cut at {cut:?}");
        }
    }
}

#[test]
fn blocks_out_of_order_and_missing_files_are_refused() {
    let at = |number: u32| data(&format!("devnet/immutable/{number:05}.chunk"));
    let error = read(&[at(0), at(2)], ReadOptions::default()).unwrap_err();
    assert!(matches!(error, ChainError::Order { chunk: 2, offset: 0, .. }), "{error}");
    assert!(error.to_string().contains("it follows"), "{error}");
    let error = read(&[at(1), at(0)], ReadOptions::default()).unwrap_err();
    assert!(matches!(error, ChainError::Order { chunk: 0, .. }), "{error}");
    let dir = copy("devnet/immutable");
    fs::remove_file(dir.path().join("00002.primary")).unwrap();
    let error = read(&[dir.path().to_owned()], ReadOptions::default()).unwrap_err();
    assert!(error.to_string().contains("primary index is missing"), "{error}");
    // The indexes of a chunk show that its blocks are missing.
    fs::remove_file(dir.path().join("00001.chunk")).unwrap();
    let (points, ended) = read_until(&[dir.path().to_owned()], ReadOptions::default());
    assert_eq!(points.len(), 100);
    assert!(matches!(&ended, Err(ChainError::NoChain { file, .. }) if file.ends_with("00001.chunk")), "{ended:?}");
    let empty = tempfile::tempdir().unwrap();
    let error = read(&[empty.path().to_owned()], ReadOptions::default()).unwrap_err();
    assert!(matches!(error, ChainError::NoChain { .. }), "{error}");
}
