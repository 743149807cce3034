//! The backend `fs`: the contract, what people see in its folder, damage, and other processes.

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU32, Ordering::Relaxed},
    },
    thread,
    time::{Duration, Instant},
};

use bristlecone::{
    Backend, Batch, Durability, Error, Expected, Info, Kind, Native, Object, Oid, RefMove, RefTarget, Repo, Roots,
    SweepLimits, Swept,
    disk::{DiskBackend, DiskOptions},
    engine::Header,
    fs::{FsBackend, FsOptions},
    storage::{OpenMode, RealStorage, Storage},
};
use bristlecone_needs::needs;
use bristlecone_testkit::{
    conformance,
    crash::Engine,
    sample::{Child, Family, Sample},
    sim::{Coming, Hooked, Policy, SimStorage},
};

use crate::engine::{count_with_digits, format_tag, tiny};

/// The backend without threads, so that every run makes the same calls.
pub(crate) struct FsEngine;

pub(crate) fn options() -> FsOptions {
    FsOptions::default().background(false).lock_wait_ms(100)
}

impl Engine for FsEngine {
    fn create(&self, storage: Arc<dyn Storage>) -> Result<Arc<dyn Backend>, Error> {
        Ok(Arc::new(FsBackend::create(storage, format_tag(), options())?))
    }

    fn open(&self, storage: Arc<dyn Storage>) -> Result<Arc<dyn Backend>, Error> {
        Ok(Arc::new(FsBackend::open(storage, options(), false)?))
    }
}

#[test]
fn files_conform() {
    let (dir, count) = (tempfile::tempdir().unwrap(), AtomicU32::new(0));
    conformance::run_reopening(|| {
        let storage: Arc<dyn Storage> =
            Arc::new(RealStorage::new(dir.path().join(count.fetch_add(1, Relaxed).to_string())));
        let backend = FsBackend::create(storage.clone(), format_tag(), FsOptions::default()).unwrap();
        let open = move || -> Arc<dyn Backend> {
            Arc::new(FsBackend::open(storage.clone(), FsOptions::default(), false).unwrap())
        };
        (Arc::new(backend) as Arc<dyn Backend>, open)
    });
}

#[test]
fn simulated_files_conform() {
    conformance::run_reopening(|| {
        let disk = SimStorage::new();
        let backend = FsEngine.create(Arc::new(disk.clone())).unwrap();
        (backend, move || FsEngine.open(Arc::new(disk.clone())).unwrap())
    });
}

pub(crate) fn create(disk: &SimStorage) -> Arc<dyn Backend> {
    FsEngine.create(Arc::new(disk.clone())).unwrap()
}

pub(crate) fn open(disk: &SimStorage) -> Result<Arc<dyn Backend>, Error> {
    FsEngine.open(Arc::new(disk.clone()))
}

/// A commit with a directory of two values.
pub(crate) fn graph(number: u64) -> Vec<Sample> {
    let family = Family::default();
    let values = [family.contents(number * 10, 30), family.contents(number * 10 + 1, 700)];
    let children: Vec<Child> = values.iter().map(Sample::child).collect();
    let dir = family.sample(number * 10 + 2, Kind::Node, &children, 10);
    let head = family.sample(number * 10 + 3, Kind::Commit, &[dir.child()], 10);
    values.into_iter().chain([dir, head]).collect()
}

fn move_to(name: &str, to: Option<Oid>) -> RefMove {
    RefMove { name: name.to_owned(), expected: Expected::Any, to: to.map(|oid| RefTarget::Object(oid.into())) }
}

/// Appends objects and moves a ref to the last of them.
pub(crate) fn append(
    backend: &dyn Backend,
    name: &str,
    samples: &[Sample],
    durability: Durability,
) -> Result<(), Error> {
    let mut batch = Batch::since(backend.sweeps());
    samples.iter().for_each(|sample| _ = sample.put(&mut batch, &HashMap::new()));
    backend.append(batch, &[move_to(name, samples.last().map(|sample| sample.oid))], durability).map(drop)
}

