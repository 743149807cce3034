//! Sweeping files: what nothing leads to is listed, and then removed.
//!
//! It removes some thousand objects in a step, and others go first between two steps: what they lead to by then stays. No object is
//! removed before those that name it. A step is done wholly or not at all: its list is durable before the first file goes, and the refs
//! say that a sweep is under way. Whoever writes next after a process that was stopped, or a power cut, removes the rest of the list
//! first. So no object ever stays without what is below it.

use std::{collections::BTreeSet, fmt::Write as _, mem};

use bristlecone_core::Oid;
use twox_hash::XxHash3_64;

use super::{
    durable::object_ids,
    object,
    state::{FsState, KnownRefs, Writer},
};
use crate::{
    Error,
    backend::{Reached, RefTarget, Roots, SweepLimits, SweepList, Swept},
    sync::{lock, read_lock, write_lock},
};

/// The list of what a sweep removes.
const SWEEP: &str = "sweep";
/// No list is longer: it would be of a hundred million objects.
const SWEEP_BYTES_MAX: u64 = 1 << 33;

/// Rounds beside appends. What so few objects bring during one waits until appends do.
const ROUNDS_MAX: usize = 24;
const ROUND_OBJECTS: usize = 1 << 10;

/// What a sweep goes through.
struct Sweep<'s> {
    state: &'s FsState,
    roots: &'s Roots<'s>,
    appends: NotedAppends<'s>,
    reached: Reached,
    list: SweepList,
}

/// Notes what this process appends, until it is dropped: a sweep that held a snapshot instead would have all of it kept, and look
/// through all of it at each step.
struct NotedAppends<'s> {
    state: &'s FsState,
    /// The place of what was appended next when this began.
    first: u64,
}

impl<'s> NotedAppends<'s> {
    /// Begins. The caller holds the store's lock.
    fn begin(state: &'s FsState) -> Self {
        let mut known = write_lock(&state.known);
        known.noted = Some(Vec::new());
        Self { state, first: known.next }
    }

    /// Returns what was appended since this was asked last.
    fn take(&self) -> Vec<Oid> {
        write_lock(&self.state.known).noted.as_mut().map(mem::take).unwrap_or_default()
    }

    /// Whether another process wrote since this began. The caller holds the store's lock.
    fn are_foreign(&self) -> bool {
        self.first < read_lock(&self.state.known).foreign
    }

    /// Passes over what other processes wrote by now. The caller holds the store's lock.
    fn pass_foreign(&mut self) {
        self.first = read_lock(&self.state.known).next;
    }
}

impl Drop for NotedAppends<'_> {
    fn drop(&mut self) {
        write_lock(&self.state.known).noted = None;
    }
}

