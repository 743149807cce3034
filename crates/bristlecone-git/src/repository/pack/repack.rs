//! Repacking: one pack out of many.
//!
//! The objects of all packs are put in an order in which what is alike stands together: commits and tags by age, trees
//! and contents by size, in steps of about a tenth, and by age within a step. Then they are written one after another:
//!
//! - a delta of a source stays the delta it is, byte for byte, since its base comes along and is written before it;
//! - what is whole is tried as a delta against those written just before it (`repack/window.rs`);
//! - what finds no base is deflated, or copied if it is deflated already.
//!
//! The plan takes about 100 bytes of memory an object, the window what [`RepackOptions::window_bytes`] says; the pack
//! goes to its file as it is made.

use std::sync::Arc;

use bristlecone::core::git::Algorithm;
use bristlecone::storage::Storage;
use bristlecone::{Kind, Result};

use super::cache::BaseCache;
use super::open::OpenPacks;
use super::read::Pack;
use super::{Index, entry};
use crate::repository::zlib;
use plan::{EntrySource, PlannedObject, RepackPlan};
use window::DeltaWindow;
use write::PackWriter;
pub(crate) use write::REPACKED_PREFIX;

mod options;
mod plan;
mod window;
mod write;

pub use options::{RepackOptions, Repacked};

/// Where packs are.
const DIR: &str = "objects/pack";
/// Objects of fewer bytes are not tried as deltas: a delta and what leads to its base take as much.
const DELTA_BYTES_MIN: u64 = 50;
/// The same for commits and tags, of which most bytes are ids, times and a message: there is little to share.
const DELTA_BYTES_MIN_PROSE: u64 = 500;
/// How much of a large object is copied at a time.
const COPY_BYTES: u64 = 1 << 20;

/// Writes one pack with all objects of the packs `names` (`pack-…`, without ending, the oldest first) of the folder
/// `objects/pack`, and makes it durable under its name, the index last. The packs stay; removing them is the caller's.
///
/// Objects that several packs have are written once. Indexes are checked first, and every entry by its checksum, or by what it
/// inflates to, on the way. `stop` is asked now and then whether to give up, and `Ok(None)` comes of it.
///
/// # Errors
/// [`bristlecone::Error::Corrupt`] if a pack is damaged; those of the system. Nothing has appeared then.
pub fn repack(
    storage: &Arc<dyn Storage>,
    algorithm: Algorithm,
    names: &[String],
    options: &RepackOptions,
    stop: &dyn Fn() -> bool,
) -> Result<Option<Repacked>> {
    let mut packs = Vec::with_capacity(names.len());
    for (id, name) in names.iter().enumerate() {
        let index = Index::open(&**storage, &format!("{DIR}/{name}.idx"), algorithm)?;
        // An object is written under the id that stands there, and its pack then goes.
        index.check_digest()?;
        let pack = Pack::with_index(storage, DIR, name, algorithm, index, id as u32).entries_only();
        // Without checksums of entries, the whole is checked at once.
        if !pack.index().has_checksums() {
            pack.check()?;
        }
        packs.push(Arc::new(pack));
    }
    let open = OpenPacks::default();
    let Some(plan) = RepackPlan::new(&packs, &open, stop)? else { return Ok(None) };
    let writer = PackWriter::create(&**storage, DIR, algorithm, plan.records.len())?;
    let window = DeltaWindow::new(options);
    let cache = BaseCache::new(options.window_bytes as u64 / 2);
    let written = vec![Written::default(); plan.records.len()];
    let mut repack =
        Repack { packs: &packs, open, plan, options, writer, window, cache, written, deltas: 0, reused: 0 };
    match repack.run(stop) {
        Ok(true) => {}
        other => {
            repack.writer.discard();
            return other.map(|_| None);
        }
    }
    let (objects, deltas, reused) = (repack.written.len() as u64, repack.deltas, repack.reused);
    let done = repack.writer.finish()?;
    Ok(Some(Repacked { name: done.name, objects, deltas, reused, pack_bytes: done.pack_bytes, index: done.index }))
}

/// What became of an object.
#[derive(Clone, Copy, Default)]
struct Written {
    /// Where it is in the new pack; 0 before it is.
    offset: u64,
    /// How many deltas lead to something whole.
    depth: u32,
}

struct Repack<'a> {
    packs: &'a [Arc<Pack>],
    open: OpenPacks,
    plan: RepackPlan,
    options: &'a RepackOptions,
    writer: PackWriter<'a>,
    window: DeltaWindow,
    cache: BaseCache,
    written: Vec<Written>,
    deltas: u64,
    reused: u64,
}

