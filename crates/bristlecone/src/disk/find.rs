//! Finding objects by id: in the tail by a table in memory, in sealed segments by their indexes.
//!
//! **The rule.** An object that is there is found, whatever the indexes say. One that is not found is *absent* only
//! where no bytes were lost in which it may have been; else it is damaged, and the error says where. An index that is
//! bound to its segment's seal was made before the damage and knows what was there; without one, what can still be read
//! of the lost records tells, and where nothing can, the answer is an error too. `docs/formats/disk.md` section 5.1.

use std::{
    io,
    ops::{Range, RangeInclusive},
    sync::OnceLock,
};

use bristlecone_core::{Location, ObjRef, Object, Oid};

use super::{
    files::segment_name,
    files::{SEGMENTS, SPARE, open_empty, random_word},
    filters::SearchStep,
    frame::{FrameKind, SEAL_BYTES},
    ids::{LostRange, SegmentIds, Surveyed},
    index::TailIndex,
    read::Probe,
    sealed::{Form, IndexEntry, IndexFault, SealedIndex, Tie, encode_index},
    segment::{COLD, Segment, SegmentHead},
    survey::{LossVerdict, SegmentSurvey},
    view::DiskView,
    written::WrittenSegment,
};
use crate::{
    Error,
    storage::{OpenMode, write_all_at},
    sync::{lock, read_lock, write_lock},
};

/// A search for an object by its id.
struct IdSearch<'s, 'o> {
    shared: DiskView<'s>,
    oid: &'o Oid,
    object: Option<Object<'s>>,
    /// Where it was met and is damaged, or may have been.
    bad: Option<(Location, String)>,
    failed: Option<Error>,
    /// Whether an index led to something else: another id with the same first bytes, or the index or the record is
    /// wrong.
    misled: bool,
    /// Whether an index led to a record that is damaged, and is or was the object.
    decayed: bool,
}

impl<'s, 'o> IdSearch<'s, 'o> {
    const fn new(shared: DiskView<'s>, oid: &'o Oid) -> Self {
        Self { shared, oid, object: None, bad: None, failed: None, misled: false, decayed: false }
    }

    /// Whether the object is at this place of a segment; it is kept then.
    fn accepts(&mut self, segment: &Segment, offset: u32) -> bool {
        let at = Location(segment.location(u64::from(offset)));
        match self.shared.probe(self.oid, at) {
            Ok(Probe::Found(object)) => self.object = Some(object),
            Ok(Probe::Other) => self.misled = true,
            // The index is right; whoever looks for it is told that it is not there.
            Ok(Probe::Dead) => {}
            Ok(Probe::Bad(reason)) => {
                self.decayed = true;
                self.bad = Some((at, reason));
            }
            Err(error) => self.failed = Some(error),
        }
        self.object.is_some()
    }

    /// Notes that the object is damaged if it was in a lost stretch, or may have been there.
    fn weigh(&mut self, segment: &Segment, lost: &[LostRange]) {
        for stretch in lost {
            let (at, reason) = match stretch.verdict(segment, self.oid) {
                Ok(LossVerdict::WasNot) => continue,
                Ok(LossVerdict::Was(at)) => (at, "the object's record is damaged".to_owned()),
                Ok(LossVerdict::Unknown) => {
                    let Range { start, end } = &stretch.range;
                    let reason = format!(
                        "the object is nowhere else, and whether it was in the bytes {start} to {end} cannot be told"
                    );
                    (*start, reason)
                }
                Err(error) => return self.failed = Some(self.shared.io(&segment.name, error)),
            };
            self.bad.get_or_insert((Location(segment.location(at)), reason));
        }
    }

    fn missing(&mut self, numbers: RangeInclusive<u32>) {
        if let Some(expired) = self.shared.expired(&segment_name(*numbers.start())) {
            self.failed.get_or_insert(expired);
            return;
        }
        let reason = format!(
            "{}, and whether the object was there cannot be told",
            missing_text(std::slice::from_ref(&numbers))
        );
        self.bad.get_or_insert((Location(u64::from(*numbers.start()) << 32), reason));
    }

