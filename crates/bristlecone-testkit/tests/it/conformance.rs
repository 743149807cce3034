//! The conformance suite passes the memory backend and the toy, and no backend with a flaw.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
};

use bristlecone::{
    Backend, Batch, Damage, Durability, Error, Expected, Location, MemoryBackend, ObjRef, Object, Oid, Position,
    RefMove, RefTarget, Roots, Snapshot, SweepLimits, pass_backend, pass_snapshot,
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
    /// What was read once is found for ever, as if from a cache that no sweep reaches.
    Hoarding,
    /// Of several batches in one call those behind the first that is refused are refused, too.
    Halting,
    /// A batch that is kept for more keeps what it had.
    Refilling,
    /// Sweeps are not counted.
    Uncounted,
}

/// The memory backend with a flaw.
#[derive(Debug)]
struct Broken(Arc<MemoryBackend>, Flaw, Arc<Mutex<HashMap<Oid, Object<'static>>>>);

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
            self.0.sweep(&Roots::new(&[], &children), &SweepLimits::default()).unwrap();
            self.1 = Some(self.0.snapshot(roots));
        }
        true
    }
}

/// Finds what was read before.
#[derive(Debug)]
struct Hoarding(Arc<dyn Snapshot>, Arc<Mutex<HashMap<Oid, Object<'static>>>>);

impl Snapshot for Hoarding {
    fn read(&self, at: &ObjRef) -> Result<Option<Object<'_>>, Error> {
        let mut hoard = self.1.lock().unwrap();
        if let Some(object) = self.0.read(at)? {
            hoard.insert(at.oid, object.into_static());
        }
        Ok(hoard.get(&at.oid).cloned())
    }

    pass_snapshot! { 0: locate, position, sweeps, keep, refresh }
}

impl Backend for Broken {
    fn snapshot(&self, roots: &[Oid]) -> Arc<dyn Snapshot> {
        match self.1 {
            Flaw::Trusting => Arc::new(Trusting(self.0.clone(), self.0.snapshot(roots))),
            Flaw::Staying | Flaw::LettingGo => {
                Arc::new(Refreshed(self.0.clone(), Some(self.0.snapshot(roots)), self.1))
            }
            Flaw::Hoarding => Arc::new(Hoarding(self.0.snapshot(roots), self.2.clone())),
            _ => self.0.snapshot(roots),
        }
    }

    fn append_many(&self, batches: Vec<(Batch, Vec<RefMove>)>, durability: Durability) -> Vec<Result<Location, Error>> {
        let mut halted = false;
        let append = |(batch, moves): (Batch, Vec<RefMove>)| {
            if halted {
                return Err(Error::ReadOnly);
            }
            let appended = self.append(batch, &moves, durability);
            halted = matches!(self.1, Flaw::Halting) && appended.is_err();
            appended
        };
        batches.into_iter().map(append).collect()
    }

    fn append_keeping(&self, batch: &mut Batch) -> Result<Location, Error> {
        let base = self.0.append(batch.clone(), &[], Durability::None)?;
        if !matches!(self.1, Flaw::Refilling) {
            batch.clear();
        }
        Ok(base)
    }

    fn sweeps(&self) -> u64 {
        if matches!(self.1, Flaw::Uncounted) { 0 } else { self.0.sweeps() }
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
        0: name, capabilities, get_ref, list_refs, position, sweep, flush, stats, read_derived,
        write_derived
    }
}

#[test]
fn every_flaw_is_caught() {
    let run = |flaw| conformance::run(|| Arc::new(Broken(Arc::new(MemoryBackend::new()), flaw, Arc::default())));
    // So it is the flaw that is caught.
    run(Flaw::None);
    for flaw in [
        Flaw::Heedless,
        Flaw::Piecemeal,
        Flaw::Trusting,
        Flaw::Untidy,
        Flaw::Forgetful,
        Flaw::Staying,
        Flaw::LettingGo,
        Flaw::Hoarding,
        Flaw::Halting,
        Flaw::Refilling,
        Flaw::Uncounted,
    ] {
        assert!(std::panic::catch_unwind(|| run(flaw)).is_err(), "{flaw:?} goes unnoticed");
    }
}

/// A backend that remembers what it said of refs, as if it were alone.
#[derive(Debug)]
struct Remembering(Arc<dyn Backend>, Mutex<HashMap<String, Option<RefTarget>>>);

impl Backend for Remembering {
    fn get_ref(&self, name: &str) -> Result<Option<RefTarget>, Error> {
        let mut known = self.1.lock().unwrap();
        if !known.contains_key(name) {
            known.insert(name.to_owned(), self.0.get_ref(name)?);
        }
        Ok(known[name].clone())
    }

    fn append(&self, batch: Batch, moves: &[RefMove], durability: Durability) -> Result<Location, Error> {
        let appended = self.0.append(batch, moves, durability);
        self.1.lock().unwrap().clear();
        appended
    }

    pass_backend! {
        0: name, capabilities, snapshot, list_refs, position, sweeps, sweep, flush, each_object, stats, read_derived,
        write_derived
    }
}

#[test]
fn a_handle_that_remembers_refs_is_caught() {
    let run = |remembers: bool| {
        let disk = SimStorage::new();
        let wrap = |backend: Arc<dyn Backend>| -> Arc<dyn Backend> {
            if remembers { Arc::new(Remembering(backend, Mutex::default())) } else { backend }
        };
        let first = wrap(ToyEngine(Bug::None).create(Arc::new(disk.clone())).unwrap());
        let open = || wrap(ToyEngine(Bug::None).open(Arc::new(disk.clone())).unwrap());
        conformance::another_handle_sees_what_was_appended(first, &open);
    };
    run(false);
    assert!(std::panic::catch_unwind(|| run(true)).is_err());
}

/// A backend whose snapshots keep nothing.
#[derive(Debug)]
struct Loose(Arc<dyn Backend>);

/// Reads what is there now.
#[derive(Debug)]
struct Now(Arc<dyn Backend>);

impl Snapshot for Now {
    fn read(&self, at: &ObjRef) -> Result<Option<Object<'_>>, Error> {
        self.0.read(at)
    }

    fn locate(&self, oid: &Oid) -> Option<Location> {
        self.0.locate(oid)
    }

    fn keep(&self, _: &Oid) {}
}

impl Backend for Loose {
    fn snapshot(&self, _: &[Oid]) -> Arc<dyn Snapshot> {
        Arc::new(Now(self.0.clone()))
    }

    pass_backend! {
        0: name, capabilities, append, get_ref, list_refs, position, sweeps, sweep, flush, each_object, stats,
        read_derived, write_derived
    }
}

#[test]
fn a_snapshot_that_another_handle_does_not_know_of_is_caught() {
    let run = |loose: bool| {
        let nasty = Nasty::moving();
        let other = || Arc::new(nasty.beside()) as Arc<dyn Backend>;
        let first = other();
        conformance::a_sweep_leaves_what_another_handle_shows(
            if loose { Arc::new(Loose(first)) } else { first },
            &other,
        );
    };
    run(false);
    assert!(std::panic::catch_unwind(|| run(true)).is_err());
}
