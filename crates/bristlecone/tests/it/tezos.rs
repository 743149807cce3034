//! The store over the format of Tezos contexts: the same promises, ids that do not depend on how a directory is
//! stored, and refusals of what a context cannot say.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use bristlecone::{
    Backend, CommitId, Durability, EntryKind, Error, Info, Listing, LogOptions, MemoryBackend, Oid, Path, Repo,
    Signature, Tezos, Tree,
    disk::{DiskBackend, DiskOptions, FormatTag},
};
use bristlecone_testkit::{
    generate::{Edit, Rng, Shape, Universe},
    model::{Listed, Model},
    sim::{Policy, SimStorage},
};

use crate::engine::{Store, open, tiny};

fn memory() -> Repo<Tezos> {
    Repo::with_backend(Tezos::new(), Arc::new(MemoryBackend::new()))
}

/// Backends to run a test on; one is on disk and reopens.
fn stores() -> [Option<Store>; 2] {
    [None, Some(Store::simulated_small())]
}

fn open_store(store: &Option<Store>) -> Repo<Tezos> {
    store.as_ref().map_or_else(memory, |store| Repo::with_backend(Tezos::new(), store.open()))
}

fn path(at: &[u8]) -> Path {
    Path::from_bytes(at).unwrap()
}

/// Checks that every object's id is that of what is stored, and returns how many there are.
fn check_objects(repo: &Repo<Tezos>) -> usize {
    let mut objects = 0;
    let mut each = |oid: Oid, object: &bristlecone::Object<'_>| {
        objects += 1;
        bristlecone::Format::children(repo.format(), object.kind(), object.body(), &mut |_, _| ())?;
        assert_eq!(repo.hash_object(object)?, oid);
        Ok(())
    };
    repo.backend().each_object(&mut each, &mut |damage| panic!("{damage:?}")).unwrap();
    objects
}

/// Returns the root of a tree with these values, built in this order.
fn built<'v>(values: impl IntoIterator<Item = (&'v [u8], &'v [u8])>) -> Oid {
    let mut tree = memory().tree();
    for (at, value) in values {
        tree.set(path(at), value).unwrap();
    }
    tree.root().unwrap().into()
}

fn compare(tree: &Tree<Tezos>, model: &Model, rng: &mut Rng) {
    let mut found = BTreeMap::new();
    for entry in tree.walk_all("").unwrap() {
        let (at, entry) = entry.unwrap();
        if let Some(value) = entry.contents().unwrap() {
            assert_eq!(entry.bytes(), Some(value.len() as u64));
            found.insert(at.as_bytes().to_vec(), value.to_vec());
        }
    }
    assert!(found.iter().map(|(at, value)| (&at[..], 0, &value[..])).eq(model.values()), "the values of a tree");
    let mut values: Vec<(&[u8], &[u8])> = model.values().map(|(at, _, value)| (at, value)).collect();
    if values.is_empty() {
        assert!(matches!(tree.root(), Err(Error::Format(_))));
        return;
    }
    rng.shuffle(&mut values);
    assert_eq!(tree.root().unwrap(), built(values).into(), "the root of a tree built in another order");
}

