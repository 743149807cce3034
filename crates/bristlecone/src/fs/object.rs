//! One object in one file: its body as it is, so that `cat` shows a value, and a trailer behind it. `docs/formats/fs.md` lists
//! the bytes.
//!
//! The id is the file's name. The checksum is seeded with it, so that a file under another name is noticed.

use bristlecone_core::{Bytes, Kind, Location, Object, Oid, Record, record_bytes, to_hex, write_record};
use twox_hash::XxHash3_64;

use super::files::{Files, OBJECTS};
use crate::Error;

const MAGIC: &[u8; 8] = b"bconeobj";
/// Bytes behind the metadata words: 32 = 8 body length + 1 kind + 1 metadata words + 6 since + 8 check + 8 magic.
const TRAILER_BYTES: usize = 32;
/// Where in the trailer the number of the list of refs is that was durable when the file was written, and its length.
const SINCE_AT: usize = 10;
const SINCE_BYTES: usize = 6;
const CHECK_BYTES: usize = 16;
/// A body has at most 2^32 - 1 bytes; 255 metadata words and the trailer follow.
const FILE_BYTES_MAX: u64 = u32::MAX as u64 + 255 * 8 + TRAILER_BYTES as u64;
/// The name of an id of one byte in its folder, which has the name of the id itself.
const REST_EMPTY: &str = "-";

/// Returns the folder of an object.
pub(super) fn folder_of(oid: &Oid) -> String {
    format!("{OBJECTS}/{}", to_hex(&oid.as_bytes()[..1]))
}

/// Returns the file of an object.
pub(super) fn path_of(oid: &Oid) -> String {
    let hex = to_hex(oid.as_bytes());
    let (folder, rest) = hex.split_at(2);
    format!("{OBJECTS}/{folder}/{}", if rest.is_empty() { REST_EMPTY } else { rest })
}

/// Returns the id of the object with this file in this folder, if an object can have it.
pub(super) fn oid_of(folder: &str, rest: &str) -> Option<Oid> {
    let rest = if rest == REST_EMPTY { "" } else { rest };
    let oid: Oid = format!("{folder}{rest}").parse().ok()?;
    // Digits in upper case would be another name of the same object.
    (folder.len() == 2 && to_hex(oid.as_bytes()) == format!("{folder}{rest}")).then_some(oid)
}

/// Writes the file of a batch's record to `out`, which is cleared. `since` is the number of the list of refs that is durable.
pub(super) fn encode(out: &mut Vec<u8>, oid: &Oid, record: &Record<'_>, bytes: &[u8], since: u64) {
    let (words_at, body_at) = (record.body_at() - usize::from(record.metadata_words) * 8, record.body_at());
    out.clear();
    out.extend_from_slice(&bytes[body_at..]);
    out.extend_from_slice(&bytes[words_at..body_at]);
    out.extend_from_slice(&u64::from(record.body_bytes).to_le_bytes());
    out.extend_from_slice(&[record.kind as u8, record.metadata_words]);
    // A number that does not fit stands for none, as in files of earlier versions.
    let since = if since >> (8 * SINCE_BYTES) == 0 { since } else { 0 };
    out.extend_from_slice(&since.to_le_bytes()[..SINCE_BYTES]);
    let check = check_of(out, oid);
    out.extend_from_slice(&check.to_le_bytes());
    out.extend_from_slice(MAGIC);
}

fn check_of(bytes: &[u8], oid: &Oid) -> u64 {
    XxHash3_64::oneshot_with_seed(XxHash3_64::oneshot(oid.as_bytes()), bytes)
}

/// What a file holds.
#[derive(Clone, Copy, Debug)]
struct Decoded<'a> {
    kind: Kind,
    since: u64,
    body: &'a [u8],
    words: &'a [u8],
}

