//! Going on from a tree that no thread commits: calls that would wait for ever end in an error.

use std::{
    sync::{Arc, mpsc},
    thread,
    time::Duration,
};

use bristlecone::{
    Backend, Batch, Durability, Error, Info, Location, MemoryBackend, Native, RefMove, Repo, Tree, merge, pass_backend,
};

/// How long anything here may take before it counts as hanging.
const PATIENCE: Duration = Duration::from_secs(60);

type Operation = fn(&Repo, &mut Tree) -> Result<(), Error>;

/// All that asks for something that only the commit can give.
const OPERATIONS: &[(&str, Operation)] = &[
    ("list", |_, tree| tree.list("")?.try_for_each(|entry| entry.map(drop))),
    ("count", |_, tree| tree.count("dir").map(drop)),
    ("get", |_, tree| tree.entry("dir/a").map(drop)),
    ("find_tree", |_, tree| tree.get_tree("dir").map(drop)),
    ("is_empty", |_, tree| tree.is_empty().map(drop)),
    ("walk_all", |_, tree| tree.walk_all("")?.try_for_each(|entry| entry.map(drop))),
    ("stats", |_, tree| tree.stats().map(drop)),
    ("to_plain", |_, tree| tree.to_plain().map(drop)),
    ("update", |_, tree| tree.update("dir/a", |old| old.map(<[u8]>::to_vec))),
    ("root", |_, tree| tree.root().map(drop)),
    ("same", |_, tree| tree.same(&tree.clone()).map(drop)),
    ("write", |_, tree| tree.write().map(drop)),
    ("prune", |_, tree| tree.prune(["dir/a"]).map(drop)),
    ("diff before", |repo, tree| tree.diff(&repo.tree(), "").map(drop)),
    ("diff after", |repo, tree| repo.tree().diff(tree, "").map(drop)),
    ("merge ours", |repo, tree| merge::trees(None, tree, &repo.tree()).map(drop)),
    ("merge theirs", |repo, tree| merge::trees(None, &repo.tree(), tree).map(drop)),
    ("add_tree", |repo, tree| repo.tree().set_tree("below", tree)),
    ("commit", |repo, tree| repo.branch("main")?.commit(tree, &Info::unsigned("late")).map(drop)),
    ("prepare", |repo, tree| repo.branch("main")?.prepare(tree, &Info::unsigned("late")).map(drop)),
    ("commit_tree", |repo, tree| repo.commit_tree(tree, &[], &Info::unsigned("late")).map(drop)),
    ("a third tree ahead", |_, tree| {
        let second = tree.fork_for_commit()?;
        let third = tree.fork_for_commit();
        drop(second);
        third.map(drop)
    }),
];

/// A tree that goes on from one that is returned too, both with something in them.
fn parted(repo: &Repo) -> Result<(Tree, Tree), Error> {
    let mut tree = repo.branch("main")?.tree()?;
    tree.set("dir/a", "1")?;
    let first = tree.fork_for_commit()?;
    tree.set("dir/b", "2")?;
    Ok((first, tree))
}

#[test]
fn a_merge_into_a_tree_that_goes_on_from_a_commit_goes_on_from_it_too() {
    let repo = Repo::memory();
    let (main, info) = (repo.branch("main").unwrap(), Info::unsigned("next"));
    let base = main.tree().unwrap();
    let mut theirs = base.clone();
    theirs.set("dir/c", "3").unwrap();
    let (mut first, tree) = parted(&repo).unwrap();
    let head = main.commit(&mut first, &info).unwrap();
    let mut merged = merge::trees(Some(&base), &tree, &theirs).unwrap().tree;
    // A branch that is not there does not stand where the tree comes from.
    let aside = repo.branch("side").unwrap().commit(&mut merged.clone(), &info);
    assert!(matches!(aside, Err(Error::RefMoved { .. })), "{aside:?}");
    let next = main.commit(&mut merged, &info).unwrap();
    assert_eq!(repo.read_commit(next).unwrap().parents, [head]);
    assert_eq!(repo.checkout(next).unwrap().count("dir").unwrap(), 3);
}

