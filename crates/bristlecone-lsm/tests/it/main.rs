//! Tests of the crate as one binary.

mod conformance;
mod damage;
mod full;
mod history;
mod kills;
mod opening;
mod roots;
mod speed;
mod sweeps;

use std::path::Path;

use bristlecone::engine::FormatTag;
use bristlecone_lsm::{LsmBackend, LsmOptions};

/// The format that the stores of the tests say they have.
fn format_tag() -> FormatTag {
    FormatTag { name: "native".to_owned(), version: 1, options: String::new() }
}

fn create(dir: &Path, options: LsmOptions) -> LsmBackend {
    LsmBackend::create(dir, format_tag(), options).expect("a new store")
}

/// Options with which little suffices for tables, runs and merges.
fn tiny() -> LsmOptions {
    LsmOptions::default().memtable_bytes(64 << 10).index_bytes(32 << 10).cache_bytes(1 << 20)
}
