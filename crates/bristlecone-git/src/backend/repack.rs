//! Repacking: many small packs become one, with deltas.
//!
//! Packs are in classes by their size, each eight times the one below. When a class is full, all its packs and those of
//! the classes below become one, so that an object is written again a logarithmic number of times. Nothing is left out,
//! not even what no ref leads to: `git gc` drops that. Packs that say that they stay as they are do so, and so do packs
//! that an index over several packs lists. Where the repository says `extensions.preciousObjects`, all do, as with Git.
//!
//! What is not durable yet is repacked first, and is durable then: the journal goes on without its lines. Packs under
//! protection are left out: the pack that replaced them would have none, and no ref may lead to it.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::atomic::Ordering::*,
    thread,
    time::Duration,
};

use bristlecone::{Error, Result};

use super::{
    journal::{JournalLine, Value},
    multi_pack_index::ListedPacks,
    objects,
    open_repository::{OpenRepository, REPACK, Writer},
    pack_files::PACKS,
};
use crate::repository::pack::{self, RepackOptions};

/// Objects and bytes of a pack of the lowest class, at most.
const OBJECTS_MAX: u64 = 2000;
const BYTES_MAX: u64 = 1 << 20;
/// Packs with which a class above the lowest is full.
const CLASS_PACKS: usize = 8;
/// Packs that were written and not repacked from which on an append repacks itself.
const PACKS_MAX: u64 = 1000;
/// The pause between two packs that are removed, if a thread waits to append.
const PAUSE: Duration = Duration::from_micros(50);
/// Packs that are removed between two looks at what Git's indexes over several packs list.
const LISTED_EVERY: usize = 8;
/// With one of these beside it a pack stays as it is.
const STAYS: [&str; 4] = ["keep", "promisor", "bitmap", "mtimes"];

/// A pack that may be repacked.
#[derive(Debug)]
struct Small {
    name: String,
    class: u32,
    modified_ns: u64,
}

impl OpenRepository {
    /// Has packs repacked after an append, if there are many.
    pub(super) fn repack_soon(&self) {
        if !self.options.repack || self.options.loose || self.options.precious_objects {
            return;
        }
        let new_packs = self.counters.new_packs.load(Relaxed);
        if new_packs >= self.options.repack_min as u64 && (new_packs >= PACKS_MAX || !self.worker.ask(REPACK)) {
            self.repack_some();
        }
    }

    /// Whether a process that ends should repack: it wrote packs, and there are many.
    pub(super) fn wants_repack(&self) -> bool {
        let wrote = self.counters.new_packs.load(Relaxed) > 0;
        self.options.repack
            && !self.options.read_only
            && wrote
            && self.odb.pack_names().len() >= self.options.repack_min
    }

    /// Repacks if there are many packs. A failure is no error: the packs are as good as they were.
    pub(super) fn repack_some(&self) {
        let _ = self.with_repack_lock(|| {
            self.counters.new_packs.store(0, Relaxed);
            self.repack_unsynced(self.options.repack_min)?;
            let small = self.small_packs()?;
            let mut counts: BTreeMap<u32, usize> = BTreeMap::new();
            small.iter().for_each(|pack| *counts.entry(pack.class).or_default() += 1);
            let full = |(class, count): (&u32, &usize)| {
                let min = if *class == 0 { self.options.repack_min } else { CLASS_PACKS };
                (*count >= min).then_some(*class)
            };
            let Some(class) = counts.iter().filter_map(full).next_back() else { return Ok(()) };
            let names = small.into_iter().filter(|pack| pack.class <= class).map(|pack| pack.name).collect();
            self.repack_packs(names)
        });
    }

    /// Repacks all packs.
    pub(super) fn repack_all(&self) -> Result<()> {
        self.flush()?;
        self.with_repack_lock(|| {
            self.counters.new_packs.store(0, Relaxed);
            let names = self.small_packs()?.into_iter().map(|pack| pack.name).collect();
            self.repack_packs(names)
        })
    }

    /// Calls `work` unless another process repacks, or no pack may be removed.
    fn with_repack_lock(&self, work: impl FnOnce() -> Result<()>) -> Result<()> {
        if self.options.read_only {
            return Err(Error::ReadOnly);
        }
        if self.options.precious_objects {
            return Ok(());
        }
        match self.repack_lock.take() {
            Err(Error::Locked { .. }) => Ok(()),
            guard => guard.and_then(|_guard| work()),
        }
    }

