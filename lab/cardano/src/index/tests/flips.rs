//! Altered bytes anywhere: a right answer or an error, and never a wrong answer.

use std::fs;

use super::{Numbers, assert_is, chain_of, rebuilt};
use crate::{
    BlockIndex, IndexError, MappedIndex, Opened, Point,
    index::{
        IndexPart, Indexed,
        chain::{RECORDS, TABLE},
    },
};

/// Flips a bit of a file of a closed index, and compares what is then answered with the chain.
fn flipped(file: &str, flips: u64, of: impl Fn(&mut Numbers, &mut Vec<u8>)) -> u64 {
    let dir = tempfile::tempdir().unwrap();
    let chain = chain_of(900);
    let asked = answers(&chain);
    rebuilt(dir.path(), &chain).0.close().unwrap();
    let path = dir.path().join(file);
    let (whole, table) = (fs::read(&path).unwrap(), fs::read(dir.path().join(TABLE)).unwrap());
    let (mut numbers, mut noticed) = (Numbers(flips), 0);
    for _ in 0..flips {
        fs::write(dir.path().join(TABLE), &table).unwrap();
        let mut bytes = whole.clone();
        of(&mut numbers, &mut bytes);
        fs::write(&path, &bytes).unwrap();
        let mut index = match MappedIndex::open(dir.path()) {
            Ok((index, _)) => index,
            Err(error) => {
                assert!(matches!(error, IndexError::Damaged { .. }), "{error}");
                noticed += 1;
                continue;
            }
        };
        assert_eq!((index.len(), index.tip()), (900, chain.last().copied()));
        let mut damaged = false;
        for [block, of_number, of_slot] in &asked {
            let Point { slot, number, hash } = block.point;
            let answers =
                [(index.by_hash(&hash), block), (index.by_number(number), of_number), (index.by_slot(slot), of_slot)];
            for (found, right) in answers {
                match found {
                    Ok(found) => assert_eq!(found, Some(*right)),
                    Err(IndexError::Damaged { .. }) => damaged = true,
                    Err(error) => panic!("{error}"),
                }
            }
        }
        noticed += u64::from(damaged);
        if file == TABLE {
            index.repair().unwrap();
            assert_is(&index, &chain);
        }
    }
    noticed
}

/// Returns each block with the first one of its number and the last one of its slot, which are the answers where it is asked for.
fn answers(chain: &[Indexed]) -> Vec<[Indexed; 3]> {
    let with = |block: &Indexed| {
        let of_number = chain.iter().find(|other| other.point.number == block.point.number);
        let of_slot = chain.iter().rfind(|other| other.point.slot == block.point.slot);
        [*block, *of_number.unwrap(), *of_slot.unwrap()]
    };
    chain.iter().map(with).collect()
}

fn flip(range: std::ops::Range<usize>) -> impl Fn(&mut Numbers, &mut Vec<u8>) {
    move |numbers, bytes| {
        let at = range.start + numbers.below((range.len()) as u64) as usize;
        bytes[at] ^= 1 << numbers.below(8);
    }
}

#[test]
fn a_flipped_bit_of_a_record_is_noticed() {
    assert_eq!(flipped(RECORDS, 60, flip(4096..4096 + 900 * 64)), 60);
}

#[test]
fn a_flipped_bit_of_the_header_is_noticed() {
    assert_eq!(flipped(RECORDS, 60, flip(0..64)), 60);
}

#[test]
fn a_flipped_bit_of_the_table_leads_to_no_wrong_answer_and_is_repaired() {
    // Most bits matter to no lookup of these: hits are right by their records.
    flipped(TABLE, 100, flip(4096..4096 + 256 * 64));
    flipped(TABLE, 30, flip(0..64));
}

