//! Real processes share a store on real files; writers are killed at random. Nothing that was acknowledged is lost, no
//! compare-and-set succeeds twice, and readers never see half a commit or an older one than before.
//!
//! The test binary starts itself again in the role that an environment variable names. Each commit raises a counter
//! and moves two refs in one step, to two objects that hold the counter and the writer, and link to the commit
//! before. Writers report acknowledgements through a pipe, which outlives them.

use std::{
    collections::BTreeMap,
    io::{BufRead, BufReader, Write},
    path::Path,
    process::{Child, Command, Stdio},
    sync::{Arc, Mutex},
    thread::JoinHandle,
    time::Duration,
};

use bristlecone::{
    Backend, Batch, Durability, Error, Expected, Kind, Location, ObjRef, Object, Oid, RefMove, RefTarget, Roots, Sink,
    SweepLimits,
    disk::{DiskBackend, DiskOptions},
    engine::Header,
    fs::{FsBackend, FsOptions},
    storage::{RealStorage, Storage},
};
use bristlecone_testkit::{
    generate::Rng,
    sim::{Lie, Lying},
};

use crate::{churn, engine::format_tag};

/// Names the role of a process: `writer NUMBER DIR` or `reader NUMBER DIR`; a `lawless` writer knows no locks.
const ROLE: &str = "BRISTLECONE_TEST_ROLE";
/// Readers end once there is a file of this name beside the store.
const STOP: &str = "stop";
/// The refs that move together.
const REFS: [&str; 2] = ["count", "twin"];

fn options() -> DiskOptions {
    DiskOptions::default().segment_bytes(1 << 18)
}

fn open(dir: &Path, lie: Option<Lie>) -> Result<Arc<dyn Backend>, Error> {
    let storage: Arc<dyn Storage> = Arc::new(RealStorage::new(dir.join("store")));
    let storage = match lie {
        Some(lie) => Arc::new(Lying::new(storage, lie)),
        None => storage,
    };
    open_in(storage, false)
}

/// Opens a store by the backend that keeps it.
fn open_in(storage: Arc<dyn Storage>, read_only: bool) -> Result<Arc<dyn Backend>, Error> {
    Ok(match Header::backend_in(&*storage)?.as_deref() {
        Some("fs") => Arc::new(FsBackend::open(storage, FsOptions::default(), read_only)?),
        _ => Arc::new(DiskBackend::open(storage, None, options(), read_only)?),
    })
}

/// Makes a store of the disk engine and returns its folder.
fn create() -> tempfile::TempDir {
    create_with(|storage| drop(DiskBackend::create(storage, format_tag(), options()).unwrap()))
}

fn create_with(create: impl FnOnce(Arc<dyn Storage>)) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    create(Arc::new(RealStorage::new(dir.path().join("store"))));
    dir
}

/// What the objects of a commit say: the counter, the writer, and the object of the commit before.
struct Step {
    number: u64,
    writer: u64,
    before: Option<ObjRef>,
}

impl Step {
    fn encode(&self, part: u8) -> Vec<u8> {
        let mut body = self.number.to_le_bytes().to_vec();
        body.extend(self.writer.to_le_bytes());
        body.push(part);
        body.extend(self.before.map_or([0; 32], |at| *at.oid.padded()));
        // So much that commits of several pages are torn in the middle now and then.
        body.extend(Rng::new(self.number).bytes((self.number % 13 * 500) as usize));
        body
    }

    fn read(backend: &dyn Backend, at: &ObjRef, part: u8) -> Self {
        Self::find(backend, at, part).unwrap_or_else(|| panic!("{at:?} is missing"))
    }

    fn find(backend: &dyn Backend, at: &ObjRef, part: u8) -> Option<Self> {
        let object = backend.read(at).unwrap_or_else(|error| panic!("{at:?}: {error}"))?;
        let word = |at: usize| u64::from_le_bytes(object.body()[at..at + 8].try_into().expect("eight bytes"));
        let before: [u8; 32] = object.body()[17..49].try_into().expect("an id");
        let before = (before != [0; 32]).then(|| ObjRef::new(Oid::from_array(before), object.child(0)));
        let step = Self { number: word(0), writer: word(8), before };
        assert!(object.body() == step.encode(part), "{at:?} holds other bytes than were written");
        Some(step)
    }
}