impl FsState {
    /// Drops what nothing leads to. It marks, and chooses what goes, beside appends; no thread appends or moves a ref, nor takes a
    /// snapshot, while it removes some of that. Reading goes on.
    pub(super) fn sweep(&self, roots: &Roots<'_>, limits: &SweepLimits) -> Result<Swept, Error> {
        self.lock.refuse_child()?;
        let _one = lock(&self.sweeping);
        let appends = self.locked(|writer| {
            self.refuse_others()?;
            self.make_durable(writer, None)?;
            Ok(NotedAppends::begin(self))
        })?;
        let (reached, list) = (Reached::default(), SweepList::default());
        let mut sweep = Sweep { state: self, roots, appends, reached, list };
        sweep.mark_beside_appends(self.young())?;
        sweep.choose(limits)?;
        // Choosing may take as long as marking.
        sweep.mark_beside_appends(Vec::new())?;
        let mut stepped = self.locked(|writer| sweep.begin(writer, limits));
        loop {
            if let Some(swept) = sweep.list.after_step(stepped, roots, limits)? {
                return Ok(swept);
            }
            stepped = match self.locked(|writer| sweep.go_on(writer)) {
                // Another process holds the lock.
                Err(Error::Locked { .. }) => {
                    sweep.list.leave_rest();
                    Ok(())
                }
                done => done,
            };
        }
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
    fn refs_and_pins(&self) -> Vec<Oid> {
        let refs = read_lock(&self.refs);
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

    /// Returns the objects that were appended since the oldest snapshot was taken.
    fn young(&self) -> Vec<Oid> {
        let known = read_lock(&self.known);
        let Some(first) = self.pins.appended() else { return Vec::new() };
        known.places.iter().filter(|(_, place)| **place >= first).map(|(oid, _)| *oid).collect()
    }

    fn write_list(&self, dead: &[Oid]) -> Result<(), Error> {
        let mut text = String::new();
        dead.iter().for_each(|oid| _ = writeln!(text, "{oid}"));
        let check = XxHash3_64::oneshot(text.as_bytes());
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

impl Sweep<'_> {
    /// Marks what stays, and what becomes so meanwhile, until that is little.
    fn mark_beside_appends(&mut self, mut young: Vec<Oid>) -> Result<(), Error> {
        let (state, roots) = (self.state, self.roots);
        for _ in 0..ROUNDS_MAX {
            // What comes during the last round stays noted.
            young.append(&mut self.appends.take());
            let before = self.reached.objects();
            let from = mem::take(&mut young).into_iter().chain(state.refs_and_pins()).chain(roots.oids.iter().copied());
            self.reached.reach(roots, |oid| state.read(oid), from)?;
            if self.reached.objects() - before < ROUND_OBJECTS {
                break;
            }
        }
        Ok(())
    }

    /// Chooses what goes: what is there and was not reached by now.
    fn choose(&mut self, limits: &SweepLimits) -> Result<(), Error> {
        let state = self.state;
        let dead: Vec<Oid> = object_ids(&state.files)?.filter(|oid| !self.reached.contains(oid)).collect();
        self.list.choose(self.roots, |oid| state.read(oid), &dead, limits)
    }

    /// Marks what came since it was last looked, and what refs and snapshots lead to now. The caller holds the store's lock.
    fn mark_rest(&mut self) -> Result<(), Error> {
        let state = self.state;
        let from = state.refs_and_pins().into_iter().chain(self.appends.take()).chain(self.reached.take_absent());
        self.reached.reach(&self.roots.unwatched(), |oid| state.read(oid), from)
    }

    /// Begins to remove what was chosen, or counts it. The caller holds the store's lock.
    fn begin(&mut self, writer: &mut Writer, limits: &SweepLimits) -> Result<(), Error> {
        self.state.refuse_others()?;
        if self.appends.are_foreign() {
            // Another process had the store meanwhile. What it appended is on no list, and may name what is.
            self.appends.pass_foreign();
            self.mark_rest()?;
            self.choose(limits)?;
        }
        self.state.make_durable(writer, None)?;
        if !limits.dry_run {
            return self.step(writer);
        }
        self.mark_rest()?;
        self.list.count_rest(&self.reached);
        Ok(())
    }

    /// Goes on to remove what was chosen, behind others that went first, unless one of them was another process. The caller holds the
    /// store's lock.
    fn go_on(&mut self, writer: &mut Writer) -> Result<(), Error> {
        match self.state.refuse_others() {
            Ok(()) if !self.appends.are_foreign() => {}
            // It has the store open, or wrote.
            Ok(()) | Err(Error::Locked { .. } | Error::Usage { .. }) => {
                self.list.leave_rest();
                return Ok(());
            }
            failed => return failed,
        }
        self.state.make_durable(writer, None)?;
        self.step(writer)
    }

    /// Removes some of what was chosen, unless something leads to it by now. The caller holds the store's lock, and everything is
    /// durable.
    fn step(&mut self, writer: &mut Writer) -> Result<(), Error> {
        self.mark_rest()?;
        let state = self.state;
        // From here on no snapshot is taken.
        let mut refs = write_lock(&state.refs);
        self.reached.reach(&self.roots.unwatched(), |oid| state.read(oid), state.pins.roots())?;
        let (dead, dead_bytes) = self.list.next_step(&self.reached);
        if dead.is_empty() {
            return Ok(());
        }
        state.write_list(&dead)?;
        writer.unsynced.add(&[], false, true)?;
        let mut table = refs.table.clone();
        (table.sweeps, table.sweeping) = (table.sweeps + 1, true);
        state.write_known_refs(&mut refs, table, true)?;
        // Where a removal fails, the next holder of the lock removes the rest of the list.
        self.list.note_removed(dead.len(), dead_bytes);
        state.remove_listed(&mut refs, &dead)?;
        writer.unsynced.clear()
    }
}

/// Decodes a list; `None` if it is damaged.
fn listed(bytes: &[u8]) -> Option<Vec<Oid>> {
    let text = str::from_utf8(bytes).ok()?;
    let (lines, last) = text.strip_suffix('\n')?.rsplit_once('\n')?;
    let contents = &text[..lines.len() + 1];
    if last != format!("check {:016x}", XxHash3_64::oneshot(contents.as_bytes())) {
        return None;
    }
    lines.lines().map(|line| line.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use std::{cell::Cell, sync::Arc};

    use bristlecone_core::{Kind, Object, Sink};

    use super::{
        super::{FsBackend, FsOptions},
        *,
    };
    use crate::{
        backend::{Backend, Batch, Durability},
        engine::FormatTag,
        storage::RealStorage,
    };

    #[test]
    fn a_sweep_holds_no_snapshot() {
        let dir = tempfile::tempdir().unwrap();
        let format = FormatTag { name: "native".to_owned(), version: 1, options: String::new() };
        let storage = Arc::new(RealStorage::new(dir.path()));
        let backend = FsBackend::create(storage, format, FsOptions::default().background(false)).unwrap();
        let mut batch = Batch::new();
        batch.put(Kind::Contents, Oid::from_array([1; 32]), b"a value", &[], &[]);
        backend.append(batch, &[], Durability::None).unwrap();
        let looked = Cell::new(false);
        let children = |_: &Oid, _: &Object<'_>, _: &mut dyn FnMut(Oid)| {
            assert!(backend.0.pins.is_empty(), "all that is appended would be kept in memory");
            looked.set(true);
            Ok(())
        };
        assert_eq!(backend.sweep(&Roots::new(&[], &children), &SweepLimits::default()).unwrap().objects, 1);
        assert!(looked.get());
    }

    #[test]
    fn a_damaged_list_is_none() {
        let text = format!("abcd\nef01\ncheck {:016x}\n", XxHash3_64::oneshot(b"abcd\nef01\n"));
        assert_eq!(listed(text.as_bytes()).map(|list| list.len()), Some(2));
        for bit in 0..text.len() * 8 {
            let mut flipped = text.clone().into_bytes();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(listed(&flipped), None, "bit {bit}");
        }
        (0..text.len()).for_each(|cut| assert_eq!(listed(&text.as_bytes()[..cut]), None, "cut at {cut}"));
    }
}
