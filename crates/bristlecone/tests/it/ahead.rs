//! Segments that are begun ahead: while what is before them is still being made durable.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
};

use bristlecone::{
    Backend, Batch, Durability, Error, Expected, Location, ObjRef, Object, Oid, RefMove, RefTarget,
    disk::{DiskBackend, DiskOptions},
    storage::Storage as _,
};
use bristlecone_testkit::{
    crash::{self, CrashRun, CrashStep, Workload},
    sample::Family,
    sim::{CallKind, Fault, Hooked, Policy, SimStorage, Times},
};

use crate::engine::{DiskEngine, check, open_tiny as open, tiny};

fn commit(bytes: usize, durability: Durability) -> CrashStep {
    CrashStep::Commit { handle: 0, refs: vec!["main".to_owned()], sizes: vec![bytes], durability }
}

/// Goes through steps on a store with these options.
fn run(options: DiskOptions, steps: impl IntoIterator<Item = CrashStep>) -> (SimStorage, CrashRun) {
    let (disk, steps) = (SimStorage::new(), steps.into_iter().collect());
    disk.keep_moments();
    let run = CrashRun::of(&DiskEngine::new(options), disk.clone(), &Workload { name: "ahead", steps }).unwrap();
    (disk, run)
}

/// Returns the disk as it was when the step of this number was acknowledged; 0 is the creation.
fn after(disk: &SimStorage, run: &CrashRun, step: usize) -> SimStorage {
    disk.moment(run.events[step].acknowledged).unwrap()
}

/// A synced commit, some without durability that fill a segment each, and a synced one.
fn store() -> (SimStorage, CrashRun) {
    let between = (0..6).map(|n| commit(2500 + n, Durability::None));
    let steps = [commit(10, Durability::Synced)].into_iter().chain(between).chain([commit(20, Durability::Synced)]);
    let (disk, run) = run(tiny(), steps);
    let disk = after(&disk, &run, run.events.len() - 1);
    assert!(heads(&disk).iter().filter(|head| head.durable_end.is_some()).count() >= 3);
    (disk, run)
}

struct Head {
    name: String,
    number: u64,
    /// How far the log was durable, if it was begun ahead.
    durable_end: Option<u64>,
}

/// Returns what the heads of segments say.
fn heads(disk: &SimStorage) -> Vec<Head> {
    let names = disk.files().into_iter().map(|(name, _)| name).filter(|name| name.ends_with(".seg"));
    let head = |name: String| {
        let bytes = disk.contents(&name).unwrap();
        let word = |at: usize| bytes.get(at..at + 8).map_or(0, |word| u64::from_le_bytes(word.try_into().unwrap()));
        let ahead = bytes.starts_with(b"BCONESG3");
        Head { name, number: word(8) & 0xffff_ffff, durable_end: ahead.then(|| word(80)) }
    };
    names.map(head).collect()
}

/// Appends a value durably, to which a ref moves.
fn append(backend: &DiskBackend, number: u64) {
    let sample = Family::default().contents(1 << 30 | number, 100);
    let mut batch = Batch::new();
    let at = sample.put(&mut batch, &HashMap::new());
    let to = Some(RefTarget::Object(ObjRef::new(sample.oid, at)));
    let moves = [RefMove { name: "added".to_owned(), expected: Expected::Any, to }];
    backend.append(batch, &moves, Durability::Synced).unwrap();
}

#[test]
fn few_segments_wait_to_be_durable() {
    let (disk, run) = run(tiny(), (0..20).map(|n| commit(2000 + n, Durability::None)));
    let mut most = 0;
    for step in 1..run.events.len() {
        let last = heads(&after(&disk, &run, step)).pop().unwrap();
        let behind = last.durable_end.map_or(0, |durable_end| last.number - (durable_end >> 32));
        most = most.max(behind);
    }
    assert!((3..=5).contains(&most), "{most}");
}

