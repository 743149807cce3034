//! Collecting garbage: live objects go to cold segments, then the segments in which they were are removed.
//!
//! **The order**, on which safety rests:
//!
//! 1. The log goes on in a new segment. Everything before it is *emptied*; what is appended from here on stays where it is.
//! 2. What is live there and in cold segments is marked; what of it is in the log is copied to new cold segments, children
//!    before parents. Meanwhile other threads and processes read and append.
//! 3. What they appended is gone through, frame by frame: whatever it names that is to be emptied is copied as well, and what it
//!    names in cold segments marked, so an object that an append left out because the store had it is live, with all below it.
//! 4. Cold segments stay, each with a file that says what of it is live: the rest is *dead*. It may name what is gone, so from the
//!    new state on no lookup finds it (`marks.rs`).
//! 5. Under the store's lock, once nothing more was appended that was not gone through, a frame announces the new state.
//! 6. After that frame is durable, and once no process reads by an older state, the emptied segments are removed.
//! 7. Cold segments with much garbage are rewritten, one after the other, each by a state of its own (`rewrite.rs`).
//!
//! *In parts.* Where a copy of all that is live in the log would take most of the room that is free, the log is emptied from its
//! beginning, a part at a time, each as of when it ended (`parts.rs`).
//!
//! *What is recent.* A collection that the store begins by itself empties the log up to the last commit that rules cut, and leaves what
//! is behind that where it is (`front.rs`).
//!
//! An append that was built by an older state looks again, under the lock, for what it left out (`group.rs`).
//!
//! *In part or whole.* A collection that the store begins by itself lets the cold segments be, with all that is live in them so
//! far: it costs what is new. Once these have grown by a share, or now and then, and whenever somebody asks, a collection marks
//! what is in them, too.
//!
//! *Closed.* The children of each record of the log lie in segments before it, or in cold ones; those of a live record of a cold
//! segment are live, there or in any other cold one. A collection keeps that so: it looks for the children of what it copies only
//! in what is emptied and in cold segments.

mod announce;
mod copy;
mod emptied;
mod files;
mod front;
mod mark;
mod pace;
mod parts;
mod recent;
mod repeated;
mod rewrite;
mod run;
mod settled;
mod young;

use std::cell::RefCell;

use bristlecone_core::{Kind, Location, ObjRef, Object, Oid};

use self::{
    files::NewFiles, front::LogFront, mark::Marked, pace::Pace, parts::MovedParts, recent::RecentOids,
    repeated::RepeatedChildren, run::SweepRun, settled::places,
};
pub(super) use self::{front::segments_before, settled::SettledOids};
use super::{
    files::segment_name,
    live::{LIVE_WORD_BYTES, LiveSet},
    lock::CollectorLock,
    log::DiskState,
    read::Probe,
    roll::now_seconds,
    segment::COLD,
    state::StoreState,
    view::DiskView,
};
use crate::{
    Error,
    backend::{Cut, Roots, SweepStep},
    oid_map::OidMap,
};

/// Of so many objects that were found by their ids it is remembered where they are.
const MOVED_MAX: usize = 1 << 18;
/// Bytes that the copy of an object takes beside its record: in the index of its segment.
const COPIED_BYTES: u64 = 16;

impl DiskState {
    /// Changes what of the state says nothing of segments, durably; nothing if `change` returns false. Returns what it returned.
    pub(super) fn change_state(&self, change: impl FnOnce(&mut StoreState) -> bool) -> Result<bool, Error> {
        if self.lock.is_none() {
            return Err(Error::ReadOnly);
        }
        let collector = self.collector(self.options.lock_wait_ms)?;
        let mut end = None;
        self.locked(|log| {
            if log.tail.version < 2 {
                let reason = "this store is of version 1 of the disk engine, which keeps everything; an upgrade makes it one of version 2";
                return Err(Error::Usage { reason });
            }
            let mut state = self.table().state.clone();
            (state.epoch, state.check, state.time) = (state.epoch + 1, 0, now_seconds());
            if change(&mut state) {
                self.write_state(&collector, &mut state)?;
                self.write_named(log, state.reference(), &[])?;
                end = Some(log.tail.location());
            }
            Ok(())
        })?;
        end.map_or(Ok(false), |end| self.sync_to(end).map(|()| true))
    }

