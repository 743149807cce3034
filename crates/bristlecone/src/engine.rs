//! Parts for writing a backend, which exist once and serve the disk engine and the Git backend alike.
//!
//! - [`Queue`] is group commit: one thread leads and writes for all who wait.

mod queue;

#[cfg(test)]
mod tests;

pub use queue::{Entered, Group, Lead, Queue, Waited, Waiter};
