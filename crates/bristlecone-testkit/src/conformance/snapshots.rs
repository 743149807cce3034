//! Snapshots and sweeps: what stays, what goes, and what they report.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::*},
    },
    thread,
};

use bristlecone::{
    Backend, Batch, Durability, Error, Expected, RefMove, RefTarget, Roots, Snapshot, SweepLimits, Swept,
};
use bristlecone_core::{Kind, Location, ObjRef, Object, Oid};

use super::{Make, append_all, append_one, family};
use crate::sample::{Family, Sample};

/// A commit with a directory of two values, each with numbers of its own.
struct SampleGraph(Vec<Sample>);

impl SampleGraph {
    fn new(family: Family, number: u64) -> Self {
        let one = family.contents(number * 10, 30);
        let other = family.contents(number * 10 + 1, 5000);
        let dir = family.sample(number * 10 + 2, Kind::Node, &[one.child(), other.child()], 10);
        let head = family.sample(number * 10 + 3, Kind::Commit, &[dir.child()], 10);
        Self(vec![one, other, dir, head])
    }

    fn head(&self) -> Oid {
        self.0[3].oid
    }

    /// Appends it, and moves a ref to it.
    fn append(&self, backend: &dyn Backend, name: &str) {
        let wanted = move_to(name, Some(self.head()));
        append_all(backend, &self.0, &[wanted], Durability::None).expect("an append");
    }

    /// Whether all of it is there; if not, nothing of it may be.
    fn is_there(&self, snapshot: &dyn Snapshot) -> bool {
        let there = |sample: &Sample| match snapshot.read(&sample.oid.into()).expect("no error") {
            Some(object) => {
                assert_eq!(sample.mismatch(&object), None);
                true
            }
            None => false,
        };
        let there: Vec<bool> = self.0.iter().map(there).collect();
        assert!(there.iter().all(|&one| one == there[0]), "a part is there: {there:?}");
        there[0]
    }
}

fn move_to(name: &str, to: Option<Oid>) -> RefMove {
    RefMove { name: name.to_owned(), expected: Expected::Any, to: to.map(|oid| RefTarget::Object(oid.into())) }
}

fn move_ref(backend: &dyn Backend, name: &str, to: Option<Oid>) {
    backend.append(Batch::new(), &[move_to(name, to)], Durability::None).expect("a move");
}

/// Sweeps a backend that keeps graphs.
fn sweep(backend: &dyn Backend, graphs: &[SampleGraph], roots: &[Oid], limits: &SweepLimits) -> Result<Swept, Error> {
    let samples: HashMap<Oid, &Sample> = graphs.iter().flat_map(|graph| &graph.0).map(|s| (s.oid, s)).collect();
    let children = |oid: &Oid, _: &Object<'_>, each: &mut dyn FnMut(Oid)| {
        samples.get(oid).into_iter().flat_map(|sample| &sample.children).for_each(|child| each(child.oid));
        Ok(())
    };
    backend.sweep(&Roots::new(roots, &children), limits)
}

/// A backend, graphs in it, and the ref that leads to each.
type KeptGraphs = (Arc<dyn Backend>, Vec<SampleGraph>, Vec<String>);

/// Returns a backend with graphs that a ref leads to each, or `None` where nothing is swept: then that is refused.
fn swept_backend(make: Make<'_>, count: u64) -> Option<KeptGraphs> {
    let backend = make();
    let family = family(&*backend);
    let graphs: Vec<SampleGraph> = (0..count).map(|number| SampleGraph::new(family, number)).collect();
    let names: Vec<String> = (0..count).map(|number| family.ref_name(&format!("r{number}"))).collect();
    graphs.iter().zip(&names).for_each(|(graph, name)| graph.append(&*backend, name));
    if backend.capabilities().sweep {
        return Some((backend, graphs, names));
    }
    move_ref(&*backend, &names[0], None);
    let refused = sweep(&*backend, &graphs, &[], &SweepLimits::default());
    assert!(matches!(refused, Err(Error::Usage { .. } | Error::ReadOnly)), "{refused:?}");
    assert!(graphs.iter().all(|graph| graph.is_there(&*backend.snapshot(&[]))));
    None
}

