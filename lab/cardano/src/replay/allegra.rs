//! What the ledger does by itself where Allegra begins: outputs of redemption that nobody redeemed leave the set, and their
//! lovelace goes back to the reserves.
//!
//! Source: the translation of the ledger state from Shelley to Allegra in cardano-ledger (`returnRedeemAddrsToReserves`).

use super::{Replay, ReplayError};
use crate::Era;

impl Replay<'_> {
    /// Takes the outputs of redemption out of the set, as changes of the first block of Allegra or a later era that comes, if the
    /// block before is of an earlier one.
    pub(super) fn enter(&mut self, era: Era) -> Result<(), ReplayError> {
        let before = self.era.replace(era);
        if era < Era::Allegra || before.is_none_or(|before| before >= Era::Allegra) {
            return Ok(());
        }
        // The set has what waits only once it is committed.
        self.commit(true)?;
        for output in self.set.redeemable()? {
            self.changes.spend(output);
        }
        Ok(())
    }
}