    /// Returns the packs that may be repacked, the oldest first.
    fn small_packs(&self) -> Result<Vec<Small>> {
        let names: BTreeSet<String> = self.files.list(PACKS)?.into_iter().collect();
        let mut listed = ListedPacks::default();
        listed.refresh(&self.files)?;
        let unsynced = self.locked(|writer| Ok(packs_of(&writer.journal.now().lines)))?;
        let mut packs = Vec::new();
        for name in names.iter().filter_map(|name| name.strip_suffix(".idx")) {
            let stays = STAYS.iter().any(|ending| names.contains(&format!("{name}.{ending}")));
            if stays || listed.may_have(name) || unsynced.contains(name) || !names.contains(&format!("{name}.pack")) {
                continue;
            }
            let (Some(pack), Some(index)) =
                (self.files.stat(&format!("{PACKS}/{name}.pack"))?, self.files.stat(&format!("{PACKS}/{name}.idx"))?)
            else {
                continue;
            };
            // 1024: the fan-out. An id, a checksum and an offset each.
            let objects = index.bytes.saturating_sub(1024) / (self.options.algorithm.oid_bytes() as u64 + 8);
            let class = class(objects, OBJECTS_MAX).max(class(pack.bytes, BYTES_MAX));
            packs.push(Small { name: name.to_owned(), class, modified_ns: pack.modified_ns });
        }
        packs.sort_by(|one, other| (one.modified_ns, &one.name).cmp(&(other.modified_ns, &other.name)));
        Ok(packs)
    }

    /// Repacks packs that are durable, and removes them. One that is damaged stays, and the others do not wait for it.
    ///
    /// # Errors
    /// [`Error::Corrupt`] of the first that is damaged.
    fn repack_packs(&self, mut names: Vec<String>) -> Result<()> {
        let mut damage = None;
        let new = loop {
            match self.write_repacked(&names) {
                Err(Error::Corrupt { file, offset, oid, reason }) => {
                    let files = |name: &String| ["pack", "idx"].map(|ending| format!("{PACKS}/{name}.{ending}"));
                    let before = names.len();
                    names.retain(|name| files(name).iter().all(|own| self.files.describe(own) != file));
                    let error = damage.get_or_insert(Error::Corrupt { file, offset, oid, reason });
                    if names.len() == before || names.len() < 2 {
                        return Err(error.clone());
                    }
                }
                written => break written?,
            }
        };
        if let Some(new) = new {
            self.replace(&names, &new)?;
        }
        damage.map_or(Ok(()), Err)
    }

    /// Repacks the packs that are not durable, if there are at least `packs_min`, and takes them out of the journal.
    fn repack_unsynced(&self, packs_min: usize) -> Result<()> {
        let (number, mut lines) = self.locked(|writer| {
            let now = writer.journal.now();
            Ok((now.number, now.lines.clone()))
        })?;
        let (packs, whole) = self.unprotected_packs(&mut lines, packs_min)?;
        if packs.len() < packs_min {
            return Ok(());
        }
        // What another process wrote so is in no pack, and its moves need it.
        let loose = lines.iter().any(|line| matches!(line, JournalLine::Loose(_)));
        let Some(new) = self.write_repacked(&packs)? else { return Ok(()) };
        // In this order: what the journal does not name has to be durable or gone, should it be clean before this ends.
        let replaced = self.replace(&packs, &new)?;
        self.locked(|writer| {
            if !replaced || !whole || loose {
                return self.make_durable(writer);
            }
            if writer.journal.now().number == number {
                self.shorten_journal(writer, lines.len(), &packs)?;
                self.open_files.forget_packs(&packs);
            }
            Ok(())
        })
    }

    /// Returns the packs of lines of the journal that are not protected, and whether those are all packs of these lines.
    /// Where there are enough of them before the first one that is protected, the lines from there on are removed.
    fn unprotected_packs(&self, lines: &mut Vec<JournalLine>, packs_min: usize) -> Result<(Vec<String>, bool)> {
        let (mut seen, mut packs) = (BTreeSet::new(), Vec::new());
        // The line of the first protected pack, and how many others are before it.
        let mut protected = None;
        for (index, line) in lines.iter().enumerate() {
            let JournalLine::Pack(name) = line else { continue };
            if self.files.stat(&format!("{PACKS}/{name}.keep"))?.is_some() {
                // No ref may lead to its objects yet, and none would protect the pack that they came into.
                protected.get_or_insert((index, packs.len()));
                continue;
            }
            // Git may have packed everything anew meanwhile.
            if seen.insert(name.clone()) && self.files.stat(&format!("{PACKS}/{name}.idx"))?.is_some() {
                packs.push(name.clone());
            }
        }
        let Some((line, before)) = protected else { return Ok((packs, true)) };
        if before < packs_min {
            return Ok((packs, false));
        }
        packs.truncate(before);
        lines.truncate(line);
        Ok((packs, true))
    }