/// A sweep drops what neither refs nor roots lead to, and nothing else.
///
/// # Panics
/// If it is not so.
pub fn a_sweep_drops_what_nothing_leads_to(make: Make<'_>) {
    let Some((backend, graphs, names)) = swept_backend(make, 6) else { return };
    move_ref(&*backend, &names[1], None);
    move_ref(&*backend, &names[2], Some(graphs[3].head()));
    move_ref(&*backend, &names[4], None);
    let (bytes, begun) = (backend.stats().store_bytes, backend.sweeps());
    let placed = |graph: &SampleGraph| -> Vec<ObjRef> {
        graph.0.iter().map(|one| ObjRef::new(one.oid, backend.locate(&one.oid).unwrap_or(Location::NONE))).collect()
    };
    let gone = [placed(&graphs[1]), placed(&graphs[2])].concat();
    let swept = sweep(&*backend, &graphs, &[graphs[4].head()], &SweepLimits::default()).unwrap();
    assert_eq!((swept.objects, swept.more), (8, false), "two graphs of four objects");
    assert!(swept.bytes > 10_000 && backend.stats().store_bytes <= bytes - 10_000, "memory is given back");
    assert!(backend.sweeps() > begun);
    let there: Vec<bool> = graphs.iter().map(|graph| graph.is_there(&*backend.snapshot(&[]))).collect();
    assert_eq!(there, [true, false, false, true, true, true]);
    // Nor where it was: who goes on from what is gone would build on it.
    for at in &gone {
        assert!(backend.read(at).unwrap().is_none(), "{at:?} is still read where it was");
        assert!(backend.snapshot(&[]).read(at).unwrap().is_none(), "a snapshot still reads {at:?}");
    }
    let mut met = 0;
    let mut count = |_: Oid, _: &Object<'_>| -> Result<(), Error> {
        met += 1;
        Ok(())
    };
    backend.each_object(&mut count, &mut |damage| panic!("{damage:?}")).unwrap();
    assert_eq!(met, 16);
    assert_eq!(sweep(&*backend, &graphs, &[], &SweepLimits::default()).unwrap().objects, 4, "no root any more");
    assert_eq!(sweep(&*backend, &graphs, &[], &SweepLimits::default()).unwrap(), Swept::default());
    // What was dropped can come again.
    graphs[1].append(&*backend, &names[1]);
    assert!(graphs[1].is_there(&*backend.snapshot(&[])));
}

/// A snapshot finds what refs led to, its roots, what it was told to keep and what came after it; and lends it for good.
///
/// # Panics
/// If it is not so.
pub fn a_snapshot_keeps_what_it_shows(make: Make<'_>) {
    let Some((backend, graphs, names)) = swept_backend(make, 6) else { return };
    let all = || sweep(&*backend, &graphs, &[], &SweepLimits::default()).unwrap().objects;
    names[1..].iter().for_each(|name| move_ref(&*backend, name, None));
    let snapshot = backend.snapshot(&[graphs[1].head()]);
    snapshot.keep(&graphs[2].head());
    let lent: Vec<Object<'_>> =
        graphs[3].0.iter().map(|sample| snapshot.read(&sample.oid.into()).unwrap().unwrap()).collect();
    // What its refs lead to moves away, and comes back under another name in between.
    move_ref(&*backend, &names[0], None);
    let after = SampleGraph::new(family(&*backend), 9);
    append_all(&*backend, &after.0, &[], Durability::None).unwrap();
    // What is there and is appended again is what came after it, too.
    append_all(&*backend, &graphs[5].0, &[], Durability::None).unwrap();
    assert_eq!(all(), 8, "graphs 3 and 4");
    for round in 0..3 {
        for (number, graph) in graphs.iter().enumerate() {
            // What was dropped may still be shown by a snapshot of before, as a whole.
            let there = graph.is_there(&*snapshot);
            assert!(there || !(number < 3 || number == 5), "graph {number} in round {round}");
        }
        let now = backend.snapshot(&[]);
        assert!(!graphs[3].is_there(&*now) && !graphs[4].is_there(&*now), "round {round}");
        drop(now);
        assert!(after.is_there(&*snapshot), "what came after it");
        for (sample, object) in graphs[3].0.iter().zip(&lent) {
            assert_eq!(sample.mismatch(object), None, "what was lent stays");
        }
        let other = backend.snapshot(&[]);
        assert!(graphs[0].is_there(&*other));
        assert_eq!(all(), 0);
    }
    drop(lent);
    drop(snapshot);
    assert_eq!(all(), 20, "the snapshot is gone");
    assert!(!after.is_there(&*backend.snapshot(&[])));
}

