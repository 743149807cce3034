//! Every bit of a small store's files is flipped, and every file is cut at every length: never a panic, never a
//! wrong answer, and what is damaged is named.
//!
//! A flip within the very last append may look like an append that a crash cut short; `check` reports it.
//! Flips in padding are no damage, and derived files repair themselves.

use std::{
    collections::HashMap,
    num::NonZero,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
};

use bristlecone::{
    Backend, Damage, Durability, Error, Location, ObjRef, Object, Oid, RefTarget,
    disk::{CheckSummary, DiskBackend, DiskOptions, ObjectPart},
};
use bristlecone_testkit::{
    crash::{CrashRun, CrashStep, RefValues, Workload, step},
    sim::SimStorage,
};

use crate::engine::{DiskEngine, tiny, tiny_as_shipped};

/// How a store is made and opened.
#[derive(Clone, Debug)]
struct Variant {
    /// With what is read through calls, or as what ships.
    options: DiskOptions,
    /// Whether the sealed segments have indexes.
    indexed: bool,
    /// Of the damages each so-many-th is tried; prime to whatever their numbers count in.
    stride: usize,
}

fn variants(strides: [usize; 3]) -> [Variant; 3] {
    let [first, second, third] = strides;
    [
        Variant { options: tiny(), indexed: false, stride: first },
        Variant { options: tiny(), indexed: true, stride: second },
        Variant { options: tiny_as_shipped(), indexed: true, stride: third },
    ]
}

/// A store with three segments, closed in an orderly way. `indexed`: its sealed segments have indexes.
fn small_store(indexed: bool) -> (SimStorage, CrashRun) {
    let commit = |name: &str, sizes: &[usize]| CrashStep::Commit {
        handle: 0,
        refs: vec![name.to_owned()],
        sizes: sizes.to_vec(),
        durability: Durability::Synced,
    };
    let steps = vec![
        commit("main", &[10, 100]),
        commit("main", &[700]),
        commit("side", &[1500]),
        commit("main", &[1200]),
        commit("main", &[900, 20]),
        commit("side", &[1300]),
        commit("main", &[30]),
        CrashStep::Derived { handle: 0, name: "history", bytes: 40 },
    ];
    let disk = SimStorage::new();
    let workload = Workload { name: "small store", steps };
    let run = CrashRun::of(&DiskEngine::new(tiny()), disk.clone(), &workload).unwrap();
    if indexed {
        // A lookup of an absent object has them made.
        let backend = DiskBackend::open(Arc::new(disk.clone()), None, tiny(), false).unwrap();
        assert!(backend.read(&Oid::from_array([7; 32]).into()).unwrap().is_none());
    }
    let indexes = disk.files().iter().filter(|(name, _)| name.ends_with(".ids")).count();
    assert_eq!(indexes, if indexed { 2 } else { 0 });
    (disk, run)
}

/// What was seen of a damaged store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Seen {
    /// Everything is as it was, and nothing is reported.
    Sound,
    /// Everything is as it was, and damage is reported.
    Reported,
    /// Something is an error, and the damage is reported or the store does not open.
    Refused,
    /// The last append reads as one that a crash cut short.
    Tail,
}

struct Judge {
    options: DiskOptions,
    run: CrashRun,
    last: RefValues,
    before: RefValues,
}

impl Judge {
    fn new(options: DiskOptions, run: CrashRun) -> Self {
        let last = run.events.last().expect("commits").state.clone();
        let before = run.events.iter().rev().find(|event| event.state != last).expect("commits").state.clone();
        Self { options, run, last, before }
    }

    /// Opens a damaged store, reads all there is, and says what it amounts to; an error is a breach of contract.
    fn judge(&self, disk: &SimStorage, read_only: bool) -> Result<Seen, String> {
        match catch_unwind(AssertUnwindSafe(|| self.look(disk, read_only))) {
            Ok(seen) => seen,
            Err(_) => Err("panic".to_owned()),
        }
    }

