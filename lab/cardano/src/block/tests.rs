//! Blocks of every era against what others say of them.

use std::{fs, path::Path};

use super::*;

fn data() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/cardano/blocks")
}

/// Returns the file's block, which may be written in hexadecimal.
fn block(set: &str, file: &str, encoding: &str) -> Vec<u8> {
    let bytes = fs::read(data().join(set).join(file)).unwrap();
    if encoding == "raw" {
        return bytes;
    }
    let digits: Vec<u8> =
        bytes.iter().filter_map(|byte| char::from(*byte).to_digit(16)).map(|digit| digit as u8).collect();
    digits.chunks_exact(2).map(|pair| pair[0] << 4 | pair[1]).collect()
}

fn all() -> Vec<(Vec<String>, Vec<u8>)> {
    let manifest = fs::read_to_string(data().join("MANIFEST.csv")).unwrap();
    let lines = manifest.lines().skip(1).map(|line| line.split(',').map(str::to_owned).collect::<Vec<_>>());
    lines.map(|line| (line.clone(), block(&line[0], &line[1], &line[2]))).collect()
}

#[test]
fn every_block_of_the_list_is_what_the_list_says() {
    let all = all();
    assert!(all.len() > 50, "{}", all.len());
    for (line, bytes) in &all {
        let [_, file, _, era, slot, number, hash, txs, size] = &line[..] else { panic!("{line:?}") };
        let block = Block::parse(bytes).unwrap_or_else(|error| panic!("{file}: {error}"));
        assert_eq!(block.hash().to_string(), *hash, "{file}");
        assert_eq!(block.number().to_string(), *number, "{file}");
        assert_eq!(bytes.len().to_string(), *size, "{file}");
        let said = match slot.split_once('.') {
            Some((epoch, slot)) => epoch.parse::<u64>().unwrap() * 21_600 + slot.parse::<u64>().unwrap_or(0),
            None => slot
                .strip_prefix("epoch ")
                .map_or_else(|| slot.parse().unwrap(), |epoch| epoch.parse::<u64>().unwrap() * 21_600),
        };
        assert_eq!(block.slot(), said, "{file}");
        let named = block.era().name().to_lowercase();
        assert!(named == *era || era == "byron-ebb" && named == "byron boundary", "{file}: {named}, not {era}");
        let read: Vec<_> = block.transactions().unwrap().map(|tx| tx.unwrap()).collect();
        assert_eq!(read.len().to_string(), *txs, "{file}");
        for tx in &read {
            assert!(tx.spent().all(|input| input.is_ok()), "{file}");
            assert!(tx.created().all(|output| output.is_ok()), "{file}");
            assert!(tx.failed() || tx.spent().count() > 0, "{file}: a transaction spends something");
            assert_eq!(tx.fee().is_none(), block.era().is_byron(), "{file}");
        }
        assert!(block.is_body_sound(), "{file}");
        let magic = if file == "byron7.block" { 1_097_911_063 } else { 764_824_073 };
        assert_eq!(block.magic(), Some(magic).filter(|_| block.era().is_byron()), "{file}");
    }
}

#[test]
fn a_cut_block_is_refused_at_every_byte() {
    for (line, bytes) in all().iter().filter(|(_, bytes)| bytes.len() < 4000) {
        for cut in 0..bytes.len() {
            assert!(Block::parse(&bytes[..cut]).is_err(), "{} cut at {cut}", line[1]);
        }
        let longer = [&bytes[..], &[0]].concat();
        assert_eq!(Block::parse(&longer).unwrap_err().offset, bytes.len(), "{}", line[1]);
        assert_eq!(Block::first(&longer).unwrap().bytes(), &bytes[..], "{}", line[1]);
    }
}

#[test]
fn a_flipped_bit_never_goes_unseen_in_what_hashes_cover() {
    let mut flipped = 0;
    for (line, bytes) in all().iter().filter(|(_, bytes)| bytes.len() < 4000) {
        let whole = Block::parse(bytes).unwrap();
        for at in (0..bytes.len()).step_by(7) {
            let mut bytes = bytes.clone();
            bytes[at] ^= 1 << (at % 8);
            let Ok(block) = Block::parse(&bytes) else { continue };
            let read = block.transactions().map(|txs| {
                for tx in txs.flatten() {
                    let _ = (tx.id(), tx.spent().count(), tx.created().count());
                }
            });
            flipped += 1;
            // The era stands before what is hashed.
            let seen = block.hash() != whole.hash() || !block.is_body_sound() || at == 1 || read.is_err();
            assert!(seen, "{} flipped at {at}", line[1]);
        }
    }
    assert!(flipped > 500, "{flipped}");
}

