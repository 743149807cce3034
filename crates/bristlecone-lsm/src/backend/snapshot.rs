//! Reading: by location from a page, by id through the index, borrowed from a snapshot's shelf where that has the page.

use std::sync::{Arc, atomic::Ordering::Acquire};

use bristlecone::{Bytes, Error, Location, ObjRef, Object, Oid, Pin, Pins, Position, Result, Snapshot};

use super::{
    open_store::{OpenStore, read_lock},
    page::{object_of, split},
    pages::Shelf,
};

/// What can be read of a store, and what is not to be dropped from it.
#[derive(Debug)]
pub(super) struct LsmSnapshot {
    shelf: Arc<Shelf>,
    pin: Pin<OpenStore>,
    // How many sweeps had begun: pages on the shelf show what later ones drop, where a hint leads to it.
    sweeps: u64,
}

impl OpenStore {
    /// Returns what can be read from now on.
    pub(super) fn snapshot(self: &Arc<Self>, roots: &[Oid]) -> LsmSnapshot {
        let refs = read_lock(&self.refs);
        let pin = Pin::new(self.clone(), Position(refs.state.position), refs.state.end, roots);
        let sweeps = self.sweeps.load(Acquire);
        drop(refs);
        LsmSnapshot { shelf: self.pages.shelf(), pin, sweeps }
    }

    /// Returns where an object is; `None` if there is no such object.
    pub(super) fn locate(&self, oid: &Oid) -> Result<Option<Location>> {
        self.index.locate(&self.database, &self.pages, oid)
    }

    /// Reads an object, copied.
    pub(super) fn read(&self, at: &ObjRef) -> Result<Option<Object<'static>>> {
        let hinted = if at.at.is_some() { self.read_at(&at.oid, at.at) } else { Ok(None) };
        if let Ok(Some(object)) = hinted {
            return Ok(Some(object));
        }
        let mut last = None;
        loop {
            let Some(found) = self.locate(&at.oid)? else { return Ok(None) };
            if let Some(object) = self.read_at(&at.oid, found)? {
                return Ok(Some(object));
            }
            if last == Some(found) {
                let (oid, reason) = (Some(at.oid), "the index leads to this place, and the object is not there; ");
                let reason = format!("{reason}put the folder back from a backup of this store");
                return Err(Error::Corrupt { file: self.database.pages_name(), offset: found.0, oid, reason });
            }
            // A sweep moved it meanwhile: where to is in the newest pages.
            last = Some(found);
            self.index.read_all(&self.database, &self.pages)?;
        }
    }

    fn read_at(&self, oid: &Oid, at: Location) -> Result<Option<Object<'static>>> {
        let (number, offset) = split(at);
        // Asked before the page is, which a sweep may remove meanwhile, and after, since it may mark it meanwhile.
        let unclean = self.pages.is_unclean(number);
        let Some(page) = self.pages.get(&self.database, number)? else { return Ok(None) };
        let Some(record) = page.record_of(oid.as_bytes(), offset) else { return Ok(None) };
        if (unclean || self.pages.is_unclean(number)) && self.locate(oid)? != Some(at) {
            return Ok(None);
        }
        Ok(object_of(Bytes::from(Arc::<[u8]>::from(record)), at))
    }
}

impl AsRef<Pins> for OpenStore {
    fn as_ref(&self) -> &Pins {
        &self.pins
    }
}

impl LsmSnapshot {
    /// Returns the record at a place, if its page is on the shelf.
    #[inline]
    fn lent(&self, oid: &[u8], at: Location) -> Option<&[u8]> {
        let (number, offset) = split(at);
        self.shelf.get(number)?.record_of(oid, offset)
    }

    #[inline]
    fn lent_object(&self, oid: &Oid, at: Location) -> Option<Object<'_>> {
        object_of(Bytes::Borrowed(self.lent(oid.as_bytes(), at)?), at)
    }
}

impl Snapshot for LsmSnapshot {
    #[inline]
    fn peek(&self, oid: &[u8], at: Location) -> Option<&[u8]> {
        self.lent(oid, at)
    }

    #[inline]
    fn read(&self, at: &ObjRef) -> Result<Option<Object<'_>>> {
        if let Some(object) = self.lent_object(&at.oid, at.at) {
            return Ok(Some(object));
        }
        let Some(object) = self.pin.store().read(at)? else { return Ok(None) };
        // Reading put the page on the shelf of now, which is this one most of the time.
        match self.lent_object(&at.oid, object.location()) {
            Some(lent) => Ok(Some(lent)),
            None => Ok(Some(object)),
        }
    }

    fn locate(&self, oid: &Oid) -> Option<Location> {
        self.pin.store().locate(oid).ok().flatten()
    }

    fn position(&self) -> Option<Position> {
        Some(self.pin.position())
    }

    fn sweeps(&self) -> Option<u64> {
        Some(self.sweeps)
    }

    fn keep(&self, root: &Oid) {
        // No sweep is under way.
        let _refs = read_lock(&self.pin.store().refs);
        self.pin.keep(root);
    }

    fn refresh(&mut self, roots: &[Oid]) -> bool {
        let store = self.pin.store().clone();
        let refs = read_lock(&store.refs);
        self.pin.move_to(Position(refs.state.position), refs.state.end, roots);
        self.sweeps = store.sweeps.load(Acquire);
        drop(refs);
        self.shelf = store.pages.shelf();
        true
    }
}
