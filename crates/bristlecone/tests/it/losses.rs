//! Files that are lost or cut short are told from files that never were: nothing is made anew over what is left.

use std::sync::Arc;

use bristlecone::{
    Backend, Damage, Durability, Error,
    disk::DiskBackend,
    storage::{OpenMode, Storage, write_all_at},
};
use bristlecone_testkit::{
    crash::{CrashRun, CrashStep, RefValues, Workload},
    sim::{Fault, Policy, SimStorage, Times},
};

use crate::engine::{DiskEngine, check, format_tag, open_tiny as open, tiny};

/// A store of some segments, closed in an orderly way, and what its refs are after each commit.
fn store() -> (SimStorage, Vec<RefValues>) {
    let commit = |bytes: usize| CrashStep::Commit {
        handle: 0,
        refs: vec!["main".to_owned()],
        sizes: vec![bytes],
        durability: Durability::Synced,
    };
    let steps: Vec<CrashStep> = [10, 900, 1500, 2000, 300, 700].map(commit).into();
    let disk = SimStorage::new();
    let run = CrashRun::of(&DiskEngine::new(tiny()), disk.clone(), &Workload { name: "losses", steps }).unwrap();
    (disk, run.events.into_iter().map(|event| event.state).collect())
}

/// A frame without records: 64 bytes of head and 8 of trailer.
const CHECKPOINT_BYTES: u64 = 72;

fn exists(disk: &SimStorage, name: &str) -> bool {
    disk.stat(name).is_ok()
}

fn last_segment(disk: &SimStorage) -> String {
    disk.files().into_iter().map(|(name, _)| name).rfind(|name| name.ends_with(".seg")).unwrap()
}

#[test]
fn a_lost_header_is_told_from_no_store_and_comes_back_from_its_copy() {
    let (disk, states) = store();
    let before = disk.files();
    disk.remove("store").unwrap();
    for read_only in [true, false] {
        let error = open(&disk, read_only).unwrap_err();
        assert!(matches!(&error, Error::Lost { file, .. } if file == "store"), "{error:?}");
        assert!(error.to_string().contains("a repair restores it"), "{error}");
    }
    let made = DiskBackend::create(Arc::new(disk.clone()), format_tag(), tiny());
    assert!(matches!(&made, Err(Error::Lost { .. })), "{made:?}");
    let repaired = DiskBackend::repair(Arc::new(disk.clone()), tiny(), false).unwrap();
    assert!(repaired.header_restored && !repaired.copy_restored && repaired.accepted.is_none());
    assert_eq!(disk.files(), before);
    // What a power cut leaves after the repair is whole.
    let disk = disk.reboot(3, Policy::Lost);
    let backend = open(&disk, false).unwrap();
    assert_eq!(backend.list_refs("").unwrap(), *states.last().unwrap());
    assert_eq!(check(&backend), []);
}

#[test]
fn a_damaged_header_comes_back_too_and_so_does_its_copy() {
    let (disk, states) = store();
    disk.flip("store", 33, 4);
    let error = open(&disk, false).unwrap_err();
    assert!(matches!(&error, Error::Corrupt { reason, .. } if reason.contains("a repair restores it")), "{error:?}");
    assert!(!error.to_string().contains('`'), "it names no command: {error}");
    assert!(DiskBackend::repair(Arc::new(disk.clone()), tiny(), false).unwrap().header_restored);
    disk.flip("segments/store.copy", 33, 4);
    assert!(DiskBackend::repair(Arc::new(disk.clone()), tiny(), false).unwrap().copy_restored);
    disk.remove("segments/store.copy").unwrap();
    // Opening for writing is enough, and for reading changes nothing.
    drop(open(&disk, true).unwrap());
    assert!(!exists(&disk, "segments/store.copy"));
    drop(open(&disk, false).unwrap());
    assert!(exists(&disk, "segments/store.copy"));
    disk.remove("store").unwrap();
    assert!(DiskBackend::repair(Arc::new(disk.clone()), tiny(), false).unwrap().header_restored);
    assert_eq!(open(&disk, false).unwrap().list_refs("").unwrap(), *states.last().unwrap());
}

