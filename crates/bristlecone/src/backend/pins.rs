//! What the snapshots of one process keep: for backends that sweep.

use std::{
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use bristlecone_core::Oid;
use smallvec::SmallVec;

use super::{Position, RefTarget};

/// From so many on, what refs left is looked through for what no snapshot is older than.
const DISPLACED_MIN: usize = 1024;

/// The snapshots that are held, and what refs led to since the oldest of them was taken.
#[derive(Default)]
pub struct Pins(Mutex<Held>);

#[derive(Default)]
struct Held {
    snapshots: Vec<Option<Snapshot>>,
    // Places in the list that are free.
    free: Vec<usize>,
    // What a move took from a ref, and the position of that move, ascending.
    displaced: Vec<(Position, Oid)>,
    // How many of these are worth looking through.
    displaced_many: usize,
}

struct Snapshot {
    position: Position,
    // How much had been appended when it was taken.
    appended: u64,
    roots: SmallVec<[Oid; 1]>,
}

impl Held {
    fn snapshots(&self) -> impl Iterator<Item = &Snapshot> {
        self.snapshots.iter().flatten()
    }

    /// Forgets what refs left before the oldest snapshot was taken.
    fn trim(&mut self) {
        match self.snapshots().map(|snapshot| snapshot.position).min() {
            Some(oldest) => self.displaced.retain(|(position, _)| *position > oldest),
            None => self.displaced.clear(),
        }
        self.displaced_many = DISPLACED_MIN.max(2 * self.displaced.len());
    }
}

impl Pins {
    fn lock(&self) -> MutexGuard<'_, Held> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Holds what refs lead to at a position, what is appended from now on, and some roots, until the pin is dropped.
    /// `appended` counts what was appended by now, in whatever order the backend has.
    pub fn pin(self: &Arc<Self>, position: Position, appended: u64, roots: &[Oid]) -> Pin {
        let snapshot = Some(Snapshot { position, appended, roots: roots.into() });
        let mut held = self.lock();
        let place = match held.free.pop() {
            Some(place) => {
                held.snapshots[place] = snapshot;
                place
            }
            None => {
                held.snapshots.push(snapshot);
                held.snapshots.len() - 1
            }
        };
        drop(held);
        Pin { pins: self.clone(), place, position }
    }

    /// Notes that a ref left what it led to, with the move at this position.
    pub fn displaced(&self, position: Position, target: &RefTarget) {
        let RefTarget::Object(at) = target else { return };
        let mut held = self.lock();
        held.displaced.push((position, at.oid));
        if held.displaced.len() >= held.displaced_many {
            held.trim();
        }
    }

    /// Returns every root that a snapshot holds; what refs lead to now is not among them.
    #[must_use]
    pub fn roots(&self) -> Vec<Oid> {
        let mut held = self.lock();
        held.trim();
        let own = held.snapshots().flat_map(|snapshot| &snapshot.roots);
        own.chain(held.displaced.iter().map(|(_, oid)| oid)).copied().collect()
    }

    /// Returns how much had been appended when the first of the snapshots was taken that are held: what came later stays.
    /// `None` if none is held.
    #[must_use]
    pub fn appended(&self) -> Option<u64> {
        self.lock().snapshots().map(|snapshot| snapshot.appended).min()
    }

    /// Returns how many snapshots are held.
    #[must_use]
    pub fn len(&self) -> usize {
        self.lock().snapshots().count()
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

/// What one snapshot holds.
#[derive(Debug)]
pub struct Pin {
    pins: Arc<Pins>,
    place: usize,
    position: Position,
}

impl Pin {
    /// Returns the position.
    #[must_use]
    pub const fn position(&self) -> Position {
        self.position
    }

    /// Holds what [`Pins::pin`] would hold from now on, in place of what it held: in one step, so that nothing which both
    /// hold is free between.
    pub fn move_to(&mut self, position: Position, appended: u64, roots: &[Oid]) {
        self.position = position;
        let mut next = Some(Snapshot { position, appended, roots: roots.into() });
        std::mem::swap(&mut self.pins.lock().snapshots[self.place], &mut next);
        // Roots may be many, and nobody waits for them to be freed.
        drop(next);
    }

    /// Holds another root.
    pub fn keep(&self, root: &Oid) {
        if let Some(snapshot) = &mut self.pins.lock().snapshots[self.place]
            && snapshot.roots.last() != Some(root)
        {
            snapshot.roots.push(*root);
        }
    }
}

impl Drop for Pin {
    fn drop(&mut self) {
        let mut held = self.pins.lock();
        let gone = held.snapshots[self.place].take();
        held.free.push(self.place);
        // Roots may be many, and nobody waits for them to be freed.
        drop(held);
        drop(gone);
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
    fn roots_are_those_of_snapshots_and_what_refs_left_since() {
        let pins: Arc<Pins> = Arc::default();
        pins.displaced(Position(1), &to(1));
        assert_eq!((pins.roots(), pins.appended()), (vec![], None));
        let old = pins.pin(Position(2), 20, &[oid(9)]);
        pins.displaced(Position(3), &to(3));
        let young = pins.pin(Position(3), 30, &[]);
        pins.displaced(Position(4), &to(4));
        young.keep(&oid(8));
        assert_eq!((pins.roots(), pins.appended()), (vec![oid(9), oid(8), oid(3), oid(4)], Some(20)));
        drop(old);
        assert_eq!((pins.roots(), pins.appended()), (vec![oid(8), oid(4)], Some(30)));
        let again = pins.pin(Position(4), 40, &[oid(7)]);
        assert_eq!((pins.roots(), pins.len()), (vec![oid(7), oid(8), oid(4)], 2));
        drop((young, again));
        assert!(pins.roots().is_empty() && pins.is_empty());
    }

    #[test]
    fn what_refs_left_takes_no_more_memory_than_snapshots_ask_for() {
        let pins: Arc<Pins> = Arc::default();
        let mut last = pins.pin(Position(0), 0, &[]);
        for position in 1..100_000 {
            pins.displaced(Position(position), &to(1));
            last = pins.pin(Position(position), position, &[]);
            assert!(pins.lock().displaced.len() <= DISPLACED_MIN + 1);
        }
        assert_eq!((pins.lock().snapshots.len(), last.position()), (2, Position(99_999)));
    }
}
