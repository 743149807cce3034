//! The bytes of the keyspace `refs`: refs, the state of the store, and marks of sweeps. `docs/formats/lsm.md` lists them.
//!
//! Every value begins with a checksum over its key and the rest, since the database cuts a damaged journal silently and
//! a value must not be taken for that of another key.

use bristlecone::{Location, ObjRef, Oid, RefTarget};
use std::hash::Hasher;

use twox_hash::XxHash3_64;

use super::page::PAGE_BITS;

/// The key of the state.
pub(super) const STATE: &[u8] = b"s";
/// The key of the page before which everything is in the index.
pub(super) const INDEXED: &[u8] = b"i";
/// Keys of refs begin so, and go on with the name.
const REF: u8 = b'r';
/// Keys of pages that a sweep has still to clean begin so, and go on with the number.
const UNCLEAN: u8 = b'u';

const CHECK_BYTES: usize = 8;
const OBJECT: u8 = 0;
const SYMBOLIC: u8 = 1;
/// No store counts so far, and addresses have 63 bits; what is added to smaller numbers does not overflow.
const NUMBER_END: u64 = 1 << 63;

/// What is known of the whole store. It changes with every append.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct State {
    /// The position of the last move of a ref.
    pub(super) position: u64,
    /// The page on which the next batch begins.
    pub(super) end: u64,
    /// Bytes of all pages.
    pub(super) bytes: u64,
    /// What all refs come to, one [`checksum_of`] added to the other.
    pub(super) refs_sum: u64,
}

/// What a key and its value stand for.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Decoded {
    /// An earlier version wrote no sum of the refs.
    State {
        state: State,
        has_sum: bool,
    },
    /// Pages before this one are in the index.
    Indexed(u64),
    Ref(String, RefTarget),
    /// A page with records that a sweep dropped.
    Unclean(u64),
}

fn sealed(key: &[u8], body: &[u8]) -> Vec<u8> {
    let mut value = check(key, body).to_vec();
    value.extend_from_slice(body);
    value
}

fn check(key: &[u8], body: &[u8]) -> [u8; CHECK_BYTES] {
    let mut hash = XxHash3_64::new();
    hash.write(key);
    hash.write(body);
    hash.finish().to_le_bytes()
}

impl State {
    pub(super) fn encode(&self) -> Vec<u8> {
        sealed(STATE, &[self.position, self.end, self.bytes, self.refs_sum].map(u64::to_le_bytes).concat())
    }

    /// Takes a move of a ref into the sum.
    pub(super) fn sum_move(&mut self, name: &str, before: Option<&RefTarget>, after: Option<&RefTarget>) {
        let key = ref_key(name);
        let sum = |target: Option<&RefTarget>| target.map_or(0, |target| checksum_of(&encode_target(&key, target)));
        self.refs_sum = self.refs_sum.wrapping_sub(sum(before)).wrapping_add(sum(after));
    }
}

/// Returns the value that says which pages are in the index.
pub(super) fn encode_indexed(end: u64) -> Vec<u8> {
    sealed(INDEXED, &end.to_le_bytes())
}

/// Returns the key of a ref.
pub(super) fn ref_key(name: &str) -> Vec<u8> {
    [&[REF], name.as_bytes()].concat()
}

/// Returns the value of a ref under its key.
pub(super) fn encode_target(key: &[u8], target: &RefTarget) -> Vec<u8> {
    match target {
        RefTarget::Object(at) => sealed(key, &[&[OBJECT], &at.at.0.to_le_bytes()[..], at.oid.as_bytes()].concat()),
        RefTarget::Symbolic(name) => sealed(key, &[&[SYMBOLIC], name.as_bytes()].concat()),
    }
}

/// Returns the checksum with which a value begins: over its key, too.
pub(super) fn checksum_of(value: &[u8]) -> u64 {
    value.first_chunk().map_or(0, |check| u64::from_le_bytes(*check))
}

/// Returns the key that marks a page as unclean.
pub(super) fn unclean_key(page: u64) -> [u8; 9] {
    let mut key = [UNCLEAN; 9];
    key[1..].copy_from_slice(&page.to_be_bytes());
    key
}

/// Returns the value of a mark.
pub(super) fn encode_unclean(key: &[u8]) -> Vec<u8> {
    sealed(key, &[])
}

