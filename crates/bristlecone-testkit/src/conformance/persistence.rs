//! What was appended is there when the store is opened again.

use std::sync::Arc;

use bristlecone::{Backend, Durability, Expected, RefMove};

use super::{append_all, family, object, set};
use crate::sample::{Sample, Samples};

/// Objects, refs and their removals are there after the last handle was dropped and the store opened again.
///
/// # Panics
/// If it is not so.
pub fn everything_is_there_after_reopening(backend: Arc<dyn Backend>, reopen: &dyn Fn() -> Arc<dyn Backend>) {
    let mut samples = Samples::default();
    let family = family(&*backend);
    let all: Vec<Sample> = (0..200).map(|n| family.contents(n, n as usize * 13)).collect();
    for (n, sample) in all.iter().enumerate() {
        let durability = [Durability::None, Durability::Grouped, Durability::Synced][n % 3];
        let moves = [set(family.ref_name(&format!("ref{}", n % 7)), Expected::Any, object(sample.oid))];
        append_all(&*backend, std::slice::from_ref(sample), &moves, durability).unwrap();
        samples.insert(sample.clone());
    }
    let remove = RefMove { name: family.ref_name("ref3"), expected: Expected::Any, to: None };
    append_all(&*backend, &[], &[remove], Durability::Synced).unwrap();
    let refs = backend.list_refs("").unwrap();
    assert_eq!(refs.len(), 6);
    backend.flush().unwrap();
    drop(backend);
    for _ in 0..3 {
        let backend = reopen();
        assert_eq!(backend.list_refs("").unwrap(), refs);
        for sample in &all {
            sample.expect(&*backend, bristlecone_core::Location::NONE).unwrap();
        }
        samples.expect_sound(&*backend).unwrap();
    }
}

/// A store that was opened again takes appends, round after round.
///
/// # Panics
/// If it is not so.
pub fn a_reopened_store_goes_on(backend: Arc<dyn Backend>, reopen: &dyn Fn() -> Arc<dyn Backend>) {
    let mut backend = backend;
    let family = family(&*backend);
    let mut expected = Expected::Absent;
    for n in 0..12 {
        let sample = family.contents(n, 400 * n as usize);
        let to = object(sample.oid);
        append_all(&*backend, &[sample], &[set(family.ref_name("main"), expected, to.clone())], Durability::None)
            .unwrap();
        expected = Expected::Is(to);
        drop(backend);
        backend = reopen();
        for earlier in 0..=n {
            let sample = family.contents(earlier, 400 * earlier as usize);
            sample.expect(&*backend, bristlecone_core::Location::NONE).unwrap();
        }
    }
}
