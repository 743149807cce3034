//! One block: decoded whole, looked through, then applied.

use std::{
    collections::{HashMap, HashSet},
    ops::Range,
};

use super::ReplayError;
use crate::{
    Block, BlockError, BlockPlace, OutputRef, Point, TxId,
    utxo::{Changes, UtxoStore, lovelace},
};

/// So many bytes of its block each output takes at least that is spent or created: one that is created has an address of 29
/// bytes or more, one that is spent is named by a hash of 32.
const STEP_BYTES_MIN: usize = 33;
/// So many outputs a block spends and creates at most. Blocks have at most 2 MB, and room for half as many.
const STEPS_MAX: usize = 1 << 17;

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
    /// What the transaction at hand spends.
    named: HashSet<OutputRef>,
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

    fn decode(&mut self, block: &Block<'_>) -> Result<(), BlockError> {
        let start = block.bytes().as_ptr() as usize;
        // Steps take more memory than bytes of CBOR that nobody has checked.
        let steps_max = STEPS_MAX.min(block.bytes().len() / STEP_BYTES_MIN);
        for transaction in block.transactions()? {
            let transaction = transaction?;
            let offset = transaction.body().as_ptr() as usize - start;
            let crowded = BlockError { offset, reason: "more outputs are spent and created than a block has room for" };
            self.transactions += 1;
            self.failed += u64::from(transaction.failed());
            let tx = transaction.id();
            self.named.clear();
            for output in transaction.spent() {
                let output = output?;
                // What is named twice is spent once.
                if self.named.insert(output) {
                    if self.steps.len() >= steps_max {
                        return Err(crowded);
                    }
                    self.steps.push(Step::Spend { output, tx, found: false });
                }
            }
            for created in transaction.created() {
                let (index, cbor) = created?;
                if self.steps.len() >= steps_max {
                    return Err(crowded);
                }
                let from = cbor.as_ptr() as usize - start;
                // What is no output should not wait in the set for whoever adds its lovelace up.
                lovelace(cbor).map_err(|error| BlockError { offset: from + error.offset, ..error })?;
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
        (point, place): (Point, BlockPlace),
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
                        let BlockPlace { chunk, offset, .. } = place;
                        let (tx, input) = (*tx, *output);
                        return Err(ReplayError::Missing { chunk, offset, point: Box::new(point), tx, input });
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

#[cfg(test)]
mod tests {
    use std::{fs, path::Path};

    use super::*;
    use crate::{Era, made_up::empty_blocks};

    fn spends(bytes: &[u8]) -> Vec<OutputRef> {
        let mut decoded = Decoded::default();
        decoded.decode(&Block::parse(bytes).unwrap()).unwrap();
        let output = |step: &Step| match step {
            Step::Spend { output, .. } => Some(*output),
            Step::Create { .. } => None,
        };
        decoded.steps.iter().filter_map(output).collect()
    }

    #[test]
    fn an_output_that_a_transaction_names_twice_is_spent_once() {
        let blocks = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/cardano/blocks/dolos-mainnet");
        let mut tried = 0;
        for file in fs::read_dir(blocks).unwrap() {
            let bytes = fs::read(file.unwrap().path()).unwrap();
            let Ok(block) = Block::parse(&bytes) else { continue };
            let expected = spends(&bytes);
            for transaction in block.transactions().unwrap() {
                let inputs: Vec<OutputRef> = transaction.unwrap().spent().map(Result::unwrap).collect();
                let Some(first) = inputs.first().filter(|first| first.index < 24) else { continue };
                let item = [&[0x82, 0x58, 32], &first.tx.0[..], &[first.index as u8]].concat();
                let Some(at) = bytes.windows(item.len()).position(|window| window == item) else { continue };
                let mut twice = bytes.clone();
                // Only lists whose head is one byte and counts one more.
                if inputs.len() > 22 || twice[at - 1] != 0x80 | inputs.len() as u8 {
                    continue;
                }
                twice[at - 1] += 1;
                twice.splice(at..at, item);
                assert_eq!(spends(&twice), expected);
                tried += 1;
            }
        }
        assert!(tried > 3, "{tried}");
    }

    #[test]
    fn a_block_of_more_outputs_than_it_has_room_for_is_refused_before_they_take_memory() {
        let [empty] = &empty_blocks(&[Era::Shelley])[..] else { panic!("one block") };
        // What stands before the three parts behind the header; then one transaction that creates so many outputs.
        let (before, at) = (&empty[..empty.len() - 3], empty.len() - 2);
        let block = |outputs: usize, output: &[u8]| {
            let count = (outputs as u32).to_be_bytes();
            [before, &[0x81, 0xa1, 1, 0x9a], &count, &output.repeat(outputs), &[0x80, 0xa0]].concat()
        };
        let real = [&[0x82, 0x58, 29][..], &[7; 29], &[5]].concat();
        for bytes in [block(1_000_000, &[0x82, 0x40, 5]), block(STEPS_MAX + 1, &real)] {
            let place = BlockPlace { chunk: 3, offset: 70, bytes: bytes.len() as u32 };
            let mut decoded = Decoded::default();
            let error = decoded.read(&Block::parse(&bytes).unwrap(), place).unwrap_err().to_string();
            let start = format!("chunk 3, byte 70: the block of slot 100 is wrong at byte {at} of the block");
            assert!(error.starts_with(&start) && error.ends_with("than a block has room for"), "{error}");
            assert!(decoded.steps.len() <= STEPS_MAX.min(bytes.len() / STEP_BYTES_MIN));
        }
        for outputs in [1, 1000, STEPS_MAX] {
            let mut decoded = Decoded::default();
            decoded.decode(&Block::parse(&block(outputs, &real)).unwrap()).unwrap();
            assert_eq!(decoded.steps.len(), outputs);
        }
    }
}
