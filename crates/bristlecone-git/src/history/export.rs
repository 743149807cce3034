//! From a store into a repository.
//!
//! **In and out.** A store of the format `git` gives its objects as they are; one of the format `native` gives Git's
//! bytes, made again (`from_native`, `native_walk`, `native_trees`). `into_packs` writes packs into a `destination`,
//! which moves the refs once everything is durable; `existing` and `exported` say what it has.
//!
//! **Callers.** [`export`] is public; `pipeline` calls the walk and the writer.

use std::{collections::BTreeMap, path::Path, sync::Arc};

use bristlecone::{
    Backend, Native, Oid, RefTarget,
    core::git::{Algorithm, Git},
    storage::Storage,
};

use crate::history::{
    error::TransferError,
    export::{
        destination::{Destination, by_oid},
        into_packs::IntoPacks,
    },
    ids::Ids,
    objects::StoreObjects,
    patterns::Patterns,
    pipeline::{self, TransferJob, contract::Meters, graph::Ends, tree_walk::TreeWalk, writer::Outcome},
    report::{Counts, MovedRef, Respelled, Status},
    store::{StoreFormat, shallow},
    table::Scratch,
};

mod destination;
mod existing;
mod exported;
mod from_native;
mod into_packs;
mod native_trees;
mod native_walk;

/// How an export goes.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct ExportOptions {
    /// Which refs: full names, globs such as `refs/heads/*`, or short names of tags and branches; empty: all.
    pub refs: Vec<String>,
    /// Whether a repository that is made has no working tree. One whose name ends in `.git` never has.
    pub bare: bool,
    /// Whether refs move even if they drop commits. Those that Git has checked out stay.
    pub force: bool,
    /// The hash of a repository that is made from a store of the format `native`; SHA-1 by default.
    pub algorithm: Option<Algorithm>,
    /// A folder for a scratch file, for histories that are larger than memory [default: that of the repository, since a store that is
    /// read may be on a disk that is read-only]. Nothing stays in it.
    pub scratch: Option<Arc<dyn Storage>>,
}

bristlecone::setters! {
    ExportOptions {
        refs: Vec<String>,
        bare: bool,
        force: bool,
        algorithm: into Option<Algorithm>,
        scratch: into Option<Arc<dyn Storage>>,
    }
}

/// What was exported.
#[derive(Clone, Debug, Default)]
pub struct ExportReport {
    /// What is new in the repository.
    pub counts: Counts,
    /// The refs, in order of names.
    pub refs: Vec<MovedRef>,
    /// The repository was made.
    pub made: bool,
    /// Packs that were written.
    pub packs: u64,
    /// Bytes of these with their indexes.
    pub pack_bytes: u64,
    /// Commits that were written without their parents.
    pub shallow: Vec<Oid>,
    /// Names that were written otherwise.
    pub respelled: Respelled,
}

/// Writes the history of a store into a repository, which is made if it is absent.
///
/// Objects come first and are made durable, then refs move. A ref that exists moves only forward, and not while it is
/// checked out, unless [`ExportOptions::force`] is set; those below `refs/remotes/` always follow.
///
/// Where the store's retention has cut the parents of a commit, the commit is shallow in the repository, unless that has
/// the parents from an earlier export; of a `native` store, Git's ids of what follows are then others. A commit whose
/// parents were never fetched is shallow, too, unless refs of the repository lead to all of them.
///
/// Law: what was imported from a repository has the same ids again. Of a `native` store nothing is written of a history in which an
/// entry has a name that Git refuses (`git fsck --strict`), such as `.git` or a link `.gitmodules`: nothing there tells whether
/// it was Git's.
///
/// # Errors
/// [`TransferError`]: no ref has moved then.
pub fn export(
    store: StoreFormat,
    backend: &Arc<dyn Backend>,
    to: &Path,
    options: &ExportOptions,
    progress: &mut dyn FnMut(Status),
) -> Result<ExportReport, TransferError> {
    let wanted = Wanted::of(&**backend, options)?;
    let algorithm = match store {
        StoreFormat::Git(git) => Some(git.algorithm()),
        StoreFormat::Native(_) => options.algorithm,
    };
    let mut to = Destination::open(to, options.bare, algorithm)?;
    let scratch = match &options.scratch {
        Some(scratch) => Scratch::new(Some(scratch.clone())),
        None => Scratch::of_repository(to.repository.layout.storage()),
    };
    let outcome = match store {
        StoreFormat::Git(git) => from_git(git, backend, &wanted, &mut to, &scratch, progress)?,
        StoreFormat::Native(native) => from_native_store(native, backend, &wanted, &mut to, &scratch, progress)?,
    };
    let mut refs = BTreeMap::new();
    for ((name, _), tip) in wanted.tips.iter().zip(outcome.tips) {
        refs.insert(name.clone(), by_oid(tip.map_err(|missing| TransferError::Missing(Box::new(missing)))?));
    }
    for (name, target) in &wanted.symbolic {
        refs.insert(name.clone(), RefTarget::Symbolic(target.clone()));
    }
    let head = match backend.get_ref("HEAD")? {
        Some(RefTarget::Symbolic(name)) if refs.contains_key(&name) => Some(RefTarget::Symbolic(name)),
        _ => first_branch(&refs),
    };
    let shallow: Vec<Oid> = outcome.shallow.iter().map(|(oid, _)| *oid).collect();
    to.write_shallow(&shallow)?;
    let moved = to.update(&refs, head, options.force)?;
    Ok(ExportReport {
        counts: outcome.counts,
        refs: moved,
        made: to.made,
        packs: to.packs,
        pack_bytes: to.pack_bytes,
        shallow,
        respelled: outcome.respelled,
    })
}

