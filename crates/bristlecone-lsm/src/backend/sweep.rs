//! Sweeping: dropping what nothing leads to.
//!
//! A sweep has three parts. It marks what is reached and notes on which pages the rest is, beside appends, in rounds: each looks
//! at what came during the one before. It decides under the locks of appends and refs what goes: whatever is not reached by then
//! leaves the index, objects before those that they name, in steps that are each one write batch together with marks on the
//! pages that have become unclean. And it cleans these pages, a few at a time: what is left on them is appended again
//! elsewhere, then they are removed. A crash between two steps leaves nothing half: what has left the index is found no more,
//! and marked pages are cleaned by the next sweep.

use std::{
    collections::{BTreeSet, HashMap},
    ops::Range,
    sync::atomic::Ordering::*,
};

use bristlecone::{
    Batch, Bytes, Error, Location, ObjRef, Oid, Reached, RefTarget, Result, Roots, Sink as _, SweepLimits, SweepStatus,
    SweepStep, Swept,
};

use super::{
    lock,
    open_store::{OpenStore, read_lock, write_lock},
    page::{Page, object_of, split},
    pages::{Pages, damaged},
    refs::{self, Decoded},
};

/// Objects that leave the index in one step.
const STEP_OBJECTS: usize = 4096;
/// Rounds beside appends. What comes during one that has looked at fewer pages than this waits until appends do.
const ROUNDS_MAX: usize = 24;
const ROUND_PAGES: u64 = 1 << 10;
/// Bytes of pages that are cleaned in one step, and pages.
const STEP_BYTES: usize = 4 << 20;
const STEP_PAGES: usize = 1024;

/// Where the objects are that were not reached. One that was appended more than once is on several pages, and the index has the
/// last place: a hint that leads to another one must not find what is gone.
#[derive(Default)]
struct Unreached {
    /// Sorted.
    places: Vec<(Oid, Location)>,
    /// Pages from this one on were not looked at.
    end: u64,
}

impl Unreached {
    /// Goes on to look at pages, up to `end`, and returns how many they were. What was reached meanwhile leaves.
    fn note(&mut self, store: &OpenStore, reached: &Reached, end: u64) -> Result<u64> {
        let from = std::mem::replace(&mut self.end, end);
        self.places.retain(|(oid, _)| !reached.contains(oid));
        store.each_verified_page(from..end, &mut |number, page| {
            // Nothing is found on a page that is damaged.
            let Ok(page) = page else { return Ok(()) };
            let unreached = page.records(number).filter(|(oid, ..)| !reached.contains(oid));
            self.places.extend(unreached.map(|(oid, at, _)| (oid, at)));
            Ok(())
        })?;
        self.places.sort_unstable();
        Ok(end - from)
    }

    /// Returns each object with its last place.
    fn objects(&self) -> impl Iterator<Item = (Oid, Location)> {
        self.places.chunk_by(|one, next| one.0 == next.0).filter_map(|places| places.last().copied())
    }

    /// Returns the pages that an object is on.
    fn pages_of(&self, oid: Oid) -> impl Iterator<Item = u64> {
        let noted = &self.places[self.places.partition_point(|(noted, _)| *noted < oid)..];
        noted.iter().take_while(move |(noted, _)| *noted == oid).map(|(_, at)| split(*at).0)
    }
}

impl OpenStore {
    /// Drops what nothing leads to.
    pub(super) fn sweep(&self, roots: &Roots<'_>, limits: &SweepLimits) -> Result<Swept> {
        if self.read_only {
            return Err(Error::ReadOnly);
        }
        self.holder.refuse_child()?;
        self.poison.check()?;
        let _one = lock(&self.index.maintenance);
        let (mut reached, mut unreached) = (Reached::default(), Unreached::default());
        let mut given = roots.oids;
        for _ in 0..ROUNDS_MAX {
            let (from, end) = (unreached.end, read_lock(&self.refs).state.end);
            self.mark_young(roots, &mut reached, from..end)?;
            let leading = self.refs_and_pins().into_iter().chain(given.iter().copied());
            reached.reach(roots, |oid| self.read(&ObjRef::from(*oid)), leading)?;
            given = &[];
            if unreached.note(self, &reached, end)? < ROUND_PAGES {
                break;
            }
        }
        self.write_index_for_sweep()?;
        let (mut swept, dropped) = self.drop_unreached(roots, limits, reached, unreached)?;
        if limits.dry_run {
            return Ok(swept);
        }
        // Told before pages are cleaned, so that it is known also where that fails, or a step did.
        let told = roots.tell(&SweepStatus::new(SweepStep::Remove, swept.objects, swept.bytes));
        dropped?;
        match told {
            Err(error) if swept.objects == 0 => Err(error),
            // The next sweep cleans them.
            Err(_) => {
                swept.more = true;
                Ok(swept)
            }
            Ok(()) => self.clean_pages().map(|()| swept),
        }
    }

