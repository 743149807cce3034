//! Checking everything there is to check, and walking over all objects.
//!
//! Threads check one segment each, by itself. What holds between two segments is compared as the findings come together, in the
//! order of the segments: the report is the same for any number of threads.

mod objects;
mod parts;
mod segment;

use std::{collections::BTreeMap, num::NonZero, ops::RangeInclusive};

use bristlecone_core::{Object, Oid, Record};

pub use self::objects::{ObjectPart, ObjectParts};
use self::{parts::in_order, segment::SegmentFindings};
use super::{
    files::{SEGMENTS, segment_name},
    find::missing_text,
    log::{DiskState, Tail},
    refs::{RefTable, RefTableName},
    sealed::Form,
    segment::COLD,
    view::DiskView,
};
use crate::{Error, backend::Damage};

/// What a check went through.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CheckSummary {
    /// Segments.
    pub segments: u64,
    /// Frames.
    pub frames: u64,
    /// Records, each copy of an object counted.
    pub records: u64,
    /// Bytes of the log.
    pub bytes: u64,
    /// How often damage was reported.
    pub damages: u64,
    /// Indexes that are not those of their segments. Lookups pass them over; nothing is lost with them.
    pub stale_indexes: u64,
    /// The files of those indexes.
    pub stale_index_files: Vec<String>,
    /// Bytes behind the last frame that are no frame: the start of an append that a crash cut short, or a
    /// flip in the very last one. It is no part of the store.
    pub torn_tail: Option<Damage>,
}

impl DiskState {
    /// Checks every frame, record, seal and index, and reports what is damaged.
    pub(super) fn check(&self, threads: NonZero<usize>, report: &mut dyn FnMut(Damage)) -> Result<CheckSummary, Error> {
        self.refresh()?;
        let (table, end) = self.table_and_end();
        self.view(&table).check((end >> 32) as u32, threads, report)
    }

    /// Calls `each` for every object once, and reports damage.
    pub(super) fn each_object(
        &self,
        each: &mut dyn FnMut(Oid, &Object<'_>) -> Result<(), Error>,
        damage: &mut dyn FnMut(Damage),
    ) -> Result<(), Error> {
        ObjectParts::new(self)?.each_object(each, damage)
    }

    fn damage(&self, name: &str, offset: u64, oid: Option<Oid>, reason: impl Into<String>) -> Damage {
        Damage { file: self.storage.describe(name), offset, oid, reason: reason.into() }
    }
}

/// The forms of the indexes that segments have, by their numbers.
type IndexForms = BTreeMap<u32, Vec<Form>>;

impl DiskView<'_> {
    /// `last`: the segment in which the log ends.
    fn check(&self, last: u32, threads: NonZero<usize>, report: &mut dyn FnMut(Damage)) -> Result<CheckSummary, Error> {
        let mut check = Check {
            shared: *self,
            summary: CheckSummary::default(),
            stale: Vec::new(),
            tables: Vec::new(),
            expected: None,
            gone: Vec::new(),
            report,
        };
        if let Some(lost) = self.lost_end.get() {
            check.damage_is(lost.clone());
        }
        let log = self.table.numbers();
        let cold = self.table.state.cold.iter().map(|cold| cold.number);
        let numbers: Vec<u32> = log.iter().copied().take_while(|&number| number <= last).chain(cold).collect();
        let mut forms = self.index_forms(last)?;
        let of = |number: u32| forms.get(&number).map_or(&[][..], |forms| &forms[..]);
        let work = |part: usize| {
            let findings = self.check_segment(numbers[part], last, of(numbers[part]));
            self.trim_read_once();
            findings
        };
        in_order(threads.get(), numbers.len(), &work, &mut |part, findings| {
            check.take(numbers[part], findings);
            Ok(())
        })?;
        check.gone.extend(self.table.missing(&log, last));
        if let Some(damage) = self.missing_damage(std::mem::take(&mut check.gone))? {
            check.damage_is(damage);
        }
        check.tables()?;
        numbers.iter().for_each(|number| _ = forms.remove(number));
        check.stale.extend(forms.iter().flat_map(|(&number, forms)| forms.iter().map(move |form| form.name(number))));
        Ok(check.finish())
    }

