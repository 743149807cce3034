//! A repository as Git keeps it on a file system: the files, their formats, and how they are read and written.
//!
//! - [`layout`] finds a repository and reads its configuration.
//! - [`odb`] reads objects: loose, from packs, from alternates.
//! - [`pack`] reads packs, makes them in memory, and repacks many into one.
//! - [`refs`] reads refs, loose and packed, and moves one under Git's lock, with its reflog.
//! - `shallow` reads which commits have no parents here; `files`, `hash`, `zlib` and `mutex` serve all of these.
//!
//! **In and out.** Bytes come in from a [`Storage`](bristlecone::storage::Storage) and are checked before they are
//! used. They go out through the same storage. Only `layout` looks at paths of the operating system.
//!
//! **Callers.** Everything above: the backend, histories, the working tree. This room knows none of them.

pub(crate) mod error;
pub(crate) mod files;
pub(crate) mod hash;
pub mod layout;
pub(crate) mod mutex;
pub mod odb;
pub mod pack;
pub mod refs;
pub(crate) mod shallow;
pub(crate) mod zlib;
