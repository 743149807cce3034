//! The backend `fs`: sweeps of more than goes in one step.

use std::{
    cell::{Cell, RefCell},
    collections::HashMap,
    fs,
    slice::from_ref,
    sync::{
        Arc, Mutex, OnceLock, Weak,
        atomic::{AtomicBool, Ordering::Relaxed},
        mpsc,
    },
    thread,
    time::Duration,
};

use bristlecone::{
    Backend, Batch, Durability, Error, Kind, Object, Oid, Roots, Snapshot, SweepLimits, SweepStatus, SweepStep, Swept,
    fs::FsBackend,
    storage::{OpenMode, RealStorage, Storage, StorageFile},
};
use bristlecone_testkit::{
    sample::{Family, Sample},
    sim::{Coming, Hooked, SimStorage},
};

use crate::{
    engine::format_tag,
    fs::{append, graph, options, sweep},
};

/// Graphs of four objects, more than a step removes.
const GRAPHS: u64 = 1300;
/// How long an append that waits for the sweep is waited for.
const PATIENCE: Duration = Duration::from_secs(10);

/// Makes a store on a disk that calls `hook`, with graphs to which nothing leads.
fn make(
    disk: &SimStorage,
    graphs: &[Vec<Sample>],
    hook: impl Fn(Coming<'_>) + Send + Sync + 'static,
) -> Arc<FsBackend> {
    let storage = Arc::new(Hooked::new(Arc::new(disk.clone()), hook));
    let backend = FsBackend::create(storage, format_tag(), options()).unwrap();
    append_all(&backend, graphs);
    Arc::new(backend)
}

/// Appends graphs, and moves no ref.
fn append_all(backend: &FsBackend, graphs: &[Vec<Sample>]) {
    let mut batch = Batch::new();
    graphs.iter().flatten().for_each(|sample| _ = sample.put(&mut batch, &HashMap::new()));
    backend.append(batch, &[], Durability::None).unwrap();
}

/// Sweeps, and appends what names the head of the second of three graphs while what goes is chosen.
fn sweep_beside(backend: &FsBackend, graphs: &[Vec<Sample>], new: &Sample, append: impl Fn()) {
    let samples: HashMap<Oid, &Sample> =
        graphs.iter().flatten().chain([new]).map(|sample| (sample.oid, sample)).collect();
    let asked = AtomicBool::new(false);
    // Nothing stays as yet: the first that the sweep looks at may go.
    let children = |oid: &Oid, _: &Object<'_>, each: &mut dyn FnMut(Oid)| {
        if !asked.swap(true, Relaxed) {
            append();
        }
        samples[oid].children.iter().for_each(|child| each(child.oid));
        Ok(())
    };
    let swept = backend.sweep(&Roots::new(&[], &children), &SweepLimits::default()).unwrap();
    assert_eq!(swept.objects, 8);
    for (number, graph) in graphs.iter().enumerate() {
        let there = graph.iter().map(|sample| backend.read(&sample.oid.into()).unwrap().is_some());
        assert!(there.eq([number == 1; 4]), "graph {number}");
    }
    assert!(backend.read(&new.oid.into()).unwrap().is_some());
}

/// Returns three graphs, and an object that names the head of the second.
fn three_graphs() -> (Vec<Vec<Sample>>, Sample) {
    let graphs: Vec<Vec<Sample>> = (0..3).map(graph).collect();
    let new = Family::default().sample(1000, Kind::Commit, &[graphs[1][3].child()], 10);
    (graphs, new)
}

#[test]
fn appends_go_on_while_a_sweep_chooses_what_goes() {
    let (graphs, new) = three_graphs();
    let backend = make(&SimStorage::new(), &graphs, |_| {});
    sweep_beside(&backend, &graphs, &new, || {
        let (sender, ended) = mpsc::channel();
        let (backend, graphs) = (backend.clone(), [vec![new.clone()]]);
        // If it waits for the sweep, nobody waits for it.
        thread::spawn(move || {
            append_all(&backend, &graphs);
            sender.send(())
        });
        ended.recv_timeout(PATIENCE).expect("the append ends");
    });
}