    /// Calls `each` with what an object names; with nothing if it is absent.
    fn each_child(&self, roots: &Roots<'_>, at: &ObjRef, each: &mut dyn FnMut(Oid)) -> Result<()> {
        match self.read(at)? {
            Some(object) => (roots.children)(&at.oid, &object, each),
            None => Ok(()),
        }
    }

    /// Returns what refs lead to, and what snapshots hold.
    fn refs_and_pins(&self) -> Vec<Oid> {
        let refs = read_lock(&self.refs);
        let mut from = self.pins.roots();
        from.extend(refs.by_name.values().filter_map(object));
        from
    }

    /// Decides what goes, and takes it from the index. No thread appends, moves a ref or takes a snapshot meanwhile. Returns what was
    /// dropped, also where a step failed, and how that went; with a dry run what would be.
    fn drop_unreached(
        &self,
        roots: &Roots<'_>,
        limits: &SweepLimits,
        mut reached: Reached,
        mut unreached: Unreached,
    ) -> Result<(Swept, Result<()>)> {
        let _writer = lock(&self.writer);
        self.write_index_for_sweep()?;
        let refs = write_lock(&self.refs);
        let mut from = self.pins.roots();
        from.extend(refs.by_name.values().filter_map(object));
        // Who is told how far it is may ask for refs.
        let roots = &roots.unwatched();
        self.mark_young(roots, &mut reached, unreached.end..refs.state.end)?;
        // No thread appends any more: what is absent now leads nowhere.
        from.extend(reached.take_absent());
        reached.reach(roots, |oid| self.read(&ObjRef::from(*oid)), from)?;
        unreached.note(self, &reached, refs.state.end)?;
        let (dead, mut swept) = self.choose(roots, &unreached, limits)?;
        if limits.dry_run {
            return Ok((swept, Ok(())));
        }
        // From here on places on these pages are looked up, and batches that left anything out are looked at again.
        self.pages.mark(dead.iter().flat_map(|(at, _)| unreached.pages_of(at.oid)));
        self.sweeps.fetch_add(1, AcqRel);
        (swept.objects, swept.bytes) = (0, 0);
        let mut dropped = Ok(());
        for step in dead.chunks(STEP_OBJECTS) {
            let mut changes = self.database.change();
            let mut unclean = BTreeSet::new();
            for (at, _) in step {
                changes.remove_location(&at.oid);
                unclean.extend(unreached.pages_of(at.oid));
            }
            for page in unclean {
                let key = refs::unclean_key(page);
                changes.put_ref(&key, &refs::encode_unclean(&key));
            }
            dropped = self.poisoning(changes.make(false));
            if dropped.is_err() {
                break;
            }
            swept.objects += step.len() as u64;
            swept.bytes += step.iter().map(|(_, bytes)| bytes).sum::<u64>();
        }
        // What was read meanwhile may be of what went.
        self.sweeps.fetch_add(1, AcqRel);
        Ok((swept, dropped))
    }

    /// Writes the index as far as pages go. Objects that leave it must not come back to it from the newest pages.
    fn write_index_for_sweep(&self) -> Result<()> {
        match self.write_whole_index() {
            // A page that cannot be read is no failure to write.
            Err(error @ Error::Corrupt { .. }) => Err(error),
            written => self.poisoning(written),
        }
    }

    /// Marks the objects on these pages that were appended since the oldest snapshot was taken, in the order of the pages: most of what
    /// they name comes before them, so that little is looked up by id.
    fn mark_young(&self, roots: &Roots<'_>, reached: &mut Reached, pages: Range<u64>) -> Result<()> {
        let Some(first) = self.pins.appended() else { return Ok(()) };
        let first = first.max(pages.start);
        let mut failed = None;
        self.database.each_page(first..pages.end.max(first), &mut |number, value| {
            let page = Page::verified(number, value).map_err(|reason| damaged(&self.database, number, reason))?;
            let add = |(oid, at, record)| reached.add(roots, oid, object_of(Bytes::Borrowed(record), at).as_ref());
            failed = page.records(number).try_for_each(add).err();
            Ok(failed.is_none())
        })?;
        failed.map_or(Ok(()), Err)
    }

