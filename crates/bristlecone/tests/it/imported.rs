//! Trees over what the format can hold and trees never make: directories that were stored empty, and entries with
//! modes that Git spells unusually, as an imported history has them.
//!
//! The model says what an edit does: what is removed below an empty directory leaves it, what is added below it
//! takes its place, and an entry keeps its mode until it is bound to something else.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
};

use bristlecone::{
    Batch, Durability, EntryKind, Error, Format, Native, ObjRef, Oid, Path, PlainTree, Repo, Tree,
    core::{Change, ChangeTarget, Mode, NoSource},
    disk::{DiskBackend, DiskOptions, FormatTag},
    merge,
    storage::RealStorage,
};
use bristlecone_testkit::generate::Rng;

type Entries = BTreeMap<Vec<u8>, Node>;

/// An entry of the model. A directory without entries was stored so.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Node {
    Dir(Mode, Entries),
    Value(Mode, Vec<u8>),
}

impl Node {
    /// The same as a tree shows it, without modes.
    fn plain(&self) -> PlainTree {
        match self {
            Self::Dir(_, entries) => plain(entries),
            Self::Value(_, bytes) => PlainTree::Value(EntryKind::Value, bytes.clone()),
        }
    }
}

fn plain(entries: &Entries) -> PlainTree {
    PlainTree::Dir(entries.iter().map(|(step, node)| (step.clone(), node.plain())).collect())
}

fn get<'m>(entries: &'m Entries, path: &Path) -> Option<&'m Node> {
    let mut steps = path.steps();
    let mut node = entries.get(steps.next()?)?;
    for step in steps {
        let Node::Dir(_, entries) = node else { return None };
        node = entries.get(step)?;
    }
    Some(node)
}

fn get_mut<'m>(entries: &'m mut Entries, path: &Path) -> Option<&'m mut Node> {
    let mut steps = path.steps();
    let mut node = entries.get_mut(steps.next()?)?;
    for step in steps {
        let Node::Dir(_, entries) = node else { return None };
        node = entries.get_mut(step)?;
    }
    Some(node)
}

fn add(entries: &mut Entries, steps: &[&[u8]], value: &[u8]) {
    let [step, rest @ ..] = steps else { return };
    if rest.is_empty() {
        entries.insert(step.to_vec(), Node::Value(Mode::USUAL, value.to_vec()));
        return;
    }
    let node = entries.entry(step.to_vec()).or_insert(Node::Dir(Mode::USUAL, Entries::new()));
    if matches!(node, Node::Value(..)) {
        *node = Node::Dir(Mode::USUAL, Entries::new());
    }
    set_usual(node);
    let Node::Dir(_, below) = node else { unreachable!("just made one") };
    add(below, rest, value);
}

/// The directory becomes another: it is spelled as usual.
const fn set_usual(node: &mut Node) {
    if let Node::Dir(mode, _) = node {
        *mode = Mode::USUAL;
    }
}

fn remove(entries: &mut Entries, steps: &[&[u8]]) {
    let [step, rest @ ..] = steps else { return };
    if rest.is_empty() {
        entries.remove(*step);
    } else if let Some(Node::Dir(_, below)) = entries.get_mut(*step)
        && !below.is_empty()
    {
        remove(below, rest);
        if below.is_empty() {
            entries.remove(*step);
        }
    }
}

/// Gives a directory to the sink, as an import does.
fn put(native: &Native, batch: &mut Batch, entries: &Entries) -> ObjRef {
    let bound = |batch: &mut Batch, node: &Node| match node {
        Node::Dir(mode, below) => (*mode, EntryKind::Dir, Some(put(native, batch, below))),
        Node::Value(mode, _) => (*mode, EntryKind::Value, None),
    };
    let bindings: Vec<_> = entries.iter().map(|(step, node)| (step, node, bound(batch, node))).collect();
    let changes: Vec<Change<'_>> = bindings
        .iter()
        .map(|(step, node, (mode, kind, at))| {
            let target = match (node, at) {
                (_, Some(at)) => ChangeTarget::Object { at: *at, bytes: 0 },
                (Node::Value(_, bytes), None) => ChangeTarget::Inline(bytes),
                (Node::Dir(..), None) => unreachable!("a directory has an object"),
            };
            Change { step, mode: *mode, to: Some((*kind, target)) }
        })
        .collect();
    match native.update(&NoSource, batch, None, &changes).unwrap() {
        Some(root) => root,
        None => native.empty_dir(batch).unwrap(),
    }
}

