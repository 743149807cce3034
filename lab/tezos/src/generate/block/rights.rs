//! Who may bake and endorse: the owners of rolls that the cycle's seed draws from its snapshot.

use std::io::Write;

use super::{Block, Result};
use crate::generate::{profile::SLOTS, random::Random, rolls_path, values::roll_number};

/// Streams of numbers for different ends.
const RIGHTS: u64 = 3;
/// The right to bake, among the slots.
const BAKE: u64 = 1 << 32;
/// The most rolls that are drawn for one right: those without an owner are passed over.
const TRIES: u64 = 8;

impl<W: Write> Block<'_, W> {
    /// Returns who bakes.
    pub(super) fn baker(&mut self, priority: u64) -> Result<u64> {
        self.owner(self.level, BAKE + priority)
    }

    /// Returns who may endorse the block before, in the order of their first slots, and in how many slots.
    pub(super) fn endorsers(&mut self) -> Result<Vec<(u64, u64)>> {
        let mut endorsers: Vec<(u64, u64)> = Vec::new();
        for slot in 0..SLOTS {
            let owner = self.owner(self.level - 1, slot)?;
            match endorsers.iter_mut().find(|(delegate, _)| *delegate == owner) {
                Some((_, slots)) => *slots += 1,
                None => endorsers.push((owner, 1)),
            }
        }
        Ok(endorsers)
    }

    /// Returns who has a right: four Find and a Mem_tree, and another Find for each roll without an owner.
    fn owner(&mut self, level: u64, slot: u64) -> Result<u64> {
        let cycle = self.pace.cycle(level);
        let of_cycle = format!("data/cycle/{cycle}");
        self.out.get(&format!("{of_cycle}/random_seed"))?;
        let chosen = self.out.get(&format!("{of_cycle}/roll_snapshot"))?;
        let chosen = chosen.iter().fold(0, |number: u64, &byte| number << 8 | u64::from(byte));
        let snapshot = format!("data/rolls/owner/snapshot/{cycle}/{chosen}");
        self.out.mem_tree(&snapshot)?;
        let last = roll_number(&self.out.get(&format!("{of_cycle}/last_roll/{chosen}"))?).unwrap_or(1);
        let mut random = Random::of(&[self.state.seed, RIGHTS, level, slot]);
        for _ in 0..TRIES {
            let roll = random.below(u64::from(last.max(1))) as u32;
            let owner = self.out.find(&rolls_path(&snapshot, roll))?;
            if let Some(account) = owner.and_then(|key| self.state.names.account_of_key(&key)) {
                return Ok(account);
            }
        }
        Ok(0)
    }
}
