//! What is far away is read many objects a call: calls are at most the longest chain in which each object is known only
//! from the one before, and twice as many as full calls would take; what was read ahead stays within the window; and
//! a caller that stops early has read little.

use std::{
    collections::{HashMap, HashSet},
    fmt::Debug,
    sync::Arc,
    time::Duration,
};

use bristlecone::{
    CommitId, Error, Format, Git, Info, Kind, Listing, LogOptions, LogOrder, MemoryBackend, Native, Oid, Repo, Tezos,
    Tree, TreeId,
    core::{AHEAD_BYTES_MAX, AHEAD_OBJECTS_MAX, Checked},
    merge,
};
use bristlecone_testkit::{
    generate::Rng,
    slow::{Reads, Slow},
};

/// A repository in memory, and the same one from far away.
struct Far<F: Format> {
    near: Repo<F>,
    far: Repo<F>,
    slow: Arc<Slow>,
}

impl<F: Format> Far<F> {
    fn new(format: F) -> Self {
        Self::with_delay(format, Duration::ZERO)
    }

    fn with_delay(format: F, delay: Duration) -> Self {
        Self::over(format, |memory| Slow::new(memory, delay))
    }

    fn over(format: F, slow: impl FnOnce(Arc<MemoryBackend>) -> Slow) -> Self {
        let memory = Arc::new(MemoryBackend::new());
        let slow = Arc::new(slow(memory.clone()));
        let far = Repo::with_backend(format.clone(), slow.clone());
        Self { near: Repo::with_backend(format, memory), far, slow }
    }

    /// Commits a tree of these paths.
    fn commit(&self, branch: &str, paths: impl IntoIterator<Item = String>) -> CommitId {
        let branch = self.near.branch(branch).unwrap();
        let mut tree = branch.tree().unwrap();
        for path in paths {
            tree.set(&path, path.as_bytes()).unwrap();
        }
        branch.commit(&mut tree, &Info::unsigned("data")).unwrap()
    }

    /// The tree of a commit from near and from far.
    fn trees(&self, commit: CommitId) -> (Tree<F>, Tree<F>) {
        let trees = (self.near.checkout(commit).unwrap(), self.far.checkout(commit).unwrap());
        self.slow.take_reads();
        trees
    }

    /// Returns how many objects of these kinds are on the longest way down from some.
    fn depth(&self, roots: &[impl Into<Oid> + Copy], kinds: &[Kind]) -> u64 {
        let mut depths = HashMap::new();
        roots.iter().map(|&at| self.depth_below(at.into(), kinds, &mut depths)).max().unwrap_or(0)
    }

    fn depth_below(&self, root: Oid, kinds: &[Kind], depths: &mut HashMap<Oid, u64>) -> u64 {
        let mut stack = vec![(root, false)];
        while let Some((oid, seen)) = stack.pop() {
            if depths.contains_key(&oid) {
                continue;
            }
            let object = self.near.backend().read(&oid.into()).unwrap().unwrap();
            let mut children = Vec::new();
            let each = &mut |kind, oid| children.extend(kinds.contains(&kind).then_some(oid));
            self.near.format().children(object.kind(), object.body(), each).unwrap();
            if seen {
                let below = children.iter().map(|oid| depths[oid]).max().unwrap_or(0);
                depths.insert(oid, below + 1);
            } else {
                stack.push((oid, true));
                stack.extend(children.into_iter().map(|oid| (oid, false)));
            }
        }
        depths[&root]
    }

    /// Checks calls and memory of an operation that was just done.
    fn assert_within(&self, what: &str, depth: u64) -> Reads {
        let reads = self.slow.take_reads();
        let full = reads.objects as f64 / AHEAD_OBJECTS_MAX as f64 + reads.bytes as f64 / AHEAD_BYTES_MAX as f64;
        assert!(reads.calls as f64 <= depth as f64 + 2.0 * full, "{what}: depth {depth}, {reads:?}");
        // Besides the window, a walk holds the objects on the way down to where it stands.
        let held_max = AHEAD_BYTES_MAX as u64 + (depth + 1) * reads.object_bytes_max;
        assert!(reads.held_bytes_max <= held_max, "{what}: at most {held_max} bytes, {reads:?}");
        reads
    }
}

fn numbered(prefix: &str, count: usize) -> impl Iterator<Item = String> {
    let prefix = prefix.to_owned();
    (0..count).map(move |n| format!("{prefix}{n:06}"))
}

/// A directory of 100,000 entries; one of 2,000 directories; one that is 300 deep, with others beside the way.
fn shapes() -> Vec<(&'static str, Vec<String>)> {
    let many = (0..2000).flat_map(|n| (0..3).map(move |value| format!("dirs/d{n:04}/v{value}"))).collect();
    let mut deep = Vec::new();
    let mut path = String::new();
    for level in 0..300 {
        path.push_str("down/");
        deep.extend([format!("{path}a{level}/x"), format!("{path}value"), format!("{path}z{level}/x")]);
    }
    let nested = (0..4096).map(|n| format!("{}/{}/{}/{}/v", n % 8, n / 8 % 8, n / 64 % 8, n / 512)).collect();
    vec![("wide", numbered("wide/e", 100_000).collect()), ("many", many), ("deep", deep), ("nested", nested)]
}

