//! Sweeping files: what nothing leads to is listed, and then removed.
//!
//! It removes some thousand objects in a step, and others go first between two steps: what they lead to by then stays. No object is
//! removed before those that name it. A step is done wholly or not at all: its list is durable before the first file goes, and the refs
//! say that a sweep is under way. Whoever writes next after a process that was stopped, or a power cut, removes the rest of the list
//! first. So no object ever stays without what is below it.

use std::{collections::BTreeSet, fmt::Write as _, mem, sync::Arc, thread, time::Duration, vec};

use bristlecone_core::Oid;
use xxhash_rust::xxh3::xxh3_64;

use super::{
    durable::object_ids,
    object,
    state::{FsSnapshot, FsState, KnownRefs, Writer},
};
use crate::{
    Error,
    backend::{Reached, RefTarget, Roots, SweepLimits, Swept},
    sync::{lock, read_lock, write_lock},
};

/// The list of what a sweep removes.
const SWEEP: &str = "sweep";
/// No list is longer: it would be of a hundred million objects.
const SWEEP_BYTES_MAX: u64 = 1 << 33;

/// One step looks at this many objects at most.
const STEP_OBJECTS: usize = 4096;
/// How long the lock is free between two steps: who waits for it looks each millisecond.
const STEP_PAUSE: Duration = Duration::from_millis(2);

/// Rounds beside appends. What so few objects bring during one waits until appends do.
const ROUNDS_MAX: usize = 24;
const ROUND_OBJECTS: usize = 1 << 10;

/// What was marked beside appends.
struct Marked {
    /// What is appended from place `first` on it keeps.
    reader: FsSnapshot,
    first: u64,
    reached: Reached,
    /// What was appended from this place on was not looked at.
    seen: u64,
    /// Objects that were there and not reached.
    unreached: Vec<Oid>,
}

/// What is to be removed.
struct Chosen {
    marked: Marked,
    /// What is left of it with the bytes of each, no object before those that name it.
    rest: vec::IntoIter<(Oid, u64)>,
    /// What was removed, once nothing is left.
    swept: Swept,
}

impl FsState {
    /// Drops what nothing leads to. It marks beside appends; no thread appends or moves a ref while it chooses what goes, nor takes a
    /// snapshot while it removes some of that. Reading goes on.
    pub(super) fn sweep(self: &Arc<Self>, roots: &Roots<'_>, limits: &SweepLimits) -> Result<Swept, Error> {
        self.lock.refuse_child()?;
        let _one = lock(&self.sweeping);
        let reader = self.locked(|writer| {
            self.refuse_others()?;
            self.make_durable(writer, None)?;
            Ok(self.reader())
        })?;
        let marked = self.mark(reader, roots)?;
        let mut chosen = self.locked(|writer| {
            let mut chosen = self.choose(writer, marked, roots, limits)?;
            if !limits.dry_run {
                self.step(writer, &mut chosen, roots)?;
            }
            Ok(chosen)
        })?;
        while !limits.dry_run && !chosen.rest.as_slice().is_empty() {
            thread::sleep(STEP_PAUSE);
            match self.locked(|writer| self.go_on(writer, &mut chosen, roots)) {
                Ok(true) => {}
                // Another process has come, or holds the lock: what is left is for the next sweep.
                Ok(false) | Err(Error::Locked { .. }) => {
                    chosen.swept.more = true;
                    let Chosen { rest, swept, .. } = &mut chosen;
                    rest.for_each(|(_, bytes)| leave(bytes, swept));
                }
                Err(error) => return Err(error),
            }
        }
        Ok(chosen.swept)
    }

    /// Returns a snapshot, and the place of what is appended next. The caller holds the store's lock.
    fn reader(self: &Arc<Self>) -> (FsSnapshot, u64) {
        let next = read_lock(&self.known).next;
        (self.snapshot(&[]), next)
    }

    /// Marks what is reached, and lists what is not.
    fn mark(&self, (reader, first): (FsSnapshot, u64), roots: &Roots<'_>) -> Result<Marked, Error> {
        let (mut reached, mut seen) = (Reached::default(), 0);
        for round in 0..ROUNDS_MAX {
            let (young, next) = self.young(seen);
            if round > 0 && young.len() < ROUND_OBJECTS {
                break;
            }
            seen = next;
            // Appends do not wait for the refs meanwhile.
            let from = self.refs_and_pins(&read_lock(&self.refs));
            let from = young.into_iter().chain(from).chain(roots.oids.iter().copied());
            reached.reach(roots, |oid| self.read(oid), from)?;
        }
        let unreached = object_ids(&self.files)?.filter(|oid| !reached.contains(oid)).collect();
        Ok(Marked { reader, first, reached, seen, unreached })
    }