#[test]
fn no_segment_of_version_1_is_begun_ahead() {
    let (disk, _) = run(tiny().version(1), (0..6).map(|n| commit(2000 + n, Durability::None)));
    let heads = heads(&disk);
    assert!(heads.len() > 4 && heads.iter().all(|head| head.durable_end.is_none()));
}

#[test]
fn a_reader_that_comes_before_any_writer_sees_what_the_writer_then_goes_on_from() {
    let (disk, run) = run(tiny(), (0..9).map(|n| commit(900 + 200 * n, Durability::None)));
    let (mut ends, mut cut) = (std::collections::BTreeSet::new(), 0);
    let mut places = Vec::new();
    let mut note = |oid: Oid, object: &Object<'_>| {
        places.push(ObjRef::new(oid, object.location()));
        Ok(())
    };
    let whole = open(&after(&disk, &run, run.events.len() - 1), true).unwrap();
    whole.each_object(&mut note, &mut |_| ()).unwrap();
    assert!(places.len() >= 9);
    for (step, seed) in (2..run.events.len()).flat_map(|step| (0..24).map(move |seed| (step, seed))) {
        let disk = after(&disk, &run, step).reboot(seed, [Policy::Sectors, Policy::Writes, Policy::Prefix][step % 3]);
        let segments = || disk.files().into_iter().filter(|(name, _)| name.ends_with(".seg")).count();
        let before = segments();
        let reader = open(&disk, true).unwrap();
        let seen = reader.list_refs("").unwrap();
        // Places of before the cut may lead into files that the writer then removes.
        places.iter().for_each(|at| _ = reader.read(at));
        assert_eq!(segments(), before, "a reader changes nothing");
        let writer = open(&disk, false).unwrap();
        assert_eq!(writer.list_refs("").unwrap(), seen);
        cut += usize::from(segments() < before);
        for number in 0..40 {
            append(&writer, number);
        }
        assert_eq!(reader.list_refs("").unwrap(), writer.list_refs("").unwrap(), "step {step}, seed {seed}");
        assert_eq!((check(&writer), check(&reader)), (Vec::new(), Vec::new()));
        ends.insert(run.events.iter().position(|event| event.state == seen).unwrap());
    }
    assert!(ends.len() > 5 && cut > 20, "{ends:?}, {cut}");
}

#[test]
fn what_was_durable_in_a_segment_that_was_begun_ahead_is_missed() {
    let (whole, run) = store();
    let last = heads(&whole).pop().unwrap();
    assert!(last.durable_end.is_some());
    let refused = |disk: &SimStorage, what: &str| {
        let refused = open(disk, false);
        assert!(matches!(&refused, Err(Error::Lost { .. } | Error::Corrupt { .. })), "{what}: {refused:?}");
        // Read, it is told.
        if let Ok(reader) = open(disk, true) {
            assert!(reader.lost_end().is_some(), "{what}");
        }
    };
    let disk = whole.fork();
    disk.remove(&last.name).unwrap();
    refused(&disk, "the last segment is missing");
    let disk = whole.fork();
    disk.overwrite(&last.name, 0, &[0; 512]);
    refused(&disk, "its first sector is blank");
    for at in (0..96).step_by(5) {
        let disk = whole.fork();
        disk.flip(&last.name, at, 16);
        refused(&disk, &format!("a flip at {at} of its head"));
    }
    // Whatever is damaged before, which nothing but the last segment says was durable.
    let mut tried = 0;
    for head in heads(&whole).into_iter().rev().skip(1) {
        let bytes = whole.contents(&head.name).unwrap();
        for at in (100..bytes.len() as u64).step_by(190).filter(|&at| bytes[at as usize] != 0) {
            let disk = whole.fork();
            disk.flip(&head.name, at, 4);
            match open(&disk, false) {
                // It is before what recovery looks at, and is found when it is read.
                Ok(backend) => assert!(!check(&backend).is_empty(), "a flip at {at} of {}", head.name),
                Err(_) => refused(&disk, &format!("a flip at {at} of {}", head.name)),
            }
            tried += 1;
        }
    }
    assert!(tried > 30);
    assert_eq!(open(&whole, false).unwrap().list_refs("").unwrap(), run.events.last().unwrap().state);
}

