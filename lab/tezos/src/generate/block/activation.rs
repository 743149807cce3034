//! Block 1: the first protocol writes its state, tens of thousands of keys in one commit.

use std::io::Write;

use super::{Block, PRESERVED_CYCLES, Result};
use crate::generate::{
    names::Contract,
    profile::{COIN, COMMITMENTS, FIRST_ACCOUNTS, FIRST_DELEGATES, FIRST_ROLLS, ROLL_AMOUNT},
    values::{INITED, nat, roll},
};

impl<W: Write> Block<'_, W> {
    /// Writes the first state.
    pub(super) fn activate(&mut self) -> Result {
        self.operations += 1;
        for key in ["protocol", "test_chain", "data/version", "data/protocol_parameters"] {
            self.out.find(key)?;
        }
        self.out.add("data/version", b"alpha_current")?;
        self.out.add("data/v1/first_level", &[0, 0, 0, 1])?;
        let constants = self.random.bytes(268);
        self.out.add("data/v1/constants", &constants)?;
        self.out.init("data/contracts/global_counter", &nat(0))?;
        self.out.init("data/last_block_priority", &[0, 0])?;
        self.out.init("data/rolls/next", &roll(0))?;
        self.first_accounts()?;
        for number in 0..COMMITMENTS {
            let amount = nat(self.random.within(COIN, 60_000 * COIN));
            self.out.init(&self.state.names.commitment(number), &amount)?;
        }
        self.first_cycles()?;
        self.out.init("data/votes/current_period_kind", &[0])?;
        self.out.init("data/votes/current_quorum", &[0, 0, 0x1f, 0x40])
    }

    fn first_accounts(&mut self) -> Result {
        for account in 0..FIRST_ACCOUNTS {
            let delegates = account < FIRST_DELEGATES;
            let stake = if delegates { share(account) * ROLL_AMOUNT } else { 0 };
            let spare = self.random.within(1_000 * COIN, 90_000 * COIN);
            let dir = self.create_account(stake + spare)?;
            if delegates {
                self.reveal(account, &dir)?;
                self.begin_delegate(account, &dir)?;
                self.add_stake(account, &dir, stake)?;
            }
        }
        Ok(())
    }

    /// Makes the seeds, snapshots and rights of the cycles that are known ahead.
    fn first_cycles(&mut self) -> Result {
        for cycle in 0..PRESERVED_CYCLES + 2 {
            let seed = self.random.bytes(32);
            self.out.init(&format!("data/cycle/{cycle}/random_seed"), &seed)?;
            self.out.init(&format!("data/cycle/{cycle}/roll_snapshot"), &[0, 0])?;
            self.copy_rolls(cycle, 0)?;
        }
        self.out.init(&format!("data/cycle/{}/roll_snapshot", PRESERVED_CYCLES + 2), &[0, 0])
    }

    /// Makes an account a delegate.
    pub(super) fn begin_delegate(&mut self, account: u64, dir: &str) -> Result {
        let names = self.state.names;
        let path = names.key_path(account);
        self.out.mem(&format!("data/delegates/{path}"))?;
        self.out.add(&format!("data/delegates/{path}"), INITED)?;
        self.out.add(&format!("data/active_delegates_with_rolls/{path}"), INITED)?;
        self.out.find(&format!("{dir}/delegate"))?;
        self.out.add(&format!("{dir}/delegate"), &names.key_hash(account))?;
        self.out.add(&format!("{dir}/delegate_desactivation"), &nat(self.cycle + 2 * PRESERVED_CYCLES + 1))
    }

    /// Makes the next account, with a manager that is not revealed. Returns its directory.
    pub(super) fn create_account(&mut self, amount: u64) -> Result<String> {
        let account = self.state.implicit;
        self.state.implicit += 1;
        let dir = self.state.dir(Contract::Implicit(account));
        self.create_contract(&dir, account, amount)?;
        self.out.add(&format!("{dir}/spendable"), INITED)?;
        self.out.remove(&format!("{dir}/delegatable"))?;
        Ok(dir)
    }

    /// Writes what every contract has.
    pub(super) fn create_contract(&mut self, dir: &str, manager: u64, amount: u64) -> Result {
        let counter = self.out.get("data/contracts/global_counter")?;
        self.out.init(&format!("{dir}/balance"), &nat(amount))?;
        self.out.init(&format!("{dir}/manager"), &self.state.names.key_hash(manager))?;
        self.out.init(&format!("{dir}/counter"), &counter)
    }
}

/// Returns how many rolls a first delegate gets.
fn share(delegate: u64) -> u64 {
    FIRST_ROLLS / FIRST_DELEGATES + u64::from(delegate < FIRST_ROLLS % FIRST_DELEGATES)
}