#[test]
fn what_stands_behind_a_clean_end_is_cut_away() {
    let (whole, states) = store();
    let name = last_segment(&whole);
    let bytes = whole.contents(&name).unwrap();
    let end = bytes.iter().rposition(|&byte| byte != 0).unwrap() + 1;
    let next = end.next_multiple_of(8);
    for at in [next, next + 100, bytes.len() - 1] {
        let disk = whole.fork();
        disk.overwrite(&name, at as u64, b"x");
        let backend = open(&disk, false).unwrap();
        assert_eq!(backend.list_refs("").unwrap(), *states.last().unwrap());
        assert!(disk.contents(&name).unwrap()[next..].iter().all(|&byte| byte == 0), "a byte at {at} stays");
    }
}

#[test]
fn the_copy_of_another_store_is_refused() {
    let (disk, _) = store();
    let (other, _) = store();
    let copy = other.contents("segments/store.copy").unwrap();
    disk.remove("store").unwrap();
    disk.overwrite("segments/store.copy", 0, &copy);
    let refused = DiskBackend::repair(Arc::new(disk.clone()), tiny(), false);
    assert!(matches!(&refused, Err(Error::Lost { file, .. }) if file == "segments/store.copy"), "{refused:?}");
    disk.remove("segments/store.copy").unwrap();
    let refused = DiskBackend::repair(Arc::new(disk.clone()), tiny(), false);
    assert!(matches!(&refused, Err(Error::Lost { file, .. }) if file == "store"), "{refused:?}");
    assert!(!exists(&disk, "store"));
}

#[test]
fn the_header_of_another_store_is_replaced_by_the_right_copy_and_never_the_other_way_round() {
    let (disk, states) = store();
    let (other, _) = store();
    let (own, foreign) = (disk.contents("segments/store.copy").unwrap(), other.contents("store").unwrap());
    disk.overwrite("store", 0, &foreign);
    for read_only in [true, false] {
        assert!(matches!(open(&disk, read_only), Err(Error::Corrupt { .. })));
        assert_eq!(disk.contents("segments/store.copy").unwrap(), own);
    }
    let repaired = DiskBackend::repair(Arc::new(disk.clone()), tiny(), false).unwrap();
    assert!(repaired.header_restored && !repaired.copy_restored);
    assert_eq!(disk.contents("store").unwrap(), own);
    assert_eq!(open(&disk, false).unwrap().list_refs("").unwrap(), *states.last().unwrap());
}

#[test]
fn a_repair_without_a_copy_says_what_is_the_matter_with_the_header() {
    let (disk, _) = store();
    let (other, _) = store();
    disk.remove("segments/store.copy").unwrap();
    let repair = |disk: &SimStorage| DiskBackend::repair(Arc::new(disk.clone()), tiny(), false).unwrap_err();
    let damaged = disk.fork();
    damaged.flip("store", 33, 4);
    assert!(matches!(repair(&damaged), Error::Corrupt { file, .. } if file == "store"));
    disk.overwrite("store", 0, &other.contents("store").unwrap());
    let error = repair(&disk);
    assert!(matches!(&error, Error::Lost { file, .. } if file == "store"), "{error:?}");
    assert!(error.to_string().contains("no segment here was written by the store"), "{error}");
}

#[test]
fn making_a_store_replaces_nothing_but_what_a_killed_attempt_left() {
    let make = |disk: &SimStorage| DiskBackend::create(Arc::new(disk.clone()), format_tag(), tiny()).map(drop);
    // A first segment with a single frame.
    let disk = SimStorage::new();
    let backend = DiskBackend::create(Arc::new(disk.clone()), format_tag(), tiny()).unwrap();
    drop(backend);
    disk.remove("store").unwrap();
    make(&disk).unwrap();
    for (name, bytes) in [("segments/00000001.idx", 10), ("segments/notes", 3), ("segments/00000002.seg", 0)] {
        disk.remove("store").unwrap();
        let file = disk.open(name, OpenMode::CreateNew).unwrap();
        write_all_at(&*file, &vec![1; bytes], 0).unwrap();
        let error = make(&disk).unwrap_err();
        assert!(matches!(error, Error::Lost { .. }), "{name}: {error:?}");
        assert!(exists(&disk, name));
        disk.remove(name).unwrap();
        make(&disk).unwrap();
    }
    disk.overwrite("segments/00000001.seg", 4095, &[1]);
    disk.remove("store").unwrap();
    assert!(matches!(make(&disk), Err(Error::Lost { .. })));
}

