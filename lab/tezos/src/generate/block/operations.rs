//! What users send: transfers, new accounts, delegations.

use std::io::Write;

use super::{Block, Result};
use crate::generate::{
    names::Contract,
    profile::{COIN, DELEGATES, OPERATIONS, ROLL_AMOUNT, WITH_CODE},
    values::{INITED, nat, number},
};

/// How many rows an operation takes in the mean.
pub(super) const MEAN_ROWS: u64 = 24;

/// The bytes of managers that are only a hash; keys have more.
const HASH_BYTES: usize = 21;

impl<W: Write> Block<'_, W> {
    /// Applies one operation of a kind drawn by the time.
    pub(super) fn operation(&mut self) -> Result {
        let weights = OPERATIONS.map(|table| self.pace.at(table, self.level));
        match self.random.weighted(&weights) {
            1 => self.transfer_to_new(),
            2 => self.originate(),
            3 if self.state.originated > 0 => self.delegate(),
            4 if self.state.scripted > 0 => self.call(),
            _ => self.transfer(),
        }
    }

    /// Redeems a pledge: its amount goes to a new account.
    pub(super) fn redeem_one(&mut self) -> Result {
        let key = self.state.names.commitment(self.state.redeemed);
        self.state.redeemed += 1;
        let amount = number(Some(&self.out.get(&key)?));
        self.out.delete(&key)?;
        self.create_account(amount).map(|_| ())
    }

    /// Lets another account begin to bake, if it is time to.
    pub(super) fn register(&mut self) -> Result {
        if self.state.delegates.len() as u64 >= self.pace.at(DELEGATES, self.level) {
            return Ok(());
        }
        self.operations += 1;
        let account = self.state.implicit;
        let stake = self.random.within(20, 200) * ROLL_AMOUNT;
        let dir = self.create_account(stake)?;
        self.reveal(account, &dir)?;
        self.begin_delegate(account, &dir)?;
        self.state.delegates.push(account);
        self.add_stake(account, &dir, stake)
    }

    fn transfer(&mut self) -> Result {
        let dir = self.sender()?;
        let payee = self.state.payee(&mut self.random);
        let amount = self.spend(&dir)?;
        let to = self.state.dir(payee);
        self.receive(&to, amount)?;
        self.out.find(&format!("{to}/data/code"))?;
        Ok(())
    }

    fn transfer_to_new(&mut self) -> Result {
        let dir = self.sender()?;
        let amount = self.spend(&dir)?;
        let to = self.state.dir(Contract::Implicit(self.state.implicit));
        self.out.find(&format!("{to}/balance"))?;
        self.create_account(amount)?;
        self.out.find(&format!("{to}/data/code"))?;
        Ok(())
    }

    /// Makes a contract: with code, or one to be delegated.
    fn originate(&mut self) -> Result {
        let dir = self.sender()?;
        let amount = self.spend(&dir)?;
        if self.random.chance(self.pace.at(WITH_CODE, self.level)) {
            return self.originate_script(amount);
        }
        let contract = Contract::Originated(self.state.originated);
        self.state.originated += 1;
        let (to, manager) = (self.state.dir(contract), self.state.account(&mut self.random));
        self.create_contract(&to, manager, amount)?;
        self.out.add(&format!("{to}/spendable"), INITED)?;
        self.out.add(&format!("{to}/delegatable"), INITED)?;
        self.choose_delegate(contract, &to, false, amount)
    }

    /// Changes whom a contract is delegated to.
    fn delegate(&mut self) -> Result {
        let contract = Contract::Originated(self.random.below(self.state.originated));
        let dir = self.state.dir(contract);
        self.send(&dir)?;
        self.out.mem(&format!("{dir}/delegatable"))?;
        let amount = number(Some(&self.out.get(&format!("{dir}/balance"))?));
        let before = self.out.find(&format!("{dir}/delegate"))?;
        let known = before.is_some();
        if let Some(account) = before.and_then(|hash| self.state.names.account_of_hash(&hash)) {
            let old = self.state.dir(Contract::Implicit(account));
            let key = self.state.delegated(&old, contract);
            self.out.remove(&key)?;
            self.remove_stake(account, &old, amount)?;
        }
        if known && self.random.chance(100_000) {
            return self.out.delete(&format!("{dir}/delegate"));
        }
        self.choose_delegate(contract, &dir, known, amount)
    }

    fn choose_delegate(&mut self, contract: Contract, dir: &str, known: bool, amount: u64) -> Result {
        let chosen = self.random.below(self.state.delegates.len() as u64) as usize;
        let account = self.state.delegates[chosen];
        let path = self.state.names.key_path(account);
        self.out.mem(&format!("data/delegates/{path}"))?;
        let (key, hash) = (format!("{dir}/delegate"), self.state.names.key_hash(account));
        if known {
            self.out.set(&key, &hash)?
        } else {
            self.out.init(&key, &hash)?
        }
        let delegate = self.state.dir(Contract::Implicit(account));
        self.out.add(&self.state.delegated(&delegate, contract), INITED)?;
        self.add_stake(account, &delegate, amount)
    }

    /// Draws who sends an operation and takes the fee. Returns its directory.
    pub(super) fn sender(&mut self) -> Result<String> {
        let contract = if self.state.originated > 0 && self.random.chance(250_000) {
            Contract::Originated(self.random.popular(self.state.originated))
        } else {
            Contract::Implicit(self.state.account(&mut self.random))
        };
        let dir = self.state.dir(contract);
        self.send(&dir)?;
        if let Contract::Implicit(account) = contract {
            let manager = self.out.get(&format!("{dir}/manager"))?;
            if manager.len() <= HASH_BYTES {
                self.reveal(account, &dir)?;
            }
        }
        Ok(dir)
    }

    /// Checks and counts an operation of an account, and takes its fee.
    fn send(&mut self, dir: &str) -> Result {
        self.out.mem(&format!("{dir}/balance"))?;
        let counter = format!("{dir}/counter");
        self.out.get(&counter)?;
        self.out.get(&format!("{dir}/manager"))?;
        self.count_up("data/contracts/global_counter")?;
        self.count_up(&counter)?;
        let fee = self.random.within(COIN / 1000, COIN / 10);
        self.fees += fee;
        self.debit(dir, fee)?;
        self.stake_changed(dir, fee, false)
    }

    fn count_up(&mut self, key: &str) -> Result {
        let before = number(Some(&self.out.get(key)?));
        self.out.set(key, &nat(before + 1))
    }

    /// Replaces an account's hash by its key.
    pub(super) fn reveal(&mut self, account: u64, dir: &str) -> Result {
        self.out.set(&format!("{dir}/manager"), &self.state.names.public_key(account))
    }

    /// Takes some of what an account has. Returns the amount.
    pub(super) fn spend(&mut self, dir: &str) -> Result<u64> {
        self.out.mem(&format!("{dir}/spendable"))?;
        // Most payments are small, some are of any size.
        let amount = (1 << self.random.within(10, 33)) + self.random.below(COIN);
        self.debit(dir, amount)?;
        self.stake_changed(dir, amount, false)?;
        Ok(amount)
    }

    pub(super) fn receive(&mut self, dir: &str, amount: u64) -> Result {
        self.credit(dir, amount)?;
        self.stake_changed(dir, amount, true)
    }

    /// Adjusts the stake of an account's delegate, if it has one.
    fn stake_changed(&mut self, dir: &str, amount: u64, more: bool) -> Result {
        let Some(hash) = self.out.find(&format!("{dir}/delegate"))? else { return Ok(()) };
        let Some(account) = self.state.names.account_of_hash(&hash) else { return Ok(()) };
        let delegate = self.state.dir(Contract::Implicit(account));
        if more { self.add_stake(account, &delegate, amount) } else { self.remove_stake(account, &delegate, amount) }
    }
}
