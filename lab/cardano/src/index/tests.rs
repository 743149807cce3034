//! Both kinds against a model, and what the mapped one promises of crashes and altered bytes.

use std::{collections::BTreeMap, fs, path::Path};

use super::*;

mod crash;
pub(super) mod disk;
mod flips;

/// A stream of numbers, decided by its seed.
pub(super) struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        super::line::fold(self.0 ^ 0x1656_67B1_9E37_79F9, 0xD6E8_FEB8_6659_FD93)
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    fn hash(&mut self) -> BlockHash {
        let mut hash = BlockHash([0; 32]);
        hash.0.chunks_exact_mut(8).for_each(|word| word.copy_from_slice(&self.next().to_le_bytes()));
        hash
    }

    /// Returns a block that can follow a tip; now and then as epoch boundary blocks do.
    fn after(&mut self, tip: Option<&Indexed>) -> Indexed {
        let (mut slot, mut number) = tip.map_or((0, 0), |tip| (tip.point.slot, tip.point.number));
        match self.below(20) {
            0 => slot += 1,
            1 => number += 1,
            _ => (slot, number) = (slot + 1 + self.below(40), number + 1),
        }
        let point = Point { slot, number, hash: self.hash() };
        let place = BlockPlace { chunk: self.next() as u32, offset: self.next() >> 32, bytes: self.next() as u32 };
        Indexed { point, place }
    }
}

/// Compares all that an index answers with a chain.
fn assert_is(index: &dyn BlockIndex, chain: &[Indexed]) {
    assert_eq!((index.len(), index.tip()), (chain.len() as u64, chain.last().copied()));
    for block in chain {
        assert_eq!(index.by_hash(&block.point.hash).unwrap(), Some(*block));
    }
    let all: Vec<Indexed> = index.slots(0..=u64::MAX).map(Result::unwrap).collect();
    assert_eq!(all, chain);
}

/// Compares some answers with models that are sorted otherwise.
fn assert_answers(index: &dyn BlockIndex, chain: &[Indexed], model: &Model, numbers: &mut Numbers) {
    let last = chain.last().map_or(0, |block| block.point.slot + 50);
    let (slot, number) = (numbers.below(last + 1), numbers.below(chain.len() as u64 + 2));
    assert_eq!(
        index.by_slot(slot).unwrap(),
        model.slots.range((slot, 0)..=(slot, u64::MAX)).next_back().map(|(_, b)| *b)
    );
    let of_number = model.numbers.range((number, 0)..=(number, u64::MAX)).next().map(|(_, b)| *b);
    assert_eq!(index.by_number(number).unwrap(), of_number);
    let range: Vec<Indexed> = index.slots(slot..=slot + 100).map(Result::unwrap).collect();
    let expected: Vec<Indexed> = model.slots.range((slot, 0)..=(slot + 100, u64::MAX)).map(|(_, b)| *b).collect();
    assert_eq!(range, expected);
    assert!(!index.has(&numbers.hash()).unwrap());
    if !chain.is_empty() {
        let block = &chain[numbers.below(chain.len() as u64) as usize];
        assert_eq!(index.by_hash(&block.point.hash).unwrap(), Some(*block));
        assert!(index.has(&block.point.hash).unwrap());
    }
}

/// Blocks by slot and number, and by number and slot.
#[derive(Default)]
struct Model {
    slots: BTreeMap<(u64, u64), Indexed>,
    numbers: BTreeMap<(u64, u64), Indexed>,
}

impl Model {
    fn insert(&mut self, Indexed { point, place }: Indexed) {
        self.slots.insert((point.slot, point.number), Indexed { point, place });
        self.numbers.insert((point.number, point.slot), Indexed { point, place });
    }

    fn remove(&mut self, Indexed { point, .. }: &Indexed) {
        self.slots.remove(&(point.slot, point.number));
        self.numbers.remove(&(point.number, point.slot));
    }
}

/// Does random operations; `reopen` drops the index and opens it again, if told so after closing it in between.
fn against_model(index: &mut Box<dyn BlockIndex>, seed: u64, reopen: &mut dyn FnMut(&mut Box<dyn BlockIndex>, bool)) {
    let mut numbers = Numbers(seed);
    let (mut chain, mut model, mut synced): (Vec<Indexed>, Model, usize) = (Vec::new(), Model::default(), 0);
    for _ in 0..100_000 {
        match numbers.below(1000) {
            0..600 => {
                let block = numbers.after(chain.last());
                index.insert(&block.point, block.place).unwrap();
                chain.push(block);
                model.insert(block);
            }
            600 if !chain.is_empty() => {
                let bound = if numbers.below(20) == 0 { chain.len() as u64 } else { 200 };
                let back = numbers.below(bound);
                let keep = chain.len().saturating_sub(back as usize);
                index.truncate(keep.checked_sub(1).map(|last| &chain[last].point)).unwrap();
                chain.drain(keep..).for_each(|block| model.remove(&block));
                synced = synced.min(keep);
            }
            601..606 => {
                index.sync().unwrap();
                synced = chain.len();
            }
            606 => {
                let close = numbers.below(2) == 0;
                reopen(index, close);
                if (index.len() as usize) < chain.len() {
                    chain.drain(synced..).for_each(|block| model.remove(&block));
                }
                synced = chain.len();
                assert_is(&**index, &chain);
            }
            _ => assert_answers(&**index, &chain, &model, &mut numbers),
        }
    }
    assert_is(&**index, &chain);
    assert!(chain.len() > 1000, "{} blocks are left", chain.len());
}

