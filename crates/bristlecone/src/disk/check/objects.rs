//! Walking over all objects, part by part.

use std::{io, num::NonZero, ops::Range, sync::Arc};

use bristlecone_core::{Bytes, Location, Object, Oid, Record};

use super::{lost_record, parts::in_order};
use crate::{
    Error,
    backend::Damage,
    disk::{
        cold::COLD_HEAD_BYTES,
        frame::{Frame, FrameKind, HEAD_BYTES},
        log::DiskState,
        salvage::{EachRecord, Stretch},
        segment::{COLD, Segment},
        survey::{each_record, salvage_gap},
        table::SegmentTable,
        view::DiskView,
        walk::{FrameStep, FrameWalk},
    },
};

/// After so many objects of a part maps are held to their budget.
const TRIM_EVERY: u32 = 256;

/// The objects that a store had at a time, in parts that threads can go through beside each other.
///
/// ```
/// use std::{num::NonZero, sync::Arc};
///
/// use bristlecone::{
///     DiskOptions, Native, Repo,
///     disk::{DiskBackend, ObjectPart},
///     storage::RealStorage,
/// };
///
/// # let dir = tempfile::tempdir()?;
/// # let repo = Repo::create(dir.path(), Native::new(), DiskOptions::default())?;
/// # let mut tree = repo.tree();
/// # tree.set("a", "b")?;
/// # tree.write()?;
/// let disk = DiskBackend::open(Arc::new(RealStorage::new(dir.path())), None, DiskOptions::default(), true)?;
/// let count_part = |part: &ObjectPart<'_>| {
///     let mut count = 0;
///     part.each_object(&mut |_, _| Ok(count += 1), &mut |damage| eprintln!("{}", damage.reason))?;
///     Ok(count)
/// };
/// let mut count = 0;
/// disk.objects()?.each_part(NonZero::new(2).unwrap(), &count_part, &mut |in_part: u64| Ok(count += in_part))?;
/// assert_eq!(count, 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct ObjectParts<'s> {
    state: &'s DiskState,
    table: Arc<SegmentTable>,
    // Where the log ended.
    end: u64,
    parts: Vec<Part>,
}

/// One part of the objects of a store.
#[derive(Debug)]
pub struct ObjectPart<'s> {
    view: DiskView<'s>,
    end: u64,
    part: &'s Part,
}

#[derive(Debug)]
enum Part {
    Segment(u32),
    /// The segments of the log that are missing: found out last, when the others are open.
    Missing {
        numbers: Vec<u32>,
    },
}

impl<'s> ObjectParts<'s> {
    pub(in crate::disk) fn new(state: &'s DiskState) -> Result<Self, Error> {
        state.refresh()?;
        let (table, end) = state.table_and_end();
        let numbers = table.numbers();
        let last = (end >> 32) as u32;
        let numbers = numbers.iter().copied().take_while(|&number| number <= last);
        let cold = table.state.cold.iter().map(|cold| cold.number);
        let numbers: Vec<u32> = numbers.chain(cold).collect();
        let mut parts: Vec<Part> = numbers.iter().map(|&number| Part::Segment(number)).collect();
        parts.push(Part::Missing { numbers });
        Ok(Self { state, table, end, parts })
    }

