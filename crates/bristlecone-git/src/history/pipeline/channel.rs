//! From the thread that reads to the one that writes: a queue that is bounded in bytes.

use std::sync::mpsc;
use std::sync::{Arc, Condvar, Mutex};

use bristlecone::{Location, Oid};

use crate::history::error::Missing;

/// Bytes in the queue, at most, unless a single object is larger.
const BYTES_MAX: usize = 16 << 20;
/// Bytes of messages that are handed over together.
const LOT_BYTES: usize = 128 << 10;
/// What a message takes besides its bytes.
const MESSAGE_BYTES: usize = 160;
/// Stands for no object: an entry of a submodule, or a missing base.
pub(crate) const NO_NUMBER: u32 = u32::MAX;

/// What the reading thread found, children before parents. Commits have numbers of their own; other objects have
/// numbers in the order in which they come.
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
    /// An object that the destination has.
    Existing { number: u32, at: Location, children: Vec<u32> },
    /// An object that is missing or damaged.
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
    /// A commit that the destination has.
    CommitExisting { number: u32, oid: Oid },
    /// A commit that is missing or damaged.
    CommitMissing { number: u32, missing: Missing },
    /// An annotated tag. `existing`: where the destination has it, if it does.
    Tag { number: u32, oid: Oid, raw: Vec<u8>, target: Named, existing: Option<Location> },
    /// A value that came inline before must be an object by itself, too.
    Whole { number: u32 },
}

/// What a ref or tag names, with its number: that of a commit, or of another object.
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
    /// Indexes of the entries that are new or differ.
    pub(crate) changed: std::ops::Range<u32>,
    /// The bytes of the other tree that those replace.
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
    // Bytes in the queue, and whether the receiver is gone.
    state: Mutex<(usize, bool)>,
    changed: Condvar,
}

/// Makes a queue.
pub(crate) fn queue() -> (Sender, Receiver) {
    let (sender, receiver) = mpsc::channel();
    let budget = Arc::new(Budget::default());
    (Sender { sender, lot: Vec::new(), lot_bytes: 0, budget: budget.clone() }, Receiver { receiver, budget })
}

/// The receiver is gone: the other thread says why.
#[derive(Debug)]
pub(crate) struct Closed;

impl Sender {
    /// Sends a message, waiting while the queue is full.
    pub(crate) fn send(&mut self, message: Message) -> Result<(), Closed> {
        self.lot_bytes += message.bytes();
        self.lot.push(message);
        if self.lot_bytes >= LOT_BYTES { self.flush() } else { Ok(()) }
    }

    /// Hands over the messages that were gathered.
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
    /// Calls `each` with every message until the sender is gone.
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
