//! Random operations on trees, commits and branches give the answers and the roots of the reference model.
//!
//! A session is a repository of its own, thousands of edits and questions, with commits, checkouts, diffs and
//! compare-and-sets in between. Now and then the whole tree is compared, and built afresh from the model in a
//! shuffled order, which must give the same root. The seed is printed on failure and repeats the session.

use std::{
    collections::VecDeque,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

use bristlecone::{
    CommitId, DirEntry, Durability, EntryKind, Error, Format, Info, MemoryBackend, Native, Path, RefTarget, Repo, Tree,
};
use bristlecone_testkit::{
    crash::step,
    generate::{Edit, Rng, Shape, Universe},
    model::{Bound, History, Listed, Model},
    nasty::Nasty,
};

use crate::engine::Store;

const BRANCHES: [&str; 3] = ["main", "side", "a/b"];
/// Larger subtrees are not copied about, or the tree would double again and again.
const COPIED_MAX: usize = 100;

struct Session<F: Format> {
    format: F,
    rng: Rng,
    universe: Universe,
    home: Home,
    /// The trees' edits are written where they take more.
    pending_max: usize,
    /// From how many changes on a directory is shared out.
    shared_min: usize,
    repo: Repo<F>,
    tree: Tree<F>,
    model: Model,
    /// The commit that the tree was checked out from.
    origin: Option<usize>,
    history: History,
    commits: Vec<CommitId>,
    /// A tree from earlier, which no later edit may change.
    kept: Option<(Tree<F>, Model)>,
    /// Commits in flight that the current tree goes on from, the oldest first.
    in_flight: VecDeque<Tree<F>>,
}

/// What keeps a session's objects.
#[derive(Clone)]
enum Home {
    Memory,
    /// A store that can be opened again.
    Disk(Store),
    /// One that drops at once what no snapshot holds.
    Nasty,
}

fn memory<F: Format>(format: &F) -> Repo<F> {
    Repo::with_backend(format.clone(), Arc::new(MemoryBackend::new()))
}

impl<F: Format> Session<F> {
    fn new(format: F, seed: u64, home: Home) -> Self {
        let mut rng = Rng::new(seed);
        let universe = Universe::new(*rng.pick(&Shape::ALL), *rng.pick(&[20, 200, 1000]));
        let repo = match &home {
            Home::Memory => memory(&format),
            Home::Disk(store) => Repo::with_backend(format.clone(), store.open()),
            Home::Nasty => Repo::with_backend(format.clone(), Arc::new(Nasty::sweeping(format.clone()))),
        };
        let pending_max = *rng.pick(&[usize::MAX, 50_000, 3_000]);
        repo.set_pending_max(pending_max);
        let shared_min = *rng.pick(&[usize::MAX, 12, 2]);
        repo.set_shared_min(shared_min);
        let tree = repo.tree();
        Self {
            format,
            rng,
            universe,
            home,
            pending_max,
            shared_min,
            repo,
            tree,
            model: Model::new(),
            origin: None,
            history: History::new(),
            commits: Vec::new(),
            kept: None,
            in_flight: VecDeque::new(),
        }
    }

    fn run(&mut self, operations: u64) -> Result<(), Error> {
        for _ in 0..operations {
            match self.rng.below(1000) {
                0..980 => {
                    let edit = self.universe.edit(&mut self.rng);
                    // These need no root, so they do not wait for one.
                    if !matches!(edit, Edit::Add(..) | Edit::Remove(_) | Edit::Find(_)) {
                        self.write_in_flight(0)?;
                    }
                    self.apply(&edit)?;
                    continue;
                }
                980..990 => {
                    self.write_in_flight(1)?;
                    self.in_flight.push_back(self.tree.fork_for_commit()?);
                    continue;
                }
                _ => self.write_in_flight(0)?,
            }
            match self.rng.below(10) {
                0..5 => self.commit()?,
                5..7 => self.check_out()?,
                7 => self.diff()?,
                8 => self.compare_and_set()?,
                _ => self.compare()?,
            }
        }
        self.write_in_flight(0)?;
        self.compare()?;
        self.compare_history()
    }

    /// Writes trees that the current one goes on from, until `left` are left.
    fn write_in_flight(&mut self, left: usize) -> Result<(), Error> {
        while self.in_flight.len() > left {
            let oldest = self.in_flight.pop_front();
            oldest.expect("there are some left").write()?;
        }
        Ok(())
    }

    fn apply(&mut self, edit: &Edit) -> Result<(), Error> {
        let (tree, model) = (&mut self.tree, &mut self.model);
        match edit {
            Edit::Add(at, value) => {
                let tag = (value.len() % 7 / 3) as u8;
                let kind = EntryKind::from_u8(tag).expect("a value's kind");
                if model.is_dir(at) {
                    // What is stored is seen when it is hashed, which waits for commits in flight.
                    if self.in_flight.is_empty() && self.rng.chance(1, 4) {
                        is_refused(tree, path(at), kind, value);
                    }
                    if kind == EntryKind::Value { tree.replace(path(at), value)? } else { tree.remove(path(at))? }
                }
                tree.set_kind(path(at), kind, value)?;
                model.add(at, tag, value);
            }
            Edit::Remove(at) => {
                tree.remove(path(at))?;
                model.remove(at);
            }
            Edit::Update(at) => {
                let change = |old: Option<&[u8]>| {
                    let mut new: Vec<u8> = old.unwrap_or_default().iter().rev().copied().collect();
                    new.push(1);
                    new
                };
                if model.is_dir(at) {
                    let updated = tree.update(path(at), |old| Some(change(old)));
                    assert!(matches!(updated, Err(Error::IsDirectory { .. })), "{updated:?}");
                    return Ok(());
                }
                tree.update(path(at), |old| Some(change(old)))?;
                let (tag, new) = match model.get(at) {
                    Some((tag, old)) => (*tag, change(Some(old))),
                    None => (0, change(None)),
                };
                model.add(at, tag, &new);
            }
            Edit::Find(at) => {
                assert_eq!(tree.get(path(at))?.as_deref(), model.find(at), "find {}", path(at));
                assert_eq!(tree.contains_tree(path(at))?, model.is_dir(at), "directory {}", path(at));
                assert_eq!(tree.kind(path(at))?.is_some(), tree.contains(path(at))? || tree.contains_tree(path(at))?);
            }
            Edit::List(at) => assert_eq!(list(tree, at)?, listed(model, at), "list {}", path(at)),
            Edit::Copy(from, to) => {
                let small = model.count_below(from, COPIED_MAX) < COPIED_MAX && from.len() + to.len() < 300;
                assert_eq!(tree.get_tree(path(from))?.is_some(), model.is_dir(from), "subtree {}", path(from));
                if let Some(part) = model.subtree(from).filter(|_| small) {
                    let copied = tree.get_tree(path(from))?.expect("just found");
                    tree.set_tree(path(to), &copied)?;
                    model.add_tree(to, &part);
                }
            }
        }
        Ok(())
    }

    fn commit(&mut self) -> Result<(), Error> {
        let branch = *self.rng.pick(&BRANCHES);
        let durability = *self.rng.pick(&[Durability::None, Durability::Grouped, Durability::Synced]);
        // Git has no zero bytes in messages.
        let message: Vec<u8> = self.rng.bytes(9).into_iter().map(|byte| byte.max(1)).collect();
        let info = Info::unsigned(&message[..]).durability(durability);
        let head = self.history.head(branch);
        match self.repo.branch(branch)?.commit(&mut self.tree, &info) {
            Ok(at) => {
                assert_eq!(self.origin, head, "a commit on {branch} from elsewhere succeeds");
                self.origin = Some(self.history.commit(branch, &self.model, &message));
                if matches!(self.home, Home::Nasty) {
                    let name = format!("refs/kept/{}", self.commits.len());
                    self.repo.compare_and_set(&name, None, Some(RefTarget::Object(at.into())), durability)?;
                }
                self.commits.push(at);
            }
            Err(Error::RefMoved { .. }) => assert_ne!(self.origin, head, "a commit on the head of {branch} conflicts"),
            Err(error) => return Err(error),
        }
        if self.rng.chance(1, 3) {
            self.compare_kept()?;
            self.kept = Some((self.tree.clone(), self.model.clone()));
        }
        Ok(())
    }

    /// Takes the tree of a branch or of some commit, or goes on with the one kept from earlier.
    fn check_out(&mut self) -> Result<(), Error> {
        if let Home::Disk(store) = &self.home
            && self.rng.chance(1, 4)
        {
            // The only handles to the old backend go, and a new one opens.
            self.kept = None;
            self.repo = memory(&self.format);
            self.tree = self.repo.tree();
            self.repo = Repo::with_backend(self.format.clone(), store.open());
            self.repo.set_pending_max(self.pending_max);
            self.repo.set_shared_min(self.shared_min);
        }
        if !self.commits.is_empty() && self.rng.chance(1, 4) {
            let number = self.rng.index(self.commits.len());
            self.tree = self.repo.checkout(self.commits[number])?;
            self.model = self.history.get(number).tree.clone();
            self.origin = Some(number);
            return Ok(());
        }
        let branch = *self.rng.pick(&BRANCHES);
        self.tree = self.repo.branch(branch)?.tree()?;
        self.model = self.history.tree(branch);
        self.origin = self.history.head(branch);
        Ok(())
    }

    fn diff(&mut self) -> Result<(), Error> {
        if self.commits.is_empty() {
            return Ok(());
        }
        let number = self.rng.index(self.commits.len());
        let (before, edited) = (self.repo.checkout(self.commits[number])?, self.tree.clone());
        let older = &self.history.get(number).tree;
        let mut wanted: Vec<(Path, Option<Bound>, Option<Bound>)> = older
            .diff(&self.model)
            .into_iter()
            .map(|(at, (before, after))| (path(at), before.cloned(), after.cloned()))
            .collect();
        // The model knows no steps: its order is that of the bytes.
        wanted.sort_unstable_by(|one, other| one.0.cmp(&other.0));
        // Whether edits are pending or written makes no difference, nor which of two trees has them.
        let mut written = edited.clone();
        if !written.is_empty()? {
            written.write()?;
        }
        let was =
            |entry: Option<DirEntry<'_, F>>| Ok::<_, Error>(entry.map(|entry| bound(&entry)).transpose()?.flatten());
        for after in [&edited, &written] {
            let mut found = Vec::new();
            for difference in before.diff(after, "")? {
                let difference = difference?;
                found.push((difference.path, was(difference.before)?, was(difference.after)?));
            }
            assert_eq!(found.len(), wanted.len(), "differences");
            assert!(found == wanted, "differences, in order");
        }
        assert_eq!(edited.diff(&written, "")?.count() + written.diff(&edited, "")?.count(), 0, "the same, written");
        // Back again, from edits to edits.
        let mut undone = edited.clone();
        for (path, before, _) in &wanted {
            undone.remove(path)?;
            if let Some((kind, value)) = before {
                undone.set_kind(path, EntryKind::from_u8(*kind).expect("a value's kind"), &value[..])?;
            }
        }
        let count = edited.diff(&undone, "")?.try_fold(0, |count, found| found.map(|_| count + 1))?;
        assert_eq!(count, wanted.len(), "differences between edits");
        assert_eq!(before.diff(&undone, "")?.count(), 0, "what was undone");
        Ok(())
    }

    fn compare_and_set(&mut self) -> Result<(), Error> {
        let branch = *self.rng.pick(&BRANCHES);
        let any = |rng: &mut Rng, count: usize| (count > 0 && rng.chance(3, 4)).then(|| rng.index(count));
        let expected =
            if self.rng.chance(1, 2) { self.history.head(branch) } else { any(&mut self.rng, self.commits.len()) };
        let to = any(&mut self.rng, self.commits.len());
        let at = |number: Option<usize>| number.map(|number| self.commits[number]);
        // Commits with the same contents are one commit, whatever their number.
        let same = at(expected) == at(self.history.head(branch));
        let moved = match self.repo.branch(branch)?.compare_and_set(at(expected), at(to), Durability::None) {
            Err(Error::RefMoved { .. }) => false,
            moved => moved.map(|()| true)?,
        };
        assert_eq!(moved, same, "compare-and-set of {branch}");
        let head = self.history.head(branch);
        assert_eq!(self.history.compare_and_set(branch, if moved { head } else { Some(usize::MAX) }, to), moved);
        Ok(())
    }

    /// Compares everything in the tree, and its root with that of a tree built afresh.
    fn compare(&mut self) -> Result<(), Error> {
        compare_whole(&self.tree, &self.model)?;
        let mut values: Vec<(&[u8], u8, &[u8])> = self.model.values().collect();
        self.rng.shuffle(&mut values);
        let mut afresh = memory(&self.format).tree();
        for (at, tag, value) in values {
            afresh.set_kind(path(at), EntryKind::from_u8(tag).expect("a value's kind"), value)?;
        }
        assert_eq!(afresh.root()?, self.tree.root()?, "the root of a tree built in another order");
        self.compare_kept()
    }

    fn compare_kept(&self) -> Result<(), Error> {
        self.kept.as_ref().map_or(Ok(()), |(tree, model)| compare_whole(tree, model))
    }

    fn compare_history(&self) -> Result<(), Error> {
        let branches: Vec<&str> = self.history.branches().keys().map(String::as_str).collect();
        assert_eq!(self.repo.branches()?, branches);
        for (branch, &number) in self.history.branches() {
            assert_eq!(self.repo.branch(branch)?.head()?, Some(self.commits[number]), "{branch}");
        }
        for (number, at) in self.commits.iter().enumerate().step_by(7) {
            let (commit, wanted) = (self.repo.read_commit(*at)?, self.history.get(number));
            assert_eq!(commit.message, wanted.message);
            assert_eq!(commit.parents, wanted.parents.iter().map(|&n| self.commits[n]).collect::<Vec<_>>());
            compare_whole(&self.repo.checkout(*at)?, &wanted.tree)?;
        }
        Ok(())
    }
}

fn path(at: &[u8]) -> Path {
    Path::from_bytes(at).expect("generated paths are paths")
}

/// Checks that a value does not take the place of a directory of which nothing was said.
fn is_refused<F: Format>(tree: &Tree<F>, at: Path, kind: EntryKind, value: &[u8]) {
    let mut other = tree.clone();
    let refused = other.set_kind(&at, kind, value).and_then(|()| other.root().map(drop));
    assert!(matches!(&refused, Err(Error::IsDirectory { path }) if *path == at), "{refused:?} at {at}");
    // The edits are still there, and so are those before.
    other.replace(&at, value).unwrap();
    assert_eq!(other.get(&at).unwrap().as_deref(), Some(value));
    other.root().unwrap();
}

fn bound<F: Format>(entry: &DirEntry<'_, F>) -> Result<Option<Bound>, Error> {
    Ok(entry.contents()?.map(|value| (entry.kind() as u8, value[..].into())))
}

fn compare_whole<F: Format>(tree: &Tree<F>, model: &Model) -> Result<(), Error> {
    let mut wanted = model.clone();
    let mut before = None;
    for entry in tree.walk_all("")? {
        let (at, entry) = entry?;
        assert!(before < Some(at.clone()), "{at} comes behind {before:?}");
        before = Some(at.clone());
        if let Some((tag, value)) = bound(&entry)? {
            assert_eq!(
                wanted.get(at.as_bytes()).map(|(tag, value)| (*tag, &value[..])),
                Some((tag, &value[..])),
                "{at}"
            );
            wanted.remove(at.as_bytes());
        }
    }
    let missing: Vec<&[u8]> = wanted.values().map(|(at, ..)| at).take(3).collect();
    assert!(missing.is_empty(), "a walk misses {missing:?}");
    Ok(())
}

/// The entries of a directory; one without a value is a directory.
type Entries = Vec<(Vec<u8>, Option<Bound>)>;

fn list<F: Format>(tree: &Tree<F>, at: &[u8]) -> Result<Entries, Error> {
    tree.list(path(at))?.map(|entry| entry.and_then(|entry| Ok((entry.step().to_vec(), bound(&entry)?)))).collect()
}

fn listed(model: &Model, at: &[u8]) -> Entries {
    let entries = model.list(at).into_iter().map(|(step, entry)| match entry {
        Listed::Value(tag, value) => (step, Some((tag, value))),
        Listed::Dir => (step, None),
    });
    entries.collect()
}

/// Runs sessions of 5,000 operations on two threads until there were `operations`.
fn sessions<F: Format>(format: &F, operations: u64, seed_first: u64, home: fn() -> Home) {
    const EACH: u64 = 5_000;
    let next = AtomicU64::new(seed_first);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Relaxed);
                    if (seed - seed_first) * EACH >= operations {
                        return;
                    }
                    let run = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                        Session::new(format.clone(), seed, home()).run(EACH)
                    }));
                    match run {
                        Ok(Ok(())) => {}
                        Ok(Err(error)) => panic!("session with seed {seed}: {error}"),
                        Err(_) => panic!("session with seed {seed} failed; see above"),
                    }
                }
            });
        }
    });
    println!("{operations} operations, seeds from {seed_first}");
}