    fn answer(self) -> Result<Option<Object<'s>>, Error> {
        match (self.object, self.failed, self.bad) {
            (Some(object), _, _) => Ok(Some(object)),
            (None, Some(error), _) => Err(error),
            (None, None, Some((at, reason))) => Err(self.shared.damaged(self.oid, at, reason)),
            (None, None, None) => match self.shared.lost_end.get() {
                None => Ok(None),
                Some(lost) => Err(Error::Corrupt {
                    file: lost.file.clone(),
                    offset: lost.offset,
                    oid: Some(*self.oid),
                    reason: format!("{}; whether the object was there cannot be told", lost.reason),
                }),
            },
        }
    }
}

/// Says which segments are missing.
pub(super) fn missing_text(ranges: &[RangeInclusive<u32>]) -> String {
    if let [one] = ranges
        && one.start() == one.end()
    {
        return "the segment is missing".to_owned();
    }
    let one = |range: &RangeInclusive<u32>| match (range.start(), range.end()) {
        (first, last) if first == last => format!("{first}"),
        (first, last) => format!("{first} to {last}"),
    };
    format!("the segments {} are missing", ranges.iter().map(one).collect::<Vec<_>>().join(", "))
}

impl<'a> DiskView<'a> {
    /// Finds an object by its id alone: in the tail, then in sealed segments, the newest first, then in cold ones.
    ///
    /// # Errors
    /// [`Error::Corrupt`] if it is damaged, or not found while it may have been in what is damaged; [`Error::Io`].
    pub(super) fn find(&self, oid: &Oid) -> Result<Option<Object<'a>>, Error> {
        let mut search = IdSearch::new(*self, oid);
        let tail = self.search_tail(&mut search)?;
        if search.object.is_some() {
            return search.answer();
        }
        self.search_below(&mut search, tail);
        search.answer()
    }

    /// Finds an object by its id in the segments of the log before `end` and in cold ones; first among what collections moved, where the
    /// location at which it was leads to a segment that was emptied.
    pub(super) fn find_below(&self, at: &ObjRef, end: u32) -> Result<Option<Object<'a>>, Error> {
        let mut search = IdSearch::new(*self, &at.oid);
        if self.search_moved(&mut search, at.at) {
            return search.answer();
        }
        self.search_below(&mut search, end);
        search.answer()
    }

    /// Finds an object that was at a location of a segment that a collection has emptied: what was live there is in cold
    /// segments. `None` also if it may be elsewhere.
    pub(super) fn find_moved(&self, at: &ObjRef) -> Option<Object<'a>> {
        if let Some(now) = self.moved.get(at.at)
            && let Ok(Probe::Found(object)) = self.probe(&at.oid, now)
        {
            return Some(object);
        }
        let mut search = IdSearch::new(*self, &at.oid);
        let found = if self.search_moved(&mut search, at.at) { search.object } else { None };
        if let Some(object) = &found {
            self.moved.note(at.at, object.location());
        }
        found
    }

    fn search_moved(&self, search: &mut IdSearch<'a, '_>, hint: Location) -> bool {
        if !hint.is_some() || hint.pending_offset().is_some() || self.table.has((hint.0 >> 32) as u32) {
            return false;
        }
        // What is wrong with a segment, the search through all will tell.
        for step in self.plan(0).steps.iter().filter(|step| step.first() >= COLD) {
            self.search_step(step, search, u32::MAX);
            if search.object.is_some() {
                return true;
            }
        }
        *search = IdSearch::new(*self, search.oid);
        false
    }

    fn search_below(&self, search: &mut IdSearch<'a, '_>, tail: u32) {
        for step in &self.plan(tail).steps {
            self.search_step(step, search, tail);
            if search.object.is_some() {
                return;
            }
        }
        if let Some(numbers) = self.table.missing(&self.table.numbers(), tail.saturating_sub(1)).next() {
            search.missing(numbers);
        }
    }

    /// Asks a segment, or those of a run that its filter names; of the log those before `tail`.
    fn search_step(&self, step: &SearchStep, search: &mut IdSearch<'a, '_>, tail: u32) {
        let (filter, numbers) = match step {
            SearchStep::Segment(number) => return self.search_number(*number, search, tail),
            SearchStep::Filter(filter, numbers) => (&filter.1, numbers),
        };
        let asked = filter.each_member(search.oid.prefix(), |member| {
            if numbers.binary_search(&member.number).is_ok() {
                self.search_number(member.number, search, tail);
            }
            search.object.is_none()
        });
        if asked.is_err() && search.object.is_none() {
            // Without the filter each has to be asked.
            numbers.iter().for_each(|&number| self.search_number(number, search, tail));
        }
    }

    /// Asks a segment. A failure is the answer only if the object is in no other one.
    fn search_number(&self, number: u32, search: &mut IdSearch<'a, '_>, tail: u32) {
        if search.object.is_some() || number >= tail && number < COLD {
            return;
        }
        match self.segment(number) {
            Ok(Some(segment)) => {
                if let Err(error) = self.search_sealed(segment, search) {
                    search.failed = Some(error);
                }
            }
            Ok(None) => search.missing(number..=number),
            Err(error) => search.failed = Some(error),
        }
    }

    /// Returns where an object of the tail is.
    pub(super) fn locate(&self, oid: &Oid) -> Option<Location> {
        let mut search = IdSearch::new(*self, oid);
        self.search_tail(&mut search).ok()?;
        Some(search.object?.location())
    }

    /// Asks the index of the tail, and returns the segment that it is of.
    fn search_tail(&self, search: &mut IdSearch<'a, '_>) -> Result<u32, Error> {
        let number = self.ask_tail(search)?;
        if search.object.is_some() || !search.decayed {
            return Ok(number);
        }
        // The index has one record of an id, the newest, and that was right when it was made. One that is made anew has the newest that
        // is right now, and what is damaged as a loss: so the next search comes here no more.
        write_lock(&self.tail_index).reset(0, 0);
        self.ask_tail(search)
    }

    /// Asks the index of the tail, brought up to date, and returns the segment that it is of.
    fn ask_tail(&self, search: &mut IdSearch<'a, '_>) -> Result<u32, Error> {
        let end = self.published.end();
        let (number, upto) = ((end >> 32) as u32, end & 0xffff_ffff);
        let index = read_lock(&self.tail_index);
        if index.segment == number && index.upto >= upto {
            let there = self.search_tail_index(search, &index)?;
            drop(index);
            if !there {
                search.missing(number..=number);
            }
            return Ok(number);
        }
        drop(index);
        let mut index = write_lock(&self.tail_index);
        // Read again under the lock, so that the table never goes back.
        let end = self.published.end();
        let (number, upto) = ((end >> 32) as u32, end & 0xffff_ffff);
        let Some(segment) = self.segment(number)? else {
            drop(index);
            search.missing(number..=number);
            return Ok(number);
        };
        if index.segment != number {
            let from = segment.frames_at();
            index.reset(number, from);
        }
        if index.upto < upto {
            let survey = SegmentSurvey::of_frames(segment, self.header.salt, index.upto, upto);
            let survey = survey.map_err(|error| self.io(&segment.name, error))?;
            index.extend(segment, survey.entries.into_iter());
            index.lost.extend(survey.lost);
            index.upto = upto;
        }
        self.search_tail_index(search, &index)?;
        Ok(number)
    }

    /// Asks the index of the tail, and returns whether its segment is there.
    fn search_tail_index(&self, search: &mut IdSearch<'a, '_>, index: &TailIndex) -> Result<bool, Error> {
        let Some(segment) = self.segment(index.segment)? else { return Ok(false) };
        index.find(search.oid.prefix(), |offset| {
            search.misled = false;
            let is_it = search.accepts(segment, offset);
            search.decayed |= search.misled && !TailIndex::collides(segment, search.oid, offset);
            is_it
        });
        if search.object.is_none() && !index.lost.is_empty() {
            search.weigh(segment, &index.lost);
        }
        Ok(true)
    }

    /// Asks what is known of the ids in a sealed segment, and the segment itself where that is not enough.
    fn search_sealed(&self, segment: &Segment, search: &mut IdSearch<'a, '_>) -> Result<(), Error> {
        let ids = self.ids(segment)?;
        search.misled = false;
        let known = ids.surveyed.get();
        let index = known.and_then(|known| known.instead.as_ref()).unwrap_or(&ids.index);
        let fault = self.search_index(segment, index, search);
        let failed = fault.is_some();
        if let Some(fault) = fault
            && known.is_some()
            && search.object.is_none()
        {
            return Err(self.index_fails(segment, ids.bound, fault));
        }
        if search.object.is_some() || known.is_none() && ids.bound && !search.misled {
            return Ok(());
        }
        let surveyed = match known {
            Some(known) => known,
            None => {
                let surveyed = self.compare(segment, ids)?;
                // One that gave no answer and is right all the same could not be read for once.
                let again = surveyed.instead.as_ref().or_else(|| failed.then_some(&ids.index));
                if let Some(index) = again
                    && let Some(fault) = self.search_index(segment, index, search)
                    && search.object.is_none()
                {
                    return Err(self.index_fails(segment, ids.bound, fault));
                }
                surveyed
            }
        };
        if search.object.is_some() || surveyed.lost.is_empty() {
            return Ok(());
        }
        // What is dead was there, and is missed no more.
        let is_lost = |offset: u32| {
            surveyed.lost.iter().any(|lost| lost.range.contains(&u64::from(offset)))
                && !matches!(segment.is_live(u64::from(offset)), Ok(false))
        };
        match ids.index.find(search.oid.prefix(), is_lost) {
            Ok(Some(offset)) => {
                let at = Location(segment.location(u64::from(offset)));
                search.bad.get_or_insert((at, "the index says that the object is here, and it is not".to_owned()));
            }
            Ok(None) if ids.bound && surveyed.instead.is_none() => {}
            Ok(None) | Err(_) => search.weigh(segment, &surveyed.lost),
        }
        Ok(())
    }

    /// Asks one index of a sealed segment, and returns what is wrong with it, if something is; then it leads astray.
    fn search_index(
        &self,
        segment: &Segment,
        index: &SealedIndex,
        search: &mut IdSearch<'a, '_>,
    ) -> Option<IndexFault> {
        let fault = index.find(search.oid.prefix(), |offset| search.accepts(segment, offset)).err();
        search.misled |= fault.is_some();
        fault
    }

    /// Returns what is known of the ids in a sealed segment: from a file beside it, else from the segment, and then
    /// the file is written where that may be.
    pub(super) fn ids<'b>(&self, segment: &'b Segment) -> Result<&'b SegmentIds, Error> {
        if let Some(ids) = segment.ids.get() {
            return Ok(ids);
        }
        let _one = lock(&segment.surveying);
        if let Some(ids) = segment.ids.get() {
            return Ok(ids);
        }
        let (form, found) = match self.index_file(segment, Form::Seal) {
            None => (Form::Head, self.index_file(segment, Form::Head)),
            found => (Form::Seal, found),
        };
        if let Some(index) = found {
            return Ok(segment.ids.get_or_init(|| SegmentIds {
                index,
                bound: form == Form::Seal,
                surveyed: OnceLock::new(),
            }));
        }
        let survey = self.survey(segment)?;
        let written = self.write_index(segment, &survey);
        let ids = match self.index_file(segment, Form::Seal).filter(|_| written) {
            Some(index) => SegmentIds { index, bound: true, surveyed: OnceLock::new() },
            None => {
                let index = self.index_in_memory(segment, &survey.entries)?;
                let surveyed = Surveyed { instead: None, lost: survey.lost }.into();
                SegmentIds { index, bound: false, surveyed }
            }
        };
        Ok(segment.ids.get_or_init(|| ids))
    }

    /// Goes over a segment whose index answered that something is absent, or led astray, and sees what that index is
    /// worth.
    pub(super) fn compare<'b>(&self, segment: &Segment, ids: &'b SegmentIds) -> Result<&'b Surveyed, Error> {
        let _one = lock(&segment.surveying);
        if let Some(surveyed) = ids.surveyed.get() {
            return Ok(surveyed);
        }
        let mut survey = self.survey(segment)?;
        let right = survey.agrees_with(&ids.index, ids.bound);
        let instead = if right { None } else { Some(self.index_in_memory(segment, &survey.entries)?) };
        if survey.sealed.is_some() && self.lock.is_some() && !(right && ids.bound) {
            if self.options.background {
                self.background.index_soon(segment.number, None);
            } else {
                self.write_index(segment, &survey);
            }
        }
        Ok(ids.surveyed.get_or_init(|| Surveyed { instead, lost: survey.lost }))
    }

    /// Returns the entries of a sealed segment: of its index, and where that is damaged, of its records.
    pub(super) fn entries_of(&self, segment: &Segment) -> Result<Vec<IndexEntry>, Error> {
        self.ask_index(segment, SealedIndex::entries)
    }

    /// Asks the index of a sealed segment, and where that is damaged, or not bound to it and wrong, one that is made of its records.
    pub(super) fn ask_index<T>(
        &self,
        segment: &Segment,
        question: impl Fn(&SealedIndex) -> Result<T, IndexFault>,
    ) -> Result<T, Error> {
        let ids = self.ids(segment)?;
        let mut known = ids.surveyed.get();
        if known.is_none() && !ids.bound {
            // What it lacks would never be missed.
            known = Some(self.compare(segment, ids)?);
        }
        loop {
            let index = known.and_then(|known| known.instead.as_ref()).unwrap_or(&ids.index);
            match question(index) {
                Ok(answer) => return Ok(answer),
                Err(_) if known.is_none() => known = Some(self.compare(segment, ids)?),
                Err(fault) => return Err(self.index_fails(segment, ids.bound, fault)),
            }
        }
    }

    /// Returns the error for an index that was compared with its segment before.
    fn index_fails(&self, segment: &Segment, bound: bool, fault: IndexFault) -> Error {
        let name = if bound { Form::Seal } else { Form::Head }.name(segment.number);
        match fault {
            IndexFault::Io(error) => self.io(&name, error),
            IndexFault::Damaged => self.corrupt(&name, 0, "the segment's index was right before and is damaged now"),
        }
    }

    /// Sees to it that a sealed segment has an index that is bound to it, as far as possible; `written`: its records, where this
    /// process wrote them all and knows them.
    pub(super) fn renew_index(&self, segment: &Segment, written: Option<WrittenSegment>) -> Result<(), Error> {
        let usable = self.index_file(segment, Form::Seal);
        let distrusted = segment.ids.get().is_some_and(|ids| ids.surveyed.get().is_some());
        if usable.is_none() || distrusted {
            let survey = match written.filter(|_| !distrusted) {
                Some(WrittenSegment { tie, entries }) => {
                    SegmentSurvey { entries, sealed: Some(tie), ..SegmentSurvey::default() }
                }
                None => self.survey(segment)?,
            };
            self.write_index(segment, &survey);
        }
        Ok(())
    }

    /// Goes over a sealed segment.
    pub(super) fn survey(&self, segment: &Segment) -> Result<SegmentSurvey, Error> {
        if let Some(cold) = self.table.state.cold(segment.number) {
            let survey = SegmentSurvey::of_cold(segment, self.header.salt, cold);
            return survey.map_err(|error| self.io(&segment.name, error));
        }
        let next = self.next_head(segment.number)?;
        let end = next.map(|head| head.previous_end & 0xffff_ffff);
        let survey = SegmentSurvey::of_sealed(segment, self.header.salt, end);
        survey.map_err(|error| self.io(&segment.name, error))
    }

    /// Returns the index that the file beside a sealed segment is, if it is one and bound to the segment as its form
    /// says.
    pub(super) fn index_file(&self, segment: &Segment, form: Form) -> Option<SealedIndex> {
        let file = self.storage.open(&form.name(segment.number), OpenMode::Read).ok()?;
        // Whatever is wrong with the file, there is the segment.
        let index = SealedIndex::from_file(file, form, segment.number, segment.bytes, &self.access()).ok()??;
        let fits = match form {
            Form::Head => segment.head.is_some_and(|head| head.check == index.tie.word),
            Form::Seal => self.is_sealed_by(segment, index.tie),
        };
        fits.then_some(index)
    }

    /// Whether a segment ends in this seal: as it says itself, or the one that goes on from it where the seal is
    /// damaged.
    pub(super) fn is_sealed_by(&self, segment: &Segment, tie: Tie) -> bool {
        if segment.is_cold() {
            let cold = self.table.state.cold(segment.number);
            return cold.is_some_and(|cold| (cold.check, cold.bytes) == (tie.word, tie.end));
        }
        let seal = || {
            let at = tie.end.checked_sub(SEAL_BYTES)?;
            let (frame, head) = segment.frame(at, self.header.salt).ok()??;
            let (_, trailer) = segment.payload(at, &frame, &head).ok()??;
            (frame.kind == FrameKind::Seal).then_some(Tie { word: trailer, end: at + frame.bytes() })
        };
        if seal() == Some(tie) {
            return true;
        }
        let next = self.next_head(segment.number).ok().flatten();
        next.is_some_and(|head| (head.seed, head.previous_end) == (tie.word, segment.location(tie.end)))
    }

    /// Returns the head of the segment that goes on from this one, if that is there and sound.
    fn next_head(&self, number: u32) -> Result<Option<SegmentHead>, Error> {
        let numbers = self.table.numbers();
        let Some(&next) = numbers.get(numbers.partition_point(|&other| other <= number)) else { return Ok(None) };
        let head = self.segment(next)?.and_then(|segment| segment.head);
        Ok(head.filter(|head| head.previous == number))
    }

    fn index_in_memory(&self, segment: &Segment, entries: &[IndexEntry]) -> Result<SealedIndex, Error> {
        let bytes = encode_index(segment.number, Tie { word: 0, end: 0 }, entries);
        let index = SealedIndex::from_bytes(segment.number, bytes);
        index.ok_or_else(|| self.corrupt(&segment.name, 0, "no index can be made of this segment"))
    }

    /// Writes the index of a segment that was found to be whole, where the store is open for writing, and removes the
    /// one that it replaces. Returns whether it is there.
    fn write_index(&self, segment: &Segment, survey: &SegmentSurvey) -> bool {
        let (Some(tie), true) = (survey.sealed, self.lock.is_some()) else { return false };
        let bytes = encode_index(segment.number, tie, &survey.entries);
        // Under a name that every version takes for waste once no process holds its lock.
        let aside = format!("{SEGMENTS}/{}ids-{:016x}", SPARE, random_word());
        let written = || -> io::Result<()> {
            let file = open_empty(&self.storage, &aside).map_err(io::Error::other)?;
            file.try_lock()?;
            write_all_at(&*file, &bytes, 0)?;
            self.storage.rename(&aside, &Form::Seal.name(segment.number))
        };
        if written().is_err() {
            let _ = self.storage.remove(&aside);
            return false;
        }
        let _ = self.storage.remove(&Form::Head.name(segment.number));
        true
    }
}