fn apply(edit: &Edit, tree: &mut Tree<Tezos>, model: &mut Model) {
    match edit {
        Edit::Add(at, value) => {
            let mut other = tree.clone();
            let added = other.set(path(at), &value[..]).and_then(|()| other.root());
            assert_eq!(matches!(added, Err(Error::IsDirectory { .. })), model.is_dir(at), "{added:?} at {}", path(at));
            tree.replace(path(at), &value[..]).unwrap();
            model.add(at, 0, value);
        }
        Edit::Remove(at) => {
            tree.remove(path(at)).unwrap();
            model.remove(at);
        }
        Edit::Update(at) => {
            let longer = |old: Option<&[u8]>| [old.unwrap_or_default(), b"+"].concat();
            let updated = tree.update(path(at), |old| Some(longer(old)));
            assert_eq!(updated.is_err(), model.is_dir(at));
            if updated.is_err() {
                return;
            }
            let new = longer(model.find(at));
            model.add(at, 0, &new);
        }
        Edit::Find(at) => {
            assert_eq!(tree.get(path(at)).unwrap().as_deref(), model.find(at));
            assert_eq!(tree.contains_tree(path(at)).unwrap(), model.is_dir(at));
        }
        Edit::List(at) => {
            let listed: Vec<(Vec<u8>, bool)> = tree
                .list(path(at))
                .unwrap()
                .map(|entry| entry.map(|entry| (entry.step().to_vec(), entry.kind() == EntryKind::Dir)).unwrap())
                .collect();
            let wanted = model.list(at).into_iter().map(|(step, entry)| (step, entry == Listed::Dir));
            assert!(listed.into_iter().eq(wanted), "the entries of {}", path(at));
        }
        Edit::Copy(from, to) => {
            if model.count_below(from, 200) < 200
                && from.len() + to.len() < 300
                && let Some(part) = model.subtree(from)
            {
                let copied = tree.get_tree(path(from)).unwrap().unwrap();
                tree.set_tree(path(to), &copied).unwrap();
                model.add_tree(to, &part);
            }
        }
    }
}

#[test]
fn random_edits_agree_with_the_model() {
    for (seed, shape) in (0..).zip([Shape::Small, Shape::Deep, Shape::Wide, Shape::Wide]) {
        for store in stores() {
            let (mut rng, universe) = (Rng::new(seed), Universe::new(shape, 100));
            let mut repo = open_store(&store);
            let (mut tree, mut model) = (repo.tree(), Model::new());
            let mut commits: Vec<(CommitId, Model)> = Vec::new();
            for round in 0..6_000 {
                apply(&universe.edit(&mut rng), &mut tree, &mut model);
                match rng.below(400) {
                    0 | 1 if !model.is_empty() => {
                        let parents: Vec<CommitId> = commits.last().map(|(at, _)| *at).into_iter().collect();
                        let info = Info::unsigned(format!("{round}")).durability(Durability::None);
                        let at = repo.commit_tree(&mut tree, &parents, &info).unwrap();
                        commits.push((at, model.clone()));
                    }
                    2 if store.is_some() && !model.is_empty() => {
                        let root = tree.write().unwrap();
                        repo.flush().unwrap();
                        repo = open_store(&store);
                        tree = repo.tree_at(root.oid().into());
                    }
                    3 => compare(&tree, &model, &mut rng),
                    4 if !commits.is_empty() => {
                        let (at, before) = rng.pick(&commits);
                        compare(&repo.checkout(*at).unwrap(), before, &mut rng);
                        compare_diff(&repo.checkout(*at).unwrap(), before, &tree, &model);
                    }
                    _ => {}
                }
            }
            compare(&tree, &model, &mut rng);
            assert!(commits.len() > 10 && check_objects(&repo) > 100);
        }
    }
}

fn compare_diff(before: &Tree<Tezos>, old: &Model, after: &Tree<Tezos>, new: &Model) {
    let found = before.diff(after, "").unwrap().map(|found| found.unwrap().path.as_bytes().to_vec());
    let found: BTreeSet<Vec<u8>> = found.collect();
    assert!(found.iter().map(Vec::as_slice).eq(old.diff(new).into_keys()), "what differs");
}