/// Decodes the file of an object. An error says why these bytes are not one.
fn decode<'a>(bytes: &'a [u8], oid: &Oid) -> Result<Decoded<'a>, &'static str> {
    let Some(trailer_at) = bytes.len().checked_sub(TRAILER_BYTES) else { return Err("the file is cut short") };
    let (contents, trailer) = bytes.split_at(trailer_at);
    if !trailer.ends_with(MAGIC) {
        return Err("the file does not end as an object does");
    }
    let word = |at: usize| trailer[at..].first_chunk().map_or(0, |word| u64::from_le_bytes(*word));
    if check_of(&bytes[..bytes.len() - CHECK_BYTES], oid) != word(TRAILER_BYTES - CHECK_BYTES) {
        return Err("the checksum is not that of this object");
    }
    let Some(kind) = Kind::from_u8(trailer[8]) else { return Err("there is no such kind of object") };
    let words_bytes = usize::from(trailer[9]) * 8;
    if word(0).checked_add(words_bytes as u64) != Some(contents.len() as u64) {
        return Err("the lengths do not add up");
    }
    let (body, words) = contents.split_at(contents.len() - words_bytes);
    Ok(Decoded { kind, since: since_of(trailer), body, words })
}

fn since_of(trailer: &[u8]) -> u64 {
    let mut since = [0; 8];
    since[..SINCE_BYTES].copy_from_slice(&trailer[SINCE_AT..SINCE_AT + SINCE_BYTES]);
    u64::from_le_bytes(since)
}

impl Decoded<'_> {
    fn into_object(self, oid: &Oid) -> Object<'static> {
        if self.words.is_empty() {
            return Object::from_body(self.kind, Bytes::from(self.body.to_vec()));
        }
        let words: Vec<u64> = self.words.as_chunks().0.iter().map(|word| u64::from_le_bytes(*word)).collect();
        let mut record = Vec::new();
        write_record(&mut record, self.kind, oid, self.body, &[], &words);
        let Ok(bytes) = record_bytes(&record).map(|(_, bytes)| bytes.len()) else {
            unreachable!("a record that was written just now is sound")
        };
        record.truncate(bytes);
        let parsed = Record::parse(&record).expect("a record that was written just now is sound");
        let own = Bytes::from(record.clone());
        Object::from_record(&parsed, own, Location::NONE)
    }
}

/// A file that holds no object, and why.
#[derive(Clone, Debug)]
pub(super) struct DamagedObject {
    pub(super) name: String,
    pub(super) reason: &'static str,
}

impl DamagedObject {
    pub(super) fn into_error(self, files: &Files, oid: &Oid) -> Error {
        let file = files.describe(&self.name);
        Error::Corrupt { file, offset: 0, oid: Some(*oid), reason: self.reason.to_owned() }
    }
}

/// Reads an object; `None` if there is no file of it.
pub(super) fn read(files: &Files, oid: &Oid) -> Result<Option<Result<Object<'static>, DamagedObject>>, Error> {
    read_as(files, oid, |decoded, _| decoded.into_object(oid))
}

/// Reads the bytes of an object's file; `None` if there is none.
pub(super) fn read_file(files: &Files, oid: &Oid) -> Result<Option<Result<Vec<u8>, DamagedObject>>, Error> {
    read_as(files, oid, |_, bytes| bytes.to_vec())
}

/// Whether the file of an object is there and whole; `None` if it is absent.
pub(super) fn is_whole(files: &Files, oid: &Oid) -> Result<Option<bool>, Error> {
    Ok(read_as(files, oid, |_, _| ())?.map(|found| found.is_ok()))
}

/// What an object's file says of when it was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Written {
    /// While the list of refs with this number was the durable one.
    Since(u64),
    /// It does not say: an earlier version wrote it.
    Unknown,
    /// The file is torn or damaged.
    Torn,
}

impl Written {
    const fn of(since: u64) -> Self {
        if since == 0 { Self::Unknown } else { Self::Since(since) }
    }
}

