//! What both kinds of index are: records, and the table that leads to them.

use std::{
    fs::File,
    hash::{BuildHasher, RandomState},
    ops::RangeInclusive,
    path::{Path, PathBuf},
};

use super::{
    IndexError, IndexPart, Indexed, Slots,
    bytes::failed,
    records::{Field, Records},
    table::{Added, GROWN_MAX, Glance, Table},
};
use crate::{BlockHash, BlockPlace, Point};

/// The file of records in the folder of an index.
pub(super) const RECORDS: &str = "records";
/// The file of the table in the folder of an index.
pub(super) const TABLE: &str = "table";

/// Records and their table, in memory or in a folder.
pub(super) struct Chain {
    dir: Option<PathBuf>,
    pub(super) records: Records,
    pub(super) table: Table,
    tip: Option<Indexed>,
    /// A sync failed: what is durable is not known.
    failed: bool,
    /// The damage for which the table was made anew.
    repaired: Option<IndexError>,
    /// A record is damaged: the next opening must look at all of them.
    damaged: bool,
}

impl Chain {
    /// Makes an empty index in memory, or in a folder.
    pub(super) fn create(dir: Option<&Path>) -> Result<Self, IndexError> {
        let records = Records::create(dir.map(|dir| dir.join(RECORDS)).as_deref(), random())?;
        let path = dir.map(|dir| dir.join(TABLE));
        let table = Table::of_records(path.as_deref(), &records, [random(), random()], 0)?;
        Ok(Self::of(dir, records, table))
    }

    /// Opens the index of a folder, and says whether its table was as it should be.
    pub(super) fn open(dir: &Path) -> Result<(Self, bool), IndexError> {
        let records = Records::open(&dir.join(RECORDS))?;
        let (table, clean) = match Table::open(&dir.join(TABLE), &records)? {
            Some(table) => (table, true),
            None => (replace(Some(dir), &records, [random(), random()], 0)?, false),
        };
        let mut chain = Self::of(Some(dir), records, table);
        chain.tip = chain.last()?;
        Ok((chain, clean))
    }

    fn of(dir: Option<&Path>, records: Records, table: Table) -> Self {
        let dir = dir.map(Into::into);
        Self { dir, records, table, tip: None, failed: false, repaired: None, damaged: false }
    }

    pub(super) fn insert(&mut self, point: &Point, place: BlockPlace) -> Result<(), IndexError> {
        // A damaged bucket is found before anything changes.
        match self.try_insert(point, place) {
            Err(error @ IndexError::Damaged { .. }) => {
                self.repair_after(error)?;
                self.try_insert(point, place)
            }
            done => done,
        }
    }

    fn try_insert(&mut self, point: &Point, place: BlockPlace) -> Result<(), IndexError> {
        self.refuse_failed()?;
        if let Some(Indexed { point: tip, .. }) = self.tip {
            let ascends = point.slot > tip.slot || point.number > tip.number;
            if point.slot < tip.slot || point.number < tip.number || !ascends {
                return Err(IndexError::OutOfOrder { point: *point, tip });
            }
        }
        let Some(offset) = u32::try_from(place.offset).ok().filter(|_| self.records.count < u32::MAX) else {
            return Err(IndexError::TooLarge { point: *point, offset: place.offset });
        };
        if let Some(number) = self.table.find(&point.hash, &self.records)? {
            return Err(IndexError::Duplicate { point: *point, other: self.records.get(number)?.point });
        }
        self.records.reserve()?;
        self.mark_changing()?;
        if self.table.is_full(self.records.count) {
            self.rebuild_table(0)?;
        }
        let mut grown = 0;
        while self.table.add(&point.hash, self.records.count, true)? == Added::Full {
            grown = self.table.grown(self.records.count).max(grown) + 1;
            if grown > GROWN_MAX {
                return Err(IndexError::Crowded { point: *point });
            }
            self.rebuild_table(grown)?;
        }
        let block = Indexed { point: *point, place };
        self.records.push(&block, offset);
        self.tip = Some(block);
        Ok(())
    }

    #[inline]
    pub(super) fn by_hash(&self, hash: &BlockHash) -> Result<Option<Indexed>, IndexError> {
        match self.table.glance(hash) {
            Glance::Likely(number) => {
                if let Some(block) = self.records.with_hash(number, hash) {
                    return Ok(Some(block));
                }
            }
            Glance::Absent => return Ok(None),
            Glance::Unknown => {}
        }
        self.search(hash)
    }

    /// Finds a block in all places where it may be.
    #[inline(never)]
    fn search(&self, hash: &BlockHash) -> Result<Option<Indexed>, IndexError> {
        self.table.find(hash, &self.records)?.map(|number| self.records.get(number)).transpose()
    }

    #[inline]
    pub(super) fn has(&self, hash: &BlockHash) -> Result<bool, IndexError> {
        Ok(self.by_hash(hash)?.is_some())
    }

    pub(super) fn by_slot(&self, slot: u64) -> Result<Option<Indexed>, IndexError> {
        let Some(number) = self.records.first(Field::Slot, slot, true)?.checked_sub(1) else { return Ok(None) };
        Ok(Some(self.records.get(number)?).filter(|block| block.point.slot == slot))
    }

