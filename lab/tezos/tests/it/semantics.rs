//! What each row does, on traces made here; and traces that contradict themselves.

use bristlecone::{CommitId, Oid, Repo};
use bristlecone_tezos::{
    CommitHash, ContextId, HashesBuf, KeyBuf, Reader, Row, Scoped, Writer,
    replay::{Fault, Place, Replay, ReplayError, ReplayOptions, Report},
};

/// A trace in the making.
struct Trace(Writer<Vec<u8>>);

fn key(text: &str) -> KeyBuf {
    KeyBuf::from_steps(text.split('/').filter(|step| !step.is_empty()))
}

/// Returns the text of a made-up commit hash.
fn hash(number: u8) -> String {
    CommitHash::of(Oid::from_array([number; 32])).to_string()
}

const fn keep(id: ContextId) -> Scoped<ContextId> {
    Scoped::keep(id)
}

impl Trace {
    fn new() -> Self {
        Self(Writer::new(Vec::new()).unwrap())
    }

    fn row(mut self, row: &Row<'_>) -> Self {
        self.0.row(row).unwrap();
        self
    }

    fn add(self, at: &str, value: &str, input: Scoped<ContextId>, output: ContextId) -> Self {
        let key = key(at);
        self.row(&Row::Add { key: key.as_key(), value: value.as_bytes(), input, output: keep(output) })
    }

    fn remove(self, at: &str, input: ContextId, output: ContextId) -> Self {
        self.row(&Row::Remove { key: key(at).as_key(), input: keep(input), output: keep(output) })
    }

    fn copy(self, from: &str, to: &str, input: ContextId, output: ContextId) -> Self {
        let (source, destination) = (key(from), key(to));
        let (source, destination) = (source.as_key(), destination.as_key());
        self.row(&Row::Copy { source, destination, input: keep(input), output: keep(output) })
    }

    fn find(self, at: &str, found: bool, input: ContextId) -> Self {
        self.row(&Row::Find { key: key(at).as_key(), found, input: keep(input) })
    }

    fn mem(self, at: &str, found: bool, input: ContextId) -> Self {
        self.row(&Row::Mem { key: key(at).as_key(), found, input: keep(input) })
    }

    fn mem_tree(self, at: &str, found: bool, input: ContextId) -> Self {
        self.row(&Row::MemTree { key: key(at).as_key(), found, input: keep(input) })
    }

    fn commit(self, text: &str, parents: &[&str], input: Scoped<ContextId>) -> Self {
        let mut all = HashesBuf::new();
        parents.iter().for_each(|parent| all.push(Scoped::keep(parent.as_bytes())));
        let hash = Scoped::keep(text.as_bytes());
        self.row(&Row::Commit { hash, date: 7, message: b"m", parents: all.as_hashes(), input })
    }

    fn checkout(self, hash: Scoped<&str>, output: ContextId) -> Self {
        let hash = Scoped { value: hash.value.as_bytes(), keep: hash.keep };
        self.row(&Row::Checkout { hash, output: keep(output) })
    }

    fn replay(self) -> (Repo, Result<Report, ReplayError>) {
        let trace = self.0.finish().unwrap();
        let repo = Repo::memory();
        let mut replay = Replay::new(&repo, ReplayOptions::default()).unwrap();
        let ended = replay.run(&mut Reader::new(&trace[..], "made.repr").unwrap(), &mut ());
        let report = replay.report();
        (repo, ended.map(|()| report))
    }

    #[track_caller]
    fn passes(self) -> (Repo, Report) {
        let (repo, ended) = self.replay();
        (repo, ended.unwrap_or_else(|error| panic!("{error}")))
    }

