//! Every file and folder of a store is missing, empty, a link, a pipe or a folder in turn; and a store is copied file
//! by file while a writer commits. Whatever is opened is right or names what is wrong, and within a time limit; nothing
//! outside the store is written, and nothing acknowledged is silently gone.

use std::{
    collections::BTreeMap,
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
        mpsc,
    },
    time::Duration,
};

use bristlecone::{
    Backend, Batch, Durability, Error, Expected, Kind, Location, ObjRef, Oid, RefMove, RefTarget, Sink,
    disk::{DiskBackend, DiskOptions},
    storage::RealStorage,
};
use bristlecone_testkit::{
    crash::{CrashRun, CrashStep, RefValues, Workload},
    generate::Rng,
    sim::SimStorage,
};

use crate::engine::{DiskEngine, format_tag, tiny, tiny_with_maps};

/// No opening, check or commit takes longer, on however busy a machine.
const LIMIT: Duration = Duration::from_secs(30);

/// A store of some segments with indexes and a derived file.
fn sample_store() -> (SimStorage, CrashRun) {
    let commit = |bytes: usize| CrashStep::Commit {
        handle: 0,
        refs: vec!["main".to_owned()],
        sizes: vec![bytes, 20],
        durability: Durability::Synced,
    };
    let mut steps: Vec<CrashStep> = [10, 900, 1500, 2000, 300, 700].map(commit).into();
    steps.push(CrashStep::Derived { handle: 0, name: "history", bytes: 40 });
    let disk = SimStorage::new();
    let run = CrashRun::of(&DiskEngine::new(tiny()), disk.clone(), &Workload { name: "files", steps }).unwrap();
    // A lookup of an absent object makes every index.
    let backend = DiskBackend::open(Arc::new(disk.clone()), None, tiny(), false).unwrap();
    assert!(backend.read(&Oid::from_array([0xee; 32]).into()).unwrap().is_none());
    drop(backend);
    (disk, run)
}

/// Puts a simulated store on real files.
fn pour(disk: &SimStorage, dir: &Path) {
    for (name, _) in disk.files() {
        let path = dir.join(&name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, disk.contents(&name).unwrap()).unwrap();
    }
}

/// What a file or folder of the store has become.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Missing,
    /// A file without bytes, or a folder without names.
    Empty,
    /// A link to what it was, which lies elsewhere.
    Moved,
    /// A link to something of the user's.
    Elsewhere,
    /// A link to nothing.
    Dangling,
    Pipe,
    /// A folder in place of a file, a file in place of a folder.
    Other,
}

const FATES: [Fate; 7] =
    [Fate::Missing, Fate::Empty, Fate::Moved, Fate::Elsewhere, Fate::Dangling, Fate::Pipe, Fate::Other];

/// Does it to `path`; `outside` is a folder of the user's.
fn strike(path: &Path, fate: Fate, outside: &Path) {
    let was_dir = path.is_dir();
    let moved = outside.join("moved");
    fs::rename(path, &moved).unwrap();
    match fate {
        Fate::Moved => return symlink(&moved, path).unwrap(),
        Fate::Elsewhere => {
            symlink(outside.join(if was_dir { "folder" } else { "file" }), path).unwrap();
        }
        Fate::Missing => {}
        Fate::Empty | Fate::Other => {
            if was_dir == (fate == Fate::Empty) {
                fs::create_dir(path).unwrap();
            } else {
                fs::write(path, b"").unwrap();
            }
        }
        Fate::Dangling => symlink(outside.join("nothing"), path).unwrap(),
        Fate::Pipe => {
            let made = std::process::Command::new("mkfifo").arg(path).status().unwrap();
            assert!(made.success());
        }
    }
    if was_dir { fs::remove_dir_all(&moved).unwrap() } else { fs::remove_file(&moved).unwrap() }
}

/// Returns the names below a folder, and what files hold.
fn snapshot(dir: &Path) -> BTreeMap<PathBuf, Option<Vec<u8>>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(snapshot(&path));
        }
        let bytes = path.is_file().then(|| fs::read(&path).unwrap());
        found.insert(path, bytes);
    }
    found
}

/// What became of an opening, of reading everything, of a check and of a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Seen {
    /// Everything is there, and no damage is told.
    Whole,
    /// It opens, and something that is missing is told of by name.
    Told,
    /// An error names the file.
    Refused,
}

