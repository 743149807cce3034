//! Checksums of a store's files made right again, so that what was changed in them is met where it lies, and not before. The offsets
//! are those of `docs/formats/disk.md`.

use bristlecone_testkit::sim::SimStorage;
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

use crate::edits::write;

/// The salt of every store whose files were sealed: they do not depend on chance.
const SALT: u64 = 0x0123_4567_89ab_cdef;
const NONCE: u64 = 0x1122_3344_5566_7788;

/// Makes all checksums of a store's files right, as far as they have the parts that they are about.
pub(crate) fn seal(disk: &SimStorage) {
    let mut trailers = Vec::new();
    let mut before = 0;
    for (name, _) in disk.files() {
        let Some(mut bytes) = disk.contents(&name) else { continue };
        if let Some(number) = segment_number(&name, "seg") {
            before = segment(&mut bytes, number, before);
            trailers.push((number, before));
        } else if name == "store" || name == "segments/store.copy" {
            header(&mut bytes);
        } else if name == "segments/durable" {
            (0..2).for_each(|slot| with_check(&mut bytes, slot * 512, 24, SALT));
        } else if name.starts_with("derived/@unreached") {
            with_check(&mut bytes, 0, 24, 0);
        } else if name.starts_with("derived/") {
            derived(&mut bytes);
        } else {
            continue;
        }
        write(disk, &name, &bytes);
    }
    for (number, trailer) in trailers {
        let name = format!("segments/{number:08}.ids");
        if let Some(mut bytes) = disk.contents(&name) {
            put(&mut bytes, 24, trailer);
            index(&mut bytes);
            write(disk, &name, &bytes);
        }
    }
}

fn segment_number(name: &str, ending: &str) -> Option<u32> {
    name.strip_prefix("segments/")?.strip_suffix(ending)?.strip_suffix('.')?.parse().ok()
}

fn header(bytes: &mut [u8]) {
    put(bytes, 32, SALT);
    let (name, options) = (word32(bytes, 40) as usize, word32(bytes, 44) as usize);
    let end = 48_usize.saturating_add(name).saturating_add(options);
    if let Some(before) = bytes.get(..end) {
        let check = xxh3_64(before);
        put(bytes, end, check);
    }
}

/// Seals the records, frames and head of a segment, which follows one that ends in a seal with the trailer `before`; returns its own
/// last trailer.
fn segment(bytes: &mut [u8], number: u32, before: u64) -> u64 {
    if bytes.len() < 64 {
        return before;
    }
    put(bytes, 32, before);
    let mut at = 64_usize.saturating_add(word(bytes, 48) as usize);
    let Some(refs) = bytes.get(64..at) else { return before };
    let mut trailer = xxh3_64_with_seed(refs, xxh3_64_with_seed(&bytes[..56], SALT));
    put(bytes, 56, trailer);
    while bytes.get(at..at + 64).is_some_and(|head| head.starts_with(b"BCF1")) {
        let records_end = at + 64 + word32(bytes, at + 40) as usize;
        let end = records_end + word32(bytes, at + 44) as usize;
        if end + 8 > bytes.len() {
            break;
        }
        records(&mut bytes[at + 64..records_end]);
        put(bytes, at + 24, trailer);
        put(bytes, at + 32, NONCE);
        let of_records = xxh3_64(&bytes[at + 64..records_end]);
        put(bytes, at + 48, of_records);
        let location = u64::from(number) << 32 | at as u64;
        let check = xxh3_64_with_seed(&bytes[at..at + 56], SALT.wrapping_add(location));
        put(bytes, at + 56, check);
        trailer = xxh3_64_with_seed(&bytes[records_end..end], check);
        put(bytes, end, trailer);
        at = end + 8;
    }
    trailer
}

fn records(bytes: &mut [u8]) {
    let mut at = 0;
    while at + 48 <= bytes.len() {
        let words = u64::from(word32(bytes, at + 8)) + u64::from(bytes[at + 14]);
        let end = at as u64 + 48 + words * 8 + u64::from(word32(bytes, at + 4));
        if end > bytes.len() as u64 {
            return;
        }
        let check = xxh3_64(&bytes[at + 4..end as usize]) as u32;
        bytes[at..at + 4].copy_from_slice(&check.to_le_bytes());
        at = (end as usize).next_multiple_of(8);
    }
}

fn index(bytes: &mut [u8]) {
    if bytes.len() >= 48 {
        let check = xxh3_64_with_seed(&bytes[48..], xxh3_64(&bytes[..40]));
        put(bytes, 40, check);
    }
}

fn derived(bytes: &mut [u8]) {
    if bytes.len() >= 24 {
        let check = xxh3_64(&bytes[24..]);
        put(bytes, 16, check);
    }
}

/// Puts the checksum of `count` bytes from `at` on behind them.
fn with_check(bytes: &mut [u8], at: usize, count: usize, seed: u64) {
    if let Some(checked) = bytes.get(at..at + count).filter(|checked| checked.iter().any(|&byte| byte != 0)) {
        let check = xxh3_64_with_seed(checked, seed);
        put(bytes, at + count, check);
    }
}

fn put(bytes: &mut [u8], at: usize, word: u64) {
    if let Some(place) = bytes.get_mut(at..at.saturating_add(8)) {
        place.copy_from_slice(&word.to_le_bytes());
    }
}

fn word(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..at.saturating_add(8)).map_or(0, |word| u64::from_le_bytes(word.try_into().expect("8 bytes")))
}

fn word32(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..at.saturating_add(4)).map_or(0, |word| u32::from_le_bytes(word.try_into().expect("4 bytes")))
}