    /// Takes the lock of the collector: one at a time, and others wait for their turn as long as for the store's lock.
    fn collector(&self, wait_ms: u64) -> Result<CollectorLock, Error> {
        CollectorLock::take(&self.storage, wait_ms)
    }
}

/// A collection under way.
struct Collection<'a, 'r> {
    view: DiskView<'a>,
    roots: &'r Roots<'r>,
    // The commits that go although others name them.
    commits: Option<&'r Cut>,
    // The first segment of the log that stays.
    cut: u32,
    // Whether the cold segments stay with all that is live in them so far.
    partial: bool,
    // How far what was appended since is gone through.
    followed: u64,
    // What was named there and gone through, as far as it is remembered.
    followed_oids: RecentOids,
    followed_children: RepeatedChildren,
    // What marking came to, until copying begins.
    marked: Marked,
    // What objects name that were copied, and where that went.
    copied_children: RepeatedChildren,
    // How many ids are remembered at a time.
    places: usize,
    // What is known to lie in cold segments and to stay.
    settled: SettledOids,
    // Where objects went that were in parts of the log that this sweep has emptied.
    parts: MovedParts,
    // Where other objects are that were found by their ids.
    moved: RefCell<OidMap<Location>>,
    live: LiveSet,
    files: NewFiles<'a>,
    // Whether something in cold segments was found to be live since the last state was made.
    revived: bool,
    // What the cut had told when the last state was made: `Cut::changes`.
    changes: usize,
    refs: Vec<ObjRef>,
    // The objects that were marked, and the bytes of their records; and what of that is to be copied.
    live_objects: u64,
    live_bytes: u64,
    copied_objects: u64,
    copied_bytes: u64,
    // What is copied beside what is live, since limits leave it.
    kept: Vec<ObjRef>,
    // What the grace keeps, and when it was written.
    graced: Vec<(u32, Oid)>,
    // What is kept for snapshots alone.
    held: Vec<Held>,
    pace: Pace,
}

/// An object that a collection kept for a snapshot that is older than it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Held {
    /// Where it was appended.
    appended: u64,
    oid: Oid,
}

impl<'a, 'r> Collection<'a, 'r> {
    /// Begins the collection of a part of the log, and of cold segments unless it is `partial`; what it needs of a sweep goes back by
    /// [`SweepRun::take_back`].
    fn begin(
        view: DiskView<'a>,
        roots: &'r Roots<'r>,
        run: &mut SweepRun<'_>,
        commits: Option<&'r Cut>,
        front: &LogFront,
        partial: bool,
    ) -> Result<Self, Error> {
        let (mut emptied, places) = (Vec::new(), places(view.table.state.live_objects()));
        let goes = |number: &u32| *number < front.cut || *number >= COLD && !partial;
        for number in view.table.all_numbers().into_iter().filter(goes) {
            let Some(segment) = view.segment(number)? else {
                let name = segment_name(number);
                return Err(view.corrupt(&name, 0, "the segment is missing; nothing is removed before that is mended"));
            };
            emptied.push((number, segment.bytes));
        }
        let mut settled = std::mem::take(&mut run.settled);
        settled.begin(!partial, view.table.state.live_objects());
        let mut pace = std::mem::replace(&mut run.pace, Pace::new(u64::MAX));
        pace.begin(SweepStep::Mark);
        Ok(Self {
            view,
            roots,
            commits,
            cut: front.cut,
            partial,
            followed: front.start,
            followed_oids: RecentOids::with_places(places),
            followed_children: RepeatedChildren::default(),
            marked: Marked::with_places(places),
            copied_children: RepeatedChildren::default(),
            places,
            settled,
            parts: std::mem::take(&mut run.moved),
            moved: RefCell::default(),
            live: LiveSet::new(emptied),
            files: NewFiles::new(view)?,
            revived: false,
            changes: 0,
            refs: Vec::new(),
            live_objects: 0,
            live_bytes: 0,
            copied_objects: 0,
            copied_bytes: 0,
            kept: Vec::new(),
            graced: Vec::new(),
            held: Vec::new(),
            pace,
        })
    }

