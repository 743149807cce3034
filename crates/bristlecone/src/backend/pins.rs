//! What the snapshots of one process keep: for backends that sweep.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use bristlecone_core::Oid;

use super::{Position, RefTarget};

/// The snapshots that are held, and what refs led to since the oldest of them was taken.
#[derive(Default)]
pub struct Pins(Mutex<Held>);

#[derive(Default)]
struct Held {
    // By position, then by a number of its own.
    snapshots: BTreeMap<Key, Snapshot>,
    taken: u64,
    // What a move took from a ref, and the position of that move, ascending.
    displaced: Vec<(Position, Oid)>,
}

/// What tells a snapshot from others.
type Key = (Position, u64);

struct Snapshot {
    // How much had been appended when it was taken.
    appended: u64,
    roots: Vec<Oid>,
}

impl Pins {
    fn lock(&self) -> MutexGuard<'_, Held> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Holds what refs lead to at a position, what is appended from now on, and some roots, until the pin is dropped.
    /// `appended` counts what was appended by now, in whatever order the backend has.
    pub fn pin(self: &Arc<Self>, position: Position, appended: u64, roots: &[Oid]) -> Pin {
        let mut held = self.lock();
        held.taken += 1;
        let key = (position, held.taken);
        held.snapshots.insert(key, Snapshot { appended, roots: roots.to_vec() });
        drop(held);
        Pin { pins: self.clone(), key }
    }

    /// Notes that a ref left what it led to, with the move at this position.
    pub fn displaced(&self, position: Position, target: &RefTarget) {
        let RefTarget::Object(at) = target else { return };
        let mut held = self.lock();
        if held.snapshots.is_empty() {
            held.displaced.clear();
        } else {
            held.displaced.push((position, at.oid));
        }
    }

    /// Returns every root that a snapshot holds; what refs lead to now is not among them.
    #[must_use]
    pub fn roots(&self) -> Vec<Oid> {
        let mut held = self.lock();
        let Some(&(oldest, _)) = held.snapshots.keys().next() else {
            held.displaced.clear();
            return Vec::new();
        };
        held.displaced.retain(|(position, _)| *position > oldest);
        let own = held.snapshots.values().flat_map(|snapshot| &snapshot.roots);
        own.chain(held.displaced.iter().map(|(_, oid)| oid)).copied().collect()
    }

    /// Returns how much had been appended when the first of the snapshots was taken that are held: what came later stays.
    /// `None` if none is held.
    #[must_use]
    pub fn appended(&self) -> Option<u64> {
        self.lock().snapshots.values().map(|snapshot| snapshot.appended).min()
    }

    /// Returns how many snapshots are held.
    #[must_use]
    pub fn len(&self) -> usize {
        self.lock().snapshots.len()
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
    key: Key,
}

impl Pin {
    /// Returns the position.
    #[must_use]
    pub const fn position(&self) -> Position {
        self.key.0
    }

    /// Holds another root.
    pub fn keep(&self, root: &Oid) {
        if let Some(snapshot) = self.pins.lock().snapshots.get_mut(&self.key)
            && snapshot.roots.last() != Some(root)
        {
            snapshot.roots.push(*root);
        }
    }
}

impl Drop for Pin {
    fn drop(&mut self) {
        self.pins.lock().snapshots.remove(&self.key);
    }
}
