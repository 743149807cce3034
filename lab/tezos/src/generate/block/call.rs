//! Contracts with code: originating them, calling them, and their big maps.

use std::io::Write;

use super::{Block, Result};
use crate::generate::{
    names::{Contract, push_chopped, push_hex},
    random::{Random, mix},
    values::{self, nat, number},
};

/// Streams of numbers for different ends.
const MAPS: u64 = 4;

/// A contract's big map.
struct BigMap {
    // Where its entries are.
    contents: String,
    // How many keys there are; not all need be bound.
    keys: u64,
    // Whether keys are chopped into steps; otherwise the directory grows wide.
    chopped: bool,
}

impl<W: Write> Block<'_, W> {
    pub(super) fn originate_script(&mut self, amount: u64) -> Result {
        let number = self.state.scripted;
        let contract = Contract::Scripted(number);
        self.state.scripted += 1;
        let (dir, manager) = (self.state.dir(contract), self.state.account(&mut self.random));
        self.create_contract(&dir, manager, amount)?;
        let (code, storage) = (values::code(&mut self.random), values::storage(&mut self.random));
        for (what, value) in [("code", &code), ("storage", &storage)] {
            self.out.init(&format!("{dir}/len/{what}"), &length(value))?;
            self.out.add(&format!("{dir}/data/{what}"), value)?;
        }
        let bytes = (code.len() + storage.len()) as u64;
        self.out.init(&format!("{dir}/used_bytes"), &nat(bytes))?;
        self.out.init(&format!("{dir}/paid_bytes"), &nat(bytes))?;
        if !self.state.has_map_id(number) {
            return Ok(());
        }
        self.out.get("data/big_maps/next")?;
        self.out.set("data/big_maps/next", &nat(number + 1))?;
        let map = self.state.names.big_map(number);
        for what in ["key_type", "value_type"] {
            let bytes = self.random.within(4, 60) as usize;
            let value = self.random.bytes(bytes);
            self.out.init(&format!("{map}/{what}"), &value)?;
        }
        self.out.init(&format!("{map}/total_bytes"), &nat(0))
    }

    pub(super) fn call(&mut self) -> Result {
        let from = self.sender()?;
        let amount = self.spend(&from)?;
        let number = self.random.popular(self.state.scripted);
        let dir = self.state.dir(Contract::Scripted(number));
        self.receive(&dir, amount)?;
        for what in ["code", "storage"] {
            self.out.get(&format!("{dir}/len/{what}"))?;
            self.out.get(&format!("{dir}/data/{what}"))?;
        }
        self.use_map(number)?;
        let storage = values::storage(&mut self.random);
        self.out.get(&format!("{dir}/len/storage"))?;
        self.out.add(&format!("{dir}/len/storage"), &length(&storage))?;
        self.out.add(&format!("{dir}/data/storage"), &storage)?;
        self.out.get(&format!("{dir}/paid_bytes"))?;
        self.grow(&format!("{dir}/used_bytes"), 0, storage.len() as u64)
    }

    /// Reads some entries of a big map and changes some.
    fn use_map(&mut self, number: u64) -> Result {
        let map = self.map(number);
        let mut grown = 0;
        for _ in 0..self.random.within(1, 5) {
            let key = self.entry(&map, number);
            let known = self.out.find(&format!("{key}/len"))?;
            if known.is_some() {
                self.out.get(&format!("{key}/data"))?;
            }
            if known.is_some() && self.random.chance(60_000) {
                self.out.remove(&format!("{key}/len"))?;
                self.out.remove(&format!("{key}/data"))?;
            } else if self.random.chance(700_000) {
                let value = values::entry(&mut self.random);
                grown += value.len() as u64;
                self.out.find(&format!("{key}/len"))?;
                self.out.add(&format!("{key}/len"), &length(&value))?;
                self.out.add(&format!("{key}/data"), &value)?;
            }
        }
        if grown > 0 && self.state.has_map_id(number) {
            let total = format!("{}/total_bytes", self.state.names.big_map(number));
            self.grow(&total, grown, 0)?;
        }
        Ok(())
    }

    fn map(&self, number: u64) -> BigMap {
        let mut random = Random::of(&[self.state.seed, MAPS, number]);
        let keys = 100 << random.below(11);
        if self.state.has_map_id(number) {
            let contents = format!("{}/contents", self.state.names.big_map(number));
            return BigMap { contents, keys, chopped: random.below(2) == 0 };
        }
        let contents = format!("{}/big_map", self.state.dir(Contract::Scripted(number)));
        BigMap { contents, keys, chopped: true }
    }

    /// Draws an entry and returns its directory.
    fn entry(&mut self, map: &BigMap, number: u64) -> String {
        let entry = if self.random.chance(600_000) {
            // Spread, so that the popular ones are not the same in every map.
            mix(self.random.popular(map.keys)) % map.keys
        } else {
            self.random.below(map.keys)
        };
        let hash = self.state.names.entry_key(number, entry);
        let mut key = map.contents.clone();
        if map.chopped {
            push_chopped(&mut key, &hash);
        } else {
            key.push('/');
            push_hex(&mut key, &hash);
        }
        key
    }

    /// Counts bytes up, to at least `least`.
    fn grow(&mut self, key: &str, more: u64, least: u64) -> Result {
        let before = number(Some(&self.out.get(key)?));
        self.out.set(key, &nat((before + more).max(least)))
    }
}

/// Returns a value's length as it is stored.
fn length(value: &[u8]) -> [u8; 4] {
    (value.len() as u32).to_be_bytes()
}