fn root_of(entries: &Entries) -> Oid {
    put(&Native::new(), &mut Batch::new(), entries).oid
}

/// Stores a directory and returns its tree.
fn store(repo: &Repo, entries: &Entries) -> Tree {
    let mut batch = Batch::new();
    let root = put(repo.format(), &mut batch, entries);
    let base = repo.backend().append(batch, &[], Durability::None).unwrap();
    repo.tree_at(ObjRef::new(root.oid, root.at.resolve(base)).into())
}

fn odd(kind: EntryKind) -> Mode {
    Mode::spelled(kind, if kind == EntryKind::Dir { b"040000" } else { b"100664" }).unwrap()
}

fn value(bytes: &[u8]) -> Node {
    Node::Value(Mode::USUAL, bytes.to_vec())
}

fn dir<const N: usize>(entries: [(&str, Node); N]) -> Entries {
    entries.into_iter().map(|(step, node)| (step.as_bytes().to_vec(), node)).collect()
}

const EMPTY: Node = Node::Dir(Mode::USUAL, Entries::new());

fn sample() -> Entries {
    dir([
        ("empty", EMPTY),
        ("odd", Node::Value(odd(EntryKind::Value), b"1".to_vec())),
        ("odd dir", Node::Dir(odd(EntryKind::Dir), dir([("x", value(b"1")), ("y", value(b"2"))]))),
        ("odd empty", Node::Dir(odd(EntryKind::Dir), Entries::new())),
        ("only", Node::Dir(Mode::USUAL, dir([("empty", EMPTY)]))),
        ("value", value(b"1")),
    ])
}

#[test]
fn an_empty_directory_is_a_directory_without_entries() {
    let repo = Repo::memory();
    let mut tree = store(&repo, &sample());
    for path in ["empty", "odd empty", "only/empty"] {
        assert!(tree.contains_tree(path).unwrap() && !tree.contains(path).unwrap());
        assert_eq!((tree.kind(path).unwrap(), tree.count(path).unwrap()), (Some(EntryKind::Dir), 0));
        assert_eq!(tree.list(path).unwrap().count() + tree.walk_all(path).unwrap().count(), 0);
        assert_eq!(tree.get(format!("{path}/x")).unwrap(), None);
        let entry = tree.entry(path).unwrap().unwrap();
        assert_eq!((entry.kind(), entry.object().map(|at| at.oid)), (EntryKind::Dir, Some(root_of(&Entries::new()))));
        let below = tree.get_tree(path).unwrap().unwrap();
        assert!(below.is_empty().unwrap());
        assert_eq!(below.root().unwrap(), repo.tree().root().unwrap());
        let mut filled = below.clone();
        filled.set("x", b"1").unwrap();
        assert_eq!(filled.root().unwrap(), root_of(&dir([("x", value(b"1"))])).into());
    }
    assert!(tree.contains_tree("only").unwrap() && !tree.is_empty().unwrap());
    assert_eq!((tree.stats().unwrap().dirs, tree.stats().unwrap().values), (5, 4));
    assert_eq!(tree.to_plain().unwrap(), plain(&sample()));
    // What is bound anew as a plain value is what trees make: no empty directories, no modes.
    let mut plain = repo.tree();
    plain.set_plain("", &tree.to_plain().unwrap()).unwrap();
    let usual = Node::Dir(Mode::USUAL, dir([("x", value(b"1")), ("y", value(b"2"))]));
    assert_eq!(
        plain.root().unwrap(),
        root_of(&dir([("odd", value(b"1")), ("odd dir", usual), ("value", value(b"1"))])).into()
    );
    // An empty subtree cannot be added.
    let empty = tree.get_tree("empty").unwrap().unwrap();
    tree.set_tree("value", &empty).unwrap();
    assert_eq!(tree.kind("value").unwrap(), None);
}