/// Decodes a key with its value. `None` if they were not written so.
pub(super) fn decode(key: &[u8], value: &[u8]) -> Option<Decoded> {
    let (found, body) = value.split_at_checked(CHECK_BYTES)?;
    if found != check(key, body) {
        return None;
    }
    match (key, key.split_first()?) {
        (STATE, _) => {
            let (words, []) = body.as_chunks() else { return None };
            let (&[position, end, bytes], rest) = words.split_first_chunk()?;
            let (refs_sum, has_sum) = match rest {
                [] => ([0; 8], false),
                [sum] => (*sum, true),
                _ => return None,
            };
            let [position, end, bytes, refs_sum] = [position, end, bytes, refs_sum].map(u64::from_le_bytes);
            if position.max(bytes) >= NUMBER_END || end >= NUMBER_END >> PAGE_BITS {
                return None;
            }
            Some(Decoded::State { state: State { position, end, bytes, refs_sum }, has_sum })
        }
        (INDEXED, _) => Some(Decoded::Indexed(u64::from_le_bytes(body.try_into().ok()?))),
        (_, (&UNCLEAN, page)) => Some(Decoded::Unclean(u64::from_be_bytes(page.try_into().ok()?))),
        (_, (&REF, name)) => {
            let name = String::from_utf8(name.to_vec()).ok()?;
            Some(Decoded::Ref(name, decode_target(body)?))
        }
        _ => None,
    }
}

fn decode_target(body: &[u8]) -> Option<RefTarget> {
    match body.split_first()? {
        (&OBJECT, rest) => {
            let (at, oid) = rest.split_first_chunk()?;
            Some(RefTarget::Object(ObjRef::new(Oid::new(oid).ok()?, Location(u64::from_le_bytes(*at)))))
        }
        (&SYMBOLIC, name) => Some(RefTarget::Symbolic(String::from_utf8(name.to_vec()).ok()?)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_round_trips_and_every_flip_is_found() {
        let state = State { position: 7, end: 99, bytes: 1 << 40, refs_sum: u64::MAX - 3 };
        let object = RefTarget::Object(ObjRef::new(Oid::from_array([3; 32]), Location(77)));
        let symbolic = RefTarget::Symbolic("main".to_owned());
        let (one, other, mark) = (ref_key("heads/a"), ref_key("HEAD"), unclean_key(5));
        let all = [
            (STATE, state.encode(), Decoded::State { state, has_sum: true }),
            (
                STATE,
                sealed(STATE, &[7, 99, 1 << 40].map(u64::to_le_bytes).concat()),
                Decoded::State { state: State { refs_sum: 0, ..state }, has_sum: false },
            ),
            (INDEXED, encode_indexed(12), Decoded::Indexed(12)),
            (&one, encode_target(&one, &object), Decoded::Ref("heads/a".to_owned(), object)),
            (&other, encode_target(&other, &symbolic), Decoded::Ref("HEAD".to_owned(), symbolic)),
            (&mark, encode_unclean(&mark), Decoded::Unclean(5)),
        ];
        for (key, value, decoded) in &all {
            assert_eq!(decode(key, value).as_ref(), Some(decoded));
            for bit in 0..value.len() * 8 {
                let mut flipped = value.clone();
                flipped[bit / 8] ^= 1 << (bit % 8);
                assert_eq!(decode(key, &flipped), None, "bit {bit} of {decoded:?}");
            }
            for cut in 0..value.len() {
                assert_eq!(decode(key, &value[..cut]), None);
            }
            assert_eq!(decode(b"rx", value), None, "the value of another key");
        }
        for words in [0, 1, 2, 5] {
            assert_eq!(decode(STATE, &sealed(STATE, &vec![0; 8 * words])), None);
        }
        let beyond = [
            State { position: NUMBER_END, ..state },
            State { end: NUMBER_END >> PAGE_BITS, ..state },
            State { bytes: u64::MAX, ..state },
        ];
        beyond.iter().for_each(|state| assert_eq!(decode(STATE, &state.encode()), None, "{state:?}"));
    }

    #[test]
    fn the_sum_follows_the_refs_whatever_way_they_came() {
        let target = |byte| RefTarget::Object(ObjRef::new(Oid::from_array([byte; 32]), Location(u64::from(byte))));
        let (one, two) = (target(1), target(2));
        let mut state = State::default();
        state.sum_move("a", None, Some(&one));
        state.sum_move("b", None, Some(&one));
        state.sum_move("a", Some(&one), Some(&two));
        let row = |name: &str, target| checksum_of(&encode_target(&ref_key(name), target));
        assert_eq!(state.refs_sum, row("a", &two).wrapping_add(row("b", &one)));
        state.sum_move("b", Some(&one), None);
        state.sum_move("a", Some(&two), None);
        assert_eq!(state.refs_sum, 0);
    }
}
