//! From the thread that reads to the one that writes: a queue that is bounded in bytes.

use std::sync::mpsc;
use std::sync::{Arc, Condvar, Mutex};

use bristlecone::{Location, Oid};

use crate::history::error::Missing;

/// Bytes that are on their way, but for one object that is larger.
const BYTES_MAX: usize = 16 << 20;
/// Messages are handed over when they have so many bytes together.
const LOT_BYTES: usize = 128 << 10;
/// What a message takes besides its bytes.
const MESSAGE_BYTES: usize = 160;
/// Stands for no object: that of a submodule, or a base that there is none of.
pub(crate) const NO_NUMBER: u32 = u32::MAX;

/// What the reading thread found, children before parents. Objects that are no commits have numbers in the order in
/// which they come; commits have numbers of their own.
#[derive(Debug)]
pub(crate) enum Message {
    /// A value.
    Blob {
        number: u32,
        oid: Oid,
        raw: Vec<u8>,
        /// What the same path holds in a newer commit; [`NO_NUMBER`] if nothing.
        base: u32,
        /// A tag or ref names it, so that it must be an object by itself.
        whole: bool,
        /// The commit that it was reached from.
        from: Option<Oid>,
    },
    /// A directory.
    Tree {
        number: u32,
        oid: Oid,
        raw: Vec<u8>,
        /// The number of each entry's object.
        children: Vec<u32>,
        /// The newer version that it was compared with, and how it differs.
        base: Option<TreeBase>,
        /// The commit that it was reached from.
        from: Option<Oid>,
    },
    /// An object that is where the rest is to go.
    Existing { number: u32, at: Location, children: Vec<u32> },
    /// An object that is not to be had.
    Missing { number: u32, missing: Missing },
    /// A commit; `parents` are numbers of commits.
    Commit {
        number: u32,
        oid: Oid,
        raw: Vec<u8>,
        tree: u32,
        parents: Vec<u32>,
        /// Its parents were never fetched, and are left out of `parents`.
        shallow: bool,
    },
    /// A commit that is where the rest is to go.
    CommitExisting { number: u32, oid: Oid },
    /// A commit that is not to be had.
    CommitMissing { number: u32, missing: Missing },
    /// An annotated tag of a commit, or of an object that is none; `existing`: where it is, if it is where the rest is
    /// to go.
    Tag { number: u32, oid: Oid, raw: Vec<u8>, target: Named, existing: Option<Location> },
    /// A value that came inline before must be an object by itself after all.
    Whole { number: u32 },
}

/// What a ref or tag names: by its kind one of the two sorts of numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Named {
    Commit(u32),
    Tree(u32),
    Blob(u32),
    Tag(u32),
}

/// How a tree differs from the one it was compared with.
#[derive(Debug)]
pub(crate) struct TreeBase {
    pub(crate) number: u32,
    /// Indexes of the entries that are new or other than there.
    pub(crate) changed: std::ops::Range<u32>,
    /// The part of the other tree's bytes that those replace.
    pub(crate) replaced: Vec<u8>,
}

impl Message {
    fn bytes(&self) -> usize {
        MESSAGE_BYTES
            + match self {
                Self::Blob { raw, .. } | Self::Commit { raw, .. } | Self::Tag { raw, .. } => raw.len(),
                Self::Tree { raw, children, base, .. } => {
                    raw.len() + children.len() * 4 + base.as_ref().map_or(0, |base| base.replaced.len())
                }
                _ => 0,
            }
    }
}

/// The end that is written to.
pub(crate) struct Sender {
    sender: mpsc::Sender<(Vec<Message>, usize)>,
    lot: Vec<Message>,
    lot_bytes: usize,
    budget: Arc<Budget>,
}

/// The end that is read from.
pub(crate) struct Receiver {
    receiver: mpsc::Receiver<(Vec<Message>, usize)>,
    budget: Arc<Budget>,
}

#[derive(Default)]
struct Budget {
    // Bytes on their way, and whether nobody reads any more.
    state: Mutex<(usize, bool)>,
    changed: Condvar,
}

/// Makes a queue.
pub(crate) fn queue() -> (Sender, Receiver) {
    let (sender, receiver) = mpsc::channel();
    let budget = Arc::new(Budget::default());
    (Sender { sender, lot: Vec::new(), lot_bytes: 0, budget: budget.clone() }, Receiver { receiver, budget })
}

/// Nobody reads any more: the other thread says why.
#[derive(Debug)]
pub(crate) struct Closed;

impl Sender {
    /// Sends a message, waiting while too much is on its way.
    pub(crate) fn send(&mut self, message: Message) -> Result<(), Closed> {
        self.lot_bytes += message.bytes();
        self.lot.push(message);
        if self.lot_bytes >= LOT_BYTES { self.flush() } else { Ok(()) }
    }

    /// Hands over what waits.
    pub(crate) fn flush(&mut self) -> Result<(), Closed> {
        let bytes = std::mem::take(&mut self.lot_bytes);
        let mut state = self.budget.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        while !state.1 && state.0 > 0 && state.0 + bytes > BYTES_MAX {
            state = self.budget.changed.wait(state).unwrap_or_else(|poisoned| poisoned.into_inner());
        }
        if state.1 {
            return Err(Closed);
        }
        state.0 += bytes;
        drop(state);
        self.sender.send((std::mem::take(&mut self.lot), bytes)).map_err(|_| Closed)
    }
}

impl Receiver {
    /// Calls `each` with every message until the other end is gone.
    pub(crate) fn drain<E>(self, mut each: impl FnMut(Message) -> Result<(), E>) -> Result<(), E> {
        while let Ok((lot, bytes)) = self.receiver.recv() {
            for message in lot {
                each(message)?;
            }
            let mut state = self.budget.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
            state.0 -= bytes;
            drop(state);
            self.budget.changed.notify_one();
        }
        Ok(())
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        let mut state = self.budget.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        state.1 = true;
        drop(state);
        self.budget.changed.notify_one();
    }
}
