//! Between a Git repository and a store of the format git or native: the ways of whole histories.

use std::{
    collections::{BTreeSet, HashSet},
    path::Path as FilePath,
    sync::Arc,
};

use bristlecone::{
    Format, Kind, PeeledTags, Signature, escape,
    storage::{RealStorage, Storage},
};
use bristlecone_git::{
    history::{
        self, Counts, ExportOptions, ImportOptions, MovedRef, RAW_HEADER, Repository, Respelled, Status, StoreFormat,
    },
    layout::Layout,
};

use super::{
    CopiedRef, CopyError, CopyJob, CopyOptions, CopyReport, Loss, LossKind, RefChange,
    history::{Tips, missing, peeled, reached_from},
    loss::Losses,
    objects::returning,
    refs::Foreseen,
};
use crate::{error::Result, format::AnyFormat, repo::AnyRepo};

/// Brings what a Git repository has into a store.
pub(super) fn import(
    job: &CopyJob<'_>,
    layout: &Layout,
    store: StoreFormat,
    converts: bool,
    progress: &mut dyn FnMut(Status),
) -> Result<CopyReport> {
    if job.options.dry_run {
        return foresee(job, converts, progress);
    }
    let options = ImportOptions::default()
        .refs(names(job))
        .force(job.options.force)
        .scratch(scratch(job.to))
        .layout(job.to.git().map(|(_, layout)| (**layout).clone()));
    let repository = Repository::open(&layout.git_dir)?;
    // Said in the same words by an import of the repository: each finds what a stopped one of them left.
    let source = format!("git {}", repository.common_dir().display());
    if let Some(disk) = job.to.unwrapped_disk() {
        disk.begin_work(&source);
    }
    let report = history::import(&repository, store, job.to.backend(), &options, progress)?;
    let refs = of(report.refs);
    if let (Some(disk), true) = (job.to.unwrapped_disk(), refs.iter().all(|one| !one.change.stays())) {
        // It is an estimate, and the copy is whole.
        let _ = disk.forget_work(&source);
    }
    Ok(CopyReport { head: report.head, ..counted(converts, &report.counts, refs) })
}

/// Writes what a store has into a Git repository.
pub(super) fn export(
    job: &CopyJob<'_>,
    layout: &Layout,
    store: StoreFormat,
    converts: bool,
    progress: &mut dyn FnMut(Status),
) -> Result<CopyReport> {
    let mut losses = survey(job, &store, progress)?;
    if job.options.strict && !losses.list().is_empty() {
        return Err(CopyError::Losses { format: job.to.format().name(), losses: losses.list() }.into());
    }
    if job.options.dry_run {
        return Ok(CopyReport { losses: losses.list(), ..foresee(job, converts, progress)? });
    }
    // It is written by its folder, which knows nothing of how it was opened.
    if job.to.git().is_some_and(|(git, _)| git.options().read_only) {
        return Err(bristlecone::Error::ReadOnly.into());
    }
    let options = ExportOptions::default().refs(names(job)).force(job.options.force);
    let to: &FilePath = &layout.git_dir;
    let report = history::export(store, job.from.backend(), to, &options, progress)?;
    let Respelled { count, commit, place } = report.respelled;
    if count > 0 {
        losses.put(Loss { kind: LossKind::Ident, count, commit, place });
    }
    Ok(CopyReport { losses: losses.list(), ..counted(converts, &report.counts, of(report.refs)) })
}

/// Returns the names of wanted refs that are left out since they are no text; of a Git repository alone.
pub(super) fn unnamed(from: &AnyRepo, options: &CopyOptions) -> Result<Vec<Vec<u8>>> {
    let Some((_, layout)) = from.git() else { return Ok(Vec::new()) };
    Ok(Repository::open(&layout.git_dir)?.unnamed_refs(&options.refs)?)
}