/// A head of a kind that comes after those of today is told as such, wherever it is; nothing is removed for it.
#[test]
fn a_head_of_a_later_kind_asks_for_a_later_program() {
    let (whole, _) = store();
    for (number, head) in heads(&whole).into_iter().enumerate() {
        let disk = whole.fork();
        // Its fields are others, too: a flip in the word alone is damage.
        disk.overwrite(&head.name, 0, b"BCONESG7");
        let word_alone = open(&disk, false);
        disk.overwrite(&head.name, 64, &[0x5a; 8]);
        let before = disk.files();
        for read_only in [false, true] {
            match open(&disk, read_only) {
                // It is before what is looked at: reads by location go on.
                Ok(backend) => {
                    assert!(check(&backend).iter().any(|damage| damage.reason.contains("BCONESG7")), "segment {number}")
                }
                Err(Error::Incompatible { file, found, .. }) => {
                    assert!(file == head.name && found.contains("BCONESG7"), "{file}: {found}");
                    assert!(!matches!(word_alone, Err(Error::Incompatible { .. })), "{word_alone:?}");
                }
                other => panic!("segment {number}: {other:?}"),
            }
        }
        assert_eq!(disk.files(), before);
    }
}

#[test]
fn who_accepts_a_loss_keeps_the_segments_behind_it_aside() {
    let (whole, run) = store();
    let heads = heads(&whole);
    let first = &heads[heads.iter().position(|head| head.durable_end.is_some()).unwrap()];
    let disk = whole.fork();
    disk.flip(&first.name, 400, 4);
    let later = heads.iter().filter(|head| head.number > first.number);
    let contents: Vec<_> = later.map(|head| whole.contents(&head.name).unwrap()).collect();
    let accept = |disk: &SimStorage| DiskBackend::repair(Arc::new(disk.clone()), tiny(), true);
    let accepted = accept(&disk).unwrap().accepted.unwrap();
    assert!(accepted.kept_in.len() > contents.len() && contents.len() >= 2, "{accepted:?}");
    let kept = accepted.kept_in.iter().rev().take(contents.len()).rev();
    assert!(kept.map(|name| disk.contents(name).unwrap()).eq(contents));
    let disk = disk.reboot(1, Policy::Lost);
    let backend = open(&disk, false).unwrap();
    assert!(backend.lost_end().is_none() && check(&backend).is_empty());
    let state = backend.list_refs("").unwrap();
    assert!(run.events.iter().any(|event| event.state == state));
    append(&backend, 1);
    drop(backend);
    // Power that is cut meanwhile leaves a loss that is still to be accepted, or one that was.
    for call in 1.. {
        let disk = whole.fork();
        disk.flip(&first.name, 400, 4);
        disk.cut_after(disk.calls() + call);
        if accept(&disk).is_ok() {
            break;
        }
        let disk = disk.reboot(call, [Policy::Lost, Policy::Sectors, Policy::Writes][call as usize % 3]);
        accept(&disk).unwrap();
        assert_eq!(open(&disk, false).unwrap().list_refs("").unwrap(), state, "cut after {call} calls");
    }
}

