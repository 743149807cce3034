//! Which sealed segments may have an id: a filter for each run of 16 and of 256 segments, so that a lookup of what is absent asks
//! few files however many segments there are. `docs/formats/disk.md` section 5.4.
//!
//! Filters are made of indexes that are bound to their segments, by the maintenance thread, or without one by the lookup that
//! would have asked each segment. A filter that is missing, damaged or of other segments costs time and nothing else.

mod filter;

use std::{ops::RangeInclusive, sync::Arc};

use bristlecone_core::RECORD_HEADER_BYTES;

use self::filter::{Filter, FilterWriter, HEAD_BYTES, MEMBERS_MAX, Member};
use super::{
    files::{CHUNK_BYTES, SEGMENTS, SPARE, numbered, open_empty, random_word, segment_name},
    log::DiskState,
    sealed::{IndexBytes, IndexFault},
    segment::{COLD, SEGMENT_BYTES_MAX},
    state::StoreState,
    view::DiskView,
};
use crate::{
    storage::{OpenMode, StorageFile, read_exact_at, write_all_at},
    sync::{lock, read_lock, write_lock},
};

/// How many numbers of segments the runs of filters span, each a part of the next.
const SPANS: [u32; 2] = [16, 256];
const _: () = assert!(SPANS[1] as usize == MEMBERS_MAX && SPANS[1].is_multiple_of(SPANS[0]));
/// So many entries are in memory while a filter is made, about: 1 MiB.
const AT_A_TIME: u64 = 1 << 16;

/// The run of numbers that a filter is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Run {
    first: u32,
    span: u32,
}

impl Run {
    fn of(number: u32, span: u32) -> Self {
        Self { first: number - number % span, span }
    }

    const fn numbers(self) -> RangeInclusive<u32> {
        self.first..=self.first + (self.span - 1)
    }

    fn name(self) -> String {
        match self.first.checked_sub(COLD) {
            None => format!("{SEGMENTS}/{:08}-{}.flt", self.first, self.span),
            Some(place) => format!("{SEGMENTS}/{place:08}-{}.cflt", self.span),
        }
    }

    /// Returns the run of a filter whose file has this name in the segments' folder.
    pub(super) fn of_name(name: &str) -> Option<Self> {
        let (rest, base) = match name.strip_suffix(".cflt") {
            Some(rest) => (rest, COLD),
            None => (name.strip_suffix(".flt")?, 0),
        };
        let (first, span) = rest.split_once('-')?;
        let span = SPANS.into_iter().find(|known| known.to_string() == span)?;
        let first = base.checked_add(numbered(first).filter(|&first| first < COLD)?)?;
        (first % span == 0).then_some(Self { first, span })
    }

    /// Whether something that reads by one of these states, or by one in between, needs the filter.
    pub(super) fn is_needed(self, newest: &StoreState, before: &StoreState) -> bool {
        self.numbers().any(|number| before.needs(number, newest))
    }
}

const _: () = assert!(COLD.is_multiple_of(SPANS[1]), "no run is of the log and of cold segments");

/// In which order a lookup asks sealed segments and filters.
#[derive(Debug)]
pub(super) struct SearchPlan {
    // The numbers of the log's segments that it was made for, and the tail among them.
    numbers: Arc<Vec<u32>>,
    tail: u32,
    filters: Vec<Arc<(Run, Filter)>>,
    // Runs whose filters are damaged, where they cannot be made anew.
    distrusted: Vec<Run>,
    pub(super) steps: Vec<SearchStep>,
}

/// What is asked.
#[derive(Clone, Debug)]
pub(super) enum SearchStep {
    Segment(u32),
    /// A filter, and the segments that it speaks for.
    Filter(Arc<(Run, Filter)>, Vec<u32>),
}

impl SearchStep {
    /// Returns the lowest number that it may speak for.
    pub(super) fn first(&self) -> u32 {
        match self {
            Self::Segment(number) => *number,
            Self::Filter(filter, _) => filter.0.first,
        }
    }
}