/// Returns what the two refs lead to, having checked that they agree.
fn read_head(backend: &dyn Backend) -> Option<(Step, BTreeMap<String, RefTarget>)> {
    let mut refs = backend.list_refs("").expect("refs can be listed");
    loop {
        let at = |name: &str| match refs.get(name) {
            Some(RefTarget::Object(at)) => Some(*at),
            _ => None,
        };
        let (count, twin) = (at(REFS[0]), at(REFS[1]));
        assert_eq!(count.is_some(), twin.is_some(), "one ref without the other");
        let (count, twin) = (Step::read(backend, &count?, 0), Step::find(backend, &twin?, 1));
        let Some(twin) = twin else {
            // No snapshot holds it: the ref may have left it meanwhile, and a collection dropped it.
            let now = backend.list_refs("").expect("refs can be listed");
            assert_ne!(now, refs, "what a ref leads to is missing");
            refs = now;
            continue;
        };
        assert_eq!((count.number, count.writer), (twin.number, twin.writer), "the two refs are of different commits");
        return Some((count, refs));
    }
}

/// Tells the parent something; a line of a pipe arrives whole or not at all.
pub(crate) fn report(line: &str) {
    std::io::stderr().write_all(format!("{line}\n").as_bytes()).expect("the parent listens");
}

/// Drops what nothing leads to, unless another process does: of each two objects that are appended together, the twin is
/// garbage after the next commit.
fn collect(backend: &dyn Backend, partial: bool) {
    let children = |_: &Oid, object: &Object<'_>, each: &mut dyn FnMut(Oid)| {
        let before: [u8; 32] = object.body()[17..49].try_into().expect("an id");
        if before != [0; 32] {
            each(Oid::from_array(before));
        }
        Ok(())
    };
    let limits = SweepLimits::default().partial(partial);
    match backend.sweep(&Roots::new(&[], &children), &limits) {
        Ok(swept) => report(&format!("SWEPT {}", swept.objects)),
        Err(Error::Locked { .. }) => {}
        Err(error) => panic!("a collection fails: {error}"),
    }
}

/// Raises the counter until killed; `collects`: and drops garbage in between.
fn write_for_ever(writer: u64, dir: &Path, lie: Option<Lie>, collects: bool) {
    let backend = open(dir, lie).expect("the store opens");
    let mut rng = Rng::of_this_process();
    loop {
        if collects && rng.below(8) == 0 {
            collect(&*backend, rng.below(2) == 0);
        }
        let head = read_head(&*backend);
        let (number, before, refs) = match &head {
            Some((step, refs)) => (step.number + 1, Some(&refs[REFS[0]]), refs.clone()),
            None => (1, None, BTreeMap::new()),
        };
        let before = before.and_then(|target| match target {
            RefTarget::Object(at) => Some(*at),
            RefTarget::Symbolic(_) => None,
        });
        let step = Step { number, writer, before };
        let durability = *rng.pick(&[Durability::None, Durability::Grouped, Durability::Synced]);
        let mut batch = Batch::new();
        let moves = [0, 1].map(|part: u8| {
            let mut id = [0; 32];
            rng.fill(&mut id);
            let oid = Oid::from_array(id);
            let children = [before.map_or(Location::NONE, |at| at.at)];
            let at = batch.put(Kind::Commit, oid, &step.encode(part), &children, &[]);
            let name = REFS[usize::from(part)];
            let expected = refs.get(name).cloned().map_or(Expected::Absent, Expected::Is);
            RefMove { name: name.to_owned(), expected, to: Some(RefTarget::Object(ObjRef::new(oid, at))) }
        });
        match backend.append(batch, &moves, durability) {
            Ok(_) => report(&format!("ACK {number} {writer} {}", durability.name())),
            Err(Error::RefMoved { .. }) => {}
            Err(error) => panic!("a commit fails: {error}"),
        }
    }
}

/// Reads until told to stop; opens the store again now and then.
fn read_until_stopped(dir: &Path) {
    let mut last = 0;
    let mut rounds: u64 = 0;
    while !dir.join(STOP).exists() {
        let read_only = rounds % 2 == 1;
        let storage = Arc::new(RealStorage::new(dir.join("store")));
        let backend = open_in(storage, read_only).expect("the store opens");
        for _ in 0..200 {
            let Some((head, _)) = read_head(&*backend) else { continue };
            assert!(head.number >= last, "the counter went from {last} back to {}", head.number);
            last = head.number;
            let mut step = head;
            for _ in 0..5 {
                let Some(before) = step.before else { break };
                let earlier = Step::read(&*backend, &before, 0);
                assert_eq!(earlier.number + 1, step.number, "a gap in the history");
                step = earlier;
            }
        }
        rounds += 1;
    }
    report(&format!("READ {rounds} {last}"));
}

