//! The conformance suite, with threads and without, and with budgets so small that everything is written and dropped
//! all the time.

use std::sync::{
    Arc,
    atomic::{AtomicU32, Ordering::Relaxed},
};

use bristlecone::Backend;
use bristlecone_lsm::{LsmBackend, LsmOptions};
use bristlecone_testkit::conformance;

use crate::create;

fn conforms(options: &LsmOptions) {
    let dir = tempfile::tempdir().unwrap();
    let count = AtomicU32::new(0);
    conformance::run_reopening(|| {
        let dir = dir.path().join(count.fetch_add(1, Relaxed).to_string());
        let backend: Arc<dyn Backend> = Arc::new(create(&dir, options.clone()));
        let options = options.clone();
        let reopen = move || -> Arc<dyn Backend> {
            Arc::new(LsmBackend::open(&dir, options.clone(), false).expect("the store opens"))
        };
        (backend, reopen)
    });
}

#[test]
fn a_store_conforms() {
    conforms(&LsmOptions::default());
}

#[test]
fn a_store_without_threads_conforms() {
    conforms(&LsmOptions::default().background(false));
}

#[test]
fn a_store_that_keeps_nothing_in_memory_conforms() {
    conforms(&LsmOptions::default().cache_bytes(0).index_bytes(4 << 10));
}