#[test]
fn pruned_trees_and_differences_know_empty_directories() {
    let repo = Repo::memory();
    let mut tree = store(&repo, &sample());
    let pruned = tree.prune(["empty/x", "only/empty", "odd dir/x"]).unwrap();
    assert_eq!(pruned.root().unwrap(), tree.root().unwrap());
    assert!(pruned.contains_tree("empty").unwrap() && pruned.contains_tree("only/empty").unwrap());
    assert_eq!(pruned.get("empty/x").unwrap(), None);
    assert_eq!(pruned.get("odd dir/x").unwrap().as_deref(), Some(&b"1"[..]));
    let mut after = tree.clone();
    after.remove("empty").unwrap();
    after.set("only/empty/x", b"3").unwrap();
    after.set("odd", b"1").unwrap();
    // Directories are no differences; a mode that is another is one. Whether the edits are written makes none.
    for written in [false, true] {
        if written {
            after.write().unwrap();
        }
        let paths: Vec<_> = tree
            .diff(&after, "")
            .unwrap()
            .map(Result::unwrap)
            .map(|found| (found.path.to_string(), found.before.is_some(), found.after.is_some()))
            .collect();
        assert_eq!(paths, [("odd".to_owned(), true, true), ("only/empty/x".to_owned(), false, true)]);
    }
}

#[test]
fn a_foreign_id_that_is_set_anew_is_a_difference() {
    let mut before = Repo::memory().tree();
    before.set_foreign("vendor/lib", bristlecone::Oid::from_array([1; 32])).unwrap();
    before.write().unwrap();
    for (byte, wanted) in [(1, 0), (2, 1)] {
        let mut after = before.clone();
        after.set_foreign("vendor/lib", bristlecone::Oid::from_array([byte; 32])).unwrap();
        assert_eq!(before.diff(&after, "").unwrap().map(Result::unwrap).count(), wanted);
    }
}

#[test]
fn a_merge_with_empty_directories_does_not_depend_on_which_side_is_ours() {
    let repo = Repo::memory();
    let usual = |entries: Entries| Some(Node::Dir(Mode::USUAL, entries));
    let nodes = [
        None,
        Some(EMPTY),
        usual(dir([("f", value(b"1"))])),
        usual(dir([("f", value(b"2")), ("g", value(b"1"))])),
        usual(dir([("f", EMPTY)])),
        usual(dir([("f", Node::Dir(Mode::USUAL, dir([("h", value(b"1"))])))])),
        Some(value(b"1")),
        Some(value(b"2")),
    ];
    let trees: Vec<Tree> = nodes
        .iter()
        .map(|node| {
            let mut entries = dir([("beside", value(b"1"))]);
            entries.extend(node.clone().map(|node| (b"d".to_vec(), node)));
            store(&repo, &entries)
        })
        .collect();
    let mut conflicts = 0;
    for (base, one, other) in (0..512).map(|number| (number / 64, number / 8 % 8, number % 8)) {
        let merged = |ours: usize, theirs: usize| {
            let merged = merge::trees(Some(&trees[base]), &trees[ours], &trees[theirs]).unwrap();
            let paths: Vec<Path> = merged.conflicts.into_iter().map(|conflict| conflict.path).collect();
            (paths, merged.tree.root().unwrap())
        };
        let (there, back) = (merged(one, other), merged(other, one));
        let tried = format!("{:?} to {:?} and {:?}", nodes[base], nodes[one], nodes[other]);
        assert_eq!(there.0, back.0, "{tried}");
        assert!(!there.0.is_empty() || there.1 == back.1, "{tried}");
        conflicts += usize::from(!there.0.is_empty());
    }
    assert!(conflicts > 100, "{conflicts} conflicts");
}

#[test]
fn a_merge_takes_a_directory_of_one_side_as_it_is_spelled() {
    let repo = Repo::memory();
    let added = || Node::Dir(odd(EntryKind::Dir), dir([("x", value(b"1"))]));
    let base = store(&repo, &dir([("f", value(b"1"))]));
    let ours = store(&repo, &dir([("f", value(b"2"))]));
    let theirs = store(&repo, &dir([("d", added()), ("f", value(b"1"))]));
    let wanted = root_of(&dir([("d", added()), ("f", value(b"2"))]));
    for (ours, theirs) in [(&ours, &theirs), (&theirs, &ours)] {
        let merged = merge::trees(Some(&base), ours, theirs).unwrap();
        assert_eq!((merged.tree.root().unwrap().oid(), merged.conflicts), (wanted, Vec::new()));
    }
    let started = merge::trees(Some(&base), &base, &theirs).unwrap();
    assert_eq!(started.tree.root().unwrap(), theirs.root().unwrap());
}