#[ignore = "the body of a child process, which other tests start"]
#[test]
fn role_of_a_child_process() {
    let role = std::env::var(ROLE).expect("another test starts this one");
    let mut words = role.splitn(3, ' ');
    let (kind, number, dir) = (words.next().unwrap(), words.next().unwrap(), words.next().unwrap());
    match kind {
        "writer" => write_for_ever(number.parse().unwrap(), Path::new(dir), None, false),
        "collector" => write_for_ever(number.parse().unwrap(), Path::new(dir), None, true),
        "lawless" => write_for_ever(number.parse().unwrap(), Path::new(dir), Some(Lie::Locks), false),
        "reader" => read_until_stopped(Path::new(dir)),
        "churner" => churn::write_for_ever(Path::new(dir)),
        "looker" => churn::read_for_ever(Path::new(dir)),
        other => panic!("no such role: {other}"),
    }
}

/// A child process, with all that it reported.
pub(crate) struct Process {
    child: Child,
    listener: JoinHandle<()>,
    killed: bool,
}

/// What the children reported.
pub(crate) type Lines = Arc<Mutex<Vec<String>>>;

pub(crate) fn start(kind: &str, number: u64, dir: &Path, lines: &Lines) -> Process {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "processes::role_of_a_child_process", "--ignored", "--nocapture", "--test-threads=1"])
        .env(ROLE, format!("{kind} {number} {}", dir.display()))
        .env("RUST_BACKTRACE", "0")
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let pipe = child.stderr.take().unwrap();
    let lines = lines.clone();
    let listener = std::thread::spawn(move || {
        for line in BufReader::new(pipe).lines() {
            lines.lock().unwrap().push(line.unwrap());
        }
    });
    Process { child, listener, killed: false }
}

impl Process {
    /// Kills the process as `kill -9` does, unless it ended by itself.
    pub(crate) fn kill(&mut self) {
        self.killed = self.child.try_wait().unwrap().is_none();
        self.child.kill().unwrap();
    }

    /// Waits for the end; returns whether it was as it should be.
    pub(crate) fn join(mut self) -> bool {
        let status = self.child.wait().unwrap();
        self.listener.join().unwrap();
        self.killed || status.success()
    }
}

/// How many processes work on a store, and how often a writer is killed and another started.
#[derive(Clone, Copy, Debug)]
struct Plan {
    role: &'static str,
    writers: u64,
    readers: u64,
    kills: usize,
}

/// Lets writers and readers work on one store.
fn kill_writers(dir: &Path, lines: &Lines, plan: Plan, rng: &mut Rng) {
    let Plan { role, writers, readers, kills } = plan;
    let _ = std::fs::remove_file(dir.join(STOP));
    let mut reading: Vec<Process> = (0..readers).map(|number| start("reader", number, dir, lines)).collect();
    let mut next = 1 + lines.lock().unwrap().len() as u64 * 100;
    let mut writing: Vec<Process> = Vec::new();
    let mut ended = Vec::new();
    for _ in 0..kills {
        while (writing.len() as u64) < writers {
            writing.push(start(role, next, dir, lines));
            next += 1;
        }
        std::thread::sleep(Duration::from_micros(8_000 + rng.below(40_000)));
        let mut victim = writing.swap_remove(rng.index(writing.len()));
        victim.kill();
        ended.push(victim);
    }
    for mut rest in writing {
        rest.kill();
        ended.push(rest);
    }
    let sound = ended.into_iter().map(Process::join).fold(true, |all, one| all & one);
    std::fs::write(dir.join(STOP), b"").unwrap();
    let sound = reading.drain(..).map(Process::join).fold(sound, |all, one| all & one);
    let said: Vec<String> = lines.lock().unwrap().iter().filter(|line| !is_report(line)).cloned().collect();
    assert!(sound && said.is_empty(), "a process failed:\n{}", said.join("\n"));
}

pub(crate) fn is_report(line: &str) -> bool {
    ["ACK ", "READ ", "SWEPT ", "BACK"].iter().any(|word| line.starts_with(word))
}