pub(crate) fn sweep(backend: &dyn Backend, graphs: &[Vec<Sample>]) -> Result<Swept, Error> {
    let samples: HashMap<Oid, &Sample> = graphs.iter().flatten().map(|sample| (sample.oid, sample)).collect();
    let children = |oid: &Oid, _: &Object<'_>, each: &mut dyn FnMut(Oid)| {
        samples.get(oid).into_iter().flat_map(|sample| &sample.children).for_each(|child| each(child.oid));
        Ok(())
    };
    backend.sweep(&Roots::new(&[], &children), &SweepLimits::default())
}

fn damages(backend: &dyn Backend) -> Vec<String> {
    let mut files = Vec::new();
    backend.each_object(&mut |_, _| Ok(()), &mut |damage| files.push(damage.file)).unwrap();
    files
}

pub(crate) fn files_below(dir: &Path) -> Vec<std::path::PathBuf> {
    let entries = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { files_below(&path) } else { vec![path] }).collect()
}

#[test]
fn people_can_read_values_and_refs() {
    let dir = tempfile::tempdir().unwrap();
    let storage = Arc::new(RealStorage::new(dir.path()));
    let backend = Arc::new(FsBackend::create(storage, format_tag(), FsOptions::default()).unwrap());
    let repo = Repo::with_backend(Native::new(), backend.clone());
    let value = "a value that is long enough to be an object of its own, and that people read".repeat(2);
    let branch = repo.branch("main").unwrap();
    branch.edit(&Info::message("one").durability(Durability::None), |tree| tree.set("a/b", &value)).unwrap();
    backend.close().unwrap();
    let objects = files_below(&dir.path().join("objects"));
    assert!(objects.iter().any(|path| std::fs::read(path).unwrap().starts_with(value.as_bytes())));
    let refs = std::fs::read_to_string(dir.path().join("refs")).unwrap();
    let RefTarget::Object(head) = backend.list_refs("").unwrap().into_values().next().unwrap() else {
        panic!("a commit")
    };
    assert!(refs.contains(&format!("main {}\n", head.oid)), "{refs}");
    let hex = head.oid.to_string();
    assert!(dir.path().join("objects").join(&hex[..2]).join(&hex[2..]).is_file());
}

/// A disk whose last user was stopped: one graph is durable, one is not.
fn stopped() -> (SimStorage, [Vec<Sample>; 2]) {
    let (disk, graphs) = (SimStorage::new(), [graph(1), graph(2)]);
    let backend = create(&disk);
    append(&*backend, "one", &graphs[0], Durability::Synced).unwrap();
    append(&*backend, "two", &graphs[1], Durability::None).unwrap();
    (disk.fork(), graphs)
}

pub(crate) fn expect_whole(backend: &dyn Backend, graph: &[Sample], name: &str, what: &str) {
    let head = backend.get_ref(name).unwrap();
    assert_eq!(head, graph.last().map(|sample| RefTarget::Object(sample.oid.into())), "{what}");
    for sample in graph {
        sample.expect(backend, bristlecone::Location::NONE).unwrap_or_else(|wrong| panic!("{what}: {wrong}"));
    }
}

#[test]
fn damage_to_the_refs_is_named_and_shows_no_older_ones() {
    for file in ["refs", "refs.unsynced"] {
        let bytes = stopped().0.contents(file).unwrap().len() as u64;
        for at in 0..bytes {
            let (disk, _) = stopped();
            disk.flip(file, at, 1 << (at % 8));
            match open(&disk) {
                Err(Error::Corrupt { file: found, .. }) => assert_eq!(found, file),
                other => panic!("{file}, byte {at}: {other:?}"),
            }
            let read = FsBackend::open(Arc::new(disk.clone()), options(), true);
            assert!(matches!(read, Err(Error::Corrupt { .. })), "{read:?}");
        }
    }
    let (disk, _) = stopped();
    disk.remove("refs").unwrap();
    assert!(matches!(open(&disk), Err(Error::Lost { file, .. }) if file == "refs"));
}

