//! What the snapshots of one process keep: for backends that sweep.
//!
//! The list of snapshots is in parts, one for each of some threads. So threads that take and drop snapshots do not wait
//! for each other and write to no memory in common. A caller that needs the whole list, as a sweep does, locks all parts.

use std::{
    array,
    cell::Cell,
    fmt,
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed},
    },
};

use bristlecone_core::Oid;
use smallvec::SmallVec;

use super::{Position, RefTarget};
use crate::sync::lock;

/// From this many displaced targets on, those that no snapshot is older than are dropped.
const DISPLACED_MIN: usize = 1024;
/// How many parts the list of snapshots has. If there are more threads, several share a part.
const PARTS: usize = 16;

/// The snapshots that are held, and what refs led to since the oldest of them was taken.
pub struct Pins {
    parts: [PinShard; PARTS],
    displaced: Mutex<Displaced>,
    // Snapshots that were taken before this position hold nothing.
    expired: AtomicU64,
}

/// The snapshots that some threads took; on cache lines of its own.
#[derive(Default)]
#[repr(align(128))]
struct PinShard(Mutex<PinnedSnapshots>);

#[derive(Default)]
struct PinnedSnapshots {
    snapshots: Vec<Option<Snapshot>>,
    // Places in the list that are free.
    free: Vec<usize>,
}

struct Snapshot {
    position: Position,
    // How much had been appended when it was taken.
    appended: u64,
    roots: SmallVec<[Oid; 1]>,
}

#[derive(Default)]
struct Displaced {
    // What a move took from a ref, and the position of that move, ascending.
    moves: Vec<(Position, Oid)>,
    // How many of these are worth looking through.
    many: usize,
}

impl Displaced {
    /// Forgets what refs left before the oldest snapshot was taken.
    fn trim(&mut self, held: &AllShards<'_>) {
        match held.holding().map(|snapshot| snapshot.position).min() {
            Some(oldest) => self.moves.retain(|(position, _)| *position > oldest),
            None => self.moves.clear(),
        }
        self.many = DISPLACED_MIN.max(2 * self.moves.len());
    }
}

/// All parts, locked.
struct AllShards<'p> {
    parts: [MutexGuard<'p, PinnedSnapshots>; PARTS],
    expired: Position,
}

impl AllShards<'_> {
    fn snapshots(&self) -> impl Iterator<Item = &Snapshot> {
        self.parts.iter().flat_map(|held| &held.snapshots).flatten()
    }

    /// Returns the snapshots that hold something.
    fn holding(&self) -> impl Iterator<Item = &Snapshot> {
        self.snapshots().filter(|snapshot| snapshot.position >= self.expired)
    }
}

/// Returns the part of this thread.
fn own_part() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        static OWN: Cell<usize> = const { Cell::new(usize::MAX) };
    }
    OWN.with(|own| {
        if own.get() == usize::MAX {
            own.set(NEXT.fetch_add(1, Relaxed) % PARTS);
        }
        own.get()
    })
}

impl Default for Pins {
    fn default() -> Self {
        Self { parts: array::from_fn(|_| PinShard::default()), displaced: Mutex::default(), expired: AtomicU64::new(0) }
    }
}

impl Pins {
    /// Locks every part, always in this order, so that what is seen was so at one moment.
    fn lock_all(&self) -> AllShards<'_> {
        let parts = array::from_fn(|part| lock(&self.parts[part].0));
        AllShards { parts, expired: Position(self.expired.load(Relaxed)) }
    }

    /// From now on, snapshots that were taken before this position hold nothing: neither roots nor what was appended since.
    pub fn expire(&self, before: Position) {
        self.expired.fetch_max(before.0, Relaxed);
    }

    /// Notes a snapshot in a part, and returns its place there.
    fn add(&self, part: usize, snapshot: Snapshot) -> usize {
        let snapshot = Some(snapshot);
        let mut held = lock(&self.parts[part].0);
        match held.free.pop() {
            Some(place) => {
                held.snapshots[place] = snapshot;
                place
            }
            None => {
                held.snapshots.push(snapshot);
                held.snapshots.len() - 1
            }
        }
    }

    /// Notes that a ref left what it led to, with the move at this position.
    pub fn displaced(&self, position: Position, target: &RefTarget) {
        let RefTarget::Object(at) = target else { return };
        let mut displaced = lock(&self.displaced);
        displaced.moves.push((position, at.oid));
        if displaced.moves.len() >= displaced.many {
            displaced.trim(&self.lock_all());
        }
    }

    /// Returns every root that a snapshot holds; what refs lead to now is not among them.
    #[must_use]
    pub fn roots(&self) -> Vec<Oid> {
        let mut displaced = lock(&self.displaced);
        let all = self.lock_all();
        displaced.trim(&all);
        let own = all.holding().flat_map(|snapshot| &snapshot.roots);
        own.chain(displaced.moves.iter().map(|(_, oid)| oid)).copied().collect()
    }

    /// Returns how much had been appended when the first of the snapshots was taken that are held: what came later stays.
    /// `None` if none is held.
    #[must_use]
    pub fn appended(&self) -> Option<u64> {
        self.lock_all().holding().map(|snapshot| snapshot.appended).min()
    }

    /// Returns how many snapshots are held.
    #[must_use]
    pub fn len(&self) -> usize {
        self.lock_all().snapshots().count()
    }

    /// Whether no snapshot is held.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl fmt::Debug for Pins {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Pins({} snapshots)", self.len())
    }
}

