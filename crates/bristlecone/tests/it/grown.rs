//! Stores that kept every commit until they got rules, for collections that empty a part of the log: what these hold, and what comes
//! between the steps of a collection.

use std::{
    cell::{Cell, RefCell},
    collections::BTreeSet,
    ops::ControlFlow,
    sync::Arc,
};

use bristlecone::{
    CommitId, Durability, Error, Expected, Object, Oid, RefMove, RefTarget, Repo, SweepLimits, Swept, Tree,
    disk::{DiskBackend, DiskOptions},
};
use bristlecone_testkit::sim::SimStorage;

use crate::{
    engine::{tiny, tiny_as_shipped, tiny_with_maps},
    retention::{create, info, open, point, set},
};

/// How many commits the stores have.
pub(crate) const COMMITS: usize = 90;

/// A store, a repository in it, and its commits.
pub(crate) type Store = (SimStorage, Repo, Vec<CommitId>);

/// A history of which each commit sets the next of so many values, and by which rules it is kept.
pub(crate) struct History {
    pub(crate) values: usize,
    pub(crate) rules: &'static str,
}

impl History {
    pub(crate) fn path(&self, number: usize) -> String {
        let place = number % self.values;
        format!("d{}/n{place}", place % 7)
    }

    pub(crate) fn add(&self, repo: &Repo, branch: &str, number: usize) -> CommitId {
        let edit = |tree: &mut Tree| tree.set(&*self.path(number), &*value(number));
        repo.branch(branch).unwrap().edit(&info(number), edit).unwrap()
    }

    /// Returns a store that kept all so far.
    pub(crate) fn grown(&self, options: &DiskOptions) -> Store {
        let disk = SimStorage::new();
        let repo = create(&disk, options);
        let ids = (0..COMMITS).map(|number| self.add(&repo, "main", number)).collect();
        set(&repo, self.rules);
        (disk, repo, ids)
    }

    /// Checks that a commit has all that was set last by then.
    pub(crate) fn is_whole(&self, repo: &Repo, id: CommitId, number: usize) {
        let tree = repo.checkout(id).unwrap();
        for set in (number + 1).saturating_sub(self.values)..=number {
            let found = tree.get(&*self.path(set)).unwrap().unwrap_or_else(|| panic!("{set} of {number}"));
            assert_eq!(found.as_ref(), value(set).as_bytes(), "{set} of {number}");
        }
    }

    /// Returns a store in which branches beside the main one were made and removed, and with which numbers these had which commits.
    pub(crate) fn with_sides(&self, options: &DiskOptions) -> (Store, Vec<(usize, CommitId)>) {
        let disk = SimStorage::new();
        let repo = create(&disk, options);
        let (mut ids, mut left) = (Vec::new(), Vec::new());
        for number in 0..COMMITS {
            ids.push(self.add(&repo, "main", number));
            if number % 5 == 0 {
                let name = format!("side{number}");
                left.push((1000 + number, self.add(&repo, &name, 1000 + number)));
                if number % 2 == 0 {
                    point(&repo, &format!("refs/heads/{name}"), None);
                }
            }
        }
        (0..COMMITS).step_by(5).for_each(|number| point(&repo, &format!("refs/heads/side{number}"), None));
        set(&repo, self.rules);
        ((disk, repo, ids), left)
    }

    /// Checks that commits beside the main branch have what they set.
    pub(crate) fn sides_stay(&self, repo: &Repo, left: &[(usize, CommitId)]) {
        for &(number, id) in left {
            let tree = repo.checkout(id).unwrap();
            assert_eq!(tree.get(&*self.path(number)).unwrap().unwrap().len(), value(number).len());
        }
    }

    /// Collects while another process commits, and points at commits that are about to go, before some of the steps. Returns that
    /// process, all commits, and which of them it pointed at.
    pub(crate) fn collect_with_moves(
        &self,
        (disk, repo, ids): &Store,
        options: &DiskOptions,
        limits: &SweepLimits,
        turn: usize,
    ) -> (Repo, Vec<CommitId>, Vec<usize>) {
        let other = open(disk, options);
        let (asked, made, tagged) = (Cell::new(0), RefCell::new(Vec::new()), RefCell::new(Vec::new()));
        let watch = |_: &_| {
            asked.set(asked.get() + 1);
            if asked.get() % 9 == turn % 9 && asked.get() >= turn {
                let number = COMMITS + made.borrow().len();
                made.borrow_mut().push(self.add(&other, "main", number));
                // What is there has all below it, and keeps it.
                let old = (asked.get() * 7 + turn) % COMMITS;
                if tag(&other, number, ids[old]) {
                    tagged.borrow_mut().push(old);
                }
            }
            ControlFlow::Continue(())
        };
        repo.sweep_watched(&self.rules.parse().unwrap(), &[], limits, &watch).unwrap();
        let all = ids.iter().copied().chain(made.take()).collect();
        (other, all, tagged.take())
    }

