//! The backend `fs`: sweeps of more than goes in one step.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, OnceLock, Weak,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
};

use bristlecone::{
    Backend, Batch, Durability, Oid, Snapshot,
    fs::FsBackend,
    storage::{OpenMode, Storage, StorageFile},
};
use bristlecone_testkit::{
    sample::Sample,
    sim::{Coming, Hooked, SimStorage},
};

use crate::{
    engine::format_tag,
    fs::{graph, options, sweep},
};

/// Graphs of four objects, more than a step removes.
const GRAPHS: u64 = 1300;

/// Makes a store on a disk that calls `hook`, with graphs to which nothing leads.
fn make(
    disk: &SimStorage,
    graphs: &[Vec<Sample>],
    hook: impl Fn(Coming<'_>) + Send + Sync + 'static,
) -> Arc<FsBackend> {
    let storage = Arc::new(Hooked::new(Arc::new(disk.clone()), hook));
    let backend = FsBackend::create(storage, format_tag(), options()).unwrap();
    let mut batch = Batch::new();
    graphs.iter().flatten().for_each(|sample| _ = sample.put(&mut batch, &HashMap::new()));
    backend.append(batch, &[], Durability::None).unwrap();
    Arc::new(backend)
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
