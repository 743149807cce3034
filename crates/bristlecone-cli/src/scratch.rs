//! A backend that keeps in memory what is written, over one that it only reads: to see what a commit would change.

#![deny(clippy::missing_trait_methods)]

use std::{collections::BTreeMap, sync::Arc};

use bristlecone::{
    Backend, BackendStats, Batch, Capabilities, Damage, Durability, Error, Location, MemoryBackend, ObjRef, Object,
    Oid, RefMove, RefTarget, Result,
};

/// What is written goes to memory, and what is not there is read from below. Refs do not move.
#[derive(Debug)]
pub(crate) struct Scratch {
    memory: MemoryBackend,
    below: Arc<dyn Backend>,
}

impl Scratch {
    pub(crate) fn over(below: Arc<dyn Backend>) -> Self {
        Self { memory: MemoryBackend::new(), below }
    }
}

impl Backend for Scratch {
    fn capabilities(&self) -> Capabilities {
        Capabilities { persistent: false, ..self.below.capabilities() }
    }

    fn read(&self, at: &ObjRef) -> Result<Option<Object<'_>>> {
        // A place in one of them means nothing in the other; both check the id of what is there.
        match self.memory.read(at)? {
            Some(object) => Ok(Some(object)),
            None => self.below.read(at),
        }
    }

    fn peek(&self, oid: &[u8], at: Location) -> Option<&[u8]> {
        self.memory.peek(oid, at).or_else(|| self.below.peek(oid, at))
    }

    fn read_many(&self, at: &[ObjRef]) -> Result<Vec<Option<Object<'_>>>> {
        at.iter().map(|at| self.read(at)).collect()
    }

    fn locate(&self, oid: &Oid) -> Option<Location> {
        self.memory.locate(oid).or_else(|| self.below.locate(oid))
    }

    fn append(&self, batch: Batch, moves: &[RefMove], durability: Durability) -> Result<Location> {
        if !moves.is_empty() {
            return Err(Error::ReadOnly);
        }
        self.memory.append(batch, &[], durability)
    }

    fn append_keeping(&self, batch: &mut Batch) -> Result<()> {
        self.memory.append_keeping(batch)
    }

    fn append_many(&self, batches: Vec<(Batch, Vec<RefMove>)>, durability: Durability) -> Vec<Result<Location>> {
        batches.into_iter().map(|(batch, moves)| self.append(batch, &moves, durability)).collect()
    }

    fn get_ref(&self, name: &str) -> Result<Option<RefTarget>> {
        self.below.get_ref(name)
    }

    fn list_refs(&self, prefix: &str) -> Result<BTreeMap<String, RefTarget>> {
        self.below.list_refs(prefix)
    }

    fn flush(&self) -> Result<()> {
        Ok(())
    }

    fn each_object(
        &self,
        each: &mut dyn FnMut(Oid, &Object<'_>) -> Result<()>,
        damage: &mut dyn FnMut(Damage),
    ) -> Result<()> {
        self.memory.each_object(each, damage)?;
        self.below.each_object(each, damage)
    }

    fn clear_caches(&self) {}

    fn stats(&self) -> BackendStats {
        self.below.stats()
    }

    fn read_derived(&self, name: &str) -> Result<Option<Vec<u8>>> {
        self.below.read_derived(name)
    }

    fn write_derived(&self, _: &str, _: &[u8]) -> Result<()> {
        Err(Error::ReadOnly)
    }
}
