//! Runs the target that `BRISTLECONE_FUZZ_TARGET` names under libFuzzer, whose options the arguments are: `.ci/fuzz` calls it.
#![no_main]

use std::sync::OnceLock;

use bristlecone_fuzz::{Bounded, TARGETS, Target};

#[global_allocator]
static ALLOCATOR: Bounded = Bounded;

/// The target of this process.
fn target() -> Target {
    static CHOSEN: OnceLock<Target> = OnceLock::new();
    *CHOSEN.get_or_init(|| {
        let name = std::env::var("BRISTLECONE_FUZZ_TARGET").unwrap_or_default();
        match TARGETS.iter().find(|(known, _)| *known == name) {
            Some((_, target)) => *target,
            None => panic!("BRISTLECONE_FUZZ_TARGET is {name:?}, which names no target; src/lib.rs has the list"),
        }
    })
}

libfuzzer_sys::fuzz_target!(|data: &[u8]| target()(data));