#[test]
fn a_tree_of_another_store_is_set_as_it_is_with_its_edits() {
    let (from, to) = (Repo::memory(), Repo::memory());
    let whole = store(&from, &sample());
    let mut edited = whole.clone();
    let long = Rng::new(1).bytes(300_000);
    edited.set("new/long", &long).unwrap();
    edited.set("only/value", b"2").unwrap();
    let before = from.backend().stats().batches;
    for (tree, steps) in [(&whole, ""), (&whole, "a/b"), (&edited, ""), (&edited, "a/b")] {
        let mut here = to.tree();
        here.set("beside", b"1").unwrap();
        here.set_tree(steps, tree).unwrap();
        let root = here.write().unwrap();
        let below = to.tree_at(root).get_tree(steps).unwrap().unwrap();
        assert_eq!(below.root().unwrap(), tree.root().unwrap(), "at {steps:?}");
        assert_eq!(below.get("new/long").unwrap().is_some_and(|bytes| bytes == long), tree.is_edited());
    }
    assert_eq!(from.backend().stats().batches, before, "nothing is written there");
}

#[test]
fn edits_beside_an_entry_keep_its_mode() {
    for wide in [0u32, 1, 100, 3000] {
        let repo = Repo::memory();
        let mut model = sample();
        for number in 0..wide {
            model.insert(format!("s{number}").into_bytes(), value(b"s"));
        }
        let mut tree = store(&repo, &model);
        for (path, bytes) in [("s50", &b"new"[..]), ("new", b"n"), ("odd dir/y", b"3"), ("value", b"2")] {
            tree.set(path, bytes).unwrap();
            add(&mut model, &path.split('/').map(str::as_bytes).collect::<Vec<_>>(), bytes);
            assert_eq!(tree.write().unwrap().oid(), root_of(&model), "{path} beside {wide}");
        }
        assert!(matches!(&model[&b"odd dir"[..]], Node::Dir(mode, _) if mode.is_usual()), "it is another directory");
        assert!(matches!(&model[&b"odd"[..]], Node::Value(mode, _) if !mode.is_usual()));
        tree.set("odd", b"1").unwrap();
        model.insert(b"odd".to_vec(), value(b"1"));
        assert_eq!(tree.root().unwrap(), root_of(&model).into(), "what is set anew is spelled as usual");
    }
}

struct Session {
    rng: Rng,
    tree: Tree,
    model: Entries,
    /// Commits in flight that this tree goes on from, the oldest first, with their roots.
    in_flight: VecDeque<(Tree, Oid)>,
}

impl Session {
    fn new(seed: u64) -> Self {
        let mut rng = Rng::new(seed);
        let model = Self::entries(&mut rng, 0);
        Self { rng, tree: store(&Repo::memory(), &model), model, in_flight: VecDeque::new() }
    }

    /// A directory, and below it empty ones. The modes of directories with entries are usual: whether such a
    /// directory is the one that was there once it was taken apart and put together again is not told here.
    fn entries(rng: &mut Rng, depth: usize) -> Entries {
        let count = if depth == 0 { 3 } else { rng.below(3) };
        let node = |rng: &mut Rng| {
            let below = (depth < 3 && rng.chance(2, 3)).then(|| Self::entries(rng, depth + 1));
            let kind = if below.is_some() { EntryKind::Dir } else { EntryKind::Value };
            let mode = if rng.chance(1, 2) { Mode::USUAL } else { odd(kind) };
            match below {
                None => Node::Value(mode, vec![rng.below(3) as u8]),
                Some(below) if below.is_empty() => Node::Dir(mode, below),
                Some(below) => Node::Dir(Mode::USUAL, below),
            }
        };
        (0..count).map(|_| (Self::step(rng), node(rng))).collect()
    }

    fn step(rng: &mut Rng) -> Vec<u8> {
        vec![b'a' + rng.below(3) as u8]
    }

    fn path(&mut self) -> Path {
        let steps: Vec<Vec<u8>> = (0..=self.rng.below(4)).map(|_| Self::step(&mut self.rng)).collect();
        Path::from_steps(steps.iter().map(Vec::as_slice)).unwrap()
    }

