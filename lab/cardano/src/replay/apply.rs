//! One block: decoded whole, looked through, then applied.

use std::{collections::HashMap, ops::Range};

use super::ReplayError;
use crate::{
    Block, BlockPlace, OutputRef, Point, TxId,
    utxo::{Changes, UtxoStore},
};

/// What a block does to the set, in order.
#[derive(Debug)]
enum Step {
    /// An output goes. Whether it is there is found out before anything changes.
    Spend { output: OutputRef, tx: TxId, found: bool },
    /// An output comes, whose bytes lie in the block.
    Create { output: OutputRef, cbor: Range<usize> },
}

/// A block that was decoded. The memory is used again for the next one.
#[derive(Debug, Default)]
pub(super) struct Decoded {
    steps: Vec<Step>,
    pub(super) transactions: u64,
    pub(super) failed: u64,
    pub(super) spent: u64,
    pub(super) created: u64,
    pub(super) missing: u64,
}

impl Decoded {
    /// Decodes a block.
    pub(super) fn read(&mut self, block: &Block<'_>, place: BlockPlace) -> Result<(), ReplayError> {
        self.steps.clear();
        (self.transactions, self.failed) = (0, 0);
        (self.spent, self.created, self.missing) = (0, 0, 0);
        self.decode(block).map_err(|source| ReplayError::Block {
            chunk: place.chunk,
            offset: place.offset,
            point: block.point(),
            source,
        })
    }

    fn decode(&mut self, block: &Block<'_>) -> Result<(), crate::BlockError> {
        let start = block.bytes().as_ptr() as usize;
        for transaction in block.transactions()? {
            let transaction = transaction?;
            self.transactions += 1;
            self.failed += u64::from(transaction.failed());
            let tx = transaction.id();
            for output in transaction.spent() {
                self.steps.push(Step::Spend { output: output?, tx, found: false });
            }
            for created in transaction.created() {
                let (index, cbor) = created?;
                let from = cbor.as_ptr() as usize - start;
                self.steps.push(Step::Create { output: OutputRef { tx, index }, cbor: from..from + cbor.len() });
            }
        }
        Ok(())
    }

    /// Looks whether what the block spends is there. Nothing changes.
    pub(super) fn look(
        &mut self,
        changes: &Changes,
        set: &dyn UtxoStore,
        point: &Point,
        allow_missing: bool,
    ) -> Result<(), ReplayError> {
        // What the block itself made and spent so far.
        let mut here: HashMap<OutputRef, bool> = HashMap::new();
        for step in &mut self.steps {
            match step {
                Step::Create { output, .. } => {
                    here.insert(*output, true);
                    self.created += 1;
                }
                Step::Spend { output, tx, found } => {
                    *found = match (here.get(output), changes.get(output)) {
                        (Some(there), _) => *there,
                        (None, Some(change)) => change.is_some(),
                        (None, None) => set.contains(output)?,
                    };
                    here.insert(*output, false);
                    if *found {
                        self.spent += 1;
                    } else if allow_missing {
                        self.missing += 1;
                    } else {
                        return Err(ReplayError::Missing { point: Box::new(*point), tx: *tx, input: *output });
                    }
                }
            }
        }
        Ok(())
    }

    /// Puts what the block does into the changes.
    pub(super) fn apply(&self, block: &[u8], changes: &mut Changes) {
        for step in &self.steps {
            match step {
                Step::Create { output, cbor } => changes.create(*output, &block[cbor.clone()]),
                Step::Spend { output, found: true, .. } if changes.take(output).is_none() => changes.spend(*output),
                Step::Spend { .. } => {}
            }
        }
    }
}