fn walked<F: Format>(tree: &Tree<F>) -> Vec<String> {
    tree.walk_all("").unwrap().map(|entry| entry.unwrap().0.to_string()).collect()
}

fn directories_are_listed_in_few_calls<F: Format>(format: F) {
    for (shape, paths) in shapes() {
        let far = Far::new(format.clone());
        let commit = far.commit("main", paths);
        let depth = far.depth(&[near_root(&far, commit)], &[Kind::Node]);
        let (near, tree) = far.trees(commit);
        assert_eq!(walked(&tree), walked(&near));
        far.assert_within(&format!("{} {shape}", F::NAME), depth);
    }
}

#[test]
fn native_directories_are_listed_in_few_calls() {
    directories_are_listed_in_few_calls(Native::new());
}

#[test]
fn git_directories_are_listed_in_few_calls() {
    directories_are_listed_in_few_calls(Git::sha1());
}

#[test]
fn tezos_directories_are_listed_in_few_calls() {
    directories_are_listed_in_few_calls(Tezos::new());
}

/// The paths at which two trees differ.
fn different<F: Format>(before: Tree<F>, after: Tree<F>) -> Vec<String> {
    before.diff(&after, "").unwrap().map(|found| found.unwrap().path.to_string()).collect()
}

fn versions_are_compared_in_few_calls<F: Format>(format: F) {
    for (shape, paths) in shapes() {
        let far = Far::new(format.clone());
        let changed: Vec<String> = paths.iter().step_by(7).cloned().collect();
        let before = far.commit("main", paths);
        let branch = far.near.branch("main").unwrap();
        let mut tree = branch.tree().unwrap();
        for (n, path) in changed.iter().enumerate() {
            if n % 5 == 0 {
                tree.remove(path).unwrap()
            } else {
                tree.set(path, format!("changed {n}").as_bytes()).unwrap()
            };
        }
        let after = branch.commit(&mut tree, &Info::unsigned("changes")).unwrap();
        let roots = [before, after].map(|at| near_root(&far, at));
        let depth = far.depth(&roots, &[Kind::Node]);
        let ((near, tree), (near_after, tree_after)) = (far.trees(before), far.trees(after));
        assert_eq!(different(tree, tree_after), different(near, near_after));
        far.assert_within(&format!("{} {shape}", F::NAME), depth);
        // Against nothing, everything is different.
        let ((near, tree), nothing) = (far.trees(before), far.near.tree());
        assert_eq!(different(far.far.tree(), tree), different(nothing, near));
        far.assert_within(&format!("{} {shape}, all of it", F::NAME), depth);
    }
}

#[test]
fn native_versions_are_compared_in_few_calls() {
    versions_are_compared_in_few_calls(Native::new());
}

#[test]
fn git_versions_are_compared_in_few_calls() {
    versions_are_compared_in_few_calls(Git::sha1());
}

#[test]
fn tezos_versions_are_compared_in_few_calls() {
    versions_are_compared_in_few_calls(Tezos::new());
}

/// Few differences between large trees: what both hold is not read, ahead or otherwise.
#[test]
fn what_both_hold_is_not_read() {
    let far = Far::new(Native::new());
    let before = far.commit("main", shapes().into_iter().flat_map(|(_, paths)| paths));
    let after = far.commit("main", ["wide/e0500000".to_owned(), "dirs/d0777/new".to_owned(), "5/5/5/5/w".to_owned()]);
    let ((_, tree), (_, tree_after)) = (far.trees(before), far.trees(after));
    assert_eq!(different(tree, tree_after).len(), 3);
    let reads = far.slow.take_reads();
    assert!(reads.objects <= 40 && reads.calls <= 10, "{reads:?}");
}

/// One millisecond a call: a walk over what takes thousands of objects takes a fraction of the seconds.
#[test]
fn a_walk_does_not_wait_for_each_object() {
    let far = Far::with_delay(Native::new(), Duration::from_millis(1));
    let commit = far.commit("main", numbered("wide/e", 100_000));
    let (_, tree) = far.trees(commit);
    assert_eq!(tree.walk_all("").unwrap().map(Result::unwrap).count(), 100_001);
    let reads = far.slow.take_reads();
    assert!(reads.objects > 2000 && reads.calls < 30, "{reads:?}");
}

