//! What of the unsynced survives a power cut.

use super::file::PendingPart;
use crate::generate::Rng;

/// Which unsynced changes survive a power cut. Whatever was synced survives them all.
///
/// In every policy a sector of 512 bytes is old or new and never a mixture, a length is one that the file
/// had, a rename happened or did not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// None.
    Lost,
    /// All.
    Kept,
    /// Those before a random moment; the write at that moment in part.
    Prefix,
    /// A random subset of whole changes, in any order.
    Writes,
    /// A random subset of the sectors of all writes, and of the names and lengths.
    Sectors,
}

impl Policy {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Lost, Self::Kept, Self::Prefix, Self::Writes, Self::Sectors];

    /// Whether another seed gives another outcome.
    #[must_use]
    pub const fn is_random(self) -> bool {
        !matches!(self, Self::Lost | Self::Kept)
    }
}

/// One draw from a policy: says of each part of each pending change whether it survives.
pub(super) struct Fate {
    policy: Policy,
    rng: Rng,
    // The last change of which something is kept, for `Prefix`.
    cut: u64,
    // Survivors out of 16: few, half or most, so that single losses and single survivals both come up.
    kept: u64,
    // The change decided last as a whole, for `Writes`.
    whole: Option<(u64, bool)>,
}

impl Fate {
    /// `pending` numbers the changes that were not synced.
    pub(super) fn new(policy: Policy, seed: u64, pending: impl Iterator<Item = u64>) -> Self {
        let mut rng = Rng::stream(seed, policy as u64);
        let mut pending: Vec<u64> = pending.collect();
        pending.sort_unstable();
        pending.dedup();
        let cut = rng.index(pending.len() + 1);
        let cut = pending.get(cut).copied().unwrap_or(u64::MAX);
        let kept = *rng.pick(&[2, 8, 14]);
        Self { policy, rng, cut, kept, whole: None }
    }

    pub(super) fn keeps(&mut self, seq: u64, part: PendingPart) -> bool {
        match self.policy {
            Policy::Lost => false,
            Policy::Kept => true,
            Policy::Prefix => {
                seq < self.cut || seq == self.cut && matches!(part, PendingPart::Sector) && self.rng.chance(8, 16)
            }
            Policy::Writes => match self.whole {
                Some((decided, kept)) if decided == seq => kept,
                _ => {
                    let kept = self.rng.chance(self.kept, 16);
                    self.whole = Some((seq, kept));
                    kept
                }
            },
            Policy::Sectors => self.rng.chance(self.kept, 16),
        }
    }
}