#[test]
fn damage_to_the_list_of_what_is_not_durable_loses_nothing() {
    let bytes = stopped().0.contents("unsynced").unwrap().len() as u64;
    for at in 0..=bytes {
        let (disk, graphs) = stopped();
        if at < bytes {
            disk.flip("unsynced", at, 1 << (at % 8));
        } else {
            disk.remove("unsynced").unwrap();
        }
        open(&disk).unwrap().flush().unwrap();
        let backend = open(&disk.reboot(at, Policy::Lost)).unwrap();
        expect_whole(&*backend, &graphs[0], "one", &format!("byte {at}"));
        expect_whole(&*backend, &graphs[1], "two", &format!("byte {at}"));
    }
}

#[test]
fn damage_to_an_object_is_named_and_an_append_mends_it() {
    let (disk, graphs) = stopped();
    let names: Vec<String> =
        disk.files().into_iter().map(|(name, _)| name).filter(|n| n.starts_with("objects/")).collect();
    assert_eq!(names.len(), 8);
    let file = |sample: &Sample| {
        let id = sample.oid.to_string();
        format!("objects/{}/{}", &id[..2], &id[2..])
    };
    for name in &names {
        let synced = graphs[0].iter().any(|sample| file(sample) == *name);
        for at in (0..disk.contents(name).unwrap().len() as u64).step_by(7) {
            let disk = disk.fork();
            disk.flip(name, at, 0x10);
            let backend = open(&disk).unwrap();
            if synced {
                assert_eq!(damages(&*backend), [name.as_str()]);
                let corrupt = graphs[0].iter().filter_map(|sample| backend.read(&sample.oid.into()).err());
                let files: Vec<_> = corrupt
                    .map(|error| match error {
                        Error::Corrupt { file, oid: Some(_), .. } => file,
                        other => panic!("{other:?}"),
                    })
                    .collect();
                assert_eq!(files, [name.as_str()]);
            } else {
                // It looks as if a sync of it had failed: the refs are those before it, and the object is gone.
                assert!(damages(&*backend).is_empty());
                assert_eq!(backend.get_ref("two").unwrap(), None);
                expect_whole(&*backend, &graphs[0], "one", name);
            }
            append(&*backend, "one", &graphs[0], Durability::Synced).unwrap();
            append(&*backend, "two", &graphs[1], Durability::None).unwrap();
            assert!(damages(&*backend).is_empty());
            expect_whole(&*backend, &graphs[1], "two", name);
        }
    }
}

#[test]
fn an_append_that_mends_an_object_and_is_cut_off_takes_nothing_back() {
    let (disk, graphs) = stopped();
    let name = |sample: &Sample| format!("objects/{}/{}", &sample.oid.to_string()[..2], &sample.oid.to_string()[2..]);
    // One that is durable has been damaged since.
    disk.flip(&name(&graphs[0][1]), 9, 0x10);
    let backend = open(&disk).unwrap();
    disk.keep_moments();
    let began = disk.calls();
    append(&*backend, "one", &graphs[0], Durability::None).unwrap();
    for call in began..=disk.calls() {
        let opened = open(&disk.moment(call).unwrap().fork()).unwrap();
        expect_whole(&*opened, &graphs[1], "two", &format!("stopped after call {call}"));
    }
    // What is torn in its place is a failed sync, as of any other object.
    drop(backend.read(&graphs[0][1].oid.into()).unwrap().unwrap());
    let torn = disk.fork();
    torn.flip(&name(&graphs[0][1]), 9, 0x10);
    assert_eq!(open(&torn).unwrap().get_ref("two").unwrap(), None);
}

