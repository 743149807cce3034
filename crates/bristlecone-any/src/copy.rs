//! From one store into another: all that refs lead to, and the refs.
//!
//! **The same format and options.** Objects go over as they are, each checked on the way, so roots and ids of commits are the
//! same. What is there is not read again.
//!
//! **Another format, or other options.** Commits are converted one after the other, parents first. A tree is made of the one
//! that the first parent was converted to, by what differs between the two originals. The same commit is always converted to
//! the same one, so a second copy goes on from the first. [`Loss`] tells what the other format could not keep.
//!
//! **Git repositories.** Between a Git repository and a store of the format git or native the ways of
//! [`bristlecone_git::history`] are taken: what came from Git has the same ids when it goes back.
//! Where something is put around the backend ([`AnyRepo::wrapped`]), all is read and written through that, and the ways
//! are those of any store.
//!
//! What was read of the refs at the beginning is what is copied, whatever moves meanwhile. Refs of the copy move at the end.
//! On the way refs below [`CHECKPOINTS`] lead to what was copied so far, durably, from time to time: a copy that was
//! stopped goes on from there, and the next one that ends well removes them.
//!
//! ```
//! use bristlecone::Info;
//! use bristlecone_any::{AnyFormat, AnyRepo, copy::{self, CopyOptions}};
//!
//! let (from, to) = (AnyRepo::open("memory:")?, AnyRepo::open("memory:")?);
//! let main = from.branch("main")?;
//! let id = main.edit(&Info::message("first fruit"), |tree| tree.set("fruit/apple", "red"))?;
//!
//! let report = copy::copy(&from, &to, &CopyOptions::default(), &mut |_| {})?;
//! assert_eq!((report.commits, to.branch("main")?.head()?), (1, Some(id)));
//! assert_eq!(copy::copy(&from, &to, &CopyOptions::default(), &mut |_| {})?.commits, 0);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::path::PathBuf;

use bristlecone_git::history::{MovedRef, StoreFormat};

use crate::{
    error::Result,
    format::AnyFormat,
    repo::{AnyBackend, AnyRepo},
};

mod checkpoint;
mod convert;
mod git;
mod history;
mod loss;
mod map;
mod objects;
mod place;
mod refs;

pub use self::{
    checkpoint::CHECKPOINTS,
    loss::{Loss, LossKind},
    place::{check_free, open_or_make},
    refs::{CopiedRef, RefChange},
};
pub use crate::error::CopyError;
pub use bristlecone_git::history::Status;

use self::refs::Wanted;

/// How a store is copied.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct CopyOptions {
    /// Which refs: full names, globs such as `refs/heads/*`, or short names of tags and branches; empty: all.
    pub refs: Vec<String>,
    /// Whether refs move even if they drop commits.
    pub force: bool,
    /// Whether it is an error if something cannot be kept. That is found out before anything is written.
    pub strict: bool,
    /// Whether only the report is made, and nothing is written. It counts commits, and no objects and bytes.
    pub dry_run: bool,
    /// After how many bytes the copy is made durable, for a later one to go on from [default: 64 MiB].
    pub checkpoint_bytes: u64,
}

impl Default for CopyOptions {
    fn default() -> Self {
        Self { refs: Vec::new(), force: false, strict: false, dry_run: false, checkpoint_bytes: 64 << 20 }
    }
}

bristlecone::setters! {
    CopyOptions {
        refs: Vec<String>,
        force: bool,
        strict: bool,
        dry_run: bool,
        checkpoint_bytes: u64,
    }
}

/// What was copied; of a dry run, what would be.
#[derive(Clone, Debug, Default)]
pub struct CopyReport {
    /// Whether ids are others than in the original, since format or options are.
    pub converted: bool,
    /// Commits that were not there.
    pub commits: u64,
    /// Whether `commits` says how many they are at most: in a dry run between a Git repository and a store of the native format,
    /// where only the copy itself finds out which of them are there.
    pub at_most: bool,
    /// Objects that went over; of a conversion, values that were read for it.
    pub objects: u64,
    /// Bytes of these.
    pub bytes: u64,
    /// What became of each ref, in order of names.
    pub refs: Vec<CopiedRef>,
    /// Names of wanted refs of a Git repository that were left out since they are no text, or since the ref names another one whose
    /// name is none: no store can have either.
    pub unnamed: Vec<Vec<u8>>,
    /// What HEAD of the copy was made to name.
    pub head: Option<String>,
    /// What the other format could not keep of the commits that went over.
    pub losses: Vec<Loss>,
}

