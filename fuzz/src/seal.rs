//! Checksums of a store's files made right again, so that what was changed in them is met where it lies, and not before. The offsets
//! are those of `docs/formats/disk.md` and `docs/formats/history.md`.
//!
//! Files name one another by their checksums: a state its cold segments, the log its states and its tables of refs, indexes and
//! filters the seals of segments, the list of the graph its parts. So what is named is sealed before what names it.

use std::collections::{BTreeMap, HashMap};

use bristlecone_testkit::sim::SimStorage;
use twox_hash::XxHash3_64;

use crate::edits::write;

/// The salt of every store whose files were sealed: they do not depend on chance.
pub(crate) const SALT: u64 = 0x0123_4567_89ab_cdef;
const NONCE: u64 = 0x1122_3344_5566_7788;
/// What is added to the number of a cold segment.
const COLD: u64 = 1 << 30;
/// Entries in a full block of an index.
const BLOCK_ENTRIES: usize = 84;

/// The checksums by which sealed files are named. Those of files that are gone, which older ones still name, are 0.
#[derive(Default)]
struct Named {
    /// Of cold segments, states and tables of refs, by the numbers in their names.
    cold: HashMap<u64, u64>,
    states: HashMap<u64, u64>,
    tables: HashMap<u64, u64>,
    /// The last trailer of each segment, or the check of a cold one, by its whole number.
    ties: HashMap<u64, u64>,
    /// Of what is derived from the history.
    parts: HashMap<String, u64>,
}

/// Makes all checksums of a store's files right, as far as they have the parts that they are about.
pub(crate) fn seal(disk: &SimStorage) {
    let names = disk.files().into_iter().map(|(name, _)| name);
    let mut files: BTreeMap<String, Vec<u8>> =
        names.filter_map(|name| Some((name.clone(), disk.contents(&name)?))).collect();
    let mut named = Named::default();
    each(&mut files, "segments/", ".cold", &mut |number, bytes| cold(bytes, number, &mut named));
    each(&mut files, "segments/", ".state", &mut |number, bytes| state(bytes, number, &mut named));
    each(&mut files, "segments/", ".refs", &mut |number, bytes| table(bytes, number, &mut named));
    let mut before = 0;
    each(&mut files, "segments/", ".seg", &mut |number, bytes| {
        before = segment(bytes, number, before, &named);
        named.ties.insert(number, before);
    });
    each(&mut files, "segments/", ".ids", &mut |number, bytes| index(bytes, named.ties.get(&number)));
    each(&mut files, "segments/", ".cids", &mut |number, bytes| index(bytes, named.ties.get(&(COLD + number))));
    for (name, bytes) in &mut files {
        if name == "store" || name == "segments/store.copy" {
            header(bytes);
        } else if name == "segments/durable" {
            (0..2).for_each(|slot| with_check(bytes, slot * 512, 24, SALT));
        } else if name.ends_with("flt") {
            filter(bytes, &named);
        } else if name.starts_with("readers/") {
            with_check(bytes, 0, 16, SALT);
            with_check(bytes, 0, 32, SALT);
        } else if name.starts_with("derived/@unreached") {
            with_check(bytes, 0, 24, 0);
        } else if let Some(name) = name.strip_prefix("derived/") {
            derived(bytes, name, &mut named);
        }
    }
    // What names others of these is sealed after them.
    for name in ["graph", "history"] {
        if let Some(bytes) = files.get_mut(&format!("derived/{name}")) {
            derived(bytes, name, &mut named);
        }
    }
    for (name, bytes) in files {
        if disk.contents(&name).is_none_or(|found| found != bytes) {
            write(disk, &name, &bytes);
        }
    }
}

/// Calls `each` with the number and the bytes of each file whose name is a number of eight digits between these, in order.
fn each(files: &mut BTreeMap<String, Vec<u8>>, begin: &str, end: &str, each: &mut dyn FnMut(u64, &mut Vec<u8>)) {
    for (name, bytes) in files {
        let digits = name.strip_prefix(begin).and_then(|name| name.strip_suffix(end));
        if let Some(number) = digits.and_then(|digits| digits.parse().ok()) {
            each(number, bytes);
        }
    }
}

fn header(bytes: &mut [u8]) {
    put(bytes, 32, SALT);
    let (name, options) = (word32(bytes, 40) as usize, word32(bytes, 44) as usize);
    let end = 48_usize.saturating_add(name).saturating_add(options);
    if let Some(before) = bytes.get(..end) {
        let check = XxHash3_64::oneshot(before);
        put(bytes, end, check);
    }
}

fn cold(bytes: &mut [u8], number: u64, named: &mut Named) {
    if let Some(rows) = bytes.get_mut(64..) {
        records(rows);
        let sum = XxHash3_64::oneshot(rows);
        put(bytes, 32, sum);
        with_check(bytes, 0, 40, SALT);
    }
    named.cold.insert(number, word(bytes, 40));
    named.ties.insert(COLD + number, word(bytes, 40));
}