#[test]
fn random_operations_agree_with_the_model_in_memory() {
    sessions(&Native::new(), 600_000 / step(3, 1), 0, || Home::Memory);
}

#[test]
fn random_operations_agree_with_the_model_on_disk() {
    sessions(&Native::new(), 400_000 / step(3, 1), 1 << 32, || Home::Disk(Store::simulated_small()));
}

#[cfg(feature = "git")]
#[test]
fn random_operations_agree_with_the_model_as_objects_of_git() {
    use bristlecone::Git;
    sessions(&Git::sha1(), 200_000 / step(3, 1), 1 << 33, || Home::Memory);
    sessions(&Git::sha256(), 100_000 / step(3, 1), 1 << 34, || Home::Memory);
    sessions(&Git::sha1(), 150_000 / step(3, 1), 1 << 35, || Home::Disk(Store::simulated_small()));
    sessions(&Git::sha1(), 10_000, 1 << 37, || Home::Nasty);
}

#[test]
fn random_operations_agree_with_the_model_where_nothing_stays_that_nobody_holds() {
    sessions(&Native::new(), 20_000, 1 << 36, || Home::Nasty);
}

#[test]
#[ignore = "takes an hour; BRISTLECONE_MODEL_OPERATIONS sets how many operations, 100 million unless set"]
fn random_operations_agree_with_the_model_for_long() {
    let wanted = std::env::var("BRISTLECONE_MODEL_OPERATIONS").ok().and_then(|text| text.parse().ok());
    let operations: u64 = wanted.unwrap_or(100_000_000);
    sessions(&Native::new(), operations / 2, 1 << 40, || Home::Memory);
    sessions(&Native::new(), operations / 2, 1 << 48, || Home::Disk(Store::simulated_small()));
}

