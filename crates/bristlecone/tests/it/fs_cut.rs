//! The backend `fs` after a power cut: an object that is there has everything below it, so that a copy may stop at it.

use std::{
    collections::{HashMap, HashSet},
    fs,
    path::Path,
    sync::Arc,
    time::SystemTime,
};

use bristlecone::{
    Backend, Durability, Oid,
    fs::{FsBackend, FsOptions},
    storage::{OpenMode, RealStorage, Storage},
};
use bristlecone_testkit::{
    sample::Sample,
    sim::{Policy, SimStorage},
};
use twox_hash::XxHash3_64;

use crate::{
    engine::format_tag,
    fs::{append, create, expect_whole, files_below, graph, open, options},
};

/// The ids of the objects of a store, of which none is damaged.
fn ids(backend: &dyn Backend) -> HashSet<Oid> {
    let mut ids = HashSet::new();
    let mut each = |oid, _: &bristlecone::Object<'_>| {
        ids.insert(oid);
        Ok(())
    };
    backend.each_object(&mut each, &mut |damage| panic!("{damage:?}")).unwrap();
    ids
}

/// Every object has its children.
fn expect_closed(backend: &dyn Backend, samples: &HashMap<Oid, &Sample>, what: &str) {
    let all = ids(backend);
    for oid in &all {
        let lacks = samples[oid].children.iter().find(|child| !all.contains(&child.oid));
        assert!(lacks.is_none(), "{what}: {oid} lacks {lacks:?}");
    }
}

#[test]
fn an_object_that_is_there_has_what_it_names() {
    let graphs: Vec<Vec<Sample>> = (1..=4).map(graph).collect();
    let samples = graphs.iter().flatten().map(|sample| (sample.oid, sample)).collect();
    for durability in [Durability::None, Durability::Synced] {
        let disk = SimStorage::new();
        let backend = create(&disk);
        append(&*backend, "one", &graphs[0], Durability::Synced).unwrap();
        append(&*backend, "two", &graphs[1], Durability::None).unwrap();
        backend.flush().unwrap();
        disk.keep_moments();
        let began = disk.calls();
        append(&*backend, "three", &graphs[2], durability).unwrap();
        append(&*backend, "four", &graphs[3], durability).unwrap();
        for call in began..=disk.calls() {
            for policy in Policy::ALL {
                for seed in 0..if policy.is_random() { 6 } else { 1 } {
                    let what = format!("{durability:?}, after call {call}, {policy:?}, seed {seed}");
                    let after = disk.moment(call).unwrap().reboot(seed, policy);
                    let opened = open(&after).unwrap();
                    expect_closed(&*opened, &samples, &what);
                    for (graph, name) in graphs[..2].iter().zip(["one", "two"]) {
                        expect_whole(&*opened, graph, name, &what);
                    }
                }
            }
        }
    }
}

#[test]
fn what_nobody_asks_to_be_durable_becomes_so_in_time() {
    let disk = SimStorage::new();
    let options = options().unsynced_max(10);
    let backend = FsBackend::create(Arc::new(disk.clone()), format_tag(), options).unwrap();
    for number in 1..=20 {
        append(&backend, &format!("branch{number}"), &graph(number), Durability::None).unwrap();
        // Three graphs of four objects, not eighty objects.
        let noted = disk.contents("unsynced").unwrap().len();
        assert!(noted < 2000, "{noted} bytes after append {number}");
    }
    let after = open(&disk.reboot(1, Policy::Lost)).unwrap();
    expect_whole(&*after, &graph(18), "branch18", "before the last time");
    assert_eq!(after.get_ref("branch19").unwrap(), None);
}

#[test]
fn where_everything_is_synced_an_append_that_was_cut_off_leaves_nothing() {
    let (disk, graphs) = (SimStorage::new(), [graph(1), graph(2)]);
    let samples = graphs.iter().flatten().map(|sample| (sample.oid, sample)).collect();
    let unknown = || options().boot(Some(String::new()));
    let header = crate::engine::format_tag();
    let backend = FsBackend::create(Arc::new(disk.clone()), header, unknown()).unwrap();
    append(&backend, "one", &graphs[0], Durability::None).unwrap();
    disk.keep_moments();
    let began = disk.calls();
    append(&backend, "two", &graphs[1], Durability::None).unwrap();
    for call in began..=disk.calls() {
        for seed in 0..8 {
            let what = format!("after call {call}, seed {seed}");
            let after = disk.moment(call).unwrap().reboot(seed, Policy::Writes);
            let opened = FsBackend::open(Arc::new(after), unknown(), false).unwrap();
            expect_closed(&opened, &samples, &what);
            expect_whole(&opened, &graphs[0], "one", &what);
        }
    }
}