    /// Chooses what goes: what was not reached by now.
    fn choose(
        self: &Arc<Self>,
        writer: &mut Writer,
        mut marked: Marked,
        roots: &Roots<'_>,
        limits: &SweepLimits,
    ) -> Result<Chosen, Error> {
        if marked.first < read_lock(&self.known).foreign {
            // Another process had the store meanwhile. What it appended was not looked at.
            drop(marked);
            self.refuse_others()?;
            marked = self.mark(self.reader(), roots)?;
        }
        self.refuse_others()?;
        self.make_durable(writer, None)?;
        self.mark_rest(&mut marked, roots)?;
        let unreached = mem::take(&mut marked.unreached);
        let dead: Vec<Oid> = unreached.into_iter().filter(|oid| !marked.reached.contains(oid)).collect();
        let (chosen, swept) = roots.choose(&marked.reader, &dead, limits)?;
        Ok(Chosen { marked, rest: chosen.into_iter(), swept })
    }

    /// Marks what came since it was last looked, and what refs and snapshots lead to now. The caller holds the store's lock.
    fn mark_rest(&self, marked: &mut Marked, roots: &Roots<'_>) -> Result<(), Error> {
        let (young, next) = self.young(marked.seen);
        marked.seen = next;
        let from = self.refs_and_pins(&read_lock(&self.refs));
        let from = from.into_iter().chain(young).chain(marked.reached.take_absent());
        marked.reached.reach(&roots.unwatched(), |oid| self.read(oid), from)
    }

    /// Goes on with a sweep that let others go first; returns `false` if one of them was another process.
    fn go_on(&self, writer: &mut Writer, chosen: &mut Chosen, roots: &Roots<'_>) -> Result<bool, Error> {
        match self.refuse_others() {
            // It has the store open, or wrote since the sweep took its snapshot.
            Err(Error::Locked { .. } | Error::Usage { .. }) => return Ok(false),
            alone => alone?,
        }
        self.make_durable(writer, None)?;
        self.step(writer, chosen, roots).map(|()| true)
    }

    /// Removes some of what was chosen, unless something leads to it by now. The caller holds the store's lock, and everything is
    /// durable.
    fn step(&self, writer: &mut Writer, chosen: &mut Chosen, roots: &Roots<'_>) -> Result<(), Error> {
        self.mark_rest(&mut chosen.marked, roots)?;
        // From here on no snapshot is taken.
        let mut refs = write_lock(&self.refs);
        let reached = &mut chosen.marked.reached;
        reached.reach(&roots.unwatched(), |oid| self.read(oid), self.pins.roots())?;
        let mut dead = Vec::new();
        for (oid, bytes) in chosen.rest.by_ref().take(STEP_OBJECTS) {
            if reached.contains(&oid) {
                leave(bytes, &mut chosen.swept);
            } else {
                dead.push(oid);
            }
        }
        if dead.is_empty() {
            return Ok(());
        }
        self.write_list(&dead)?;
        writer.unsynced.add(&[], false, true)?;
        let mut table = refs.table.clone();
        (table.sweeps, table.sweeping) = (table.sweeps + 1, true);
        self.write_known_refs(&mut refs, table, true)?;
        self.remove_listed(&mut refs, &dead)?;
        writer.unsynced.clear()
    }

    /// Fails if another process has the store open, or wrote since a snapshot was taken that is held: what snapshots keep is then not
    /// known here. The caller holds the store's lock.
    fn refuse_others(&self) -> Result<(), Error> {
        if let Some(session) = &self.session
            && let Some((file, holder)) = session.other(&self.files)?
        {
            return Err(Error::Locked { file, holder, waited_ms: 0 });
        }
        self.refuse_older()
    }

    /// Returns what refs lead to, and what snapshots hold.
    fn refs_and_pins(&self, refs: &KnownRefs) -> Vec<Oid> {
        let mut from = self.pins.roots();
        from.extend(refs.table.by_name.values().filter_map(|target| match target {
            RefTarget::Object(at) => Some(at.oid),
            RefTarget::Symbolic(_) => None,
        }));
        from
    }