impl SearchPlan {
    /// Lets go of the memory that shows filters, until they are read again.
    pub(super) fn forget_pages(&self) {
        self.filters.iter().for_each(|filter| filter.1.forget_pages());
    }

    /// Returns the bytes of memory that the filters take, and those that are mapped.
    pub(super) fn filter_bytes(&self) -> (u64, u64) {
        let filters = self.filters.iter().map(|filter| (filter.1.memory_bytes(), filter.1.mapped_bytes()));
        filters.fold((0, 0), |sum, of| (sum.0 + of.0, sum.1 + of.1))
    }
}

impl DiskView<'_> {
    /// Returns in which order to ask the log's segments before `tail` and cold ones. It may speak of later ones, too.
    pub(super) fn plan(&self, tail: u32) -> Arc<SearchPlan> {
        let numbers = self.table.numbers();
        let fits = |plan: &SearchPlan| {
            Arc::ptr_eq(&plan.numbers, &numbers)
                && plan.tail >= tail
                && plan.filters.iter().all(|filter| filter.1.is_sound())
        };
        if let Some(plan) = read_lock(&self.table.plan).as_ref().filter(|plan| fits(plan)) {
            return plan.clone();
        }
        // One thread makes it for all.
        let mut known = write_lock(&self.table.plan);
        if let Some(plan) = known.as_ref().filter(|plan| fits(plan)) {
            return plan.clone();
        }
        let plan = Arc::new(self.new_plan(numbers.clone(), tail, known.as_deref()));
        *known = Some(plan.clone());
        plan
    }

    fn new_plan(&self, numbers: Arc<Vec<u32>>, tail: u32, known: Option<&SearchPlan>) -> SearchPlan {
        let (known, mut distrusted) =
            known.map_or((&[][..], Vec::new()), |plan| (&plan.filters, plan.distrusted.clone()));
        for (run, _) in known.iter().map(|filter| &**filter).filter(|filter| !filter.1.is_sound()) {
            // Who may write makes it anew; who may not passes it over.
            if self.lock.is_none() || self.storage.remove(&run.name()).is_err() {
                distrusted.push(*run);
            }
        }
        let mut sealed: Vec<u32> = numbers[..numbers.partition_point(|&number| number < tail)].to_vec();
        sealed.extend(self.table.state.cold.iter().map(|cold| cold.number));
        let mut plan = SearchPlan { numbers, tail, filters: Vec::new(), distrusted, steps: Vec::new() };
        self.plan_runs(&sealed, SPANS.len(), known, &mut plan);
        // The newest of the log first.
        plan.steps.reverse();
        plan
    }

    /// Adds what to ask for these segments: filters of one of the first `spans` spans, the widest where there is one.
    fn plan_runs(&self, sealed: &[u32], spans: usize, known: &[Arc<(Run, Filter)>], plan: &mut SearchPlan) {
        let Some((&span, narrower)) = SPANS[..spans].split_last() else {
            return plan.steps.extend(sealed.iter().map(|&number| SearchStep::Segment(number)));
        };
        for part in sealed.chunk_by(|&one, &next| Run::of(one, span) == Run::of(next, span)) {
            let run = Run::of(part[0], span);
            // A filter for no more than a narrower one would be for brings nothing.
            let filter =
                if !plan.distrusted.contains(&run) && part.len() > narrower.last().map_or(1, |&span| span as usize) {
                    let open = known.iter().find(|filter| filter.0 == run && filter.1.is_sound()).cloned();
                    open.or_else(|| self.filter_or_new(run, part))
                } else {
                    None
                };
            let Some(filter) = filter else {
                self.plan_runs(part, spans - 1, known, plan);
                continue;
            };
            let is_member = |number: &u32| filter.1.members.iter().any(|member| member.number == *number);
            let (members, others): (Vec<u32>, Vec<u32>) = part.iter().partition(|number| is_member(number));
            plan.steps.extend(others.into_iter().map(SearchStep::Segment));
            plan.filters.push(filter.clone());
            plan.steps.push(SearchStep::Filter(filter, members));
        }
    }

    /// Opens the filter of a run, and makes or asks for it where it is missing.
    fn filter_or_new(&self, run: Run, sealed: &[u32]) -> Option<Arc<(Run, Filter)>> {
        if let Some(filter) = self.open_filter(run, sealed) {
            return Some(Arc::new((run, filter)));
        }
        if self.lock.is_none() || !self.is_complete(run, sealed) {
            return None;
        }
        if self.options.background {
            self.background.filter_soon(run);
            return None;
        }
        self.make_filter(run)?;
        Some(Arc::new((run, self.open_filter(run, sealed)?)))
    }

    /// Whether no segment will be added to a run any more.
    fn is_complete(&self, run: Run, sealed: &[u32]) -> bool {
        if run.first >= COLD {
            // The number of the next cold segment is above all.
            return self.table.state.cold.last().is_some_and(|last| last.number >= *run.numbers().end());
        }
        sealed.last() == Some(run.numbers().end())
    }

    /// Opens the filter of a run, if there is one and it is of the segments that there are.
    fn open_filter(&self, run: Run, sealed: &[u32]) -> Option<Filter> {
        let file = self.storage.open(&run.name(), OpenMode::Read).ok()?;
        let end = file.len().ok()?;
        // All of it may be read, and any file may have the name.
        let mut head = [0; HEAD_BYTES];
        read_exact_at(&*file, &mut head, 0).ok()?;
        if Filter::bytes_of(&head, run.first) != Some(end)
            || end > CHUNK_BYTES && !self.may_have(sealed, Filter::count_of(&head))
        {
            return None;
        }
        let bytes = IndexBytes::open(file, end, &self.access()).ok()?;
        let filter = Filter::read(bytes, end, run.first).ok()??;
        let of = |number: u32| filter.members.iter().find(|member| member.number == number);
        let fits = if run.first >= COLD {
            sealed.iter().all(|&number| of(number).is_none_or(|member| self.cold_is(member)))
        } else {
            // Each seal depends on the segments before, as far as members follow one another.
            let last = filter.members.last()?;
            let follow = filter.members.is_sorted_by(|one, next| one.number.checked_add(1) == Some(next.number));
            follow && self.segment(last.number).ok()?.is_some_and(|segment| self.is_sealed_by(segment, last.tie))
        };
        fits.then_some(filter)
    }

    /// Whether segments have room for so many records together. A file may be said to be of more, and have no bytes but holes.
    pub(super) fn may_have(&self, numbers: &[u32], records: u64) -> bool {
        let bytes_of = |number: u32| match (self.table.get(number), self.table.state.cold(number)) {
            (Some(segment), _) => segment.bytes,
            (None, Some(cold)) => cold.bytes,
            // Not every storage tells.
            (None, None) => self.storage.stat(&segment_name(number)).map_or(SEGMENT_BYTES_MAX, |found| found.bytes),
        };
        let mut left = records;
        for &number in numbers {
            if left == 0 {
                break;
            }
            left = left.saturating_sub(bytes_of(number) / RECORD_HEADER_BYTES as u64);
        }
        left == 0
    }

    fn cold_is(&self, member: &Member) -> bool {
        let cold = self.table.state.cold(member.number);
        cold.is_some_and(|cold| (cold.check, cold.bytes) == (member.tie.word, member.tie.end))
    }

    /// Makes the filter of a run of which all segments are sealed, and removes those that it replaces. `None` if that is not possible now.
    pub(super) fn make_filter(&self, run: Run) -> Option<()> {
        let sealed = self.sealed_in(run);
        if sealed.is_empty() || !self.is_complete(run, &sealed) {
            return None;
        }
        let members: Vec<Member> = sealed.iter().map(|&number| self.member(number)).collect::<Option<_>>()?;
        if run.first < COLD && !self.follow(&members) {
            return None;
        }
        let aside = format!("{SEGMENTS}/{SPARE}flt-{:016x}", random_word());
        let file = open_empty(&self.storage, &aside).ok()?;
        let written = file.try_lock().is_ok() && matches!(self.write_filter(&file, run, &members), Ok(Some(())));
        if !written || self.storage.rename(&aside, &run.name()).is_err() {
            let _ = self.storage.remove(&aside);
            return None;
        }
        for span in SPANS.into_iter().filter(|&span| span < run.span) {
            for first in run.numbers().step_by(span as usize) {
                let _ = self.storage.remove(&Run { first, span }.name());
            }
        }
        Some(())
    }

    /// Returns the numbers of the sealed segments in a run.
    fn sealed_in(&self, run: Run) -> Vec<u32> {
        let tail = (self.published.end() >> 32) as u32;
        let is_sealed = |&number: &u32| run.numbers().contains(&number) && (number < tail || number >= COLD);
        self.table.all_numbers().into_iter().filter(is_sealed).collect()
    }

    /// Returns a segment as a member of a filter, if its index is bound to it and in the order of ids.
    fn member(&self, number: u32) -> Option<Member> {
        let segment = self.segment(number).ok()??;
        let ids = self.ids(segment).ok()?;
        let serves = ids.bound && ids.surveyed.get().is_none() && ids.index.is_in_order();
        serves.then_some(Member { number, tie: ids.index.tie })
    }

    /// Whether each of these segments of the log goes on from the one before.
    fn follow(&self, members: &[Member]) -> bool {
        members.is_sorted_by(|one, next| {
            let head = self.segment(next.number).ok().flatten().and_then(|segment| segment.head);
            next.number == one.number + 1
                && head.is_some_and(|head| {
                    let end = u64::from(one.number) << 32 | one.tie.end;
                    (head.previous, head.seed, head.previous_end) == (one.number, one.tie.word, end)
                })
        })
    }

    /// Writes a filter; `None` if none can be made of these segments.
    fn write_filter(
        &self,
        file: &Arc<dyn StorageFile>,
        run: Run,
        members: &[Member],
    ) -> Result<Option<()>, IndexFault> {
        let mut indexes = Vec::new();
        for member in members {
            let segment = self.segment(member.number).ok().flatten();
            let Some(ids) = segment.and_then(|segment| segment.ids.get()) else { return Ok(None) };
            indexes.push(&ids.index);
        }
        let count = indexes.iter().map(|index| index.count()).sum();
        let mut write = |bytes: &[u8], at: u64| write_all_at(&**file, bytes, at);
        let Some(mut writer) = FilterWriter::new(run.first, members, count, &mut write) else { return Ok(None) };
        let ranges = writer.ranges(AT_A_TIME);
        let mut entries = Vec::new();
        for range in 0..ranges {
            if self.background.maintenance.is_stopping() {
                return Ok(None);
            }
            entries.clear();
            for (place, index) in indexes.iter().enumerate() {
                let each = &mut |(prefix, _): (u64, u32)| entries.push((prefix.swap_bytes(), place as u8));
                index.each_between(writer.keys(range, ranges), each)?;
            }
            if !writer.put(range, ranges, &mut entries)? {
                return Ok(None);
            }
        }
        Ok(writer.finish()?.then_some(()))
    }
}

impl DiskState {
    /// Makes the filters that lookups asked for, and those of runs that just became complete.
    pub(super) fn make_filters(&self) {
        let asked = std::mem::take(&mut lock(&self.background.jobs).filters);
        let table = self.table();
        for run in asked {
            if self.background.maintenance.is_stopping() {
                return;
            }
            let view = self.view(&table);
            if view.open_filter(run, &view.sealed_in(run)).is_none() && view.make_filter(run).is_some() {
                *write_lock(&table.plan) = None;
            }
        }
    }
}
