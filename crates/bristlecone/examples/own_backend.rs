//! A backend of one's own: objects and refs in maps of the standard library.
//!
//! It shows all that a backend must do, and nothing for speed. `bristlecone-testkit` says whether it does it right.
//!
//! ```text
//! cargo run -p bristlecone --example own_backend
//! ```

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use bristlecone::{
    Backend, BackendStats, Batch, Bytes, Capabilities, Damage, Durability, Error, Info, Location, Native, ObjRef,
    Object, Oid, RefMove, RefTarget, Repo, Result, Snapshot, check_moves, core::Record,
};

/// Objects by id, refs by name.
#[derive(Debug, Default)]
struct Maps(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    // Whole records: a header, places of children, metadata words, and the body.
    objects: HashMap<Oid, Arc<[u8]>>,
    refs: BTreeMap<String, RefTarget>,
    derived: HashMap<String, Vec<u8>>,
    stats: BackendStats,
}

impl Maps {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What is read. Nothing is ever dropped here, so a snapshot has nothing to keep.
#[derive(Debug)]
struct View(Arc<Mutex<State>>);

impl View {
    fn record(&self, oid: &Oid) -> Option<Arc<[u8]>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).objects.get(oid).cloned()
    }
}

impl Snapshot for View {
    fn read(&self, at: &ObjRef) -> Result<Option<Object<'_>>> {
        self.record(&at.oid).map(|bytes| object(bytes, at.oid)).transpose()
    }

    // A location is a hint that saves a search. This backend has no locations: it only says that the object is there.
    fn locate(&self, oid: &Oid) -> Option<Location> {
        self.record(oid).map(|_| Location::NONE)
    }

    fn keep(&self, _: &Oid) {}
}

/// Decodes a record. Bytes from a medium would be verified here: `Record::verify` knows their checksum.
fn object(bytes: Arc<[u8]>, oid: Oid) -> Result<Object<'static>> {
    let parsed =
        Record::parse(&bytes).map(|record| Object::from_record(&record, Bytes::from(bytes.clone()), Location::NONE));
    parsed.map_err(|error| Error::Corrupt {
        file: "maps".to_owned(),
        offset: 0,
        oid: Some(oid),
        reason: error.to_string(),
    })
}

impl Backend for Maps {
    fn name(&self) -> &'static str {
        "maps"
    }

    // The conformance suite holds a backend to what it says here.
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            persistent: false,
            atomic_commits: true,
            several_refs: true,
            locations: false,
            processes: false,
            metadata_words: true,
            positions: false,
            sweep: false,
            retention: false,
            git: None,
        }
    }

    fn snapshot(&self, _: &[Oid]) -> Arc<dyn Snapshot> {
        Arc::new(View(self.0.clone()))
    }

    // Objects and moves of refs in one step: all of it, or nothing.
    fn append(&self, batch: Batch, moves: &[RefMove], _: Durability) -> Result<Location> {
        let mut state = self.state();
        check_moves(moves, |name| state.refs.get(name))?;
        for found in batch.records() {
            let oid = Oid::new(found.record.oid).expect("a batch holds ids");
            state.objects.entry(oid).or_insert_with(|| found.bytes.into());
        }
        for wanted in moves {
            match wanted.resolved(Location::NONE) {
                Some(target) => _ = state.refs.insert(wanted.name.clone(), target),
                None => _ = state.refs.remove(&wanted.name),
            }
        }
        state.stats.batches += 1;
        state.stats.bytes_written += batch.bytes().len() as u64;
        Ok(Location::NONE)
    }

    fn get_ref(&self, name: &str) -> Result<Option<RefTarget>> {
        Ok(self.state().refs.get(name).cloned())
    }

    fn list_refs(&self, prefix: &str) -> Result<BTreeMap<String, RefTarget>> {
        let state = self.state();
        let found = state.refs.iter().filter(|(name, _)| name.starts_with(prefix));
        Ok(found.map(|(name, target)| (name.clone(), target.clone())).collect())
    }

    fn flush(&self) -> Result<()> {
        Ok(())
    }

    fn each_object(
        &self,
        each: &mut dyn FnMut(Oid, &Object<'_>) -> Result<()>,
        _: &mut dyn FnMut(Damage),
    ) -> Result<()> {
        let objects: Vec<(Oid, Arc<[u8]>)> =
            self.state().objects.iter().map(|(oid, bytes)| (*oid, bytes.clone())).collect();
        objects.into_iter().try_for_each(|(oid, bytes)| each(oid, &object(bytes, oid)?))
    }

    fn stats(&self) -> BackendStats {
        self.state().stats
    }

    fn read_derived(&self, name: &str) -> Result<Option<Vec<u8>>> {
        Ok(self.state().derived.get(name).cloned())
    }

    fn write_derived(&self, name: &str, bytes: &[u8]) -> Result<()> {
        self.state().derived.insert(name.to_owned(), bytes.to_vec());
        Ok(())
    }
}

fn main() -> Result<()> {
    let repo = Repo::with_backend(Native::new(), Arc::new(Maps::default()));
    let main = repo.branch("main")?;
    for n in 0..100 {
        main.edit(&Info::message(format!("number {n}")), |tree| tree.set(format!("numbers/{n}"), n.to_string()))?;
    }
    println!("{} entries in {} batches", main.tree()?.count("numbers")?, repo.backend().stats().batches);

    // The suite panics where the backend breaks the contract.
    bristlecone_testkit::conformance::run(|| Arc::new(Maps::default()));
    println!("conforms");
    Ok(())
}