    /// One edit and one lookup, neither of which waits for commits in flight.
    fn operate(&mut self) {
        let path = self.path();
        let steps: Vec<&[u8]> = path.steps().collect();
        match self.rng.below(10) {
            0..3 => {
                let bytes = [self.rng.below(3) as u8];
                self.tree.replace(&path, &bytes[..]).unwrap();
                add(&mut self.model, &steps, &bytes);
            }
            3..8 => {
                self.tree.remove(&path).unwrap();
                remove(&mut self.model, &steps);
            }
            _ => {}
        }
        let asked = self.path();
        let (kind, bytes) = match get(&self.model, &asked) {
            Some(Node::Dir(..)) => (Some(EntryKind::Dir), None),
            Some(Node::Value(_, bytes)) => (Some(EntryKind::Value), Some(&bytes[..])),
            None => (None, None),
        };
        assert_eq!(self.tree.kind(&asked).unwrap(), kind, "{asked}");
        assert_eq!(self.tree.get(&asked).unwrap().as_deref(), bytes, "{asked}");
    }

    fn write_in_flight(&mut self) {
        while let Some((mut tree, root)) = self.in_flight.pop_front() {
            assert_eq!(tree.write().unwrap().oid(), root);
        }
    }

    /// Parts the tree in one that is to be written and one that goes on.
    fn fork(&mut self) {
        if self.in_flight.len() == 2 {
            let (mut tree, root) = self.in_flight.pop_front().unwrap();
            assert_eq!(tree.write().unwrap().oid(), root);
        }
        self.in_flight.push_back((self.tree.fork_for_commit().unwrap(), root_of(&self.model)));
    }

    fn check(&mut self) {
        self.write_in_flight();
        assert_eq!(self.tree.to_plain().unwrap(), plain(&self.model));
        assert_eq!(self.tree.is_empty().unwrap(), self.model.is_empty());
        let path = self.path();
        let below = self.tree.get_tree(&path).unwrap();
        let Some(Node::Dir(_, entries)) = get(&self.model, &path) else { return assert!(below.is_none()) };
        let below = below.unwrap();
        assert_eq!(below.to_plain().unwrap(), plain(entries));
        assert_eq!(below.root().unwrap(), root_of(entries).into());
        assert_eq!(below.is_empty().unwrap(), entries.is_empty());
        assert_eq!(self.tree.count(&path).unwrap(), entries.len() as u64);
    }

    /// Copies a small directory with what is in it, empty directories and modes too.
    fn copy(&mut self) {
        self.write_in_flight();
        let (from, to) = (self.path(), self.path());
        let Some(Node::Dir(_, entries)) = get(&self.model, &from).cloned() else { return };
        let tree = self.tree.get_tree(&from).unwrap().unwrap();
        if tree.walk_all("").unwrap().count() > 20 {
            return;
        }
        self.tree.set_tree(&to, &tree).unwrap();
        let steps: Vec<&[u8]> = to.steps().collect();
        if entries.is_empty() {
            return remove(&mut self.model, &steps);
        }
        add(&mut self.model, &steps, b"its place");
        *get_mut(&mut self.model, &to).unwrap() = Node::Dir(Mode::USUAL, entries);
    }

    fn write(&mut self) {
        self.write_in_flight();
        assert_eq!(self.tree.root().unwrap(), root_of(&self.model).into());
        assert_eq!(self.tree.write().unwrap().oid(), root_of(&self.model));
    }
}

#[test]
fn edits_of_imported_trees_are_those_of_the_model() {
    for seed in 0..400 {
        let session = std::panic::catch_unwind(|| {
            let mut session = Session::new(seed);
            for _ in 0..120 {
                match session.rng.below(40) {
                    0 => session.check(),
                    1 => session.copy(),
                    2 => session.write(),
                    3 | 4 => session.fork(),
                    _ => session.operate(),
                }
            }
            session.check();
            session.write();
        });
        assert!(session.is_ok(), "seed {seed}");
    }
}

#[test]
fn a_store_of_version_0_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let storage = Arc::new(RealStorage::new(dir.path()));
    let format = FormatTag { name: Native::NAME.to_owned(), version: 0, options: Native::new().options() };
    drop(DiskBackend::create(storage, format, DiskOptions::default()).unwrap());
    for opened in [
        Repo::<Native>::open(dir.path(), DiskOptions::default()),
        Repo::open_read_only(dir.path(), DiskOptions::default()),
    ] {
        let error = opened.unwrap_err();
        assert!(matches!(error, Error::Incompatible { .. }), "{error:?}");
        let text = error.to_string();
        assert!(text.contains("version 0 of the format native") && text.contains("version 1"), "{text}");
    }
}