#[test]
fn a_log_that_was_closed_and_is_shorter_has_lost_something() {
    let (whole, states) = store();
    let name = last_segment(&whole);
    let bytes = whole.contents(&name).unwrap();
    // The last bytes of a checksum may be zero.
    let end = (bytes.iter().rposition(|&byte| byte != 0).unwrap() as u64 + 1).next_multiple_of(8);
    // The checkpoint at its end is not waited for, and only says that nothing follows.
    let claimed = end - CHECKPOINT_BYTES;
    for from in [claimed, claimed + 8, claimed + 32] {
        let disk = whole.fork();
        disk.overwrite(&name, from, &vec![0; (end - from) as usize]);
        assert_eq!(open(&disk, false).unwrap().list_refs("").unwrap(), *states.last().unwrap());
    }
    let mut refused = 0;
    for from in (0..claimed).step_by(24) {
        let disk = whole.fork();
        disk.overwrite(&name, from, &vec![0; (end - from) as usize]);
        // Who reads says so in a file of its own.
        let files = || disk.files().into_iter().filter(|(name, _)| !name.starts_with("readers/"));
        let before: Vec<_> = files().map(|(name, _)| (disk.contents(&name), name)).collect();
        let reading = open(&disk, true);
        let writing = open(&disk, false);
        let after: Vec<_> = files().map(|(name, _)| (disk.contents(&name), name)).collect();
        assert!(before == after, "cut at {from}: an opening that is refused changes files");
        let Ok(reading) = reading else {
            // The head of the segment itself.
            assert!(matches!(writing, Err(Error::Corrupt { .. })), "cut at {from}: {writing:?}");
            continue;
        };
        assert!(matches!(&writing, Err(Error::Lost { file, .. }) if *file == name), "cut at {from}: {writing:?}");
        assert!(writing.unwrap_err().to_string().contains("by a repair that accepts the end"));
        refused += 1;
        assert!(states.contains(&reading.list_refs("").unwrap()));
        let lost = reading.lost_end().cloned().expect("it is told");
        assert_eq!(check(&reading), std::slice::from_ref(&lost));
        drop(reading);
        let repaired = DiskBackend::repair(Arc::new(disk.clone()), tiny(), false);
        assert!(matches!(repaired, Err(Error::Lost { .. })), "{repaired:?}");
        let accepted = DiskBackend::repair(Arc::new(disk.clone()), tiny(), true).unwrap().accepted.unwrap();
        assert_eq!(accepted.lost, lost);
        for kept in &accepted.kept_in {
            assert!(kept.starts_with("segments/behind-"), "{kept}");
            let kept = disk.contents(kept).unwrap();
            // All that stood there, and none of the zeroes behind it.
            let behind = &bytes[lost.offset as usize..from as usize];
            let stood = behind.iter().rposition(|&byte| byte != 0).unwrap() + 1;
            assert_eq!((&kept[..], accepted.bytes), (&behind[..stood], stood as u64));
        }
        // Decided is decided, also after a power cut, and the store goes on.
        let disk = disk.reboot(from, Policy::Lost);
        let backend = open(&disk, false).unwrap();
        assert!(backend.lost_end().is_none() && check(&backend).is_empty());
        assert!(states.contains(&backend.list_refs("").unwrap()));
    }
    assert!(refused > 20, "{refused}");
}

#[test]
fn a_last_segment_that_is_missing_is_missed() {
    let (whole, states) = store();
    let segments = whole.files().into_iter().filter(|(name, _)| name.ends_with(".seg")).count();
    assert!(segments > 2);
    for lost in 1..segments - 1 {
        let disk = whole.fork();
        let gone: Vec<String> = (0..lost)
            .map(|_| {
                let name = last_segment(&disk);
                disk.remove(&name).unwrap();
                name
            })
            .collect();
        let error = open(&disk, false).unwrap_err();
        let first = gone.last().unwrap();
        assert!(matches!(&error, Error::Lost { file, .. } if file == first), "{error:?}");
        let reading = open(&disk, true).unwrap();
        assert_eq!(check(&reading).len(), 1);
        assert!(states.contains(&reading.list_refs("").unwrap()));
        drop(reading);
        let accepted = DiskBackend::repair(Arc::new(disk.clone()), tiny(), true).unwrap().accepted.unwrap();
        assert_eq!((accepted.kept_in, accepted.bytes), (Vec::new(), 0));
        let backend = open(&disk, false).unwrap();
        assert!(backend.note().unwrap().contains(first), "{:?}", backend.note());
        backend.append(bristlecone::Batch::new(), &[], Durability::Synced).unwrap();
    }
}

