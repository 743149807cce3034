//! Snapshots of who owns which rolls, and the end of a cycle.

use std::io::Write;

use super::{Block, PRESERVED_CYCLES, Result};
use crate::generate::{names::Contract, profile::Pace, values::number};

impl<W: Write> Block<'_, W> {
    /// Takes a snapshot for the cycle after those whose rights are known.
    pub(super) fn snapshot(&mut self) -> Result {
        let cycle = self.cycle + PRESERVED_CYCLES + 2;
        let key = format!("data/cycle/{cycle}/roll_snapshot");
        let index = self.out.get(&key)?.iter().fold(0, |number: u64, &byte| number << 8 | u64::from(byte));
        self.out.set(&key, &((index + 1) as u16).to_be_bytes())?;
        self.copy_rolls(cycle, index)
    }

    /// Copies the owners of all rolls.
    pub(super) fn copy_rolls(&mut self, cycle: u64, index: u64) -> Result {
        self.out.copy("data/rolls/owner/current", &format!("data/rolls/owner/snapshot/{cycle}/{index}"))?;
        let next = self.out.get("data/rolls/next")?;
        self.out.init(&format!("data/cycle/{cycle}/last_roll/{index}"), &next)
    }

    /// Chooses one snapshot of many, clears what is out of date, gives deposits back.
    pub(super) fn end_cycle(&mut self) -> Result {
        let ended = self.cycle;
        self.choose_snapshot(ended + PRESERVED_CYCLES + 1)?;
        let after = ended + PRESERVED_CYCLES + 3;
        self.out.init(&format!("data/cycle/{after}/roll_snapshot"), &[0, 0])?;
        self.nonces_to_seed(ended)?;
        if let Some(cleared) = ended.checked_sub(PRESERVED_CYCLES) {
            self.clear(cleared)?;
            self.unfreeze(cleared)?;
        }
        Ok(())
    }

    fn choose_snapshot(&mut self, cycle: u64) -> Result {
        // The first cycles have one snapshot, chosen already.
        if cycle <= PRESERVED_CYCLES + 1 {
            return Ok(());
        }
        self.out.get(&format!("data/cycle/{cycle}/random_seed"))?;
        let key = format!("data/cycle/{cycle}/roll_snapshot");
        self.out.get(&key)?;
        let snapshots = self.pace.cycle_blocks / self.pace.snapshot_every;
        let chosen = self.random.below(snapshots);
        self.out.set(&key, &(chosen as u16).to_be_bytes())?;
        for index in (0..snapshots).filter(|&index| index != chosen) {
            self.out.remove(&format!("data/rolls/owner/snapshot/{cycle}/{index}"))?;
            self.out.delete(&format!("data/cycle/{cycle}/last_roll/{index}"))?;
        }
        Ok(())
    }

    /// Makes the seed of the cycle after those known from the nonces of the one before.
    fn nonces_to_seed(&mut self, ended: u64) -> Result {
        let cycle = ended + PRESERVED_CYCLES + 2;
        self.out.get(&format!("data/cycle/{}/random_seed", cycle - 1))?;
        if let Some(revealed) = ended.checked_sub(1) {
            let Pace { cycle_blocks, nonce_every, .. } = self.pace;
            let first = revealed * cycle_blocks + nonce_every;
            for level in (first..=(revealed + 1) * cycle_blocks).step_by(nonce_every as usize) {
                let key = format!("data/cycle/{revealed}/nonces/{level}");
                self.out.find(&key)?;
                self.out.remove(&key)?;
            }
        }
        let seed = self.random.bytes(32);
        self.out.init(&format!("data/cycle/{cycle}/random_seed"), &seed)
    }

    fn clear(&mut self, cycle: u64) -> Result {
        let of_cycle = format!("data/cycle/{cycle}");
        let chosen = self.out.get(&format!("{of_cycle}/roll_snapshot"))?;
        let chosen = chosen.iter().fold(0, |number: u64, &byte| number << 8 | u64::from(byte));
        self.out.delete(&format!("{of_cycle}/roll_snapshot"))?;
        self.out.delete(&format!("{of_cycle}/last_roll/{chosen}"))?;
        self.out.remove(&format!("data/rolls/owner/snapshot/{cycle}"))?;
        self.out.delete(&format!("{of_cycle}/random_seed"))
    }

    /// Gives the deposits, fees and rewards of a cycle back.
    fn unfreeze(&mut self, cycle: u64) -> Result {
        for delegate in self.state.delegates.clone() {
            let dir = self.state.dir(Contract::Implicit(delegate));
            let frozen = format!("{dir}/frozen_balance/{cycle}");
            let Some(deposits) = self.out.find(&format!("{frozen}/deposits"))? else { continue };
            let mut amount = number(Some(&deposits));
            for what in ["fees", "rewards"] {
                amount += number(self.out.find(&format!("{frozen}/{what}"))?.as_deref());
            }
            self.out.remove(&frozen)?;
            self.out.find(&format!("{dir}/delegate_desactivation"))?;
            self.credit(&dir, amount)?;
            self.add_stake(delegate, &dir, amount)?;
        }
        self.out.remove(&format!("data/delegates_with_frozen_balance/{cycle}"))
    }
}