    /// Lists the indexes that there are.
    fn index_forms(&self, last: u32) -> Result<IndexForms, Error> {
        let mut all = IndexForms::new();
        for name in self.storage.list(SEGMENTS).map_err(|error| self.io(SEGMENTS, error))? {
            let Some((number, form)) = Form::of_name(&name) else { continue };
            // The check passes over segments that were sealed since it began.
            if self.table.has(number) && (number <= last || number >= COLD) {
                all.entry(number).or_default().push(form);
            }
        }
        Ok(all)
    }

    /// Returns the one finding that names all segments that are missing.
    ///
    /// # Errors
    /// [`Error::Expired`] where a collection that did not wait for this process may have removed them.
    fn missing_damage(&self, mut gone: Vec<RangeInclusive<u32>>) -> Result<Option<Damage>, Error> {
        gone.sort_unstable_by_key(|range| *range.start());
        let Some(first) = gone.first().map(|range| segment_name(*range.start())) else { return Ok(None) };
        match self.expired(&first) {
            Some(expired) => Err(expired),
            None => Ok(Some(self.damage(&first, 0, None, missing_text(&gone)))),
        }
    }
}

/// Returns which object's record these bytes were, where that can be told, and what is wrong with them.
fn lost_record(bytes: &[u8]) -> (Option<Oid>, String) {
    let whole = Record::parse(bytes).ok();
    match whole.and_then(|record| Some((Oid::new(record.oid).ok()?, record.verify(bytes).err()?))) {
        Some((oid, error)) => (Some(oid), error.to_string()),
        None => (None, "there is no record here".to_owned()),
    }
}

/// What was found so far.
struct Check<'a> {
    shared: DiskView<'a>,
    summary: CheckSummary,
    // The names of indexes that are not those of their segments.
    stale: Vec<String>,
    // The tables of refs that heads of segments name.
    tables: Vec<RefTableName>,
    // What the next segment should go on from.
    expected: Option<Tail>,
    gone: Vec<RangeInclusive<u32>>,
    report: &'a mut dyn FnMut(Damage),
}

impl Check<'_> {
    /// Takes what was found in the next segment.
    fn take(&mut self, number: u32, found: SegmentFindings) {
        let expected = self.expected.take().filter(|tail| tail.segment + 1 == number);
        if found.is_missing {
            self.gone.push(number..=number);
        }
        if let (Some(from), Some(tail)) = (found.from, expected)
            && from != (tail.chain, tail.sequence)
        {
            self.damage(&segment_name(number), 0, "the segment does not go on from the one before");
        }
        found.damages.into_iter().for_each(|damage| self.damage_is(damage));
        self.expected = found.tail;
        self.tables.extend(found.tables);
        self.stale.extend(found.stale);
        let summary = &mut self.summary;
        summary.segments += u64::from(!found.is_missing);
        summary.frames += found.frames;
        summary.records += found.records;
        summary.bytes += found.bytes;
        summary.torn_tail = summary.torn_tail.take().or(found.torn_tail);
    }

    fn finish(mut self) -> CheckSummary {
        self.stale.sort_unstable();
        self.summary.stale_indexes = self.stale.len() as u64;
        self.summary.stale_index_files = self.stale.iter().map(|name| self.shared.storage.describe(name)).collect();
        self.summary
    }

    /// Checks the tables of refs.
    fn tables(&mut self) -> Result<(), Error> {
        let mut names = std::mem::take(&mut self.tables);
        names.sort_unstable_by_key(|table| (table.number, table.check));
        names.dedup();
        let shared = self.shared;
        for name in names {
            let mut failed = Vec::new();
            match RefTable::open(&shared.storage, shared.header.salt, name) {
                Ok(table) => table.check(&mut |error| failed.push(error)),
                Err(error) => failed.push(error),
            }
            for error in failed {
                self.damage_is(Damage::of(error)?);
            }
        }
        Ok(())
    }

    fn damage(&mut self, name: &str, offset: u64, reason: &str) {
        self.damage_is(self.shared.damage(name, offset, None, reason));
    }

    fn damage_is(&mut self, damage: Damage) {
        self.summary.damages += 1;
        (self.report)(damage);
    }
}
