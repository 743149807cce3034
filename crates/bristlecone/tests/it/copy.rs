//! Objects go from one store to another: all that is new, nothing else, and nothing that is damaged.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering::Relaxed},
};

use bristlecone::{
    Backend, Batch, CommitId, Counted, Durability, Error, Format, Info, Kind, Location, MemoryBackend, Native, ObjRef,
    Object, Oid, Repo, Sink, Snapshot, disk::DiskOptions, pass_backend, pass_snapshot,
};

type Outcome = Result<(), Box<dyn std::error::Error>>;

/// Two lines and a merge of them, with wide and deep directories, shared ones and large values.
fn history<F: Format>(repo: &Repo<F>) -> Result<Vec<CommitId>, Error> {
    let mut all = Vec::new();
    let mut tree = repo.tree();
    for n in 0..3000 {
        tree.set(format!("wide/{n}"), format!("{n}"))?;
    }
    tree.set("data/deep/er/than/that", "x")?;
    all.push(repo.commit_tree(&mut tree, &[], &Info::unsigned("one"))?);
    let mut other = tree.clone();
    tree.set("large", vec![7; 3 << 20])?;
    // The same directory high up and, new too, low down.
    let below = tree.get_tree("data/deep")?.expect("just added");
    tree.set_tree("copy/of/it/far/below", &below)?;
    let mut fresh = repo.tree();
    fresh.set("p/q/r", "new")?;
    tree.set_tree("a", &fresh)?;
    tree.set_tree("b/c/d/e", &fresh.get_tree("p")?.expect("just added"))?;
    all.push(repo.commit_tree(&mut tree, &all[..1], &Info::unsigned("two"))?);
    other.remove("wide/17")?;
    all.push(repo.commit_tree(&mut other, &all[..1], &Info::unsigned("three"))?);
    tree.set("last", "1")?;
    all.push(repo.commit_tree(&mut tree, &all[1..3], &Info::unsigned("four"))?);
    Ok(all)
}

/// Whether everything that commits lead to is there, by checking every object and what it names.
fn is_whole<F: Format>(repo: &Repo<F>) {
    repo.backend()
        .each_object(
            &mut |oid, object| {
                assert_eq!(repo.hash_object(object)?, oid);
                let mut named = Vec::new();
                repo.format().children(object.kind(), object.body(), &mut |_, oid| named.push(oid))?;
                for oid in named {
                    assert!(repo.backend().read(&oid.into())?.is_some());
                }
                Ok(())
            },
            &mut |damage| panic!("{damage:?}"),
        )
        .unwrap();
}

fn goes_over<F: Format>(from: &Repo<F>, to: &Repo<F>) -> Outcome {
    let all = history(from)?;
    for (index, at) in all.iter().enumerate() {
        let copied = to.copy_objects(from, &[*at])?;
        assert!(copied.objects > 0 && copied.bytes > 0);
        is_whole(to);
        assert_eq!(to.generation(at.oid().into())?, from.generation(*at)?);
        assert!(to.checkout(at.oid().into())?.same(&from.checkout(*at)?)?);
        let again = to.copy_objects(from, &all[..=index])?;
        assert_eq!(again, Default::default());
    }
    let mut tree = to.checkout(all[3].oid().into())?;
    tree.set("more", "1")?;
    let more = to.commit_tree(&mut tree, &[all[3].oid().into()], &Info::unsigned("more"))?;
    // Back again: the new commit, the new root, and nothing else of size.
    let back = from.copy_objects(to, &[more])?;
    assert!(back.objects < 10, "{back:?}");
    is_whole(from);
    Ok(())
}

#[test]
fn histories_go_over_and_back() -> Outcome {
    let dir = tempfile::tempdir()?;
    let disk = Repo::create(dir.path().join("store"), Native::new(), DiskOptions::default())?;
    goes_over(&Repo::memory(), &Repo::memory())?;
    goes_over(&disk, &Repo::memory())?;
    let dir = tempfile::tempdir()?;
    goes_over(&Repo::memory(), &Repo::create(dir.path().join("store"), Native::new(), DiskOptions::default())?)?;
    Ok(())
}

#[cfg(feature = "git")]
#[test]
fn histories_of_git_go_over_and_back() -> Outcome {
    use bristlecone::Git;
    let git = || Repo::with_backend(Git::sha1(), Arc::new(MemoryBackend::new()));
    goes_over(&git(), &git())?;
    let sha256 = || Repo::with_backend(Git::sha256(), Arc::new(MemoryBackend::new()));
    goes_over(&sha256(), &sha256())?;
    assert!(matches!(sha256().copy_objects::<CommitId>(&git(), &[]), Err(Error::Usage { .. })));
    Ok(())
}

#[cfg(feature = "tezos")]
#[test]
fn histories_of_tezos_go_over_and_back() -> Outcome {
    let tezos = || Repo::with_backend(bristlecone::Tezos::default(), Arc::new(MemoryBackend::new()));
    goes_over(&tezos(), &tezos())
}