/// Checks all that can be asked of the directory `wide`, which holds these.
fn check_wide(tree: &Tree<Tezos>, wide: &BTreeMap<String, String>, rng: &mut Rng) {
    assert_eq!(tree.count("wide").unwrap(), wide.len() as u64);
    let steps = |listing: &Listing| -> Vec<String> {
        let entries = tree.list_with("wide", listing).unwrap();
        entries.map(|entry| String::from_utf8(entry.unwrap().step().to_vec()).unwrap()).collect()
    };
    let keys: Vec<String> = wide.keys().cloned().collect();
    let reverse: Vec<String> = keys.iter().rev().cloned().collect();
    assert_eq!((steps(&Listing::new()), steps(&Listing::new().reverse())), (keys.clone(), reverse));
    for _ in 0..3 {
        let mut bounds = [format!("{:04}", rng.below(6000)), format!("name-{}", rng.below(6000))];
        bounds.sort();
        let [from, to] = bounds;
        let within: Vec<String> = wide.range(from.clone()..to.clone()).map(|(name, _)| name.clone()).collect();
        let listing = Listing::new().starting_at(from.as_bytes()).to(to.as_bytes());
        assert_eq!(steps(&listing), within);
        let last: Vec<String> = within.iter().rev().take(10).cloned().collect();
        assert_eq!(steps(&listing.reverse().limit(10)), last);
    }
    let prefixed: Vec<String> = keys.iter().filter(|name| name.starts_with("name-3")).cloned().collect();
    assert_eq!(steps(&Listing::new().prefix(b"name-3")), prefixed);
    for (name, value) in wide.iter().skip(rng.index(20)).step_by(20) {
        assert_eq!(tree.get(format!("wide/{name}").as_str()).unwrap().unwrap(), value.as_bytes());
    }
    assert_eq!(tree.get("wide/absent").unwrap(), None);
}

#[test]
fn wide_directories_grow_and_shrink_to_nothing() {
    let names: Vec<String> =
        (0..5000).map(|n| if n % 2 == 0 { format!("{n:04}") } else { format!("name-{n}") }).collect();
    let value = |name: &str| if name.ends_with('7') { name.repeat(20) } else { name.to_owned() };
    let mut roots: Vec<Vec<Oid>> = Vec::new();
    for (seed, store) in (1..).zip(stores()) {
        let mut rng = Rng::new(seed);
        let mut order = names.clone();
        rng.shuffle(&mut order);
        let mut repo = open_store(&store);
        let (mut tree, mut wide) = (repo.tree(), BTreeMap::new());
        tree.set("beside", b"x").unwrap();
        let (mut own, mut before) = (Vec::new(), None);
        // Each size with everything in another order, on the way up and on the way down.
        for size in [1, 31, 32, 33, 255, 256, 257, 258, 1000, 5000, 4000, 1100, 258, 257, 256, 200, 33, 32, 31, 1, 0] {
            let (have, wanted): (BTreeSet<&String>, BTreeSet<&String>) =
                (order.iter().filter(|name| wide.contains_key(*name)).collect(), names[..size].iter().collect());
            let mut edits: Vec<String> = have.symmetric_difference(&wanted).map(|name| (*name).clone()).collect();
            rng.shuffle(&mut edits);
            for name in edits {
                let at = format!("wide/{name}");
                if wanted.contains(&name) {
                    tree.set(at.as_str(), value(&name).as_bytes()).unwrap();
                    wide.insert(name.clone(), value(&name));
                } else {
                    tree.remove(at.as_str()).unwrap();
                    wide.remove(&name);
                }
                if rng.chance(1, 100) {
                    tree.write().unwrap();
                }
            }
            if rng.chance(1, 2) {
                check_wide(&tree, &wide, &mut rng);
            }
            let at = repo.commit_tree(&mut tree, &[], &Info::unsigned("")).unwrap();
            check_wide(&tree, &wide, &mut rng);
            let model = wide.iter().fold(Model::new(), |mut model, (name, value)| {
                model.add(format!("wide/{name}").as_bytes(), 0, value.as_bytes());
                model
            });
            if let Some((at, old)) = before {
                let old_tree: Tree<Tezos> = repo.checkout(at).unwrap();
                compare_diff(&old_tree, &old, &tree, &model);
                compare_diff(&tree, &model, &old_tree, &old);
            }
            before = Some((at, model));
            own.push(repo.read_commit(at).unwrap().tree.oid());
            if store.is_some() {
                repo = open_store(&store);
                tree = repo.checkout(at.oid().into()).unwrap();
            }
        }
        assert!(!tree.contains_tree("wide").unwrap(), "a directory without entries is not there");
        check_objects(&repo);
        roots.push(own);
    }
    assert_eq!(roots[0], roots[1], "the roots of other orders on another backend");
    assert_eq!(roots[0][6], roots[0][13], "the roots of 257 entries on the way up and down");
    assert_eq!(roots[0][2], roots[0][17], "the roots of 32 entries on the way up and down");
}

