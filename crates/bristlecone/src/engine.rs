//! Parts for writing a backend. The disk engine and the Git backend stand on the same ones.
//!
//! - [`Queue`] is group commit: one thread leads and writes for all who wait.
//! - [`StoreLock`] lets one process write at a time.
//! - [`Worker`] is a thread beside the calls, for syncs of grouped commits and maintenance.
//! - [`Poison`] refuses writes after the first failure that leaves the medium unknown.
//! - [`Derived`] keeps files that may be lost, for [`crate::Backend::read_derived`].
//!
//! They know no objects and no refs, and none needs another. Bytes reach the disk through [`crate::storage`] alone. What
//! a part of a backend that appends looks like:
//!
//! ```
//! use std::sync::Arc;
//!
//! use bristlecone::{
//!     Error,
//!     engine::{Poison, Queue, StoreLock},
//!     storage::{OpenMode, RealStorage, Storage, write_all_at},
//! };
//!
//! /// A log of lines, which many threads and processes append to.
//! struct Lines {
//!     storage: Arc<dyn Storage>,
//!     queue: Queue<String, Result<(), Error>>,
//!     lock: StoreLock,
//!     poison: Poison,
//! }
//!
//! impl Lines {
//!     fn append(&self, line: String) -> Result<(), Error> {
//!         self.queue.run(line, |lines| {
//!             let written = self.write(lines);
//!             lines.iter().map(|_| written.clone()).collect()
//!         })?
//!     }
//!
//!     /// Writes for everybody who waits, with one sync.
//!     fn write(&self, lines: &[&String]) -> Result<(), Error> {
//!         let _guard = self.lock.take()?;
//!         self.poison.check()?;
//!         let failed = |error| Error::io(self.storage.describe("lines"), error);
//!         let file = self.storage.open("lines", OpenMode::Create).map_err(failed)?;
//!         let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
//!         write_all_at(&*file, text.as_bytes(), file.len().map_err(failed)?).map_err(failed)?;
//!         self.poison.note(file.sync_data().map_err(failed))
//!     }
//! }
//!
//! # let dir = tempfile::tempdir().expect("a folder");
//! let storage: Arc<dyn Storage> = Arc::new(RealStorage::new(dir.path()));
//! let lock = StoreLock::new(storage.clone(), "lock", 10_000);
//! let lines = Lines { storage: storage.clone(), queue: Queue::default(), lock, poison: Poison::default() };
//! std::thread::scope(|scope| {
//!     for word in ["one", "two", "three"] {
//!         scope.spawn(|| lines.append(word.to_owned()).expect("an append"));
//!     }
//! });
//! let bytes = storage.open("lines", OpenMode::Read).and_then(|file| file.len()).expect("the length");
//! assert_eq!(bytes, 14);
//! ```

mod derived;
mod lock;
mod poison;
mod queue;
mod worker;

#[cfg(test)]
mod tests;

pub use derived::Derived;
pub(crate) use lock::Wait;
pub use lock::{StoreLock, StoreLockGuard};
pub use poison::Poison;
pub use queue::{Entered, Group, Lead, Queue, Waited, Waiter};
pub use worker::Worker;
