//! The backend: objects and refs of a store in a Git repository.
