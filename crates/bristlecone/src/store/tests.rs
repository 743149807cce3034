//! What another thread gave to a sink of its own is as if it had been given to the sink that it was taken from.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Barrier,
};

use bristlecone_core::{Sink as _, native::Native};

use super::*;
use crate::{MemoryBackend, pool};

fn store() -> Arc<StoreView<Native>> {
    StoreBase::new(Native::new(), Arc::new(MemoryBackend::new())).now(&[])
}

fn put(sink: &mut FlushSink<'_>, byte: u8, children: &[Location]) -> Location {
    sink.put(Kind::Node, Oid::from_array([byte; 32]), &[byte; 5], children, &[])
}

/// Gives objects, of which `extra` ones are given by both halves, and returns where the second half's are.
fn halves(sink: &mut FlushSink<'_>, extra: u8, meet: &(dyn Fn() + Sync)) -> Vec<Location> {
    let far = Location(77);
    let ((), places) = sink.join(
        |sink| {
            meet();
            (1..100 + extra).for_each(|byte| _ = put(sink, byte, &[]));
            sink.dir_replaced(b"one");
            sink.leave_out(&Oid::from_array([7; 32]));
        },
        |sink| {
            meet();
            let mut last = far;
            sink.dir_replaced(b"other");
            sink.leave_out(&Oid::from_array([8; 32]));
            let mut put_last = |byte| {
                last = put(sink, byte, &[last, far]);
                last
            };
            (100..200).map(&mut put_last).chain([far]).collect::<Vec<Location>>()
        },
        |places, place| places.iter_mut().for_each(|at| *at = place(*at)),
    );
    places
}

#[test]
fn what_another_thread_gave_is_as_if_it_had_been_given_here() {
    let store = store();
    let pool = rayon::ThreadPoolBuilder::new().num_threads(2).build().unwrap();
    for extra in [0, 20] {
        let (mut alone, mut shared) = (store.sink(), store.sink());
        let first = [put(&mut alone, 250, &[]), put(&mut shared, 250, &[])];
        assert_eq!(first[0], first[1]);
        let places = halves(&mut alone, extra, &|| ());
        // Neither half goes on before both have begun, so another thread has one.
        let barrier = Barrier::new(2);
        let meet = || _ = barrier.wait();
        assert_eq!(pool.install(|| halves(&mut shared, extra, &meet)), places);
        assert_eq!(alone.take_replaced(), [b"one".to_vec(), b"other".to_vec()]);
        assert_eq!(shared.take_replaced(), [b"one".to_vec(), b"other".to_vec()]);
        let (alone, shared) = (alone.take(), shared.take());
        assert_eq!(alone.bytes(), shared.bytes());
        assert_eq!(alone.offsets().collect::<Vec<_>>(), shared.offsets().collect::<Vec<_>>());
        assert_eq!(alone.left_out(), shared.left_out());
    }
}

#[test]
fn no_more_waits_than_a_batch_has_places_for() {
    let most = crate::VALUE_BYTES_MAX as usize;
    check_room(0, most).unwrap();
    check_room(Batch::BYTES_MAX - 8192, 4096).unwrap();
    for (waiting, value) in [(Batch::BYTES_MAX - 4096, 4096), (most, most), (usize::MAX, 4096)] {
        let refused = check_room(waiting, value);
        assert!(matches!(refused, Err(Error::TooLarge { .. })), "{waiting}, {value}: {refused:?}");
    }
}

#[test]
fn what_cannot_be_written_is_offered_again_once_it_is_twice_as_much() {
    let backend = crate::ReadOnly(Arc::new(MemoryBackend::new()));
    let store = StoreBase::new(Native::new(), Arc::new(backend)).now(&[]);
    let (prewritten, mut due) = (Prewritten::default(), Vec::new());
    for n in 0..40_u8 {
        prewrite(&store, &prewritten, &vec![n; 100 << 10]).unwrap();
        due.push(lock_values(&prewritten).due);
    }
    due.dedup();
    assert!(due.len() == 3 && due[1] > 2 << 20 && due[2] > 4 << 20, "{due:?}");
}

#[test]
fn a_panic_of_another_thread_is_the_callers() {
    let store = store();
    let panicked = |panics: bool| {
        let mut sink = store.sink();
        let barrier = Barrier::new(2);
        let work = || {
            sink.join(
                |_| _ = barrier.wait(),
                |_| {
                    barrier.wait();
                    assert!(!panics, "on another thread");
                },
                |(), _| (),
            )
        };
        catch_unwind(AssertUnwindSafe(|| pool::within(2, work))).is_err()
    };
    assert!(panicked(true) && !panicked(false));
}

#[test]
fn what_is_apart_is_appended_at_once_and_the_batch_hangs_together_with_it() {
    let store = store();
    let backend = &*store.backend;
    store.set_shared_min(16);
    let mut sink = store.sink();
    sink.write_early(backend);
    let before = put(&mut sink, 1, &[]);
    let apart = |sink: &mut FlushSink<'_>, bytes: std::ops::Range<u8>| {
        let make = |sink: &mut FlushSink<'_>| bytes.map(|byte| put(sink, byte, &[])).collect::<Vec<_>>();
        sink.apart(make, |places, place| places.iter_mut().for_each(|at| *at = place(*at)))
    };
    // Too little for an append of its own comes behind what the sink has.
    let little = apart(&mut sink, 2..3);
    assert!(little[0].pending_offset() > before.pending_offset());
    let much = apart(&mut sink, 3..9);
    for (byte, at) in (3..9).zip(&much) {
        let oid = Oid::from_array([byte; 32]);
        let object = backend.read(&bristlecone_core::ObjRef::new(oid, *at)).unwrap().expect("it was appended");
        assert_eq!((object.body(), object.location()), (&[byte; 5][..], *at));
    }
    let parent = put(&mut sink, 9, &[before, much[0]]);
    assert!(parent.pending_offset().is_some());
    sink.written().unwrap();
    let batch = sink.take();
    let named: Vec<u8> = batch.left_out().0.iter().map(|oid| oid.as_bytes()[0]).collect();
    assert_eq!((batch.len(), named), (3, (3..9).collect::<Vec<_>>()));
}

#[test]
fn what_cannot_be_appended_at_once_fails_what_is_made_of_it() {
    let (store, refusing) = (store(), crate::ReadOnly(Arc::new(MemoryBackend::new())));
    store.set_shared_min(16);
    let mut sink = store.sink();
    sink.write_early(&refusing);
    for _ in 0..2 {
        sink.apart(|sink| (0..9).for_each(|byte| _ = put(sink, byte, &[])), |(), _| {});
    }
    assert!(matches!(sink.written(), Err(Error::ReadOnly)));
    sink.written().unwrap();
}