#[test]
fn files_that_are_not_the_object_they_are_named_as_are_damage() {
    let (disk, _) = stopped();
    let names: Vec<String> =
        disk.files().into_iter().map(|(name, _)| name).filter(|n| n.starts_with("objects/")).collect();
    disk.rename(&names[0], &names[1]).unwrap();
    let stranger = format!("{}/notes.txt", names[2].rsplit_once('/').unwrap().0);
    disk.open(&stranger, OpenMode::CreateNew).unwrap();
    let mut found = damages(&*open(&disk).unwrap());
    let mut expected = vec![names[1].clone(), stranger];
    found.sort();
    expected.sort();
    assert_eq!(found, expected);
}

#[test]
fn the_first_digits_of_an_id_are_looked_up_in_its_folder() {
    let (disk, graphs) = stopped();
    let told = Arc::new(Mutex::new(Vec::new()));
    let hook = {
        let told = told.clone();
        move |coming: Coming<'_>| {
            if matches!(coming.method, "list" | "open") && coming.name.starts_with("objects/") {
                told.lock().unwrap().push(format!("{} {}", coming.method, coming.name));
            }
        }
    };
    let backend = FsEngine.open(Arc::new(Hooked::new(Arc::new(disk.clone()), hook))).unwrap();
    let oid = graphs[0][1].oid;
    let id = oid.to_string();
    let (folder, name) = (format!("objects/{}", &id[..2]), format!("objects/{}/{}", &id[..2], &id[2..]));
    told.lock().unwrap().clear();
    assert_eq!(count_with_digits(&*backend, oid, 7), 1);
    assert_eq!(*told.lock().unwrap(), [format!("list {folder}"), format!("open {name}")]);
    disk.flip(&name, 9, 0x10);
    assert_eq!(count_with_digits(&*backend, oid, 7), 0, "it is damaged");
}

#[test]
fn other_stores_and_lost_headers_are_told() {
    let disk = SimStorage::new();
    assert!(matches!(open(&disk), Err(Error::NoStore { .. })));
    drop(create(&disk));
    assert!(matches!(FsEngine.create(Arc::new(disk.clone())), Err(Error::Exists { .. })));
    let newer = SimStorage::new();
    Header { backend: "fs", version: 2, format: format_tag() }.write(&newer).unwrap();
    assert!(matches!(open(&newer), Err(Error::Incompatible { .. })));
    assert!(matches!(FsEngine.create(Arc::new(newer)), Err(Error::Exists { .. })));
    let other = SimStorage::new();
    drop(DiskBackend::create(Arc::new(other.clone()), format_tag(), tiny()).unwrap());
    assert!(matches!(open(&other), Err(Error::Incompatible { found, .. }) if found.contains("disk")));
    assert!(matches!(FsEngine.create(Arc::new(other)), Err(Error::Exists { .. })));
    let opened = DiskBackend::open(Arc::new(disk), None, DiskOptions::default(), false);
    assert!(matches!(opened, Err(Error::Incompatible { found, .. }) if found.contains("fs")));
    let (lost, _) = stopped();
    lost.remove("store").unwrap();
    for error in [open(&lost).unwrap_err(), FsEngine.create(Arc::new(lost.clone())).unwrap_err()] {
        assert!(matches!(error, Error::Lost { ref file, .. } if file == "store"), "{error:?}");
    }
    for at in 0..stopped().0.contents("store").unwrap().len() as u64 {
        let (disk, _) = stopped();
        disk.flip("store", at, 4);
        assert!(matches!(open(&disk), Err(Error::Corrupt { .. } | Error::Incompatible { .. })), "byte {at}");
    }
}

