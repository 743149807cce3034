//! Workloads: named lists of steps, small enough that every call of each can be cut.

use bristlecone::Durability;

mod library;

pub use library::{deaths, workloads};

/// Steps that a new store goes through.
#[derive(Clone, Debug)]
pub struct Workload {
    /// The name, which failures print.
    pub name: &'static str,
    /// The steps. Handle 0 is the one that created the store.
    pub steps: Vec<CrashStep>,
}

/// One step of a workload. Handles are opened when they are first used.
#[derive(Clone, Debug)]
pub enum CrashStep {
    /// Commits values of these sizes and moves the refs to new commits, each above the ref's last.
    Commit {
        /// Through which handle.
        handle: usize,
        /// The refs, which move in one step.
        refs: Vec<String>,
        /// Bytes of each new value.
        sizes: Vec<usize>,
        /// When it is acknowledged.
        durability: Durability,
    },
    /// Removes refs in one step.
    Remove {
        /// Through which handle.
        handle: usize,
        /// The refs.
        refs: Vec<String>,
        /// When it is acknowledged.
        durability: Durability,
    },
    /// Points a ref at another ref.
    Symbolic {
        /// Through which handle.
        handle: usize,
        /// The ref.
        name: &'static str,
        /// Where it points.
        to: &'static str,
        /// When it is acknowledged.
        durability: Durability,
    },
    /// Appends values that nothing refers to yet; the next commit does.
    Early {
        /// Through which handle.
        handle: usize,
        /// Bytes of each value.
        sizes: Vec<usize>,
    },
    /// Tries a compare-and-set with a wrong expectation.
    Conflict {
        /// Through which handle.
        handle: usize,
        /// The ref.
        name: &'static str,
    },
    /// Makes everything durable.
    Flush {
        /// Through which handle.
        handle: usize,
    },
    /// Drops what nothing leads to, where the backend can.
    Sweep {
        /// Through which handle.
        handle: usize,
    },
    /// Writes a derived file.
    Derived {
        /// Through which handle.
        handle: usize,
        /// The file.
        name: &'static str,
        /// Its size in bytes.
        bytes: usize,
    },
    /// Opens the handle, if it is not open.
    Open {
        /// Which.
        handle: usize,
    },
    /// Closes the handle without a flush; later steps open it again.
    Close {
        /// Which.
        handle: usize,
    },
}

impl CrashStep {
    /// Returns the handle that takes the step.
    #[must_use]
    pub const fn handle(&self) -> usize {
        match self {
            Self::Commit { handle, .. }
            | Self::Remove { handle, .. }
            | Self::Symbolic { handle, .. }
            | Self::Early { handle, .. }
            | Self::Conflict { handle, .. }
            | Self::Flush { handle }
            | Self::Sweep { handle }
            | Self::Derived { handle, .. }
            | Self::Open { handle }
            | Self::Close { handle } => *handle,
        }
    }
}