#[test]
fn inlining_and_splitting_change_no_id() {
    let mut heads = BTreeSet::new();
    let mut sizes = BTreeSet::new();
    for format in [Tezos::new(), Tezos::new().inline(0), Tezos::new().inline(512).split(false), Tezos::new().inline(7)]
    {
        let dir = tempfile::tempdir().unwrap();
        let repo = Repo::create(dir.path(), format, DiskOptions::default()).unwrap();
        let mut tree = repo.tree();
        for n in 0..700 {
            tree.set(format!("wide/{n}").as_str(), "v".repeat(n % 70).as_bytes()).unwrap();
            tree.set(format!("flat/{}", n % 200).as_str(), b"something short").unwrap();
        }
        let head = repo.branch("main").unwrap().commit(&mut tree, &Info::unsigned("m")).unwrap();
        heads.insert(head.oid());
        sizes.insert(check_objects(&repo));
        drop((tree, repo));
        let repo: Repo<Tezos> = Repo::open_format(dir.path(), DiskOptions::default()).unwrap();
        assert_eq!(*repo.format(), format);
        assert_eq!(repo.checkout(head).unwrap().count("wide").unwrap(), 700);
    }
    assert_eq!((heads.len(), sizes.len()), (1, 4), "{sizes:?}");
}

#[test]
fn trees_are_copied_within_a_store_and_into_another() {
    let (one, other) = (memory(), memory());
    let mut tree = one.tree();
    for n in 0..600 {
        tree.set(format!("a/wide/{n}").as_str(), format!("{n}").repeat(n % 30).as_bytes()).unwrap();
    }
    tree.write().unwrap();
    let wide = tree.get_tree("a/wide").unwrap().unwrap();
    tree.set_tree("b/c", &wide).unwrap();
    let mut edited = wide.clone();
    edited.remove("599").unwrap();
    edited.set("600", b"new").unwrap();
    tree.set_tree("d", &edited).unwrap();
    let root = tree.root().unwrap();
    let mut copy = other.tree();
    for (to, part) in [("a/wide", &wide), ("b/c", &wide), ("d", &edited)] {
        copy.set_tree(to, part).unwrap();
    }
    assert_eq!(copy.root().unwrap(), root);
    let same = |one: &str, other: &str| {
        let part = |at: &str| tree.get_tree(at).unwrap().unwrap().root().unwrap();
        part(one) == part(other)
    };
    assert!(same("a/wide", "b/c") && !same("a/wide", "d"));
    copy.write().unwrap();
    check_objects(&other);
}

#[test]
fn pruned_trees_hold_the_pieces_that_lookups_take() {
    for size in [20, 200, 2000] {
        let mut tree = memory().tree();
        for n in 0..size {
            tree.set(format!("wide/{n}").as_str(), "v".repeat(n % 90).as_bytes()).unwrap();
        }
        let pruned = tree.prune(["wide/7", "wide/no"]).unwrap();
        assert_eq!(pruned.root().unwrap(), tree.root().unwrap());
        assert_eq!(pruned.get("wide/7").unwrap().unwrap(), b"vvvvvvv");
        assert_eq!(pruned.get("wide/no").unwrap(), None);
        assert_eq!(pruned.count("wide").unwrap(), size as u64);
        let pieces = pruned.list("wide").map(Iterator::count);
        assert!(if size == 20 { pieces.is_ok() } else { matches!(pieces, Err(Error::Pruned { .. })) });
    }
}

