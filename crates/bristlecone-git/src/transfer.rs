//! Whole histories: from a repository into a store, and out again.
