//! The backend: the contract, sharing, growth, and what it refuses.

use std::{path::Path, sync::Arc};

use bristlecone::{Backend, engine::FormatTag};
use bristlecone_lmdb::backend::{LmdbBackend, LmdbOptions};
use bristlecone_testkit::conformance;

mod bad_input;
mod children;
pub(crate) mod growth;
pub(crate) mod processes;
mod roots;

pub(crate) fn format_tag() -> FormatTag {
    FormatTag { name: "native".to_owned(), version: 1, options: String::new() }
}

/// Makes a store.
pub(crate) fn create(dir: &Path, options: &LmdbOptions) -> LmdbBackend {
    LmdbBackend::create(dir, format_tag(), options.clone()).unwrap()
}

/// Opens a store to be written.
pub(crate) fn open(dir: &Path, options: &LmdbOptions) -> LmdbBackend {
    LmdbBackend::open(dir, options.clone(), false).unwrap()
}

fn conforms(options: &LmdbOptions) {
    let dirs = std::cell::RefCell::new(Vec::new());
    conformance::run_reopening(|| {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().to_owned();
        dirs.borrow_mut().push(dir);
        let backend: Arc<dyn Backend> = Arc::new(create(&path, options));
        let options = options.clone();
        (backend, move || Arc::new(open(&path, &options)) as Arc<dyn Backend>)
    });
}

#[test]
fn the_backend_conforms() {
    conforms(&LmdbOptions::default());
}

#[test]
fn the_backend_conforms_with_a_small_map_and_no_thread() {
    conforms(&LmdbOptions::default().map_bytes(1 << 20).background(false));
}
