//! The digest of a set: BLAKE2b-256 over its entries by transaction and place.

use blake2b_simd::{Params, State};

use crate::{BlockError, OutputRef, TxId, cbor::Cbor};

/// What a set is, in a few words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UtxoDigest {
    /// How many outputs it has.
    pub entries: u64,
    /// Their lovelace.
    pub lovelace: u128,
    /// The hash of all entries, in ascending order of transaction and place: of each the transaction, and in four big-endian
    /// bytes each the place and the output's length, and the output.
    pub hash: [u8; 32],
}

impl UtxoDigest {
    /// Returns the hash in hexadecimal.
    #[must_use]
    pub fn hex(&self) -> String {
        self.hash.iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

/// Makes a digest of entries that come transaction by transaction, those of one in any order.
pub(super) struct Digester {
    state: State,
    tx: Option<TxId>,
    /// The outputs of one transaction.
    outputs: Vec<(u32, Vec<u8>)>,
    entries: u64,
    lovelace: u128,
}

impl Digester {
    pub(super) fn new() -> Self {
        let state = Params::new().hash_length(32).to_state();
        Self { state, tx: None, outputs: Vec::new(), entries: 0, lovelace: 0 }
    }

    /// Adds an output, whose transaction is that of the one before or a greater one.
    pub(super) fn add(&mut self, output: OutputRef, cbor: &[u8]) -> Result<(), BlockError> {
        if self.tx != Some(output.tx) {
            self.flush();
            self.tx = Some(output.tx);
        }
        self.entries += 1;
        self.lovelace += u128::from(lovelace(cbor)?);
        self.outputs.push((output.index, cbor.to_vec()));
        Ok(())
    }

    fn flush(&mut self) {
        let Some(tx) = self.tx else { return };
        self.outputs.sort_unstable_by_key(|(index, _)| *index);
        for (index, cbor) in self.outputs.drain(..) {
            self.state.update(&tx.0).update(&index.to_be_bytes()).update(&(cbor.len() as u32).to_be_bytes());
            self.state.update(&cbor);
        }
    }

    pub(super) fn finish(mut self) -> UtxoDigest {
        self.flush();
        let mut hash = [0; 32];
        hash.copy_from_slice(self.state.finalize().as_bytes());
        UtxoDigest { entries: self.entries, lovelace: self.lovelace, hash }
    }
}

/// Returns the lovelace of an output of any era: an array of an address and a value, or a map with the value at key 1. A value
/// is a number, or an array of that and other assets.
///
/// # Errors
/// [`BlockError`] for what is no output.
pub fn lovelace(output: &[u8]) -> Result<u64, BlockError> {
    const SHAPE: &str = "an output is an array or a map with a value";
    const VALUE: &str = "a value is a number, or an array of one and assets";
    let mut cbor = Cbor::new(output);
    if output.first().is_some_and(|first| first >> 5 == 5) {
        let mut left = cbor.map(SHAPE)?;
        loop {
            cbor.next(&mut left, SHAPE)?;
            if cbor.unsigned("a key of an output is no number")? == 1 {
                break;
            }
            cbor.skip()?;
        }
    } else {
        let mut left = cbor.array(SHAPE)?;
        cbor.next(&mut left, SHAPE)?;
        cbor.skip()?;
        cbor.next(&mut left, SHAPE)?;
    }
    let mut value = cbor.clone();
    if let Ok(mut parts) = value.array(VALUE) {
        value.next(&mut parts, VALUE)?;
        // Of Mary and later, whose nodes take any spelling of an integer beside assets.
        return value.amount(VALUE);
    }
    cbor.unsigned(VALUE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lovelace_is_found_in_every_spelling() {
        let right: [(&[u8], u64); 10] = [
            (&[0x82, 0x40, 5], 5),
            (&[0x9f, 0x40, 0x1b, 0, 0, 0, 0, 0, 0, 0, 5, 0xff], 5),
            (&[0x83, 0x40, 5, 0x41, 7], 5),
            (&[0x82, 0x40, 0x82, 5, 0xa0], 5),
            (&[0x82, 0x40, 0x9f, 0x18, 5, 0xbf, 0xff, 0xff], 5),
            (&[0x82, 0x40, 0x82, 0xc2, 0x42, 1, 5, 0xa0], 261),
            (&[0x82, 0x40, 0x82, 0xc2, 0x4a, 0, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xa0], u64::MAX),
            (&[0x82, 0x40, 0x82, 0xc2, 0x40, 0xa0], 0),
            (&[0xa2, 0, 0x40, 1, 5], 5),
            (&[0xbf, 0, 0x40, 2, 0x82, 0, 0x40, 1, 0x82, 0x19, 1, 5, 0xa0, 0xff], 261),
        ];
        for (output, amount) in right {
            assert_eq!(lovelace(output), Ok(amount), "{output:x?}");
        }
        let wrong: [(&[u8], usize); 9] = [
            (&[0x81, 0x40], 2),
            (&[0x82, 0x40, 0x20], 2),
            (&[0x82, 0x40, 0xc2, 0x41, 5], 2),
            (&[0x82, 0x40, 0x80], 3),
            (&[0x82, 0x40, 0x82, 0xc3, 0x41, 5, 0xa0], 3),
            (&[0x82, 0x40, 0x82, 0xc2, 0x49, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0xa0], 3),
            (&[0xa1, 0, 0x40], 3),
            (&[0xa1, 0x20, 5], 1),
            (&[0x05], 0),
        ];
        for (output, at) in wrong {
            assert_eq!(lovelace(output).map_err(|error| error.offset), Err(at), "{output:x?}");
        }
    }
}