#[test]
fn a_note_of_the_end_that_is_old_or_missing_or_damaged_claims_nothing_more() {
    let (whole, states) = store();
    for damage in 0..4 {
        let disk = whole.fork();
        match damage {
            0 => disk.remove("segments/durable").unwrap(),
            1 => disk.overwrite("segments/durable", 0, &[0; 1024]),
            2 => disk.cut_file("segments/durable", 5),
            _ => disk.overwrite("segments/durable", 0, &[0xff; 1024]),
        }
        let name = last_segment(&disk);
        let bytes = disk.contents(&name).unwrap();
        let end = bytes.iter().rposition(|&byte| byte != 0).unwrap() as u64 + 1;
        // The checkpoint and the end of the last commit.
        disk.overwrite(&name, end - 100, &[0; 100]);
        let backend = open(&disk, false).unwrap();
        assert!(states.contains(&backend.list_refs("").unwrap()));
        drop(backend);
        assert_eq!(check(&open(&disk, true).unwrap()), []);
    }
}

/// A process that knows more of the log than an accepted end leaves would append behind that end.
#[test]
fn no_end_is_accepted_while_another_process_has_the_store_open() {
    let (disk, states) = store();
    let accept = || DiskBackend::repair(Arc::new(disk.clone()), tiny(), true);
    for read_only in [false, true] {
        let other = open(&disk, read_only).unwrap();
        assert_eq!(accept().unwrap().accepted, None, "nothing is lost");
        drop(other);
    }
    let other = open(&disk, false).unwrap();
    let name = last_segment(&disk);
    let bytes = disk.contents(&name).unwrap();
    let end = (bytes.iter().rposition(|&byte| byte != 0).unwrap() as u64 + 1).next_multiple_of(8);
    // The trailer of the last commit, and what is before it.
    disk.overwrite(&name, end - CHECKPOINT_BYTES - 20, &[0x55; 16]);
    let damaged = disk.contents(&name);
    let refused = accept();
    assert!(matches!(&refused, Err(Error::Locked { .. })), "{refused:?}");
    assert!(refused.unwrap_err().to_string().contains("which has the store open"));
    assert_eq!(disk.contents(&name), damaged);
    drop(other);
    assert!(accept().unwrap().accepted.is_some());
    let backend = open(&disk, false).unwrap();
    assert!(states.contains(&backend.list_refs("").unwrap()) && check(&backend).is_empty());
}

/// A part of a frame follows from what stands around it. Where more is damaged, it does not.
#[test]
fn a_damaged_part_of_a_frame_is_put_back_from_what_stands_around_it() {
    let (whole, states) = store();
    let names: Vec<String> =
        whole.files().into_iter().map(|(name, _)| name).filter(|name| name.ends_with(".seg")).collect();
    let mut mended = 0;
    for name in &names {
        let bytes = whole.contents(name).unwrap();
        let frames: Vec<usize> = (0..bytes.len()).step_by(8).filter(|&at| bytes[at..].starts_with(b"BCF1")).collect();
        for (place, &at) in frames.iter().enumerate() {
            let follows = place + 1 < frames.len() || *name != last_segment(&whole);
            // A seal has 80 bytes.
            let length = frames.get(place + 1).map_or(80, |next| next - at);
            let flipped = [!bytes[at + length - 12]];
            let heads = [(0, &[0x55; 64][..]), (0, &[0; 64][..]), (0, &[0xee][..]), (40, &[0xee; 8][..])];
            // A byte of the payload; the trailer.
            let ends = [(length - 12, &flipped[..]), (length - 8, &[0x55; 8][..])];
            let one = heads.into_iter().chain(ends).map(|part| vec![part]);
            // The head with the trailer, and a byte of the payload with that.
            let both = [vec![heads[0], ends[1]], vec![heads[3], ends[1]], ends.to_vec()];
            for parts in one.chain(both) {
                let disk = whole.fork();
                parts.iter().for_each(|&(from, wrong)| disk.overwrite(name, (at + from) as u64, wrong));
                if !follows {
                    // It looks like one that a crash cut short.
                    assert_eq!(DiskBackend::repair(Arc::new(disk), tiny(), false).unwrap().frames_restored, 0);
                    continue;
                }
                let repaired = DiskBackend::repair(Arc::new(disk.clone()), tiny(), false).unwrap();
                assert_eq!((repaired.frames_restored, repaired.accepted), (1, None), "{name} at {at}");
                let disk = disk.reboot(3, Policy::Lost);
                assert_eq!(disk.contents(name).unwrap()[at..at + length], bytes[at..at + length], "{name} at {at}");
                let backend = open(&disk, false).unwrap();
                assert_eq!(backend.list_refs("").unwrap(), *states.last().unwrap());
                assert_eq!(check(&backend), []);
                mended += 1;
            }
            let Some(&next) = frames.get(place + 1) else { continue };
            // The head, and a byte of its first record or of its moves.
            for other in [at + 64 + 20, next - 20] {
                let disk = whole.fork();
                disk.overwrite(name, at as u64, &[0x55; 64]);
                disk.flip(name, other as u64, 1);
                let repaired = DiskBackend::repair(Arc::new(disk.clone()), tiny(), false);
                assert!(!repaired.is_ok_and(|repaired| repaired.frames_restored > 0), "{name} at {at}");
                assert_eq!(disk.contents(name).unwrap()[at..at + 64], [0x55; 64]);
            }
        }
    }
    assert!(mended > 30, "{mended}");
}

