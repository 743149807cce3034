//! Who is who: addresses and keys that follow from the seed and a number, and the number from them.
//!
//! So what exists is known by counting, and nothing need be remembered. Paths are chopped into steps of two digits,
//! as the first protocols did.

use super::random::{Random, mix, unmix};

/// Bytes of a chopped hash that become steps of their own.
const CHOPPED: usize = 5;

/// An account of the ledger.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Contract {
    /// A key's own account.
    Implicit(u64),
    /// One that was originated to be delegated, without code.
    Originated(u64),
    /// One with code.
    Scripted(u64),
}

/// What addresses are for: each kind has its own.
#[derive(Clone, Copy, Debug)]
enum Domain {
    Implicit = 1,
    Originated,
    Scripted,
    Commitment,
    PublicKey,
    Index,
    Entry,
}

/// The names of one seed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Names {
    seed: u64,
}

impl Names {
    pub(super) const fn new(seed: u64) -> Self {
        Self { seed }
    }

    /// Returns the hash of an implicit account's key, with the tag of its curve in front: 21 bytes.
    pub(super) fn key_hash(&self, account: u64) -> [u8; 21] {
        let mut hash = [0; 21];
        let address = self.bytes::<20>(Domain::Implicit, account);
        hash[0] = curve(&address).0;
        hash[1..].copy_from_slice(&address);
        hash
    }

    /// Returns the account that has this key's hash.
    pub(super) fn account_of_hash(&self, hash: &[u8]) -> Option<u64> {
        self.number(Domain::Implicit, hash.get(1..9)?)
    }

    /// Returns the public key of an implicit account: 33 bytes.
    pub(super) fn public_key(&self, account: u64) -> [u8; 33] {
        let mut key = [0; 33];
        key[1..].copy_from_slice(&self.bytes::<32>(Domain::PublicKey, account));
        key
    }

    /// Returns the account that has this public key.
    pub(super) fn account_of_key(&self, key: &[u8]) -> Option<u64> {
        self.number(Domain::PublicKey, key.get(1..9)?)
    }

    /// Returns the path of a contract below `data/contracts/index` and `delegated`, in the first layout.
    pub(super) fn chopped(&self, contract: Contract) -> String {
        match contract {
            Contract::Implicit(account) => self.key_path(account),
            Contract::Originated(_) | Contract::Scripted(_) => {
                let mut path = String::from("originated");
                push_chopped(&mut path, &self.address(contract));
                path
            }
        }
    }

    /// Returns the path of a contract in the layout that came later: six steps of two digits and all 44 digits.
    pub(super) fn indexed(&self, contract: Contract) -> String {
        let address = self.address(contract);
        let mut raw = [0; 22];
        match contract {
            Contract::Implicit(_) => raw[1] = curve(&address).0,
            Contract::Originated(_) | Contract::Scripted(_) => raw[0] = 1,
        }
        let start = 2 - usize::from(raw[0]);
        raw[start..start + 20].copy_from_slice(&address);
        let mut path = String::with_capacity(64);
        self.push_index(&mut path, first_word(&address));
        push_hex(&mut path, &raw);
        path
    }

    /// Returns the path of an implicit account's key, as sets of keys have it: curve and chopped hash.
    pub(super) fn key_path(&self, account: u64) -> String {
        let address = self.bytes::<20>(Domain::Implicit, account);
        let mut path = String::with_capacity(64);
        path.push_str(curve(&address).1);
        push_chopped(&mut path, &address);
        path
    }

    /// Returns the path of a commitment, below `data/commitments`.
    pub(super) fn commitment(&self, number: u64) -> String {
        let mut path = String::from("data/commitments");
        push_chopped(&mut path, &self.bytes::<20>(Domain::Commitment, number));
        path
    }

    /// Returns the path of a big map, below `data/big_maps/index`.
    pub(super) fn big_map(&self, id: u64) -> String {
        let mut path = String::from("data/big_maps/index/");
        self.push_index(&mut path, id);
        path.push_str(&id.to_string());
        path
    }

    /// Returns the 32 bytes that key an entry of a big map.
    pub(super) fn entry_key(&self, map: u64, entry: u64) -> [u8; 32] {
        self.bytes(Domain::Entry, mix(map) ^ entry)
    }

