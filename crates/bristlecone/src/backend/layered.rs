//! Several stores as one to read from, with new objects in memory: to find out what would be, and to leave no trace.

#![deny(clippy::missing_trait_methods)]

use std::{collections::BTreeSet, sync::Arc};

use bristlecone_core::{Location, ObjRef, Object, Oid};

use super::{
    Backend, Batch, Capabilities, Damage, Durability, MemoryBackend, Position, RefMove, Roots, Snapshot, SweepLimits,
    Swept,
};
use crate::{Error, pass_backend};

/// Objects of the first store, of others, and of what was appended, which stays in memory. Refs are those of the first
/// store and do not move: a move is [`Error::ReadOnly`].
#[derive(Debug)]
pub struct Layered {
    new: MemoryBackend,
    // Its places are believed; in the others objects are found by id alone.
    first: Arc<dyn Backend>,
    others: Vec<Arc<dyn Backend>>,
}

impl Layered {
    /// Returns stores as one, of which the first has the refs.
    #[must_use]
    pub fn new(first: Arc<dyn Backend>, others: impl IntoIterator<Item = Arc<dyn Backend>>) -> Self {
        Self { new: MemoryBackend::new(), first, others: others.into_iter().collect() }
    }

    fn stores(&self) -> impl Iterator<Item = &Arc<dyn Backend>> {
        std::iter::once(&self.first).chain(&self.others)
    }
}

impl Backend for Layered {
    fn capabilities(&self) -> Capabilities {
        Capabilities { persistent: false, sweep: false, ..self.first.capabilities() }
    }

    fn snapshot(&self, roots: &[Oid]) -> Arc<dyn Snapshot> {
        let new = self.new.snapshot(roots);
        let stores = self.stores().map(|store| store.snapshot(roots));
        Arc::new(LayeredSnapshot { new, stores: stores.collect() })
    }

    fn read(&self, at: &ObjRef) -> Result<Option<Object<'static>>, Error> {
        Ok(self.snapshot(&[]).read(at)?.map(Object::into_static))
    }

    fn sweep(&self, roots: &Roots<'_>, limits: &SweepLimits) -> Result<Swept, Error> {
        let _ = (roots, limits);
        Err(Error::ReadOnly)
    }

    fn append(&self, batch: Batch, moves: &[RefMove], durability: Durability) -> Result<Location, Error> {
        if !moves.is_empty() {
            return Err(Error::ReadOnly);
        }
        // Locations in memory mean nothing in the first store.
        self.new.append(batch, &[], durability).map(|_| Location::NONE)
    }

    fn append_keeping(&self, batch: &mut Batch) -> Result<(), Error> {
        self.new.append_keeping(batch)
    }

    fn append_many(&self, batches: Vec<(Batch, Vec<RefMove>)>, durability: Durability) -> Vec<Result<Location, Error>> {
        batches.into_iter().map(|(batch, moves)| self.append(batch, &moves, durability)).collect()
    }

    fn shallow(&self) -> Result<BTreeSet<Oid>, Error> {
        let mut all = BTreeSet::new();
        for store in self.stores() {
            all.append(&mut store.shallow()?);
        }
        Ok(all)
    }

    fn promised_to(&self) -> Result<Option<String>, Error> {
        for store in self.stores() {
            if let Some(folder) = store.promised_to()? {
                return Ok(Some(folder));
            }
        }
        Ok(None)
    }

    fn flush(&self) -> Result<(), Error> {
        Ok(())
    }

    fn each_object(
        &self,
        each: &mut dyn FnMut(Oid, &Object<'_>) -> Result<(), Error>,
        damage: &mut dyn FnMut(Damage),
    ) -> Result<(), Error> {
        self.new.each_object(each, damage)?;
        self.stores().try_for_each(|store| store.each_object(each, damage))
    }

    fn clear_caches(&self) {
        self.stores().for_each(|store| store.clear_caches());
    }

    fn write_derived(&self, _: &str, _: &[u8]) -> Result<(), Error> {
        Err(Error::ReadOnly)
    }

    pass_backend! { first: name, locate, position, sweeps, get_ref, list_refs, stats, read_derived }
}

/// What is read from several stores.
#[derive(Debug)]
struct LayeredSnapshot {
    new: Arc<dyn Snapshot>,
    stores: Vec<Arc<dyn Snapshot>>,
}

impl Snapshot for LayeredSnapshot {
    fn read(&self, at: &ObjRef) -> Result<Option<Object<'_>>, Error> {
        let bare = ObjRef::from(at.oid);
        if let Some(object) = self.new.read(&bare)? {
            return Ok(Some(object));
        }
        for (index, store) in self.stores.iter().enumerate() {
            if let Some(object) = store.read(if index == 0 { at } else { &bare })? {
                return Ok(Some(object));
            }
        }
        Ok(None)
    }

    fn peek(&self, oid: &[u8], at: Location) -> Option<&[u8]> {
        self.stores[0].peek(oid, at)
    }

    fn read_many(&self, at: &[ObjRef], bytes_max: usize) -> Result<Vec<Option<Object<'_>>>, Error> {
        let bare: Vec<ObjRef> = at.iter().map(|at| ObjRef::from(at.oid)).collect();
        let mut found: Vec<Option<Object<'_>>> = vec![None; at.len()];
        let (mut known, mut bytes) = (at.len(), 0);
        for (index, store) in std::iter::once(&self.new).chain(&self.stores).enumerate() {
            let places = if index == 1 { at } else { &bare };
            let absent: Vec<usize> = (0..known).filter(|&question| found[question].is_none()).collect();
            if absent.is_empty() {
                break;
            }
            let asked: Vec<ObjRef> = absent.iter().map(|&question| places[question]).collect();
            let answers = store.read_many(&asked, bytes_max.saturating_sub(bytes))?;
            // Nothing is known of what the store did not answer, nor of what comes after.
            known = absent.get(answers.len()).copied().unwrap_or(known);
            for (question, answer) in absent.into_iter().zip(answers) {
                bytes += answer.as_ref().map_or(0, Object::read_bytes);
                found[question] = answer;
            }
        }
        found.truncate(known);
        Ok(found)
    }

    fn locate(&self, oid: &Oid) -> Option<Location> {
        self.stores[0].locate(oid)
    }

    fn position(&self) -> Option<Position> {
        self.stores[0].position()
    }

    fn keep(&self, root: &Oid) {
        self.new.keep(root);
        self.stores.iter().for_each(|store| store.keep(root));
    }

    fn refresh(&mut self, _: &[Oid]) -> bool {
        // All of its parts would have to, or none.
        false
    }
}
