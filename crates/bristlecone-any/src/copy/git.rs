//! Between a Git repository and a store of the format git or native: the ways of whole histories.

use std::{collections::HashSet, path::Path as FilePath, sync::Arc};

use bristlecone::storage::{RealStorage, Storage};
use bristlecone_git::{
    history::{self, Counts, ExportOptions, ImportOptions, MovedRef, Repository, Status, StoreFormat},
    layout::Layout,
};

use super::{
    CopiedRef, CopyError, CopyJob, CopyReport, Loss, LossKind, RefChange,
    history::{Tips, missing},
    loss::Losses,
    refs::Foreseen,
};
use crate::{error::Result, repo::AnyRepo};

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
    let report = history::import(&repository, store, job.to.backend(), &options, progress)?;
    let refs = of(report.refs);
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
    let losses = gaps(job, progress)?;
    if job.options.strict && !losses.is_empty() {
        return Err(CopyError::Losses { format: job.to.format().name(), losses }.into());
    }
    if job.options.dry_run {
        return Ok(CopyReport { losses, ..foresee(job, converts, progress)? });
    }
    // It is written by its folder, which knows nothing of how it was opened.
    if job.to.git().is_some_and(|(git, _)| git.options().read_only) {
        return Err(bristlecone::Error::ReadOnly.into());
    }
    let options = ExportOptions::default().refs(names(job)).force(job.options.force).scratch(scratch(job.from));
    let to: &FilePath = &layout.git_dir;
    let report = history::export(store, job.from.backend(), to, &options, progress)?;
    Ok(CopyReport { losses, ..counted(converts, &report.counts, of(report.refs)) })
}

/// Returns how often history goes on behind what retention has cut, which a Git repository cannot say: it ends there.
fn gaps(job: &CopyJob<'_>, progress: &mut dyn FnMut(Status)) -> Result<Vec<Loss>> {
    let (from, mut losses) = (job.from, Losses::default());
    if !from.backend().absent()?.is_empty() {
        let (tips, shallow) = (Tips::of(from, job.wanted)?, from.shallow()?);
        for one in missing(from, &tips.commits, &shallow, &mut |_| Ok(false), progress)? {
            if one.cut {
                losses.add(LossKind::Cut, Some(one.id), String::new);
            }
        }
    }
    Ok(losses.list())
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
    let new = missing(from, &tips.commits, &shallow, &mut is_there, progress)?;
    let refs = Foreseen { from, to, wanted, force: options.force, originals: None }.refs()?;
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

/// Returns the folder for what does not fit in memory.
fn scratch(repo: &AnyRepo) -> Option<Arc<dyn Storage>> {
    repo.dir().map(|dir| Arc::new(RealStorage::new(dir)) as Arc<dyn Storage>)
}

fn of(moved: Vec<MovedRef>) -> Vec<CopiedRef> {
    moved.into_iter().map(CopiedRef::from).collect()
}

fn counted(converted: bool, counts: &Counts, refs: Vec<CopiedRef>) -> CopyReport {
    let (commits, objects, bytes) = (counts.commits, counts.objects(), counts.bytes);
    CopyReport { converted, commits, objects, bytes, refs, ..CopyReport::default() }
}