impl AsRef<Self> for Pins {
    fn as_ref(&self) -> &Self {
        self
    }
}

/// What one snapshot holds. It may be dropped by another thread than the one that took it.
///
/// It shares the store that it is of, so that a snapshot needs no share of its own.
#[must_use = "nothing is held once it is dropped"]
pub struct Pin<S: AsRef<Pins>> {
    store: Arc<S>,
    part: usize,
    place: usize,
    position: Position,
}

impl<S: AsRef<Pins>> Pin<S> {
    /// Holds what refs lead to at a position, what is appended from now on, and some roots, until the pin is dropped.
    /// `appended` counts what was appended by now, in whatever order the backend has.
    pub fn new(store: Arc<S>, position: Position, appended: u64, roots: &[Oid]) -> Self {
        let part = own_part();
        let place = (*store).as_ref().add(part, Snapshot { position, appended, roots: roots.into() });
        Self { store, part, place, position }
    }

    /// Returns the store.
    #[inline]
    pub const fn store(&self) -> &Arc<S> {
        &self.store
    }

    /// Returns the position.
    #[must_use]
    pub const fn position(&self) -> Position {
        self.position
    }

    fn lock(&self) -> MutexGuard<'_, PinnedSnapshots> {
        lock(&(*self.store).as_ref().parts[self.part].0)
    }

    /// Holds what [`Pin::new`] would hold from now on, in place of what it held: in one step, so that nothing which both
    /// hold is free between.
    pub fn move_to(&mut self, position: Position, appended: u64, roots: &[Oid]) {
        self.position = position;
        let mut next = Some(Snapshot { position, appended, roots: roots.into() });
        std::mem::swap(&mut self.lock().snapshots[self.place], &mut next);
        // There may be many roots, and no thread should wait until they are freed.
        drop(next);
    }

    /// Returns the roots that it holds.
    #[must_use]
    pub fn roots(&self) -> Vec<Oid> {
        self.lock().snapshots[self.place].iter().flat_map(|held| held.roots.iter().copied()).collect()
    }

    /// Holds another root.
    pub fn keep(&self, root: &Oid) {
        if let Some(snapshot) = &mut self.lock().snapshots[self.place]
            && snapshot.roots.last() != Some(root)
        {
            snapshot.roots.push(*root);
        }
    }
}

impl<S: AsRef<Pins>> Drop for Pin<S> {
    fn drop(&mut self) {
        let mut held = self.lock();
        let gone = held.snapshots[self.place].take();
        held.free.push(self.place);
        // There may be many roots, and no thread should wait until they are freed.
        drop(held);
        drop(gone);
    }
}

