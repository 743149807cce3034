//! Sweeps: objects that were appended more than once, and who may read meanwhile.

use std::{
    cell::Cell,
    sync::{
        atomic::{AtomicBool, Ordering::Relaxed},
        mpsc,
    },
    thread,
    time::Duration,
};

use bristlecone::{Backend, Durability, Error, Expected, Roots, SweepLimits, SweepStatus};
use bristlecone_core::{Location, ObjRef, Object, Oid};

use super::{Make, append_all, append_one, family, object, set};
use crate::sample::Sample;

/// Bytes of an object that shares pages and slabs with others, of one that does not, and of one that has memory of its own.
const BYTES: [usize; 3] = [300, 20_000, 2_200_000];
/// After some hundred objects a watcher is told how far a sweep is.
const MARKED: u64 = 700;
/// A sweep of these that takes longer waits for itself.
const SWEEP_MAX: Duration = Duration::from_secs(120);

/// An append of a few objects that takes longer waits for the sweep.
const APPEND_MAX: Duration = Duration::from_secs(30);

/// Sweeps a backend in which no object names another; `roots` stay. Returns how many objects went.
fn sweep(backend: &dyn Backend, roots: &[&Sample]) -> u64 {
    let oids: Vec<Oid> = roots.iter().map(|root| root.oid).collect();
    let children = |_: &Oid, _: &Object<'_>, _: &mut dyn FnMut(Oid)| Ok(());
    backend.sweep(&Roots::new(&oids, &children), &SweepLimits::default()).expect("a sweep").objects
}

/// What was appended more than once, alone and beside others, is dropped from every place, also where sweeps have moved it in
/// between: no hint leads to it any more.
///
/// # Panics
/// If it is not so.
pub fn what_was_appended_again_is_dropped_from_every_place(make: Make<'_>) {
    for (bytes, is_moved) in BYTES.iter().flat_map(|&bytes| [(bytes, false), (bytes, true)]) {
        let made = make();
        let backend = &*made;
        if !backend.capabilities().sweep {
            return;
        }
        let family = family(backend);
        let [gone, stays] = [family.contents(1, bytes), family.contents(2, 300)];
        let garbage = |number: u64| family.contents(10 + number, 200);
        let appends = [
            vec![gone.clone(), garbage(0)],
            vec![gone.clone(), garbage(1)],
            vec![stays.clone(), gone.clone(), garbage(2)],
        ];
        let mut places = vec![ObjRef::from(gone.oid)];
        for samples in &appends {
            let appended = append_all(backend, samples, &[], Durability::None).expect("an append without moves");
            places.extend(appended.into_iter().filter(|at| at.oid == gone.oid));
            if is_moved {
                assert_eq!(sweep(backend, &[&gone, &stays]), 1, "the garbage goes");
            }
            places.extend(backend.locate(&gone.oid).map(|at| ObjRef::new(gone.oid, at)));
            places.iter().for_each(|at| gone.expect(backend, at.at).unwrap());
        }
        assert_eq!(sweep(backend, &[&stays]), if is_moved { 1 } else { 4 }, "copies count as one object");
        let snapshot = backend.snapshot(&[]);
        for at in &places {
            assert!(backend.read(at).unwrap().is_none(), "{at:?} is still read where it was");
            assert!(snapshot.read(at).unwrap().is_none(), "a snapshot still reads {at:?}");
            assert!(snapshot.peek(at.oid.as_bytes(), at.at).is_none(), "a snapshot still lends {at:?}");
        }
        drop(snapshot);
        stays.expect(backend, Location::NONE).unwrap();
        // It can come again, and is found by any hint.
        append_one(backend, &gone);
        places.iter().for_each(|at| gone.expect(backend, at.at).unwrap());
    }
}

