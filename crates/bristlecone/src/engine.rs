//! Parts for writing a backend, which exist once and serve the disk engine and the Git backend alike.
//!
//! - [`Queue`] is group commit: one thread leads and writes for all who wait.
//! - [`StoreLock`] lets one process write at a time.
//! - [`Poison`] refuses writes after the first failure that leaves the medium unknown.
//! - [`Derived`] keeps files that may be lost, for [`crate::Backend::read_derived`].

mod derived;
mod lock;
mod poison;
mod queue;

#[cfg(test)]
mod tests;

pub use derived::Derived;
pub(crate) use lock::Wait;
pub use lock::{StoreLock, StoreLockGuard};
pub use poison::Poison;
pub use queue::{Entered, Group, Lead, Queue, Waited, Waiter};
