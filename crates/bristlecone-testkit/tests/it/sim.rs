//! The simulated disk forgets exactly what it may.

use std::sync::Arc;

use bristlecone::storage::{OpenMode, Storage, StorageFile, read_exact_at, write_all_at};
use bristlecone_testkit::sim::{CallKind, Fault, Policy, SECTOR_BYTES, SimStorage, Times};

fn file(disk: &SimStorage, name: &str) -> Arc<dyn StorageFile> {
    disk.open(name, OpenMode::Create).unwrap()
}

/// A disk with a durable file of `bytes` ones.
fn disk_of_ones(bytes: usize) -> SimStorage {
    let disk = SimStorage::new();
    let ones = file(&disk, "ones");
    write_all_at(&*ones, &vec![1; bytes], 0).unwrap();
    ones.sync_data().unwrap();
    disk.sync_dir("").unwrap();
    disk
}

#[test]
fn unsynced_bytes_are_lost_or_kept_as_the_policy_says() {
    let disk = disk_of_ones(100);
    write_all_at(&*file(&disk, "ones"), b"new", 10).unwrap();
    assert_eq!(disk.reboot(0, Policy::Lost).contents("ones").unwrap(), vec![1; 100]);
    assert_eq!(&disk.reboot(0, Policy::Kept).contents("ones").unwrap()[10..13], b"new");
}

#[test]
fn unsynced_names_are_lost_even_if_the_contents_are_synced() {
    let disk = disk_of_ones(10);
    let other = file(&disk, "other");
    write_all_at(&*other, b"abc", 0).unwrap();
    other.sync_data().unwrap();
    disk.rename("ones", "renamed").unwrap();
    let lost: Vec<_> = disk.reboot(0, Policy::Lost).files();
    assert_eq!(lost, [("ones".to_owned(), 10)]);
    disk.sync_dir("").unwrap();
    let kept: Vec<_> = disk.reboot(0, Policy::Lost).files();
    assert_eq!(kept, [("other".to_owned(), 3), ("renamed".to_owned(), 10)]);
}

#[test]
fn sectors_are_old_or_new_and_never_a_mixture() {
    let sectors = 40;
    let disk = disk_of_ones(sectors * SECTOR_BYTES as usize);
    let ones = file(&disk, "ones");
    write_all_at(&*ones, &vec![2; sectors * SECTOR_BYTES as usize], 0).unwrap();
    write_all_at(&*ones, &vec![3; sectors * 256], 0).unwrap();
    let mut seen = [0; 4];
    for seed in 0..40 {
        for policy in Policy::ALL {
            let after = disk.reboot(seed, policy).contents("ones").unwrap();
            for sector in after.chunks(SECTOR_BYTES as usize) {
                assert!(sector.iter().all(|b| b == &sector[0]), "{policy:?} {seed}");
                seen[sector[0] as usize] += 1;
            }
        }
    }
    assert!(seen[0] == 0 && seen[1..].iter().all(|&n| n > 0), "{seen:?}");
}

#[test]
fn a_later_write_to_a_sector_never_shows_without_an_earlier_one() {
    let disk = disk_of_ones(512);
    let ones = file(&disk, "ones");
    write_all_at(&*ones, b"A", 0).unwrap();
    write_all_at(&*ones, b"B", 1).unwrap();
    for seed in 0..100 {
        for policy in Policy::ALL {
            let after = disk.reboot(seed, policy).contents("ones").unwrap();
            assert!(after[0] == b'A' || after[1] != b'B', "{policy:?} {seed}");
        }
    }
}

#[test]
fn a_cut_after_a_call_stops_everything_later() {
    let disk = disk_of_ones(10);
    let ones = file(&disk, "ones");
    disk.cut_after(disk.calls() + 1);
    write_all_at(&*ones, b"yes", 0).unwrap();
    assert!(write_all_at(&*ones, b"no!", 0).is_err());
    assert!(ones.sync_data().is_err() && ones.len().is_err() && disk.list("").is_err());
    assert_eq!(&disk.reboot(0, Policy::Kept).contents("ones").unwrap()[..3], b"yes");
}

