//! Addresses of redemption (`avvmDistr` of a Byron genesis file), derived from the keys that are named there.

use blake2b_simd::Params;
use sha3::{Digest, Sha3_256};

use crate::cbor::head;

/// The magic of mainnet, whose addresses do not say their network.
const MAINNET: u64 = 764_824_073;

/// Returns the address that a key can redeem in the network with a magic; `None` for text that is no key: 32 bytes in the alphabet of
/// base64 for URLs.
pub(super) fn address(key: &str, magic: Option<u64>) -> Option<Vec<u8>> {
    let key = decode(key)?;
    let attributes = attributes(magic);
    // How it is spent: 2, by redemption with this key.
    let spending = [&[0x82, 0x02, 0x58, 0x20][..], &key].concat();
    // The address's root hashes its kind (2 as well), how it is spent, and attributes.
    let inner = Sha3_256::new().chain_update([0x83, 0x02]).chain_update(spending).chain_update(&attributes).finalize();
    let root = Params::new().hash_length(28).hash(&inner);
    let payload = [&[0x83, 0x58, 0x1c][..], root.as_bytes(), &attributes, &[0x02]].concat();
    let mut address = vec![0x82, 0xd8, 0x18];
    head(&mut address, 2, payload.len() as u64);
    address.extend_from_slice(&payload);
    head(&mut address, 0, u64::from(crc32fast::hash(&payload)));
    Some(address)
}

/// Returns the attributes of addresses: of another network than mainnet its magic, as CBOR in a string of bytes.
fn attributes(magic: Option<u64>) -> Vec<u8> {
    let Some(magic) = magic.filter(|magic| *magic != MAINNET) else { return vec![0xa0] };
    let mut number = Vec::new();
    head(&mut number, 0, magic);
    let mut attributes = vec![0xa1, 0x02];
    head(&mut attributes, 2, number.len() as u64);
    attributes.extend_from_slice(&number);
    attributes
}

/// Decodes 32 bytes. One key has one spelling, but for the padding, which may be left out.
fn decode(text: &str) -> Option<[u8; 32]> {
    let text = text.strip_suffix('=').unwrap_or(text);
    if text.len() != 43 {
        return None;
    }
    let mut bytes = Vec::with_capacity(33);
    let (mut bits, mut count) = (0_u32, 0);
    for byte in text.bytes() {
        let digit = match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'-' => 62,
            b'_' => 63,
            _ => return None,
        };
        bits = (bits << 6 | u32::from(digit)) & 0x3fff;
        count += 6;
        if count >= 8 {
            count -= 8;
            bytes.push((bits >> count) as u8);
        }
    }
    // Two bits are left over.
    bytes.try_into().ok().filter(|_| bits & 3 == 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::TxId;

    /// A key of mainnet, whose address and transaction id are known.
    const KEY: &str = "-0BJDi-gauylk4LptQTgjMeo7kY9lTCbZv12vwOSTZk=";

    #[test]
    fn addresses_of_mainnet_are_derived_from_their_keys() {
        let found = address(KEY, Some(MAINNET)).unwrap();
        let known = "82d818582183581cccdf735b7d5cafe44e65e75a82fd4305fe7712924a8e1196fefdbddfa0021a9cbc2ffe";
        assert_eq!(Some(&found), crate::hash::from_hex_bytes(known.as_bytes()).as_ref());
        let ids = [
            (KEY, "8ee33c9906974706223d7d500d63bbee2369d7150f972757a9fdded2f706b938"),
            (
                "DKsNZvWNRoVbR4wIVAM2XE3IQ8vyPeE1Q8oRtraauiM=",
                "633beef5ce862f414e61c4963f57b266b7a5c46f91274141dba6cc1063c74204",
            ),
        ];
        for (key, id) in ids {
            assert_eq!(TxId::of(&[&address(key, None).unwrap()]).to_string(), id);
        }
        assert_eq!(address(KEY.trim_end_matches('='), None), Some(found));
    }

    #[test]
    fn addresses_of_other_networks_say_their_magic() {
        for (magic, known) in [
            (42, "82d818582583581c2d536dd5daee059e76ff3c66d5f3b0ceb26f9a19ef5dd8ac9ddf6d11a10242182a021a0d1d30ec"),
            (
                1_097_911_063,
                "82d818582883581c21e2870a6fc5160ab98a257b9a12ca451ad86df41377934328e6b4cfa102451a4170cb17021a790a542f",
            ),
        ] {
            assert_eq!(address(KEY, Some(magic)), crate::hash::from_hex_bytes(known.as_bytes()), "{magic}");
        }
    }

    #[test]
    fn what_is_no_key_has_no_address() {
        // Too short, too long, of the other alphabet, with bits left over, not of ASCII.
        let longer = [format!("{KEY}="), format!("{KEY}A"), format!("A{}", "é".repeat(21))];
        let other = [KEY.replace('-', "+"), KEY.replace("k=", "l=")];
        for bad in ["", "=", &KEY[1..]].into_iter().chain(longer.iter().chain(&other).map(String::as_str)) {
            assert_eq!(address(bad, None), None, "{bad}");
        }
    }
}