/// A snapshot that moves on in place shows and keeps what one does that is taken then, and nothing of before; one that does
/// not keeps what it kept.
///
/// # Panics
/// If it is not so.
pub fn a_refreshed_snapshot_is_as_a_new_one(make: Make<'_>) {
    let Some((backend, graphs, names)) = swept_backend(make, 4) else { return };
    let all = || sweep(&*backend, &graphs, &[], &SweepLimits::default()).unwrap().objects;
    let mut snapshot = backend.snapshot(&[graphs[1].head()]);
    names[1..].iter().for_each(|name| move_ref(&*backend, name, None));
    snapshot.keep(&graphs[2].head());
    assert_eq!(all(), 0, "a snapshot of when refs led to everything");
    let position = snapshot.position();
    let Some(only) = Arc::get_mut(&mut snapshot) else { panic!("a snapshot belongs to the caller that took it") };
    let moved = only.refresh(&[graphs[3].head()]);
    let (kept, gone) = if moved { ([true, false, false, true], 8) } else { ([true; 4], 0) };
    assert_eq!(snapshot.position() > position, moved && position.is_some());
    assert_eq!(all(), gone, "moved: {moved}");
    let now = backend.snapshot(&[]);
    for (number, graph) in graphs.iter().enumerate() {
        assert!(graph.is_there(&*snapshot) || !kept[number], "graph {number}, moved: {moved}");
        assert_eq!(graph.is_there(&*now), kept[number], "graph {number}, moved: {moved}");
    }
    drop(now);
    // What refs lead to now and what comes from now on is kept as well.
    move_ref(&*backend, &names[0], None);
    let after = SampleGraph::new(family(&*backend), 9);
    append_all(&*backend, &after.0, &[], Durability::None).unwrap();
    assert_eq!(all(), 0);
    assert!(graphs[0].is_there(&*snapshot) && after.is_there(&*snapshot));
    drop(snapshot);
    assert_eq!(all(), 20 - gone, "the snapshot is gone");
}

/// A batch that left out what a sweep dropped is refused, whole, with the ids of what is gone; with them in it, it passes.
///
/// # Panics
/// If it is not so.
pub fn a_batch_that_left_out_what_is_gone_is_refused(make: Make<'_>) {
    let Some((backend, graphs, names)) = swept_backend(make, 2) else { return };
    let family = family(&*backend);
    let (gone, stays) = (&graphs[1], &graphs[0]);
    let head = family.sample(77, Kind::Commit, &[gone.0[2].child(), stays.0[2].child()], 10);
    let batch = |with: &[Sample]| {
        let mut batch = Batch::since(backend.sweeps());
        with.iter().chain([&head]).for_each(|sample| _ = sample.put(&mut batch, &HashMap::new()));
        batch
    };
    let mut short = batch(&[]);
    short.leave_out(gone.0[2].oid);
    short.leave_out(stays.0[2].oid);
    move_ref(&*backend, &names[1], None);
    let wanted = [move_to(&names[1], Some(head.oid))];
    // Nothing was swept yet: it passes. The same once it was.
    assert!(backend.append(short.clone(), &wanted, Durability::None).is_ok());
    move_ref(&*backend, &names[1], None);
    sweep(&*backend, &graphs, &[], &SweepLimits::default()).unwrap();
    let held = backend.list_refs("").unwrap();
    for moves in [&wanted[..], &[]] {
        match backend.append(short.clone(), moves, Durability::None) {
            Err(Error::Gone { oids }) => assert_eq!(oids, [gone.0[2].oid]),
            other => panic!("{other:?}"),
        }
        assert!(matches!(backend.append_keeping(&mut short), Err(Error::Gone { .. })));
        assert!(!short.is_empty(), "what was not appended stays in the batch");
        assert_eq!(backend.list_refs("").unwrap(), held);
        assert!(backend.read(&head.oid.into()).unwrap().is_none());
    }
    let mut whole = batch(&gone.0[..3]);
    whole.leave_out(stays.0[2].oid);
    backend.append(whole, &wanted, Durability::None).unwrap();
    assert!(backend.read(&head.oid.into()).unwrap().is_some());
}