/// A head that is damaged though segments behind it are not is no end by itself; whoever accepts it as one gets it.
#[test]
fn a_damaged_head_may_be_accepted_as_the_end() {
    let (whole, run) = store();
    let heads = heads(&whole);
    let ahead: Vec<&Head> = heads.iter().filter(|head| head.durable_end.is_some()).collect();
    for head in &ahead[..ahead.len() - 1] {
        for at in [0, 3, 9, 60, 100] {
            let disk = whole.fork();
            disk.flip(&head.name, at, 4);
            // One damaged byte is put right.
            let mended = disk.fork();
            let repaired = DiskBackend::repair(Arc::new(mended.clone()), tiny(), true).unwrap();
            assert_eq!((repaired.heads_restored, repaired.accepted), (1, None), "{}, byte {at}", head.name);
            let first = |disk: &SimStorage| disk.contents(&head.name).unwrap()[..512].to_vec();
            assert!(first(&mended) == first(&whole), "{}, byte {at}", head.name);
            disk.flip(&head.name, 17, 4);
            let error = open(&disk, false).unwrap_err();
            assert!(
                matches!(error, Error::Corrupt { .. } | Error::Incompatible { .. } | Error::Lost { .. }),
                "{error:?}"
            );
            let repaired = DiskBackend::repair(Arc::new(disk.clone()), tiny(), true);
            let accepted = match repaired {
                Ok(repaired) => repaired.accepted.unwrap(),
                // One more bit makes a kind that only later programs know.
                Err(Error::Incompatible { .. }) => continue,
                Err(error) => panic!("{}, byte {at}: {error:?}", head.name),
            };
            assert!(!accepted.kept_in.is_empty(), "{accepted:?}");
            let state = open(&disk, false).unwrap().list_refs("").unwrap();
            assert!(run.events.iter().any(|event| event.state == state), "{}, byte {at}", head.name);
        }
    }
}

/// A sync fails in a segment that another process has not met yet, and the process that is told so dies.
#[test]
fn what_a_failed_sync_left_is_written_again_by_who_goes_on_behind_it() {
    let mut met = 0;
    for (call, seed) in (0..40).flat_map(|call| (0..4).map(move |seed| (call, seed))) {
        let disk = SimStorage::new();
        drop(DiskBackend::create(Arc::new(disk.clone()), crate::engine::format_tag(), tiny()).unwrap());
        let (one, other) = (disk.process(), disk.process());
        let open = |disk: &SimStorage| DiskBackend::open(Arc::new(disk.clone()), None, tiny(), false);
        let (first, second) = (open(&one).unwrap(), open(&other).unwrap());
        append(&first, 0);
        append(&second, 1);
        for number in 0..5 {
            let mut batch = Batch::new();
            Family::default().contents(1 << 29 | number, 900 + seed as usize * 150).put(&mut batch, &HashMap::new());
            first.append(batch, &[], Durability::None).unwrap();
        }
        disk.keep_trace();
        let at = disk.calls() + 1 + call;
        disk.fail_at(at, Fault::Io, Times::Once);
        one.stop_after(one.process_calls() + 1 + call);
        let failed = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| append(&first, 2))).is_err();
        if one.stopped().is_none() {
            continue;
        }
        disk.heal();
        met += usize::from(failed && disk.call(call + 1).is_some_and(|call| call.kind == CallKind::Sync));
        append(&second, 3);
        append(&second, 4);
        let state = second.list_refs("").unwrap();
        for policy in [Policy::Lost, Policy::Sectors] {
            let disk = disk.reboot(seed, policy);
            let opened = open(&disk).unwrap_or_else(|error| panic!("call {call}, seed {seed}: {error}"));
            assert_eq!(opened.list_refs("").unwrap(), state, "call {call}, seed {seed}");
        }
    }
    assert!(met > 3, "{met}");
}

/// Moves a ref to a small object of its own.
fn put_value(backend: &DiskBackend, number: u64) -> Result<Location, Error> {
    let sample = Family::default().contents(1 << 30 | number, 8);
    let mut batch = Batch::new();
    let at = sample.put(&mut batch, &HashMap::new());
    let to = Some(RefTarget::Object(ObjRef::new(sample.oid, at)));
    let moves = [RefMove { name: format!("n{}", number % 3), expected: Expected::Any, to }];
    backend.append(batch, &moves, Durability::Synced)
}

