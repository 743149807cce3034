//! What the protocol counts: how many there are of everything. Whatever else it knows is in its context.

use super::{
    names::{Contract, Names},
    profile::{COMMITMENTS, FIRST_DELEGATES, Pace},
    random::Random,
};

/// Where contracts are.
const INDEX: &str = "data/contracts/index";

/// The counters. Small, so that a block can be taken back.
#[derive(Clone, Debug)]
pub(super) struct State {
    pub(super) names: Names,
    pub(super) seed: u64,
    pub(super) pace: Pace,
    pub(super) implicit: u64,
    pub(super) originated: u64,
    pub(super) scripted: u64,
    pub(super) redeemed: u64,
    /// Those who bake, in the order in which they began.
    pub(super) delegates: Vec<u64>,
    /// Rows that blocks still owe, or had too many of.
    pub(super) owed: i64,
    implicit_moves: Moves,
    originated_moves: Moves,
    scripted_moves: Moves,
}

/// Which contracts of a kind are in the later layout: the first ones, which moved, and those that came after.
#[derive(Clone, Copy, Debug)]
struct Moves {
    done: u64,
    total: u64,
}

impl Moves {
    const NONE: Self = Self { done: 0, total: u64::MAX };

    const fn have(&self, number: u64) -> bool {
        number < self.done || number >= self.total
    }

    const fn next(&mut self) -> Option<u64> {
        if self.done >= self.total || self.total == u64::MAX {
            return None;
        }
        self.done += 1;
        Some(self.done - 1)
    }
}

impl State {
    pub(super) fn new(seed: u64, pace: Pace) -> Self {
        Self {
            names: Names::new(seed),
            seed,
            pace,
            implicit: 0,
            originated: 0,
            scripted: 0,
            redeemed: 0,
            delegates: (0..FIRST_DELEGATES).collect(),
            owed: 0,
            implicit_moves: Moves::NONE,
            originated_moves: Moves::NONE,
            scripted_moves: Moves::NONE,
        }
    }

    /// Returns the directory of a contract.
    pub(super) fn dir(&self, contract: Contract) -> String {
        let path = if self.moved(contract) { self.names.indexed(contract) } else { self.names.chopped(contract) };
        format!("{INDEX}/{path}")
    }

    /// Returns the key that says that `contract` is delegated to the account whose directory is `delegate`.
    pub(super) fn delegated(&self, delegate: &str, contract: Contract) -> String {
        // What was there moved with its directory and kept its old name, as nothing looks it up by the new one.
        let path = if self.moved(contract) { self.names.indexed(contract) } else { self.names.chopped(contract) };
        format!("{delegate}/delegated/{path}")
    }

    pub(super) const fn moved(&self, contract: Contract) -> bool {
        match contract {
            Contract::Implicit(number) => self.implicit_moves.have(number),
            Contract::Originated(number) => self.originated_moves.have(number),
            Contract::Scripted(number) => self.scripted_moves.have(number),
        }
    }

    /// Whether the big map of a contract with code has an id, which is the contract's number. Older ones are in the
    /// contract's directory.
    pub(super) const fn has_map_id(&self, scripted: u64) -> bool {
        scripted >= self.scripted_moves.total
    }

    /// Lets the contracts there are begin to move; new ones begin in the later layout.
    pub(super) const fn begin_moves(&mut self) {
        self.implicit_moves.total = self.implicit;
        self.originated_moves.total = self.originated;
        self.scripted_moves.total = self.scripted;
    }

    /// Returns the next contract to move and where it is; it counts as moved from now on.
    pub(super) fn next_move(&mut self) -> Option<(Contract, String)> {
        let contract = if let Some(number) = self.implicit_moves.next() {
            Contract::Implicit(number)
        } else if let Some(number) = self.originated_moves.next() {
            Contract::Originated(number)
        } else {
            Contract::Scripted(self.scripted_moves.next()?)
        };
        Some((contract, format!("{INDEX}/{}", self.names.chopped(contract))))
    }

    /// Draws an account that does something: one of the popular, one of the latest, or any.
    pub(super) fn account(&self, random: &mut Random) -> u64 {
        draw(random, self.implicit)
    }

    /// Draws an account that another one pays to.
    pub(super) fn payee(&self, random: &mut Random) -> Contract {
        if self.originated > 0 && random.chance(300_000) {
            return Contract::Originated(draw(random, self.originated));
        }
        Contract::Implicit(draw(random, self.implicit))
    }

    /// Returns how many pledges are left.
    pub(super) const fn commitments(&self) -> u64 {
        COMMITMENTS - self.redeemed
    }
}

fn draw(random: &mut Random, count: u64) -> u64 {
    match random.below(4) {
        0 | 1 => random.popular(count),
        2 => count - 1 - random.popular(count),
        _ => random.below(count),
    }
}
