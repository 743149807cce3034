//! The conformance suite passes the memory backend and the toy, over a sound disk; over one that lies about locks
//! it does not.

use std::sync::Arc;

use bristlecone::MemoryBackend;
use bristlecone_testkit::{conformance, crash::Engine, sim::SimStorage};

use crate::toy::{Bug, ToyEngine};

#[test]
fn the_memory_backend_conforms() {
    conformance::run(|| Arc::new(MemoryBackend::new()));
}

#[test]
fn a_sound_engine_conforms() {
    conformance::run_reopening(|| {
        let disk = SimStorage::new();
        let backend = ToyEngine(Bug::None).create(Arc::new(disk.clone())).unwrap();
        (backend, move || ToyEngine(Bug::None).open(Arc::new(disk.clone())).unwrap())
    });
}
