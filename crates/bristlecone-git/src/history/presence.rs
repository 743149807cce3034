//! Which objects a store that is not empty has: searched for one by one, and after many misses listed in one pass.

use std::sync::{Arc, Mutex};

use bristlecone::{Backend, Kind, Location, ObjRef, Oid, Result, Snapshot};

use crate::history::{
    ids::Ids,
    table::{Scratch, Table},
};

/// Misses after which all objects are listed: a miss takes a search in each of a store's segments.
const MISSES_MAX: u32 = 2_000;

/// The objects of a store as it was when the transfer began.
#[derive(Debug)]
pub(crate) struct PresenceIndex {
    backend: Arc<dyn Backend>,
    snapshot: Arc<dyn Snapshot>,
    scratch: Scratch,
    lookups: Mutex<Lookups>,
}

#[derive(Debug, Default)]
struct Lookups {
    misses: u32,
    all: Option<ListedObjects>,
}

#[derive(Debug)]
struct ListedObjects {
    ids: Ids,
    places: Table,
}

impl PresenceIndex {
    pub(crate) fn new(backend: Arc<dyn Backend>, scratch: &Scratch) -> Self {
        let snapshot = backend.snapshot(&[]);
        Self { backend, snapshot, scratch: scratch.clone(), lookups: Mutex::default() }
    }

    /// Returns where an object is; `None` if it is absent, of another kind, or damaged.
    pub(crate) fn find(&self, kind: Option<Kind>, oid: &Oid) -> Result<Option<Location>> {
        let mut lookups = self.lookups.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let hint = match &lookups.all {
            None => Location::NONE,
            Some(all) => match all.ids.get(oid)? {
                None => return Ok(None),
                Some(number) => all.place(number)?,
            },
        };
        match self.snapshot.read(&ObjRef::new(*oid, hint)) {
            Ok(Some(object)) => {
                return Ok(Some(object.location()).filter(|_| kind.is_none_or(|kind| kind == object.kind())));
            }
            Ok(None) | Err(bristlecone::Error::Corrupt { .. }) => {}
            Err(error) => return Err(error),
        }
        lookups.misses += 1;
        // A repository has indexes of all that it holds.
        if lookups.misses == MISSES_MAX && self.backend.capabilities().git.is_none() {
            lookups.all = Some(ListedObjects::list(&*self.backend, oid.as_bytes().len(), &self.scratch)?);
        }
        Ok(None)
    }
}

impl ListedObjects {
    fn list(backend: &dyn Backend, width: usize, scratch: &Scratch) -> Result<Self> {
        let mut all = Self { ids: Ids::new(width, scratch), places: Table::new(8, scratch) };
        backend.each_object(
            &mut |oid, object| {
                if oid.as_bytes().len() == width && all.ids.get(&oid)?.is_none() {
                    all.ids.insert(&oid)?;
                    all.places.push(&object.location().0.to_le_bytes())?;
                }
                Ok(())
            },
            &mut |_| {},
        )?;
        Ok(all)
    }

    fn place(&self, number: u32) -> Result<Location> {
        let mut word = [0; 8];
        self.places.read(number, &mut word)?;
        Ok(Location(u64::from_le_bytes(word)))
    }
}
