//! What the ledger does by itself where Allegra begins: outputs of redemption that nobody redeemed leave the set, and their
//! lovelace goes back to the reserves.
//!
//! A replay that goes on without the block at which the set stands does not know that block's era. Where its first block is of
//! Allegra, the set tells: while an output of the genesis file is there that can be redeemed, the boundary was not passed. Such an
//! output is named by the hash of its address, which no transaction has for an id, so that one made later is not taken for it.
//!
//! Source: the translation of the ledger state from Shelley to Allegra in cardano-ledger (`returnRedeemAddrsToReserves`).

use super::{Replay, ReplayError};
use crate::{Era, OutputRef, utxo::is_of_genesis};

impl Replay<'_> {
    /// Takes the outputs of redemption out of the set, as changes of the first block of Allegra or a later era that comes, if what
    /// is before is of an earlier one: a block, or the genesis files.
    pub(super) fn enter(&mut self, era: Era) -> Result<(), ReplayError> {
        let before = self.era.replace(era);
        let may_be_first = match before {
            Some(before) => before < Era::Allegra && era >= Era::Allegra,
            // The public networks came to later eras through Allegra or from their genesis, and a walk over the set takes long.
            None => era == Era::Allegra,
        };
        if !may_be_first {
            return Ok(());
        }
        // The set has what waits only once it is committed.
        self.commit(true)?;
        let outputs = self.set.redeemable()?;
        if before.is_some() || self.has_of_genesis(&outputs)? {
            outputs.into_iter().for_each(|output| self.changes.spend(output));
        }
        Ok(())
    }

    /// Whether one of the outputs, which are in the set, is of a genesis file.
    fn has_of_genesis(&self, outputs: &[OutputRef]) -> Result<bool, ReplayError> {
        for output in outputs {
            if self.set.get(output)?.is_some_and(|cbor| is_of_genesis(output, &cbor)) {
                return Ok(true);
            }
        }
        Ok(false)
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