/// Where objects are lent, no call is made, and nothing is read ahead.
#[test]
fn what_is_lent_is_not_read() {
    let memory = Arc::new(MemoryBackend::new());
    let slow = Arc::new(Slow::new(memory.clone(), Duration::ZERO).lending());
    let far = Far { near: Repo::memory(), far: Repo::with_backend(Native::new(), slow.clone()), slow };
    let main = far.far.branch("main").unwrap();
    let mut commits = Vec::new();
    for version in 0..2 {
        let mut tree = main.tree().unwrap();
        for n in 0..3000 {
            tree.set(format!("d{n}/v"), format!("{}", n % 7 * version).as_bytes()).unwrap();
        }
        commits.push(main.commit(&mut tree, &Info::unsigned("data")).unwrap());
    }
    let trees = [0, 1].map(|version| far.far.checkout(commits[version]).unwrap());
    far.slow.take_reads();
    assert_eq!(walked(&trees[0]).len(), 6000);
    assert_eq!(trees[0].walk_values("").unwrap().map(Result::unwrap).count(), 6000);
    let [before, after] = trees;
    let mut edited = before.clone();
    (0..3000).for_each(|n| edited.set(format!("d{n}/w"), b"new").unwrap());
    edited.write().unwrap();
    assert_eq!(merge::trees(Some(&before), &edited, &after).unwrap().conflicts, []);
    assert_eq!(different(before, after).len(), 3000 - 3000_usize.div_ceil(7));
    assert_eq!(far.slow.take_reads(), Reads::default());
}

/// What thousands of directories have in common is read once, and kept as long as it will be wanted.
#[test]
fn directories_that_are_the_same_are_read_once() {
    let far = Far::new(Native::new());
    let main = far.near.branch("main").unwrap();
    let mut tree = main.tree().unwrap();
    for n in 0..2000 {
        tree.set(format!("d{n:04}/v"), b"the same").unwrap();
        tree.set(format!("e{n:04}/v"), format!("{n}").as_bytes()).unwrap();
        tree.set(format!("e{n:04}/w/v"), b"the same").unwrap();
    }
    let commit = main.commit(&mut tree, &Info::unsigned("data")).unwrap();
    let (near, tree) = far.trees(commit);
    assert_eq!(walked(&tree), walked(&near));
    let reads = far.assert_within("the same", far.depth(&[near_root(&far, commit)], &[Kind::Node]));
    assert!(reads.objects < 2000 + 300, "{reads:?}");
}

fn near_root<F: Format>(far: &Far<F>, commit: CommitId) -> TreeId {
    far.near.read_commit(commit).unwrap().tree
}

/// A caller that wants the beginning reads little more; and a listing within bounds reads nothing beyond them.
#[test]
fn who_stops_early_reads_little() {
    let far = Far::new(Native::new());
    let commit = far.commit("main", numbered("wide/e", 100_000));
    let (_, tree) = far.trees(commit);
    let first: Vec<_> = tree.list("wide").unwrap().take(3).map(Result::unwrap).collect();
    assert_eq!(first[2].step(), b"e000002");
    let reads = far.slow.take_reads();
    assert!(reads.objects <= 4 * 128 && reads.calls <= 6, "{reads:?}");

    for listing in [Listing::new(), Listing::new().reverse()] {
        let page = listing.starting_at(b"e050000").to(b"e050100");
        assert_eq!(tree.list_with("wide", &page).unwrap().map(Result::unwrap).count(), 100);
        let reads = far.slow.take_reads();
        assert!(reads.objects <= 24 && reads.calls <= 6, "{reads:?}");
    }

    // Pieces say how many entries are below them: those that are left out are not read.
    for (listing, wanted) in [
        (Listing::new().skip(70_000), "e070000"),
        (Listing::new().skip(70_000).reverse(), "e029999"),
        (Listing::new().starting_at(b"e010000").to(b"e090000").skip(70_000), "e080000"),
        (Listing::new().starting_at(b"e010000").to(b"e090000").skip(70_000).reverse(), "e019999"),
    ] {
        let mut page = tree.list_with("wide", &listing.limit(1)).unwrap();
        assert_eq!(page.next().unwrap().unwrap().step(), wanted.as_bytes());
        let reads = far.slow.take_reads();
        assert!(reads.objects <= 4 * 128 && reads.calls <= 8, "{reads:?}");
    }
}

/// Directories that are many times the window together: it is not exceeded, and calls are no more than it takes.
#[test]
fn large_objects_stay_within_the_window() {
    let far = Far::new(Git::sha1());
    let long = "n".repeat(200);
    let paths = (0..120).flat_map(|dir| (0..500).map(move |n| (dir, n)));
    let commit = far.commit("main", paths.map(|(dir, n)| format!("d{dir}/{long}{n}")));
    let (near, tree) = far.trees(commit);
    assert_eq!(walked(&tree), walked(&near));
    let reads = far.assert_within("large", 2);
    assert!(reads.bytes > AHEAD_BYTES_MAX as u64 && reads.held_bytes_max > AHEAD_BYTES_MAX as u64 / 2, "{reads:?}");
}

