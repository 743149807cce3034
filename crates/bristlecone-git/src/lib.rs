//! Git repositories for the Bristlecone store: real ones, that any Git reads and writes beside us.
//!
//! [`GitBackend`](backend) keeps objects and refs in a repository; [`odb`] reads objects wherever Git puts them;
//! [`history`] brings whole histories into a store and out again; [`worktree`] updates files and index.
//!
//! What the backend, an import and an export write goes through [`bristlecone::storage::Storage`], so that a power cut
//! at any point is a test. Finding a repository, reading settings, and the files of a working tree do not:
//! `docs/formats/git-backend.md` lists each such call and the reason, in section 7. Other programs write to a
//! repository, too: its bytes are checked before they are believed, and never cause a panic.

pub mod backend;
pub mod history;
mod repository;
pub mod worktree;

pub use repository::{layout, odb, pack, refs};