impl<S: AsRef<Pins>> fmt::Debug for Pin<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Pin({:?})", self.position)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn oid(byte: u8) -> Oid {
        Oid::from_array([byte; 32])
    }

    fn to(byte: u8) -> RefTarget {
        RefTarget::Object(oid(byte).into())
    }

    #[test]
    fn what_has_expired_holds_nothing_until_it_is_moved_on() {
        let pins = Arc::new(Pins::default());
        let mut old = Pin::new(pins.clone(), Position(1), 10, &[oid(1)]);
        pins.displaced(Position(2), &to(2));
        let young = Pin::new(pins.clone(), Position(3), 30, &[oid(3)]);
        pins.expire(Position(3));
        pins.expire(Position(2));
        assert_eq!((pins.roots(), pins.appended(), pins.len()), (vec![oid(3)], Some(30), 2));
        old.move_to(Position(4), 40, &[oid(4)]);
        drop(young);
        assert_eq!((pins.roots(), pins.appended(), pins.len()), (vec![oid(4)], Some(40), 1));
    }

    #[test]
    fn roots_are_those_of_snapshots_and_what_refs_left_since() {
        let pins = Arc::new(Pins::default());
        pins.displaced(Position(1), &to(1));
        assert_eq!((pins.roots(), pins.appended()), (vec![], None));
        let old = Pin::new(pins.clone(), Position(2), 20, &[oid(9)]);
        pins.displaced(Position(3), &to(3));
        let young = Pin::new(pins.clone(), Position(3), 30, &[]);
        pins.displaced(Position(4), &to(4));
        young.keep(&oid(8));
        assert_eq!((old.roots(), young.roots()), (vec![oid(9)], vec![oid(8)]));
        assert_eq!((pins.roots(), pins.appended()), (vec![oid(9), oid(8), oid(3), oid(4)], Some(20)));
        drop(old);
        assert_eq!((pins.roots(), pins.appended()), (vec![oid(8), oid(4)], Some(30)));
        let again = Pin::new(pins.clone(), Position(4), 40, &[oid(7)]);
        assert_eq!((pins.roots(), pins.len()), (vec![oid(7), oid(8), oid(4)], 2));
        drop((young, again));
        assert!(pins.roots().is_empty() && pins.is_empty());
    }

    #[test]
    fn what_refs_left_takes_no_more_memory_than_snapshots_ask_for() {
        let pins = Arc::new(Pins::default());
        let mut last = Pin::new(pins.clone(), Position(0), 0, &[]);
        for position in 1..100_000 {
            pins.displaced(Position(position), &to(1));
            last = Pin::new(pins.clone(), Position(position), position, &[]);
            assert!(lock(&pins.displaced).moves.len() <= DISPLACED_MIN + 1);
        }
        assert_eq!(last.position(), Position(99_999));
        assert_eq!(pins.lock_all().parts.iter().map(|held| held.snapshots.len()).sum::<usize>(), 2);
    }

    #[test]
    fn what_every_thread_holds_counts_and_threads_write_to_parts_of_their_own() {
        let pins = Arc::new(Pins::default());
        let old = Pin::new(pins.clone(), Position(1), 10, &[oid(1)]);
        let own = own_part();
        let mut parts = std::collections::BTreeSet::from([own]);
        // This many threads must take some part twice.
        let pinned: Vec<(usize, Pin<Pins>)> = (2..2 + PARTS as u8)
            .map(|number| {
                let take = || {
                    (
                        own_part(),
                        Pin::new(pins.clone(), Position(number.into()), 10 * u64::from(number), &[oid(number)]),
                    )
                };
                std::thread::scope(|scope| scope.spawn(take).join().unwrap())
            })
            .collect();
        parts.extend(pinned.iter().map(|(part, _)| *part));
        assert!(parts.len() > PARTS / 2, "{parts:?}");
        for (part, held) in pins.lock_all().parts.iter().enumerate() {
            let here = pinned.iter().filter(|(taken, _)| *taken == part).count() + usize::from(part == own);
            assert_eq!(held.snapshots.len(), here, "part {part}");
        }
        pins.displaced(Position(3), &to(100));
        let mut roots = pins.roots();
        roots.sort_unstable();
        let mut wanted: Vec<Oid> = (1..2 + PARTS as u8).chain([100]).map(oid).collect();
        wanted.sort_unstable();
        assert_eq!((roots, pins.appended(), pins.len()), (wanted, Some(10), PARTS + 1));
        // This thread moves on, and drops, snapshots that other threads took.
        let mut pinned = pinned.into_iter();
        let (_, mut second) = pinned.next().unwrap();
        second.move_to(Position(90), 900, &[oid(90)]);
        second.keep(&oid(91));
        drop(old);
        drop(pinned);
        assert_eq!((pins.roots(), pins.appended(), pins.len()), (vec![oid(90), oid(91)], Some(900), 1));
        drop(second);
        assert!(pins.is_empty() && pins.roots().is_empty());
    }
}