#[test]
fn no_bit_of_a_block_of_byron_is_free() {
    let mut flipped = 0;
    for (line, bytes) in all().iter().filter(|(line, bytes)| line[3] == "byron" && bytes.len() < 4000) {
        let whole = Block::parse(bytes).unwrap();
        let mut bytes = bytes.clone();
        for bit in 0..8 * bytes.len() {
            bytes[bit / 8] ^= 1 << (bit % 8);
            if let Ok(block) = Block::parse(&bytes) {
                let seen = block.hash() != whole.hash() || !block.is_body_sound();
                assert!(seen, "{} flipped at bit {} of byte {}", line[1], bit % 8, bit / 8);
                flipped += 1;
            }
            bytes[bit / 8] ^= 1 << (bit % 8);
        }
    }
    assert!(flipped > 50_000, "{flipped}");
}

#[test]
fn certificates_of_a_block_of_byron_have_a_bound() {
    let bytes = block("pallas", "byron3.block", "hex");
    let body = Block::parse(&bytes).unwrap().parts[0].clone();
    // Its seven certificates end before no delegations and no updates.
    let from = bytes.windows(4).rposition(|window| window == [0xd9, 0x01, 0x02, 0x87]).unwrap();
    let with = |count: usize| {
        let certificates = [0x84, 0x40, 0x00, 0x40, 0x40].repeat(count);
        [&bytes[..from], &[0x9f], &certificates, &[0xff], &bytes[body.end - 6..]].concat()
    };
    let holds = |bytes: &[u8]| {
        let block = Block::parse(bytes).unwrap();
        proof::holds(block.era, bytes, &block.header, &block.parts[0], &block.parts[1])
    };
    assert_eq!(holds(&with(1 << 14)), Ok(false));
    let error = holds(&with(1 << 20)).unwrap_err();
    assert_eq!((error.offset, error.reason), (from + 1 + 5 * (1 << 14), "more certificates than a block has room for"));
}

#[test]
fn places_of_failed_transactions_are_found_in_any_order_and_no_more_than_there_are() {
    let mut tried = 0;
    for (line, bytes) in all() {
        let block = Block::parse(&bytes).unwrap();
        let count = block.transactions().unwrap().count();
        if block.era() < Era::Alonzo || !(3..20).contains(&count) {
            continue;
        }
        let with = |places: &[usize]| {
            let list: Vec<u8> =
                [0x9f].into_iter().chain(places.iter().map(|place| *place as u8)).chain([0xff]).collect();
            let failed = &block.parts[3];
            [&bytes[..failed.start], &list, &bytes[failed.end..]].concat()
        };
        let two = with(&[count - 1, 0]);
        let failed: Vec<bool> =
            Block::parse(&two).unwrap().transactions().unwrap().map(|tx| tx.unwrap().failed()).collect();
        let places: Vec<usize> = (0..count).filter(|place| failed[*place]).collect();
        assert_eq!(places, [0, count - 1], "{}", line[1]);
        let all: Vec<usize> = (0..count).collect();
        assert!(Block::parse(&with(&all)).unwrap().transactions().is_ok(), "{}", line[1]);
        let many = with(&[&all[..], &[0]].concat());
        let refused = Block::parse(&many).unwrap().transactions().map(|_| ()).unwrap_err();
        assert_eq!(refused.reason, "more transactions failed than there are", "{}", line[1]);
        tried += 1;
    }
    assert!(tried > 3, "{tried}");
}

#[test]
fn numbers_that_are_absurd_are_refused() {
    let bad: [(&[u8], &str); 5] = [
        (&[0x82, 0x08, 0x80], "an era that is not known"),
        (&[0x82, 0x06, 0x84, 0, 0, 0, 0], "a block has not as many parts as its era says"),
        (&[0x9b, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff], "more items are announced than there are bytes"),
        (&[], "it ends within an item"),
        (&[0x83, 0x06, 0x80, 0x80], "a block is an array of an era and its contents"),
    ];
    for (bytes, reason) in bad {
        assert_eq!(Block::parse(bytes).unwrap_err().reason, reason, "{bytes:x?}");
    }
}
