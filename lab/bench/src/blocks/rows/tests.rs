//! Indexes that give wrong answers are found out.

use super::*;

/// An index whose lookups are those of a chain, but for one of them.
struct Fake<'c> {
    chain: &'c MadeUp,
    /// Which lookups are wrong: those by hash, slot or number, of absent hashes or numbers, or the blocks of a range.
    wrong: &'static str,
}

impl Fake<'_> {
    fn answer(&self, kind: &'static str, found: Option<&Indexed>) -> Result<Option<u64>> {
        let absent = if kind == "hash" { "absent hash" } else { "absent number" };
        Ok(match found {
            Some(block) if self.wrong == kind => Some(mark(block) ^ 1 << 20),
            None if self.wrong == absent => Some(7),
            found => found.map(mark),
        })
    }
}

impl Lookups for Fake<'_> {
    fn hash(&self, hash: &BlockHash) -> Result<Option<u64>> {
        self.answer("hash", self.chain.blocks.iter().find(|block| block.point.hash == *hash))
    }

    fn slot(&self, slot: u64) -> Result<Option<u64>> {
        self.answer("slot", self.chain.blocks.iter().find(|block| block.point.slot == slot))
    }

    fn number(&self, number: u64) -> Result<Option<u64>> {
        self.answer("number", self.chain.blocks.get(number as usize))
    }

    fn each(&self, _: RangeInclusive<u64>, take: &mut dyn FnMut(Indexed)) -> Result<()> {
        let count = self.chain.blocks.len() - usize::from(self.wrong == "short");
        for block in &self.chain.blocks[..count] {
            let mut block = *block;
            // What no place shows.
            block.point.hash.0[31] ^= u8::from(self.wrong == "block" && block.point.number == 500);
            take(block);
        }
        Ok(())
    }
}

#[test]
fn every_lookup_of_an_index_that_was_filled_is_compared() {
    let chain = MadeUp::new(1000);
    for wrong in ["hash", "slot", "number", "absent hash", "absent number", "block", "short"] {
        assert!(differs(&Fake { chain: &chain, wrong }, &chain).unwrap().is_some(), "{wrong}");
    }
    assert_eq!(differs(&Fake { chain: &chain, wrong: "" }, &chain).unwrap(), None);
    let mut index = Kept::new(None).unwrap();
    assert_eq!(index.insert(&chain).unwrap().wrong, None);
    let dir = tempfile::tempdir().unwrap();
    let mut index = Kept::new(Some(dir.path().join("index"))).unwrap();
    index.fill(&chain).unwrap();
    for clean in [true, false] {
        assert_eq!(index.open(&chain, clean).unwrap().wrong, None);
    }
}
