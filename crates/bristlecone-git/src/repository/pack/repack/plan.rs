//! What a repack writes: each object once, where it comes from, what it is a delta against, and the order of all.

use std::collections::HashMap;
use std::collections::hash_map::Entry::Vacant;
use std::sync::Arc;

use bristlecone::{Kind, Oid, Result};

use crate::repository::error;
use crate::repository::pack::entry::EntryKind;
use crate::repository::pack::open::OpenPacks;
use crate::repository::pack::read::Pack;

/// How many bytes of a tree are read for the name of its first entry.
const FRONT_BYTES: usize = 40;

/// An object and the entry that it is taken from.
#[derive(Clone, Copy, Debug)]
pub(super) struct PlannedObject {
    pub(super) pack: u32,
    /// Its place in the index of the pack.
    pub(super) n: u32,
    pub(super) kind: Kind,
    /// What trees of one folder have in common: a hash of the name of the first entry.
    pub(super) family: u32,
    /// Bytes of the object.
    pub(super) size: u64,
    /// Where the entry begins and ends in the pack.
    pub(super) offset: u64,
    pub(super) end: u64,
    pub(super) source: EntrySource,
    /// How long the longest chain is that ends with this object.
    pub(super) height: u32,
}

/// How the pack has the object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EntrySource {
    /// Whole; `deflated` and not merely stored.
    Whole { deflated: bool },
    /// As a delta against another record.
    Delta(u32),
}

#[derive(Debug)]
pub(super) struct RepackPlan {
    pub(super) records: Vec<PlannedObject>,
    /// Numbers of records in the order in which they are written, but for bases, which go before what needs them.
    pub(super) order: Vec<u32>,
    /// Of each pack, whether it has deltas: the program that wrote it looked for them.
    pub(super) compared: Vec<bool>,
}

/// What is known of an entry before bases are looked up.
struct EntryHead {
    kind: EntryKind,
    size: u64,
    deflated: bool,
    family: u32,
}

impl RepackPlan {
    /// Looks at the heads of all entries; `None` if `stop` ended it.
    pub(super) fn new(packs: &[Arc<Pack>], open: &OpenPacks, stop: &dyn Fn() -> bool) -> Result<Option<Self>> {
        let mut records: Vec<PlannedObject> = Vec::new();
        let mut numbers: HashMap<Oid, u32> = HashMap::new();
        // The largest pack first: its objects are all taken from it, and its deltas with them. A delta of another pack
        // then leads to this pack or one before it, so deltas never lead back, as long as they do not within one.
        let mut by_size: Vec<u32> = (0..packs.len() as u32).collect();
        by_size.sort_by_key(|&pack| std::cmp::Reverse(packs[pack as usize].index().len()));
        for number in by_size {
            if stop() {
                return Ok(None);
            }
            open.use_pack(&packs[number as usize]);
            add_pack(&packs[number as usize], number, &mut records, &mut numbers)?;
        }
        drop(numbers);
        let mut compared = vec![false; packs.len()];
        for record in &records {
            compared[record.pack as usize] |= matches!(record.source, EntrySource::Delta(_));
        }
        let mut plan = Self { records, order: Vec::new(), compared };
        plan.measure(packs)?;
        plan.sort();
        Ok(Some(plan))
    }

    /// Follows all deltas: finds kinds, and how long chains are.
    fn measure(&mut self, packs: &[Arc<Pack>]) -> Result<()> {
        // A record whose chain was followed has the kind of what is whole at its end.
        let mut done = vec![false; self.records.len()];
        let (mut chain, mut bases_first) = (Vec::new(), Vec::with_capacity(self.records.len()));
        for first in 0..self.records.len() as u32 {
            let mut at = first;
            while !done[at as usize] {
                chain.push(at);
                if chain.len() > self.records.len() {
                    let record = &self.records[first as usize];
                    let pack = &packs[record.pack as usize];
                    let oid = Some(pack.index().oid(record.n as usize));
                    return Err(error::corrupt(pack.describe(), record.offset, oid, "the deltas go in a circle"));
                }
                let EntrySource::Delta(base) = self.records[at as usize].source else { break };
                at = base;
            }
            while let Some(number) = chain.pop() {
                if let EntrySource::Delta(base) = self.records[number as usize].source {
                    let PlannedObject { kind, family, .. } = self.records[base as usize];
                    let record = &mut self.records[number as usize];
                    (record.kind, record.family) = (kind, family);
                }
                done[number as usize] = true;
                bases_first.push(number);
            }
        }
        // Going down again, bases learn how long the chains above them are, once all of these are known.
        for number in bases_first.into_iter().rev() {
            let PlannedObject { source, height, .. } = self.records[number as usize];
            if let EntrySource::Delta(base) = source {
                let base = &mut self.records[base as usize];
                base.height = base.height.max(height + 1);
            }
        }
        Ok(())
    }