    fn look(&self, disk: &SimStorage, read_only: bool) -> Result<Seen, String> {
        let backend = match DiskBackend::open(Arc::new(disk.clone()), None, self.options.clone(), read_only) {
            Ok(backend) => backend,
            Err(error) => return is_named(&error).map(|()| Seen::Refused),
        };
        let mut refused = false;
        let state = match backend.list_refs("") {
            Ok(state) => state,
            Err(error) => {
                is_named(&error)?;
                refused = true;
                self.last.clone()
            }
        };
        if state != self.last && state != self.before {
            return Err(format!("the refs are neither the last nor those before: {state:?}"));
        }
        refused |= self.read_all(&backend, &state)?;
        let (checked, damages) = check(&backend)?;
        let reported = match &checked {
            Ok(summary) => !damages.is_empty() || summary.torn_tail.is_some(),
            Err(error) => is_named(error).map(|()| true)?,
        };
        if damages.iter().any(|damage| damage.file.is_empty() || damage.reason.is_empty()) {
            return Err(format!("damage without a name: {damages:?}"));
        }
        match (state == self.last, refused, reported) {
            (_, true, false) => Err("a read fails and the check reports nothing".to_owned()),
            (_, true, true) => Ok(Seen::Refused),
            (true, false, true) => Ok(Seen::Reported),
            (true, false, false) => Ok(Seen::Sound),
            // Opened for writing, the tail is cut off and no more to be seen.
            (false, false, false) if read_only => {
                Err("the last append is gone and the check reports nothing".to_owned())
            }
            (false, false, _) => Ok(Seen::Tail),
        }
    }

    /// Reads every object by hint and by id, and the walk over all; returns whether something was refused.
    fn read_all(&self, backend: &DiskBackend, state: &RefValues) -> Result<bool, String> {
        let mut refused = false;
        let mut queue: Vec<ObjRef> = state
            .values()
            .filter_map(|target| match target {
                RefTarget::Object(at) => Some(*at),
                RefTarget::Symbolic(_) => None,
            })
            .collect();
        let mut seen = std::collections::HashSet::new();
        while let Some(at) = queue.pop() {
            if !seen.insert(at.oid) {
                continue;
            }
            let sample = self.run.samples.get(&at.oid).ok_or("a reference to what was never written")?;
            for at in [at, at.oid.into()] {
                match backend.read(&at) {
                    Ok(Some(object)) => {
                        if let Some(wrong) = sample.mismatch(&object) {
                            return Err(wrong);
                        }
                        queue.extend(
                            sample.children.iter().enumerate().map(|(n, c)| ObjRef::new(c.oid, object.child(n))),
                        );
                    }
                    Ok(None) => return Err(format!("{at:?} is led to by refs and answered as absent")),
                    Err(error) => {
                        is_named(&error)?;
                        refused = true;
                    }
                }
            }
        }
        let (mut wrong, mut met, mut damages) = (None, Vec::new(), Vec::new());
        let walked = backend.each_object(
            &mut |oid, object| {
                met.push(object.location());
                match self.run.samples.get(&oid) {
                    Some(sample) => wrong = wrong.take().or(sample.mismatch(object)),
                    None => wrong = Some(format!("the walk meets {oid}, which was never written")),
                }
                Ok(())
            },
            &mut |damage| damages.push(damage),
        );
        if walked.is_ok()
            && is_turn_of_threads()
            && walk_by_threads(backend).map_err(|error| error.to_string())? != (met, damages)
        {
            return Err("a walk by three threads meets something else".to_owned());
        }
        if let Err(error) = walked {
            is_named(&error)?;
            refused = true;
        }
        wrong.map_or(Ok(refused), Err)
    }
}

/// An error on damaged files says which file.
fn is_named(error: &Error) -> Result<(), String> {
    let sound = match error {
        Error::Corrupt { file, .. }
        | Error::Lost { file, .. }
        | Error::Incompatible { file, .. }
        | Error::NoStore { file } => !file.is_empty(),
        _ => false,
    };
    if sound { Ok(()) } else { Err(format!("not an error of damage: {error:?}")) }
}

/// Tries damages on two threads and returns how often what was seen; fails on the first breaches.
fn try_all(
    variant: &Variant,
    count: impl Fn(&SimStorage) -> usize,
    damage: impl Fn(&SimStorage, usize) -> String + Sync,
) -> HashMap<Seen, u64> {
    let (disk, run) = small_store(variant.indexed);
    let (count, stride) = (count(&disk), variant.stride);
    let judge = Judge::new(variant.options.clone(), run);
    assert_eq!(judge.judge(&disk.fork(), false), Ok(Seen::Sound), "the store without damage");
    let next = AtomicUsize::new(0);
    let (tally, breaches) = (Mutex::new(HashMap::new()), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                loop {
                    let index = next.fetch_add(stride, Relaxed);
                    if index >= count || breaches.lock().unwrap().len() >= 5 {
                        return;
                    }
                    let copy = disk.fork();
                    let what = damage(&copy, index);
                    // For writing, every damage; for reading, some of them.
                    for read_only in [false, true].into_iter().take(1 + usize::from(index % 8 == 3)) {
                        match judge.judge(&copy.fork(), read_only) {
                            Ok(seen) => *tally.lock().unwrap().entry(seen).or_insert(0) += 1,
                            Err(wrong) => {
                                breaches.lock().unwrap().push(format!("{what} (read only: {read_only}): {wrong}"));
                            }
                        }
                    }
                }
            });
        }
    });
    let breaches = breaches.into_inner().unwrap();
    assert!(breaches.is_empty(), "{}", breaches.join("\n"));
    let tally = tally.into_inner().unwrap();
    let DiskOptions { maps, background, .. } = variant.options;
    println!("{} damages, maps {maps}, threads {background}: {tally:?}", count.div_ceil(stride));
    tally
}

