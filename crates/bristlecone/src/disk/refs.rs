//! The refs of a store: those that moved lately in memory, the others in sorted tables on disk.
//!
//! A segment's head has all refs as they were when it began: as rows, or, once these are many, by the names of tables and the rows
//! that differ from them. Tables are made when the log goes on to the next segment, and never change. A table that is made takes in
//! newer ones that are not much smaller, so that a row is written again a few times, and there are a few tables, however many
//! refs there are. `docs/formats/disk.md` sections 3 and 12 list the bytes.

mod merged;
mod table;

use std::{collections::BTreeMap, sync::Arc};

use self::table::RefTableWriter;
pub(super) use self::{
    merged::RefRows,
    table::{RefTable, RefTableName, table_number},
};
use super::{
    files::{SEGMENTS, segment_name},
    frame::{RefRow, put_ref, put_table, ref_bytes, take_refs, take_table},
    log::DiskState,
};
use crate::{Error, backend::RefTarget, sync::atomic::Ordering::Relaxed};

/// From so many bytes of rows on that differ from the tables, the next segment begins with another table.
const MOVED_BYTES_MAX: u64 = 64 << 10;
/// A store that is closed goes on to the next segment if so many bytes of rows differ: the next opening would read them all.
const MOVED_BYTES_CLOSED: u64 = 1 << 20;
/// A table takes in the one below if that is at most so many times as long.
const TAKEN_IN_TIMES: u64 = 4;

/// The refs.
#[derive(Debug, Default)]
pub(super) struct Refs {
    tables: RefTables,
    /// What differs from the tables; `None`: the ref was removed, though a table has it.
    moved: BTreeMap<String, Option<RefTarget>>,
}

/// The tables of a store's refs, the newest first: what a newer one says counts.
#[derive(Clone, Debug, Default)]
pub(super) struct RefTables(Arc<[Arc<RefTable>]>);

/// What a segment's head says of refs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct HeadRefs {
    /// The tables, the newest first.
    pub(super) tables: Vec<RefTableName>,
    /// The rows that differ from them.
    pub(super) moved: Vec<RefRow>,
}

impl RefTables {
    /// Returns what the tables say of a ref.
    pub(super) fn get(&self, name: &str) -> Result<Option<RefTarget>, Error> {
        for table in &*self.0 {
            if let Some(target) = table.get(name)? {
                return Ok(target);
            }
        }
        Ok(None)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the tables' names.
    fn names(&self) -> impl Iterator<Item = RefTableName> {
        self.0.iter().map(|table| table.name())
    }
}

impl Refs {
    /// Returns what moved lately: what the ref holds if it did, else the tables that know.
    pub(super) fn moved(&self, name: &str) -> Result<Option<&RefTarget>, &RefTables> {
        match self.moved.get(name) {
            Some(target) => Ok(target.as_ref()),
            None if self.tables.is_empty() => Ok(None),
            None => Err(&self.tables),
        }
    }

    /// Returns the refs whose names begin so, by their names; a snapshot.
    pub(super) fn rows(&self, prefix: &str) -> RefRows {
        let moved = self.moved.range(prefix.to_owned()..).take_while(|(name, _)| name.starts_with(prefix));
        let moved = moved.map(|(name, target)| (name.clone(), target.clone())).collect();
        RefRows::new(prefix, moved, self.tables.0.clone())
    }

    /// Returns the refs that moved lately.
    pub(super) fn moved_rows(&self) -> impl Iterator<Item = (&str, &RefTarget)> {
        self.moved.iter().filter_map(|(name, target)| Some((&**name, target.as_ref()?)))
    }

    /// Moves or removes a ref, and returns what it held.
    ///
    /// # Errors
    /// Those of the tables, where these know what it held; the ref has moved.
    pub(super) fn replace(&mut self, name: &str, target: Option<RefTarget>) -> Result<Option<RefTarget>, Error> {
        let before = match self.put(name, target) {
            Some(before) => before,
            None => self.tables.get(name)?,
        };
        Ok(before)
    }

    /// Moves or removes a ref; returns what it held if it had moved before.
    pub(super) fn put(&mut self, name: &str, target: Option<RefTarget>) -> Option<Option<RefTarget>> {
        if target.is_none() && self.tables.is_empty() {
            return self.moved.remove(name);
        }
        match self.moved.get_mut(name) {
            Some(place) => Some(std::mem::replace(place, target)),
            None => self.moved.insert(name.to_owned(), target),
        }
    }

    /// Returns how many bytes of memory the refs take.
    pub(super) fn memory_bytes(&self) -> u64 {
        // 160: name, target and their place in the tree.
        self.moved.len() as u64 * 160 + self.tables.0.iter().map(|table| table.memory_bytes()).sum::<u64>()
    }

    /// Returns how many tables there are.
    #[cfg(test)]
    pub(super) fn head_tables(&self) -> usize {
        self.tables.0.len()
    }

    /// Returns how many bytes the rows take that differ from the tables.
    fn moved_bytes(&self) -> u64 {
        self.moved.iter().map(|(name, target)| ref_bytes(name, target.as_ref()) as u64).sum()
    }

