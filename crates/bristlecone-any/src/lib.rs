//! Bristlecone stores whose format and backend are chosen at run time.
//!
//! `bristlecone::Repo<F>` knows its format when it is compiled. A command, a server or a binding does not: it is given a
//! path or a url, and what is there says what it is. [`AnyRepo`] finds such a store, opens it and is a
//! [`Repo`](bristlecone::Repo) of [`AnyFormat`] from then on.
//!
//! ```
//! use bristlecone::Info;
//! use bristlecone_any::AnyRepo;
//!
//! let dir = tempfile::tempdir()?;
//! let repo = AnyRepo::open_or_create(dir.path())?;
//! let main = repo.branch("main")?;
//! let mut tree = main.tree()?;
//! tree.set("fruit/apple", b"red")?;
//! main.commit(&mut tree, &Info::message("first fruit"))?;
//! repo.close()?;
//!
//! let again = AnyRepo::open(dir.path())?;
//! assert_eq!(again.format().name(), "native");
//! assert_eq!(again.branch("main")?.tree()?.get("fruit/apple")?.as_deref(), Some(&b"red"[..]));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! It parses no command line, prints nothing, reads no standard input, never ends the process and changes nothing of it.
//! The environment is read where the documentation says so ([`identity`]).

#[cfg(doctest)]
#[doc = include_str!("../../../docs/guide.md")]
struct Guide;

pub mod check;
pub mod copy;
mod error;
pub mod folder;
pub mod format;
pub mod identity;
mod moment;
pub mod path;
pub mod place;
mod repo;
pub mod revision;
mod text;

pub use error::{Error, ErrorKind, Result};
pub use format::{AnyFormat, Branch, DirEntry, Prepared, Repo, Tree};
pub use place::{Found, Place, STORE_DIR, store_dir};
pub use repo::{AnyBackend, AnyRepo, FIRST_BRANCH, Head, OpenOptions, check_new_branch, short_branch};
pub use text::shown;