#[test]
fn what_an_append_that_failed_beside_a_sweep_left_has_everything_below_it() {
    let (graphs, new) = three_graphs();
    let dir = tempfile::tempdir().unwrap();
    let backend = FsBackend::create(Arc::new(RealStorage::new(dir.path())), format_tag(), options()).unwrap();
    append_all(&backend, &graphs);
    sweep_beside(&backend, &graphs, &new, || {
        // Objects get their names before the list of refs is written.
        let in_the_way = dir.path().join("refs.new");
        fs::create_dir(&in_the_way).unwrap();
        assert!(append(&backend, "main", from_ref(&new), Durability::None).is_err());
        fs::remove_dir(&in_the_way).unwrap();
    });
}

#[test]
fn what_is_kept_between_two_steps_of_a_sweep_stays_with_all_below_it() {
    let graphs: Vec<Vec<Sample>> = (0..GRAPHS).map(graph).collect();
    let heads: Vec<Oid> = graphs.iter().map(|graph| graph[3].oid).collect();
    let opened = Arc::new(OnceLock::<Weak<FsBackend>>::new());
    let held = Arc::new(Mutex::new(None::<(Arc<dyn Snapshot>, Oid)>));
    let hook = {
        let (opened, held) = (opened.clone(), held.clone());
        let (removed, asked) = (AtomicBool::new(false), AtomicBool::new(false));
        move |coming: Coming<'_>| match (coming.method, coming.name) {
            ("remove", "sweep") => removed.store(true, Relaxed),
            // A step begins behind another one.
            ("list", "open") if removed.load(Relaxed) && !asked.swap(true, Relaxed) => {
                let Some(backend) = opened.get().and_then(Weak::upgrade) else { return };
                let left = heads.iter().find(|head| backend.read(&(**head).into()).unwrap().is_some());
                if let Some(head) = left {
                    *held.lock().unwrap() = Some((backend.snapshot(&[*head]), *head));
                }
            }
            _ => {}
        }
    };
    let backend = make(&SimStorage::new(), &graphs, hook);
    opened.set(Arc::downgrade(&backend)).unwrap();
    let swept = sweep(&*backend, &graphs).unwrap();
    let (snapshot, kept) = held.lock().unwrap().take().expect("a sweep in steps");
    assert_eq!((swept.objects, swept.more), (4 * GRAPHS - 4, false));
    for graph in &graphs {
        let there = graph.iter().map(|sample| snapshot.read(&sample.oid.into()).unwrap().is_some());
        assert!(there.eq([graph[3].oid == kept; 4]), "{}", graph[3].oid);
    }
    drop(snapshot);
    assert_eq!(sweep(&*backend, &graphs).unwrap().objects, 4);
}

#[test]
fn a_sweep_leaves_the_rest_to_the_next_where_another_process_comes() {
    let graphs: Vec<Vec<Sample>> = (0..GRAPHS).map(graph).collect();
    let disk = SimStorage::new();
    let session = Arc::new(Mutex::new(None::<Arc<dyn StorageFile>>));
    let hook = {
        let (process, session, came) = (disk.process(), session.clone(), AtomicBool::new(false));
        move |coming: Coming<'_>| {
            if (coming.method, coming.name) == ("remove", "sweep") && !came.swap(true, Relaxed) {
                // As a process that opens the store.
                let file = process.open("open/9", OpenMode::Create).unwrap();
                assert!(file.try_lock().unwrap());
                *session.lock().unwrap() = Some(file);
            }
        }
    };
    let backend = make(&disk, &graphs, hook);
    let swept = sweep(&*backend, &graphs).unwrap();
    assert!(swept.more && (1..4 * GRAPHS).contains(&swept.objects), "{swept:?}");
    for graph in &graphs {
        let there = |sample: &Sample| backend.read(&sample.oid.into()).unwrap().is_some();
        assert!(!there(&graph[3]) || graph.iter().all(there));
    }
    drop(session.lock().unwrap().take());
    let rest = sweep(&*backend, &graphs).unwrap();
    assert_eq!((swept.objects + rest.objects, rest.more), (4 * GRAPHS, false));
}

