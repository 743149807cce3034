//! The rows of several sources of refs as one sequence.

use std::{sync::Arc, vec};

use bristlecone_core::ObjRef;

use super::table::{RefTable, RefTableRows};
use crate::{Error, backend::RefTarget, disk::frame::RefRow};

/// The refs of a store whose names begin alike, by their names. What a newer source says of a ref counts.
pub(in crate::disk) struct RefRows {
    prefix: String,
    /// The newest first, each with its next row.
    sources: Vec<(Source, Option<RefRow>)>,
}

enum Source {
    Moved(vec::IntoIter<RefRow>),
    Table(RefTableRows),
    /// Not asked yet for its first row.
    New(Arc<RefTable>),
}

impl RefRows {
    pub(super) fn new(prefix: &str, moved: Vec<RefRow>, tables: Arc<[Arc<RefTable>]>) -> Self {
        let moved = moved.into_iter();
        let tables = tables.iter().cloned().map(Source::New);
        let sources = [Source::Moved(moved)].into_iter().chain(tables).map(|source| (source, None)).collect();
        Self { prefix: prefix.to_owned(), sources }
    }

    /// Returns the next ref.
    pub(in crate::disk) fn next_ref(&mut self) -> Result<Option<(String, RefTarget)>, Error> {
        while let Some((name, target)) = self.next_row()? {
            if let Some(target) = target {
                return Ok(Some((name, target)));
            }
        }
        Ok(None)
    }

    /// Returns the object of the next ref that leads to one.
    pub(in crate::disk) fn next_object(&mut self) -> Result<Option<ObjRef>, Error> {
        while let Some((_, target)) = self.next_ref()? {
            if let RefTarget::Object(object) = target {
                return Ok(Some(object));
            }
        }
        Ok(None)
    }

    /// Returns the next row, which may say that a ref was removed.
    pub(super) fn next_row(&mut self) -> Result<Option<RefRow>, Error> {
        for (source, next) in &mut self.sources {
            if next.is_none() {
                *next = source.next(&self.prefix)?.filter(|(name, _)| name.starts_with(&self.prefix));
            }
        }
        // Of equal names the first is taken, which is the newest.
        let names = self.sources.iter().enumerate().filter_map(|(index, (_, next))| Some((&next.as_ref()?.0, index)));
        let Some((_, index)) = names.min() else { return Ok(None) };
        let row = self.sources[index].1.take();
        for (_, next) in &mut self.sources[index + 1..] {
            next.take_if(|next| row.as_ref().is_some_and(|row| next.0 == row.0));
        }
        Ok(row)
    }
}

impl Source {
    fn next(&mut self, prefix: &str) -> Result<Option<RefRow>, Error> {
        if let Self::New(table) = self {
            *self = Self::Table(RefTableRows::from(table.clone(), prefix)?);
        }
        match self {
            Self::Moved(rows) => Ok(rows.next()),
            Self::Table(rows) => rows.next(),
            Self::New(_) => Ok(None),
        }
    }
}
