//! How much of what happens when: the figures that real traces have, and what follows from them.
//!
//! What comes from measurements of real traces says so; the rest was chosen so that those come out. Rates are in
//! millionths. Tables have a value for some levels; between them it changes evenly.

/// When the chain begins, in seconds since 1970-01-01 00:00 UTC: the date of the real genesis block.
pub(super) const GENESIS_SECONDS: i64 = 1_530_374_852;
/// Between blocks.
pub(super) const BLOCK_SECONDS: i64 = 60;

/// For this many cycles rights are known, and deposits are held.
pub(super) const PRESERVED_CYCLES: u64 = 5;
/// Rights to endorse a block. Measured: each of them and the right to bake ask for one directory, 33 in each block.
pub(super) const SLOTS: u64 = 32;
/// The stake behind a roll, in millionths of a coin.
pub(super) const ROLL_AMOUNT: u64 = 10_000 * COIN;
/// A coin in the unit that balances have.
pub(super) const COIN: u64 = 1_000_000;
/// Deposits and rewards reach their full size after this many cycles.
pub(super) const RAMP_UP_CYCLES: u64 = 64;

/// Pledges that block 1 writes. With [`FIRST_ROLLS`] it has the measured maxima: 105,935 Find and 93,342 Mem in one
/// commit, where a pledge takes one Mem and one Add, a roll five Find, three Mem and five Add.
pub(super) const COMMITMENTS: u64 = 29_440;
/// Rolls that block 1 gives out.
pub(super) const FIRST_ROLLS: u64 = 21_130;
/// Those who bake from the start on.
pub(super) const FIRST_DELEGATES: u64 = 8;
/// Accounts that block 1 makes, delegates included.
pub(super) const FIRST_ACCOUNTS: u64 = 180;

/// Values by level.
pub(super) type Table = [(u64, u64)];

/// Rows of a commit, without those of pledges that are redeemed, of cycles that end and of migrations. Measured are
/// 345 over the commits from 10,310 to 13,315, 459 over the first 100,000, and 532, 671, 863 and 1,179 over the four
/// quarters of 1,343,496.
pub(super) const ROWS: &Table = &[
    (2, 331),
    (13_315, 337),
    (30_000, 420),
    (50_000, 460),
    (75_000, 505),
    (100_000, 525),
    (200_000, 560),
    (336_000, 605),
    (504_000, 671),
    (672_000, 750),
    (840_000, 860),
    (1_008_000, 985),
    (1_176_000, 1178),
    (1_343_496, 1376),
];

/// Pledges redeemed in a block. Measured is what they take away: 4.58 Remove a commit over the first 10,310 and 2.32
/// over the next 3,005; each has two.
pub(super) const REDEEMED: &Table = &[
    (2, 4_200_000),
    (2_000, 2_750_000),
    (5_000, 1_700_000),
    (8_000, 1_050_000),
    (10_310, 800_000),
    (13_315, 550_000),
    (30_000, 250_000),
    (100_000, 50_000),
    (200_000, 10_000),
];

/// How many bake. On the real chain it took two years to about 400.
pub(super) const DELEGATES: &Table =
    &[(2, 8), (2_000, 8), (13_315, 12), (30_000, 25), (100_000, 70), (336_000, 200), (672_000, 350), (1_343_496, 430)];

/// How likely an endorsement is included.
pub(super) const INCLUDED: u64 = 565_000;
/// How likely a block is not baked by the first who has the right to.
pub(super) const LATER_PRIORITY: u64 = 10_000;
/// How likely a nonce is revealed.
pub(super) const REVEALED: u64 = 950_000;