    /// Whether a location lies in a cold segment.
    fn is_cold(&self, at: Location) -> bool {
        let number = (at.0 >> 32) as u32;
        at.is_some() && number >= COLD && self.view.table.has(number)
    }

    /// Whether a location lies in a cold segment that stays with all that is live in it so far.
    fn stays(&self, at: Location) -> bool {
        self.partial && self.is_cold(at)
    }

    /// Returns how many bytes the collection takes until what it empties is removed.
    fn room(&self) -> u64 {
        let cold = if self.partial { 0 } else { self.view.table.state.cold_bytes() };
        self.copied_bytes + COPIED_BYTES * self.copied_objects + cold.div_ceil(LIVE_WORD_BYTES) * 8
    }

    /// Whether something is to be kept that the last state did not say, or something may be absent that it did not.
    fn has_more(&self) -> bool {
        self.files.is_writing() || self.revived || self.commits.is_some_and(|cut| cut.changes() != self.changes)
    }

    /// Returns how much of what it empties of the log a collection copies, in percent.
    fn copied_percent(&self) -> u8 {
        let emptied: u64 = self.live.segments().filter(|(number, _)| *number < COLD).map(|(_, bytes)| bytes).sum();
        (self.copied_bytes.min(emptied) * 100).checked_div(emptied).unwrap_or(0) as u8
    }

    /// Returns how many commits go although others name them.
    fn cut_count(&self) -> u64 {
        self.commits.map_or(0, |cut| cut.dropped().count() as u64)
    }

    /// Whether nothing is left to do about an object: it was copied, or stays where it is.
    fn is_settled(&self, object: &ObjRef) -> bool {
        let at = object.at;
        if !at.is_some() || at.pending_offset().is_some() {
            return false;
        }
        let number = (at.0 >> 32) as u32;
        let settled = (self.cut..COLD).contains(&number) || self.place(at).is_some();
        settled && self.view.is_at(&object.oid, at)
    }

    /// Returns an object of what was there before the collection began; `None` if it is not there.
    fn find(&self, wanted: &ObjRef) -> Result<Option<Object<'a>>, Error> {
        let hint = wanted.at;
        let covered = hint.is_some() && hint.pending_offset().is_none() && self.live.covers(hint.0);
        let elsewhere = || {
            let moved = || self.moved.borrow().get(&wanted.oid).copied();
            self.parts.place(hint.0).map(Location).or_else(|| self.settled.place(&wanted.oid)).or_else(moved)
        };
        let known = if covered || self.stays(hint) { Some(hint) } else { elsewhere() };
        if let Some(at) = known {
            match self.view.probe(&wanted.oid, at)? {
                Probe::Found(object) => return Ok(Some(object)),
                Probe::Other | Probe::Dead => {}
                Probe::Bad(reason) => {
                    let again = self.view.find_below(wanted, self.cut).ok().flatten();
                    return again.map(Some).ok_or_else(|| self.view.damaged(&wanted.oid, at, reason));
                }
            }
        }
        let found = self.view.find_below(wanted, self.cut)?;
        if let Some(found) = &found {
            let mut moved = self.moved.borrow_mut();
            if moved.len() >= MOVED_MAX {
                moved.clear();
            }
            moved.insert(wanted.oid, found.location());
        }
        Ok(found)
    }

    /// Returns what an object names, with the places that it knows; `None` for what is cut.
    fn children(&self, oid: &Oid, object: &Object<'_>) -> Result<Vec<Option<ObjRef>>, Error> {
        let mut children = Vec::with_capacity(object.children());
        let cut = self.commits.filter(|_| object.kind() == Kind::Commit);
        let mut each = |child: Oid| {
            let at = self.parts.child_place(object, children.len());
            let stays = cut.is_none_or(|cut| !cut.passes_over(oid, &child));
            children.push(stays.then(|| ObjRef::new(child, at)));
        };
        (self.roots.children)(oid, object, &mut each)?;
        Ok(children)
    }
}