    /// Ends collections of stores that are made anew: who watches ends one after any number of steps, and the process is killed after
    /// any call, in these strides. Calls `finish` with each store, its commits, and what became of the collection.
    pub(crate) fn end_anywhere(
        &self,
        options: &DiskOptions,
        limits: &SweepLimits,
        strides: (u64, u64),
        make: impl Fn() -> Store,
        mut finish: impl FnMut(&SimStorage, &[CommitId], Ended, &Result<Swept, Error>),
    ) {
        let is_done = |swept: &Result<Swept, Error>| swept.as_ref().is_ok_and(|swept| !swept.more);
        for last in (0..).step_by(strides.0 as usize) {
            let (disk, repo, ids) = make();
            let asked = Cell::new(0);
            let watch = |_: &_| {
                asked.set(asked.get() + 1);
                if asked.get() > last { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            };
            let swept = repo.sweep_watched(&self.rules.parse().unwrap(), &[], limits, &watch);
            drop(repo);
            finish(&disk, &ids, Ended::Stopped, &swept);
            if is_done(&swept) {
                assert!(last > 10, "{last} calls");
                break;
            }
        }
        for call in (1..).step_by(strides.1 as usize) {
            let (disk, repo, ids) = make();
            drop(repo);
            let process = disk.process();
            let killed = open(&process, options);
            process.stop_after(process.process_calls() + call);
            let swept = killed.sweep(&[], limits);
            drop(killed);
            finish(&disk, &ids, Ended::Killed, &swept);
            if is_done(&swept) {
                break;
            }
        }
    }
}

/// What may have ended a collection.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ended {
    /// Who watches.
    Stopped,
    /// The end of its process.
    Killed,
}

pub(crate) fn value(number: usize) -> String {
    format!("{number} {}", "x".repeat(2500 + number))
}

/// Limits by which nothing that is dead is rewritten, so that each state is that of what empties the log.
pub(crate) fn limits() -> SweepLimits {
    SweepLimits::default().slack(100)
}

/// Returns how many states collections have made: one was made when the rules were set.
pub(crate) fn states(disk: &SimStorage, options: &DiskOptions) -> u64 {
    let backend = DiskBackend::open(Arc::new(disk.clone()), None, options.clone(), true).unwrap();
    backend.collected().unwrap().states - 1
}

pub(crate) fn objects(repo: &Repo) -> BTreeSet<Oid> {
    let mut all = BTreeSet::new();
    let each = &mut |oid: Oid, _: &Object<'_>| {
        all.insert(oid);
        Ok(())
    };
    repo.backend().each_object(each, &mut |damage| panic!("{damage:?}")).unwrap();
    all
}

/// Segments of several commits: what is lost at their ends is no part of what is live.
pub(crate) fn options() -> [DiskOptions; 4] {
    [tiny(), tiny_with_maps(), tiny_as_shipped(), tiny().locations(false)]
        .map(|options| options.segment_bytes(16 << 10).cold_bytes(8 << 10))
}

pub(crate) fn each_way(test: impl Fn(&DiskOptions)) {
    options().iter().for_each(test);
}

/// Makes a tag lead to a commit, unless that is gone.
fn tag(repo: &Repo, number: usize, to: CommitId) -> bool {
    let name = format!("refs/tags/t{number}");
    let moved = RefMove { name, expected: Expected::Any, to: Some(RefTarget::from(to)) };
    match repo.checkout(to).and_then(|_| repo.move_refs(&[moved], Durability::None)) {
        Ok(()) => true,
        Err(Error::Absent { .. } | Error::Missing { .. } | Error::Gone { .. }) => false,
        Err(error) => panic!("{error:?}"),
    }
}
