//! Objects by the first digits of their ids: in the tail by its ids in order, in sealed segments by their sorted indexes.

use std::ops::RangeInclusive;

use bristlecone_core::{Location, Object, Oid, OidPrefix, RECORD_HEADER_BYTES, RecordHeader};

use super::{files::segment_name, read::Probe, segment::Segment, survey::SegmentSurvey, view::DiskView};
use crate::{Error, sync::write_lock};

/// Where each object is handed to.
type Each<'e> = &'e mut dyn FnMut(Oid, &Object<'_>) -> Result<(), Error>;

impl DiskView<'_> {
    /// Calls `each` for the objects whose ids begin with these digits; a copy of one may come again. Damaged ones are passed over.
    ///
    /// # Errors
    /// [`Error::Io`], and what `each` returns; [`Error::Expired`] where a later collection has removed what the table has.
    pub(super) fn each_with_prefix(&self, prefix: &OidPrefix, each: Each<'_>) -> Result<(), Error> {
        let tail = self.tail_with_prefix(prefix, each)?;
        let numbers = self.table.numbers();
        let sealed = numbers[..numbers.partition_point(|&number| number < tail)].iter().copied();
        let cold = self.table.state.cold.iter().map(|cold| cold.number);
        for number in sealed.chain(cold) {
            let found = self.segment(number).and_then(|segment| {
                let Some(segment) = segment else { return self.expired(&segment_name(number)).map_or(Ok(None), Err) };
                Ok(Some((segment, self.sealed_between(segment, &prefix.first_words())?)))
            });
            let (segment, found) = match found {
                Ok(Some(found)) => found,
                Ok(None) | Err(Error::Corrupt { .. }) => continue,
                Err(error) => return Err(error),
            };
            for (oid, offset) in found {
                self.if_it_begins_so(segment, oid, offset, prefix, each)?;
            }
        }
        Ok(())
    }

    /// Returns the ids in a sealed segment whose first words are in a range, and where their records are.
    fn sealed_between(&self, segment: &Segment, keys: &RangeInclusive<u64>) -> Result<Vec<(Oid, u32)>, Error> {
        let ids = self.ids(segment)?;
        let offsets = || {
            self.ask_index(segment, |index| {
                let mut offsets = Vec::new();
                index.each_between(keys.clone(), &mut |(_, offset)| offsets.push(offset))?;
                Ok(offsets)
            })
        };
        let mut found = self.ids_at(segment, &offsets()?)?;
        if !found.iter().all(|found| found.is_some_and(|(oid, _)| keys.contains(&oid.prefix().swap_bytes())))
            && ids.surveyed.get().is_none()
        {
            // The index leads astray.
            self.compare(segment, ids)?;
            found = self.ids_at(segment, &offsets()?)?;
        }
        Ok(found.into_iter().flatten().collect())
    }

    /// Asks the tail, and returns the segment that it is.
    fn tail_with_prefix(&self, prefix: &OidPrefix, each: Each<'_>) -> Result<u32, Error> {
        let mut index = write_lock(&self.tail_index);
        // Read under the lock, so that what is sorted never goes back.
        let end = self.published.end();
        let (number, upto) = ((end >> 32) as u32, end & 0xffff_ffff);
        let Some(segment) = self.segment(number)? else {
            drop(index);
            return self.expired(&segment_name(number)).map_or(Ok(number), Err);
        };
        if index.segment != number {
            index.reset(number, segment.frames_at());
        }
        let from = index.sorted.upto.max(segment.frames_at());
        if from < upto {
            let survey = SegmentSurvey::of_frames(segment, self.header.salt, from, upto);
            let survey = survey.map_err(|error| self.io(&segment.name, error))?;
            index.sorted.extend(survey.entries.into_iter(), upto);
        }
        let offsets: Vec<u32> = index.sorted.between(&prefix.first_words()).collect();
        drop(index);
        for (oid, offset) in self.ids_at(segment, &offsets)?.into_iter().flatten() {
            self.if_it_begins_so(segment, oid, offset, prefix, each)?;
        }
        Ok(number)
    }

    /// Returns the ids of the records at some offsets; `None` where there is none.
    fn ids_at(&self, segment: &Segment, offsets: &[u32]) -> Result<Vec<Option<(Oid, u32)>>, Error> {
        let header_bytes = RECORD_HEADER_BYTES as u64;
        let id_at = |&offset: &u32| {
            let at = u64::from(offset);
            if !at.is_multiple_of(8) || at + header_bytes > segment.bytes {
                return Ok(None);
            }
            let header = segment.bytes_at(at, header_bytes).map_err(|error| self.io(&segment.name, error))?;
            let oid = RecordHeader::first(&header).and_then(|header| Oid::new(header.oid()?).ok());
            Ok(oid.map(|oid| (oid, offset)))
        };
        offsets.iter().map(id_at).collect()
    }

    /// Calls `each` for the object at an offset, if its id begins so.
    fn if_it_begins_so(
        &self,
        segment: &Segment,
        oid: Oid,
        offset: u32,
        prefix: &OidPrefix,
        each: Each<'_>,
    ) -> Result<(), Error> {
        if !prefix.matches(&oid) {
            return Ok(());
        }
        match self.probe(&oid, Location(segment.location(u64::from(offset)))) {
            Ok(Probe::Found(object)) => each(oid, &object),
            Ok(_) | Err(Error::Corrupt { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }
}