fn state(bytes: &mut [u8], number: u64, named: &mut Named) {
    if bytes.len() < 40 {
        return;
    }
    put(bytes, 24, bytes.len() as u64 - 40);
    let mut at = 40_usize;
    while at + 16 <= bytes.len() {
        let (tag, body) = (word32(bytes, at), word(bytes, at + 8) as usize);
        let end = (at + 16).saturating_add(body);
        if tag == 1 {
            for row in (at + 16..end.min(bytes.len())).step_by(32) {
                if let Some(&check) = named.cold.get(&word(bytes, row).wrapping_sub(COLD)) {
                    put(bytes, row + 24, check);
                }
            }
        }
        at = end.checked_next_multiple_of(8).unwrap_or(usize::MAX - 16);
    }
    let check = XxHash3_64::oneshot_with_seed(XxHash3_64::oneshot_with_seed(SALT, &bytes[..32]), &bytes[40..]);
    put(bytes, 32, check);
    named.states.insert(number, check);
}

fn table(bytes: &mut [u8], number: u64, named: &mut Named) {
    let (blocks, index_at) = (word32(bytes, 12) as usize, word(bytes, 24) as usize);
    for block in 0..blocks.min(bytes.len() / 24) {
        let entry = index_at.saturating_add(24 * block);
        let at = word(bytes, entry) as usize;
        let end = if block + 1 == blocks { index_at } else { word(bytes, entry.saturating_add(24)) as usize };
        if let Some(rows) = bytes.get(at..end) {
            let check = XxHash3_64::oneshot(rows);
            put(bytes, entry.saturating_add(8), check);
        }
    }
    if let Some(index) = bytes.get(index_at..) {
        let check = XxHash3_64::oneshot(index);
        put(bytes, 40, check);
    }
    put(bytes, 32, bytes.len() as u64);
    with_check(bytes, 0, 48, SALT);
    named.tables.insert(number, word(bytes, 48));
}

/// Seals the records, frames and head of a segment, which follows one that ends in a seal with the trailer `before`; returns its own
/// last trailer.
fn segment(bytes: &mut [u8], number: u64, before: u64, named: &Named) -> u64 {
    let newer = bytes.starts_with(b"BCONESG2");
    let head = if newer { 88 } else { 64 };
    if bytes.len() < head {
        return before;
    }
    put(bytes, 32, before);
    if newer {
        put(bytes, 64, named.states.get(&word(bytes, 56)).copied().unwrap_or(0));
        bytes[76..80].copy_from_slice(&(NONCE as u32).to_le_bytes());
    }
    let mut at = head.saturating_add(word(bytes, 48) as usize);
    let Some(refs) = bytes.get_mut(head..at) else { return before };
    rows_of_tables(refs, named);
    let mut trailer =
        XxHash3_64::oneshot_with_seed(XxHash3_64::oneshot_with_seed(SALT, &bytes[..head - 8]), &bytes[head..at]);
    put(bytes, head - 8, trailer);
    while bytes.get(at..at + 64).is_some_and(|head| head.starts_with(b"BCF1")) {
        let records_end = at + 64 + word32(bytes, at + 40) as usize;
        let end = records_end + word32(bytes, at + 44) as usize;
        if end + 8 > bytes.len() {
            break;
        }
        records(&mut bytes[at + 64..records_end]);
        if word32(bytes, at + 4) == 4 && end - records_end >= 16 {
            let check = named.states.get(&word(bytes, records_end)).copied().unwrap_or(0);
            put(bytes, records_end + 8, check);
        }
        put(bytes, at + 24, trailer);
        put(bytes, at + 32, NONCE);
        let of_records = XxHash3_64::oneshot(&bytes[at + 64..records_end]);
        put(bytes, at + 48, of_records);
        let location = number << 32 | at as u64;
        let check = XxHash3_64::oneshot_with_seed(SALT.wrapping_add(location), &bytes[at..at + 56]);
        put(bytes, at + 56, check);
        trailer = XxHash3_64::oneshot_with_seed(check, &bytes[records_end..end]);
        put(bytes, end, trailer);
        at = end + 8;
    }
    trailer
}

/// Names the tables in a head's rows by their checksums.
fn rows_of_tables(rows: &mut [u8], named: &Named) {
    let mut at = 0;
    while rows.get(at) == Some(&3) {
        let (name, target) = (word32(rows, at) as usize >> 16, word32(rows, at + 4) as usize & 0xffff);
        put(rows, at + 16 + name, named.tables.get(&word(rows, at + 8)).copied().unwrap_or(0));
        at += 16 + name + target;
    }
}

fn records(bytes: &mut [u8]) {
    let mut at = 0;
    while at + 48 <= bytes.len() {
        let words = u64::from(word32(bytes, at + 8)) + u64::from(bytes[at + 14]);
        let end = at as u64 + 48 + words * 8 + u64::from(word32(bytes, at + 4));
        if end > bytes.len() as u64 {
            return;
        }
        let check = XxHash3_64::oneshot(&bytes[at + 4..end as usize]) as u32;
        bytes[at..at + 4].copy_from_slice(&check.to_le_bytes());
        at = (end as usize).next_multiple_of(8);
    }
}