/// What users do, as weights by level: transfers, transfers to new accounts, originations, delegations, calls.
pub(super) const OPERATIONS: [&Table; 5] = [
    &[(2, 560), (100_000, 650), (300_000, 700), (655_360, 560), (1_000_000, 400), (1_343_496, 300)],
    &[(2, 200), (100_000, 150), (300_000, 90), (655_360, 70), (1_000_000, 50), (1_343_496, 40)],
    &[(2, 130), (100_000, 100), (300_000, 60), (655_360, 20), (1_000_000, 10), (1_343_496, 5)],
    &[(2, 90), (100_000, 60), (300_000, 50), (655_360, 40), (1_000_000, 20), (1_343_496, 15)],
    &[(2, 5), (100_000, 20), (300_000, 70), (655_360, 260), (1_000_000, 480), (1_343_496, 600)],
];
/// How likely what is originated has code.
pub(super) const WITH_CODE: &Table = &[(2, 5_000), (100_000, 20_000), (655_360, 200_000), (1_343_496, 600_000)];

/// The blocks that activate a protocol, as on the real chain. Each rewrites a key of every account.
pub(super) const ACTIVATIONS: [u64; 6] = [28_083, 204_762, 458_753, 655_361, 851_969, 1_212_417];
/// That of these which moves every contract to a directory named by a hash of its address, and brings big maps with
/// ids.
pub(super) const NEW_LAYOUT: u64 = 655_361;
/// The most keys that a migration rewrites in one commit, which must fit in memory.
pub(super) const REWRITTEN_MAX: u64 = 30_000;
/// Contracts that move in one commit.
pub(super) const MOVED_IN_BLOCK: u64 = 8_000;

/// How fast things go. The real pace is the default; tests have a faster one, so that they see years in minutes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    pub(super) cycle_blocks: u64,
    /// A cycle has a whole number of snapshots. Measured: the number of copies in real traces is 7 + level / 256.
    pub(super) snapshot_every: u64,
    /// Blocks that commit to a nonce.
    pub(super) nonce_every: u64,
    /// By how much the level counts in tables.
    pub(super) years: u64,
    /// How likely a block has a rival that is orphaned, alone or with one more block upon it. Not measured: too rare
    /// to show in the published figures.
    pub(super) orphaned: u64,
    pub(super) orphaned_two: u64,
    /// How likely a block is applied twice. Not measured.
    pub(super) twice: u64,
}

impl Default for Pace {
    fn default() -> Self {
        let (cycle_blocks, snapshot_every, nonce_every) = (4096, 256, 32);
        Self { cycle_blocks, snapshot_every, nonce_every, years: 1, orphaned: 400, orphaned_two: 100, twice: 200 }
    }
}

impl Pace {
    /// Returns the value of a table at a level.
    pub(super) fn at(&self, table: &Table, level: u64) -> u64 {
        at(table, level * self.years)
    }

    /// Whether what comes at `event` comes at this level.
    pub(super) const fn comes(&self, event: u64, level: u64) -> bool {
        (level - 1) * self.years < event && event <= level * self.years
    }

    /// Returns the cycle of a level; the genesis block counts to the first.
    pub(super) const fn cycle(&self, level: u64) -> u64 {
        level.saturating_sub(1) / self.cycle_blocks
    }
}

fn at(table: &Table, level: u64) -> u64 {
    let after = table.partition_point(|&(known, _)| known <= level);
    if after == 0 {
        return table[0].1;
    }
    let (from, value) = table[after - 1];
    let Some(&(to, next)) = table.get(after) else { return value };
    let (span, gone) = (to - from, level - from);
    (value * (span - gone) + next * gone) / span
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_change_evenly() {
        let table = &[(10, 100), (20, 200), (30, 0)][..];
        assert_eq!([0, 10, 15, 20, 29, 30, 99].map(|level| at(table, level)), [100, 100, 150, 200, 20, 0, 0]);
    }

    /// The quarters of the long trace, as the rows of its commits must add up.
    #[test]
    fn commits_grow_as_measured() {
        let mean =
            |low: u64, end: u64| (low..end).step_by(97).map(|level| at(ROWS, level)).sum::<u64>() * 97 / (end - low);
        for (quarter, measured) in [532, 671, 863, 1_179].into_iter().enumerate() {
            let low = quarter as u64 * 335_874;
            let mean = mean(low, low + 335_874);
            assert!(mean.abs_diff(measured) * 100 < measured * 3, "{mean} rows, measured {measured}");
        }
        let first = mean(2, 100_000);
        assert!((440..=470).contains(&first), "{first}");
    }
}