#[test]
fn moments_are_what_a_cut_there_would_have_left() {
    let run = |disk: &SimStorage, ones: &dyn StorageFile| {
        for n in 0..5_u8 {
            let _ = write_all_at(ones, &[n; 700], u64::from(n) * 300);
            let _ = if n == 2 { ones.sync_data() } else { disk.rename("ones", "ones") };
        }
    };
    let kept = disk_of_ones(3000);
    kept.keep_moments();
    let first = kept.calls();
    run(&kept, &*file(&kept, "ones"));
    for call in first..=kept.calls() {
        let cut = disk_of_ones(3000);
        let ones = file(&cut, "ones");
        cut.cut_after(call);
        run(&cut, &*ones);
        for policy in Policy::ALL {
            let found = kept.moment(call).unwrap().reboot(9, policy);
            assert_eq!(found.contents("ones"), cut.reboot(9, policy).contents("ones"), "{call} {policy:?}");
        }
    }
}

#[test]
fn a_later_sync_does_not_bring_back_what_a_failed_one_dropped() {
    let disk = disk_of_ones(64 * 512);
    let ones = file(&disk, "ones");
    write_all_at(&*ones, &[2; 64 * 512], 0).unwrap();
    disk.fail_at(disk.calls() + 1, Fault::Io, Times::Once);
    assert!(ones.sync_data().is_err());
    write_all_at(&*ones, &[3; 512], 0).unwrap();
    ones.sync_data().unwrap();
    let after = disk.reboot(0, Policy::Kept).contents("ones").unwrap();
    assert!(after[..512].iter().all(|&b| b == 3));
    assert!(after.contains(&1) && after.contains(&2));
    // The cache still shows everything, until it is dropped.
    assert!(!disk.contents("ones").unwrap().contains(&1));
    disk.forget_cache();
    assert_eq!(disk.contents("ones").unwrap(), after);
}

#[test]
fn writing_the_same_bytes_again_saves_what_a_failed_sync_dropped() {
    let disk = disk_of_ones(64 * 512);
    let ones = file(&disk, "ones");
    let other = file(&disk, "ones");
    write_all_at(&*ones, &[2; 64 * 512], 0).unwrap();
    disk.fail_at(disk.calls() + 1, Fault::Io, Times::Once);
    assert!(ones.sync_data().is_err());
    // Every handle that was open is told, once; a later one is not.
    assert!(other.sync_data().is_err() && other.sync_data().is_ok() && file(&disk, "ones").sync_data().is_ok());
    assert!(disk.reboot(0, Policy::Kept).contents("ones").unwrap().contains(&1));
    write_all_at(&*other, &[2; 64 * 512], 0).unwrap();
    other.sync_data().unwrap();
    assert!(!disk.reboot(0, Policy::Lost).contents("ones").unwrap().contains(&1));
}

#[test]
fn any_numbered_call_fails_once_or_for_ever() {
    let disk = disk_of_ones(10);
    let ones = file(&disk, "ones");
    disk.fail_at(disk.calls() + 2, Fault::NoSpace, Times::Once);
    assert!(ones.write_at(b"a", 0).is_ok() && ones.write_at(b"b", 0).is_err() && ones.write_at(b"c", 0).is_ok());
    disk.fail_at(disk.calls() + 1, Fault::Short, Times::Once);
    assert_eq!(ones.write_at(b"abcd", 0).unwrap(), 2);
    disk.fail_at(disk.calls() + 1, Fault::Io, Times::Forever);
    assert!(ones.write_at(b"a", 0).is_err() && disk.sync_dir("").is_err() && ones.set_len(3).is_err());
    disk.heal();
    assert!(ones.write_at(b"a", 0).is_ok());
}