impl Repack<'_> {
    /// Writes all objects; `false` if `stop` ended it.
    fn run(&mut self, stop: &dyn Fn() -> bool) -> Result<bool> {
        let order = std::mem::take(&mut self.plan.order);
        for (i, &number) in order.iter().enumerate() {
            if i % 64 == 0 && stop() {
                return Ok(false);
            }
            self.write_with_bases(number)?;
        }
        Ok(true)
    }

    /// Writes a record, and before it those that it is a delta against.
    fn write_with_bases(&mut self, number: u32) -> Result<()> {
        let mut chain = Vec::new();
        let mut at = number;
        while self.written[at as usize].offset == 0 {
            chain.push(at);
            let EntrySource::Delta(base) = self.plan.records[at as usize].source else { break };
            // The plan has made sure that this ends.
            at = base;
        }
        while let Some(number) = chain.pop() {
            self.write(number)?;
        }
        Ok(())
    }

    fn write(&mut self, number: u32) -> Result<()> {
        let record = self.plan.records[number as usize];
        let depth = match record.source {
            EntrySource::Delta(base) => {
                let base = self.written[base as usize];
                self.written[number as usize].offset = self.copy(&record, Some(base.offset))?;
                self.deltas += 1;
                base.depth + 1
            }
            EntrySource::Whole { .. } if record.size > self.options.window_bytes as u64 => {
                self.written[number as usize].offset = self.copy(&record, None)?;
                0
            }
            EntrySource::Whole { deflated } => {
                // What it is compared with is what stands before it: the window still has that.
                return self.write_whole(number, &record, deflated);
            }
        };
        self.written[number as usize].depth = depth;
        if self.worth_it(&record) {
            self.window.push(number, &record, depth, None);
        }
        Ok(())
    }

    /// Writes an object that no source has as a delta.
    fn write_whole(&mut self, number: u32, record: &PlannedObject, deflated: bool) -> Result<()> {
        let worth_it = self.worth_it(record);
        let tried = worth_it && self.window.has_candidates(record, &self.plan);
        // What is deflated and has nothing to be compared with need not be looked into.
        if deflated && !tried {
            self.written[number as usize] = Written { offset: self.copy(record, None)?, depth: 0 };
            if worth_it {
                self.window.push(number, record, 0, None);
            }
            return Ok(());
        }
        let mut raw = Vec::new();
        self.read(record, &mut raw)?;
        let found = if tried { self.find_base(record, &raw)? } else { None };
        let depth = match found {
            Some((base, delta)) => {
                let base = self.written[base as usize];
                let distance = self.writer.offset() - base.offset;
                let offset = self.writer.entry(self.oid(record), |out| {
                    entry::write_offset_delta(distance, delta.len() as u64, out);
                    zlib::deflate(&delta, self.options.level, out);
                })?;
                self.deltas += 1;
                self.written[number as usize].offset = offset;
                base.depth + 1
            }
            None if deflated => {
                self.written[number as usize].offset = self.copy(record, None)?;
                0
            }
            None => {
                let offset = self.writer.entry(self.oid(record), |out| {
                    entry::write_whole(record.kind, raw.len() as u64, out);
                    zlib::deflate(&raw, self.options.level, out);
                })?;
                self.written[number as usize].offset = offset;
                0
            }
        };
        self.written[number as usize].depth = depth;
        if worth_it {
            self.window.push(number, record, depth, Some(raw));
        }
        Ok(())
    }

    /// Whether an object is worth trying as a delta, and others against it.
    fn worth_it(&self, record: &PlannedObject) -> bool {
        let bytes_min = match record.kind {
            Kind::Commit | Kind::Tag => DELTA_BYTES_MIN_PROSE,
            _ => DELTA_BYTES_MIN,
        };
        self.options.window > 0 && (bytes_min..=self.options.window_bytes as u64).contains(&record.size)
    }

    fn find_base(&mut self, record: &PlannedObject, raw: &[u8]) -> Result<Option<(u32, Vec<u8>)>> {
        let (packs, open, plan, cache) = (self.packs, &self.open, &self.plan, &self.cache);
        let mut load = |number: u32| {
            let base = &plan.records[number as usize];
            let pack = &packs[base.pack as usize];
            let mut bytes = Vec::new();
            open.use_pack(pack);
            // It was written before, and its entries were checked then.
            pack.read_at(base.offset, cache, &mut bytes).map(|_| bytes)
        };
        self.window.find_base(record, raw, plan, &mut load)
    }

    /// Reads an object that is whole in its pack.
    fn read(&self, record: &PlannedObject, out: &mut Vec<u8>) -> Result<Kind> {
        let pack = &self.packs[record.pack as usize];
        self.open.use_pack(pack);
        pack.check_entry(record.n as usize, record.offset, record.end)?;
        let entry = pack.entry(record.offset)?;
        pack.inflate(&entry, out)?;
        Ok(record.kind)
    }

    /// Copies what an entry holds as it is, with a new head; `base`: where its base is now, if it is a delta.
    fn copy(&mut self, record: &PlannedObject, base: Option<u64>) -> Result<u64> {
        let pack = &self.packs[record.pack as usize];
        self.open.use_pack(pack);
        pack.check_entry(record.n as usize, record.offset, record.end)?;
        let source = pack.entry(record.offset)?;
        let distance = base.map(|base| self.writer.offset() - base);
        let offset = self.writer.begin(self.oid(record), |out| match distance {
            Some(distance) => entry::write_offset_delta(distance, source.size, out),
            None => entry::write_whole(record.kind, source.size, out),
        })?;
        let mut at = source.data_offset;
        while at < record.end {
            let end = record.end.min(at + COPY_BYTES);
            self.writer.append(|out| pack.copy(at, end, out))?;
            at = end;
        }
        self.writer.end();
        self.reused += 1;
        Ok(offset)
    }

    fn oid(&self, record: &PlannedObject) -> bristlecone::Oid {
        self.packs[record.pack as usize].index().oid(record.n as usize)
    }
}