struct Judge {
    run: CrashRun,
    last: RefValues,
}

impl Judge {
    /// Opens the store in `dir`, of which the file `name` was struck; an error is a breach of contract.
    fn look(&self, dir: &Path, name: &str, read_only: bool, options: &DiskOptions) -> Result<Seen, String> {
        let word = name.rsplit('/').next().expect("a name");
        let named = |error: &Error| match error.to_string() {
            text if text.contains(word) => Ok(()),
            text => Err(format!("the error does not name the file: {text}")),
        };
        let storage = Arc::new(RealStorage::new(dir));
        let backend = match DiskBackend::open(storage.clone(), None, options.clone(), read_only) {
            Ok(backend) => backend,
            Err(error) => return named(&error).map(|()| Seen::Refused),
        };
        let mut missing = backend.list_refs("").map_err(|error| error.to_string())? != self.last;
        for sample in self.run.events.iter().flat_map(|event| &event.samples) {
            match backend.read(&sample.oid.into()) {
                Ok(Some(object)) => sample.mismatch(&object).map_or(Ok(()), Err)?,
                Ok(None) => missing = true,
                Err(error) => named(&error).map(|()| missing = true)?,
            }
        }
        match backend.read_derived("history") {
            Ok(found) => assert!(found.is_none_or(|found| self.run.derived["history"].contains(&found))),
            Err(error) => named(&error)?,
        }
        let mut damages = Vec::new();
        match backend.check(&mut |damage| damages.push(damage)) {
            Ok(_) => {}
            Err(error) => return named(&error).map(|()| Seen::Refused),
        }
        let told = damages.iter().any(|damage| damage.file.contains(word));
        if missing && !told {
            return Err(format!("what was acknowledged is gone, and the check says {damages:?}"));
        }
        if !read_only {
            let to = Some(RefTarget::Symbolic("main".to_owned()));
            let wanted = RefMove { name: "after".to_owned(), expected: Expected::Any, to };
            if let Err(error) = backend.append(Batch::new(), &[wanted], Durability::Synced) {
                return named(&error).map(|()| Seen::Refused);
            }
            drop(backend);
            let again = DiskBackend::open(storage, None, options.clone(), true).map_err(|error| error.to_string())?;
            let mut state = again.list_refs("").map_err(|error| error.to_string())?;
            if state.remove("after").is_none() || !missing && state != self.last {
                return Err(format!("after a commit the refs are {state:?}"));
            }
        }
        Ok(if damages.is_empty() { Seen::Whole } else { Seen::Told })
    }
}

/// Returns what may be seen, reading and writing, of a store of which `name` was struck.
fn wanted(name: &str, last_segment: &str, fate: Fate) -> (&'static [Seen], &'static [Seen]) {
    use Seen::{Refused, Told, Whole};
    let plain = matches!(fate, Fate::Missing | Fate::Empty);
    match name {
        // A folder that lies elsewhere may be followed there.
        "segments" if fate == Fate::Moved => (&[Whole, Refused], &[Whole, Refused]),
        "store" | "segments" => (&[Refused], &[Refused]),
        "lock" | "segments/store.copy" | "segments/durable" if plain => (&[Whole], &[Whole]),
        "lock" | "segments/store.copy" | "segments/durable" => (&[Whole], &[Whole, Refused]),
        // Without a head it may be one that a power cut took.
        _ if name == last_segment && plain => (&[Told], &[Refused]),
        _ if name == last_segment => (&[Refused], &[Refused]),
        _ if name.ends_with(".seg") && plain => (&[Told], &[Told]),
        // What cannot be read at all ends the check, which names it.
        _ if name.ends_with(".seg") => (&[Told, Refused], &[Told, Refused]),
        // Indexes and derived files can be made again, and no lookup needs them.
        _ => (&[Whole], &[Whole]),
    }
}

/// Runs `work` on a thread of its own; `None` if it does not end in time.
fn in_time<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    let (done, wait) = mpsc::channel();
    std::thread::spawn(move || done.send(work()));
    wait.recv_timeout(LIMIT).ok()
}