#[test]
fn who_watches_a_copy_hears_of_each_object() -> Outcome {
    let (from, to) = (Repo::memory(), Repo::memory());
    let head = *history(&from)?.last().ok_or("a head")?;
    let mut heard = Vec::new();
    let copied = to.copy_objects_watched(&from, &[head], &mut |so_far| heard.push(*so_far))?;
    assert_eq!((heard.len() as u64, heard.last()), (copied.objects, Some(&copied)));
    assert!(heard.iter().zip(1..).all(|(so_far, count)| so_far.objects == count));
    Ok(())
}

#[test]
fn what_is_there_is_not_read_again() -> Outcome {
    let backend = Counted::new(Arc::new(MemoryBackend::new()));
    let counts = backend.counts();
    let (from, to) = (Repo::with_backend(Native::new(), Arc::new(backend)), Repo::memory());
    let main = from.branch("main")?;
    for n in 0..200 {
        main.edit(&Info::unsigned("m"), |tree| tree.set(format!("{}/{n}", n % 7), "x"))?;
    }
    to.copy_objects(&from, &[main.head()?.ok_or("a head")?])?;
    let head = main.edit(&Info::unsigned("m"), |tree| tree.set("3/new", "x"))?;
    let before = counts.reads.load(Relaxed);
    let copied = to.copy_objects(&from, &[head])?;
    assert_eq!(copied.objects, 3, "a commit, a root, a directory");
    assert!(counts.reads.load(Relaxed) - before < 20);
    Ok(())
}

#[test]
fn damage_and_gaps_are_named_and_not_copied() -> Outcome {
    let from = Repo::memory();
    let main = from.branch("main")?;
    let head = main.edit(&Info::unsigned("m"), |tree| tree.set("a", "x".repeat(100)))?;
    let root = from.read_commit(head)?.tree;
    // A commit whose root is another's bytes under its id, and one whose root is nowhere.
    let body = from.backend().read(&root.into())?.ok_or("a root")?.body().to_vec();
    let lie = bristlecone::Oid::from_array([7; 32]);
    let mut batch = Batch::new();
    batch.put(Kind::Node, lie, &body, &[Location::NONE], &[]);
    from.backend().append(batch, &[], Durability::None)?;
    for (root, damaged) in [(lie, true), (bristlecone::Oid::from_array([8; 32]), false)] {
        let mut commit = from.read_commit(head)?;
        commit.tree = root.into();
        let bad = from.write_commit(&commit, 1, Durability::None)?;
        let to = Repo::memory();
        match to.copy_objects(&from, &[bad]) {
            Err(Error::BadObject { oid, .. }) if damaged => assert_eq!(oid, root),
            Err(Error::Missing { oid, .. }) if !damaged => assert_eq!(oid, root),
            other => panic!("{other:?}"),
        }
        assert!(to.backend().read(&bad.oid().into())?.is_none(), "no commit before what it names");
    }
    Ok(())
}

/// Counts what snapshots are told to keep.
#[derive(Debug)]
struct Keeping(Arc<dyn Backend>, Arc<AtomicU64>);

impl Backend for Keeping {
    fn snapshot(&self, roots: &[Oid]) -> Arc<dyn Snapshot> {
        Arc::new(KeepingSnapshot(self.0.snapshot(roots), self.1.clone()))
    }

    pass_backend! {
        0: name, capabilities, append, get_ref, list_refs, sweeps, flush, each_object, stats, read_derived, write_derived
    }
}

#[derive(Debug)]
struct KeepingSnapshot(Arc<dyn Snapshot>, Arc<AtomicU64>);

impl Snapshot for KeepingSnapshot {
    fn read(&self, at: &ObjRef) -> Result<Option<Object<'_>>, Error> {
        self.0.read(at)
    }

    fn keep(&self, root: &Oid) {
        self.1.fetch_add(1, Relaxed);
        self.0.keep(root);
    }

    pass_snapshot! { 0: locate, position, sweeps, absent, refresh }
}

#[test]
fn a_copy_holds_no_list_of_what_it_has_copied() -> Outcome {
    let from = Repo::memory();
    let mut tree = from.tree();
    // More than goes into one batch.
    for number in 0..24_u8 {
        tree.set(format!("large/{number}"), vec![number; 200 << 10])?;
    }
    let head = from.commit_tree(&mut tree, &[], &Info::unsigned("large"))?;
    let kept = Arc::new(AtomicU64::new(0));
    let backend = Keeping(Arc::new(MemoryBackend::new()), kept.clone());
    let to = Repo::with_backend(Native::new(), Arc::new(backend));
    to.copy_objects(&from, &[head])?;
    assert_eq!(kept.load(Relaxed), 0, "what is appended since a snapshot was taken stays by itself");
    is_whole(&to);
    Ok(())
}