/// Returns when the file of an object was written; `None` if it is absent. `all`: the whole file is looked at, not its end alone.
pub(super) fn written(files: &Files, oid: &Oid, all: bool) -> Result<Option<Written>, Error> {
    if all {
        let read = read_as(files, oid, |decoded, _| Written::of(decoded.since))?;
        return Ok(read.map(|found| found.unwrap_or(Written::Torn)));
    }
    let Some(trailer) = files.read_end::<TRAILER_BYTES>(&path_of(oid))? else { return Ok(None) };
    let trailer = trailer.filter(|bytes| bytes.ends_with(MAGIC));
    Ok(Some(trailer.map_or(Written::Torn, |bytes| Written::of(since_of(&bytes)))))
}

fn read_as<T>(
    files: &Files,
    oid: &Oid,
    make: impl Fn(Decoded<'_>, &[u8]) -> T,
) -> Result<Option<Result<T, DamagedObject>>, Error> {
    let name = path_of(oid);
    let read = files.read_with(&name, FILE_BYTES_MAX, |bytes, all| match decode(bytes, oid) {
        Ok(decoded) => Some(Ok(make(decoded, bytes))),
        Err(reason) => all.then(|| Err(DamagedObject { name: name.clone(), reason })),
    });
    match read {
        // The file is far too long.
        Err(Error::Corrupt { .. }) => Ok(Some(Err(DamagedObject { name, reason: "the file is too long" }))),
        read => read,
    }
}

#[cfg(test)]
mod tests {
    use bristlecone_core::Sink;

    use super::*;
    use crate::backend::Batch;

    const SINCE: u64 = 0x0123_4567_89ab;

    fn file(oid: &Oid, words: &[u64], body: &[u8]) -> Vec<u8> {
        let mut batch = Batch::new();
        batch.put(Kind::Node, *oid, body, &[Location(5), Location(9)], words);
        let mut out = Vec::new();
        for found in batch.records() {
            encode(&mut out, oid, &found.record, found.bytes, SINCE);
        }
        out
    }

    #[test]
    fn an_object_round_trips_and_every_flip_and_cut_is_found() {
        let oid = Oid::from_array([7; 32]);
        for words in [&[][..], &[1, u64::MAX]] {
            let bytes = file(&oid, words, b"a value");
            assert!(bytes.starts_with(b"a value"));
            assert_eq!(decode(&bytes, &oid).unwrap().since, SINCE);
            let object = decode(&bytes, &oid).unwrap().into_object(&oid);
            assert_eq!((object.kind(), object.body()), (Kind::Node, &b"a value"[..]));
            assert_eq!((0..).map_while(|index| object.metadata_word(index)).collect::<Vec<_>>(), words);
            for bit in 0..bytes.len() * 8 {
                let mut flipped = bytes.clone();
                flipped[bit / 8] ^= 1 << (bit % 8);
                assert!(decode(&flipped, &oid).is_err(), "bit {bit}");
            }
            for cut in 0..bytes.len() {
                assert!(decode(&bytes[..cut], &oid).is_err(), "cut at {cut}");
            }
            assert!(decode(&bytes, &Oid::from_array([8; 32])).is_err(), "under another name");
            assert!(decode(&bytes, &Oid::new(&[7; 31]).unwrap()).is_err(), "under a shorter name");
        }
    }

    #[test]
    fn every_id_has_one_name() {
        for length in 1..=32 {
            let oid = Oid::new(&vec![0xab; length]).unwrap();
            let path = path_of(&oid);
            let mut parts = path.split('/').skip(1);
            let (folder, rest) = (parts.next().unwrap(), parts.next().unwrap());
            assert_eq!(oid_of(folder, rest), Some(oid));
            assert_eq!(folder_of(&oid), "objects/ab");
        }
        for (folder, rest) in [("AB", "cd"), ("ab", "CD"), ("ab", ""), ("ab", "c"), ("abcd", "ef"), ("a", "bc")] {
            assert_eq!(oid_of(folder, rest).filter(|_| !rest.is_empty()), None, "{folder}/{rest}");
        }
    }
}
