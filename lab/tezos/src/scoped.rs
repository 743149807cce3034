//! Contexts, and mentions of them and of commits.

/// The id of a context: a tree that some row produced. Context 0 is the empty tree, before the first row.
pub type ContextId = i64;

/// A mention of a context or commit, and whether it is the last one of the trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scoped<T> {
    /// What is mentioned.
    pub value: T,
    /// It is mentioned again later; otherwise it can be forgotten.
    pub keep: bool,
}

impl<T> Scoped<T> {
    /// A mention that others follow.
    pub const fn keep(value: T) -> Self {
        Self { value, keep: true }
    }

    /// The last mention.
    pub const fn forget(value: T) -> Self {
        Self { value, keep: false }
    }
}
