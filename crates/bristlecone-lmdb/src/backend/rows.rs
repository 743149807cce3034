//! The bytes of keys and values. `docs/formats/lmdb.md` lists them.
//!
//! Every value begins with a checksum over the rest of it: LMDB has none.

use bristlecone::{Location, ObjRef, Object, Oid, RefMove, RefTarget, core::Record};
use twox_hash::XxHash3_64;

const CHECK_BYTES: usize = 8;

/// Names of refs up to this length are keys as they are.
const NAME_BYTES: usize = 478;
const DIGEST_BYTES: usize = 32;
/// The longest key that LMDB takes.
const KEY_BYTES_MAX: usize = 511;
const _: () = assert!(NAME_BYTES + 1 + DIGEST_BYTES == KEY_BYTES_MAX, "a long name's key is as long as can be");

const TARGET_OBJECT: u8 = 1;
const TARGET_SYMBOLIC: u8 = 2;

/// The key of [`State`] in the database `meta`.
pub(super) const STATE_KEY: &[u8] = b"state";
/// Bytes of a state: 40 = 8 check + 8 position + 8 sweeps + 8 appends + 8 transaction.
const STATE_BYTES: usize = CHECK_BYTES + 4 * 8;
/// No store counts so far; what is added to smaller numbers does not overflow.
const COUNT_END: u64 = 1 << 63;

/// Puts the checksum of a value in front of it, where there is room for it.
fn seal(value: &mut [u8]) {
    let check = XxHash3_64::oneshot(&value[CHECK_BYTES..]);
    value[..CHECK_BYTES].copy_from_slice(&check.to_le_bytes());
}

/// Returns what follows the checksum, if that is right.
fn open(value: &[u8]) -> Option<&[u8]> {
    let (check, rest) = value.split_first_chunk::<CHECK_BYTES>()?;
    (XxHash3_64::oneshot(rest) == u64::from_le_bytes(*check)).then_some(rest)
}

fn word(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let (word, rest) = bytes.split_first_chunk()?;
    Some((u64::from_le_bytes(*word), rest))
}

/// Writes the value of an object to `out`, which is cleared: 8 bytes check, 8 number of the append, the record.
pub(super) fn encode_object(out: &mut Vec<u8>, record: &[u8], append: u64) {
    out.clear();
    out.extend_from_slice(&[0; CHECK_BYTES]);
    out.extend_from_slice(&append.to_le_bytes());
    out.extend_from_slice(record);
    seal(out);
}

/// An object's value, checked.
pub(super) struct ObjectRow<'a> {
    /// The number of the append that wrote it last.
    pub(super) append: u64,
    pub(super) record: Record<'a>,
    /// The bytes of the record.
    pub(super) bytes: &'a [u8],
}

/// Returns an object's value, or what is wrong with it.
pub(super) fn decode_object<'a>(key: &[u8], value: &'a [u8]) -> Result<ObjectRow<'a>, &'static str> {
    let rest = open(value).ok_or("an object's bytes have another checksum")?;
    let (append, bytes) = word(rest).ok_or("an object's bytes end early")?;
    let record = Record::parse(bytes).map_err(|_| "an object's record is none")?;
    if record.oid != key || record.bytes() != bytes.len() as u64 {
        return Err("an object's record is that of another object");
    }
    Ok(ObjectRow { append, record, bytes })
}

impl ObjectRow<'_> {
    /// Returns the object, copied.
    pub(super) fn to_object(&self) -> Object<'static> {
        Object::from_record(&self.record, std::sync::Arc::<[u8]>::from(self.bytes).into(), Location::NONE)
    }
}

/// Returns the key of a ref: its name, or the beginning of it, a byte that no name has, and a digest of it. `None` for what
/// no ref is called.
pub(super) fn ref_key(name: &str) -> Option<Vec<u8>> {
    let bytes = name.as_bytes();
    if bytes.is_empty() || bytes.len() > RefMove::NAME_BYTES_MAX || bytes.contains(&0) {
        return None;
    }
    if bytes.len() <= NAME_BYTES {
        return Some(bytes.to_vec());
    }
    let mut key = bytes[..NAME_BYTES].to_vec();
    key.push(0);
    key.extend_from_slice(blake3::hash(bytes).as_bytes());
    Some(key)
}

/// Returns the first key that a ref can have whose name starts with `prefix`.
pub(super) fn ref_keys_from(prefix: &str) -> &[u8] {
    &prefix.as_bytes()[..prefix.len().min(NAME_BYTES)]
}

/// Returns the value of a ref.
pub(super) fn encode_ref(name: &str, target: &RefTarget) -> Vec<u8> {
    let mut out = vec![0; CHECK_BYTES];
    let (kind, target) = match target {
        RefTarget::Object(at) => (TARGET_OBJECT, at.oid.as_bytes()),
        RefTarget::Symbolic(other) => (TARGET_SYMBOLIC, other.as_bytes()),
    };
    out.push(kind);
    out.extend_from_slice(&(name.len() as u16).to_le_bytes());
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(target);
    seal(&mut out);
    out
}