/// Directories that fill the window, and others in each: what waits gives way to what is wanted first, so that no call is
/// a small one.
#[test]
fn what_waits_gives_way_to_what_is_wanted_first() {
    let far = Far::new(Git::sha1());
    let long = "n".repeat(2000);
    let places = (0..80).flat_map(|dir| ["", "x/", "y/", "z/"].map(|below| format!("d{dir:02}/{below}")));
    let commit = far.commit(
        "main",
        places.flat_map(|place| (0..60).map(move |n| (place.clone(), n))).map(|(place, n)| format!("{place}{long}{n}")),
    );
    let (near, tree) = far.trees(commit);
    assert_eq!(walked(&tree), walked(&near));
    let reads = far.assert_within("large", 3);
    assert!(reads.bytes > 3 * AHEAD_BYTES_MAX as u64, "{reads:?}");
}

/// An object that cannot be read fails where the walk comes to it, and not where it is read ahead.
#[test]
fn what_cannot_be_read_fails_in_its_place() {
    let far = Far::new(Native::new());
    let commit = far.commit("main", (0..600).map(|n| format!("d{n:03}/v")));
    let (near, tree) = far.trees(commit);
    let oid = |dir: &str| near.entry(dir).unwrap().unwrap().object().unwrap().oid;
    // What is further on is met first, while it can be.
    for (dir, lost) in [("d500", true), ("d400", false)] {
        if lost {
            far.slow.lose_object(oid(dir))
        } else {
            far.slow.break_object(oid(dir))
        }
        let mut walk = tree.walk_all("").unwrap();
        let paths: Vec<String> = walk.by_ref().map_while(Result::ok).map(|(path, _)| path.to_string()).collect();
        assert_eq!(paths.last().unwrap(), dir);
        assert!(walk.next().is_none());
        let failed = tree.walk_all("").unwrap().find_map(Result::err).unwrap();
        assert!(
            matches!((lost, &failed), (true, Error::Missing { .. }) | (false, Error::Corrupt { .. })),
            "{failed:?}"
        );
    }
}

/// Edits that wait are seen over what is read ahead.
#[test]
fn edits_are_listed_over_what_is_read_ahead() {
    let far = Far::new(Native::new());
    let commit = far.commit("main", (0..3000).map(|n| format!("dirs/d{n:04}/v")));
    let (mut near, mut tree) = far.trees(commit);
    for edited in [&mut near, &mut tree] {
        edited.set("dirs/d0100/w", b"new").unwrap();
        edited.remove("dirs/d0200").unwrap();
        edited.set("dirs/d0300", b"a value in its place").unwrap();
        edited.set("dirs/d9999/v", b"new").unwrap();
    }
    assert_eq!(walked(&tree), walked(&near));
    let reads = far.slow.take_reads();
    assert!(reads.calls <= 60, "{reads:?}");
}

fn logs_take_few_calls<F: Format + Debug>(format: F) {
    let far = Far::new(format);
    let main = far.near.branch("main").unwrap();
    let mut tree = main.tree().unwrap();
    for n in 0..100 {
        tree.set("value", format!("{n}").as_bytes()).unwrap();
        main.commit(&mut tree, &Info::unsigned(format!("main {n}"))).unwrap();
    }
    let base = far.near.revparse("main").unwrap();
    let mut heads = Vec::new();
    for branch in 0..300 {
        let side = far.near.branch(&format!("side-{branch}")).unwrap();
        let mut tree = far.near.checkout(base).unwrap();
        let mut head = None;
        for n in 0..10 {
            tree.set("side", format!("{branch} {n}").as_bytes()).unwrap();
            let info = Info::unsigned(format!("{branch} {n}"));
            head = Some(side.commit_over(head, &mut tree, &[head.unwrap_or(base)], &info).unwrap());
        }
        heads.extend(head);
    }
    let depth = far.depth(&heads, &[Kind::Commit]);
    assert_eq!(depth, 110);
    for order in [LogOrder::Date, LogOrder::Topological, LogOrder::TopologicalByDate] {
        let log = |repo: &Repo<F>| -> Vec<Oid> {
            let options = LogOptions::default().order(order);
            repo.log(&heads, options).map(|entry| entry.unwrap().id.oid()).collect()
        };
        let near = log(&far.near);
        far.slow.take_reads();
        assert_eq!(log(&far.far), near);
        assert_eq!(near.len(), 3100);
        far.assert_within(&format!("{} {order:?}", F::NAME), depth);
    }
}

#[test]
fn native_logs_take_few_calls() {
    logs_take_few_calls(Native::new());
}

#[test]
fn git_logs_take_few_calls() {
    logs_take_few_calls(Git::sha1());
}

#[test]
fn tezos_logs_take_few_calls() {
    logs_take_few_calls(Tezos::new());
}