#[test]
fn an_index_in_memory_is_as_a_model() {
    let mut index: Box<dyn BlockIndex> = Box::new(MemoryIndex::new().unwrap());
    against_model(&mut index, 1, &mut |_, _| ());
}

#[test]
fn a_mapped_index_is_as_a_model_across_closing_and_crashes() {
    let dir = tempfile::tempdir().unwrap();
    let mut index: Box<dyn BlockIndex> = Box::new(MappedIndex::create(dir.path()).unwrap());
    against_model(&mut index, 2, &mut |index, close| {
        // Another index stands in its place meanwhile, so that the lock is free.
        *index = Box::new(MemoryIndex::new().unwrap());
        let (mut opened, how) = MappedIndex::open(dir.path()).unwrap();
        assert!(matches!(how, Opened::Recovered), "a dropped index is not clean: {how:?}");
        if close {
            // Closed in between: what is durable is clean then.
            opened.sync().unwrap();
            opened.close().unwrap();
            let (again, how) = MappedIndex::open(dir.path()).unwrap();
            assert!(matches!(how, Opened::Clean), "{how:?}");
            opened = again;
        }
        *index = Box::new(opened);
    });
}

#[test]
fn what_cannot_follow_the_tip_is_refused_and_changes_nothing() {
    let mut index = MemoryIndex::new().unwrap();
    let mut numbers = Numbers(3);
    let place = BlockPlace { chunk: 1, offset: 2, bytes: 3 };
    let mut at = |slot, number| Point { slot, number, hash: numbers.hash() };
    let tip = at(100, 50);
    index.insert(&tip, place).unwrap();
    for (slot, number) in [(99, 51), (101, 49), (100, 50), (0, 0)] {
        let error = index.insert(&at(slot, number), place).unwrap_err();
        assert!(matches!(error, IndexError::OutOfOrder { tip: of, .. } if of == tip), "{error}");
    }
    let again = Point { slot: 200, ..tip };
    assert!(matches!(index.insert(&again, place), Err(IndexError::Duplicate { other, .. }) if other == tip));
    let far = BlockPlace { offset: 1 << 32, ..place };
    assert!(matches!(index.insert(&at(200, 51), far), Err(IndexError::TooLarge { .. })));
    assert!(matches!(index.truncate(Some(&again)), Err(IndexError::NotIndexed { .. })));
    assert!(matches!(index.truncate(Some(&at(100, 50))), Err(IndexError::NotIndexed { .. })));
    assert_is(&index, &[Indexed { point: tip, place }]);
    index.truncate(None).unwrap();
    assert_is(&index, &[]);
}

#[test]
fn hashes_that_begin_alike_are_found_until_they_crowd_and_then_refused() {
    let mut index = MemoryIndex::new().unwrap();
    let mut chain = Vec::new();
    let refused = (0..1000_u64).find_map(|number| {
        let mut hash = BlockHash([7; 32]);
        hash.0[24..].copy_from_slice(&number.to_le_bytes());
        let point = Point { slot: number, number, hash };
        let place = BlockPlace { chunk: 0, offset: number, bytes: 1 };
        match index.insert(&point, place) {
            Ok(()) => chain.push(Indexed { point, place }),
            Err(error) => return Some(error),
        }
        None
    });
    assert!(matches!(refused, Some(IndexError::Crowded { .. })), "{refused:?}");
    assert_eq!(chain.len(), 32 * 8);
    assert_is(&index, &chain);
    index.truncate(Some(&chain[99].point)).unwrap();
    assert_is(&index, &chain[..100]);
}

#[test]
fn a_folder_has_one_user_and_what_is_missing_is_built() {
    let dir = tempfile::tempdir().unwrap();
    assert!(matches!(MappedIndex::open(dir.path()), Err(IndexError::Missing { .. })));
    let chain = chain_of(3000);
    let (index, how) = rebuilt(dir.path(), &chain);
    assert!(matches!(how, Opened::Rebuilt(IndexError::Missing { .. })), "{how:?}");
    assert!(matches!(MappedIndex::open(dir.path()), Err(IndexError::Locked { .. })));
    assert!(matches!(MappedIndex::create(dir.path()), Err(IndexError::Locked { .. })));
    index.close().unwrap();
    let (index, how) = rebuilt(dir.path(), &[]);
    assert!(matches!(how, Opened::Clean), "{how:?}");
    assert_is(&index, &chain);
    drop(index);
    for (file, bytes) in
        [(chain::RECORDS, 0), (chain::RECORDS, 10), (chain::RECORDS, 5000), (chain::TABLE, 0), (chain::TABLE, 9000)]
    {
        let (index, _) = rebuilt(dir.path(), &chain);
        index.close().unwrap();
        fs::OpenOptions::new().write(true).open(dir.path().join(file)).unwrap().set_len(bytes).unwrap();
        let (index, how) = rebuilt(dir.path(), &chain);
        assert_eq!(matches!(how, Opened::Recovered), file == chain::TABLE, "{how:?}");
        assert_is(&index, &chain);
    }
}

/// Returns a chain of made-up blocks.
fn chain_of(count: usize) -> Vec<Indexed> {
    let (mut numbers, mut chain) = (Numbers(count as u64), Vec::<Indexed>::new());
    for _ in 0..count {
        let block = numbers.after(chain.last());
        chain.push(block);
    }
    chain
}

fn rebuilt(dir: &Path, chain: &[Indexed]) -> (MappedIndex, Opened) {
    let blocks = || chain.iter().map(|block| Ok::<_, IndexError>((block.point, block.place)));
    MappedIndex::open_or_rebuild(dir, blocks).unwrap()
}