/// What a snapshot of before a sweep still shows where it was, and the sweep dropped, is not built on: a batch that is made from
/// that snapshot is refused.
///
/// # Panics
/// If it is not so.
pub fn what_an_old_snapshot_shows_is_not_built_on(make: Make<'_>) {
    let Some((backend, graphs, names)) = swept_backend(make, 2) else { return };
    let (family, dir) = (family(&*backend), &graphs[1].0[2]);
    move_ref(&*backend, &names[1], None);
    // Taken when nothing led to it any more.
    let mut snapshot = backend.snapshot(&[]);
    let at = ObjRef::new(dir.oid, backend.locate(&dir.oid).unwrap_or(Location::NONE));
    assert!(snapshot.read(&at).unwrap().is_some());
    assert_eq!(sweep(&*backend, &graphs, &[], &SweepLimits::default()).unwrap().objects, 4);
    let head = family.sample(77, Kind::Commit, &[dir.child()], 10);
    let build = |snapshot: &dyn Snapshot| {
        let mut batch = Batch::since(snapshot.sweeps().unwrap_or_else(|| backend.sweeps()));
        head.put(&mut batch, &HashMap::new());
        batch.leave_out(dir.oid);
        match backend.append(batch, &[move_to(&names[1], Some(head.oid))], Durability::None) {
            Err(Error::Gone { oids }) => assert_eq!(oids, [dir.oid]),
            other => panic!("{other:?}"),
        }
    };
    if snapshot.read(&at).unwrap().is_some() {
        build(&*snapshot);
    }
    // One that has moved on shows it no more, or counts as old.
    if let Some(only) = Arc::get_mut(&mut snapshot) {
        only.refresh(&[]);
    }
    if snapshot.read(&at).unwrap().is_some() {
        build(&*snapshot);
    }
}

/// A ref is not moved to an object that was swept, whichever way it is appended; it is moved to one that is there, and to one
/// that the same batch brings back, or an earlier one of the same call.
///
/// # Panics
/// If it is not so.
pub fn a_ref_is_not_moved_to_what_is_gone(make: Make<'_>) {
    let Some((backend, graphs, names)) = swept_backend(make, 3) else { return };
    let (gone, stays) = (graphs[1].head(), graphs[0].head());
    let to_gone = || vec![move_to(&names[1], Some(gone))];
    move_ref(&*backend, &names[1], None);
    move_ref(&*backend, &names[2], None);
    sweep(&*backend, &graphs, &[], &SweepLimits::default()).unwrap();
    let held = backend.list_refs("").unwrap();
    let refused = |answer: Result<_, Error>| match answer {
        Err(Error::Gone { oids }) => assert_eq!(oids, [gone]),
        other => panic!("{other:?}"),
    };
    for durability in [Durability::None, Durability::Synced] {
        refused(backend.append(Batch::new(), &to_gone(), durability));
        let both = [move_to(&names[2], Some(stays)), move_to(&names[1], Some(gone))];
        refused(backend.append(Batch::new(), &both, durability));
        let mut answers = backend.append_many(vec![(Batch::new(), to_gone()), Default::default()], durability);
        assert!(answers.pop().unwrap().is_ok(), "a refused append leaves others alone");
        refused(answers.pop().unwrap());
        assert_eq!(backend.list_refs("").unwrap(), held);
    }
    move_ref(&*backend, &names[2], Some(stays));
    // An earlier batch brings it.
    let mut whole = Batch::new();
    graphs[1].0.iter().for_each(|sample| _ = sample.put(&mut whole, &HashMap::new()));
    let appends = vec![(whole, Vec::new()), (Batch::new(), to_gone())];
    backend.append_many(appends, Durability::None).into_iter().for_each(|answer| _ = answer.unwrap());
    assert!(graphs[1].is_there(&*backend.snapshot(&[])));
    graphs[2].append(&*backend, &names[2]);
    assert!(graphs[2].is_there(&*backend.snapshot(&[])));
}