#[test]
fn a_reader_sees_what_is_not_durable_and_writes_nothing() {
    let (disk, graphs) = stopped();
    let before = disk.calls();
    let reader = FsBackend::open(Arc::new(disk.clone()), options(), true).unwrap();
    expect_whole(&reader, &graphs[0], "one", "read only");
    expect_whole(&reader, &graphs[1], "two", "read only");
    assert!(matches!(append(&reader, "three", &graph(3), Durability::None), Err(Error::ReadOnly)));
    assert!(matches!(reader.write_derived("name", b""), Err(Error::ReadOnly)));
    assert!(matches!(sweep(&reader, &[]), Err(Error::ReadOnly)));
    reader.flush().unwrap();
    drop(reader);
    assert_eq!(disk.calls(), before);
    // After a power cut it shows what is durable, and does not set it right.
    let disk = disk.reboot(1, Policy::Kept);
    let reader = FsBackend::open(Arc::new(disk.clone()), options(), true).unwrap();
    assert_eq!(reader.list_refs("").unwrap().into_keys().collect::<Vec<_>>(), ["one"]);
    assert_eq!(disk.calls(), 0);
}

/// What a process left that died while it wrote a derived file goes when the store is opened to be written.
#[test]
fn what_is_left_of_a_derived_file_is_removed() {
    let dir = tempfile::tempdir().unwrap();
    let storage: Arc<dyn Storage> = Arc::new(RealStorage::new(dir.path()));
    drop(FsBackend::create(storage.clone(), format_tag(), options()).unwrap());
    conformance::what_is_left_of_a_derived_file_is_removed(&dir.path().join("derived"), &|read_only| {
        Arc::new(FsBackend::open(storage.clone(), options(), read_only).unwrap())
    });
}

#[test]
fn everything_is_synced_where_no_one_knows_when_the_machine_was_started() {
    let disk = SimStorage::new();
    let options = options().boot(Some(String::new()));
    let backend = FsBackend::create(Arc::new(disk.clone()), format_tag(), options).unwrap();
    append(&backend, "one", &graph(1), Durability::None).unwrap();
    expect_whole(&*open(&disk.reboot(1, Policy::Lost)).unwrap(), &graph(1), "one", "after a cut");
}

#[test]
fn thousands_of_objects_become_durable_by_few_syncs() {
    let dir = tempfile::tempdir().unwrap();
    let storage: Arc<dyn Storage> = Arc::new(RealStorage::new(dir.path()));
    let backend = FsBackend::create(storage, format_tag(), options()).unwrap();
    let samples: Vec<Sample> = (0..2000).map(|number| Family::default().contents(number, 20)).collect();
    append(&backend, "many", &samples, Durability::None).unwrap();
    let before = backend.stats().syncs;
    backend.flush().unwrap();
    let syncs = backend.stats().syncs - before;
    assert!(!cfg!(target_os = "linux") || syncs <= 4, "{syncs} syncs");
    assert!(syncs >= 3 && std::fs::read_to_string(dir.path().join("refs")).unwrap().contains("\nmany "));
    append(&backend, "few", &graph(500), Durability::None).unwrap();
    backend.flush().unwrap();
    assert!(backend.stats().syncs - before - syncs >= 8, "each object and each folder");
}