/// Returns the file of an object as earlier versions wrote it: it does not say when.
fn as_before(oid: &Oid, file: &[u8]) -> Vec<u8> {
    let (mut bytes, len) = (file.to_vec(), file.len());
    bytes[len - 22..len - 16].fill(0);
    let check = XxHash3_64::oneshot_with_seed(XxHash3_64::oneshot(oid.as_bytes()), &bytes[..len - 16]);
    bytes[len - 16..len - 8].copy_from_slice(&check.to_le_bytes());
    assert_ne!(bytes, file);
    bytes
}

#[test]
fn objects_of_earlier_versions_stay_unless_they_are_torn() {
    let (disk, graphs) = (SimStorage::new(), [graph(1), graph(2)]);
    let backend = create(&disk);
    append(&*backend, "one", &graphs[0], Durability::Synced).unwrap();
    append(&*backend, "two", &graphs[1], Durability::None).unwrap();
    let disk = disk.fork();
    for (index, sample) in graphs.iter().flatten().enumerate() {
        let hex = sample.oid.to_string();
        let name = format!("objects/{}/{}", &hex[..2], &hex[2..]);
        let mut bytes = as_before(&sample.oid, &disk.contents(&name).unwrap());
        // The first value of the second graph is torn.
        bytes.truncate(if index == 4 { 20 } else { bytes.len() });
        disk.remove(&name).unwrap();
        disk.open(&name, OpenMode::CreateNew).unwrap().write_at(&bytes, 0).unwrap();
    }
    let opened = open(&disk.reboot(1, Policy::Kept)).unwrap();
    expect_whole(&*opened, &graphs[0], "one", "after a cut");
    let all = ids(&*opened);
    let there: Vec<bool> = graphs[1].iter().map(|sample| all.contains(&sample.oid)).collect();
    assert_eq!(there, [false, true, true, true]);
}

fn copy_dir(from: &Path, to: &Path) {
    for file in files_below(from) {
        let other = to.join(file.strip_prefix(from).unwrap());
        fs::create_dir_all(other.parent().unwrap()).unwrap();
        fs::copy(&file, &other).unwrap();
    }
}

#[test]
fn what_is_not_durable_is_told_without_the_clock() {
    let (dir, copy) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let graphs = [graph(1), graph(2)];
    let started = |boot: &str| -> FsOptions { options().boot(Some(boot.to_owned())) };
    let header = crate::engine::format_tag();
    let backend = FsBackend::create(Arc::new(RealStorage::new(dir.path())), header, started("one")).unwrap();
    append(&backend, "one", &graphs[0], Durability::Synced).unwrap();
    append(&backend, "two", &graphs[1], Durability::None).unwrap();
    copy_dir(dir.path(), copy.path());
    for file in files_below(&copy.path().join("objects")) {
        // As if the machine had taken it for 1970 when it wrote them.
        fs::File::options().write(true).open(file).unwrap().set_modified(SystemTime::UNIX_EPOCH).unwrap();
    }
    let storage: Arc<dyn Storage> = Arc::new(RealStorage::new(copy.path()));
    let opened = FsBackend::open(storage, started("two"), false).unwrap();
    assert_eq!(ids(&opened), graphs[0].iter().map(|sample| sample.oid).collect());
    expect_whole(&opened, &graphs[0], "one", "after a cut");
}

#[test]
fn whole_objects_stay_while_another_process_has_the_store_open() {
    let dir = tempfile::tempdir().unwrap();
    let storage = || -> Arc<dyn Storage> { Arc::new(RealStorage::new(dir.path())) };
    let started = |boot: &str| -> FsOptions { options().boot(Some(boot.to_owned())) };
    let first = FsBackend::create(storage(), crate::engine::format_tag(), started("one")).unwrap();
    append(&first, "one", &graph(1), Durability::None).unwrap();
    // It tells another start of the machine.
    let second = FsBackend::open(storage(), started("two"), false).unwrap();
    append(&first, "two", &graph(2), Durability::Synced).unwrap();
    for backend in [&first, &second] {
        expect_whole(backend, &graph(1), "one", "while another is open");
        expect_whole(backend, &graph(2), "two", "while another is open");
    }
}