    pub(super) fn by_number(&self, wanted: u64) -> Result<Option<Indexed>, IndexError> {
        let number = self.records.first(Field::Number, wanted, false)?;
        if number == self.records.count {
            return Ok(None);
        }
        Ok(Some(self.records.get(number)?).filter(|block| block.point.number == wanted))
    }

    pub(super) fn slots(&self, range: &RangeInclusive<u64>) -> Slots<'_> {
        Slots::new(&self.records, range)
    }

    pub(super) const fn tip(&self) -> Option<Indexed> {
        self.tip
    }

    pub(super) fn truncate(&mut self, to: Option<&Point>) -> Result<(), IndexError> {
        self.refuse_failed()?;
        let keep = match to.map(|to| self.place_of(to)) {
            None => 0,
            Some(Err(error @ IndexError::Damaged { .. })) => {
                self.repair_after(error)?;
                to.map_or(Ok(0), |to| self.place_of(to))?
            }
            Some(found) => found?,
        };
        if keep == self.records.count {
            return Ok(());
        }
        self.mark_changing()?;
        let few = self.records.count - keep <= keep;
        let removed = if few { self.remove_entries(keep) } else { Ok(()) };
        // The records that stay are verified when the table is made anew.
        let damage = removed.err();
        let cut = self.records.truncate(keep);
        let cut = cut.and_then(|()| if few && damage.is_none() { Ok(()) } else { self.rebuild_table(0) });
        self.poisoned(cut)?;
        self.repaired = self.repaired.take().or(damage);
        self.tip = self.last()?;
        Ok(())
    }

    /// Returns how many blocks there are up to one, and with it.
    fn place_of(&self, point: &Point) -> Result<u32, IndexError> {
        match self.table.find(&point.hash, &self.records)? {
            Some(number) if self.records.get(number)?.point == *point => Ok(number + 1),
            _ => Err(IndexError::NotIndexed { point: *point }),
        }
    }

    /// Makes the table anew where a bucket was damaged: all that it had is in the records. Damage in a record stays an error,
    /// and the next opening finds it.
    fn repair_after(&mut self, damage: IndexError) -> Result<(), IndexError> {
        if !matches!(damage, IndexError::Damaged { part: IndexPart::Table, .. }) {
            self.damaged = true;
            self.mark_changing()?;
            return Err(damage);
        }
        if let Err(error) = self.rebuild_table(0) {
            self.damaged |= matches!(error, IndexError::Damaged { .. });
            return Err(error);
        }
        self.repaired.get_or_insert(damage);
        Ok(())
    }

    /// Returns the damage for which the table was made anew.
    pub(super) const fn repaired(&self) -> Option<&IndexError> {
        self.repaired.as_ref()
    }

    /// Removes the entries of all records from a count on.
    fn remove_entries(&mut self, keep: u32) -> Result<(), IndexError> {
        for number in (keep..self.records.count).rev() {
            let hash = self.records.get(number)?.point.hash;
            self.table.remove(&hash, number)?;
        }
        Ok(())
    }

    pub(super) fn sync(&mut self) -> Result<(), IndexError> {
        self.refuse_failed()?;
        let synced = self.records.sync();
        self.poisoned(synced)
    }

    /// Makes all durable, and says so of the table, unless a record is damaged.
    pub(super) fn close(&mut self) -> Result<(), IndexError> {
        self.sync()?;
        if self.damaged {
            return Ok(());
        }
        let closed = self.table.close(&self.records);
        self.poisoned(closed)
    }

    /// Makes the table anew from the records, which are all verified.
    pub(super) fn rebuild_table(&mut self, grown: u32) -> Result<(), IndexError> {
        self.mark_changing()?;
        self.table = replace(self.dir.as_deref(), &self.records, self.table.seed(), grown)?;
        Ok(())
    }

    fn mark_changing(&mut self) -> Result<(), IndexError> {
        let marked = self.table.mark_changing();
        self.poisoned(marked)
    }

    fn last(&self) -> Result<Option<Indexed>, IndexError> {
        self.records.count.checked_sub(1).map(|number| self.records.get(number)).transpose()
    }

    fn refuse_failed(&self) -> Result<(), IndexError> {
        if self.failed { Err(IndexError::Failed { name: self.records.name() }) } else { Ok(()) }
    }

    fn poisoned(&mut self, result: Result<(), IndexError>) -> Result<(), IndexError> {
        self.failed |= result.is_err();
        result
    }
}

/// Makes a table of some records, which takes the place of the one in the folder once it is whole. The old one does not
/// come back after a crash: it could say that it is that of as many records.
fn replace(dir: Option<&Path>, records: &Records, seed: [u64; 2], grown: u32) -> Result<Table, IndexError> {
    let path = dir.map(|dir| dir.join("table.new"));
    let mut table = Table::of_records(path.as_deref(), records, seed, grown)?;
    if let Some(dir) = dir {
        table.rename(&dir.join(TABLE))?;
        File::open(dir).and_then(|dir| dir.sync_all()).map_err(failed(Some(dir)))?;
    }
    Ok(table)
}

/// Returns a number that is not known outside of this process.
fn random() -> u64 {
    RandomState::new().hash_one(0)
}