#[test]
fn parents_have_no_order() {
    let repo = memory();
    let commit = |name: &str, parents: &[CommitId], seconds| {
        let mut tree = repo.tree();
        tree.set(name, name.as_bytes()).unwrap();
        let info = Info::message(name).by(Signature::new("Tezos", seconds));
        repo.commit_tree(&mut tree, parents, &info).unwrap()
    };
    let first = commit("first", &[], 1);
    let sides: Vec<CommitId> = (0..4).map(|n| commit(&format!("side {n}"), &[first], 2 + n)).collect();
    let mut orders = sides.clone();
    let merge = commit("merge", &orders, 10);
    for _ in 0..4 {
        orders.rotate_left(1);
        assert_eq!(commit("merge", &orders, 10), merge);
        orders.swap(0, 1);
        assert_eq!(commit("merge", &orders, 10), merge);
    }
    let parents: Vec<Oid> = repo.read_commit(merge).unwrap().parents.iter().map(|parent| parent.oid()).collect();
    let sorted: Vec<Oid> = sides.iter().map(|side| side.oid()).collect::<BTreeSet<_>>().into_iter().collect();
    assert_eq!(parents, sorted);
    assert_eq!((repo.generation(first).unwrap(), repo.generation(merge).unwrap()), (1, 3));

    let top = commit("top", &[merge], 11);
    let aside = commit("aside", &[sides[2]], 12);
    assert_eq!(repo.merge_bases(top, aside).unwrap(), [sides[2]]);
    assert_eq!(repo.merge_bases(sides[0], sides[1]).unwrap(), [first]);
    assert!(repo.is_ancestor(first, top).unwrap() && !repo.is_ancestor(aside, top).unwrap());
    let log = |heads: &[CommitId], options| -> Vec<String> {
        let entries = repo.log(heads, options);
        entries.map(|entry| String::from_utf8(entry.unwrap().commit.message).unwrap()).collect()
    };
    let all = ["aside", "top", "merge", "side 3", "side 2", "side 1", "side 0", "first"];
    assert_eq!(log(&[top, aside], LogOptions::default()), all);
    let options = LogOptions::default().exclude(vec![sides[3]]).paths(vec!["side 2".parse().unwrap()]);
    assert_eq!(log(&[aside], options), ["aside", "side 2"]);
    check_objects(&repo);
}

