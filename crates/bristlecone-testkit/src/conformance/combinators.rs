//! The suite on backends around backends, over every kind of backend that a caller names.

use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering::Relaxed},
    },
};

use bristlecone::{
    Backend, Branch, Cached, CommitId, Counted, Durability, Error, Format, Info, Layered, MemoryBackend, Native,
    Object, Oid, ReadOnly, RefMove, Repo, Roots, SweepLimits,
};
use bristlecone_core::git::{Algorithm, Git};

use super::{Make, append_all, append_one, family, object, set};
use crate::generate::Rng;

/// A new backend, and how it is opened again once all handles are dropped, if it keeps what it has.
pub type NewBackend = (Arc<dyn Backend>, Option<Box<dyn Fn() -> Arc<dyn Backend>>>);

/// A kind of backend to prove.
#[derive(Clone, Copy, Debug)]
pub struct Subject {
    /// Its name, for messages.
    pub name: &'static str,
    /// Makes a new, empty one in an empty folder, which it need not use.
    pub make: fn(&Path) -> NewBackend,
}

/// The backend in memory, as a subject.
pub const MEMORY: Subject = Subject { name: "memory", make: |_| (Arc::new(MemoryBackend::new()), None) };

/// Puts something around a backend. The second argument makes another new one of its kind.
pub type Combine = fn(Arc<dyn Backend>, Make<'_>) -> Arc<dyn Backend>;

/// Every backend around others that takes changes, by name.
pub const COMBINATORS: &[(&str, Combine)] = &[
    ("cached", |inner, _| Arc::new(Cached::new(inner, 8 << 20))),
    // Objects leave it all the time.
    ("cached in 16 KiB", |inner, _| Arc::new(Cached::new(inner, 16 << 10))),
    ("counted", |inner, _| Arc::new(Counted::new(inner))),
    ("layered", |upper, make| Arc::new(Layered::over(upper, [make()]))),
    // The lower ones are empty: nothing is promoted.
    ("layered and promoting", |upper, make| {
        Arc::new(Layered::over(upper, [make(), make()]).promoting(|_, _, _| Ok(())))
    }),
];

/// Combinators around each other, the innermost first.
pub type Pile<'p> = &'p [(&'static str, Combine)];

fn pile_up(backend: Arc<dyn Backend>, pile: Pile<'_>, make: Make<'_>) -> Arc<dyn Backend> {
    pile.iter().fold(backend, |inner, (_, combine)| combine(inner, make))
}

/// Backends of a subject, each in a folder of its own below one that the caller gives.
struct Folders<'s> {
    subject: &'s Subject,
    dir: &'s Path,
}

/// How many folders were made.
static FOLDERS: AtomicU32 = AtomicU32::new(0);

impl Folders<'_> {
    fn make(&self) -> NewBackend {
        let number = FOLDERS.fetch_add(1, Relaxed);
        let dir = self.dir.join(format!("{}-{number}", self.subject.name));
        std::fs::create_dir(&dir).expect("a folder can be made");
        (self.subject.make)(&dir)
    }
}

/// Runs the whole suite on a subject with this around it, which is made in folders below `dir`.
///
/// # Panics
/// If a backend breaks its contract; the message names the test.
pub fn run_pile(subject: &Subject, pile: Pile<'_>, dir: &Path) {
    let names: Vec<&str> = pile.iter().map(|(name, _)| *name).collect();
    println!(
        "conformance: {} over {}",
        if names.is_empty() { "nothing".to_owned() } else { names.join(" in ") },
        subject.name
    );
    let folders = Folders { subject, dir };
    let other = || folders.make().0;
    super::run(|| pile_up(folders.make().0, pile, &other));
    for (name, test) in super::REOPENING_TESTS {
        println!("conformance: {name}");
        let (backend, reopen) = folders.make();
        assert_eq!(backend.capabilities().persistent, reopen.is_some(), "{} says what it keeps", subject.name);
        if let Some(reopen) = reopen {
            test(pile_up(backend, pile, &other), &|| pile_up(reopen(), pile, &other));
        }
    }
}

/// Runs the whole suite on a subject alone, in each of the [`COMBINATORS`], and in each two of them, in folders below `dir`;
/// and compares the roots.
///
/// # Panics
/// If a backend breaks its contract; the message names the test.
pub fn run_matrix(subject: &Subject, dir: &Path) {
    let prove = |pile: Pile<'_>| {
        run_pile(subject, pile, dir);
        the_same_edits_end_on_the_same_roots(subject, pile, dir);
    };
    prove(&[]);
    let folders = Folders { subject, dir };
    for (name, test) in super::LONG_TESTS {
        println!("conformance: {name}");
        test(&|| folders.make().0);
    }
    for one in COMBINATORS {
        prove(&[*one]);
        COMBINATORS.iter().for_each(|other| prove(&[*one, *other]));
    }
}

