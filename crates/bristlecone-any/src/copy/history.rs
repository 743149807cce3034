//! The commits that a copy lacks, and what leads to them.

use std::collections::{HashMap, HashSet};

use bristlecone::{CommitId, Error, Kind, LogOptions, ObjRef, Oid, PeeledTags, RefTarget};
use bristlecone_git::history::Status;

use super::refs::Wanted;
use crate::{error::Result, repo::AnyRepo};

/// After how many commits the caller is told.
const TELL_EVERY: usize = 1 << 10;

/// A commit that is to be copied.
#[derive(Debug)]
pub(super) struct NewCommit {
    pub(super) id: CommitId,
    pub(super) parents: Vec<Oid>,
    /// Whether retention has cut a parent: others stand in its place, or none.
    pub(super) cut: bool,
}

/// Returns the commits that tips lead to and that are not there yet, parents first. What is there has its parents there.
///
/// Without recursion: histories are deep. Memory: about 200 bytes a new commit.
pub(super) fn missing(
    from: &AnyRepo,
    tips: &[CommitId],
    shallow: &HashSet<Oid>,
    is_there: &mut dyn FnMut(&Oid) -> Result<bool>,
    progress: &mut dyn FnMut(Status),
) -> Result<Vec<NewCommit>> {
    let absent = from.backend().absent()?;
    let (mut found, mut index, mut there) = (Vec::<NewCommit>::new(), HashMap::new(), HashSet::new());
    let mut waiting = tips.to_vec();
    while let Some(id) = waiting.pop() {
        if index.contains_key(&id.oid()) || there.contains(&id.oid()) {
            continue;
        }
        if is_there(&id.oid())? {
            there.insert(id.oid());
            continue;
        }
        let commit = from.read_commit(id)?;
        let mut cut = false;
        let mut parents = if shallow.contains(&id.oid()) { Vec::new() } else { commit.parents };
        for parent in &mut parents {
            // History goes on behind what retention has cut.
            if let Some(row) = absent.get(&parent.oid())
                && from.backend().read(&ObjRef::from(*parent))?.is_none()
            {
                *parent = CommitId::new(row.next.unwrap_or(id.oid()));
                cut = true;
            }
        }
        parents.retain(|parent| parent.oid() != id.oid());
        index.insert(id.oid(), found.len());
        found.push(NewCommit { id, parents: parents.iter().map(CommitId::oid).collect(), cut });
        waiting.extend(parents.into_iter().rev());
        if found.len().is_multiple_of(TELL_EVERY) {
            progress(Status { commits_found: found.len() as u64, ..Status::default() });
        }
    }
    let order = parents_first(&found, &index);
    let mut found: Vec<Option<NewCommit>> = found.into_iter().map(Some).collect();
    Ok(order.into_iter().filter_map(|at| found[at].take()).collect())
}

/// Whether refs lead to a commit.
pub(super) fn lead_to(from: &AnyRepo, wanted: &Wanted, commit: Oid) -> Result<bool> {
    for entry in from.log(&Tips::of(from, wanted)?.commits, LogOptions::default()) {
        if entry?.id.oid() == commit {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Returns the commits that refs of a store lead to.
pub(super) fn reached(repo: &AnyRepo) -> Result<HashSet<Oid>> {
    let (mut heads, mut tags) = (Vec::new(), PeeledTags::default());
    for target in repo.backend().list_refs("")?.into_values() {
        // A ref that cannot be followed leads to nothing.
        if let RefTarget::Object(at) = target
            && let Ok((_, Some(commit))) = peeled(repo, at, &mut tags)
        {
            heads.push(commit);
        }
    }
    reached_from(repo, &heads)
}

/// Returns the commits that these lead to.
pub(super) fn reached_from(repo: &AnyRepo, heads: &[CommitId]) -> Result<HashSet<Oid>> {
    repo.log(heads, LogOptions::default()).map(|entry| Ok(entry?.id.oid())).collect()
}

fn parents_first(found: &[NewCommit], index: &HashMap<Oid, usize>) -> Vec<usize> {
    let (mut order, mut entered) = (Vec::with_capacity(found.len()), vec![false; found.len()]);
    for start in 0..found.len() {
        let mut stack = if entered[start] { Vec::new() } else { vec![(start, 0)] };
        entered[start] = true;
        while let Some((at, parent)) = stack.last_mut() {
            let Some(oid) = found[*at].parents.get(*parent) else {
                order.push(*at);
                stack.pop();
                continue;
            };
            *parent += 1;
            if let Some(&above) = index.get(oid)
                && !std::mem::replace(&mut entered[above], true)
            {
                stack.push((above, 0));
            }
        }
    }
    order
}

/// What refs lead to.
#[derive(Debug, Default)]
pub(super) struct Tips {
    /// Commits, through tags, each once.
    pub(super) commits: Vec<CommitId>,
    /// Tags, directories and values that refs name.
    pub(super) others: Vec<ObjRef>,
}

impl Tips {
    pub(super) fn of(from: &AnyRepo, wanted: &Wanted) -> Result<Self> {
        let (mut tips, mut seen, mut tags) = (Self::default(), HashSet::new(), PeeledTags::default());
        for (_, at) in &wanted.tips {
            if !seen.insert(at.oid) {
                continue;
            }
            let (kind, commit) = peeled(from, *at, &mut tags)?;
            if kind != Kind::Commit {
                tips.others.push(*at);
            }
            if let Some(commit) = commit {
                tips.commits.push(commit);
            }
        }
        Ok(tips)
    }
}

/// Returns the kind of an object, and the commit that it is or that tags lead to from it. `tags` takes what tags lead to, and is
/// asked for it.
pub(super) fn peeled(from: &AnyRepo, at: ObjRef, tags: &mut PeeledTags) -> Result<(Kind, Option<CommitId>)> {
    let read = |at: &ObjRef| -> Result<_> {
        let object = from.backend().read(at)?;
        Ok(object.ok_or(Error::Missing { kind: Kind::Commit, oid: at.oid })?)
    };
    let first = read(&at)?.kind();
    if first != Kind::Tag {
        return Ok((first, (first == Kind::Commit).then(|| from.commit_id(at))));
    }
    let commit = tags.follow(at, |mut at, next| -> Result<_> {
        let (mut kind, mut passed) = (read(&at)?.kind(), HashSet::new());
        // However many lead from one to the next; forged bytes may lead in a circle, and so to no commit.
        while kind == Kind::Tag && passed.insert(at.oid) {
            at = next(from.read_tag(at.into())?.target);
            kind = read(&at)?.kind();
        }
        Ok((kind == Kind::Commit).then(|| from.commit_id(at)))
    })?;
    Ok((first, commit))
}