#[test]
fn space_runs_out_in_the_middle_of_a_write() {
    let disk = disk_of_ones(100);
    disk.limit_space(Some(150));
    let ones = file(&disk, "ones");
    assert_eq!(ones.write_at(&[5; 100], 90).unwrap(), 60);
    assert_eq!(ones.write_at(&[5; 40], 150).unwrap_err().kind(), std::io::ErrorKind::StorageFull);
    assert!(ones.set_len(200).is_err() && ones.set_len(20).is_ok());
    assert_eq!(disk.bytes(), 20);
}

#[test]
fn a_lock_has_one_holder_and_ends_with_its_handle() {
    let disk = disk_of_ones(1);
    let (one, two) = (file(&disk, "ones"), file(&disk, "ones"));
    assert!(one.try_lock().unwrap() && one.try_lock().unwrap() && !two.try_lock().unwrap());
    assert!(two.lock_holder().unwrap().contains("handle"));
    drop(one);
    assert!(two.try_lock().unwrap());
    two.unlock().unwrap();
    assert_eq!(two.lock_holder(), None);
}

#[test]
fn huge_files_of_zeroes_are_free() {
    let disk = SimStorage::new();
    let huge = file(&disk, "huge");
    huge.set_len(1 << 40).unwrap();
    write_all_at(&*huge, b"end", (1 << 40) - 3).unwrap();
    disk.sync_dir("").unwrap();
    let after = disk.reboot(0, Policy::Kept);
    let mut end = [9; 4];
    read_exact_at(&*file(&after, "huge"), &mut end, (1 << 40) - 4).unwrap();
    assert_eq!(&end, b"\0end");
}

#[test]
fn folders_have_names_and_may_be_lost_with_all_they_hold() {
    let disk = SimStorage::new();
    assert!(disk.open("a/b/c", OpenMode::Create).is_err());
    disk.create_dir("a/b").unwrap();
    file(&disk, "a/b/c");
    file(&disk, "a/d");
    assert_eq!(disk.list("").unwrap(), ["a"]);
    assert_eq!(disk.list("a").unwrap(), ["b", "d"]);
    disk.sync_dir("a/b").unwrap();
    disk.sync_dir("a").unwrap();
    assert!(disk.reboot(0, Policy::Lost).files().is_empty());
    disk.sync_dir("").unwrap();
    assert_eq!(disk.reboot(0, Policy::Lost).files().len(), 2);
}

#[test]
fn a_map_shows_what_any_handle_writes_later() {
    let disk = disk_of_ones(10_000);
    let (one, other) = (file(&disk, "ones"), file(&disk, "ones"));
    assert!(one.map(10_001).unwrap().is_none() && one.map(0).unwrap().is_none());
    let map = one.map(10_000).unwrap().unwrap();
    assert!(map.iter().all(|&byte| byte == 1));
    write_all_at(&*other, b"later", 5_000).unwrap();
    assert_eq!(&map[5_000..5_005], b"later");
    disk.flip("ones", 7_000, 0x80);
    assert_eq!(map[7_000], 0x81);
    // What is beyond the map shows in a new one, and what was cut off shows as zeroes.
    write_all_at(&*one, b"beyond", 20_000).unwrap();
    let longer = other.map(20_006).unwrap().unwrap();
    assert_eq!((&longer[20_000..], longer[15_000], longer[5_000]), (&b"beyond"[..], 0, b'l'));
    other.set_len(4_000).unwrap();
    assert!(map[..4_000].iter().all(|&byte| byte == 1) && map[4_000..].iter().all(|&byte| byte == 0));
    // The map outlives handles, names and the disk.
    drop((one, other));
    disk.remove("ones").unwrap();
    drop(disk);
    assert_eq!((map[3_999], longer[20_005]), (1, 0));
}