    /// Returns what is dropped of all that was not reached, with the bytes of each: no object before those that name it, so that
    /// whatever stays has everything below it.
    fn choose(
        &self,
        roots: &Roots<'_>,
        unreached: &Unreached,
        limits: &SweepLimits,
    ) -> Result<(Vec<(ObjRef, u64)>, Swept)> {
        let mut all: HashMap<Oid, (Location, u32)> = HashMap::new();
        for (oid, at) in unreached.objects() {
            // A page that is still to be cleaned has what was dropped before.
            if !self.pages.is_unclean(split(at).0) || self.database.location(&oid)?.is_some() {
                all.insert(oid, (at, 0));
            }
        }
        let places: Vec<ObjRef> = all.iter().map(|(oid, (at, _))| ObjRef::new(*oid, *at)).collect();
        for at in &places {
            self.each_child(roots, at, &mut |child| {
                if let Some((_, named)) = all.get_mut(&child) {
                    *named += 1;
                }
            })?;
        }
        let mut next: Vec<ObjRef> = places.into_iter().filter(|at| all[&at.oid].1 == 0).collect();
        let (mut dead, mut swept) = (Vec::new(), Swept::default());
        while let Some(at) = next.pop() {
            let bytes = self.read(&at)?.map_or(0, |object| object.read_bytes() as u64);
            if swept.objects >= limits.objects || swept.bytes.saturating_add(bytes) > limits.bytes {
                swept.more = true;
                continue;
            }
            (swept.objects, swept.bytes) = (swept.objects + 1, swept.bytes + bytes);
            dead.push((at, bytes));
            self.each_child(roots, &at, &mut |child| {
                if let Some((place, named)) = all.get_mut(&child) {
                    *named -= 1;
                    next.extend((*named == 0).then(|| ObjRef::new(child, *place)));
                }
            })?;
        }
        Ok((dead, swept))
    }

    /// Removes every page that is marked as unclean, and appends again what is left on it. What is left to do beside a walk stays
    /// for the next sweep.
    fn clean_pages(&self) -> Result<()> {
        let mut unclean = Vec::new();
        self.database.each_ref(|key, value| {
            if let Some(Decoded::Unclean(page)) = refs::decode(key, value) {
                unclean.push(page);
            }
            Ok(())
        })?;
        self.index.read_all(&self.database, &self.pages)?;
        let (mut moved, mut step) = (Moved::default(), Vec::new());
        for page in unclean {
            self.move_live(page, &mut moved)?;
            step.push(page);
            let is_full = moved.batch.bytes().len() >= STEP_BYTES || step.len() >= STEP_PAGES;
            if is_full && !self.replace_pages(&mut moved, &mut step)? {
                return Ok(());
            }
        }
        self.replace_pages(&mut moved, &mut step).map(drop)
    }

    /// Puts what is left on a page into a batch.
    fn move_live(&self, number: u64, moved: &mut Moved) -> Result<()> {
        let Some(page) = Pages::read(&self.database, number)? else { return Ok(()) };
        for (oid, at, record) in page.records(number) {
            if self.locate(&oid)? == Some(at)
                && let Some(object) = object_of(Bytes::Borrowed(record), at)
            {
                moved.put(&object, oid, at);
            }
        }
        Ok(())
    }

    /// Appends what moves, and then removes the pages that it moves from: a reader finds it in one place or the other. Returns
    /// `false` where a walk is under way, which would miss what moves.
    fn replace_pages(&self, moved: &mut Moved, pages: &mut Vec<u64>) -> Result<bool> {
        if pages.is_empty() {
            return Ok(true);
        }
        let Ok(_no_walk) = self.walking.try_write() else { return Ok(false) };
        let base = self.append_batch(&moved.batch)?;
        moved.settle(base);
        let mut writer = lock(&self.writer);
        let mut changes = self.database.change();
        let mut gone = 0;
        for &number in pages.iter() {
            if let Some(page) = Pages::read(&self.database, number)? {
                gone += page.bytes() as u64;
                changes.remove_page(number);
            }
            changes.remove_ref(&refs::unclean_key(number));
        }
        let mut state = writer.state();
        state.bytes = state.bytes.saturating_sub(gone);
        changes.put_state(&state);
        self.poisoning(changes.make(false))?;
        writer.set_state(state);
        write_lock(&self.refs).state = state;
        self.pages.remove(pages);
        pages.clear();
        Ok(true)
    }
}

fn object(target: &RefTarget) -> Option<Oid> {
    match target {
        RefTarget::Object(at) => Some(at.oid),
        RefTarget::Symbolic(_) => None,
    }
}

/// Objects that move to other pages.
#[derive(Default)]
struct Moved {
    batch: Batch,
    /// Where each of the batch was.
    pending: Vec<Location>,
    /// Where objects went: records that name them are written with the new place.
    places: HashMap<Location, Location>,
}

impl Moved {
    fn put(&mut self, object: &bristlecone::Object<'_>, oid: Oid, at: Location) {
        let child = |index: usize| {
            let old = object.child(index);
            self.places.get(&old).copied().unwrap_or(old)
        };
        let children: Vec<Location> = (0..object.children()).map(child).collect();
        let metadata: Vec<u64> = (0..).map_while(|index| object.metadata_word(index)).collect();
        let to = self.batch.put(object.kind(), oid, object.body(), &children, &metadata);
        self.pending.push(at);
        self.places.insert(at, to);
    }

    fn settle(&mut self, base: Location) {
        for from in self.pending.drain(..) {
            self.places.entry(from).and_modify(|to| *to = to.resolve(base));
        }
        self.batch.clear();
    }
}