/// Returns the file and offset of byte `index` of the store.
fn place(disk: &SimStorage, mut index: u64) -> (String, u64) {
    for (name, bytes) in disk.files() {
        if index < bytes {
            return (name, index);
        }
        index -= bytes;
    }
    panic!("the store has no such byte");
}

/// Checks a store on one thread, and every few times on three, which give the same report.
fn check(backend: &DiskBackend) -> Result<(Result<CheckSummary, Error>, Vec<Damage>), String> {
    let check_with = |threads| {
        let mut damages = Vec::new();
        let checked = backend.check_with(NonZero::new(threads).unwrap(), &mut |damage| damages.push(damage));
        (checked.as_ref().map_err(Error::to_string).cloned(), damages.clone(), (checked, damages))
    };
    let mut one = check_with(1);
    if !is_turn_of_threads() {
        return Ok(one.2);
    }
    // A thread may mend an index in between.
    for _ in 0..5 {
        let three = check_with(3);
        if (&one.0, &one.1) == (&three.0, &three.1) {
            return Ok(one.2);
        }
        one = check_with(1);
        if (&one.0, &one.1) == (&three.0, &three.1) {
            return Ok(one.2);
        }
    }
    Err(format!("three threads report something else than one: {one:?}"))
}

/// Whether a look at a store compares threads: starting them takes longer than the look.
fn is_turn_of_threads() -> bool {
    static LOOKS: AtomicUsize = AtomicUsize::new(0);
    LOOKS.fetch_add(1, Relaxed).is_multiple_of(15)
}

/// Returns the places of all objects, in the order of the parts, and what is damaged.
fn walk_by_threads(backend: &DiskBackend) -> Result<(Vec<Location>, Vec<Damage>), Error> {
    let (mut met, mut damages) = (Vec::new(), Vec::new());
    let walk_part = |part: &ObjectPart<'_>| {
        let (mut met, mut damages) = (Vec::new(), Vec::new());
        let mut each = |_, object: &Object<'_>| {
            met.push(object.location());
            Ok(())
        };
        part.each_object(&mut each, &mut |damage| damages.push(damage))?;
        Ok((met, damages))
    };
    backend.objects()?.each_part(NonZero::new(3).unwrap(), &walk_part, &mut |of_part: (Vec<_>, Vec<_>)| {
        met.extend(of_part.0);
        damages.extend(of_part.1);
        Ok(())
    })?;
    Ok((met, damages))
}

#[test]
fn any_flipped_bit_is_found_or_does_not_matter() {
    // With steps that are odd, every bit of a byte has its turn.
    for variant in variants([(15, 1), (35, 3), (55, 5)].map(|(short, long)| step(short, long) as usize)) {
        let tally = try_all(
            &variant,
            |disk| disk.bytes() as usize * 8,
            |disk, bit| {
                let (name, offset) = place(disk, bit as u64 / 8);
                disk.flip(&name, offset, 1 << (bit % 8));
                format!("bit {} of byte {offset} of {name} flipped", bit % 8)
            },
        );
        let least = step(500, 1000);
        assert!(tally[&Seen::Refused] > least && tally[&Seen::Sound] > least, "{tally:?}");
    }
}

#[test]
fn a_file_cut_at_any_length_is_found_or_does_not_matter() {
    for variant in variants([1, 3, 3]) {
        let tally = try_all(
            &variant,
            |disk| disk.bytes() as usize,
            |disk, index| {
                let (name, offset) = place(disk, index as u64);
                disk.cut_file(&name, offset);
                format!("{name} cut at {offset}")
            },
        );
        assert!(tally[&Seen::Refused] > 100, "{tally:?}");
    }
}

#[test]
fn a_torn_sector_is_found_or_does_not_matter() {
    for variant in variants([1, 1, 1]) {
        for fill in [0, 0xff] {
            try_all(
                &variant,
                |disk| disk.bytes() as usize / 512,
                |disk, sector| {
                    let (name, offset) = place(disk, sector as u64 * 512);
                    let end = disk.files().into_iter().find(|(file, _)| *file == name).map_or(0, |(_, bytes)| bytes);
                    let count = 512.min(end - offset) as usize;
                    disk.overwrite(&name, offset, &vec![fill; count]);
                    format!("{count} bytes of {fill:#x} at {offset} of {name}")
                },
            );
        }
    }
}