fn from_git(
    git: Git,
    backend: &Arc<dyn Backend>,
    wanted: &Wanted,
    to: &mut Destination,
    scratch: &Scratch,
    progress: &mut dyn FnMut(Status),
) -> Result<Outcome, TransferError> {
    let existing = existing::of(&to.repository, to.made, false, scratch)?;
    let width = git.algorithm().oid_bytes();
    let (meters, others, objects) = (Meters::default(), Ids::new(width, scratch), StoreObjects::new(&**backend));
    let ends = wanted.ends.without_whole(&objects, width, &existing)?;
    let walker = |sender, meters| TreeWalk::new(&objects, git.algorithm(), &existing, others, sender, meters, false);
    let job = TransferJob {
        objects: &objects,
        algorithm: git.algorithm(),
        tips: &wanted.tips,
        ends: &ends,
        existing: &existing,
        commits: Ids::new(width, scratch),
        walker,
        scratch,
        skip: false,
        // The import verified them, and records have checksums.
        verify: false,
    };
    pipeline::run(job, &meters, &mut IntoPacks::new(git.algorithm(), to), progress)
}

fn from_native_store(
    native: Native,
    backend: &Arc<dyn Backend>,
    wanted: &Wanted,
    to: &mut Destination,
    scratch: &Scratch,
    progress: &mut dyn FnMut(Status),
) -> Result<Outcome, TransferError> {
    let existing = existing::of(&to.repository, to.made, true, scratch)?;
    let algorithm = to.repository.algorithm();
    let job = from_native::TransferJob {
        native,
        backend: backend.clone(),
        algorithm,
        tips: &wanted.tips,
        ends: &wanted.ends,
        existing: &existing,
        scratch,
    };
    from_native::run(job, &mut IntoPacks::new(algorithm, to), progress)
}

/// What is to be written.
struct Wanted {
    // Refs that name objects, and those that name refs.
    tips: Vec<(String, Oid)>,
    symbolic: Vec<(String, String)>,
    ends: Ends,
}

impl Wanted {
    fn of(backend: &dyn Backend, options: &ExportOptions) -> Result<Self, TransferError> {
        let refs = backend.list_refs("refs/")?;
        let names: Vec<&str> = refs.keys().map(String::as_str).collect();
        let chosen = Patterns::new(&options.refs).select("the store", &names)?;
        let (mut tips, mut symbolic) = (Vec::new(), Vec::new());
        for &name in &chosen {
            check_name(name, &chosen)?;
            match &refs[name] {
                RefTarget::Object(at) => tips.push((name.to_owned(), at.oid)),
                RefTarget::Symbolic(to) => symbolic.push((name.to_owned(), to.clone())),
            }
        }
        let ends = Ends { shallow: shallow(backend)?, absent: backend.absent()?.keys().copied().collect() };
        Ok(Self { tips, symbolic, ends })
    }
}

/// Refuses a ref that Git would not take beside the others, which are in order.
fn check_name(name: &str, all: &[&str]) -> Result<(), TransferError> {
    let shown = |name: &str| bristlecone::escape(name.as_bytes());
    if bristlecone::check_ref_name(name).is_err() {
        return Err(TransferError::refused(format!("the ref {}", shown(name)), "Git takes no such name"));
    }
    let inside = format!("{name}/");
    let behind = all.partition_point(|other| *other < &*inside);
    if let Some(&other) = all.get(behind).filter(|other| other.starts_with(&inside)) {
        let reason = format!("Git has either it or {}", shown(other));
        return Err(TransferError::refused(format!("the ref {}", shown(name)), reason));
    }
    Ok(())
}

/// Returns the branch that a new repository has checked out, where the store names none.
fn first_branch(refs: &BTreeMap<String, RefTarget>) -> Option<RefTarget> {
    let branches = refs.keys().filter(|name| name.starts_with("refs/heads/"));
    branches
        .min_by_key(|name| !matches!(name.as_str(), "refs/heads/main" | "refs/heads/master"))
        .map(|name| RefTarget::Symbolic(name.clone()))
}