/// A segment without a byte stands behind a loss: a power cut left it, and it keeps nobody from accepting the loss.
#[test]
fn a_loss_is_accepted_with_an_empty_segment_behind_it() {
    let (whole, states) = store();
    let name = last_segment(&whole);
    let number: u32 = name["segments/".len()..name.len() - ".seg".len()].parse().unwrap();
    let bytes = whole.contents(&name).unwrap();
    let last = bytes.iter().rposition(|&byte| byte != 0).unwrap() as u64;
    let mut accepted = 0;
    for (at, blank) in (100..last).step_by(5).flat_map(|at| [0, 4096].map(|blank| (at, blank))) {
        if bytes[at as usize] == 0 {
            continue;
        }
        let disk = whole.fork();
        let behind = disk.open(&format!("segments/{:08}.seg", number + 1), OpenMode::CreateNew).unwrap();
        behind.set_len(blank).unwrap();
        drop(behind);
        // A repair puts one damaged byte of a frame's payload right, so there are two, within a word.
        disk.flip(&name, at, 2);
        disk.flip(&name, at & !7 | (at + 1) & 7, 2);
        if !matches!(open(&disk, false), Err(Error::Corrupt { .. } | Error::Lost { .. })) {
            continue;
        }
        match DiskBackend::repair(Arc::new(disk.clone()), tiny(), true) {
            Ok(repaired) => accepted += usize::from(repaired.accepted.is_some()),
            // A head whose segment is the last that is sound is no end of a log.
            Err(Error::Corrupt { file, offset: 0, .. }) if at < 300 => assert_eq!(file, name),
            Err(error) => panic!("byte {at}: {error:?}"),
        }
        if let Ok(backend) = open(&disk, false) {
            assert!(states.contains(&backend.list_refs("").unwrap()) && check(&backend).is_empty(), "byte {at}");
        }
    }
    assert!(accepted > 10, "{accepted}");
}

/// A file that was cut is no head that is damaged, and a repair makes it as long as it was; what was lost with the end is told then.
#[test]
fn a_segment_that_was_cut_is_made_as_long_as_it_was() {
    let (whole, states) = store();
    let name = last_segment(&whole);
    let bytes = whole.stat(&name).unwrap().bytes;
    for left in [bytes - 1, bytes - 100, bytes / 2, 600] {
        let disk = whole.fork();
        disk.cut_file(&name, left);
        let error = open(&disk, false).unwrap_err();
        assert!(matches!(&error, Error::Corrupt { file, offset, .. } if *file == name && *offset == left), "{error:?}");
        assert!(error.to_string().contains(&format!("the file has {left} of {bytes} bytes")), "{error}");
        let repair = |accept_end| DiskBackend::repair(Arc::new(disk.clone()), tiny(), accept_end);
        let repaired = repair(false);
        assert_eq!(disk.stat(&name).unwrap().bytes, bytes);
        match repaired {
            Ok(repaired) => assert_eq!(repaired.segments_lengthened, std::slice::from_ref(&name)),
            Err(_) => {
                assert!(left < bytes - 1, "only zeroes were lost");
                repair(true).unwrap();
            }
        }
        assert_eq!(repair(false).unwrap().segments_lengthened, [""; 0]);
        let refs = open(&disk, false).unwrap().list_refs("").unwrap();
        assert!(states.contains(&refs), "{left} bytes of {name}");
        assert!(left < bytes - 1 || refs == *states.last().unwrap());
    }
}