    /// Returns what a segment's head says of the refs as they are.
    pub(super) fn head_rows(&self) -> Vec<u8> {
        let mut rows = Vec::new();
        self.tables.names().for_each(|table| put_table(&mut rows, table));
        for (name, target) in &self.moved {
            put_ref(&mut rows, name, target.as_ref());
        }
        rows.resize(rows.len().next_multiple_of(8), 0);
        rows
    }

    /// Returns the tables that a new one takes in: so many of the newest.
    fn taken_in(&self, moved_bytes: u64) -> usize {
        let mut bytes = moved_bytes;
        let smaller = self.tables.0.iter().take_while(|table| {
            let is_taken = table.bytes() <= bytes.saturating_mul(TAKEN_IN_TIMES);
            bytes += if is_taken { table.bytes() } else { 0 };
            is_taken
        });
        smaller.count()
    }
}

impl HeadRefs {
    /// Returns the refs in a head's rows; `None` if these are anything else.
    pub(super) fn decode(mut rows: &[u8]) -> Option<Self> {
        let mut tables = Vec::new();
        while let Some((table, rest)) = take_table(rows) {
            tables.push(table);
            rows = rest;
        }
        Some(Self { tables, moved: take_refs(rows)? })
    }
}

impl DiskState {
    /// Returns the refs that a head tells of; tables that are open stay so.
    pub(super) fn refs_of(&self, head: HeadRefs) -> Result<Refs, Error> {
        let open = self.published.refs().tables.clone();
        let mut tables = Vec::with_capacity(head.tables.len());
        for name in head.tables {
            tables.push(match open.0.iter().find(|table| table.name() == name) {
                Some(table) => table.clone(),
                None => Arc::new(RefTable::open(&self.storage, self.header.salt, name)?),
            });
        }
        let tables = RefTables(tables.into());
        let keeps_removed = !tables.is_empty();
        let moved = head.moved.into_iter().filter(|(_, target)| keeps_removed || target.is_some()).collect();
        Ok(Refs { tables, moved })
    }

    /// Writes a table for the segment with this number, if many rows differ from the tables that there are; returns the refs by the
    /// tables that there are then. The caller holds the store's lock.
    pub(super) fn tabled_refs(&self, number: u32) -> Result<Option<Refs>, Error> {
        let refs = self.published.refs();
        let moved_bytes = refs.moved_bytes();
        if moved_bytes <= self.moved_bytes_max() {
            return Ok(None);
        }
        let taken_in = refs.taken_in(moved_bytes);
        let (taken_in, below) = refs.tables.0.split_at(taken_in);
        let mut writer = RefTableWriter::new(&self.storage, self.header.salt, number)?;
        let moved = refs.moved.iter().map(|(name, target)| (name.clone(), target.clone())).collect();
        let mut rows = RefRows::new("", moved, taken_in.into());
        while let Some((name, target)) = rows.next_row()? {
            // Below the last table there is nothing that a removed ref would have to hide.
            if target.is_some() || !below.is_empty() {
                writer.put(&name, target.as_ref())?;
            }
        }
        let mut tables = writer.finish()?.into_iter().map(Arc::new).collect::<Vec<_>>();
        self.counters.bytes_written.fetch_add(tables.iter().map(|table| table.bytes()).sum(), Relaxed);
        self.sync_names(SEGMENTS)?;
        tables.extend(below.iter().cloned());
        Ok(Some(Refs { tables: RefTables(tables.into()), moved: BTreeMap::new() }))
    }

    /// Returns the numbers of the tables that the head of a segment names.
    pub(super) fn tables_named(&self, segment: u32) -> Result<Vec<u32>, Error> {
        let vanished = || self.corrupt(&segment_name(segment), 0, "the segment has vanished");
        let segment = self.current_segment(segment)?.ok_or_else(vanished)?;
        let head = segment.read_head(self.header.salt).map_err(|error| self.io(&segment.name, error))?;
        let (_, refs) = head.ok_or_else(|| segment.head_error(self.header.salt))?;
        Ok(refs.tables.iter().map(|table| table.number).collect())
    }

    /// From so many bytes of rows on that differ from the tables, a segment begins with another table.
    fn moved_bytes_max(&self) -> u64 {
        MOVED_BYTES_MAX.min(self.header.segment_bytes / 4)
    }

    /// Returns about how many bytes the rows in the next segment's head will take.
    pub(super) fn head_rows_bytes(&self, version: u32) -> u64 {
        let refs = self.published.refs();
        match refs.moved_bytes() {
            bytes if version >= 2 && bytes > self.moved_bytes_max() => 0,
            bytes => bytes,
        }
    }

    /// Whether so many rows differ from the tables that the next opening had better not read them.
    pub(super) fn has_many_moved(&self) -> bool {
        self.published.refs().moved_bytes() > MOVED_BYTES_CLOSED
    }

    /// Goes on by the tables of a head, which another process has made, and lets go of what moved before.
    ///
    /// # Errors
    /// Those of reading the tables.
    pub(super) fn follow_tables(&self, head: HeadRefs) -> Result<Option<Refs>, Error> {
        let is_known = self.published.refs().tables.names().eq(head.tables.iter().copied());
        let followed = if is_known { Ok(None) } else { self.refs_of(head).map(Some) };
        // A table may be gone, if the log is already further on. What this process has is as good, but for a head of its own.
        let behind = matches!(followed, Err(Error::Corrupt { .. }));
        self.tables_behind.store(behind, Relaxed);
        if behind { Ok(None) } else { followed }
    }
}