/// A process whose write failed after all of it could be read, and was taken back; another one that had read it meanwhile; and
/// a number that neither has used.
fn taken_back(read_only: bool) -> (SimStorage, DiskBackend, Arc<DiskBackend>, u64) {
    let disk = SimStorage::new();
    drop(DiskBackend::create(Arc::new(disk.clone()), crate::engine::format_tag(), tiny()).unwrap());
    let other = Arc::new(DiskBackend::open(Arc::new(disk.process()), None, tiny(), read_only).unwrap());
    let (beside, armed) = (other.clone(), Arc::new(AtomicBool::new(false)));
    let is_armed = armed.clone();
    let one = Hooked::new(Arc::new(disk.process()), move |coming| {
        // The second write of an append that fails is that of zeroes.
        if coming.method == "write_at" && is_armed.load(Relaxed) {
            let _ = beside.list_refs("");
        }
    });
    let one = DiskBackend::open(Arc::new(one), None, tiny(), false).unwrap();
    // How much of a write that fails is written depends on the number of the call.
    for round in 0..20_000 {
        disk.fail_at(disk.calls() + 1, Fault::Io, Times::Once);
        armed.store(true, Relaxed);
        let failed = put_value(&one, 3 * round).is_err();
        armed.store(false, Relaxed);
        disk.heal();
        // It has read the frame if it is told that this was taken back.
        if failed && other.list_refs("").is_err() {
            return (disk, one, other, 3 * round + 1);
        }
    }
    panic!("no frame was read before it was taken back");
}

/// A write fails after all of it can be read, and is taken back: who read it meanwhile does not go on behind it.
#[test]
fn a_frame_that_was_taken_back_is_not_gone_on_from() {
    let (disk, one, other, number) = taken_back(false);
    put_value(&one, number).unwrap();
    let second = put_value(&other, number + 1);
    assert!(matches!(second, Err(Error::Poisoned { .. })), "{second:?}");
    let opened = open(&disk.reboot(1, Policy::Lost), false).unwrap();
    assert_eq!(opened.list_refs("").unwrap(), one.list_refs("").unwrap());
}

/// As above: who only reads is told as soon as something was written behind what took the frame's place.
#[test]
fn a_reader_is_told_that_a_frame_was_taken_back() {
    for read_only in [false, true] {
        let (disk, one, other, number) = taken_back(read_only);
        put_value(&one, number).unwrap();
        put_value(&one, number + 1).unwrap();
        for _ in 0..2 {
            let refs = other.list_refs("");
            assert!(matches!(refs, Err(Error::Poisoned { .. })), "read only: {read_only}: {refs:?}");
        }
        let opened = open(&disk, true).unwrap();
        assert_eq!(opened.list_refs("").unwrap(), one.list_refs("").unwrap());
    }
}

/// As above: who has read it is told though nothing was written in its place, and before it says what its refs held.
#[test]
fn a_frame_that_zeroes_have_taken_the_place_of_is_told_at_once() {
    for read_only in [false, true] {
        let (disk, one, other, number) = taken_back(read_only);
        for _ in 0..2 {
            let refs = other.list_refs("");
            assert!(matches!(refs, Err(Error::Poisoned { .. })), "read only: {read_only}: {refs:?}");
        }
        let opened = open(&disk, true).unwrap();
        assert_eq!(opened.list_refs("").unwrap(), one.list_refs("").unwrap());
        drop((opened, other));
        put_value(&one, number).unwrap();
    }
}