/// Changes entries of a tree here and there: `start` says which; some are removed, and beside some another is added.
fn scatter<F: Format>(tree: &mut Tree<F>, paths: &[String], start: usize, side: &str) {
    let step = (paths.len() / 700).max(2);
    for (n, path) in paths.iter().skip(start).step_by(step).enumerate() {
        match n % 6 {
            0 => tree.remove(path).unwrap(),
            1 => tree.set(format!("{path}-{side}"), b"new").unwrap(),
            _ => tree.set(path, format!("{side} {n}").as_bytes()).unwrap(),
        }
    }
}

fn merges_take_few_calls<F: Format>(format: F) {
    for (shape, paths) in shapes() {
        let far = Far::new(format.clone());
        let base = far.commit("main", paths.iter().cloned());
        let mut sides = [0, 1].map(|side| {
            let branch = far.near.branch(&format!("side-{side}")).unwrap();
            let mut tree = far.near.checkout(base).unwrap();
            scatter(&mut tree, &paths, side, &format!("{side}"));
            tree.set(&paths[paths.len() / 2], format!("both {side}").as_bytes()).unwrap();
            branch.commit_over(None, &mut tree, &[base], &Info::unsigned("side")).unwrap()
        });
        for _ in 0..2 {
            let [ours, theirs] = sides;
            let depth = far.depth(&[base, ours, theirs].map(|at| near_root(&far, at)), &[Kind::Node]);
            let merged = |repo: &Repo<F>| {
                let [base, ours, theirs] = [base, ours, theirs].map(|at| repo.checkout(at).unwrap());
                far.slow.take_reads();
                let merged = merge::trees(Some(&base), &ours, &theirs).unwrap();
                (merged.tree.root().unwrap(), merged.conflicts)
            };
            let (root, conflicts) = merged(&far.near);
            assert_eq!(merged(&far.far), (root, conflicts.clone()));
            far.assert_within(&format!("{} {shape}", F::NAME), depth);
            assert!(!conflicts.is_empty());
            sides.reverse();
        }
    }
}

#[test]
fn native_merges_take_few_calls() {
    merges_take_few_calls(Native::new());
}

#[test]
fn git_merges_take_few_calls() {
    merges_take_few_calls(Git::sha1());
}

#[test]
fn tezos_merges_take_few_calls() {
    merges_take_few_calls(Tezos::new());
}

fn commits_take_few_calls<F: Format>(format: F) {
    for (shape, paths) in shapes() {
        let far = Far::new(format.clone());
        let head = far.commit("main", paths.iter().cloned());
        let depth = far.depth(&[head], &[Kind::Node]);
        let commit = |repo: &Repo<F>| {
            let mut tree = repo.checkout(head).unwrap();
            scatter(&mut tree, &paths, 0, "side");
            far.slow.take_reads();
            repo.commit_tree(&mut tree, &[head], &Info::unsigned("changes")).unwrap().oid()
        };
        let near = commit(&far.near);
        assert_eq!(commit(&far.far), near);
        far.assert_within(&format!("{} {shape}", F::NAME), depth);
    }
}

#[test]
fn native_commits_take_few_calls() {
    commits_take_few_calls(Native::new());
}

#[test]
fn git_commits_take_few_calls() {
    commits_take_few_calls(Git::sha1());
}

#[test]
fn tezos_commits_take_few_calls() {
    commits_take_few_calls(Tezos::new());
}

/// The commits that a log of paths gives, by their messages.
fn logged<F: Format>(repo: &Repo<F>, heads: &[CommitId], options: &LogOptions) -> Vec<Vec<u8>> {
    repo.log(heads, options.clone()).map(|entry| entry.unwrap().commit.message).collect()
}

/// The line of commits is known commit by commit; each tree is then read level by level beside the commits that follow.
fn logs_of_paths_take_few_calls<F: Format>(format: F) {
    let far = Far::new(format);
    let head = line_of_commits(&far);
    let line = far.depth(&[head], &[Kind::Commit]);
    let tree = far.depth(&[near_root(&far, head)], &[Kind::Node]);
    assert!(tree < 310);
    // The deepest path here has five directories above it, of which each can be in pieces.
    let depth = line + 10;
    let first = far.near.log(&[head], LogOptions::default()).last().unwrap().unwrap().id;
    let paths = ["dirs/d0014", "dirs/d0777/v1", "0/0/0/0/v"];
    let logs = [
        LogOptions::default(),
        LogOptions::default().order(LogOrder::Topological),
        LogOptions::default().order(LogOrder::TopologicalByDate),
        LogOptions::default().first_parent(true),
        LogOptions::default().exclude(vec![first]),
    ];
    for (number, options) in logs.into_iter().enumerate() {
        for paths in [&paths[..1], &paths[1..2], &paths[2..], &paths[..]] {
            let options = options.clone().paths(paths.iter().map(|path| path.parse().unwrap()).collect::<Vec<_>>());
            let near = logged(&far.near, &[head], &options);
            far.slow.take_reads();
            assert_eq!(logged(&far.far, &[head], &options), near);
            far.assert_within(&format!("{} {number} {paths:?}", F::NAME), depth);
        }
    }
    for indexed in [false, true] {
        if indexed {
            far.far.index_history(head).unwrap();
        }
        for path in paths {
            let near = far.near.last_change(head, path).unwrap().map(|entry| entry.commit.message);
            far.slow.take_reads();
            assert_eq!(far.far.last_change(head, path).unwrap().map(|entry| entry.commit.message), near);
            let reads = far.assert_within(&format!("{} {path} {indexed}", F::NAME), depth);
            assert!(!indexed || reads.calls < 30, "{reads:?}");
        }
    }
}