/// Returns what the format says of something that it refuses.
fn refusal<T: std::fmt::Debug>(refused: Result<T, Error>) -> String {
    match refused {
        Err(error @ Error::Format(_)) => error.to_string(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_a_context_cannot_hold_is_refused_and_the_tree_goes_on() {
    for store in stores() {
        let repo = open_store(&store);
        let main = repo.branch("main").unwrap();
        let mut tree = main.tree().unwrap();
        let info = Info::unsigned("m");
        assert!(refusal(tree.root()).contains("empty directory"));
        assert!(refusal(main.commit(&mut tree, &info)).contains("empty directory"));
        assert_eq!(main.head().unwrap(), None);
        tree.set("a/b", b"1").unwrap();
        let first = main.commit(&mut tree, &info).unwrap();

        // An edit that leaves nothing.
        tree.remove("a/b").unwrap();
        assert!(tree.is_empty().unwrap());
        assert!(refusal(main.commit(&mut tree, &info)).contains("empty directory"));
        assert!(tree.is_empty().unwrap() && tree.is_edited(), "the edits are kept");
        tree.set("c", b"2").unwrap();

        for kind in [EntryKind::Executable, EntryKind::Link] {
            let mut bad = tree.clone();
            bad.set_kind("x", kind, b"y").unwrap();
            assert!(refusal(main.commit(&mut bad, &info)).contains("executable"));
            bad.remove("x").unwrap();
            assert_eq!(bad.root().unwrap(), tree.root().unwrap(), "the edits are kept");
        }
        let mut bad = tree.clone();
        bad.set_foreign("x", Oid::from_array([1; 32])).unwrap();
        assert!(refusal(main.commit(&mut bad, &info)).contains("another store"));

        let mut late = Signature::new("Tezos", 5);
        late.zone = bristlecone::Zone::from_minutes(60);
        assert!(refusal(main.commit(&mut tree, &info.clone().by(late))).contains("time zone"));
        let mut two = info.clone();
        two.committer = Some(Signature::new("somebody else", 0));
        assert!(refusal(main.commit(&mut tree, &two)).contains("committer"));
        let mut more = info.clone();
        more.headers = vec![(b"key".to_vec(), b"value".to_vec())];
        assert!(refusal(main.commit(&mut tree, &more)).contains("headers"));

        assert_eq!(main.head().unwrap(), Some(first));
        let second = main.commit(&mut tree, &info).unwrap();
        assert_eq!(repo.read_commit(second).unwrap().parents, [first]);
        assert_eq!(tree.root().unwrap(), built([(&b"c"[..], &b"2"[..])]).into());
        check_objects(&repo);
    }
}

/// Power is cut after every call of a run of commits on a directory that goes through every shape: what was
/// synced is there, whatever shows is whole, and the store goes on.
#[test]
fn many_edits_that_leave_nothing_for_now_are_no_error() {
    let repo = memory();
    let main = repo.branch("main").unwrap();
    let mut tree = repo.tree();
    let paths: Vec<String> = (0..40).map(|n| format!("dir/{n}")).collect();
    paths.iter().for_each(|path| tree.set(path, "1").unwrap());
    main.commit(&mut tree, &Info::unsigned("all")).unwrap();
    paths.iter().for_each(|path| tree.remove(path).unwrap());
    // The next edit finds that those before it take too much memory.
    repo.set_pending_max(1000);
    tree.set("a", "1").unwrap();
    assert_eq!(Oid::from(tree.root().unwrap()), built([(&b"a"[..], &b"1"[..])]));
    main.commit(&mut tree, &Info::unsigned("one")).unwrap();
}

#[test]
fn a_crash_loses_nothing_synced_and_tears_no_directory() {
    let storage = SimStorage::new();
    let tag = FormatTag { name: "tezos".to_owned(), version: 0, options: String::new() };
    let options = tiny().segment_bytes(1 << 14);
    storage.keep_moments();
    let backend: Arc<dyn Backend> =
        Arc::new(DiskBackend::create(Arc::new(storage.clone()), tag, options.clone()).unwrap());
    let repo = Repo::with_backend(Tezos::new(), backend);
    let main = repo.branch("main").unwrap();
    let mut tree = main.tree().unwrap();
    // The heads in order, and the calls after which each was durable.
    let mut heads = vec![(None, storage.calls())];
    for (round, size) in [3, 40, 200, 300, 900, 280, 250, 20, 60].into_iter().enumerate() {
        for n in 0..900 {
            let at = format!("wide/{n}");
            if n < size { tree.set(at.as_str(), format!("{n}").as_bytes()) } else { tree.remove(at.as_str()) }.unwrap();
        }
        tree.set("large", vec![round as u8; 6000].as_slice()).unwrap();
        let head = main.commit(&mut tree, &Info::unsigned(format!("{size}"))).unwrap();
        heads.push((Some(head.oid()), storage.calls()));
    }
    let mut rng = Rng::new(3);
    for call in heads[0].1..=storage.calls() {
        let moment = storage.moment(call).unwrap();
        for policy in Policy::ALL {
            let after = moment.reboot(rng.next_u64(), policy);
            let repo: Repo<Tezos> = Repo::with_backend(Tezos::new(), open(Arc::new(after.clone()), &options).unwrap());
            let main = repo.branch("main").unwrap();
            let head = main.head().unwrap().map(|head| head.oid());
            let place = heads.iter().position(|(of, _)| *of == head).expect("a head that was committed");
            let synced = heads.iter().rposition(|(_, durable)| *durable <= call).unwrap();
            assert!(place == synced || place == synced + 1, "call {call}, {policy:?}: {place} after {synced}");
            if let Some(head) = head {
                let (commit, tree) = (repo.read_commit(head.into()).unwrap(), main.tree().unwrap());
                assert_eq!(tree.count("wide").unwrap().to_string().as_bytes(), commit.message);
                assert_eq!(tree.list("wide").unwrap().map(Result::unwrap).count() as u64, tree.count("wide").unwrap());
            }
            check_objects(&repo);
            let mut tree = main.tree().unwrap();
            tree.set("wide/more", b"more").unwrap();
            let head = main.commit(&mut tree, &Info::unsigned("more")).unwrap();
            drop((tree, main, repo));
            let repo: Repo<Tezos> = Repo::with_backend(Tezos::new(), open(Arc::new(after), &options).unwrap());
            assert_eq!(repo.branch("main").unwrap().head().unwrap(), Some(head));
        }
    }
}