#[test]
fn every_file_missing_empty_a_link_a_pipe_or_a_folder_is_survived_or_named() {
    let (disk, run) = sample_store();
    let last = run.events.last().expect("commits").state.clone();
    let judge = Arc::new(Judge { run, last });
    let mut names: Vec<String> = disk.files().into_iter().map(|(name, _)| name).collect();
    let last_segment = names.iter().rfind(|name| name.ends_with(".seg")).unwrap().clone();
    assert!(names.iter().any(|name| name.starts_with("segments/00000001.") && !name.ends_with(".seg")), "{names:?}");
    names.extend(["segments", "derived"].map(str::to_owned));
    let (mut breaches, mut tried) = (Vec::new(), 0);
    for (round, (name, fate)) in names.iter().flat_map(|name| FATES.map(|fate| (name, fate))).enumerate() {
        // Both ways of reading in turn.
        let options = if round % 2 == 0 { tiny() } else { tiny_with_maps() }.lock_wait_ms(200);
        let (reading, writing) = wanted(name, &last_segment, fate);
        for (read_only, wanted) in [(true, reading), (false, writing)] {
            let outer = tempfile::tempdir().unwrap();
            let (dir, outside) = (outer.path().join("place"), outer.path().join("outside"));
            pour(&disk, &dir);
            fs::create_dir_all(outside.join("folder")).unwrap();
            fs::write(outside.join("file"), "mine").unwrap();
            strike(&dir.join(name), fate, &outside);
            let before = snapshot(&outside);
            let (judge, options, struck) = (judge.clone(), options.clone(), name.clone());
            let seen = in_time(move || judge.look(&dir, &struck, read_only, &options));
            let what = format!("{name} {fate:?}, read only {read_only}");
            match seen {
                None => breaches.push(format!("{what}: no end after {LIMIT:?}, or a panic")),
                Some(Err(wrong)) => breaches.push(format!("{what}: {wrong}")),
                Some(Ok(seen)) if !wanted.contains(&seen) => breaches.push(format!("{what}: {seen:?}, not {wanted:?}")),
                // A segments folder that was followed to where it lies is written there, as it should be.
                Some(Ok(Seen::Whole)) if fate == Fate::Moved && ["segments", "derived"].contains(&&**name) => {}
                Some(Ok(_)) if snapshot(&outside) != before => breaches.push(format!("{what}: writes outside")),
                Some(Ok(_)) => {}
            }
            tried += 1;
        }
    }
    println!("{tried} stores, {} breaches", breaches.len());
    assert!(breaches.is_empty(), "{} of {tried}:\n{}", breaches.len(), breaches.join("\n"));
}

/// The object of commit `number`: its refs are `one` and `two`, its child the commit before.
fn oid(number: u64) -> Oid {
    Oid::from_array(Rng::new(number ^ 0x636f_7079).bytes(32).try_into().expect("32 bytes"))
}

fn body(number: u64) -> Vec<u8> {
    Rng::new(number).bytes(8 + (number % 17 * 170) as usize)
}

/// Commits until told to stop, so slowly that copies of the store stay small.
fn write_until(dir: &Path, options: DiskOptions, stop: &AtomicBool) -> u64 {
    let backend = DiskBackend::open(Arc::new(RealStorage::new(dir)), None, options, false).unwrap();
    let (mut number, mut before) = (0, Location::NONE);
    while !stop.load(Relaxed) {
        std::thread::sleep(Duration::from_micros(300));
        number += 1;
        let mut batch = Batch::new();
        let at = batch.put(Kind::Commit, oid(number), &body(number), &[before], &[number]);
        let to = Some(RefTarget::Object(ObjRef::new(oid(number), at)));
        let moves =
            ["one", "two"].map(|name| RefMove { name: name.to_owned(), expected: Expected::Any, to: to.clone() });
        let durability = [Durability::None, Durability::Grouped, Durability::Synced][number as usize % 3];
        before = at.resolve(backend.append(batch, &moves, durability).unwrap());
        if number % 64 == 0 {
            // A lookup of an absent object makes the indexes.
            backend.read(&oid(0).into()).unwrap();
        }
    }
    number
}

