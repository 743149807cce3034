//! From a repository into a store.
//!
//! **In and out.** Commits, trees, values and tags come from a [`Repository`] through the pipeline. `into_git` writes
//! them as they are, `into_native` as objects of another shape; `existing` says what the store has, and `behind` what it
//! lacks behind that. `refs` moves the refs once everything is durable.
//!
//! **Callers.** [`import`] is public; `pipeline` calls the writers.

use std::{collections::BTreeMap, sync::Arc};

use bristlecone::{
    Backend, Durability, Error, Expected, Format, Native, ObjRef, Oid, RefMove, RefTarget, Repo, absent_commits,
    core::git::Git, storage::Storage,
};

use crate::{
    history::{
        error::{Missing, TransferError},
        ids::Ids,
        import::{
            behind::{deepened, parents_of, returning},
            existing::{GitExisting, NativeExisting},
            into_git::IntoGit,
            into_native::IntoNative,
        },
        known::Known,
        patterns::Patterns,
        pipeline::{self, TransferJob, contract::Meters, graph::Ends, tree_walk::TreeWalk, writer::Outcome},
        presence::PresenceIndex,
        report::{Counts, LeftOut, MovedRef, Status},
        repository::Repository,
        staging::{Staging, child_ids},
        store::SHALLOW,
        store::StoreFormat,
        table::Scratch,
    },
    repository::layout::Layout,
    worktree::HeldRefs,
};

mod behind;
mod existing;
mod into_git;
mod into_native;
mod refs;

/// How an import goes.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct ImportOptions {
    /// Which refs: full names, globs such as `refs/heads/*`, or short names of tags and branches; empty: all.
    pub refs: Vec<String>,
    /// Whether missing objects, and what leads to them, are left out and the rest is imported.
    pub skip_missing: bool,
    /// Whether refs move even if they drop commits.
    pub force: bool,
    /// A folder for a scratch file, for histories that are larger than memory [default: that of `layout`]. Nothing stays in it.
    pub scratch: Option<Arc<dyn Storage>>,
    /// The Git repository that the store is, if it is one: branches that are checked out there stay.
    pub layout: Option<Layout>,
}

bristlecone::setters! {
    ImportOptions {
        refs: Vec<String>,
        skip_missing: bool,
        force: bool,
        scratch: into Option<Arc<dyn Storage>>,
        layout: into Option<Layout>,
    }
}

/// What was imported.
#[derive(Clone, Debug, Default)]
pub struct ImportReport {
    /// What is new in the store.
    pub counts: Counts,
    /// The refs, in order of names.
    pub refs: Vec<MovedRef>,
    /// Refs that were left out.
    pub left_out: Vec<LeftOut>,
    /// Names of wanted refs that were left out since they are no text, or since the ref names another one whose name is none:
    /// no store can have either.
    pub unnamed: Vec<Vec<u8>>,
    /// Objects that are missing or damaged, at most 10,000 of them.
    pub missing: Vec<Missing>,
    /// How many more are missing.
    pub missing_more: u64,
    /// Commits whose parents were never fetched into the repository.
    pub shallow: Vec<Oid>,
    /// What HEAD of the store was made to name.
    pub head: Option<String>,
}

/// Moves refs of a store to what they are to hold, and makes that durable: in one step where the backend can. A ref that
/// exists moves only forward, unless `force` is set; those below `refs/remotes/` always follow. `layout`: the Git repository
/// that the store is, if it is one; branches that are checked out there stay.
///
/// # Errors
/// [`TransferError::Store`] with [`bristlecone::Error::RefMoved`] if another writer moved one meanwhile, and those of the
/// backend.
pub fn move_refs<F: Format>(
    repo: &Repo<F>,
    wanted: &BTreeMap<String, RefTarget>,
    force: bool,
    layout: Option<&Layout>,
) -> Result<Vec<MovedRef>, TransferError> {
    let checked_out = layout.map(HeldRefs::of).transpose()?.unwrap_or_default();
    refs::update(repo, wanted, force, &checked_out, layout)
}