#[test]
fn a_page_of_zeros_or_of_another_place_is_noticed() {
    let pages = |numbers: &mut Numbers, bytes: &mut Vec<u8>| {
        let count = (bytes.len() as u64 / 4096 - 1).min(14);
        let page = |numbers: &mut Numbers| 4096 * (1 + numbers.below(count) as usize);
        let (from, to) = (page(numbers), page(numbers));
        if from == to || numbers.below(2) == 0 {
            bytes[to..to + 4096].fill(0);
        } else {
            bytes.copy_within(from..from + 4096, to);
        }
    };
    assert_eq!(flipped(RECORDS, 20, pages), 20);
    assert!(flipped(TABLE, 20, pages) >= 10);
}

#[test]
fn a_damaged_index_is_built_again() {
    let dir = tempfile::tempdir().unwrap();
    let chain = chain_of(900);
    rebuilt(dir.path(), &chain).0.close().unwrap();
    let mut bytes = fs::read(dir.path().join(RECORDS)).unwrap();
    bytes[4096 + 64 * 17 + 3] ^= 4;
    fs::write(dir.path().join(RECORDS), bytes).unwrap();
    fs::remove_file(dir.path().join(TABLE)).unwrap();
    let (index, how) = rebuilt(dir.path(), &chain);
    assert!(matches!(how, Opened::Rebuilt(IndexError::Damaged { number: 17, .. })), "{how:?}");
    assert_is(&index, &chain);
}

#[test]
fn a_change_that_meets_a_damaged_bucket_makes_the_table_again() {
    let dir = tempfile::tempdir().unwrap();
    let mut chain = chain_of(900);
    rebuilt(dir.path(), &chain).0.close().unwrap();
    let harmed = || {
        let path = dir.path().join(TABLE);
        let mut bytes = fs::read(&path).unwrap();
        bytes[4096..].chunks_exact_mut(64).for_each(|bucket| bucket[50] ^= 8);
        fs::write(&path, bytes).unwrap();
        let (index, how) = MappedIndex::open(dir.path()).unwrap();
        assert!(matches!(how, Opened::Clean), "{how:?}");
        assert!(index.repaired().is_none());
        index
    };
    let closed = |index: MappedIndex, chain: &[Indexed]| {
        assert!(matches!(index.repaired(), Some(IndexError::Damaged { part: IndexPart::Table, .. })));
        assert_is(&index, chain);
        index.close().unwrap();
        let (index, how) = MappedIndex::open(dir.path()).unwrap();
        assert!(matches!(how, Opened::Clean), "{how:?}");
        assert_is(&index, chain);
    };
    let mut index = harmed();
    let next = Numbers(5).after(chain.last());
    index.insert(&next.point, next.place).unwrap();
    chain.push(next);
    closed(index, &chain);
    // Few blocks are removed from the table one by one.
    let mut index = harmed();
    chain.truncate(890);
    index.truncate(Some(&chain[889].point)).unwrap();
    closed(index, &chain);
    // A block that is absent is told as that.
    let mut index = harmed();
    let absent = Numbers(6).after(chain.last()).point;
    assert!(matches!(index.truncate(Some(&absent)), Err(IndexError::NotIndexed { .. })));
    closed(index, &chain);
}

#[test]
fn after_a_change_met_a_damaged_record_the_index_is_built_again() {
    let dir = tempfile::tempdir().unwrap();
    let chain = chain_of(900);
    rebuilt(dir.path(), &chain).0.close().unwrap();
    let mut bytes = fs::read(dir.path().join(RECORDS)).unwrap();
    bytes[4096 + 64 * 17 + 3] ^= 4;
    fs::write(dir.path().join(RECORDS), bytes).unwrap();
    let (mut index, how) = MappedIndex::open(dir.path()).unwrap();
    assert!(matches!(how, Opened::Clean), "{how:?}");
    let error = index.truncate(Some(&chain[17].point));
    assert!(matches!(error, Err(IndexError::Damaged { part: IndexPart::Records, number: 17, .. })), "{error:?}");
    index.close().unwrap();
    let (index, how) = rebuilt(dir.path(), &chain);
    assert!(matches!(how, Opened::Rebuilt(IndexError::Damaged { number: 17, .. })), "{how:?}");
    assert_is(&index, &chain);
}