/// The log ends in a segment that is sealed, and a sync of that segment failed in a process before: what reads right is not on the medium.
#[test]
fn an_accepted_end_is_durable_in_a_sealed_segment_too() {
    let (disk, states) = store();
    disk.remove(&last_segment(&disk)).unwrap();
    let name = last_segment(&disk);
    let bytes = disk.contents(&name).unwrap();
    let medium = |disk: &SimStorage| disk.reboot(1, Policy::Lost).contents(&name).unwrap();
    // Which sectors reach the medium all the same depends on the calls before.
    for _ in 0..20 {
        // All but the sector of the head.
        disk.overwrite(&name, 512, &vec![0; bytes.len() - 512]);
        let file = disk.open(&name, OpenMode::Write).unwrap();
        write_all_at(&*file, &bytes[512..], 512).unwrap();
        disk.fail_at(disk.calls() + 1, Fault::Io, Times::Once);
        assert!(file.sync_data().is_err());
        if medium(&disk) != bytes {
            break;
        }
    }
    disk.heal();
    assert!(disk.contents(&name).unwrap() == bytes && medium(&disk) != bytes);
    assert!(DiskBackend::repair(Arc::new(disk.clone()), tiny(), true).unwrap().accepted.is_some());
    assert!(medium(&disk) == bytes);
    let backend = open(&disk.reboot(1, Policy::Lost), false).unwrap();
    assert!(states.contains(&backend.list_refs("").unwrap()) && check(&backend).is_empty());
}

/// Whoever opens the store for reading does not meet a segment in the middle of the log, but a check does.
#[test]
fn a_segment_that_was_cut_in_the_middle_of_the_log_is_named_where_it_ends() {
    let (whole, _) = store();
    let name = "segments/00000001.seg";
    let bytes = whole.stat(name).unwrap().bytes;
    for left in [bytes - 1, bytes / 2, 600] {
        let disk = whole.fork();
        disk.cut_file(name, left);
        let damages = check(&open(&disk, true).unwrap());
        let reason = format!("the file has {left} of {bytes} bytes");
        let is_cut = |damage: &Damage| damage.file == name && damage.offset == left && damage.reason.contains(&reason);
        assert!(damages.iter().any(is_cut), "{damages:?}");
        let is_at_head = |damage: &Damage| damage.file == name && damage.offset == 0;
        assert!(!damages.iter().any(is_at_head), "the head is whole: {damages:?}");
    }
}

/// Without the head of its last segment no store opens. A byte of it follows from its check, and the check from the first frame.
#[test]
fn a_damaged_byte_in_the_head_of_a_segment_is_put_right() {
    let (whole, states) = store();
    let repair = |disk: &SimStorage| DiskBackend::repair(Arc::new(disk.clone()), tiny(), false);
    let names = whole.files().into_iter().map(|(name, _)| name).filter(|name| name.ends_with(".seg"));
    for name in names {
        let bytes = whole.contents(&name).unwrap();
        let frames_at = (0..bytes.len()).step_by(8).find(|&at| bytes[at..].starts_with(b"BCF1")).unwrap();
        let bits = (0..frames_at).step_by(3).map(|at| (at, 1 << (at % 8)));
        // The last one makes a head of one kind look like one of another.
        for (at, mask) in bits.chain([(7, 1)]) {
            let disk = whole.fork();
            disk.flip(&name, at as u64, mask);
            let repaired = repair(&disk).unwrap_or_else(|error| panic!("byte {at} of {name}: {error}"));
            assert_eq!((repaired.heads_restored, repaired.frames_restored), (1, 0), "byte {at} of {name}");
            let disk = disk.reboot(3, Policy::Lost);
            assert_eq!(disk.contents(&name).unwrap()[..frames_at], bytes[..frames_at], "byte {at} of {name}");
            let backend = open(&disk, false).unwrap();
            assert_eq!(backend.list_refs("").unwrap(), *states.last().unwrap());
            assert_eq!(check(&backend), []);
        }
        // Two bytes, of the segment before and of the file's length, are more than follows.
        let disk = whole.fork();
        [13, 17].into_iter().for_each(|at| disk.flip(&name, at, 1));
        let damaged = disk.contents(&name).unwrap();
        assert!(!repair(&disk).is_ok_and(|repaired| repaired.heads_restored > 0), "{name}");
        assert_eq!(disk.contents(&name).unwrap()[..frames_at], damaged[..frames_at], "{name}");
    }
}
