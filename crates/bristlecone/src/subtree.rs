//! Subtrees: a directory with a history of its own, shared with other repositories.
//!
//! The history of another repository is joined below a directory ([`Subtree::add`]), goes on there and elsewhere, and
//! is brought together again: what changed elsewhere by [`Subtree::pull`], what changed here by [`Subtree::split`],
//! which makes commits of the directory alone, and [`Subtree::push`], which brings them to the other repository.
//!
//! The idea is that of `git subtree`, and so are messages and commits: what one of the two joined, the other splits
//! and pulls. Nothing is kept beside the commits themselves: a commit's message says what was joined, and a split gives
//! the same commits whenever it is done.

use bristlecone_core::{AsPath, CommitId, Format, ObjRef, Oid, Path, native::Native};

use crate::{Durability, Error, Repo, Result, merge::Conflict};

mod join;
mod message;
mod push;
mod rewrite;
mod signature;
mod split;
mod status;
mod survey;

pub use join::Joined;
pub use push::Pushed;
pub use split::Split;
pub use status::{Compared, Status};

/// A directory of a repository whose history is shared with others.
///
/// ```
/// # use bristlecone::{Info, Repo};
/// let (app, lib) = (Repo::memory(), Repo::memory());
/// let theirs = lib.branch("main")?.edit(&Info::message("a library"), |tree| tree.set("code", "1"))?;
/// let main = app.branch("main")?;
/// let ours = main.edit(&Info::message("a program"), |tree| tree.set("start", "here"))?;
///
/// let subtree = app.subtree("lib")?;
/// app.copy_objects(&lib, &[theirs])?;
/// let mut joined = subtree.add(ours, theirs, None, None)?;
/// let info = Info::message(joined.message);
/// main.commit_with_parents(&mut joined.tree, &joined.parents, &info)?;
/// let head = main.edit(&Info::message("better"), |tree| tree.set("lib/code", "2"))?;
///
/// subtree.push(head, &lib, "main", Default::default())?;
/// assert_eq!(lib.branch("main")?.tree()?.get("code")?.as_deref(), Some(&b"2"[..]));
/// # Ok::<(), bristlecone::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Subtree<F: Format = Native> {
    repo: Repo<F>,
    prefix: Path,
}

impl<F: Format> Repo<F> {
    /// Returns the subtree at `prefix`, which need not exist yet.
    ///
    /// # Errors
    /// [`Error::Path`]; [`Error::RootPath`] for the root.
    pub fn subtree(&self, prefix: impl AsPath) -> Result<Subtree<F>> {
        let prefix = prefix.as_path()?.into_owned();
        if prefix.is_root() { Err(Error::RootPath) } else { Ok(Subtree { repo: self.clone(), prefix }) }
    }
}

impl<F: Format> Subtree<F> {
    /// Returns where the subtree is.
    #[must_use]
    pub const fn prefix(&self) -> &Path {
        &self.prefix
    }

    /// Returns the subtree's directory below a root.
    fn dir(&self, root: &ObjRef) -> Result<Option<ObjRef>> {
        self.repo.shared.format.descend(&*self.repo.now(), root, self.prefix.as_bytes())
    }
}

/// Whether a commit is not here: it never was, or retention has cut it.
const fn is_elsewhere(error: &Error) -> bool {
    matches!(error, Error::Missing { .. } | Error::Promised { .. } | Error::Absent { .. })
}

/// What a pull comes to.
#[derive(Debug)]
pub enum Pulled<F: Format = Native> {
    /// All of it is here already.
    Already,
    /// Both sides changed the same values, at these paths below the prefix; nothing was changed.
    Conflicts(Vec<Conflict>),
    /// What to commit.
    Joined(Box<Joined<F>>),
}

/// How a subtree is pushed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct PushOptions {
    /// The branch may leave the line that it is on.
    pub force: bool,
    /// When the push is done.
    pub durability: Durability,
}

setters! {
    PushOptions {
        force: bool,
        durability: Durability,
    }
}

/// A commit that was joined to a subtree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Joint {
    /// The commit of the other repository, which need not be here if it was squashed.
    pub theirs: Oid,
    /// What stands for it here: itself, or the commit that it was squashed to.
    pub here: CommitId,
    /// The commit here that joined it.
    pub by: CommitId,
}