/// Returns the name and the target in a ref's value; `None` if it is damaged.
pub(super) fn decode_ref(value: &[u8]) -> Option<(&str, RefTarget)> {
    let (kind, rest) = open(value)?.split_first()?;
    let (bytes, rest) = rest.split_first_chunk()?;
    let (name, target) = rest.split_at_checked(u16::from_le_bytes(*bytes).into())?;
    let target = match *kind {
        TARGET_OBJECT => RefTarget::Object(ObjRef::from(Oid::new(target).ok()?)),
        TARGET_SYMBOLIC => RefTarget::Symbolic(std::str::from_utf8(target).ok()?.to_owned()),
        _ => return None,
    };
    Some((std::str::from_utf8(name).ok()?, target))
}

/// What is counted, for all processes; written with every step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct State {
    /// The position of the last move of refs.
    pub(super) position: u64,
    /// How many sweeps have begun.
    pub(super) sweeps: u64,
    /// How many batches were appended.
    pub(super) appends: u64,
    /// The transaction of LMDB that wrote this.
    pub(super) txn: u64,
}

impl State {
    pub(super) fn encode(self) -> [u8; STATE_BYTES] {
        let mut out = [0; STATE_BYTES];
        let words = [self.position, self.sweeps, self.appends, self.txn];
        for (to, word) in out[CHECK_BYTES..].chunks_exact_mut(8).zip(words) {
            to.copy_from_slice(&word.to_le_bytes());
        }
        seal(&mut out);
        out
    }

    /// Decodes a state; `None` if it is damaged.
    pub(super) fn decode(value: &[u8]) -> Option<Self> {
        let (position, rest) = word(open(value)?)?;
        let (sweeps, rest) = word(rest)?;
        let (appends, rest) = word(rest)?;
        let (txn, rest) = word(rest)?;
        let is_sound = rest.is_empty() && position.max(sweeps).max(appends) < COUNT_END;
        is_sound.then_some(Self { position, sweeps, appends, txn })
    }
}

#[cfg(test)]
mod tests {
    use bristlecone::{Batch, Kind, Sink};

    use super::*;

    fn flips(value: &[u8], is_sound: impl Fn(&[u8]) -> bool) {
        assert!(is_sound(value));
        for bit in 0..value.len() * 8 {
            let mut flipped = value.to_vec();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert!(!is_sound(&flipped), "bit {bit}");
        }
        for cut in 0..value.len() {
            assert!(!is_sound(&value[..cut]), "cut at {cut}");
        }
    }

    #[test]
    fn objects_come_back_and_every_flip_is_found() {
        let oid = Oid::new(&[7; 20]).unwrap();
        let mut batch = Batch::new();
        batch.put(Kind::Contents, oid, b"some bytes", &[Location::NONE], &[5]);
        let mut value = Vec::new();
        encode_object(&mut value, batch.records().next().unwrap().bytes, 77);
        let row = decode_object(oid.as_bytes(), &value).ok().unwrap();
        assert_eq!((row.append, row.bytes), (77, batch.records().next().unwrap().bytes));
        let object = row.to_object();
        assert_eq!((object.body(), object.metadata_word(0)), (&b"some bytes"[..], Some(5)));
        flips(&value, |value| decode_object(oid.as_bytes(), value).is_ok());
        assert!(decode_object(&[8; 20], &value).is_err(), "another key");
    }

    #[test]
    fn refs_come_back_and_every_flip_is_found() {
        let object = RefTarget::Object(ObjRef::from(Oid::new(&[9; 32]).unwrap()));
        for target in [object, RefTarget::Symbolic("heads/main".to_owned())] {
            let value = encode_ref("a/é", &target);
            assert_eq!(decode_ref(&value), Some(("a/é", target)));
            flips(&value, |value| decode_ref(value).is_some());
        }
    }

    #[test]
    fn names_have_keys_of_their_own_in_the_order_of_prefixes() {
        let long = "l".repeat(RefMove::NAME_BYTES_MAX);
        let names = ["a", "a/b", &long[..NAME_BYTES], &long[..NAME_BYTES + 1], &long[..NAME_BYTES + 33], &long];
        let keys: Vec<Vec<u8>> = names.iter().map(|name| ref_key(name).unwrap()).collect();
        assert_eq!(keys.iter().collect::<std::collections::BTreeSet<_>>().len(), names.len());
        assert!(keys.iter().all(|key| key.len() <= KEY_BYTES_MAX));
        for (name, key) in names.iter().zip(&keys) {
            for bytes in 0..=name.len() {
                assert!(name.get(..bytes).is_none_or(|prefix| ref_keys_from(prefix) <= key.as_slice()));
            }
        }
        for name in ["", "a\0b", &"l".repeat(RefMove::NAME_BYTES_MAX + 1)] {
            assert_eq!(ref_key(name), None);
        }
    }

    #[test]
    fn states_come_back_and_every_flip_is_found() {
        let state = State { position: 1, sweeps: 2, appends: 3, txn: 4 };
        assert_eq!(State::decode(&state.encode()), Some(state));
        flips(&state.encode(), |value| State::decode(value).is_some());
        let last = State { position: COUNT_END - 1, sweeps: COUNT_END - 1, appends: COUNT_END - 1, txn: 4 };
        assert_eq!(State::decode(&last.encode()), Some(last));
        let beyond = [
            State { position: COUNT_END, ..state },
            State { sweeps: COUNT_END, ..state },
            State { appends: u64::MAX, ..state },
        ];
        beyond.iter().for_each(|state| assert_eq!(State::decode(&state.encode()), None, "{state:?}"));
    }
}