/// Who is told how far a sweep is may ask for refs, take snapshots and read through them.
///
/// # Panics
/// If it is not so.
pub fn who_watches_a_sweep_may_read_meanwhile(make: Make<'_>) {
    let backend = make();
    if !backend.capabilities().sweep {
        return;
    }
    let family = family(&*backend);
    let samples: Vec<Sample> = (0..MARKED).map(|number| family.contents(number, 20)).collect();
    let (oids, name): (Vec<Oid>, _) = (samples.iter().map(|sample| sample.oid).collect(), family.ref_name("main"));
    let wanted = set(&name, Expected::Any, object(oids[0]));
    append_all(&*backend, &samples, &[wanted], Durability::None).expect("an append");
    let (sender, ended) = mpsc::channel();
    // If it waits for itself, nobody waits for it.
    let sweeping = thread::spawn(move || {
        let watch = |_: &SweepStatus| -> Result<(), Error> {
            let _ = (backend.get_ref(&name)?, backend.list_refs("")?, backend.position()?);
            let _ = (backend.stats(), backend.sweeps(), backend.locate(&oids[1]));
            let snapshot = backend.snapshot(&[oids[0]]);
            snapshot.keep(&oids[1]);
            assert!(snapshot.read(&oids[1].into())?.is_some() && backend.read(&oids[0].into())?.is_some());
            Ok(())
        };
        let children = |_: &Oid, _: &Object<'_>, _: &mut dyn FnMut(Oid)| Ok(());
        let swept = backend.sweep(&Roots::new(&oids, &children).watch(&watch), &SweepLimits::default());
        let _ = sender.send(swept.map(|swept| swept.objects));
    });
    let swept = ended.recv_timeout(SWEEP_MAX).expect("the sweep ends");
    assert_eq!(swept.expect("a sweep"), 0);
    sweeping.join().expect("the thread ends");
}

/// Appends do not wait while a sweep marks that tells how far it is, and what they bring beside a snapshot, or lead a ref to,
/// stays.
///
/// # Panics
/// If it is not so.
pub fn appends_go_on_while_a_sweep_marks(make: Make<'_>) {
    let backend = make();
    if !backend.capabilities().sweep {
        return;
    }
    let family = family(&*backend);
    let samples: Vec<Sample> = (0..MARKED).map(|number| family.contents(number, 20)).collect();
    let [named, again, new, gone] = [1, 2, 3, 4].map(|number| family.contents(MARKED + number, 20));
    let there = [&samples[..], &[named.clone(), again.clone(), gone.clone()]].concat();
    append_all(&*backend, &there, &[], Durability::None).expect("an append");
    let oids: Vec<Oid> = samples.iter().map(|sample| sample.oid).collect();
    let (name, asked, held) = (family.ref_name("main"), AtomicBool::new(false), Cell::new(None));
    let watch = |_: &SweepStatus| -> Result<(), Error> {
        if asked.swap(true, Relaxed) {
            return Ok(());
        }
        held.set(Some(backend.snapshot(&[])));
        let (sender, ended) = mpsc::channel();
        let (backend, moves) = (backend.clone(), [set(&name, Expected::Any, object(named.oid))]);
        let appended = [again.clone(), new.clone()];
        // If it waits for the sweep, nobody waits for it.
        thread::spawn(move || sender.send(append_all(&*backend, &appended, &moves, Durability::None).map(drop)));
        ended.recv_timeout(APPEND_MAX).expect("the append ends")
    };
    let children = |_: &Oid, _: &Object<'_>, _: &mut dyn FnMut(Oid)| Ok(());
    let swept = backend.sweep(&Roots::new(&oids, &children).watch(&watch), &SweepLimits::default());
    if !asked.load(Relaxed) {
        return;
    }
    swept.expect("a sweep");
    [&named, &again, &new].iter().for_each(|sample| sample.expect(&*backend, Location::NONE).unwrap());
    assert!(backend.read(&gone.oid.into()).unwrap().is_none());
    // What no ref leads to goes once no snapshot holds it.
    drop(held);
    assert_eq!(sweep(&*backend, &samples.iter().collect::<Vec<_>>()), 2);
    named.expect(&*backend, Location::NONE).unwrap();
}