#[test]
fn native_logs_of_paths_take_few_calls() {
    logs_of_paths_take_few_calls(Native::new());
}

#[test]
fn git_logs_of_paths_take_few_calls() {
    logs_of_paths_take_few_calls(Git::sha1());
}

#[test]
fn tezos_logs_of_paths_take_few_calls() {
    logs_of_paths_take_few_calls(Tezos::new());
}

/// Everything below a commit, each object once, in the order in which it is met.
fn below<F: Format>(far: &Far<F>, root: Oid) -> Vec<Oid> {
    let (mut all, mut met) = (vec![root], HashSet::from([root]));
    let mut next = 0;
    while let Some(oid) = all.get(next) {
        let object = far.near.backend().read(&(*oid).into()).unwrap().unwrap();
        let each = &mut |_, oid| all.extend(met.insert(oid).then_some(oid));
        far.near.format().children(object.kind(), object.body(), each).unwrap();
        next += 1;
    }
    all
}

fn structures_are_checked_in_few_calls<F: Format>(format: F) {
    let far = Far::new(format);
    let main = far.near.branch("main").unwrap();
    let mut tree = main.tree().unwrap();
    let mut rng = Rng::new(1);
    shapes().into_iter().flat_map(|(_, paths)| paths).for_each(|path| tree.set(path, b"some").unwrap());
    (0..300).for_each(|n| tree.set(format!("values/{n}"), rng.bytes(50_000)).unwrap());
    tree.set("large", rng.bytes(40 << 20)).unwrap();
    let head = main.commit(&mut tree, &Info::unsigned("data")).unwrap();
    let mut most = Reads::default();
    for oid in below(&far, head.oid()) {
        let object = far.near.backend().read(&oid.into()).unwrap().unwrap();
        far.slow.take_reads();
        far.far.check_structure(&object, object.kind() == Kind::Commit, &mut Checked::new()).unwrap();
        // What it names, the pieces below that beside each seam, and those beside them.
        let reads = far.assert_within(&format!("{} {} {oid}", F::NAME, object.kind()), 8);
        most.objects = most.objects.max(reads.objects);
        most.bytes = most.bytes.max(reads.bytes);
    }
    if F::NAME == "native" {
        assert!(most.objects > 100 && most.bytes > AHEAD_BYTES_MAX as u64, "{most:?}");
    } else {
        assert_eq!(most, Reads::default(), "each object says all that these formats ask");
    }
}

#[test]
fn native_structures_are_checked_in_few_calls() {
    structures_are_checked_in_few_calls(Native::new());
}

#[test]
fn git_structures_are_checked_in_few_calls() {
    structures_are_checked_in_few_calls(Git::sha1());
}

#[test]
fn tezos_structures_are_checked_in_few_calls() {
    structures_are_checked_in_few_calls(Tezos::new());
}

/// What is edited or merged is many times the window: it goes in portions.
#[test]
fn large_edits_stay_within_the_window() {
    let far = Far::new(Git::sha1());
    let long = "n".repeat(200);
    let paths = (0..120).flat_map(|dir| (0..500).map(move |n| (dir, n)));
    let base = far.commit("main", paths.map(|(dir, n)| format!("d{dir}/{long}{n}")));
    let edit = |repo: &Repo<Git>, step: usize| {
        let mut tree = repo.checkout(base).unwrap();
        (0..120).for_each(|dir| tree.set(format!("d{dir}/{long}{}", dir * step), b"new").unwrap());
        far.slow.take_reads();
        repo.commit_tree(&mut tree, &[base], &Info::unsigned("changes")).unwrap()
    };
    let sides = [1, 2].map(|step| edit(&far.near, step));
    assert_eq!(edit(&far.far, 2).oid(), sides[1].oid());
    let reads = far.assert_within("edits", 3);
    assert!(reads.bytes > AHEAD_BYTES_MAX as u64 && reads.held_bytes_max > AHEAD_BYTES_MAX as u64 / 3, "{reads:?}");
    let merged = |repo: &Repo<Git>| {
        let [base, ours, theirs] = [base, sides[0], sides[1]].map(|at| repo.checkout(at).unwrap());
        far.slow.take_reads();
        merge::trees(Some(&base), &ours, &theirs).unwrap().tree.root().unwrap()
    };
    let near = merged(&far.near);
    assert_eq!(merged(&far.far), near);
    let reads = far.assert_within("merge", 3);
    assert!(reads.bytes > 3 * AHEAD_BYTES_MAX as u64, "{reads:?}");
}