/// A sweep that may drop little at a time leaves nothing without what is below it, and goes on where it ended.
///
/// # Panics
/// If it is not so.
pub fn a_sweep_within_limits_leaves_no_part(make: Make<'_>) {
    let Some((backend, graphs, names)) = swept_backend(make, 5) else { return };
    names[..4].iter().for_each(|name| move_ref(&*backend, name, None));
    let mut total = 0;
    for round in 0.. {
        let limits =
            if round % 2 == 0 { SweepLimits::default().objects(1) } else { SweepLimits::default().bytes(5500) };
        let swept = sweep(&*backend, &graphs, &[], &limits).unwrap();
        assert!(swept.objects <= limits.objects && swept.bytes <= limits.bytes, "{swept:?}");
        total += swept.objects;
        let snapshot = backend.snapshot(&[]);
        let there = |oid: &Oid| snapshot.read(&ObjRef::from(*oid)).unwrap().is_some();
        for sample in graphs.iter().flat_map(|graph| &graph.0).filter(|sample| there(&sample.oid)) {
            assert!(sample.children.iter().all(|child| there(&child.oid)), "{} lacks a child", sample.oid);
        }
        if !swept.more {
            break;
        }
        assert!(swept.objects > 0 && round < 100, "it goes on");
    }
    assert_eq!(total, 16);
    assert!(graphs[4].is_there(&*backend.snapshot(&[])));
}

/// Moves of refs have positions that only rise; a backend without positions does not claim them.
///
/// # Panics
/// If it is not so.
pub fn positions_order_the_moves_of_refs(make: Make<'_>) {
    let backend = make();
    let family = family(&*backend);
    let name = family.ref_name("moving");
    let mut last = backend.position().unwrap();
    assert_eq!(last.is_some(), backend.capabilities().positions);
    for number in 0..10 {
        let sample = family.contents(number, 20);
        let at = append_one(&*backend, &sample);
        // Every third move removes the ref.
        move_ref(&*backend, &name, (number % 3 < 2).then_some(at.oid));
        let now = backend.position().unwrap();
        assert_eq!(backend.snapshot(&[]).position(), now);
        assert!(now > last || now.is_none(), "{now:?} after {last:?}");
        last = now;
    }
    assert_eq!(backend.position().unwrap(), last, "nothing moved");
}

/// Readers find all that a ref led to when they looked, while other threads move it on and sweep.
///
/// # Panics
/// If it is not so.
pub fn readers_find_everything_while_others_sweep(make: Make<'_>) {
    let Some((backend, graphs, names)) = swept_backend(make, 40) else { return };
    let done = AtomicBool::new(false);
    names[1..].iter().for_each(|name| move_ref(&*backend, name, None));
    thread::scope(|scope| {
        let (backend, graphs, names, done) = (&*backend, &graphs, &names, &done);
        for _ in 0..2 {
            scope.spawn(move || {
                while !done.load(Acquire) {
                    // Before the ref is read.
                    let snapshot = backend.snapshot(&[]);
                    let Some(RefTarget::Object(at)) = backend.get_ref(&names[0]).unwrap() else { panic!("no ref") };
                    let graph = graphs.iter().find(|graph| graph.head() == at.oid).expect("one of ours");
                    for _ in 0..5 {
                        assert!(graph.is_there(&*snapshot));
                        thread::yield_now();
                    }
                }
            });
        }
        scope.spawn(move || {
            while !done.load(Acquire) {
                sweep(backend, graphs, &[], &SweepLimits::default()).unwrap();
            }
        });
        for round in 0..300 {
            graphs[round % graphs.len()].append(backend, &names[0]);
        }
        done.store(true, Release);
    });
}