/// Frames behind the first that was torn are looked through once, however many there are.
#[test]
fn a_recovery_reads_what_is_behind_the_end_once() {
    let options = tiny().segment_bytes(1 << 18);
    let disk = SimStorage::new();
    let backend = DiskBackend::create(Arc::new(disk.clone()), crate::engine::format_tag(), options.clone()).unwrap();
    for number in 0..1000 {
        let mut batch = Batch::new();
        Family::default().contents(1 << 29 | number, 100).put(&mut batch, &HashMap::new());
        backend.append(batch, &[], Durability::None).unwrap();
    }
    std::mem::forget(backend);
    let disk = disk.fork();
    let name = heads(&disk)[0].name.clone();
    disk.flip(&name, 400, 1);
    disk.number_reads();
    disk.keep_trace();
    let opened = DiskBackend::open(Arc::new(disk.clone()), None, options, false).unwrap();
    let calls = (1..=disk.calls()).filter_map(|call| disk.call(call));
    let read: u64 =
        calls.filter(|call| call.kind == CallKind::Read && *call.name == *name).map(|call| call.bytes).sum();
    let bytes = disk.contents(&name).unwrap().len() as u64;
    assert!(read < 10 * bytes && check(&opened).is_empty(), "{read} of {bytes}");
}

#[test]
fn a_collection_begins_where_all_before_is_durable() {
    for filling in 0..24 {
        let options = tiny().segment_bytes(1 << 14);
        let names: Vec<String> = (0..20).map(|n| format!("side/{n:040}")).collect();
        let many = CrashStep::Commit { handle: 0, refs: names.clone(), sizes: vec![50], durability: Durability::None };
        // The removal begins a segment of its own, without a record, if little is left of the one before.
        let fill = (0..8).map(|n| commit(1500 + filling * 50 + n, Durability::None));
        let remove = CrashStep::Remove { handle: 0, refs: names, durability: Durability::None };
        let rest = [remove, CrashStep::Sweep { handle: 0 }, commit(10, Durability::None)];
        let (disk, run) = run(options, [many].into_iter().chain(fill).chain(rest));
        let disk = after(&disk, &run, run.events.len() - 2);
        let heads = heads(&disk);
        assert!(heads[0].number > 1 && heads[0].durable_end.is_none(), "{filling}: {}", heads[0].name);
    }
}

/// What a head says was durable is damaged, not torn, though nothing else says so; and nothing is removed.
#[test]
fn a_loss_that_only_a_later_head_tells_is_told() {
    let between = (0..2).map(|n| commit(1200 + n, Durability::None));
    let behind = (0..3).map(|n| commit(2500 + n, Durability::None));
    let (disk, run) = run(tiny(), between.chain([CrashStep::Flush { handle: 0 }]).chain(behind));
    let whole = after(&disk, &run, run.events.len() - 1);
    let durable_end = heads(&whole).pop().unwrap().durable_end.unwrap();
    let (name, end) = (format!("segments/{:08}.seg", durable_end >> 32), durable_end & 0xffff_ffff);
    // Frames say the same, the seal among them. Here the power has taken them, and the heads alone are left.
    let bare = whole.fork();
    bare.overwrite(&name, end, &vec![0; whole.contents(&name).unwrap().len() - end as usize]);
    for head in heads(&whole).iter().filter(|head| head.number > durable_end >> 32) {
        let bytes = whole.contents(&head.name).unwrap();
        let rows = u64::from_le_bytes(bytes[48..56].try_into().unwrap());
        bare.overwrite(&head.name, 96 + rows, &vec![0; bytes.len() - 96 - rows as usize]);
    }
    let bytes = whole.contents(&name).unwrap();
    let mut tried = 0;
    for at in (300..end).step_by(7).filter(|&at| bytes[at as usize] != 0) {
        let disk = if at % 2 == 0 { whole.fork() } else { bare.fork() };
        disk.remove("segments/durable").unwrap();
        disk.flip(&name, at, 2);
        let before = disk.files();
        match open(&disk, false) {
            // Records that were durable are checked when they are read.
            Ok(backend) => assert!(!check(&backend).is_empty(), "a flip at {at}"),
            Err(error) => {
                assert!(matches!(&error, Error::Corrupt { file, .. } if *file == name), "a flip at {at}: {error:?}");
                assert!(before.iter().all(|file| disk.files().contains(file)), "a flip at {at}");
                tried += 1;
            }
        }
    }
    assert!(tried > 5, "{tried}");
}