#[test]
fn a_refreshed_tree_forgets_the_commits_that_it_went_on_from() {
    let repo = Repo::memory();
    let main = repo.branch("main").unwrap();
    let mut tree = main.tree().unwrap();
    let value: Arc<[u8]> = vec![5; 10_000].into();
    tree.set("a", &*value).unwrap();
    let mut first = tree.fork_for_commit().unwrap();
    main.commit(&mut first, &Info::unsigned("first")).unwrap();
    drop(first);
    main.edit(&Info::unsigned("second"), |tree| tree.remove("a")).unwrap();
    repo.move_refs(
        &[RefMove { name: "refs/heads/main".to_owned(), expected: bristlecone::Expected::Any, to: None }],
        Durability::None,
    )
    .unwrap();
    let sweep = || repo.sweep(&[], &bristlecone::SweepLimits::default().grace(0)).unwrap().objects;
    assert_eq!(tree.get("a").unwrap().unwrap(), *value);
    tree.refresh();
    // What the tree holds stays, and the commits go.
    let swept = sweep();
    assert!(swept > 0);
    assert_eq!(tree.get("a").unwrap().unwrap(), *value);
    drop(tree);
    assert!(sweep() > 0);
}

#[test]
fn what_waits_for_a_commit_that_nobody_makes_ends_in_an_error() {
    let (sender, results) = mpsc::channel();
    for &(name, operation) in OPERATIONS {
        let sender = sender.clone();
        thread::spawn(move || {
            let repo = Repo::memory();
            let (mut first, mut tree) = parted(&repo).unwrap();
            let refused = operation(&repo, &mut tree);
            // What does not ask for the commit goes on, and once it is made everything does.
            assert_eq!(tree.get("dir/a").unwrap().as_deref(), Some(&b"1"[..]));
            let made = repo.branch("main").unwrap().commit(&mut first, &Info::unsigned("first"));
            sender.send((name, refused, made.and_then(|_| operation(&repo, &mut tree)))).unwrap();
        });
    }
    for _ in OPERATIONS {
        let (name, refused, then) = results.recv_timeout(PATIENCE).expect("an operation hangs");
        assert!(matches!(refused, Err(Error::Uncommitted { .. })), "{name}: {refused:?}");
        assert!(then.is_ok() || name == "a third tree ahead", "{name}, once it is committed: {then:?}");
    }
}

#[test]
fn a_commit_that_begins_late_or_takes_long_is_waited_for() {
    let (sender, done) = mpsc::channel();
    // In how many seconds it begins; its appends are slow; it stands in a queue until then.
    const CASES: [(u64, bool, bool); 3] = [(1, false, false), (0, true, false), (7, false, true)];
    for (seconds, slow, queued) in CASES {
        let sender = sender.clone();
        thread::spawn(move || {
            let inner: Arc<dyn Backend> = Arc::new(MemoryBackend::new());
            let backend: Arc<dyn Backend> = if slow { Arc::new(SlowAppends(inner)) } else { inner };
            let repo = Repo::with_backend(Native::new(), backend);
            let (mut first, tree) = parted(&repo).unwrap();
            let _writing = queued.then(|| first.writing());
            thread::scope(|scope| {
                scope.spawn(|| {
                    thread::sleep(Duration::from_secs(seconds));
                    repo.branch("main").unwrap().commit(&mut first, &Info::unsigned("first")).unwrap();
                });
                sender.send((tree.count("dir"), tree.root().is_ok())).unwrap();
            });
        });
    }
    for _ in CASES {
        let (count, rooted) = done.recv_timeout(PATIENCE).expect("a wait without end");
        assert_eq!((count.unwrap(), rooted), (2, true));
    }
}