/// Brings the history of a repository into a store.
///
/// Objects come first and are made durable, then refs move: in one step where the backend can. A ref that exists
/// moves only forward, unless [`ImportOptions::force`] is set; those below `refs/remotes/` always follow. HEAD is made
/// to name what the repository's does if it names nothing, or a branch without commits, unless the store is a Git
/// repository itself.
///
/// Law: the same import again adds nothing, and an import that was interrupted at any point can be started again.
///
/// `progress` is called some times each second.
///
/// # Errors
/// [`TransferError`]; no ref has moved then.
pub fn import(
    from: &Repository,
    store: StoreFormat,
    backend: &Arc<dyn Backend>,
    options: &ImportOptions,
    progress: &mut dyn FnMut(Status),
) -> Result<ImportReport, TransferError> {
    let wanted = Wanted::of(from, options)?;
    match store {
        StoreFormat::Git(git) => {
            if git.algorithm() != from.algorithm() {
                return Err(TransferError::Algorithm {
                    from: from.shown.clone(),
                    found: from.algorithm().name(),
                    expected: git.algorithm().name(),
                });
            }
            let repo = Repo::with_backend(git, backend.clone());
            into_git(from, git, &repo, &wanted, options, progress)
        }
        StoreFormat::Native(native) => {
            let repo = Repo::with_backend(native, backend.clone());
            into_native(from, native, &repo, &wanted, options, progress)
        }
    }
}

/// Returns where the scratch file goes; in memory all stays where there is no folder for it.
fn scratch_of(options: &ImportOptions) -> Scratch {
    match (&options.scratch, &options.layout) {
        (None, Some(layout)) => Scratch::of_repository(layout.storage()),
        (scratch, _) => Scratch::new(scratch.clone()),
    }
}

/// How often an import goes through a history again since a sweep has dropped what was there.
const SWEPT_RETRIES_MAX: u32 = 16;

fn into_git(
    from: &Repository,
    git: Git,
    repo: &Repo<Git>,
    wanted: &Wanted,
    options: &ImportOptions,
    progress: &mut dyn FnMut(Status),
) -> Result<ImportReport, TransferError> {
    let backend = repo.backend();
    let scratch = scratch_of(options);
    let deeper = deepened(from, &**backend)?;
    let returning = returning(from, &**backend, &wanted.tips, &scratch)?;
    let tips = [&wanted.tips[..], &parents_of(from, &deeper)?, &returning].concat();
    let (width, ends) = (git.algorithm().oid_bytes(), Ends::of_shallow(&from.shallow));
    let mut swept = 0;
    let outcome = loop {
        let sweeps = backend.sweeps();
        let existing = GitExisting::new(git, backend.clone(), presence(backend, &scratch)?, &scratch);
        let mut target = IntoGit::new(git, backend.clone(), sweeps);
        let (meters, others, skip) = (Meters::default(), Ids::new(width, &scratch), options.skip_missing);
        let walker =
            |sender, meters| TreeWalk::new(&*from.odb, git.algorithm(), &existing, others, sender, meters, skip);
        let job = TransferJob {
            objects: &*from.odb,
            algorithm: git.algorithm(),
            tips: &tips,
            ends: &ends,
            existing: &existing,
            commits: Ids::new(width, &scratch),
            walker,
            scratch: &scratch,
            skip: options.skip_missing,
            verify: true,
        };
        match pipeline::run(job, &meters, &mut target, progress) {
            // A sweep has dropped what was there: what is there now is looked up again.
            Err(TransferError::Store(Error::Gone { .. })) if swept < SWEPT_RETRIES_MAX => swept += 1,
            done => break done?,
        }
    };
    finish(from, repo, wanted, outcome, &deeper, options)
}