    #[track_caller]
    fn fails(self) -> (Place, Fault) {
        match self.replay().1 {
            Err(ReplayError::Row { place, fault }) => (*place, *fault),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn contexts_branch_and_stay_as_they_are() {
    Trace::new()
        .add("a/b", "1", keep(0), 1)
        .add("a/c", "2", keep(1), 2)
        .remove("a/b", 1, 3)
        .find("a/b", true, 2)
        .find("a/c", true, 2)
        .find("a/c", false, 1)
        .find("a/b", false, 3)
        .mem_tree("a", false, 3)
        .mem_tree("", true, 3)
        .find("a/b", false, 0)
        .passes();
}

#[test]
fn answers_tell_values_from_directories() {
    let (_, report) = Trace::new()
        .add("a/b", "value", keep(0), 1)
        .find("a", false, 1)
        .mem("a", false, 1)
        .mem_tree("a", true, 1)
        .find("a/b", true, 1)
        .mem("a/b", true, 1)
        .mem_tree("a/b", true, 1)
        .mem_tree("a/b/c", false, 1)
        .find("a/b/c", false, 1)
        .passes();
    assert_eq!((report.answers_checked, report.value_bytes), (8, 5));
    assert_eq!(report.value_sum, b"value".iter().map(|&byte| u64::from(byte)).sum::<u64>());
}

#[test]
fn values_and_directories_replace_each_other() {
    Trace::new()
        .add("a/b/c", "1", keep(0), 1)
        .add("a/b", "2", keep(1), 2)
        .mem("a/b", true, 2)
        .mem_tree("a/b/c", false, 2)
        .add("a/b/d/e", "3", keep(2), 3)
        .mem("a/b", false, 3)
        .mem("a/b/d/e", true, 3)
        .remove("a/b/d/e", 3, 4)
        .mem_tree("a", false, 4)
        .remove("nothing/there", 4, 5)
        .mem_tree("nothing", false, 5)
        .passes();
}

#[test]
fn copies_are_of_values_and_of_directories() {
    Trace::new()
        .add("a/b", "1", keep(0), 1)
        .add("a/c/d", "2", keep(1), 2)
        .copy("a", "x/y", 2, 3)
        .copy("a/b", "v", 3, 4)
        .mem("x/y/b", true, 4)
        .mem("x/y/c/d", true, 4)
        .mem("v", true, 4)
        .add("x/y/b", "3", keep(4), 5)
        .remove("x/y/c", 5, 6)
        .mem("a/c/d", true, 6)
        // Onto what is there, and below itself.
        .copy("a", "x", 6, 7)
        .mem_tree("x/y", false, 7)
        .copy("a", "a/c", 7, 8)
        .mem("a/c/c/d", true, 8)
        .passes();
}

#[test]
fn a_hash_made_twice_is_the_later_commit() {
    let (one, two) = (hash(1), hash(2));
    let (repo, report) = Trace::new()
        .add("a", "1", keep(0), 1)
        .commit(&one, &[], keep(1))
        .add("a", "2", keep(1), 2)
        .commit(&two, &[&one], keep(2))
        .add("b", "3", keep(2), 3)
        .commit(&two, &[&one], Scoped::forget(3))
        .checkout(Scoped::keep(&two), 4)
        .mem("b", true, 4)
        // A branch that is left behind, and the context that was committed goes on.
        .checkout(Scoped::forget(&one), 5)
        .mem("b", false, 5)
        .add("c", "4", Scoped::forget(5), 6)
        .commit(&hash(3), &[&two], Scoped::forget(6))
        .mem("a", true, 1)
        .passes();
    let (head, recorded) = report.head.unwrap();
    assert_eq!((recorded.to_string(), report.commits), (hash(3), 4));
    // Contexts 0, 1, 2 and 4; commits two and three.
    assert_eq!(report.open, (4, 2));
    let main = repo.branch("main").unwrap();
    assert_eq!(main.head().unwrap(), Some(head));
    let tree = main.tree().unwrap();
    assert!(tree.contains("c").unwrap() && !tree.contains("b").unwrap());
    let commit = repo.read_commit(head).unwrap();
    assert_eq!((commit.author.ident, commit.author.seconds, commit.message), (b"Tezos".to_vec(), 7, b"m".to_vec()));
    assert!(repo.checkout(CommitId::from(commit.parents[0].oid())).unwrap().contains("b").unwrap());
}

#[test]
fn the_row_is_named_that_gets_another_answer() {
    let (place, fault) = Trace::new()
        .add("a/b", "1", keep(0), 1)
        .commit(&hash(1), &[], keep(1))
        .mem("a/b", true, 1)
        .find("a", true, 1)
        .mem("never", true, 1)
        .fails();
    assert_eq!((place.commit, place.row, place.operation, &*place.key), (2, 2, "Find", "a"));
    assert!(matches!(fault, Fault::Answer { expected: "a value", found: "a directory" }) && fault.is_wrong());
    let before = Trace::new().add("a/b", "1", keep(0), 1).commit(&hash(1), &[], keep(1)).mem("a/b", true, 1);
    assert_eq!(place.offset, before.0.offset());
    let shown = place.to_string();
    assert_eq!(shown, format!("made.repr: commit 2, row 2 (at byte {}), Find a", place.offset));
    for (trace, expected, found) in [
        (Trace::new().mem("a", true, 0), "a value", "nothing"),
        (Trace::new().add("a", "", keep(0), 1).find("a", false, 1), "no value", "a value"),
        (Trace::new().mem_tree("a", true, 0), "a value or directory", "nothing"),
        (Trace::new().add("a/b", "", keep(0), 1).mem_tree("a", false, 1), "nothing", "a directory"),
    ] {
        let (_, fault) = trace.fails();
        let Fault::Answer { expected: wanted, found: seen } = fault else { panic!("{fault}") };
        assert_eq!((wanted, seen), (expected, found));
    }
}

#[test]
fn a_row_with_a_very_long_key_is_named_by_its_start() {
    let (place, _) = Trace::new().mem(&"x".repeat(1 << 20), true, 0).fails();
    assert_eq!(place.key, format!("{}…", "x".repeat(4096)));
}

#[test]
fn copying_nothing_fails() {
    let (place, fault) = Trace::new().add("a", "1", keep(0), 1).copy("b/c", "d", 1, 2).fails();
    assert!(matches!(fault, Fault::NoSource) && fault.is_wrong());
    assert_eq!((place.commit, place.row, &*place.key), (1, 2, "b/c to d"));
}

#[test]
fn what_no_row_has_made_is_damage() {
    let forgotten = || Trace::new().add("a", "1", Scoped::forget(0), 1);
    for trace in [forgotten().mem("a", false, 0), forgotten().add("b", "", keep(0), 2), forgotten().remove("a", 9, 2)] {
        let (place, fault) = trace.fails();
        assert!(matches!(fault, Fault::Context { id: 0 | 9 }) && !fault.is_wrong(), "{fault}");
        assert_eq!((place.row, place.offset), (2, forgotten().0.offset()));
    }
    let (_, fault) = forgotten().commit(&hash(1), &[], keep(5)).fails();
    assert!(matches!(fault, Fault::Context { id: 5 }));
    for trace in [
        forgotten().checkout(Scoped::keep(&hash(7)), 2),
        forgotten().commit(&hash(1), &[&hash(7)], keep(1)),
        forgotten()
            .commit(&hash(7), &[], keep(1))
            .checkout(Scoped::forget(&hash(7)), 2)
            .checkout(Scoped::keep(&hash(7)), 2),
    ] {
        let (_, fault) = trace.fails();
        assert!(matches!(fault, Fault::Commit { hash: found } if found.to_string() == hash(7)), "{fault}");
    }
    for text in ["", "Co", &"C".repeat(52), &"\u{e9}".repeat(500)] {
        let (_, fault) = forgotten().commit(text, &[], keep(1)).fails();
        assert!(matches!(&fault, Fault::HashText { .. }) && fault.to_string().len() < 300, "{fault}");
    }
}

#[test]
fn a_key_that_is_no_path_is_refused() {
    for steps in [&["a", ""][..], &["a/b"], &["a"; 1025]] {
        let key = KeyBuf::from_steps(steps);
        let row = Row::Find { key: key.as_key(), found: false, input: keep(0) };
        let (_, fault) = Trace::new().row(&row).fails();
        assert!(matches!(fault, Fault::Path(_)), "{fault}");
    }
    // The root can be read and emptied, but is no value.
    let (_, fault) = Trace::new().mem_tree("", true, 0).remove("", 0, 1).add("", "1", keep(1), 2).fails();
    assert!(matches!(fault, Fault::Store(bristlecone::Error::RootPath)), "{fault}");
}