/// An object that cannot be read fails where it is edited, and not where it is read ahead.
#[test]
fn what_cannot_be_read_fails_where_it_is_edited() {
    let far = Far::new(Native::new());
    let base = far.commit("main", (0..600).map(|n| format!("d{n:03}/v")));
    let (near, _) = far.trees(base);
    let broken = near.entry("d400").unwrap().unwrap().object().unwrap().oid;
    far.slow.break_object(broken);
    for (edited, fails) in [(400, false), (401, true), (600, true)] {
        let edit = |repo: &Repo<Native>| {
            let mut tree = repo.checkout(base).unwrap();
            (0..edited).for_each(|n| tree.set(format!("d{n:03}/v"), b"new").unwrap());
            repo.commit_tree(&mut tree, &[base], &Info::unsigned("changes")).map(|at| at.oid())
        };
        let near = edit(&far.near).unwrap();
        match edit(&far.far) {
            Err(Error::Corrupt { oid, .. }) => assert!(fails && oid == Some(broken), "{edited}"),
            done => assert_eq!((done.unwrap(), fails), (near, false)),
        }
    }
}

/// Commits on one line, each of which changes some directories.
fn line_of_commits<F: Format>(far: &Far<F>) -> CommitId {
    far.commit("main", shapes().into_iter().filter(|(shape, _)| *shape != "wide").flat_map(|(_, paths)| paths));
    let main = far.near.branch("main").unwrap();
    let mut tree = main.tree().unwrap();
    for n in 0..300_usize {
        for place in [n * 7, n * 31 + 5, n * 113 + 11] {
            tree.set(format!("dirs/d{:04}/v1", place % 2000), format!("{n}").as_bytes()).unwrap();
        }
        main.commit(&mut tree, &Info::unsigned(format!("{n}"))).unwrap();
    }
    main.head().unwrap().unwrap()
}

fn histories_are_copied_in_few_calls<F: Format>(format: F) {
    let far = Far::new(format.clone());
    let head = line_of_commits(&far);
    let depth = far.depth(&[head], &[Kind::Commit, Kind::Node, Kind::Contents]);
    let to = Repo::with_backend(format, Arc::new(MemoryBackend::new()));
    far.slow.take_reads();
    let copied = to.copy_objects(&far.far, &[head]).unwrap();
    let reads = far.assert_within(F::NAME, depth);
    assert!(reads.objects >= copied.objects, "{reads:?}, {copied:?}");
    let tree = to.checkout(CommitId::new(head.oid())).unwrap();
    assert_eq!(walked(&tree), walked(&far.near.checkout(head).unwrap()));
}

#[test]
fn native_histories_are_copied_in_few_calls() {
    histories_are_copied_in_few_calls(Native::new());
}

#[test]
fn git_histories_are_copied_in_few_calls() {
    histories_are_copied_in_few_calls(Git::sha1());
}

#[test]
fn tezos_histories_are_copied_in_few_calls() {
    histories_are_copied_in_few_calls(Tezos::new());
}

fn histories_are_indexed_in_few_calls<F: Format>(format: F) {
    let far = Far::new(format);
    let head = line_of_commits(&far);
    let depth = far.depth(&[head], &[Kind::Commit, Kind::Node]);
    far.slow.take_reads();
    assert_eq!(far.far.index_history(head).unwrap(), 301);
    far.assert_within(F::NAME, depth);
    let found = far.far.last_change(head, "dirs/d0014").unwrap().unwrap();
    assert_eq!(found.commit.message, b"2");
}

#[test]
fn native_histories_are_indexed_in_few_calls() {
    histories_are_indexed_in_few_calls(Native::new());
}

#[test]
fn git_histories_are_indexed_in_few_calls() {
    histories_are_indexed_in_few_calls(Git::sha1());
}

#[test]
fn tezos_histories_are_indexed_in_few_calls() {
    histories_are_indexed_in_few_calls(Tezos::new());
}

