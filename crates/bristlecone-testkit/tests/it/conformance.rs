//! The conformance suite passes the memory backend and the toy, and no backend with a flaw.

use std::{collections::BTreeMap, sync::Arc};

use bristlecone::{
    Backend, BackendStats, Batch, Capabilities, Damage, Durability, Error, Expected, Location, MemoryBackend, ObjRef,
    Object, Oid, RefMove, RefTarget, Snapshot,
};
use bristlecone_testkit::{conformance, crash::Engine, nasty::Nasty, sim::SimStorage};

use crate::toy::{Bug, ToyEngine};

#[test]
fn the_memory_backend_conforms() {
    conformance::run(|| Arc::new(MemoryBackend::new()));
}

#[test]
fn a_backend_that_moves_everything_conforms() {
    conformance::run(|| Arc::new(Nasty::moving()));
}

#[test]
fn a_sound_engine_conforms() {
    conformance::run_reopening(|| {
        let disk = SimStorage::new();
        let backend = ToyEngine(Bug::None).create(Arc::new(disk.clone())).unwrap();
        (backend, move || ToyEngine(Bug::None).open(Arc::new(disk.clone())).unwrap())
    });
}

/// What a [`Broken`] backend does wrong.
#[derive(Clone, Copy, Debug)]
enum Flaw {
    /// Moves happen whatever a ref holds.
    Heedless,
    /// A step of several moves stops at the first that fails, after those before it.
    Piecemeal,
    /// A hint is believed without looking at the id.
    Trusting,
    /// Objects of a step that fails are kept.
    Untidy,
    /// The walk leaves out one object.
    Forgetful,
}

/// The memory backend with a flaw.
#[derive(Debug)]
struct Broken(Arc<MemoryBackend>, Flaw);

/// Reads whatever is where the hint leads.
#[derive(Debug)]
struct Trusting(Arc<MemoryBackend>, Arc<dyn Snapshot>);

impl Snapshot for Trusting {
    fn read(&self, at: &ObjRef) -> Result<Option<Object<'_>>, Error> {
        let mut found = None;
        self.0.each_object(
            &mut |oid, object| {
                if object.location() == at.at {
                    found = Some(oid);
                }
                Ok(())
            },
            &mut |_| {},
        )?;
        self.1.read(&found.unwrap_or(at.oid).into())
    }

    fn locate(&self, oid: &Oid) -> Option<Location> {
        self.1.locate(oid)
    }

    fn keep(&self, root: &Oid) {
        self.1.keep(root);
    }
}

impl Backend for Broken {
    fn name(&self) -> &'static str {
        self.0.name()
    }

    fn capabilities(&self) -> Capabilities {
        self.0.capabilities()
    }

    fn snapshot(&self, roots: &[Oid]) -> Arc<dyn Snapshot> {
        match self.1 {
            Flaw::Trusting => Arc::new(Trusting(self.0.clone(), self.0.snapshot(roots))),
            _ => self.0.snapshot(roots),
        }
    }

    fn append(&self, batch: Batch, moves: &[RefMove], durability: Durability) -> Result<Location, Error> {
        let mut moves = moves.to_vec();
        match self.1 {
            Flaw::Heedless => moves.iter_mut().for_each(|wanted| wanted.expected = Expected::Any),
            Flaw::Untidy => {
                let base = self.0.append(batch.clone(), &[], durability)?;
                return self.0.append(batch, &moves, durability).map(|_| base);
            }
            Flaw::Piecemeal if moves.len() > 1 => {
                for wanted in &moves {
                    self.0.append(batch.clone(), std::slice::from_ref(wanted), durability)?;
                }
                return self.0.append(batch, &[], durability);
            }
            _ => {}
        }
        self.0.append(batch, &moves, durability)
    }

    fn get_ref(&self, name: &str) -> Result<Option<RefTarget>, Error> {
        self.0.get_ref(name)
    }

    fn list_refs(&self, prefix: &str) -> Result<BTreeMap<String, RefTarget>, Error> {
        self.0.list_refs(prefix)
    }

    fn flush(&self) -> Result<(), Error> {
        self.0.flush()
    }

    fn each_object(
        &self,
        each: &mut dyn FnMut(Oid, &Object<'_>) -> Result<(), Error>,
        damage: &mut dyn FnMut(Damage),
    ) -> Result<(), Error> {
        let mut skip = matches!(self.1, Flaw::Forgetful);
        self.0
            .each_object(&mut |oid, object| if std::mem::take(&mut skip) { Ok(()) } else { each(oid, object) }, damage)
    }

    fn stats(&self) -> BackendStats {
        self.0.stats()
    }

    fn read_derived(&self, name: &str) -> Result<Option<Vec<u8>>, Error> {
        self.0.read_derived(name)
    }

    fn write_derived(&self, name: &str, bytes: &[u8]) -> Result<(), Error> {
        self.0.write_derived(name, bytes)
    }
}

#[test]
fn every_flaw_is_caught() {
    for flaw in [Flaw::Heedless, Flaw::Piecemeal, Flaw::Trusting, Flaw::Untidy, Flaw::Forgetful] {
        let run = || conformance::run(|| Arc::new(Broken(Arc::new(MemoryBackend::new()), flaw)));
        assert!(std::panic::catch_unwind(run).is_err(), "{flaw:?} goes unnoticed");
    }
}