/// Sweeps, and returns the answer with what was told of each step that removed something. `watch` is called behind each.
fn sweep_told(
    backend: &FsBackend,
    graphs: &[Vec<Sample>],
    watch: impl Fn() -> Result<(), Error>,
) -> (Result<Swept, Error>, Vec<u64>) {
    let samples: HashMap<Oid, &Sample> = graphs.iter().flatten().map(|sample| (sample.oid, sample)).collect();
    let told = RefCell::new(Vec::new());
    let children = |oid: &Oid, _: &Object<'_>, each: &mut dyn FnMut(Oid)| {
        samples[oid].children.iter().for_each(|child| each(child.oid));
        Ok(())
    };
    let watch = |status: &SweepStatus| -> Result<(), Error> {
        if status.step != SweepStep::Remove {
            return Ok(());
        }
        told.borrow_mut().push(status.objects);
        watch()
    };
    let swept = backend.sweep(&Roots::new(&[], &children).watch(&watch), &SweepLimits::default());
    (swept, told.into_inner())
}

#[test]
fn who_watches_a_sweep_ends_it_between_two_steps() {
    let graphs: Vec<Vec<Sample>> = (0..GRAPHS).map(graph).collect();
    let backend = make(&SimStorage::new(), &graphs, |_| {});
    let (swept, told) = sweep_told(&backend, &graphs, || Err(Error::Stopped));
    let swept = swept.unwrap();
    assert!(swept.more && (1..4 * GRAPHS).contains(&swept.objects), "{swept:?}");
    assert_eq!(told, [swept.objects]);
    for graph in &graphs {
        let there = |sample: &Sample| backend.read(&sample.oid.into()).unwrap().is_some();
        assert!(!there(&graph[3]) || graph.iter().all(there));
    }
    // Behind the last step nothing is left to end.
    let (rest, told) = sweep_told(&backend, &graphs, || Err(Error::Stopped));
    let rest = rest.unwrap();
    assert_eq!((swept.objects + rest.objects, rest.more, told), (4 * GRAPHS, false, vec![rest.objects]));
}

#[test]
fn what_a_sweep_removed_that_fails_is_told() {
    let graphs: Vec<Vec<Sample>> = (0..GRAPHS).map(graph).collect();
    let disk = SimStorage::new();
    let backend = make(&disk, &graphs, |_| {});
    // The next list has no room.
    let (swept, told) = sweep_told(&backend, &graphs, || {
        disk.limit_space(Some(disk.bytes()));
        Ok(())
    });
    assert!(matches!(swept, Err(Error::NoSpace { .. })), "{swept:?}");
    disk.limit_space(None);
    let left = graphs.iter().flatten().filter(|sample| backend.read(&sample.oid.into()).unwrap().is_some()).count();
    assert_eq!(told, [4 * GRAPHS - left as u64; 2]);
    assert_eq!(sweep(&*backend, &graphs).unwrap().objects, left as u64);
}

#[test]
fn what_a_refused_append_needs_stays_until_it_is_made_again() {
    let graphs: Vec<Vec<Sample>> = (0..GRAPHS).map(graph).collect();
    let backend = make(&SimStorage::new(), &graphs, |_| {});
    let (before, needed) = (backend.sweeps(), Cell::new(None::<Oid>));
    let is_there = |oid: &Oid| backend.read(&(*oid).into()).unwrap().is_some();
    let (swept, _) = sweep_told(&backend, &graphs, || {
        if needed.get().is_none() {
            let heads = || graphs.iter().map(|graph| graph[3].oid);
            let there = heads().find(is_there).expect("something is left for the second step");
            let gone = heads().find(|head| !is_there(head)).expect("the first step has removed something");
            needed.set(Some(there));
            let mut batch = Batch::since(before);
            [there, gone].into_iter().for_each(|head| batch.leave_out(head));
            let refused = backend.append(batch, &[], Durability::None);
            assert!(matches!(&refused, Err(Error::Gone { oids }) if *oids == [gone]), "{refused:?}");
        }
        Ok(())
    });
    let swept = swept.unwrap();
    assert_eq!((swept.objects, swept.more), (4 * GRAPHS - 4, false));
    for graph in &graphs {
        let is_kept = Some(graph[3].oid) == needed.get();
        assert!(graph.iter().all(|sample| is_there(&sample.oid) == is_kept), "{}", graph[3].oid);
    }
}