#[test]
fn the_order_of_edits_does_not_change_the_root() {
    for shape in Shape::ALL {
        let universe = Universe::new(shape, 50);
        for seed in 0..20 {
            let mut rng = Rng::new(seed);
            let mut model = Model::new();
            for _ in 0..rng.index(1500) {
                let at = universe.path(&mut rng);
                model.add(&at, 0, &bristlecone_testkit::generate::value(&mut rng, 50));
            }
            let mut roots = Vec::new();
            for detours in [false, true] {
                let mut values: Vec<(&[u8], u8, &[u8])> = model.values().collect();
                rng.shuffle(&mut values);
                let repo = Repo::memory();
                let mut tree = repo.tree();
                for (at, _, value) in values {
                    if detours {
                        tree.set(path(at), b"something else").unwrap();
                        let gone = [at, b"/below"].concat();
                        tree.set(path(&gone), b"to be removed").unwrap();
                        tree.remove(path(&gone)).unwrap();
                        if rng.chance(1, 40) {
                            repo.commit_tree(&mut tree, &[], &Info::unsigned("")).unwrap();
                        }
                    }
                    tree.set(path(at), value).unwrap();
                }
                roots.push(tree.root().unwrap());
            }
            assert_eq!(roots[0], roots[1], "{shape:?}, seed {seed}");
        }
    }
}