/// Reads all of a copy; returns the commit that it ends with, or `None` if damage is named. An error is a breach.
fn read_copy(dir: &Path, options: &DiskOptions, read_only: bool) -> Result<Option<u64>, String> {
    let named = |error: &Error| match error {
        Error::Corrupt { .. } | Error::Lost { .. } | Error::NoStore { .. } | Error::Incompatible { .. } => Ok(None),
        error => Err(format!("not an error of damage: {error}")),
    };
    let backend = match DiskBackend::open(Arc::new(RealStorage::new(dir)), None, options.clone(), read_only) {
        Ok(backend) => backend,
        Err(error) => return named(&error),
    };
    let refs = backend.list_refs("").map_err(|error| error.to_string())?;
    if refs.is_empty() {
        return Ok(Some(0));
    }
    let (Some(RefTarget::Object(one)), Some(RefTarget::Object(two))) = (refs.get("one"), refs.get("two")) else {
        return Err(format!("one ref without the other: {refs:?}"));
    };
    if one != two {
        return Err(format!("the refs are of two commits: {refs:?}"));
    }
    let (mut at, mut number, mut last, mut missing) = (*one, None, 0, false);
    while number != Some(0) {
        match backend.read(&at) {
            Ok(Some(object)) => {
                let found = object.metadata_word(0).ok_or("an object without its number")?;
                if number.is_some_and(|number| number != found) || at.oid != oid(found) || object.body() != body(found)
                {
                    return Err(format!("commit {found} where {number:?} should be, or with other bytes"));
                }
                last = last.max(found);
                number = Some(found - 1);
                at = ObjRef::new(oid(found - 1), object.child(0));
            }
            Ok(None) => {
                missing = true;
                break;
            }
            Err(error) => {
                named(&error)?;
                missing = true;
                break;
            }
        }
    }
    let mut damages = 0;
    match backend.check(&mut |_| damages += 1) {
        Ok(_) if missing && damages == 0 => Err("an object is missing, and the check finds no damage".to_owned()),
        Ok(_) => Ok((damages == 0).then_some(last)),
        Err(error) => named(&error),
    }
}

fn copy_folder(from: &Path, to: &Path, rng: &mut Rng) {
    fs::create_dir_all(to).unwrap();
    let mut entries: Vec<PathBuf> = fs::read_dir(from).unwrap().map(|entry| entry.unwrap().path()).collect();
    // In an order of its own each time.
    for index in (1..entries.len()).rev() {
        entries.swap(index, rng.index(index + 1));
    }
    for path in entries {
        let target = to.join(path.file_name().unwrap());
        if path.is_dir() {
            copy_folder(&path, &target, rng);
        } else if let Err(error) = fs::copy(&path, &target) {
            // What was renamed or removed meanwhile is not in the copy.
            assert_eq!(error.kind(), std::io::ErrorKind::NotFound, "{}: {error}", path.display());
        }
    }
}

#[test]
fn a_folder_copied_while_it_is_written_is_some_state_or_names_its_damage() {
    let options = DiskOptions::default().segment_bytes(1 << 15).grouped_ms(1);
    let outer = tempfile::tempdir().unwrap();
    let dir = outer.path().join("place");
    drop(DiskBackend::create(Arc::new(RealStorage::new(&dir)), format_tag(), options.clone()).unwrap());
    let stop = AtomicBool::new(false);
    let mut rng = Rng::of_this_process();
    let (mut sound, mut damaged, mut copies) = (0, 0, Vec::new());
    let written = std::thread::scope(|scope| {
        let writer = scope.spawn(|| write_until(&dir, options.clone(), &stop));
        for number in 0..30 {
            std::thread::sleep(Duration::from_millis(rng.below(8)));
            let copy = outer.path().join(format!("copy-{number}"));
            copy_folder(&dir, &copy, &mut rng);
            copies.push(copy);
        }
        stop.store(true, Relaxed);
        writer.join().unwrap()
    });
    for (number, copy) in copies.into_iter().enumerate() {
        // Reading only first: writing may make whole what is not.
        for read_only in [true, false] {
            let options = options.clone().maps(number % 2 == 0);
            let path = copy.clone();
            let seen = in_time(move || read_copy(&path, &options, read_only));
            match seen.unwrap_or_else(|| panic!("copy {number} is read for ever, or a panic")) {
                Ok(Some(last)) => {
                    assert!(last <= written, "copy {number} holds commit {last} of {written}");
                    sound += 1;
                }
                Ok(None) => damaged += 1,
                Err(wrong) => panic!("copy {number} (read only {read_only}): {wrong}"),
            }
        }
    }
    println!("{written} commits; openings of copies: {sound} sound, {damaged} damaged");
    assert!(written > 10 && sound > 0);
}