impl CopyReport {
    /// Whether every ref is at the end what it is in the original, and no entry was left out.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        let all_went = self.unnamed.is_empty() && self.refs.iter().all(|one| !one.change.stays());
        all_went && !self.losses.iter().any(|loss| loss.kind.leaves_out())
    }
}

/// Copies what refs lead to from one open store into another, and moves the refs there; durable when it returns.
///
/// A ref that exists moves only forward, unless [`CopyOptions::force`] is set. HEAD is made to name what the original's does
/// if it names nothing, or a branch without commits, unless the copy is a Git repository.
///
/// Law: the same copy again adds nothing, and a copy that was stopped at any point can be started again.
///
/// `progress` is called from time to time, on the calling thread.
///
/// # Errors
/// [`CopyError`]; those of both stores. No ref has moved then, but for those below [`CHECKPOINTS`], and of a backend that moves one
/// ref at a time those that come first. HEAD follows last, and where that fails the other refs have moved.
pub fn copy(
    from: &AnyRepo,
    to: &AnyRepo,
    options: &CopyOptions,
    progress: &mut dyn FnMut(Status),
) -> Result<CopyReport> {
    if let (Some(one), Some(other)) = (folder(from), folder(to))
        && one == other
    {
        return Err(CopyError::Same { place: crate::text::shown(&one) }.into());
    }
    // Taken before the refs are read: what they lead to then stays, whatever is swept.
    let held = from.tree();
    let wanted = Wanted::of(from, to, options)?;
    let lone_head = wanted.lone_head(from)?;
    let unnamed = git::unnamed(from, options)?;
    let job = CopyJob { from, to, wanted: &wanted, options };
    let mut report = match Way::between(from, to) {
        Way::Import { layout, store, converts } => git::import(&job, layout, store, converts, progress),
        Way::Export { layout, store, converts } => git::export(&job, layout, store, converts, progress),
        Way::Objects => objects::copy(&job, progress),
        Way::Conversion => convert::copy(&job, progress),
    }?;
    // Before those whose names begin with `refs/`.
    if let Some(head) = lone_head {
        report.refs.insert(0, head);
    }
    report.unnamed = unnamed;
    drop(held);
    Ok(report)
}

/// What is to be copied where, and how.
struct CopyJob<'c> {
    from: &'c AnyRepo,
    to: &'c AnyRepo,
    wanted: &'c Wanted,
    options: &'c CopyOptions,
}

/// How two stores are copied into each other.
enum Way<'c> {
    /// Out of a Git repository.
    Import { layout: &'c bristlecone_git::layout::Layout, store: StoreFormat, converts: bool },
    /// Into a Git repository.
    Export { layout: &'c bristlecone_git::layout::Layout, store: StoreFormat, converts: bool },
    /// Object by object.
    Objects,
    /// Commit by commit.
    Conversion,
}

impl<'c> Way<'c> {
    fn between(from: &'c AnyRepo, to: &'c AnyRepo) -> Self {
        let same = from.format() == to.format();
        // Ids of two hashes are not compared by Git's ways.
        let hashes_differ = matches!((from.format(), to.format()), (AnyFormat::Git(_), AnyFormat::Git(_))) && !same;
        match (from.unwrapped_git(), to.unwrapped_git(), from.format().transfer_store(), to.format().transfer_store()) {
            _ if hashes_differ => Self::Conversion,
            (Some((_, layout)), _, _, Some(store)) => Self::Import { layout, store, converts: !same },
            (None, Some((_, layout)), Some(store), _) => Self::Export { layout, store, converts: !same },
            _ if same => Self::Objects,
            _ => Self::Conversion,
        }
    }
}

/// Returns the folder that tells a store apart from others.
fn folder(repo: &AnyRepo) -> Option<PathBuf> {
    let dir = match repo.any_backend() {
        AnyBackend::Git(_, layout) => layout.common_dir.clone(),
        _ => repo.dir()?.to_owned(),
    };
    Some(dir.canonicalize().unwrap_or(dir))
}

/// Returns how a store is named in errors.
fn shown(repo: &AnyRepo) -> String {
    match folder(repo) {
        Some(dir) => crate::text::shown(&dir),
        None => format!("the store in {}", repo.backend().name()),
    }
}

impl From<MovedRef> for CopiedRef {
    fn from(moved: MovedRef) -> Self {
        Self { name: moved.name, change: moved.state.into() }
    }
}
