//! The walk that sweeps mark by: from what stays to all below it.

use std::mem;

use bristlecone_core::{Object, Oid};

use super::Roots;
use crate::{Error, oid_map::OidSet};

/// What a sweep has reached so far: for backends that mark in memory what stays.
///
/// A sweep that goes on beside appends calls [`Reached::reach`] in rounds, each from what came during the one before, and once more
/// when nothing is appended any more; then from what was absent, too.
#[derive(Debug, Default)]
pub struct Reached {
    oids: OidSet,
    bytes: u64,
    // Of these, the objects that were absent.
    absent: Vec<Oid>,
    // What is still to be looked at.
    open: Vec<Oid>,
}

impl Reached {
    /// Adds everything that `from` and the objects added before lead to. `read` reads an object; what is absent leads nowhere. The roots
    /// say what an object names, and are told how far this is; their objects count where `from` has them.
    ///
    /// # Errors
    /// Those of `read`, what [`Roots::children`] fails with, and those of [`Roots::marked`].
    pub fn reach<'o>(
        &mut self,
        roots: &Roots<'_>,
        read: impl Fn(&Oid) -> Result<Option<Object<'o>>, Error>,
        from: impl IntoIterator<Item = Oid>,
    ) -> Result<(), Error> {
        self.open.extend(from);
        while let Some(oid) = self.open.pop() {
            if !self.oids.insert(oid) {
                continue;
            }
            match read(&oid)? {
                Some(object) => {
                    self.bytes += object.read_bytes() as u64;
                    (roots.children)(&oid, &object, &mut |child| self.open.push(child))?;
                }
                None => self.absent.push(oid),
            }
            roots.marked(self.oids.len() as u64, self.bytes)?;
        }
        Ok(())
    }

    /// Adds an object that is at hand. What it names the next [`Reached::reach`] looks at, and the object itself where it is `None`.
    ///
    /// # Errors
    /// As [`Reached::reach`].
    pub fn add(&mut self, roots: &Roots<'_>, oid: Oid, object: Option<&Object<'_>>) -> Result<(), Error> {
        let Self { oids, open, .. } = self;
        let Some(object) = object else {
            open.push(oid);
            return Ok(());
        };
        if !oids.insert(oid) {
            return Ok(());
        }
        self.bytes += object.read_bytes() as u64;
        (roots.children)(&oid, object, &mut |child| {
            if !oids.contains(&child) {
                open.push(child);
            }
        })?;
        roots.marked(self.oids.len() as u64, self.bytes)
    }

    /// Whether an object was reached, or something that was reached names it and it was absent.
    #[must_use]
    pub fn contains(&self, oid: &Oid) -> bool {
        self.oids.contains(oid)
    }

    /// Returns how many objects were reached, those that were absent among them.
    #[must_use]
    pub fn objects(&self) -> usize {
        self.oids.len()
    }

    /// Returns what was absent, and counts it as not reached: it may have been appended since, with others below it.
    #[must_use]
    pub fn take_absent(&mut self) -> Vec<Oid> {
        let absent = mem::take(&mut self.absent);
        absent.iter().for_each(|oid| _ = self.oids.remove(oid));
        absent
    }
}
