//! One block: what the protocol reads and writes for it, in the order in which it does.
//!
//! Rights first (33 of them, the largest part of every real trace), then endorsements, then what users sent until the
//! block has its share of rows, then the baker's due and, where one ends, the cycle.

use std::io::Write;

use super::{
    Result,
    names::Contract,
    profile::{
        ACTIVATIONS, COIN, INCLUDED, LATER_PRIORITY, PRESERVED_CYCLES, Pace, RAMP_UP_CYCLES, REDEEMED, REVEALED, ROWS,
    },
    random::Random,
    scribe::Scribe,
    state::State,
    values::{INITED, nat, number},
};

mod activation;
mod call;
mod cycle;
mod migration;
mod operations;
mod rights;
mod rolls;

/// What a block may have too many or too few rows of, to be made good by later ones.
const OWED_MAX: i64 = 4_000;

/// A block being applied.
pub(super) struct Block<'g, W> {
    out: &'g mut Scribe<W>,
    state: &'g mut State,
    random: Random,
    pace: Pace,
    level: u64,
    cycle: u64,
    // What users sent, endorsements included.
    operations: u64,
    fees: u64,
}

impl<'g, W: Write> Block<'g, W> {
    /// Begins the block of a level over the checked-out context.
    pub(super) fn new(out: &'g mut Scribe<W>, state: &'g mut State, random: Random, level: u64) -> Self {
        let (pace, cycle) = (state.pace, state.pace.cycle(level));
        Self { out, state, random, pace, level, cycle, operations: 0, fees: 0 }
    }

    /// Applies it and returns the commit's message.
    pub(super) fn apply(mut self) -> Result<String> {
        let mut priority = 0;
        if self.level == 1 {
            self.activate()?;
        } else {
            priority = self.random.about(LATER_PRIORITY) * self.random.within(1, 5);
            self.regular(priority)?;
            if self.level.is_multiple_of(self.pace.snapshot_every) {
                self.snapshot()?;
            }
            if self.level.is_multiple_of(self.pace.cycle_blocks) {
                self.end_cycle()?;
            }
            if ACTIVATIONS.iter().any(|&event| self.pace.comes(event, self.level)) {
                self.migrate()?;
            }
            self.move_contracts()?;
        }
        let (level, operations) = (self.level, self.operations);
        Ok(format!("lvl {level}, fit {level}, prio {priority}, {operations} ops"))
    }

    fn regular(&mut self, priority: u64) -> Result {
        let began = self.out.counts().total();
        // The checkout and the commit are rows, too.
        let rows = self.pace.at(ROWS, self.level) as i64 - 2;
        self.prepare()?;
        let baker = self.baker(priority)?;
        self.endorsements()?;
        self.reveal_nonce(baker)?;
        // A sixteenth of what is owed, so that one large block is made good by many.
        let budget = rows * self.random.within(85, 116) as i64 / 100 + self.state.owed / 16;
        self.users(began, budget)?;
        self.bake(baker, priority)?;
        let gone = (self.out.counts().total() - began) as i64;
        self.state.owed = (self.state.owed + rows - gone).clamp(-OWED_MAX, OWED_MAX);
        // These come on top.
        self.redeem()?;
        self.register()
    }

    /// Reads what every block needs.
    fn prepare(&mut self) -> Result {
        const SHELL: [&str; 2] = ["protocol", "test_chain"];
        const PROTOCOL: [&str; 3] = ["data/version", "data/v1/first_level", "data/v1/constants"];
        const VOTES: [&str; 2] = ["data/votes/current_period_kind", "data/votes/current_quorum"];
        // The shell asks for the protocol, which is prepared for the header and again for the operations.
        let keys = SHELL.iter().chain(&PROTOCOL).chain(&SHELL).chain(&PROTOCOL).chain(&VOTES);
        for key in keys.chain(&["data/last_block_priority"]) {
            self.out.find(key)?;
        }
        Ok(())
    }

    fn endorsements(&mut self) -> Result {
        let endorsers = self.endorsers()?;
        for (delegate, slots) in endorsers {
            if self.random.chance(INCLUDED) {
                self.operations += 1;
                let (deposit, reward) = (self.ramped(64 * COIN) * slots, self.ramped(2 * COIN) * slots);
                self.freeze(delegate, deposit, reward)?;
            }
        }
        Ok(())
    }

