//! The conformance suite passes the memory backend and the toy, and no backend with a flaw.

use std::sync::Arc;

use bristlecone::{
    Backend, Batch, Damage, Durability, Error, Expected, Location, MemoryBackend, ObjRef, Object, Oid, Position,
    RefMove, Roots, Snapshot, SweepLimits, pass_backend,
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
    /// Nothing.
    None,
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
    /// A snapshot says that it moved on, and stays where it was.
    Staying,
    /// A snapshot that moves on lets go of what refs lead to.
    LettingGo,
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

/// Moves on as it should not.
#[derive(Debug)]
struct Refreshed(Arc<MemoryBackend>, Option<Arc<dyn Snapshot>>, Flaw);

impl Refreshed {
    fn inner(&self) -> &dyn Snapshot {
        self.1.as_deref().unwrap()
    }
}

impl Snapshot for Refreshed {
    fn read(&self, at: &ObjRef) -> Result<Option<Object<'_>>, Error> {
        self.inner().read(at)
    }

    fn locate(&self, oid: &Oid) -> Option<Location> {
        self.inner().locate(oid)
    }

    fn position(&self) -> Option<Position> {
        self.inner().position()
    }

    fn keep(&self, root: &Oid) {
        self.inner().keep(root);
    }

    fn refresh(&mut self, roots: &[Oid]) -> bool {
        if matches!(self.2, Flaw::LettingGo) {
            // Whatever is swept in between is gone.
            self.1 = None;
            let children = |_: &Oid, _: &Object<'_>, _: &mut dyn FnMut(Oid)| Ok(());
            self.0.sweep(&Roots { oids: &[], children: &children }, &SweepLimits::default()).unwrap();
            self.1 = Some(self.0.snapshot(roots));
        }
        true
    }
}

impl Backend for Broken {
    fn snapshot(&self, roots: &[Oid]) -> Arc<dyn Snapshot> {
        match self.1 {
            Flaw::Trusting => Arc::new(Trusting(self.0.clone(), self.0.snapshot(roots))),
            Flaw::Staying | Flaw::LettingGo => {
                Arc::new(Refreshed(self.0.clone(), Some(self.0.snapshot(roots)), self.1))
            }
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

    fn each_object(
        &self,
        each: &mut dyn FnMut(Oid, &Object<'_>) -> Result<(), Error>,
        damage: &mut dyn FnMut(Damage),
    ) -> Result<(), Error> {
        let mut skip = matches!(self.1, Flaw::Forgetful);
        self.0
            .each_object(&mut |oid, object| if std::mem::take(&mut skip) { Ok(()) } else { each(oid, object) }, damage)
    }

    pass_backend! {
        0: name, capabilities, get_ref, list_refs, position, sweeps, sweep, flush, stats, read_derived,
        write_derived
    }
}

#[test]
fn every_flaw_is_caught() {
    let run = |flaw| conformance::run(|| Arc::new(Broken(Arc::new(MemoryBackend::new()), flaw)));
    // So it is the flaw that is caught.
    run(Flaw::None);
    for flaw in
        [Flaw::Heedless, Flaw::Piecemeal, Flaw::Trusting, Flaw::Untidy, Flaw::Forgetful, Flaw::Staying, Flaw::LettingGo]
    {
        assert!(std::panic::catch_unwind(|| run(flaw)).is_err(), "{flaw:?} goes unnoticed");
    }
}
