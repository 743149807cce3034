//! The chain: which commit follows which, and how often each is mentioned again.
//!
//! Nearly always a commit follows the one before. Now and then a block has a rival that was applied first and is
//! orphaned, or a block is applied twice, which makes the same commit again.

use std::{collections::VecDeque, io::Write};

use super::{
    Result,
    block::Block,
    profile::{BLOCK_SECONDS, GENESIS_SECONDS, Pace},
    random::Random,
    scribe::{Head, Scribe},
    state::State,
};
use crate::Scoped;

/// The protocol that the genesis block of the main network asks for.
const FIRST_PROTOCOL: [u8; 32] = [
    0x38, 0xec, 0xde, 0xf0, 0xcd, 0x08, 0x64, 0x0f, 0x31, 0x8a, 0x9b, 0x05, 0x5f, 0x6b, 0x0d, 0x0c, 0x9a, 0xe0, 0x30,
    0x91, 0x3a, 0x87, 0x1d, 0x9b, 0x9d, 0x86, 0xfb, 0x84, 0x63, 0x17, 0xda, 0x21,
];
/// Streams of numbers for different ends.
const PLAN: u64 = 1;
const BLOCK: u64 = 2;

/// The commits to come and what they follow.
#[derive(Debug)]
pub(super) struct Chain {
    state: State,
    level: u64,
    head: Option<Head>,
    // What is left of the current level.
    steps: VecDeque<Step>,
    // A rival that was made and is followed next, with the state after it.
    rival: Option<(Head, State)>,
}

/// One commit of a level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// The block itself; `first` of two times.
    Main { first: bool },
    /// A rival; `followed` by another.
    Rival { followed: bool },
    /// The block upon a rival.
    AfterRival,
}

impl Chain {
    pub(super) fn new(seed: u64, pace: Pace) -> Self {
        Self { state: State::new(seed, pace), level: 0, head: None, steps: VecDeque::new(), rival: None }
    }

    /// Makes one more commit.
    pub(super) fn commit<W: Write>(&mut self, out: &mut Scribe<W>) -> Result {
        let Some(head) = &mut self.head else {
            self.head = Some(genesis(out)?);
            return Ok(());
        };
        if self.steps.is_empty() {
            out.tidy(head)?;
            self.level += 1;
            self.steps = plan(&self.state, self.level);
        }
        let step = self.steps.pop_front().unwrap_or(Step::Main { first: false });
        match step {
            Step::Main { first } => {
                let mut state = self.state.clone();
                let made = block(out, &mut state, self.level, 0, Scoped { value: &*head, keep: first }, true)?;
                if !first {
                    (self.state, *head) = (state, made);
                }
            }
            Step::Rival { followed } => {
                let mut state = self.state.clone();
                let made = block(out, &mut state, self.level, 1, Scoped::keep(&*head), followed)?;
                self.rival = followed.then_some((made, state));
            }
            Step::AfterRival => {
                let Some((rival, mut state)) = self.rival.take() else { unreachable!("a rival came before") };
                block(out, &mut state, self.level + 1, 1, Scoped::forget(&rival), false)?;
            }
        }
        Ok(())
    }
}

/// Returns the commits of a level.
fn plan(state: &State, level: u64) -> VecDeque<Step> {
    let (mut random, pace) = (Random::of(&[state.seed, PLAN, level]), &state.pace);
    let main = Step::Main { first: false };
    // The first block is large and has no rivals.
    let draw = if level == 1 { u64::MAX } else { random.below(1_000_000) };
    if draw < pace.orphaned_two {
        [Step::Rival { followed: true }, Step::AfterRival, main].into()
    } else if draw < pace.orphaned_two + pace.orphaned {
        [Step::Rival { followed: false }, main].into()
    } else if draw < pace.orphaned_two + pace.orphaned + pace.twice {
        [Step::Main { first: true }, main].into()
    } else {
        [main].into()
    }
}

/// Applies a block. `attempt` tells rivals apart; `keep`: the commit is mentioned again.
fn block<W: Write>(
    out: &mut Scribe<W>,
    state: &mut State,
    level: u64,
    attempt: u64,
    parent: Scoped<&Head>,
    keep: bool,
) -> Result<Head> {
    out.checkout(parent.value)?;
    let random = Random::of(&[state.seed, BLOCK, level, attempt]);
    let message = Block::new(out, state, random, level).apply()?;
    out.commit(Some(parent), GENESIS_SECONDS + level as i64 * BLOCK_SECONDS, &message, keep)
}

/// The genesis block of the main network.
fn genesis<W: Write>(out: &mut Scribe<W>) -> Result<Head> {
    out.find("data/version")?;
    out.add("data/version", b"genesis")?;
    out.find("data/sandbox_parameter")?;
    out.add("protocol", &FIRST_PROTOCOL)?;
    out.add("test_chain", &[0])?;
    out.commit(None, GENESIS_SECONDS, "Genesis", true)
}