#[test]
fn maps_of_another_disk_show_what_survived_there() {
    let disk = disk_of_ones(100);
    let ones = file(&disk, "ones");
    let map = ones.map(100).unwrap().unwrap();
    write_all_at(&*ones, b"new", 10).unwrap();
    let show = |disk: &SimStorage| file(disk, "ones").map(100).unwrap().unwrap()[10..13].to_vec();
    let (fork, kept, lost) = (disk.fork(), disk.reboot(0, Policy::Kept), disk.reboot(0, Policy::Lost));
    write_all_at(&*ones, b"NEW", 10).unwrap();
    assert_eq!((show(&fork), show(&kept), show(&lost)), (b"new".to_vec(), b"new".to_vec(), vec![1; 3]));
    assert_eq!(&map[10..13], b"NEW");
    // A sync that failed and a cold cache: maps show what the medium has.
    disk.fail_at(disk.calls() + 1, Fault::Io, Times::Once);
    assert!(ones.sync_data().is_err());
    disk.forget_cache();
    assert_eq!(map[..], disk.contents("ones").unwrap());
}

#[test]
fn a_map_may_fail_where_reads_are_numbered() {
    let disk = SimStorage::new();
    disk.number_reads();
    disk.keep_trace();
    let ones = file(&disk, "ones");
    write_all_at(&*ones, &[1; 10], 0).unwrap();
    disk.fail_at(disk.calls() + 1, Fault::Io, Times::Once);
    assert!(ones.map(10).is_err() && ones.map(10).is_ok());
    assert_eq!(disk.call(disk.calls()).map(|call| call.kind), Some(CallKind::Map));
}

#[test]
fn a_process_that_is_stopped_holds_no_locks_and_what_it_wrote_stays() {
    let disk = disk_of_ones(10);
    let (one, other) = (disk.process(), disk.process());
    let (mine, yours) = (file(&one, "ones"), file(&other, "ones"));
    one.stop_after(2);
    assert!(mine.try_lock().unwrap() && !yours.try_lock().unwrap());
    assert!(mine.write_at(b"a", 0).is_ok() && one.stopped().is_none());
    assert!(mine.write_at(b"b", 1).is_ok());
    assert_eq!((one.stopped(), one.process_calls()), (Some(disk.calls()), 2));
    assert!(mine.write_at(b"c", 2).is_err() && mine.read_at(&mut [0], 0).is_err() && one.list("").is_err());
    assert!(mine.try_lock().is_err() && yours.try_lock().unwrap());
    drop(mine);
    assert!(!file(&disk, "ones").try_lock().unwrap(), "the lock of a process that lives stays");
    assert_eq!(&disk.contents("ones").unwrap()[..3], b"ab\x01");
    assert!(yours.write_at(b"d", 3).is_ok() && other.stopped().is_none());
    assert_eq!(disk.reboot(0, Policy::Lost).contents("ones").unwrap(), vec![1; 10]);
}

#[test]
fn names_that_a_failed_sync_forgot_are_not_brought_by_a_later_one() {
    let disk = disk_of_ones(10);
    disk.create_dir("folder").unwrap();
    file(&disk, "folder/in it");
    file(&disk, "before");
    disk.fail_at(disk.calls() + 1, Fault::Forgotten, Times::Once);
    assert!(disk.sync_dir("").is_err());
    file(&disk, "after");
    disk.sync_dir("").unwrap();
    let names = |disk: &SimStorage| disk.files().into_iter().map(|(name, _)| name).collect::<Vec<_>>();
    assert_eq!(names(&disk), ["after", "before", "folder/in it", "ones"]);
    for policy in Policy::ALL {
        assert_eq!(names(&disk.reboot(0, policy)), ["after", "ones"], "{policy:?}");
    }
    // What happens to such a name later is as ever.
    disk.rename("before", "renamed").unwrap();
    disk.sync_dir("").unwrap();
    assert_eq!(names(&disk.reboot(0, Policy::Lost)), ["after", "ones", "renamed"]);
}