fn values_are_read_in_few_calls<F: Format>(format: F) {
    let far = Far::new(format);
    let main = far.near.branch("main").unwrap();
    let mut tree = main.tree().unwrap();
    let mut rng = Rng::new(1);
    for n in 0..1500 {
        let bytes = if n % 3 == 0 { 30_000 } else { 100 };
        tree.set(format!("d{}/f{n}", n % 40), rng.bytes(bytes)).unwrap();
    }
    let head = main.commit(&mut tree, &Info::unsigned("values")).unwrap();
    let depth = far.depth(&[near_root(&far, head)], &[Kind::Node, Kind::Contents]);
    let (near, tree) = far.trees(head);
    let mut count = 0;
    for (one, other) in tree.walk_values("").unwrap().zip(near.walk_all("").unwrap()) {
        let ((path, one), (expected, other)) = (one.unwrap(), other.unwrap());
        assert_eq!((&path, one.contents().unwrap()), (&expected, other.contents().unwrap()));
        assert_eq!(one.read(5..50).unwrap(), other.read(5..50).unwrap());
        count += 1;
    }
    assert_eq!(count, 1540);
    let reads = far.assert_within(F::NAME, depth);
    assert!(reads.bytes > AHEAD_BYTES_MAX as u64, "{reads:?}");

    // Those of one directory, from one name to another; what it leads to further down is not read.
    let mut some = far.near.checkout(head).unwrap();
    for n in 0..2000 {
        some.set(format!("many/f{n:04}"), format!("{n}").repeat(50)).unwrap();
        some.set(format!("many/f{n:04}-below/v"), "not read").unwrap();
    }
    let root = some.write().unwrap();
    let depth = far.depth(&[root], &[Kind::Node, Kind::Contents]);
    let tree = far.far.tree_at(root);
    far.slow.take_reads();
    let values = tree.range_values("many", "f0100".."f1900").unwrap().map(|entry| entry.unwrap());
    let values: Vec<_> = values.filter_map(|entry| Some((entry.step().to_vec(), entry.contents().unwrap()?))).collect();
    assert_eq!(values.len(), 1800);
    assert!(values.iter().all(|(step, value)| {
        let number = std::str::from_utf8(&step[1..]).unwrap().parse::<u32>().unwrap();
        **value == *format!("{number}").repeat(50).as_bytes()
    }));
    let reads = far.assert_within(&format!("{} range", F::NAME), depth);
    assert!(reads.objects < 3500, "{reads:?}");
}

#[test]
fn native_values_are_read_in_few_calls() {
    values_are_read_in_few_calls(Native::new());
}

#[test]
fn git_values_are_read_in_few_calls() {
    values_are_read_in_few_calls(Git::sha1());
}

#[test]
fn tezos_values_are_read_in_few_calls() {
    values_are_read_in_few_calls(Tezos::new());
}

/// A value of hundreds of pieces.
#[test]
fn large_values_are_read_in_few_calls() {
    let far = Far::new(Native::new());
    let main = far.near.branch("main").unwrap();
    let mut tree = main.tree().unwrap();
    let value = Rng::new(1).bytes(24 << 20);
    tree.set("large", &value).unwrap();
    let head = main.commit(&mut tree, &Info::unsigned("large")).unwrap();
    let depth = far.depth(&[near_root(&far, head)], &[Kind::Node, Kind::Pieces, Kind::Contents]);
    let (_, tree) = far.trees(head);
    assert!(tree.get("large").unwrap().unwrap() == value);
    far.assert_within("large", depth);
}

/// A repository of Git on this machine, or a disk without maps: to look ahead there is work for nothing.
fn little_is_asked_for_in_vain<F: Format>(format: F) {
    let far = Far::over(format, |memory| Slow::new(memory, Duration::ZERO).one_by_one());
    let head = line_of_commits(&far);
    let assert_little = |what: &str| {
        let reads = far.slow.take_reads();
        // The sizes of calls fall to one, and rise to two now and then.
        assert!(reads.objects > 100, "{what}: {reads:?}");
        assert!(reads.asked <= reads.objects + reads.calls / 16 + 600, "{} {what}: {reads:?}", F::NAME);
    };
    let (_, tree) = far.trees(head);
    walked(&tree);
    assert_little("walk");
    let first = far.near.log(&[head], LogOptions::default()).last().unwrap().unwrap().id;
    different(far.far.checkout(first).unwrap(), tree);
    assert_little("difference");
    for paths in [&[][..], &["dirs/d0014", "0/0/0/0/v"]] {
        let paths: Vec<_> = paths.iter().map(|path| path.parse().unwrap()).collect();
        for order in [LogOrder::Date, LogOrder::Topological, LogOrder::TopologicalByDate] {
            let options = LogOptions::default().order(order).paths(paths.clone());
            assert_eq!(logged(&far.far, &[head], &options), logged(&far.near, &[head], &options));
            assert_little(&format!("log {order:?} {paths:?}"));
        }
    }
    let mut tree = far.far.checkout(head).unwrap();
    for number in 0..1000 {
        tree.set(format!("dirs/d{number:04}/v1"), "new").unwrap();
    }
    far.far.commit_tree(&mut tree, &[head], &Info::unsigned("many")).unwrap();
    assert_little("commit");
}

#[test]
fn little_is_asked_for_in_vain_where_a_call_brings_one_object() {
    little_is_asked_for_in_vain(Native::new());
    little_is_asked_for_in_vain(Git::sha1());
    little_is_asked_for_in_vain(Tezos::new());
}