    fn bake(&mut self, baker: u64, priority: u64) -> Result {
        let (deposit, reward) = (self.ramped(512 * COIN), self.ramped(16 * COIN));
        let dir = self.freeze(baker, deposit, reward)?;
        if self.fees > 0 {
            self.freeze_more(&dir, "fees", self.fees)?;
        }
        self.out.set("data/last_block_priority", &(priority as u16).to_be_bytes())?;
        if self.level.is_multiple_of(self.pace.nonce_every) {
            let mut nonce = self.random.bytes(32);
            nonce.extend_from_slice(&self.state.names.key_hash(baker));
            nonce.extend_from_slice(&nat(reward));
            nonce.extend_from_slice(&nat(self.fees));
            self.out.init(&format!("data/cycle/{}/nonces/{}", self.cycle, self.level), &nonce)?;
        }
        Ok(())
    }

    /// Takes a deposit from a delegate and promises it a reward. Returns its directory.
    fn freeze(&mut self, delegate: u64, deposit: u64, reward: u64) -> Result<String> {
        let dir = self.state.dir(Contract::Implicit(delegate));
        self.out.find(&format!("{dir}/manager"))?;
        self.out.find(&format!("{dir}/delegate"))?;
        self.out.mem(&format!("{dir}/inactive_delegate"))?;
        let until = format!("{dir}/delegate_desactivation");
        self.out.find(&until)?;
        self.out.add(&until, &nat(self.cycle + 2 * PRESERVED_CYCLES + 1))?;
        self.freeze_more(&dir, "deposits", deposit)?;
        let holder = self.state.names.key_path(delegate);
        self.out.add(&format!("data/delegates_with_frozen_balance/{}/{holder}", self.cycle), INITED)?;
        self.debit(&dir, deposit)?;
        self.remove_stake(delegate, &dir, deposit)?;
        self.freeze_more(&dir, "rewards", reward)?;
        Ok(dir)
    }

    fn freeze_more(&mut self, dir: &str, what: &str, amount: u64) -> Result {
        let key = format!("{dir}/frozen_balance/{}/{what}", self.cycle);
        let before = number(self.out.find(&key)?.as_deref());
        self.out.add(&key, &nat(before + amount))
    }

    /// Reveals the nonce of a block of the cycle before, if one's turn has come.
    fn reveal_nonce(&mut self, baker: u64) -> Result {
        let (every, after) = (self.pace.nonce_every, self.pace.nonce_every / 4);
        if self.cycle == 0 || self.level % every != after || !self.random.chance(REVEALED) {
            return Ok(());
        }
        let level = self.level - after - self.pace.cycle_blocks;
        let before = self.cycle - 1;
        // That of the block in which the cycle before that one ended is gone already.
        if level <= before * self.pace.cycle_blocks {
            return Ok(());
        }
        self.operations += 1;
        let key = format!("data/cycle/{before}/nonces/{level}");
        self.out.get(&key)?;
        let nonce = self.random.bytes(32);
        self.out.set(&key, &nonce)?;
        let dir = self.state.dir(Contract::Implicit(baker));
        self.freeze_more(&dir, "rewards", COIN / 8)
    }

    /// Applies what users sent until the block has `budget` rows.
    fn users(&mut self, began: u64, budget: i64) -> Result {
        // The baker's rows follow.
        let baker = 20;
        loop {
            let left = budget - baker - (self.out.counts().total() - began) as i64;
            // The last one is applied as often as there is room for it.
            if left <= 0 || (left as u64) < self.random.below(operations::MEAN_ROWS) {
                return Ok(());
            }
            self.operations += 1;
            self.operation()?;
        }
    }

    fn redeem(&mut self) -> Result {
        for _ in 0..self.random.about(self.pace.at(REDEEMED, self.level)).min(self.state.commitments()) {
            self.operations += 1;
            self.redeem_one()?;
        }
        Ok(())
    }

    /// Returns an amount as the first cycles have it: less.
    fn ramped(&self, amount: u64) -> u64 {
        amount * self.cycle.min(RAMP_UP_CYCLES) / RAMP_UP_CYCLES
    }

    /// Takes from an account's balance; all of it if there is less.
    fn debit(&mut self, dir: &str, amount: u64) -> Result {
        let key = format!("{dir}/balance");
        let before = number(Some(&self.out.get(&key)?));
        self.out.set(&key, &nat(before.saturating_sub(amount)))
    }

    /// Adds to an account's balance.
    fn credit(&mut self, dir: &str, amount: u64) -> Result {
        let key = format!("{dir}/balance");
        let before = number(Some(&self.out.get(&key)?));
        self.out.set(&key, &nat(before + amount))
    }
}