/// A process that has no handle left cannot open the folder that it is to sync. No sync has failed then: one call does at most,
/// and the store goes on. Elsewhere no other call makes the name of the refs durable.
#[needs(linux)]
#[test]
fn a_folder_that_cannot_be_opened_fails_one_call_alone() {
    let graphs: Vec<Vec<Sample>> = (0..6).map(graph).collect();
    let mut failed = 0;
    for strike in 1.. {
        let dir = tempfile::tempdir().unwrap();
        let (store, away) = (dir.path().join("store"), dir.path().join("away"));
        let storage: Arc<dyn Storage> = Arc::new(RealStorage::new(&store));
        drop(FsBackend::create(storage.clone(), format_tag(), options()).unwrap());
        let (syncs, armed) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicBool::new(false)));
        // The folder that has another name for the length of one call.
        let moved: Arc<Mutex<Option<PathBuf>>> = Arc::default();
        let put_back = {
            let (moved, away) = (moved.clone(), away.clone());
            move || moved.lock().unwrap().take().into_iter().for_each(|folder| std::fs::rename(&away, folder).unwrap())
        };
        let hook = {
            let (syncs, armed, put_back) = (syncs.clone(), armed.clone(), put_back.clone());
            move |coming: Coming<'_>| {
                put_back();
                let counts = coming.method == "sync_dir" && armed.load(Relaxed);
                if counts && syncs.fetch_add(1, Relaxed) + 1 == strike {
                    let folder = if coming.name.is_empty() { store.clone() } else { store.join(coming.name) };
                    std::fs::rename(&folder, &away).unwrap();
                    *moved.lock().unwrap() = Some(folder);
                }
            }
        };
        let backend = FsBackend::open(Arc::new(Hooked::new(storage.clone(), hook)), options(), false).unwrap();
        armed.store(true, Relaxed);
        let (mut kept, mut errors) = (Vec::new(), Vec::new());
        for (number, graph) in graphs.iter().enumerate() {
            let durability = if number % 2 == 0 { Durability::Synced } else { Durability::None };
            match append(&backend, &format!("branch{number}"), graph, durability) {
                Ok(()) => kept.push(number),
                Err(error) => errors.push(error),
            }
        }
        if kept.contains(&0) {
            errors.extend(backend.append(Batch::new(), &[move_to("branch0", None)], Durability::Synced).err());
            errors.extend(sweep(&backend, &graphs).err());
        }
        errors.extend(backend.close().err());
        drop(backend);
        put_back();
        assert!(
            errors.len() <= 1 && errors.iter().all(|error| matches!(error, Error::Io { .. })),
            "{strike}: {errors:?}"
        );
        failed += errors.len();
        let backend = FsBackend::open(storage, options(), false).unwrap();
        for &number in kept.iter().filter(|&&number| number > 0) {
            expect_whole(&backend, &graphs[number], &format!("branch{number}"), &format!("sync {strike}"));
        }
        append(&backend, "last", &graphs[0], Durability::Synced).unwrap();
        sweep(&backend, &graphs).unwrap();
        assert!(damages(&backend).is_empty(), "sync {strike}");
        if syncs.load(Relaxed) < strike {
            assert!(errors.is_empty() && kept.len() == graphs.len());
            break;
        }
    }
    assert!(failed > 5, "{failed}");
}

#[test]
fn two_processes_see_every_move_of_each_other() {
    let dir = tempfile::tempdir().unwrap();
    let storage: Arc<dyn Storage> = Arc::new(RealStorage::new(dir.path()));
    let one = FsBackend::create(storage.clone(), format_tag(), FsOptions::default()).unwrap();
    let other = FsBackend::open(storage.clone(), FsOptions::default(), false).unwrap();
    let reader = FsBackend::open(storage, FsOptions::default(), true).unwrap();
    let mut last = None;
    for round in 0..600u64 {
        let (writer, watcher) = if round / 3 % 2 == 0 { (&one, &other) } else { (&other, &one) };
        let id = Oid::from_array([round as u8; 32]);
        let wanted = RefMove {
            name: "main".to_owned(),
            expected: last.map_or(Expected::Absent, Expected::Is),
            to: Some(RefTarget::Object(id.into())),
        };
        let durability = if round % 100 == 99 { Durability::Synced } else { Durability::None };
        writer.append(Batch::new(), &[wanted], durability).unwrap();
        last = Some(RefTarget::Object(id.into()));
        assert_eq!(watcher.get_ref("main").unwrap(), last, "round {round}");
        assert_eq!(reader.get_ref("main").unwrap(), last, "round {round}");
        assert!(watcher.position().unwrap() == writer.position().unwrap());
    }
}