fn into_native(
    from: &Repository,
    native: Native,
    repo: &Repo<Native>,
    wanted: &Wanted,
    options: &ImportOptions,
    progress: &mut dyn FnMut(Status),
) -> Result<ImportReport, TransferError> {
    let (backend, algorithm) = (repo.backend(), from.algorithm());
    let scratch = scratch_of(options);
    let mut known = Known::read(&**backend, &native, algorithm, &scratch)?;
    let (deeper, ends) = (deepened(from, &**backend)?, Ends::of_shallow(&from.shallow));
    // The commits that follow those are others now; and what is known counts as there with all that it leads to.
    if !deeper.is_empty() || known.has_become(&native, &absent_commits(&**backend)?.into_iter().collect())? {
        known = Known::nothing(&native, algorithm, &scratch);
    }
    let mut swept = 0;
    let outcome = loop {
        let sweeps = backend.sweeps();
        let (commits, others, bounds, map) = known.split(&native, algorithm);
        let existing = NativeExisting::new(&native, &**backend, bounds.clone());
        let staging = Staging::new(backend.clone(), presence(backend, &scratch)?, sweeps, child_ids(native));
        let mut target = IntoNative::new(native, algorithm, staging, bounds, map, &scratch)?;
        let (meters, skip) = (Meters::default(), options.skip_missing);
        let walker = |sender, meters| TreeWalk::new(&*from.odb, algorithm, &existing, others, sender, meters, skip);
        let job = TransferJob {
            objects: &*from.odb,
            algorithm,
            tips: &wanted.tips,
            ends: &ends,
            existing: &existing,
            commits,
            walker,
            scratch: &scratch,
            skip: options.skip_missing,
            verify: true,
        };
        match pipeline::run(job, &meters, &mut target, progress) {
            // The derived files are of another time, or of another store.
            Err(_) if existing.is_stale() => known = Known::nothing(&native, algorithm, &scratch),
            // A sweep has dropped what was there: what is there now is looked up again.
            Err(TransferError::Store(Error::Gone { .. })) if swept < SWEPT_RETRIES_MAX => {
                (swept, known) = (swept + 1, Known::nothing(&native, algorithm, &scratch));
            }
            done => break done?,
        }
    };
    finish(from, repo, wanted, outcome, &deeper, options)
}

/// The refs that an import takes.
struct Wanted {
    // Refs that name objects, and those that name refs.
    tips: Vec<(String, Oid)>,
    symbolic: Vec<(String, String)>,
    unnamed: Vec<Vec<u8>>,
}

impl Wanted {
    fn of(from: &Repository, options: &ImportOptions) -> Result<Self, TransferError> {
        let names: Vec<&str> = from.refs.keys().map(String::as_str).collect();
        let chosen = Patterns::new(&options.refs).select(&from.shown, &names)?;
        let unnamed = from.unnamed_refs(&options.refs)?;
        let (mut tips, mut symbolic) = (Vec::new(), Vec::new());
        for name in chosen {
            match &from.refs[name] {
                RefTarget::Object(at) => tips.push((name.to_owned(), at.oid)),
                RefTarget::Symbolic(to) => symbolic.push((name.to_owned(), to.clone())),
            }
        }
        // A HEAD that names a commit itself brings it along.
        if let (Some(RefTarget::Object(at)), true) = (&from.head, options.refs.is_empty()) {
            tips.push((HEAD.to_owned(), at.oid));
        }
        Ok(Self { tips, symbolic, unnamed })
    }
}

const HEAD: &str = "HEAD";
/// A store of fewer bytes has no object.
const EMPTY_BYTES: u64 = 1 << 16;

/// Returns what a store has, unless it has no refs and no objects.
fn presence(backend: &Arc<dyn Backend>, scratch: &Scratch) -> Result<Option<PresenceIndex>, TransferError> {
    let refs = backend.list_refs("refs/")?;
    let empty = refs.is_empty() && backend.capabilities().git.is_none() && backend.stats().store_bytes < EMPTY_BYTES;
    Ok((!empty).then(|| PresenceIndex::new(backend.clone(), scratch)))
}