    /// Calls `each` for every object once, part after part, and reports damage.
    pub(in crate::disk) fn each_object(
        &self,
        each: &mut dyn FnMut(Oid, &Object<'_>) -> Result<(), Error>,
        damage: &mut dyn FnMut(Damage),
    ) -> Result<(), Error> {
        self.parts.iter().try_for_each(|part| {
            let done = self.part(part).each_object(each, damage);
            self.state.trim_read_once();
            done
        })
    }

    fn part<'p>(&'p self, part: &'p Part) -> ObjectPart<'p> {
        ObjectPart { view: self.state.view(&self.table), end: self.end, part }
    }

    /// Calls `work` with every part on at most so many threads, and `take` with what that returned, on the calling thread: in the
    /// same order whatever the number of threads is. What the parts hold depends on how the store was written.
    ///
    /// Memory of maps is let go of beyond [`map_bytes`](crate::DiskOptions::map_bytes), and beyond 192 MiB, since all is read once.
    ///
    /// # Errors
    /// The first of `work` or `take`, in that order.
    pub fn each_part<T: Send>(
        &self,
        threads: NonZero<usize>,
        work: &(impl Fn(&ObjectPart<'_>) -> Result<T, Error> + Sync),
        take: &mut dyn FnMut(T) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let work = |part: usize| {
            let done = work(&self.part(&self.parts[part]));
            self.state.trim_read_once();
            done
        };
        in_order(threads.get(), self.parts.len(), &work, &mut |_, done| take(done))
    }
}

impl ObjectPart<'_> {
    /// Calls `each` for the objects of the part, in no order. Damaged ones are reported to `damage` and passed over. An object is
    /// in one part.
    ///
    /// # Errors
    /// [`Error::Io`]; [`Error::Expired`] where a later collection has removed what was to be gone through; whatever `each` returns.
    pub fn each_object(
        &self,
        each: &mut dyn FnMut(Oid, &Object<'_>) -> Result<(), Error>,
        damage: &mut dyn FnMut(Damage),
    ) -> Result<(), Error> {
        let view = self.view;
        let last = (self.end >> 32) as u32;
        let mut given = 0_u32;
        let each = &mut |oid, object: &Object<'_>| {
            given += 1;
            // Who is given objects reads others, all over the store.
            if given.is_multiple_of(TRIM_EVERY) {
                view.state.trim_read_once();
            }
            each(oid, object)
        };
        match self.part {
            Part::Segment(number) => match view.segment(*number) {
                // Without its marks it cannot be opened.
                Err(error) => {
                    damage(Damage::of(error)?);
                    Ok(())
                }
                Ok(segment) => match segment {
                    Some(segment) if *number >= COLD => view.cold_objects(segment, each, damage),
                    Some(segment) => {
                        view.log_objects(segment, (*number == last).then_some(self.end & 0xffff_ffff), each, damage)
                    }
                    None => Ok(()),
                },
            },
            Part::Missing { numbers } => {
                let mut gone: Vec<_> = view.table.missing(&view.table.numbers(), last).collect();
                for &number in numbers {
                    if matches!(view.segment(number), Ok(None)) {
                        gone.push(number..=number);
                    }
                }
                view.missing_damage(gone)?.into_iter().for_each(damage);
                Ok(())
            }
        }
    }
}

impl DiskView<'_> {
    /// Calls `each` for the objects of a segment of the log; `upto`: where the log ends in it, if it does.
    fn log_objects(
        &self,
        segment: &Segment,
        upto: Option<u64>,
        each: &mut dyn FnMut(Oid, &Object<'_>) -> Result<(), Error>,
        damage: &mut dyn FnMut(Damage),
    ) -> Result<(), Error> {
        let to = upto.unwrap_or(segment.bytes);
        let mut walk = FrameWalk::new(segment, self.header.salt, segment.frames_at(), to);
        let mut sealed = upto.is_some();
        while let Some(step) = walk.step().map_err(|error| self.io(&segment.name, error))? {
            match step {
                FrameStep::Gap { offset, end } => {
                    damage(self.damage(&segment.name, offset, None, "there is no frame here"));
                    self.salvaged_objects(
                        segment,
                        &|each| salvage_gap(segment, offset..end, each),
                        false,
                        each,
                        damage,
                    )?;
                }
                FrameStep::Frame { offset, frame, .. } => {
                    sealed |= frame.kind == FrameKind::Seal;
                    self.objects_of(segment, offset, &frame, each, damage)?;
                }
            }
        }
        if !sealed || upto.is_some() && walk.at < to {
            damage(self.damage(&segment.name, walk.at, None, "there is no frame here, and none behind it"));
        }
        Ok(())
    }

    /// Calls `each` for the objects of a frame.
    fn objects_of(
        &self,
        segment: &Segment,
        frame_at: u64,
        frame: &Frame,
        each: &mut dyn FnMut(Oid, &Object<'_>) -> Result<(), Error>,
        damage: &mut dyn FnMut(Damage),
    ) -> Result<(), Error> {
        let failed = |error| self.io(&segment.name, error);
        let record_bytes = u64::from(frame.record_bytes);
        if !segment.records_right(frame_at, frame).map_err(failed)? {
            let records_at = frame_at + HEAD_BYTES as u64;
            let stretch = Stretch::of_records(records_at..records_at + record_bytes);
            return self.salvaged_objects(segment, &|each| stretch.salvage(segment, each), true, each, damage);
        }
        let mut result = Ok(());
        let stopped = each_record(segment, frame_at, record_bytes, &mut |at, record, bytes| {
            if result.is_err() {
                return;
            }
            let wrong = match record.verify(bytes) {
                Ok(()) => match self.give(segment, at, record, bytes, each) {
                    Ok(true) => return,
                    Ok(false) => "the object is here, and lookups by its id do not find it".to_owned(),
                    Err(error) => return result = Err(error),
                },
                Err(error) => error.to_string(),
            };
            damage(self.damage(&segment.name, at, Oid::new(record.oid).ok(), wrong));
        });
        if let Some(at) = stopped.map_err(failed)? {
            damage(self.damage(&segment.name, at, None, "there is no record here"));
        }
        result
    }

    /// Calls `each` for the objects of a cold segment that are live.
    fn cold_objects(
        &self,
        segment: &Segment,
        each: &mut dyn FnMut(Oid, &Object<'_>) -> Result<(), Error>,
        damage: &mut dyn FnMut(Damage),
    ) -> Result<(), Error> {
        let stretch = Stretch::of_records(COLD_HEAD_BYTES..segment.bytes.max(COLD_HEAD_BYTES));
        self.salvaged_objects(segment, &|each| stretch.salvage(segment, each), true, each, damage)
    }

    /// Calls `each` for the objects that `salvage` finds in a damaged stretch, and `damage` for what lies between them, if that is to
    /// be `told`. Where marks do not tell any more what is live, they are damaged, and that is not given.
    fn salvaged_objects(
        &self,
        segment: &Segment,
        salvage: &dyn Fn(EachRecord<'_>) -> io::Result<Vec<Range<u64>>>,
        told: bool,
        each: &mut dyn FnMut(Oid, &Object<'_>) -> Result<(), Error>,
        damage: &mut dyn FnMut(Damage),
    ) -> Result<(), Error> {
        let failed = |error| self.io(&segment.name, error);
        let (mut result, mut unmarked, mut checked) = (Ok(()), None, None);
        let uncovered = salvage(&mut |at, record, bytes| {
            if result.is_ok() {
                match segment.is_next_live(at, &mut checked) {
                    Ok(true) => {}
                    Ok(false) => return,
                    Err(error) => {
                        unmarked.get_or_insert(error);
                        return;
                    }
                }
                result = self.give(segment, at, record, bytes, each).map(|_| ());
            }
        });
        for range in uncovered.map_err(failed)?.into_iter().filter(|_| told) {
            let mut buffer = Vec::new();
            let bytes = segment.window(range.start, range.end - range.start, &mut buffer).map_err(failed)?;
            let (oid, reason) = lost_record(bytes);
            damage(self.damage(&segment.name, range.start, oid, reason));
        }
        result?;
        if let Some(error) = unmarked {
            damage(Damage::of(self.unmarked(segment, error))?);
        }
        Ok(())
    }

    /// Calls `each` with the object of a sound record, unless it was appended again: that one is given where its index
    /// leads. Returns whether a lookup of its id finds something.
    fn give(
        &self,
        segment: &Segment,
        at: u64,
        record: &Record<'_>,
        bytes: &[u8],
        each: &mut dyn FnMut(Oid, &Object<'_>) -> Result<(), Error>,
    ) -> Result<bool, Error> {
        let Ok(oid) = Oid::new(record.oid) else { return Ok(true) };
        let own = Location(segment.location(at));
        let found = self.find(&oid);
        if !matches!(&found, Ok(Some(found)) if found.location() != own) {
            let whole = Bytes::Borrowed(&bytes[..record.bytes() as usize]);
            each(oid, &Object::from_record(record, whole, own))?;
        }
        Ok(!matches!(found, Ok(None)))
    }
}