#[test]
fn a_flush_that_is_owed_to_a_grouped_append_stays_owed_until_it_is_made() {
    let disk = SimStorage::new();
    let backend = create(&disk);
    append(&*backend, "one", &graph(1), Durability::Grouped).unwrap();
    let file = disk.process().open("lock", OpenMode::Create).unwrap();
    assert!(file.try_lock().unwrap(), "another process writes");
    let idle = || backend.append(Batch::new(), &[], Durability::None).map(drop);
    assert!(matches!(idle(), Err(Error::Locked { .. })));
    file.unlock().unwrap();
    let before = backend.stats().syncs;
    idle().unwrap();
    let after = backend.stats().syncs;
    assert!(after > before, "what was promised is synced");
    idle().unwrap();
    assert_eq!(backend.stats().syncs, after);
}

#[test]
fn a_flush_that_finds_no_room_is_made_again_without_haste() {
    let (disk, _backend) = (0_u64..)
        .step_by(64)
        .find_map(|room| {
            let disk = SimStorage::new();
            let options = FsOptions::default().grouped_ms(0);
            let backend = FsBackend::create(Arc::new(disk.clone()), format_tag(), options).unwrap();
            // There is room for the append in the end, and none for the list of refs that the flush writes beside the one of the append.
            disk.limit_space(Some(disk.bytes() + room));
            append(&backend, "one", &graph(1), Durability::Grouped).ok().map(|()| (disk, backend))
        })
        .unwrap();
    let before = disk.calls();
    thread::sleep(Duration::from_millis(500));
    let calls = disk.calls() - before;
    assert!(calls < 2000, "{calls} calls in half a second");
    disk.limit_space(None);
    let since = Instant::now();
    while open(&disk.reboot(1, Policy::Lost)).unwrap().get_ref("one").unwrap().is_none() {
        assert!(since.elapsed() < Duration::from_secs(60), "nobody makes it again");
        thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn a_sweep_needs_the_store_to_itself() {
    let (disk, graphs) = stopped();
    let (backend, other) = (open(&disk).unwrap(), open(&disk).unwrap());
    backend.append(Batch::new(), &[move_to("one", None)], Durability::None).unwrap();
    assert!(matches!(sweep(&*backend, &graphs), Err(Error::Locked { file, .. }) if file.starts_with("open/")));
    drop(other);
    assert_eq!(sweep(&*backend, &graphs).unwrap().objects, 4);
}

#[test]
fn a_sweep_drops_nothing_that_another_process_appended_since_a_snapshot_was_taken() {
    // Made durable at once, by the end of the process, or not at all.
    for (durability, is_closed) in [(Durability::Synced, true), (Durability::None, true), (Durability::None, false)] {
        let (disk, graph) = (SimStorage::new(), graph(1));
        let backend = create(&disk);
        let mut snapshot = backend.snapshot(&[]);
        let process = disk.process();
        let other = open(&process).unwrap();
        let mut batch = Batch::new();
        graph.iter().for_each(|sample| _ = sample.put(&mut batch, &HashMap::new()));
        other.append(batch, &[], durability).unwrap();
        if !is_closed {
            process.stop_after(process.process_calls());
        }
        drop(other);
        let swept = sweep(&*backend, std::slice::from_ref(&graph));
        assert!(matches!(swept, Err(Error::Usage { .. })), "{swept:?}");
        assert!(graph.iter().all(|sample| snapshot.read(&sample.oid.into()).unwrap().is_some()));
        assert!(Arc::get_mut(&mut snapshot).unwrap().refresh(&[]));
        assert_eq!(sweep(&*backend, std::slice::from_ref(&graph)).unwrap().objects, 4);
    }
}

#[test]
fn a_sweep_notices_that_another_process_appended_what_was_there() {
    // What that process appended lies below what it noted before, too.
    for notes_more in [false, true] {
        let (disk, graph) = (SimStorage::new(), graph(1));
        let backend = create(&disk);
        let mut batch = Batch::new();
        graph.iter().for_each(|sample| _ = sample.put(&mut batch, &HashMap::new()));
        backend.append(batch.clone(), &[], Durability::Synced).unwrap();
        let other = open(&disk.process()).unwrap();
        if notes_more {
            other.append(Batch::new(), &[move_to("other", Some(graph[0].oid))], Durability::None).unwrap();
            backend.append(Batch::new(), &[move_to("own", Some(graph[1].oid))], Durability::None).unwrap();
        }
        let mut snapshot = backend.snapshot(&[]);
        other.append(batch, &[], Durability::None).unwrap();
        drop(other);
        let swept = sweep(&*backend, std::slice::from_ref(&graph));
        assert!(matches!(swept, Err(Error::Usage { .. })), "{swept:?}");
        assert!(graph.iter().all(|sample| snapshot.read(&sample.oid.into()).unwrap().is_some()));
        assert!(Arc::get_mut(&mut snapshot).unwrap().refresh(&[]));
        assert_eq!(sweep(&*backend, std::slice::from_ref(&graph)).unwrap().objects, if notes_more { 2 } else { 4 });
    }
}

#[test]
fn a_sweep_that_was_cut_off_leaves_no_part_of_anything() {
    let (disk, graphs) = (SimStorage::new(), [graph(1), graph(2), graph(3)]);
    let backend = create(&disk);
    for (graph, name) in graphs.iter().zip(["one", "two", "three"]) {
        append(&*backend, name, graph, Durability::None).unwrap();
    }
    backend.append(Batch::new(), &[move_to("one", None), move_to("three", None)], Durability::Synced).unwrap();
    disk.keep_moments();
    let first = disk.calls();
    assert_eq!(sweep(&*backend, &graphs).unwrap().objects, 8);
    let expect = |disk: SimStorage, what: &str| {
        let backend = open(&disk).unwrap_or_else(|error| panic!("{what}: {error}"));
        expect_whole(&*backend, &graphs[1], "two", what);
        assert!(damages(&*backend).is_empty(), "{what}");
        let there = |sample: &Sample| backend.read(&sample.oid.into()).unwrap().is_some();
        for graph in [&graphs[0], &graphs[2]] {
            let found: Vec<bool> = graph.iter().map(there).collect();
            assert!(found.iter().all(|&one| one == found[0]), "{what}: {found:?}");
        }
        // It goes on, and what was dropped can come again.
        append(&*backend, "one", &graphs[0], Durability::Synced).unwrap();
        assert!(sweep(&*backend, &graphs).unwrap().objects.is_multiple_of(4));
        expect_whole(&*backend, &graphs[0], "one", what);
        expect_whole(&*open(&disk.reboot(9, Policy::Lost)).unwrap(), &graphs[0], "one", what);
    };
    for call in first..=disk.calls() {
        let moment = disk.moment(call).unwrap();
        expect(moment.fork(), &format!("stopped after call {call}"));
        for policy in Policy::ALL {
            for seed in 0..4 {
                expect(moment.reboot(seed, policy), &format!("a cut after call {call}, {policy:?}, seed {seed}"));
            }
        }
    }
}

#[test]
fn what_is_refused_is_no_write_and_no_batch() {
    let backend = FsEngine.create(Arc::new(SimStorage::new())).unwrap();
    let counts = || (backend.stats().writes, backend.stats().batches);
    let wanted = |expected| RefMove {
        name: "refs/heads/main".to_owned(),
        expected,
        to: Some(RefTarget::Symbolic("refs/heads/other".to_owned())),
    };
    let before = counts();
    let other = Expected::Is(RefTarget::Symbolic("refs/heads/third".to_owned()));
    assert!(backend.append(Batch::new(), &[wanted(other)], Durability::None).is_err());
    assert_eq!(counts(), before);
    backend.append(Batch::new(), &[wanted(Expected::Absent)], Durability::None).unwrap();
    assert_eq!(counts(), (before.0 + 1, before.1 + 1));
}
