//! Parts for writing a backend. The disk engine and the Git backend stand on the same ones.
//!
//! - [`Queue`] is group commit: one thread leads and writes for all that wait.
//! - [`StoreLock`] lets one process write at a time.
//! - [`Worker`] is a thread beside the calls, for syncs of grouped commits and maintenance.
//! - [`Poison`] refuses writes after the first failure that leaves the medium unknown.
//! - [`Derived`] keeps files that may be lost, for [`crate::Backend::read_derived`].
//! - [`Header`] says which backend keeps a store, and the format of its objects.
//!
//! They know no objects and no refs, and none needs another. Bytes reach the disk through [`crate::storage`] alone. How a
//! backend appends with them:
//!
//! ```
//! use std::sync::Arc;
//!
//! use bristlecone::{
//!     Error,
//!     engine::{Poison, Queue, StoreLock},
//!     storage::{OpenMode, RealStorage, Storage, StorageFile, write_all_at},
//! };
//!
//! /// A log of lines, which many threads and processes append to.
//! struct Lines {
//!     file: Arc<dyn StorageFile>,
//!     queue: Queue<String, Result<(), Error>>,
//!     lock: StoreLock,
//!     poison: Poison,
//! }
//!
//! impl Lines {
//!     fn append(&self, line: String) -> Result<(), Error> {
//!         // The leading thread writes for all that wait, with one sync.
//!         self.queue.run(line, |lines| {
//!             let written = self.write(&lines.iter().map(|line| format!("{line}\n")).collect::<String>());
//!             vec![written; lines.len()]
//!         })?
//!     }
//!
//!     fn write(&self, text: &str) -> Result<(), Error> {
//!         let _guard = self.lock.take()?;
//!         self.poison.check()?;
//!         let written = self.file.len().and_then(|end| write_all_at(&*self.file, text.as_bytes(), end));
//!         let synced = written.and_then(|()| self.file.sync_data());
//!         self.poison.note(synced.map_err(|error| Error::io("lines", error)))
//!     }
//! }
//!
//! # let dir = tempfile::tempdir().expect("a folder");
//! let storage: Arc<dyn Storage> = Arc::new(RealStorage::new(dir.path()));
//! let file = storage.open("lines", OpenMode::Create).expect("a file");
//! let lock = StoreLock::new(storage, "lock", 10_000);
//! let lines = Lines { file, queue: Queue::default(), lock, poison: Poison::default() };
//! std::thread::scope(|scope| {
//!     for word in ["one", "two", "three"] {
//!         scope.spawn(|| lines.append(word.to_owned()).expect("an append"));
//!     }
//! });
//! assert_eq!(lines.file.len().expect("the length"), 14);
//! ```

mod derived;
mod header;
mod lock;
mod poison;
mod queue;
mod worker;

#[cfg(test)]
mod tests;

pub use derived::Derived;
pub use header::{FormatTag, Header};
pub(crate) use lock::Wait;
pub use lock::{StoreLock, StoreLockGuard};
pub use poison::Poison;
pub use queue::{Entered, Group, Lead, Queue, Waited, Waiter};
pub use worker::Worker;
