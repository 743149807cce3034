//! Between stores of the same format and options: objects as they are.

use std::collections::{BTreeSet, HashSet};

use bristlecone::{CommitId, Durability, Expected, Location, ObjRef, Oid, RefMove, RefTarget, SHALLOW, absent_commits};
use bristlecone_git::history::Status;

use super::{
    CopyJob, CopyReport,
    checkpoint::Checkpoint,
    history::{self, NewCommit, Tips},
    refs::Foreseen,
};
use crate::{error::Result, repo::AnyRepo};

/// How many commits are copied in one call.
const COMMITS: usize = 256;

pub(super) fn copy(job: &CopyJob<'_>, progress: &mut dyn FnMut(Status)) -> Result<CopyReport> {
    let CopyJob { from, to, wanted, options } = *job;
    // Keeps what is copied from a sweep until refs lead to it.
    let held = to.tree();
    let tips = Tips::of(from, wanted)?;
    let shallow = from.shallow()?;
    let deeper = deepened(job, &shallow)?;
    let returning = returning(job)?;
    let commits = [&tips.commits[..], &deeper.parents, &returning].concat();
    // Where what is there need not have everything below it, what refs lead to has.
    let closed = to.backend().capabilities().atomic_commits;
    let reached = if closed { HashSet::new() } else { history::reached(to)? };
    let mut is_there = |oid: &Oid| -> Result<bool> {
        Ok(if closed { to.backend().read(&(*oid).into())?.is_some() } else { reached.contains(oid) })
    };
    let new = history::missing(from, &commits, &shallow, &mut is_there, progress)?;
    let mut report = CopyReport { commits: new.len() as u64, ..CopyReport::default() };
    if options.dry_run {
        let left_out = BTreeSet::new();
        report.refs = Foreseen { from, to, wanted, force: options.force, originals: None, left_out }.refs()?;
        return Ok(report);
    }
    if !returning.is_empty() && to.is_numbered()? {
        to.move_refs(&[RefMove::deepened()], Durability::None)?;
    }
    let mut checkpoint = Checkpoint::new(to, options.checkpoint_bytes);
    let mut status = Status { commits_found: report.commits, commits_total: report.commits, ..Status::default() };
    for part in new.chunks(COMMITS) {
        let ids: Vec<CommitId> = part.iter().map(|one| one.id).collect();
        let copied = to.copy_objects(from, &ids)?;
        part.iter().for_each(|NewCommit { id, parents, .. }| checkpoint.add(id.oid(), id.oid(), parents));
        status.commits += part.len() as u64;
        status.objects += copied.objects;
        status.bytes += copied.bytes;
        if checkpoint.is_due(copied.bytes) {
            checkpoint.save()?;
        }
        progress(status);
    }
    let copied = to.copy_objects(from, &tips.others)?;
    (report.objects, report.bytes) = (status.objects + copied.objects, status.bytes + copied.bytes);
    to.flush()?;
    note_shallow(to, &unnoted(to, &shallow)?, &deeper.commits)?;
    // A place in one store means nothing in the other.
    let there = |oid: Oid| ObjRef::new(oid, to.backend().locate(&oid).unwrap_or(Location::NONE));
    let targets = wanted.targets(to, |_, at| Ok(Some(there(at.oid))))?;
    (report.refs, report.head) = targets.reach(to, options.force)?;
    // The copy is whole; the next one removes checkpoints that stayed.
    let _ = checkpoint.end();
    drop(held);
    Ok(report)
}

/// Commits that the copy has without their parents, which the original has by now.
#[derive(Default)]
struct Deepened {
    commits: Vec<Oid>,
    parents: Vec<CommitId>,
}

fn deepened(job: &CopyJob<'_>, shallow: &HashSet<Oid>) -> Result<Deepened> {
    let mut found = Deepened::default();
    for oid in job.to.shallow()?.into_iter().filter(|oid| !shallow.contains(oid)) {
        if job.from.backend().read(&oid.into())?.is_none() {
            continue;
        }
        let parents = job.from.read_commit(CommitId::new(oid))?.parents;
        let mut whole = true;
        for parent in &parents {
            // Retention may have cut it there.
            whole &= job.from.backend().read(&ObjRef::from(*parent))?.is_some();
        }
        if whole {
            found.parents.extend(parents);
            found.commits.push(oid);
        }
    }
    Ok(found)
}

/// Returns what retention had cut where the copy came from, and the original has: a copy whose own rules keep all is to have it.
pub(super) fn returning(job: &CopyJob<'_>) -> Result<Vec<CommitId>> {
    let mut found = Vec::new();
    for oid in absent_commits(&**job.to.backend())? {
        if job.from.backend().read(&oid.into())?.is_some() {
            found.push(CommitId::new(oid));
        }
    }
    Ok(found)
}

/// Returns the commits that are shallow in the original and that the copy has without a parent and without a note: a copy by an
/// earlier version was stopped before it made the note.
fn unnoted(to: &AnyRepo, shallow: &HashSet<Oid>) -> Result<Vec<Oid>> {
    if shallow.is_empty() {
        return Ok(Vec::new());
    }
    let (noted, absent) = (to.shallow()?, to.backend().absent()?);
    let is_there = |oid: Oid| -> Result<bool> { Ok(to.backend().read(&oid.into())?.is_some()) };
    let mut found = Vec::new();
    for &oid in shallow.difference(&noted) {
        if !is_there(oid)? {
            continue;
        }
        for parent in to.read_commit(CommitId::new(oid))?.parents.iter().map(CommitId::oid) {
            if !absent.contains_key(&parent) && !is_there(parent)? {
                found.push(oid);
                break;
            }
        }
    }
    Ok(found)
}

/// Notes which commits of the copy are there without their parents, and which are not so any more.
fn note_shallow(to: &AnyRepo, new: &[Oid], deeper: &[Oid]) -> Result<()> {
    let note = |oid: Oid, to| RefMove { name: format!("{SHALLOW}{oid}"), expected: Expected::Any, to };
    let new = new.iter().map(|&oid| note(oid, Some(RefTarget::Object(oid.into()))));
    let mut moves: Vec<RefMove> = new.chain(deeper.iter().map(|oid| note(*oid, None))).collect();
    if !deeper.is_empty() && to.is_numbered()? {
        moves.push(RefMove::deepened());
    }
    if !moves.is_empty() {
        to.move_refs(&moves, Durability::Synced)?;
    }
    Ok(())
}