/// Checks that the whole history is there, made of what was acknowledged and at most steps that were under way.
fn check_history(dir: &Path, lines: &Lines) -> (u64, usize) {
    let mut acknowledged = BTreeMap::new();
    for line in lines.lock().unwrap().iter().filter_map(|line| line.strip_prefix("ACK ")) {
        let words: Vec<&str> = line.split(' ').collect();
        let (number, writer): (u64, u64) = (words[0].parse().unwrap(), words[1].parse().unwrap());
        let twice = acknowledged.insert(number, writer);
        assert_eq!(twice, None, "commit {number} was acknowledged to {twice:?} and to {writer}");
    }
    let backend = open(dir, None).unwrap();
    let (mut step, _) = read_head(&*backend).expect("there are commits");
    let last = step.number;
    let latest = acknowledged.keys().next_back().copied().unwrap_or(0);
    assert!(last >= latest, "commit {latest} was acknowledged; the store ends at {last}");
    loop {
        if let Some(writer) = acknowledged.get(&step.number) {
            assert_eq!(step.writer, *writer, "commit {} is of another writer than was told", step.number);
        }
        let Some(before) = step.before else { break };
        let earlier = Step::read(&*backend, &before, 0);
        assert_eq!(earlier.number + 1, step.number);
        step = earlier;
    }
    assert_eq!(step.number, 1, "the history does not reach back to its beginning");
    let mut damages = Vec::new();
    backend.each_object(&mut |_, _| Ok(()), &mut |damage| damages.push(damage)).unwrap();
    if backend.name() == "disk" {
        let storage = Arc::new(RealStorage::new(dir.join("store")));
        let disk = DiskBackend::open(storage, None, options(), false).unwrap();
        disk.check(&mut |damage| damages.push(damage)).unwrap();
    }
    assert!(damages.is_empty(), "{damages:?}");
    (last, acknowledged.len())
}

#[test]
fn killed_writers_lose_nothing_and_readers_see_whole_commits() {
    let dir = create();
    let lines = Lines::default();
    let mut rng = Rng::of_this_process();
    for (writers, readers, kills) in [(1, 1, 40), (2, 2, 50), (4, 4, 60), (4, 1, 30), (1, 4, 20)] {
        let plan = Plan { role: "writer", writers, readers, kills };
        kill_writers(dir.path(), &lines, plan, &mut rng);
        let (commits, acknowledged) = check_history(dir.path(), &lines);
        println!("{plan:?}: {commits} commits, {acknowledged} acknowledged");
    }
}

#[test]
fn killed_collectors_lose_nothing_and_readers_see_whole_commits() {
    let dir = create();
    let lines = Lines::default();
    let mut rng = Rng::of_this_process();
    let swept = || lines.lock().unwrap().iter().filter(|line| line.starts_with("SWEPT ")).count();
    let plans = [(1, 1, 60), (2, 2, 60), (3, 2, 50), (2, 4, 30)];
    // On a busy machine few come to their end before they are killed.
    for (round, (writers, readers, kills)) in plans.into_iter().cycle().take(80).enumerate() {
        if round >= plans.len() && swept() > 20 {
            break;
        }
        let plan = Plan { role: "collector", writers, readers, kills };
        kill_writers(dir.path(), &lines, plan, &mut rng);
        let (commits, acknowledged) = check_history(dir.path(), &lines);
        println!("{plan:?}: {commits} commits, {acknowledged} acknowledged, {} collections", swept());
    }
    assert!(swept() > 20, "only {} collections", swept());
    // What was garbage is gone, and so are the files that held it.
    let backend = open(dir.path(), None).unwrap();
    collect(&*backend, false);
    let (head, _) = read_head(&*backend).unwrap();
    let mut objects = 0;
    let mut count = |_: Oid, _: &Object<'_>| -> Result<(), Error> {
        objects += 1;
        Ok(())
    };
    backend.each_object(&mut count, &mut |damage| panic!("{damage:?}")).unwrap();
    assert_eq!(objects, head.number + 1, "one for each commit, and the last twin");
    let names = std::fs::read_dir(dir.path().join("store/segments")).unwrap().map(|name| name.unwrap().file_name());
    let logs = names.filter(|name| name.to_str().is_some_and(|name| name.ends_with(".seg"))).count();
    assert!(logs <= 2, "{logs} segments of the log are left");
}

#[test]
fn killed_writers_of_files_lose_nothing_and_readers_see_whole_commits() {
    let dir = create_with(|storage| {
        drop(FsBackend::create(storage, format_tag(), FsOptions::default()).unwrap());
    });
    let lines = Lines::default();
    let mut rng = Rng::of_this_process();
    for (writers, readers, kills) in [(1, 1, 70), (2, 2, 70), (4, 1, 60)] {
        let plan = Plan { role: "writer", writers, readers, kills };
        kill_writers(dir.path(), &lines, plan, &mut rng);
        let (commits, acknowledged) = check_history(dir.path(), &lines);
        println!("{plan:?}: {commits} commits, {acknowledged} acknowledged");
    }
}

#[test]
fn the_suite_catches_writers_without_locks() {
    let caught = std::panic::catch_unwind(|| {
        let (dir, lines) = (create(), Lines::default());
        let plan = Plan { role: "lawless", writers: 4, readers: 1, kills: 12 };
        kill_writers(dir.path(), &lines, plan, &mut Rng::new(1));
        check_history(dir.path(), &lines);
    });
    assert!(caught.is_err(), "processes that know no locks go unnoticed");
}
