//! Activations of later protocols: commits that rewrite tens of thousands of keys.

use std::io::Write;

use super::{Block, Result};
use crate::generate::{
    names::Contract,
    profile::{MOVED_IN_BLOCK, NEW_LAYOUT, REWRITTEN_MAX},
    values::{nat, number},
};

impl<W: Write> Block<'_, W> {
    /// Activates a protocol: its hash changes, and a key of every account.
    pub(super) fn migrate(&mut self) -> Result {
        let protocol = self.random.bytes(32);
        self.out.find("protocol")?;
        self.out.add("protocol", &protocol)?;
        let constants = self.random.bytes(280);
        self.out.find("data/v1/constants")?;
        self.out.add("data/v1/constants", &constants)?;
        for set in ["contracts", "delegates", "rolls", "commitments", "votes", "cycle"] {
            self.out.mem_tree(&format!("data/{set}"))?;
        }
        for account in 0..self.state.implicit.min(REWRITTEN_MAX) {
            let dir = self.state.dir(Contract::Implicit(account));
            self.out.mem(&format!("{dir}/delegatable"))?;
            let counter = format!("{dir}/counter");
            let before = number(Some(&self.out.get(&counter)?));
            self.out.add(&counter, &nat(before + 1))?;
        }
        if self.pace.comes(NEW_LAYOUT, self.level) {
            self.state.begin_moves();
            self.out.init("data/big_maps/next", &nat(0))?;
        }
        Ok(())
    }

    /// Moves contracts to the later layout, some in each block until all are there. The real protocol moved them in
    /// one block, which took it minutes; here a commit has bounds.
    pub(super) fn move_contracts(&mut self) -> Result {
        for _ in 0..MOVED_IN_BLOCK {
            let Some((contract, from)) = self.state.next_move() else { return Ok(()) };
            let to = self.state.dir(contract);
            self.out.find(&format!("{from}/balance"))?;
            self.out.copy(&from, &to)?;
            self.out.remove(&from)?;
        }
        Ok(())
    }
}