/// The same edits end on the same roots and commits in a subject with this around it as in memory, and read the same: of the
/// native format where any object is kept, and of Git's.
///
/// # Panics
/// If it is not so.
pub fn the_same_edits_end_on_the_same_roots(subject: &Subject, pile: Pile<'_>, dir: &Path) {
    let folders = Folders { subject, dir };
    let other = || folders.make().0;
    let new = || pile_up(folders.make().0, pile, &other);
    let memory = || Arc::new(MemoryBackend::new());
    let kept = new().capabilities().git;
    if kept.is_none() {
        assert_eq!(edit(Native::new(), new()), edit(Native::new(), memory()), "{}", subject.name);
    }
    let format = Git::new(kept.unwrap_or(Algorithm::Sha1));
    assert_eq!(edit(format, new()), edit(format, memory()), "{}", subject.name);
}

/// Commits edits to two branches and returns the commits.
fn edit<F: Format>(format: F, backend: Arc<dyn Backend>) -> Vec<CommitId> {
    let repo = Repo::with_backend(format.clone(), backend.clone());
    let branches: [Branch<F>; 2] = ["main", "other"].map(|name| repo.branch(name).expect("a name"));
    let mut heads = Vec::new();
    let mut rng = Rng::new(11);
    for round in 0..12_u64 {
        let branch = &branches[usize::from(round % 3 == 2)];
        let mut edits = Vec::new();
        for _ in 0..=rng.below(40) {
            let bytes = if rng.chance(1, 30) { 70_000 } else { rng.index(200) };
            let path = format!("d{}/e{}/f{}", rng.below(4), rng.below(9), rng.below(40));
            edits.push((path, (!rng.chance(1, 5)).then(|| rng.bytes(bytes))));
        }
        let info =
            Info::message(format!("round {round}")).by(bristlecone::Signature::new("A <a@example.org>", 1_700_000_000));
        let durability = if round == 5 { Durability::Synced } else { Durability::None };
        let head = branch.edit(&info.durability(durability), |tree| {
            for (path, value) in &edits {
                match value {
                    Some(value) => tree.set(path, value)?,
                    None => tree.remove(path)?,
                }
            }
            Ok(())
        });
        heads.push(head.expect("a commit"));
        // Read back as another process would.
        if round % 4 == 3 {
            backend.clear_caches();
            backend.flush().expect("a flush");
            let tree = Repo::with_backend(format.clone(), backend.clone())
                .branch("main")
                .expect("a name")
                .tree()
                .expect("a tree");
            for (path, value) in edits.iter().rev().filter(|_| round % 3 != 2) {
                let last = edits.iter().rev().find(|(other, _)| other == path).and_then(|(_, value)| value.as_ref());
                let found = tree.get(path).expect("a read");
                assert_eq!(
                    found.as_deref(),
                    last.map(Vec::as_slice),
                    "{path}, set to {:?} bytes",
                    value.as_ref().map(Vec::len)
                );
            }
        }
    }
    heads
}

/// A backend that can only be read refuses every change and shows everything.
///
/// # Panics
/// If it is not so.
pub fn a_read_only_backend_refuses_changes(make: Make<'_>) {
    let inner = make();
    let family = family(&*inner);
    let sample = family.contents(1, 300);
    let at = append_one(&*inner, &sample);
    let main = family.ref_name("main");
    let holds = set(&main, bristlecone::Expected::Any, object(sample.oid));
    append_all(&*inner, &[], std::slice::from_ref(&holds), Durability::None).expect("a move");
    let only = ReadOnly(inner.clone());
    let (stats, refs) = (inner.stats().batches, inner.list_refs("").expect("refs"));
    let other = family.contents(2, 300);
    let batch = || {
        let mut batch = bristlecone::Batch::new();
        other.put(&mut batch, &std::collections::HashMap::new());
        batch
    };
    let remove = RefMove { to: None, ..holds };
    for moves in [&[][..], std::slice::from_ref(&remove)] {
        for durability in [Durability::None, Durability::Synced] {
            let one = only.append(batch(), moves, durability);
            assert!(matches!(one, Err(Error::ReadOnly)), "{one:?}");
            let many = only.append_many(vec![(batch(), moves.to_vec()), (batch(), Vec::new())], durability);
            assert!(many.len() == 2 && many.iter().all(|one| matches!(one, Err(Error::ReadOnly))), "{many:?}");
        }
    }
    let mut kept = batch();
    assert!(matches!(only.append_keeping(&mut kept), Err(Error::ReadOnly)) && !kept.is_empty());
    assert!(matches!(only.write_derived("history", b"x"), Err(Error::ReadOnly)));
    let children = |_: &Oid, _: &Object<'_>, _: &mut dyn FnMut(Oid)| Ok(());
    let swept = only.sweep(&Roots::new(&[], &children), &SweepLimits::default());
    assert!(matches!(swept, Err(Error::ReadOnly)), "{swept:?}");
    only.flush().expect("there is nothing to flush");
    assert!(only.read(&other.oid.into()).expect("a read").is_none());
    assert_eq!(
        (only.list_refs("").expect("refs"), only.get_ref(&main).expect("a ref")),
        (refs, Some(object(sample.oid)))
    );
    assert_eq!(inner.stats().batches, stats);
    assert_eq!((only.name(), only.capabilities()), (inner.name(), inner.capabilities()));
    sample.expect(&only, at.at).unwrap();
}
