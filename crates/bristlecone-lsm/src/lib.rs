//! A backend on a log-structured merge tree: objects and refs in a [fjall](https://docs.rs/fjall) database.
//!
//! **The idea.** One key for each object would be too slow. So a batch stays the run of records that it is: it is cut into
//! *pages* of a linear address space of 16 KiB each, and a page is one value under its number. Numbers only rise, so the tree
//! appends, and its compaction moves whole tables. An object's location is its address; a read by location is one get. The
//! index by id is written beside the commits, in sorted runs. A commit is one write batch of pages, refs and state: the whole
//! of it is there after a crash, or nothing.
//!
//! ```
//! use std::sync::Arc;
//!
//! use bristlecone::{Info, Native, Repo, engine::FormatTag};
//! use bristlecone_lsm::{LsmBackend, LsmOptions};
//!
//! # let dir = tempfile::tempdir()?;
//! let format = FormatTag { name: "native".to_owned(), version: 1, options: String::new() };
//! let backend = LsmBackend::create(dir.path(), format, LsmOptions::default())?;
//! let repo = Repo::with_backend(Native::default(), Arc::new(backend));
//! let main = repo.branch("main")?;
//! let mut tree = main.tree()?;
//! tree.set("fruit/apple", b"red")?;
//! main.commit(&mut tree, &Info::message("first fruit"))?;
//! # drop((tree, main, repo));
//!
//! let backend = LsmBackend::open(dir.path(), LsmOptions::default(), false)?;
//! let repo = Repo::with_backend(Native::default(), Arc::new(backend));
//! assert_eq!(repo.branch("main")?.tree()?.get("fruit/apple")?.as_deref(), Some(&b"red"[..]));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! One process at a time has the store open. `docs/formats/lsm.md` lists the bytes.

mod backend;
mod error;
mod options;

pub use backend::LsmBackend;
pub use error::LsmError;
pub use options::LsmOptions;
