//! Child processes: the test binary starts itself again in the role that an environment variable names.
//!
//! A counter is what they work on: each commit raises it and moves two refs in one step, to objects that hold it.

use std::{
    io::{BufRead, BufReader, Write},
    path::Path,
    process::{Child, Command, ExitStatus, Stdio},
    thread::JoinHandle,
};

use bristlecone::{Backend, Batch, Durability, Error, Expected, Kind, ObjRef, Oid, RefMove, RefTarget, Sink};
use bristlecone_testkit::generate::Rng;

/// `ROLE DIR`.
const ROLE: &str = "BRISTLECONE_TEST_ROLE";
/// What a line begins with that a child means for its parent.
const SAYS: &str = "SAYS ";
const REFS: [&str; 2] = ["count", "twin"];

/// Tells the parent something.
pub(super) fn say(line: &str) {
    // In one call: a child that is killed has said the whole of it or nothing.
    std::io::stderr().write_all(format!("{SAYS}{line}\n").as_bytes()).expect("the parent listens");
}

#[ignore = "the body of a child process, which other tests start"]
#[test]
fn role_of_a_child_process() {
    let role = std::env::var(ROLE).expect("another test starts this one");
    let (role, dir) = role.split_once(' ').unwrap();
    let dir = Path::new(dir);
    match role {
        "count" => super::processes::count_for_ever(dir),
        "count-to" => super::processes::count_some(dir),
        "hold" => super::processes::hold_open(dir),
        "large" => super::processes::append_much(dir),
        "fork" => super::processes::fork(dir),
        "little-space" => super::growth::fill_the_address_space(dir),
        "full" => super::growth::fill_the_disk(dir),
        "no-rights" => super::bad_input::read_without_rights(dir),
        "flips" => super::bad_input::read_flipped(dir),
        other => panic!("no such role: {other}"),
    }
}

/// A child process, with what it says.
pub(super) struct Process {
    pub(super) child: Child,
    listener: JoinHandle<Vec<String>>,
}

pub(super) fn start(role: &str, dir: &Path) -> Process {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "backend::children::role_of_a_child_process", "--ignored", "--nocapture", "--test-threads=1"])
        .env(ROLE, format!("{role} {}", dir.display()))
        .env("RUST_BACKTRACE", "0")
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let pipe = child.stderr.take().unwrap();
    let listener = std::thread::spawn(move || BufReader::new(pipe).lines().map_while(Result::ok).collect());
    Process { child, listener }
}

impl Process {
    /// Waits for the end; returns how it ended, what the child said, and what else it wrote.
    pub(super) fn join(mut self) -> (ExitStatus, Vec<String>, Vec<String>) {
        drop(self.child.stdin.take());
        let status = self.child.wait().unwrap();
        let (said, rest): (Vec<_>, Vec<_>) =
            self.listener.join().unwrap().into_iter().partition(|line| line.starts_with(SAYS));
        (status, said.into_iter().map(|line| line[SAYS.len()..].to_owned()).collect(), rest)
    }

    /// Waits for the end, which is to be a good one, and returns what the child said.
    pub(super) fn succeed(self) -> Vec<String> {
        let (status, said, rest) = self.join();
        assert!(status.success(), "{status}:\n{}", rest.join("\n"));
        said
    }
}

fn oid(number: u64, part: u64) -> Oid {
    Oid::new(&Rng::stream(number, part).bytes(32)).unwrap()
}

fn body(number: u64, part: u64) -> Vec<u8> {
    let mut body = number.to_le_bytes().to_vec();
    // Large enough now and then for pages of its own.
    body.extend(Rng::stream(number, part + 9).bytes((number % 13 * 500) as usize));
    body
}

/// Returns the counter, having read both objects of its commit, and those of the `depth` commits before.
pub(super) fn read_count(backend: &dyn Backend, depth: u64) -> u64 {
    let refs = backend.list_refs("").unwrap();
    let number = match refs.get(REFS[0]) {
        None => 0,
        Some(RefTarget::Object(at)) => {
            let object = backend.read(at).unwrap().expect("what a ref names is there");
            u64::from_le_bytes(object.body()[..8].try_into().unwrap())
        }
        other => panic!("{other:?}"),
    };
    for (name, part) in REFS.into_iter().zip(0..) {
        let wanted = (number > 0).then(|| RefTarget::Object(oid(number, part).into()));
        assert_eq!(refs.get(name), wanted.as_ref(), "the refs are of different commits");
    }
    for number in number.saturating_sub(depth).max(1)..=number {
        for part in 0..2 {
            let object = backend.read(&oid(number, part).into()).unwrap();
            let object = object.unwrap_or_else(|| panic!("an object of commit {number} is missing"));
            assert!(object.body() == body(number, part), "an object of commit {number} has other bytes");
        }
    }
    number
}

/// Raises the counter by one, if no other writer does so first; returns the new one.
pub(super) fn raise_count(backend: &dyn Backend, from: u64, durability: Durability) -> Result<u64, Error> {
    let number = from + 1;
    let mut batch = Batch::new();
    let moves = [0, 1].map(|part| {
        let at = batch.put(Kind::Commit, oid(number, part), &body(number, part), &[], &[]);
        let held = RefTarget::Object(oid(from, part).into());
        let expected = if from == 0 { Expected::Absent } else { Expected::Is(held) };
        let to = Some(RefTarget::Object(ObjRef::new(oid(number, part), at)));
        RefMove { name: REFS[part as usize].to_owned(), expected, to }
    });
    backend.append(batch, &moves, durability).map(|_| number)
}
