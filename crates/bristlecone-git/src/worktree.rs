//! The working tree: files and index follow a commit that was made without them.
//!
//! **The idea.** A commit to the branch that Git has checked out would show in `git status` as its reversal. An
//! [`Update`] takes Git's lock of the index first, checks that nothing which is not committed would be lost, and holds
//! the lock while the caller commits. Then it writes files and index, with what the system says of each file, so that
//! `git status` finds nothing to do. Paths that the commit does not change are neither looked at nor touched.
//!
//! A path may follow where file and index entry are as before the commit, or already as after it. Everything else is
//! refused, before anything has changed, and named.
//!
//! **In and out.** Changes and the bytes of files come from the caller. `view` reads files and index as they are,
//! `check` compares them with the changes, [`Update`] writes. [`Tracked`], [`checked_out`], [`HeldRefs`], [`Settings`],
//! [`submodule`](fn@submodule) and [`ignore`] only read, for imports of folders and for all that moves a ref.
//!
//! **Callers.** The command line, stores chosen at run time, and histories, which ask which refs are checked out.
//!
//! What it does not do: convert contents. Where attributes or settings ask for other bytes in files than in objects,
//! the path is refused. It runs no hooks and no filters.
//!
//! Files and index are the user's, not the store's: they are written by the operating system's calls, each whole under
//! a name of its own and then moved. Only the index is synced, where that is asked for; a file that a power cut takes
//! is in the commit.

mod attributes;
mod change;
mod check;
mod folder;
mod glob;
mod heads;
mod held;
pub mod ignore;
mod index;
mod lock;
mod owner;
mod rename;
mod settings;
mod submodule;
mod tracked;
mod update;
mod view;

pub use change::{Change, Followed, ReadFile, Refusal, TreeItem};
pub use heads::{CheckedOut, WorktreeHead, checked_out};
pub use held::{HeldRefs, Hold};
pub use owner::foreign_owner;
pub use rename::rename_new;
pub use settings::Settings;
pub use submodule::{Submodule, submodule};
pub use tracked::Tracked;
pub use update::Update;
