//! Whether everything that the refs of a Git repository lead to is there, found out on several threads.
//!
//! The answer is yes or no. Where it is no, a walk on one thread finds out what is missing and which refs lead to it, so that a report
//! does not depend on the number of threads.

use std::{
    collections::{BTreeMap, HashSet},
    num::NonZero,
    sync::{
        Arc, Condvar, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    thread,
};

use bristlecone::{AbsentCommits, Kind, ObjRef, Oid, RefTarget, Snapshot};

use super::{Promised, children, fits, named_kind};
use crate::AnyRepo;

/// So many objects a thread takes at a time at most.
const TAKEN_MAX: usize = 64;
/// In so many sets, each with a lock of its own, it is noted what was seen.
const SHARDS: usize = 16;

/// A walk over what refs lead to.
pub(super) struct Reachable<'r> {
    repo: &'r AnyRepo,
    snapshot: Arc<dyn Snapshot>,
    shallow: &'r HashSet<Oid>,
    promised: &'r Promised,
    absent: Arc<AbsentCommits>,
    // What is to be looked at, and how many threads look at something.
    waiting: Mutex<(Vec<(Kind, ObjRef)>, usize)>,
    changed: Condvar,
    // By kinds, too: what is named as two kinds is not sound, whichever is met first.
    seen: [Mutex<HashSet<(Kind, Oid)>>; SHARDS],
    unsound: AtomicBool,
}

impl<'r> Reachable<'r> {
    pub(super) fn new(repo: &'r AnyRepo, shallow: &'r HashSet<Oid>, promised: &'r Promised) -> Self {
        Self {
            repo,
            snapshot: repo.backend().snapshot(&[]),
            shallow,
            promised,
            absent: repo.backend().absent().unwrap_or_default(),
            waiting: Mutex::default(),
            changed: Condvar::new(),
            seen: Default::default(),
            unsound: AtomicBool::new(false),
        }
    }

    /// Whether everything is there, of the kind as which it is named. No object's hash is compared.
    pub(super) fn is_sound(&self, refs: &BTreeMap<String, RefTarget>, threads: NonZero<usize>) -> bool {
        let mut tips = Vec::new();
        for (name, target) in refs {
            if let RefTarget::Object(at) = target {
                let named = (named_kind(&*self.snapshot, name, at), *at);
                tips.extend(self.is_new(&named).then_some(named));
            }
        }
        self.waiting().0 = tips;
        thread::scope(|scope| {
            for _ in 0..threads.get() {
                scope.spawn(|| self.work(threads.get()));
            }
        });
        !self.unsound.load(Relaxed)
    }

    fn waiting(&self) -> MutexGuard<'_, (Vec<(Kind, ObjRef)>, usize)> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Looks at objects until nothing waits and no other thread looks at one.
    fn work(&self, threads: usize) {
        let _end = End(self);
        let mut waiting = self.waiting();
        loop {
            while waiting.0.is_empty() && waiting.1 > 0 && !self.unsound.load(Relaxed) {
                waiting = self.changed.wait(waiting).unwrap_or_else(PoisonError::into_inner);
            }
            if waiting.0.is_empty() || self.unsound.load(Relaxed) {
                return;
            }
            // The last ones: what waits stays little.
            let keep = waiting.0.len() - (waiting.0.len() / threads).clamp(1, TAKEN_MAX);
            let taken = waiting.0.split_off(keep);
            waiting.1 += 1;
            drop(waiting);
            let mut found = Vec::new();
            for (kind, at) in taken {
                match self.below(kind, &at) {
                    Some(below) => found.extend(below.into_iter().filter(|named| self.is_new(named))),
                    None => self.unsound.store(true, Relaxed),
                }
            }
            waiting = self.waiting();
            waiting.0.append(&mut found);
            waiting.1 -= 1;
            self.changed.notify_all();
        }
    }

    /// Whether an object was not seen as one of this kind.
    fn is_new(&self, (kind, at): &(Kind, ObjRef)) -> bool {
        let shard = usize::from(at.oid.as_bytes()[0]) % SHARDS;
        self.seen[shard].lock().unwrap_or_else(PoisonError::into_inner).insert((*kind, at.oid))
    }

    /// Returns what an object names that is to be there; `None` if the object is missing, damaged or of another kind.
    fn below(&self, kind: Kind, at: &ObjRef) -> Option<Vec<(Kind, ObjRef)>> {
        let found = match (self.repo.git(), kind) {
            (Some((backend, _)), Kind::Contents) => {
                let header = backend.odb().header(&at.oid).ok().flatten();
                header.filter(|(found, _)| *found == kind).map(|_| Vec::new())
            }
            _ => {
                let object = self.snapshot.read(at).ok().flatten().filter(|object| fits(kind, object.kind()));
                object.map(|object| children(self.repo.format(), &object))
            }
        };
        let mut below = match found {
            Some(below) => below,
            None => return self.promised.absent.contains(&at.oid).then(Vec::new),
        };
        if self.shallow.contains(&at.oid) {
            below.retain(|(kind, _)| *kind != Kind::Commit);
        }
        below.retain(|(_, child)| !self.absent.contains_key(&child.oid));
        Some(below)
    }
}

/// Wakes the others where a thread ends, even by a panic, so that none waits for it.
struct End<'w, 'r>(&'w Reachable<'r>);

impl Drop for End<'_, '_> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.unsound.store(true, Relaxed);
        }
        self.0.changed.notify_all();
    }
}
