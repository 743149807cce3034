//! Handles of branches: what one shows after whoever moved it, and what it reads for that.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering::Relaxed},
};

use bristlecone::{
    Backend, Batch, Branch, Capabilities, DiskOptions, Durability, Error, Expected, Info, Layered, Location,
    MemoryBackend, Native, Oid, Position, RefMove, RefTarget, Repo, Result, Snapshot, SweepLimits, Tree, pass_backend,
};

type Shared = Arc<dyn Backend>;

fn info() -> Info {
    Info::unsigned("m").durability(Durability::None)
}

fn repo(backend: &Shared) -> Repo {
    Repo::with_backend(Native::new(), backend.clone())
}

fn set(branch: &Branch, value: &str) -> Result<()> {
    branch.edit(&info(), |tree| tree.set("value", value)).map(drop)
}

fn value(tree: &Tree) -> Option<String> {
    tree.get("value").unwrap().map(|value| String::from_utf8(value.to_vec()).unwrap())
}

/// Counts how often a ref is read, and has positions or not.
#[derive(Debug)]
struct Counting {
    inner: Shared,
    reads: Arc<AtomicU64>,
    positions: bool,
}

impl Backend for Counting {
    fn capabilities(&self) -> Capabilities {
        Capabilities { positions: self.positions, ..self.inner.capabilities() }
    }

    fn position(&self) -> Result<Option<Position>, Error> {
        if self.positions { self.inner.position() } else { Ok(None) }
    }

    fn get_ref(&self, name: &str) -> Result<Option<RefTarget>, Error> {
        self.reads.fetch_add(1, Relaxed);
        self.inner.get_ref(name)
    }

    fn snapshot(&self, roots: &[Oid]) -> Arc<dyn Snapshot> {
        self.inner.snapshot(roots)
    }

    fn append(&self, batch: Batch, moves: &[RefMove], durability: Durability) -> Result<Location, Error> {
        self.inner.append(batch, moves, durability)
    }

    pass_backend! { inner: name, list_refs, sweeps, sweep, flush, each_object, stats, read_derived, write_derived }
}

#[test]
fn a_branch_that_stays_is_not_read_again() -> Result<()> {
    for positions in [true, false] {
        let reads = Arc::new(AtomicU64::new(0));
        let inner: Shared = Arc::new(MemoryBackend::new());
        let repo = repo(&(Arc::new(Counting { inner, reads: reads.clone(), positions }) as Shared));
        let (main, other) = (repo.branch("main")?, repo.branch("other")?);
        set(&main, "one")?;
        set(&other, "two")?;
        let looks = |branch: &Branch, wanted: &str, wanted_reads: u64| {
            let before = reads.load(Relaxed);
            for _ in 0..10 {
                assert_eq!(value(&branch.tree().unwrap()).as_deref(), Some(wanted));
            }
            let read = reads.load(Relaxed) - before;
            assert_eq!(read, if positions { wanted_reads } else { 10 }, "{positions}");
        };
        looks(&main, "one", 1);
        looks(&main, "one", 0);
        looks(&other, "two", 1);
        // A handle of its own, by which the other is not forgotten.
        looks(&repo.branch("main")?, "one", 1);
        looks(&main, "one", 0);
        set(&other, "three")?;
        looks(&main, "one", 1);
        looks(&other, "three", 1);
        repo.sweep(&[], &SweepLimits::default())?;
        looks(&main, "one", 1);
        looks(&main, "one", 0);
    }
    Ok(())
}

/// Compares what a handle that was used all the time shows with what a new one does, each time the branch was moved.
fn shows_every_move(held: &Branch, other: &Repo) -> Result<()> {
    let moving = other.branch("main")?;
    let check = |wanted: Option<&str>| {
        for _ in 0..2 {
            assert_eq!(value(&held.tree().unwrap()).as_deref(), wanted);
        }
        std::thread::scope(|scope| {
            let there = scope.spawn(|| value(&held.tree().unwrap()));
            assert_eq!(there.join().unwrap().as_deref(), wanted);
        });
    };
    check(None);
    for round in 0..20 {
        let text = format!("round {round}");
        set(&moving, &text)?;
        check(Some(&text));
    }
    // Moved by itself, by its clone, back, away and anew.
    let old = held.head()?;
    set(held, "by itself")?;
    check(Some("by itself"));
    let clone = held.clone();
    std::thread::scope(|scope| scope.spawn(|| set(&clone, "by a clone")).join().unwrap())?;
    check(Some("by a clone"));
    moving.compare_and_set(moving.head()?, old, Durability::None)?;
    check(Some("round 19"));
    moving.compare_and_set(old, None, Durability::None)?;
    check(None);
    moving.compare_and_set(None, old, Durability::None)?;
    check(Some("round 19"));
    Ok(())
}

#[test]
fn a_branch_in_memory_shows_every_move() -> Result<()> {
    let backend: Shared = Arc::new(MemoryBackend::new());
    shows_every_move(&repo(&backend).branch("main")?, &repo(&backend))
}

#[test]
fn a_branch_on_disk_shows_every_move_of_another_handle_of_the_store() -> Result<()> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store");
    let here = Repo::create(&path, Native::new(), DiskOptions::default())?;
    let there = Repo::open(&path, DiskOptions::default())?;
    shows_every_move(&here.branch("main")?, &there)?;
    // A reader, which publishes nothing itself.
    let held = Repo::open_read_only(&path, DiskOptions::default())?.branch("main")?;
    for round in 0..20 {
        let text = format!("again {round}");
        set(&there.branch("main")?, &text)?;
        assert_eq!(value(&held.tree()?), Some(text));
    }
    Ok(())
}

#[test]
fn a_branch_shows_the_moves_of_the_ref_that_it_leads_to() -> Result<()> {
    let repo = Repo::memory();
    let (main, alias) = (repo.branch("main")?, repo.branch("alias")?);
    set(&main, "one")?;
    set(&repo.branch("other")?, "two")?;
    let lead = |to: &str| {
        let target = RefTarget::Symbolic(format!("refs/heads/{to}"));
        let moved = RefMove { name: "refs/heads/alias".to_owned(), expected: Expected::Any, to: Some(target) };
        repo.move_refs(&[moved], Durability::None).unwrap();
    };
    lead("main");
    assert_eq!(value(&alias.tree()?).as_deref(), Some("one"));
    set(&main, "three")?;
    assert_eq!(value(&alias.tree()?).as_deref(), Some("three"));
    lead("other");
    assert_eq!(value(&alias.tree()?).as_deref(), Some("two"));
    Ok(())
}

#[test]
fn a_branch_shows_the_moves_of_a_lower_store() -> Result<()> {
    let (lower, upper): (Shared, Shared) = (Arc::new(MemoryBackend::new()), Arc::new(MemoryBackend::new()));
    let both: Shared = Arc::new(Layered::over(upper, [lower.clone()]));
    shows_every_move(&repo(&both).branch("main")?, &repo(&both))?;
    let held = repo(&both).branch("lower")?;
    let below = repo(&lower).branch("lower")?;
    for round in 0..20 {
        let text = format!("round {round}");
        set(&below, &text)?;
        assert_eq!(value(&held.tree()?), Some(text));
    }
    assert_eq!(both.snapshot(&[]).position(), both.position()?);
    Ok(())
}