    /// Fails if a snapshot is held that another process may have appended after: what it keeps of that is not known here.
    fn refuse_older(&self) -> Result<(), Error> {
        let foreign = read_lock(&self.known).foreign;
        match self.pins.appended() {
            Some(first) if first < foreign => {
                let reason = "a snapshot is held that is older than what another process wrote; drop it or refresh it, \
                              and sweep again";
                Err(Error::Usage { reason })
            }
            _ => Ok(()),
        }
    }

    /// Returns the objects that were appended since the oldest snapshot was taken, from place `seen` on, and the place behind them.
    fn young(&self, seen: u64) -> (Vec<Oid>, u64) {
        let known = read_lock(&self.known);
        let Some(first) = self.pins.appended() else { return (Vec::new(), known.next) };
        let first = first.max(seen);
        (known.places.iter().filter(|(_, place)| **place >= first).map(|(oid, _)| *oid).collect(), known.next)
    }

    fn write_list(&self, dead: &[Oid]) -> Result<(), Error> {
        let mut text = String::new();
        dead.iter().for_each(|oid| _ = writeln!(text, "{oid}"));
        let check = xxh3_64(text.as_bytes());
        let _ = writeln!(text, "check {check:016x}");
        let file = self.files.write_new(SWEEP, text.as_bytes())?;
        self.poisons(self.files.sync(SWEEP, &*file))?;
        self.sync_folder("")
    }

    /// Ends a sweep of a process that was stopped. The caller holds the store's lock.
    pub(super) fn end_sweep(&self, writer: &mut Writer) -> Result<(), Error> {
        let corrupt = |reason: &str| {
            let reason =
                format!("{reason}, and the sweep that wrote the list has not ended; put the store back from a backup");
            Error::Corrupt { file: self.files.describe(SWEEP), offset: 0, oid: None, reason }
        };
        let file = self.files.open_if_there(SWEEP)?.ok_or_else(|| corrupt("the list is missing"))?;
        let bytes = self.files.read_open(SWEEP, &*file, SWEEP_BYTES_MAX)?;
        let dead = listed(&bytes).ok_or_else(|| corrupt("the checksum is wrong"))?;
        writer.unsynced.add(&[], false, true)?;
        self.remove_listed(&mut write_lock(&self.refs), &dead)
    }

    /// Removes objects, those that name others before these, and makes that durable.
    fn remove_listed(&self, refs: &mut KnownRefs, dead: &[Oid]) -> Result<(), Error> {
        // First: where a removal fails, no batch may leave out what the next holder of the lock removes.
        let mut known = write_lock(&self.known);
        dead.iter().for_each(|oid| _ = known.places.remove(oid));
        drop(known);
        let mut folders = BTreeSet::new();
        for oid in dead {
            self.files.remove(&object::path_of(oid))?;
            folders.insert(object::folder_of(oid));
        }
        for folder in &folders {
            if self.files.stat(folder)?.is_some() {
                self.sync_folder(folder)?;
            }
        }
        let mut table = refs.table.clone();
        // What was read meanwhile may be of what went: a cache that goes by this number looks again.
        (table.sweeps, table.sweeping) = (table.sweeps + 1, false);
        self.write_known_refs(refs, table, true)?;
        self.files.remove(SWEEP).map(drop)
    }
}

/// Counts an object no more, which was chosen and stays.
const fn leave(bytes: u64, swept: &mut Swept) {
    swept.objects -= 1;
    swept.bytes -= bytes;
}

/// Decodes a list; `None` if it is damaged.
fn listed(bytes: &[u8]) -> Option<Vec<Oid>> {
    let text = str::from_utf8(bytes).ok()?;
    let (lines, last) = text.strip_suffix('\n')?.rsplit_once('\n')?;
    let contents = &text[..lines.len() + 1];
    if last != format!("check {:016x}", xxh3_64(contents.as_bytes())) {
        return None;
    }
    lines.lines().map(|line| line.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_damaged_list_is_none() {
        let text = format!("abcd\nef01\ncheck {:016x}\n", xxh3_64(b"abcd\nef01\n"));
        assert_eq!(listed(text.as_bytes()).map(|list| list.len()), Some(2));
        for bit in 0..text.len() * 8 {
            let mut flipped = text.clone().into_bytes();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(listed(&flipped), None, "bit {bit}");
        }
        (0..text.len()).for_each(|cut| assert_eq!(listed(&text.as_bytes()[..cut]), None, "cut at {cut}"));
    }
}
