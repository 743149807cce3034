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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use bristlecone::{Durability, MemoryBackend, Repo};

    use super::*;
    use crate::{
        MemoryIndex, OutputRef, TxId,
        hash::from_hex_bytes,
        replay::ReplayOptions,
        utxo::{Changes, TreeUtxo, UtxoStore, UtxoTip},
    };

    #[test]
    fn outputs_of_redemption_leave_the_set_once() {
        let repo = Repo::with_backend(TreeUtxo::format(), Arc::new(MemoryBackend::new()));
        let mut set = TreeUtxo::open(&repo, "main", Durability::None).unwrap();
        let mut index = MemoryIndex::new().unwrap();
        let mut changes = Changes::default();
        let output = |number: u8| OutputRef { tx: TxId([number; 32]), index: 0 };
        for (number, kind) in [(1, "02"), (2, "00"), (3, "02")] {
            let address =
                format!("82d818582183581cccdf735b7d5cafe44e65e75a82fd4305fe7712924a8e1196fefdbddfa0{kind}1a9cbc2ffe");
            let cbor = from_hex_bytes(format!("82582b{address}07").as_bytes()).unwrap();
            changes.create(output(number), &cbor);
        }
        set.commit(&mut changes, UtxoTip::Genesis).unwrap();
        let mut replay = Replay::new(&mut index, &mut set, ReplayOptions::default()).unwrap();
        for era in [Era::ByronBoundary, Era::Byron, Era::Shelley] {
            replay.enter(era).unwrap();
            assert!(replay.changes.is_empty());
        }
        replay.enter(Era::Allegra).unwrap();
        let gone = [1, 2, 3].map(|number| replay.changes.get(&output(number)) == Some(None));
        assert_eq!(gone, [true, false, true]);
        replay.set.commit(&mut replay.changes, UtxoTip::Genesis).unwrap();
        // What comes to such an address later stays.
        replay.changes.create(output(4), &replay.set.get(&output(2)).unwrap().unwrap());
        replay.set.commit(&mut replay.changes, UtxoTip::Genesis).unwrap();
        for era in [Era::Allegra, Era::Mary, Era::Conway] {
            replay.enter(era).unwrap();
            assert!(replay.changes.is_empty());
        }
        assert_eq!(replay.set.entries().unwrap(), 2);
    }
}
