//! The heads whose trees a thread checked out last, with their roots: while a branch stays, neither its ref nor its commit is
//! read again.
//!
//! A commit's id fixes its root, and both locations are hints. So what is kept here stays right however the branch moves
//! and whatever is swept. It is of one thread, so that threads share no memory and take no lock.

use std::{
    cell::RefCell,
    sync::atomic::{AtomicU64, Ordering},
};

use bristlecone_core::ObjRef;

use crate::Position;

/// How many branches a thread remembers, each at the place that its number has.
const PLACES: usize = 4;

/// The number of a branch handle and its clones. No two others in a process share one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BranchNumber(u64);

impl BranchNumber {
    pub(super) fn next() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Self(NEXT.fetch_add(1, Ordering::Relaxed))
    }

    const fn place(self) -> usize {
        self.0 as usize % PLACES
    }
}

/// A head as it was read.
#[derive(Clone, Copy)]
pub(super) struct LastHead {
    pub(super) branch: BranchNumber,
    /// That of the last move before the ref was read; `None` in a backend that has none.
    pub(super) position: Option<Position>,
    /// How many sweeps had begun by then: a later one may have moved the objects.
    pub(super) sweeps: u64,
    pub(super) head: ObjRef,
    pub(super) root: ObjRef,
}

thread_local! {
    static LAST: RefCell<[Option<LastHead>; PLACES]> = const { RefCell::new([None; PLACES]) };
}

fn find(branch: BranchNumber, is_wanted: impl FnOnce(&LastHead) -> bool) -> Option<(ObjRef, ObjRef)> {
    LAST.with_borrow(|last| {
        let last = last[branch.place()].as_ref().filter(|last| last.branch == branch && is_wanted(last))?;
        Some((last.head, last.root))
    })
}

/// Returns the head and its root, if no ref has moved since they were read and nothing was swept.
#[inline]
pub(super) fn at_position(branch: BranchNumber, position: Position, sweeps: u64) -> Option<(ObjRef, ObjRef)> {
    find(branch, |last| last.position == Some(position) && last.sweeps == sweeps)
}

/// Returns the root of this head, if it is known. A head that was written anew at another location is read again, for the
/// location of its root.
pub(super) fn root_of(branch: BranchNumber, head: &ObjRef) -> Option<ObjRef> {
    find(branch, |last| last.head == *head && last.head.at == head.at).map(|(_, root)| root)
}

/// Remembers a head, in place of another branch's.
pub(super) fn keep(last: LastHead) {
    LAST.with_borrow_mut(|all| all[last.branch.place()] = Some(last));
}