/// Moves the refs, and returns the report.
fn finish<F: Format>(
    from: &Repository,
    repo: &Repo<F>,
    wanted: &Wanted,
    outcome: Outcome,
    deeper: &[Oid],
    options: &ImportOptions,
) -> Result<ImportReport, TransferError> {
    let (mut refs, mut left_out, mut head) = (BTreeMap::new(), Vec::new(), None);
    // Tips beyond those of refs are parents that were fetched later, and what was cut; unless all of them came, the note stays.
    let whole = outcome.tips.iter().skip(wanted.tips.len()).all(Result::is_ok);
    let deeper = if whole { deeper } else { &[] };
    for ((name, oid), tip) in wanted.tips.iter().zip(outcome.tips) {
        match tip {
            Ok(at) if name == HEAD => head = Some(at),
            Ok(at) => _ = refs.insert(name.clone(), RefTarget::Object(at)),
            Err(missing) => left_out.push(LeftOut { name: name.clone(), oid: *oid, missing }),
        }
    }
    for (name, to) in &wanted.symbolic {
        // Git keeps a symbolic ref that leads nowhere, too.
        refs.insert(name.clone(), RefTarget::Symbolic(to.clone()));
    }
    // In another format the commits above those that grew downwards are others now, and so are their numbers.
    let deepened = (!deeper.is_empty() && F::NAME == Git::NAME).then(RefMove::deepened);
    note_shallow(&**repo.backend(), &outcome.shallow, deeper, deepened)?;
    // In a repository Git decides what is checked out.
    let free = repo.backend().capabilities().git.is_none() && head_is_free(repo)?;
    let moved = move_refs(repo, &refs, options.force, options.layout.as_ref())?;
    let head = if free { point_head(from, repo, head)? } else { None };
    Ok(ImportReport {
        counts: outcome.counts,
        refs: moved,
        left_out,
        unnamed: wanted.unnamed.clone(),
        missing: outcome.missing,
        missing_more: outcome.missing_more,
        shallow: outcome.shallow.iter().map(|(oid, _)| *oid).collect(),
        head,
    })
}

/// Notes in the store which commits are shallow: their parents were never fetched.
fn note_shallow(
    backend: &dyn Backend,
    shallow: &[(Oid, ObjRef)],
    deeper: &[Oid],
    deepened: Option<RefMove>,
) -> Result<(), TransferError> {
    if shallow.is_empty() && deeper.is_empty() {
        return Ok(());
    }
    if backend.capabilities().git.is_some() {
        let reason = "its history is cut off, and this store is a repository itself; let `git fetch` bring it";
        return Err(TransferError::refused("a shallow clone", reason));
    }
    let known = backend.list_refs(SHALLOW)?;
    let moves =
        shallow.iter().map(|(oid, at)| (format!("{SHALLOW}{oid}"), *at)).filter(|(name, _)| !known.contains_key(name));
    let moves = moves.map(|(name, at)| RefMove { name, expected: Expected::Any, to: Some(RefTarget::Object(at)) });
    let gone = deeper.iter().map(|oid| RefMove { name: format!("{SHALLOW}{oid}"), expected: Expected::Any, to: None });
    refs::append(backend, deepened.into_iter().chain(moves).chain(gone).collect())
}

/// Whether HEAD names nothing, or a branch without commits.
fn head_is_free<F: Format>(repo: &Repo<F>) -> Result<bool, TransferError> {
    Ok(match repo.head()? {
        None => true,
        Some(RefTarget::Object(_)) => false,
        Some(RefTarget::Symbolic(name)) => repo.resolve(&name)?.is_none(),
    })
}

/// Lets HEAD follow the repository's.
fn point_head<F: Format>(
    from: &Repository,
    repo: &Repo<F>,
    detached: Option<ObjRef>,
) -> Result<Option<String>, TransferError> {
    let (to, shown) = match (&from.head, detached) {
        (Some(RefTarget::Symbolic(name)), _) if repo.resolve(name)?.is_some() => {
            (RefTarget::Symbolic(name.clone()), name.clone())
        }
        (Some(RefTarget::Object(_)), Some(at)) => (RefTarget::Object(at), at.oid.to_string()),
        _ => return Ok(None),
    };
    if repo.head()?.as_ref() == Some(&to) {
        return Ok(None);
    }
    repo.move_refs(&[RefMove { name: HEAD.to_owned(), expected: Expected::Any, to: Some(to) }], Durability::Synced)?;
    Ok(Some(shown))
}
