//! Stakes: the rolls that a delegate owns and the change that is too little for one.
//!
//! Rolls of a delegate are a list in the context: the first in `roll_list`, each one's next in `successor`. Those
//! without an owner are another, from `limbo`.

use std::io::Write;

use super::{Block, Result};
use crate::generate::{
    names::Contract,
    profile::ROLL_AMOUNT,
    rolls_path,
    values::{nat, number, roll, roll_number},
};

const LIMBO: &str = "data/rolls/limbo";
const NEXT: &str = "data/rolls/next";
const OWNERS: &str = "data/rolls/owner/current";

impl<W: Write> Block<'_, W> {
    /// Adds to a delegate's stake.
    pub(super) fn add_stake(&mut self, delegate: u64, dir: &str, amount: u64) -> Result {
        let mut change = self.change_stake(dir, |change| change + amount)?;
        while change >= ROLL_AMOUNT {
            change = self.create_roll(delegate, dir)?;
        }
        Ok(())
    }

    /// Takes from a delegate's stake; all of it if there is less.
    pub(super) fn remove_stake(&mut self, delegate: u64, dir: &str, amount: u64) -> Result {
        let key = format!("{dir}/change");
        let known = self.out.find(&key)?;
        let mut change = number(known.as_deref());
        while change < amount {
            if !self.pop_roll(delegate, dir)? {
                break;
            }
            change = self.change_stake(dir, |change| change + ROLL_AMOUNT)?;
        }
        self.put_change(&key, known.is_some(), change.saturating_sub(amount))
    }

    /// Turns change into a roll: five Find, three Mem and five Add. Returns the change that is left.
    pub(super) fn create_roll(&mut self, delegate: u64, dir: &str) -> Result<u64> {
        let left = self.change_stake(dir, |change| change.saturating_sub(ROLL_AMOUNT))?;
        let number = self.fresh_roll()?;
        let list = format!("{dir}/roll_list");
        let first = self.out.find(&list)?;
        self.out.find(&format!("{dir}/manager"))?;
        self.out.init(&rolls_path(OWNERS, number), &self.state.names.public_key(delegate))?;
        let successor = successor(number);
        match first {
            Some(first) => self.out.add(&successor, &first)?,
            None => self.out.remove(&successor)?,
        }
        self.out.add(&list, &roll(number))?;
        Ok(left)
    }

    /// Takes a roll without an owner, or makes one.
    fn fresh_roll(&mut self) -> Result<u32> {
        if let Some(number) = self.out.find(LIMBO)?.as_deref().and_then(roll_number) {
            match self.out.find(&successor(number))? {
                Some(next) => self.out.add(LIMBO, &next)?,
                None => self.out.delete(LIMBO)?,
            }
            return Ok(number);
        }
        let number = roll_number(&self.out.get(NEXT)?).unwrap_or_default();
        self.out.set(NEXT, &roll(number + 1))?;
        Ok(number)
    }

    /// Takes a delegate's first roll away; returns whether it had one.
    fn pop_roll(&mut self, delegate: u64, dir: &str) -> Result<bool> {
        debug_assert_eq!(dir, self.state.dir(Contract::Implicit(delegate)), "the delegate's directory");
        let limbo = self.out.find(LIMBO)?;
        let list = format!("{dir}/roll_list");
        let Some(first) = self.out.find(&list)?.as_deref().and_then(roll_number) else { return Ok(false) };
        let successor = successor(first);
        match self.out.find(&successor)? {
            Some(next) => self.out.add(&list, &next)?,
            None => self.out.delete(&list)?,
        }
        self.out.delete(&rolls_path(OWNERS, first))?;
        match limbo {
            Some(next) => self.out.add(&successor, &next)?,
            None => self.out.remove(&successor)?,
        }
        self.out.add(LIMBO, &roll(first))?;
        Ok(true)
    }

    /// Changes the change and returns what it is now.
    fn change_stake(&mut self, dir: &str, change: impl FnOnce(u64) -> u64) -> Result<u64> {
        let key = format!("{dir}/change");
        let known = self.out.find(&key)?;
        let now = change(number(known.as_deref()));
        self.put_change(&key, known.is_some(), now)?;
        Ok(now)
    }

    fn put_change(&mut self, key: &str, known: bool, change: u64) -> Result {
        if known { self.out.set(key, &nat(change)) } else { self.out.init(key, &nat(change)) }
    }
}

fn successor(number: u32) -> String {
    let mut path = rolls_path("data/rolls/index", number);
    path.push_str("/successor");
    path
}