    fn address(&self, contract: Contract) -> [u8; 20] {
        match contract {
            Contract::Implicit(number) => self.bytes(Domain::Implicit, number),
            Contract::Originated(number) => self.bytes(Domain::Originated, number),
            Contract::Scripted(number) => self.bytes(Domain::Scripted, number),
        }
    }

    /// Appends six steps of two digits, each followed by a slash.
    fn push_index(&self, path: &mut String, word: u64) {
        for byte in self.bytes::<6>(Domain::Index, word) {
            push_hex(path, &[byte]);
            path.push('/');
        }
    }

    /// Returns the bytes of a number, the first eight of which lead back to it.
    fn bytes<const N: usize>(&self, domain: Domain, number: u64) -> [u8; N] {
        let word = mix(number.wrapping_add(self.shift(domain)));
        let mut bytes = [0; N];
        let first = N.min(8);
        bytes[..first].copy_from_slice(&word.to_be_bytes()[..first]);
        Random::of(&[word, self.seed]).fill(&mut bytes[first..]);
        bytes
    }

    fn number(&self, domain: Domain, word: &[u8]) -> Option<u64> {
        let word = u64::from_be_bytes(word.try_into().ok()?);
        Some(unmix(word).wrapping_sub(self.shift(domain)))
    }

    fn shift(&self, domain: Domain) -> u64 {
        Random::of(&[self.seed, domain as u64]).next()
    }
}

/// Returns the curve of a key by its hash, as tag and as step: nearly all are of the first one.
fn curve(address: &[u8; 20]) -> (u8, &'static str) {
    match address[19] {
        0..=4 => (1, "secp256k1"),
        5..=6 => (2, "p256"),
        _ => (0, "ed25519"),
    }
}

fn first_word(address: &[u8; 20]) -> u64 {
    address[..8].iter().fold(0, |word, &byte| word << 8 | u64::from(byte))
}

/// Appends a hash as steps: five of two digits, then the rest; a slash before each.
pub(super) fn push_chopped(path: &mut String, hash: &[u8]) {
    for &byte in &hash[..CHOPPED] {
        path.push('/');
        push_hex(path, &[byte]);
    }
    path.push('/');
    push_hex(path, &hash[CHOPPED..]);
}

/// Appends bytes as hexadecimal digits.
pub(super) fn push_hex(path: &mut String, bytes: &[u8]) {
    for byte in bytes {
        for digit in [byte >> 4, byte & 15] {
            path.push(char::from(b"0123456789abcdef"[usize::from(digit)]));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lead_back_to_numbers() {
        let names = Names::new(7);
        for account in [0, 1, 31_000, 2_000_000] {
            assert_eq!(names.account_of_hash(&names.key_hash(account)), Some(account));
            assert_eq!(names.account_of_key(&names.public_key(account)), Some(account));
        }
        assert_ne!(names.key_hash(1), Names::new(8).key_hash(1));
        assert_eq!(names.account_of_key(b"short"), None);
    }

    #[test]
    fn paths_have_the_steps_that_conversions_look_for() {
        let names = Names::new(1);
        let lengths = |path: &str| path.split('/').map(str::len).collect::<Vec<_>>();
        let ed25519 = (0..).find(|&account| names.key_hash(account)[0] == 0).unwrap();
        assert_eq!(lengths(&names.chopped(Contract::Implicit(ed25519))), [7, 2, 2, 2, 2, 2, 30]);
        assert_eq!(lengths(&names.chopped(Contract::Scripted(3))), [10, 2, 2, 2, 2, 2, 30]);
        assert_eq!(lengths(&names.indexed(Contract::Implicit(3))), [2, 2, 2, 2, 2, 2, 44]);
        assert_eq!(lengths(&names.indexed(Contract::Originated(3))), [2, 2, 2, 2, 2, 2, 44]);
        assert_eq!(lengths(&names.commitment(3)), [4, 11, 2, 2, 2, 2, 2, 30]);
        assert_eq!(lengths(&names.big_map(12)), [4, 8, 5, 2, 2, 2, 2, 2, 2, 2]);
    }
}