    /// Begins a generation of the journal without its first `lines` lines, whose packs are durable by now; none is of
    /// loose objects.
    fn shorten_journal(&self, writer: &mut Writer, lines: usize, packs: &[String]) -> Result<()> {
        let now = writer.journal.now();
        let (before, after) = now.lines.split_at(lines.min(now.lines.len()));
        let mut bases: HashMap<&String, &Value> = now.bases.iter().collect();
        for line in before {
            if let JournalLine::Move { name, to, .. } = line {
                bases.insert(name, to);
            }
        }
        // A ref that was made since, or made anew, may not be durable itself: where it is gone, it was lost, and no Git removed it.
        let removed = before.iter().filter_map(|line| match line {
            JournalLine::Move { name, to: None, .. } => Some(name),
            _ => None,
        });
        let absent = now.bases.iter().filter(|(_, base)| base.is_none()).map(|(name, _)| name);
        let mut kept: Vec<JournalLine> = Vec::new();
        for name in absent.chain(removed).collect::<BTreeSet<&String>>() {
            if let Some(to) = bases.insert(name, &None).filter(|to| to.is_some()) {
                kept.push(JournalLine::Move { name: name.clone(), from: None, to: to.clone() });
            }
        }
        let bases = bases.into_iter().map(|(name, value)| (name.clone(), value.clone())).collect();
        kept.extend_from_slice(after);
        let unsynced = packs_of(after);
        let mut known = objects::settled_packs(&self.files)?;
        known.retain(|name| !unsynced.contains(name) && !packs.contains(name));
        let loose = now.loose;
        self.poison.note(writer.journal.begin(known, bases, loose, kept))
    }

    /// Writes one pack with everything that these have, and returns its name; `None` if the worker is stopping.
    fn write_repacked(&self, names: &[String]) -> Result<Option<String>> {
        if names.is_empty() {
            return Ok(None);
        }
        let stop = || self.worker.is_stopping();
        let storage = self.files.storage();
        let repacked = pack::repack(storage, self.options.algorithm, names, &RepackOptions::default(), &stop)?;
        let Some(repacked) = repacked else { return Ok(None) };
        self.odb.add_pack_with(&repacked.name, repacked.index)?;
        Ok(Some(repacked.name))
    }

    /// Removes packs that another one replaced, one by one: an append meanwhile waits for one removal at most. Returns
    /// whether it removed all of them.
    fn replace(&self, names: &[String], new: &str) -> Result<bool> {
        let (mut listed, mut all) = (ListedPacks::default(), true);
        for (index, name) in names.iter().filter(|name| *name != new).enumerate() {
            self.locked(|_| {
                // A Git may have listed them since this began.
                if index % LISTED_EVERY == 0 {
                    listed.refresh(&self.files)?;
                }
                // The user protects it since.
                let kept = self.files.stat(&format!("{PACKS}/{name}.keep"))?.is_some();
                if kept || listed.may_have(name) {
                    all = false;
                    return Ok(());
                }
                self.odb.forget_pack(name);
                objects::unlink_pack_later(&self.refs, name)
            })?;
            // A thread that waits gets its turn: the lock is not a fair one.
            if self.waiting.load(Relaxed) > 0 {
                thread::sleep(PAUSE);
            }
        }
        // Without the lock: where discards are on, removing what has reached the disk takes milliseconds.
        for _ in 0..self.refs.trash_len() {
            self.refs.empty_trash(1)?;
        }
        Ok(all)
    }
}

/// Returns the names of the packs of lines.
fn packs_of(lines: &[JournalLine]) -> BTreeSet<String> {
    let pack = |line: &JournalLine| if let JournalLine::Pack(name) = line { Some(name.clone()) } else { None };
    lines.iter().filter_map(pack).collect()
}

/// Returns the class of something of this size: 0 up to `lowest`, then one more for each factor of eight.
fn class(size: u64, lowest: u64) -> u32 {
    let mut class = 0;
    let mut bound = lowest;
    while size > bound {
        class += 1;
        bound = bound.saturating_mul(8);
    }
    class
}