    fn sort(&mut self) {
        self.order = (0..self.records.len() as u32).collect();
        let records = &self.records;
        self.order.sort_unstable_by_key(|&number| {
            let record = &records[number as usize];
            let (class, step) = match record.kind {
                Kind::Commit => (0, 0),
                Kind::Tag => (1, 0),
                Kind::Node => (2, size_step(record.size)),
                _ => (3, size_step(record.size)),
            };
            (class, step, record.family, record.pack, record.offset)
        });
    }
}

/// Returns the step that a size is in; each is about a tenth above the one before.
fn size_step(size: u64) -> u32 {
    // The highest bit, and the three after it: eight steps a doubling.
    let log = u64::BITS - size.leading_zeros();
    let next = if log > 3 { size >> (log - 4) & 7 } else { size & 7 };
    log << 3 | next as u32
}

fn add_pack(pack: &Pack, number: u32, records: &mut Vec<PlannedObject>, numbers: &mut HashMap<Oid, u32>) -> Result<()> {
    let order = pack.index().by_offset()?;
    let end_of_all = pack.entries_end()?;
    let first = records.len();
    let mut bases: Vec<EntryKind> = Vec::new();
    for (i, &(offset, n)) in order.iter().enumerate() {
        let oid = pack.index().oid(n as usize);
        let Vacant(place) = numbers.entry(oid) else { continue };
        place.insert(records.len() as u32);
        let end = order.get(i + 1).map_or(end_of_all, |next| next.0);
        let seen = look(pack, offset)?;
        let (kind, source) = match seen.kind {
            EntryKind::Whole(kind) => (kind, EntrySource::Whole { deflated: seen.deflated }),
            // Both become known with the base.
            _ => (Kind::Contents, EntrySource::Delta(u32::MAX)),
        };
        bases.push(seen.kind);
        let EntryHead { size, family, .. } = seen;
        records.push(PlannedObject { pack: number, n, kind, family, size, offset, end, source, height: 0 });
    }
    for (record, base) in records[first..].iter_mut().zip(bases) {
        let oid = match base {
            EntryKind::Whole(_) => continue,
            EntryKind::OidDelta(oid) => Some(oid),
            EntryKind::OffsetDelta(base) => {
                let place = order.binary_search_by_key(&base, |entry| entry.0);
                place.ok().map(|at| pack.index().oid(order[at].1 as usize))
            }
        };
        let Some(&base) = oid.and_then(|oid| numbers.get(&oid)) else {
            let own = Some(pack.index().oid(record.n as usize));
            return Err(error::corrupt(
                pack.describe(),
                record.offset,
                own,
                "the base of the delta is not in the pack",
            ));
        };
        record.source = EntrySource::Delta(base);
    }
    Ok(())
}

fn look(pack: &Pack, offset: u64) -> Result<EntryHead> {
    let entry = pack.entry(offset)?;
    let (size, family) = match entry.kind {
        EntryKind::Whole(Kind::Node) => (entry.size, family(&pack.front(&entry, FRONT_BYTES)?)),
        EntryKind::Whole(_) => (entry.size, 0),
        _ => (pack.size_made(&entry)?, 0),
    };
    Ok(EntryHead { kind: entry.kind, size, deflated: !pack.is_stored(&entry)?, family })
}

/// Returns a hash of the name of the first entry of a tree, or of what `front` has of it.
fn family(front: &[u8]) -> u32 {
    let name = front.split(|byte| *byte == b' ').nth(1).unwrap_or_default();
    crc32fast::hash(name.split(|byte| *byte == 0).next().unwrap_or_default())
}