/// The numbers of segments that a recovery removes are used again, by files whose names may not become durable.
#[test]
fn what_a_recovery_removed_does_not_come_back() {
    // The flush notes that the name of a segment that was begun ahead is durable, so that nobody syncs the folder for it.
    let steps = (0..9).map(|n| if n == 3 { CrashStep::Flush { handle: 0 } } else { commit(900 + n, Durability::None) });
    let (disk, run) = run(tiny(), steps);
    let (mut again, policies) = (0, [Policy::Sectors, Policy::Writes, Policy::Prefix, Policy::Lost]);
    for (step, seed) in (5..run.events.len()).flat_map(|step| (0..crash::step(20, 60)).map(move |seed| (step, seed))) {
        let disk = after(&disk, &run, step).reboot(seed, policies[seed as usize % 3]);
        let before = heads(&disk).len();
        let writer = open(&disk, false).unwrap();
        let removed = before - heads(&disk).len();
        let sample = |number: u64| Family::default().contents(1 << 30 | number, 900);
        for number in 0..12 {
            let mut batch = Batch::new();
            sample(number).put(&mut batch, &HashMap::new());
            writer.append(batch, &[], Durability::None).unwrap();
        }
        again += usize::from(removed > 0);
        for (cut, policy) in (0..6).flat_map(|cut| policies.map(|policy| (cut, policy))) {
            let disk = disk.reboot(cut * 1000 + seed, policy);
            let opened =
                open(&disk, false).unwrap_or_else(|error| panic!("step {step}, seed {seed}, cut {cut}: {error}"));
            assert_eq!(check(&opened), []);
            append(&opened, 1);
        }
    }
    assert!(again > crash::step(14, 40) as usize, "{again}");
}

/// A process dies between removing segments and the sync of their folder; the next one seals a segment of the same boot.
#[test]
fn what_a_recovery_that_was_cut_short_removed_does_not_come_back() {
    let steps = (0..9).map(|n| if n == 3 { CrashStep::Flush { handle: 0 } } else { commit(900 + n, Durability::None) });
    let (disk, run) = run(tiny(), steps);
    let policies = [Policy::Sectors, Policy::Writes, Policy::Prefix];
    let (mut came_back, mut cuts) = (0, 0);
    for (step, seed) in (5..run.events.len()).flat_map(|step| (0..crash::step(8, 20)).map(move |seed| (step, seed))) {
        let cut = after(&disk, &run, step).reboot(seed, policies[seed as usize % 3]);
        for call in 1.. {
            let disk = cut.fork();
            let process = disk.process();
            process.stop_after(call);
            let whole = DiskBackend::open(Arc::new(process.clone()), None, tiny(), false).is_ok();
            if whole || process.stopped().is_none() {
                break;
            }
            if heads(&disk).len() == heads(&cut).len() {
                continue;
            }
            let writer = open(&disk, false).unwrap();
            append(&writer, 1);
            disk.keep_moments();
            let from = disk.calls();
            for number in 2..6 {
                append(&writer, number);
                let fill = Family::default().contents(1 << 29 | number, 900);
                let mut batch = Batch::new();
                fill.put(&mut batch, &HashMap::new());
                writer.append(batch, &[], Durability::None).unwrap();
            }
            for moment in from..disk.calls() {
                let disk = disk.moment(moment).unwrap().reboot(moment, Policy::Lost);
                came_back += usize::from(heads(&disk).len() > heads(&cut).len());
                let opened = open(&disk, false)
                    .unwrap_or_else(|error| panic!("step {step}, seed {seed}, call {call}, moment {moment}: {error}"));
                assert!(opened.get_ref("added").unwrap().is_some() && check(&opened).is_empty());
                cuts += 1;
            }
        }
    }
    assert!(cuts > 1000, "{cuts}, {came_back}");
}
