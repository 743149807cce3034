//! The conformance suite: what every backend must do, whatever it is made of.
//!
//! [`run`] proves a backend that is made afresh for every test; [`run_reopening`] also one that keeps what it has.
//! [`run_matrix`] proves a kind of backend with every combinator around it, and pairs of these.
//! The tests are public functions, so that a failing one can be run alone. What a backend need not do it says in
//! its [`Capabilities`](bristlecone::Capabilities), which the suite reads; there is no list of exceptions. What a backend
//! cannot do it must refuse: the suite asks for that instead.
//!
//! ```
//! use std::sync::Arc;
//! use bristlecone::MemoryBackend;
//! bristlecone_testkit::conformance::run(|| Arc::new(MemoryBackend::new()));
//! ```

mod combinators;
mod concurrency;
mod objects;
mod persistence;
mod refs;
mod snapshots;
mod sweeps;

use std::{collections::HashMap, sync::Arc};

use bristlecone::{Backend, Batch, Durability, Error, Expected, RefMove, RefTarget};
use bristlecone_core::{Location, ObjRef, Oid};

use crate::sample::Family;

pub use combinators::{
    COMBINATORS, Combine, MEMORY, NewBackend, Pile, Subject, a_read_only_backend_refuses_changes, run_matrix, run_pile,
    the_same_edits_end_on_the_same_roots,
};
pub use concurrency::{one_racer_wins_each_round, readers_see_whole_appends_while_writers_write};
pub use objects::{
    a_batch_is_appended_and_used_again, a_batch_of_many_objects_comes_back, a_huge_object_comes_back,
    a_snapshot_finds_what_comes_later, a_walk_meets_every_object, absent_objects_are_absent,
    appended_objects_are_read_back, children_are_found_by_location, derived_files_hold_what_was_last_written,
    hints_may_be_stale_wrong_or_missing, ids_of_every_length_are_kept_apart, large_objects_come_back_whole,
    many_small_objects_come_back, metadata_words_come_back, read_many_answers_in_order,
    the_same_object_is_kept_once_in_a_batch, what_cannot_be_kept_is_refused,
};
pub use persistence::{
    a_reopened_store_goes_on, a_sweep_leaves_what_another_handle_shows, another_handle_sees_what_was_appended,
    everything_is_there_after_reopening, positions_go_on_after_reopening, what_is_left_of_a_derived_file_is_removed,
};
pub use refs::{
    a_conflict_adds_and_moves_nothing, bad_ref_names_are_refused, batches_in_one_call_are_answered_each_on_its_own,
    compare_and_set_moves_only_what_is_expected, flushing_keeps_everything, odd_ref_names_are_kept_apart,
    refs_are_listed_by_prefix_in_order, refs_in_the_way_of_others_are_told, removed_refs_are_gone,
    several_refs_move_together_or_not_at_all, symbolic_refs_name_other_refs, unmoved_appends_leave_refs_alone,
};
pub use snapshots::{
    a_batch_that_left_out_what_is_gone_is_refused, a_ref_is_not_moved_to_what_is_gone,
    a_refreshed_snapshot_is_as_a_new_one, a_snapshot_keeps_what_it_shows, a_sweep_drops_what_nothing_leads_to,
    a_sweep_within_limits_leaves_no_part, positions_order_the_moves_of_refs,
    readers_find_everything_while_others_sweep, what_an_old_snapshot_shows_is_not_built_on,
};
pub use sweeps::{
    appends_go_on_while_a_sweep_marks, what_was_appended_again_is_dropped_from_every_place,
    who_watches_a_sweep_may_read_meanwhile,
};

/// Makes a new, empty backend.
pub type Make<'a> = &'a dyn Fn() -> Arc<dyn Backend>;

