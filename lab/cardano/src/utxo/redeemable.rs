//! Outputs of redemption: what `avvmDistr` of a Byron genesis file gives to keys that were sold before the chain began.

use crate::{BlockError, OutputRef, TxId, cbor::Cbor};

/// The kind of an address of Byron that is redeemed by its key.
const REDEMPTION: u64 = 2;

/// Whether the address of an output is one of redemption.
pub(super) fn is_redeemable(output: &[u8]) -> bool {
    address_kind(output).is_ok_and(|kind| kind == REDEMPTION)
}

/// Whether an output is of a genesis file: then the hash of its address stands for the id of a transaction.
pub(crate) fn is_of_genesis(output: &OutputRef, cbor: &[u8]) -> bool {
    const OTHER: &str = "an output of no genesis file";
    let mut cbor = Cbor::new(cbor);
    let address = cbor.array_of(2..3, OTHER).and_then(|_| cbor.bytes(OTHER));
    output.index == 0 && address.is_ok_and(|address| TxId::of(&[address]) == output.tx)
}

/// Returns the kind of the Byron address of an output; an error where it has no such address.
fn address_kind(output: &[u8]) -> Result<u64, BlockError> {
    const OTHER: &str = "an output of another era";
    let mut output = Cbor::new(output);
    output.array(OTHER)?;
    // Later eras have the address of Byron as a string of bytes.
    let mut address = match output.clone().bytes(OTHER) {
        Ok(bytes) => Cbor::new(bytes),
        Err(_) => output,
    };
    address.array_of(2..3, OTHER)?;
    let mut payload = address.encoded(OTHER)?;
    payload.array_of(3..4, OTHER)?;
    payload.skip()?;
    payload.skip()?;
    payload.unsigned(OTHER)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash::from_hex_bytes;

    /// An address of redemption of mainnet.
    const ADDRESS: &str = "82d818582183581cccdf735b7d5cafe44e65e75a82fd4305fe7712924a8e1196fefdbddfa0021a9cbc2ffe";

    #[test]
    fn an_output_of_a_genesis_file_is_named_by_its_address() {
        let address = from_hex_bytes(ADDRESS.as_bytes()).unwrap();
        let cbor = [&[0x82, 0x58, 0x2b][..], &address, &[7]].concat();
        let output = OutputRef { tx: TxId::of(&[&address]), index: 0 };
        assert!(is_of_genesis(&output, &cbor));
        assert!(!is_of_genesis(&OutputRef { index: 1, ..output }, &cbor));
        assert!(!is_of_genesis(&OutputRef { tx: TxId([7; 32]), index: 0 }, &cbor));
        for cbor in [&[][..], &[0x82], &[0x81, 0x40], &[0xa0], &[0x82, 0x80, 0]] {
            assert!(!is_of_genesis(&output, cbor), "{cbor:x?}");
        }
    }

    #[test]
    fn addresses_of_redemption_are_told_from_others() {
        let is = |text: &str| is_redeemable(&from_hex_bytes(text.as_bytes()).unwrap());
        // In a string of bytes, as in Shelley, and as it stands, as in Byron.
        assert!(is(&format!("82582b{ADDRESS}07")) && is(&format!("82{ADDRESS}07")));
        let other = ADDRESS.replace("a0021a", "a0001a");
        assert!(!is(&format!("82582b{other}07")) && !is(&format!("82{other}07")));
        for text in ["", "82", "8200", "a200581c", "825839018282", "8282d818", "82582b82d818582183"] {
            assert!(!is(text), "{text}");
        }
    }
}