/// Returns what is lost, as far as it is known before anything is written. History that goes on behind what retention has cut ends
/// there in a Git repository. Names that Git does not take are looked for where nothing is to be written if there are any.
fn survey(job: &CopyJob<'_>, store: &StoreFormat, progress: &mut dyn FnMut(Status)) -> Result<Losses> {
    let CopyJob { from, to, wanted, options } = *job;
    let mut losses = Losses::default();
    let names = matches!(store, StoreFormat::Native(_)) && (options.strict || options.dry_run);
    if !names && from.backend().absent()?.is_empty() {
        return Ok(losses);
    }
    let (tips, shallow) = (Tips::of(from, wanted)?, from.shallow()?);
    for one in missing(from, &tips.commits, &shallow, &mut |_| Ok(false), progress)? {
        if one.cut {
            losses.add(LossKind::Cut, Some(one.id), String::new);
        }
        if names {
            let commit = from.read_commit(one.id)?;
            for who in [&commit.author, &commit.committer] {
                if is_respelled(to.format(), &commit.headers, who) {
                    losses.add(LossKind::Ident, Some(one.id), || escape(&who.ident));
                }
            }
        }
    }
    let (mut seen, mut tags) = (HashSet::new(), PeeledTags::default());
    for (_, at) in wanted.tips.iter().filter(|_| names) {
        let (mut kind, mut at) = (peeled(from, *at, &mut tags)?.0, *at);
        // Those on the way are written, too, each once.
        while kind == Kind::Tag && seen.insert(at.oid) {
            let tag = from.read_tag(at.into())?;
            if let Some(who) = tag.tagger.as_ref().filter(|who| is_respelled(to.format(), &tag.headers, who)) {
                losses.add(LossKind::Ident, None, || format!("{} of {}", escape(&who.ident), escape(&tag.name)));
            }
            (kind, at) = (tag.kind, tag.target);
        }
    }
    Ok(losses)
}

/// Whether a name is written otherwise in Git, unless Git's own bytes of the object are kept.
fn is_respelled(git: &AnyFormat, headers: &[(Vec<u8>, Vec<u8>)], who: &Signature) -> bool {
    let is_raw = headers.last().is_some_and(|(name, _)| name == RAW_HEADER);
    !is_raw && git.signatures(who.clone(), who.clone()).0.ident != who.ident
}

/// Returns what would become of the refs, as far as that can be told without converting anything.
fn foresee(job: &CopyJob<'_>, converts: bool, progress: &mut dyn FnMut(Status)) -> Result<CopyReport> {
    let CopyJob { from, to, wanted, options } = *job;
    let tips = Tips::of(from, wanted)?;
    let shallow: HashSet<_> = from.shallow()?;
    if converts {
        let there = to.backend().list_refs("refs/")?;
        let change = |name: &str| if there.contains_key(name) { RefChange::Open } else { RefChange::New };
        let names = wanted.tips.iter().map(|(name, _)| name).chain(wanted.symbolic.iter().map(|(name, _)| name));
        let refs = names.filter(|name| name.starts_with("refs/"));
        let refs = refs.map(|name| CopiedRef { name: name.clone(), change: change(name) }).collect();
        let new = missing(from, &tips.commits, &shallow, &mut |_| Ok(false), progress)?;
        let (commits, at_most) = (new.len() as u64, !there.is_empty());
        return Ok(CopyReport { converted: true, commits, at_most, refs, ..CopyReport::default() });
    }
    let mut is_there = |oid: &_| Ok(to.backend().read(&bristlecone::ObjRef::from(*oid))?.is_some());
    let mut commits = returning(job)?;
    if !commits.is_empty() {
        // A Git repository may have commits that no ref leads to, without what they name.
        let reached = reached_from(from, &tips.commits)?;
        commits.retain(|commit| reached.contains(&commit.oid()));
    }
    commits.extend(&tips.commits);
    let new = missing(from, &commits, &shallow, &mut is_there, progress)?;
    let left_out = BTreeSet::new();
    let refs = Foreseen { from, to, wanted, force: options.force, originals: None, left_out }.refs()?;
    Ok(CopyReport { commits: new.len() as u64, refs, ..CopyReport::default() })
}

/// Returns the refs to name; nothing if all are wanted.
fn names(job: &CopyJob<'_>) -> Vec<String> {
    if job.wanted.all && job.options.refs.is_empty() {
        // A detached HEAD comes along where no refs are named.
        return if job.wanted.head_stays { vec!["refs/*".to_owned()] } else { Vec::new() };
    }
    let named = job.wanted.tips.iter().map(|(name, _)| name).chain(job.wanted.symbolic.iter().map(|(name, _)| name));
    named.filter(|name| name.starts_with("refs/")).cloned().collect()
}

/// Returns the folder for what does not fit in memory; a Git repository has a place of its own for that.
fn scratch(repo: &AnyRepo) -> Option<Arc<dyn Storage>> {
    repo.dir().filter(|_| repo.git().is_none()).map(|dir| Arc::new(RealStorage::new(dir)) as Arc<dyn Storage>)
}

fn of(moved: Vec<MovedRef>) -> Vec<CopiedRef> {
    moved.into_iter().map(CopiedRef::from).collect()
}

fn counted(converted: bool, counts: &Counts, refs: Vec<CopiedRef>) -> CopyReport {
    let (commits, objects, bytes) = (counts.commits, counts.objects(), counts.bytes);
    CopyReport { converted, commits, objects, bytes, refs, ..CopyReport::default() }
}