/// A test of the suite.
pub type Test = fn(Make<'_>);

/// Every test that needs nothing but a new backend, by name.
pub const TESTS: &[(&str, Test)] = &[
    ("appended objects are read back", appended_objects_are_read_back),
    ("absent objects are absent", absent_objects_are_absent),
    ("the same object is kept once in a batch", the_same_object_is_kept_once_in_a_batch),
    ("hints may be stale, wrong or missing", hints_may_be_stale_wrong_or_missing),
    ("children are found by location", children_are_found_by_location),
    ("read_many answers in order", read_many_answers_in_order),
    ("what cannot be kept is refused", what_cannot_be_kept_is_refused),
    ("ids of every length are kept apart", ids_of_every_length_are_kept_apart),
    ("metadata words come back", metadata_words_come_back),
    ("large objects come back whole", large_objects_come_back_whole),
    ("many small objects come back", many_small_objects_come_back),
    ("a batch is appended and used again", a_batch_is_appended_and_used_again),
    ("a snapshot finds what comes later", a_snapshot_finds_what_comes_later),
    ("a walk meets every object", a_walk_meets_every_object),
    ("derived files hold what was last written", derived_files_hold_what_was_last_written),
    ("compare-and-set moves only what is expected", compare_and_set_moves_only_what_is_expected),
    ("several refs move together or not at all", several_refs_move_together_or_not_at_all),
    ("symbolic refs name other refs", symbolic_refs_name_other_refs),
    ("removed refs are gone", removed_refs_are_gone),
    ("refs are listed by prefix in order", refs_are_listed_by_prefix_in_order),
    ("refs in the way of others are told", refs_in_the_way_of_others_are_told),
    ("bad ref names are refused", bad_ref_names_are_refused),
    ("a conflict adds and moves nothing", a_conflict_adds_and_moves_nothing),
    ("batches in one call are answered each on its own", batches_in_one_call_are_answered_each_on_its_own),
    ("odd ref names are kept apart", odd_ref_names_are_kept_apart),
    ("unmoved appends leave refs alone", unmoved_appends_leave_refs_alone),
    ("flushing keeps everything", flushing_keeps_everything),
    ("positions order the moves of refs", positions_order_the_moves_of_refs),
    ("a sweep drops what nothing leads to", a_sweep_drops_what_nothing_leads_to),
    ("what was appended again is dropped from every place", what_was_appended_again_is_dropped_from_every_place),
    ("who watches a sweep may read meanwhile", who_watches_a_sweep_may_read_meanwhile),
    ("appends go on while a sweep marks", appends_go_on_while_a_sweep_marks),
    ("a snapshot keeps what it shows", a_snapshot_keeps_what_it_shows),
    ("a refreshed snapshot is as a new one", a_refreshed_snapshot_is_as_a_new_one),
    ("a batch that left out what is gone is refused", a_batch_that_left_out_what_is_gone_is_refused),
    ("what an old snapshot shows is not built on", what_an_old_snapshot_shows_is_not_built_on),
    ("a ref is not moved to what is gone", a_ref_is_not_moved_to_what_is_gone),
    ("a sweep within limits leaves no part", a_sweep_within_limits_leaves_no_part),
    ("readers find everything while others sweep", readers_find_everything_while_others_sweep),
    ("a read-only backend refuses changes", a_read_only_backend_refuses_changes),
    ("one racer wins each round", one_racer_wins_each_round),
    ("readers see whole appends while writers write", readers_see_whole_appends_while_writers_write),
];

/// Tests that take seconds and some hundred MB, by name.
pub const LONG_TESTS: &[(&str, Test)] = &[
    ("a batch of many objects comes back", a_batch_of_many_objects_comes_back),
    ("a huge object comes back", a_huge_object_comes_back),
];

/// A test of a backend that keeps what it has, and of how it is opened again.
pub type ReopeningTest = fn(Arc<dyn Backend>, &dyn Fn() -> Arc<dyn Backend>);

/// Every test of backends that keep what they have, by name.
pub const REOPENING_TESTS: &[(&str, ReopeningTest)] = &[
    ("everything is there after reopening", everything_is_there_after_reopening),
    ("a reopened store goes on", a_reopened_store_goes_on),
    ("positions go on after reopening", positions_go_on_after_reopening),
    ("another handle sees what was appended", another_handle_sees_what_was_appended),
    ("a sweep leaves what another handle shows", a_sweep_leaves_what_another_handle_shows),
];

/// Runs every test on backends that `make` makes, each new and empty.
///
/// # Panics
/// If the backend breaks its contract; the message names the test.
pub fn run(make: impl Fn() -> Arc<dyn Backend>) {
    for (name, test) in TESTS {
        // Shown by the test runner if the test fails.
        println!("conformance: {name}");
        test(&make);
    }
}

/// Runs every test, and those for backends that keep what they have.
///
/// `make` returns a new backend and a closure that opens it again once it is dropped.
///
/// # Panics
/// If the backend breaks its contract; the message names the test.
pub fn run_reopening<R: Fn() -> Arc<dyn Backend>>(make: impl Fn() -> (Arc<dyn Backend>, R)) {
    run(|| make().0);
    for (name, test) in REOPENING_TESTS {
        println!("conformance: {name}");
        let (backend, reopen) = make();
        assert!(backend.capabilities().persistent, "only a persistent backend can be opened again");
        test(backend, &reopen);
    }
}

/// Appends one object without moving a ref and returns where it is.
fn append_one(backend: &dyn Backend, sample: &crate::sample::Sample) -> ObjRef {
    append_all(backend, std::slice::from_ref(sample), &[], Durability::None).expect("an append without moves")[0]
}

/// Appends objects and moves refs; a move to an object of the batch needs no location.
fn append_all(
    backend: &dyn Backend,
    samples: &[crate::sample::Sample],
    moves: &[RefMove],
    durability: Durability,
) -> Result<Vec<ObjRef>, Error> {
    let mut batch = Batch::new();
    let known = HashMap::new();
    let places: Vec<ObjRef> =
        samples.iter().map(|sample| ObjRef::new(sample.oid, sample.put(&mut batch, &known))).collect();
    let moves: Vec<RefMove> = moves
        .iter()
        .cloned()
        .map(|mut wanted| {
            if let Some(RefTarget::Object(to)) = &mut wanted.to
                && let Some(place) = places.iter().find(|place| place.oid == to.oid)
            {
                *to = *place;
            }
            wanted
        })
        .collect();
    let base = backend.append(batch, &moves, durability)?;
    Ok(places.into_iter().map(|at| ObjRef::new(at.oid, crate::sample::appended(at.at, base))).collect())
}

/// Returns what the backend keeps.
fn family(backend: &dyn Backend) -> Family {
    Family::of(&backend.capabilities())
}

fn object(oid: Oid) -> RefTarget {
    RefTarget::Object(ObjRef::new(oid, Location::NONE))
}

fn set(name: impl Into<String>, expected: Expected, to: RefTarget) -> RefMove {
    RefMove { name: name.into(), expected, to: Some(to) }
}
