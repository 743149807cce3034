//! How much of the log a collection empties, and as of when.
//!
//! *What is recent* stays where a collection is told so, as one that the store begins by itself. What was appended since the last commit that a rule cuts is live for the most part: the states that are kept name it. Copied to cold
//! segments it would be dead there as soon as rules cut these commits as well. So the log is emptied up to that commit alone, as of the
//! segment that begins there, as in parts (`parts.rs`). Whatever else is garbage behind it stays until commits are cut there, too: so
//! no more than a share of the store is left, and a collection that somebody asks for leaves nothing.

use bristlecone_core::ObjRef;

use crate::{
    Error,
    backend::Cut,
    disk::{
        files::segment_name,
        log::DiskState,
        refs::{RefRows, Refs},
        segment::Segment,
        view::DiskView,
    },
};

/// No more is left than so many full-grown segments, and a share of this of the log and of what is live in cold segments.
const LEFT_SEGMENTS: u64 = 4;
const LEFT_SHARE: u64 = 3;

/// A part of the log, from its beginning on, as of a moment.
pub(super) struct LogFront {
    /// The first segment that stays.
    pub(super) cut: u32,
    /// Where what is appended later begins.
    pub(super) start: u64,
    /// What refs held.
    pub(super) targets: Vec<ObjRef>,
}

impl LogFront {
    /// Returns the log before a segment, when refs were these.
    ///
    /// # Errors
    /// Those of the tables of refs.
    pub(super) fn new(cut: u32, start: u64, mut refs: RefRows) -> Result<Self, Error> {
        let mut targets = Vec::new();
        while let Some(target) = refs.next_object()? {
            targets.push(target);
        }
        Ok(Self { cut, start, targets })
    }
}

impl DiskState {
    /// Returns the log before a segment, as of when that began.
    pub(super) fn front_as_of(&self, cut: u32) -> Result<LogFront, Error> {
        let table = self.table();
        let view = self.view(&table);
        let vanished = || self.corrupt(&segment_name(cut), 0, "the segment has vanished");
        let segment = view.segment(cut)?.ok_or_else(vanished)?;
        let refs = refs_at_head(&view, segment)?;
        LogFront::new(cut, segment.location(segment.frames_at()), refs.rows(""))
    }

    /// Returns the log before what is to stay of it, where `end` begins what is appended from now on, and takes the commits out of the
    /// cut that stay: those behind it, and those that refs held where it ends. `None` if nothing stays.
    pub(super) fn older_front(&self, cut: &Cut, end: u32) -> Result<Option<LogFront>, Error> {
        let table = self.table();
        let segments = segments_before(&self.view(&table), end)?;
        let log = segments.iter().map(|segment| segment.bytes).sum::<u64>();
        let left_max = LEFT_SEGMENTS * self.header.segment_bytes + (log + table.state.live_bytes()) / LEFT_SHARE;
        let dropped = cut.dropped_places().filter(|commit| commit.at.0 >> 32 < u64::from(end));
        let last = dropped.map(|commit| commit.at.0).max().unwrap_or(0);
        let stay = stay(&segments, last, left_max);
        let Some(first) = segments[segments.len() - stay..].first() else { return Ok(None) };
        let front = self.front_as_of(first.number)?;
        let recent = segment_range(first.number, end);
        let behind = cut.dropped_places().filter(|commit| recent.contains(&commit.at.0));
        for commit in behind.chain(front.targets.iter().copied()) {
            cut.restore(&commit.oid);
        }
        Ok(Some(front))
    }
}

/// Returns what refs held where a segment begins.
pub(super) fn refs_at_head(view: &DiskView<'_>, segment: &Segment) -> Result<Refs, Error> {
    let salt = view.header.salt;
    let head = segment.read_head(salt).map_err(|error| view.io(&segment.name, error))?;
    let (_, refs) = head.ok_or_else(|| segment.head_error(salt))?;
    view.refs_of(refs)
}

/// Returns the locations in segments from one on before another.
const fn segment_range(first: u32, end: u32) -> std::ops::Range<u64> {
    (first as u64) << 32..(end as u64) << 32
}

/// Returns the segments of the log whose numbers are less than `end`, ascending.
pub(in crate::disk) fn segments_before<'a>(view: &DiskView<'a>, end: u32) -> Result<Vec<&'a Segment>, Error> {
    let mut segments = Vec::new();
    for &number in view.table.numbers().iter().filter(|&&number| number < end) {
        segments.extend(view.segment(number)?);
    }
    Ok(segments)
}

/// Returns how many segments at the end stay: those of which most is behind a location, as far as they are not more than so many bytes.
fn stay(segments: &[&Segment], last: u64, left_max: u64) -> usize {
    let mut left = 0;
    let stays = |segment: &&&Segment| {
        left += segment.bytes;
        // The head of one of version 1 names no state.
        let has_state = segment.head.is_some_and(|head| head.version >= 2);
        has_state && left <= left_max && segment.location(segment.bytes / 2) > last
    };
    segments.iter().rev().take_while(stays).count()
}