#[test]
fn a_commit_that_failed_is_not_waited_for() {
    let (sender, done) = mpsc::channel();
    thread::spawn(move || {
        let repo = Repo::memory();
        let main = repo.branch("main").unwrap();
        let (mut first, tree) = parted(&repo).unwrap();
        main.edit(&Info::unsigned("faster"), |tree| tree.set("other", "1")).unwrap();
        let conflict = main.commit(&mut first, &Info::unsigned("too late"));
        assert!(matches!(conflict, Err(Error::RefMoved { .. })));
        sender.send(tree.root().map(drop)).unwrap();
        drop(first);
        assert!(matches!(tree.root(), Err(Error::Usage { .. })));
    });
    let refused = done.recv_timeout(PATIENCE).expect("the root of a tree hangs");
    assert!(matches!(refused, Err(Error::Uncommitted { .. })), "{refused:?}");
}

/// A backend whose appends take longer than any thread waits for a commit to begin.
#[derive(Debug)]
struct SlowAppends(Arc<dyn Backend>);

impl Backend for SlowAppends {
    fn append(&self, batch: Batch, moves: &[RefMove], durability: Durability) -> Result<Location, Error> {
        thread::sleep(Duration::from_secs(7));
        self.0.append(batch, moves, durability)
    }

    pass_backend! {
        0: name, capabilities, snapshot, get_ref, list_refs, flush, each_object, stats, read_derived,
        write_derived
    }
}

/// A backend that does other jobs of the calling thread's pool while it appends, as one may that shares its work in the pool.
#[cfg(feature = "rayon")]
#[derive(Debug)]
struct SharingAppends(Arc<dyn Backend>);

#[cfg(feature = "rayon")]
impl Backend for SharingAppends {
    fn append(&self, batch: Batch, moves: &[RefMove], durability: Durability) -> Result<Location, Error> {
        while rayon::yield_now() == Some(rayon::Yield::Executed) {}
        self.0.append(batch, moves, durability)
    }

    pass_backend! {
        0: name, capabilities, snapshot, get_ref, list_refs, flush, each_object, stats, read_derived,
        write_derived
    }
}

#[cfg(feature = "rayon")]
#[test]
fn a_job_that_waits_for_a_commit_below_it_on_its_own_thread_ends_in_an_error() {
    let (sender, done) = mpsc::channel();
    thread::spawn(move || {
        let repo = Repo::with_backend(Native::new(), Arc::new(SharingAppends(Arc::new(MemoryBackend::new()))));
        let main = repo.branch("main").unwrap();
        let (mut first, mut tree) = parted(&repo).unwrap();
        let mut second = tree.fork_for_commit().unwrap();
        let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap();
        // Of the tree that is being committed, and of one that goes on from a tree that does.
        let (mut early, mut root) = (None, None);
        let made = pool.install(|| {
            rayon::scope(|scope| {
                scope.spawn(|_| early = Some(main.commit(&mut second, &Info::unsigned("second"))));
                scope.spawn(|_| root = Some(tree.root()));
                main.commit(&mut first, &Info::unsigned("first"))
            })
        });
        let then = main.commit(&mut second, &Info::unsigned("second")).and_then(|_| tree.root());
        sender.send((made, early, root, then)).unwrap();
    });
    let (made, early, root, then) = done.recv_timeout(PATIENCE).expect("a thread waits for itself");
    assert!(made.is_ok() && then.is_ok(), "{made:?} {then:?}");
    assert!(matches!(early, Some(Err(Error::Uncommitted { here: true, .. }))), "{early:?}");
    assert!(matches!(root, Some(Err(Error::Uncommitted { here: true, .. }))), "{root:?}");
    let told = root.and_then(Result::err).map(|error| error.to_string()).unwrap_or_default();
    assert!(told.ends_with("wait on a thread outside of the pool"), "{told}");
}