/// Seals an index of either layout, of a segment that ends with this trailer.
fn index(bytes: &mut [u8], tie: Option<&u64>) {
    if bytes.len() < 48 {
        return;
    }
    if let Some(&tie) = tie {
        put(bytes, 24, tie);
    }
    if !bytes.starts_with(b"BCONEID2") {
        let check = XxHash3_64::oneshot_with_seed(XxHash3_64::oneshot(&bytes[..40]), &bytes[48..]);
        return put(bytes, 40, check);
    }
    let count = (word(bytes, 16) as usize).min(bytes.len());
    let blocks_at = 48 + 8 * count.div_ceil(BLOCK_ENTRIES);
    let Some(fences) = bytes.get(48..blocks_at) else { return };
    let check = XxHash3_64::oneshot_with_seed(XxHash3_64::oneshot(&bytes[..40]), fences);
    put(bytes, 40, check);
    for (place, first) in (0..count).step_by(BLOCK_ENTRIES).enumerate() {
        let at = blocks_at + place * (8 + 12 * BLOCK_ENTRIES);
        let end = at + 8 + 12 * BLOCK_ENTRIES.min(count - first);
        if let Some(block) = bytes.get(at + 8..end) {
            let of_block = XxHash3_64::oneshot_with_seed(check.wrapping_add(place as u64), block);
            put(bytes, at, of_block);
        }
    }
}

fn filter(bytes: &mut [u8], named: &Named) {
    let (members, buckets) = (word32(bytes, 12) as usize, word(bytes, 24) as usize);
    let begins_at = members.saturating_mul(24).saturating_add(40);
    let begins_end = buckets.saturating_add(1).saturating_mul(4).saturating_add(begins_at);
    if bytes.len() < begins_end || buckets > bytes.len() {
        return;
    }
    for row in (40..begins_at).step_by(24) {
        if let Some(&tie) = named.ties.get(&u64::from(word32(bytes, row))) {
            put(bytes, row + 8, tie);
        }
    }
    let seed = XxHash3_64::oneshot_with_seed(XxHash3_64::oneshot(&bytes[..32]), &bytes[40..begins_at]);
    let check = XxHash3_64::oneshot_with_seed(seed, &bytes[begins_at..begins_end]);
    put(bytes, 32, check);
    for bucket in 0..buckets {
        let begin = |place: usize| word32(bytes, begins_at + 4 * place) as usize;
        let at = begins_end.saturating_add(8 * bucket).saturating_add(begin(bucket).saturating_mul(3));
        let end = begin(bucket + 1).saturating_sub(begin(bucket)).saturating_mul(3).saturating_add(at + 8);
        if let Some(entries) = bytes.get(at + 8..end) {
            let of_bucket = XxHash3_64::oneshot_with_seed(seed.wrapping_add(bucket as u64), entries);
            put(bytes, at, of_bucket);
        }
    }
}

/// Seals a derived file and, if it is one that walks over history read, what is in it.
fn derived(bytes: &mut [u8], name: &str, named: &mut Named) {
    let Some(contents) = bytes.get_mut(24..) else { return };
    if contents.len() >= 16 && (name.starts_with("graph") || name.starts_with("history")) {
        let (head, step) = match &contents[..8] {
            b"BCONEGL1" => (32, Some(24)),
            b"BCONEHS1" => (24, None),
            _ => (usize::MAX, None),
        };
        let (mut at, mut place) = (head, 0);
        while at < contents.len() {
            let (number, check_at) = if step.is_some() { (place, at) } else { (word32(contents, at), at + 24) };
            if let Some(&check) = named.parts.get(&format!("{name}-{number}")) {
                put(contents, check_at, check);
            }
            at += step.unwrap_or(104 + word32(contents, at + 36) as usize);
            place += 1;
        }
        let check = XxHash3_64::oneshot(&contents[16..]);
        put(contents, 8, check);
        named.parts.insert(name.to_owned(), check);
    }
    let (length, check) = (contents.len() as u64, XxHash3_64::oneshot(contents));
    put(bytes, 8, length);
    put(bytes, 16, check);
}

/// Puts the checksum of `count` bytes from `at` on behind them.
fn with_check(bytes: &mut [u8], at: usize, count: usize, seed: u64) {
    if let Some(checked) = bytes.get(at..at + count).filter(|checked| checked.iter().any(|&byte| byte != 0)) {
        let check = XxHash3_64::oneshot_with_seed(seed, checked);
        put(bytes, at + count, check);
    }
}

fn put(bytes: &mut [u8], at: usize, word: u64) {
    if let Some(place) = bytes.get_mut(at..at.saturating_add(8)) {
        place.copy_from_slice(&word.to_le_bytes());
    }
}

pub(crate) fn word(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..at.saturating_add(8)).map_or(0, |word| u64::from_le_bytes(word.try_into().expect("8 bytes")))
}

fn word32(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..at.saturating_add(4)).map_or(0, |word| u32::from_le_bytes(word.try_into().expect("4 bytes")))
}
