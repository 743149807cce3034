//! The moves of a store's refs, at the end of an import.

use std::collections::{BTreeMap, HashSet};

use bristlecone::{Backend, Batch, Durability, Error, Expected, Format, Kind, ObjRef, Oid, RefMove, RefTarget, Repo};

use crate::{
    backend::sync_left,
    history::{
        error::TransferError,
        report::{FOLLOWING, MovedRef, RefState},
    },
    repository::{
        files::Files,
        layout::Layout,
        refs::{FoldedNames, check_name, clash},
    },
    worktree::HeldRefs,
};

/// How many commits are looked at to find an ancestor.
const ANCESTORS_MAX: usize = 50_000_000;

/// Moves refs of a store, but for those that are checked out; durable when it returns. `layout`: the Git repository that the store
/// is, if it is one.
pub(crate) fn update<F: Format>(
    repo: &Repo<F>,
    wanted: &BTreeMap<String, RefTarget>,
    force: bool,
    checked_out: &HeldRefs,
    layout: Option<&Layout>,
) -> Result<Vec<MovedRef>, TransferError> {
    let backend = repo.backend();
    let (found, git) = (backend.list_refs("")?, backend.capabilities().git.is_some());
    let (mut moved, mut moves) = (Vec::with_capacity(wanted.len()), Vec::new());
    let ignores_case = layout.is_some_and(Layout::ignores_case);
    let folded = ignores_case.then(|| FoldedNames::of(found.keys().chain(wanted.keys())));
    for (name, to) in wanted {
        let state = match found.get(name) {
            Some(now) if now == to => RefState::Same,
            _ if !checked_out.holds(name, &mut |name| backend.get_ref(name))?.is_empty() => RefState::CheckedOut,
            None => RefState::New,
            Some(now) if force || name.starts_with(FOLLOWING) || forward(repo, now, to)? => RefState::Moved,
            Some(_) => RefState::Kept,
        };
        let moves_now = matches!(state, RefState::New | RefState::Moved);
        if git && moves_now {
            // Refs of a Git repository move one after the other: what it cannot have is told before the first.
            check_name(name)?;
            if let RefTarget::Symbolic(to) = to {
                check_name(to)?;
            }
        }
        if git && state == RefState::New {
            let in_other_case = || folded.as_ref().and_then(|folded| folded.clash(name));
            if let Some(other) = clash(&found, name).or_else(|| clash(wanted, name)).or_else(in_other_case) {
                return Err(Error::RefClash { name: name.clone(), other: other.to_owned() }.into());
            }
            // A listing leaves out one that is there and names what is no text.
            backend.get_ref(name)?;
        }
        if moves_now {
            let expected = found.get(name).map_or(Expected::Absent, |now| Expected::Is(now.clone()));
            moves.push(RefMove { name: name.clone(), expected, to: Some(to.clone()) });
        }
        moved.push(MovedRef { name: name.clone(), state });
    }
    if let (Some(layout), false) = (layout, moves.is_empty()) {
        // What was there was not written again.
        sync_left(&Files::new(layout.storage()))?;
    }
    append(&**backend, moves)?;
    Ok(moved)
}

/// Moves refs in one step, or one after the other where that is all a backend can.
pub(crate) fn append(backend: &dyn Backend, moves: Vec<RefMove>) -> Result<(), TransferError> {
    if moves.is_empty() {
        return Ok(());
    }
    if backend.capabilities().several_refs {
        backend.append(Batch::new(), &moves, Durability::Synced)?;
        return Ok(());
    }
    for one in moves {
        backend.append(Batch::new(), &[one], Durability::None)?;
    }
    Ok(backend.flush()?)
}

/// Whether a move drops no commit: the ref names a commit, and will name one that descends from it.
fn forward<F: Format>(repo: &Repo<F>, from: &RefTarget, to: &RefTarget) -> Result<bool, TransferError> {
    let (RefTarget::Object(from), RefTarget::Object(to)) = (from, to) else { return Ok(false) };
    for at in [from, to] {
        match repo.backend().read(at)? {
            Some(object) if object.kind() == Kind::Commit => {}
            _ => return Ok(false),
        }
    }
    is_ancestor(repo, from, to)
}

/// Whether a commit is an ancestor of another one; histories may be shallow.
fn is_ancestor<F: Format>(repo: &Repo<F>, ancestor: &ObjRef, descendant: &ObjRef) -> Result<bool, TransferError> {
    if repo.backend().shallow()?.is_empty() && repo.backend().capabilities().metadata_words {
        return Ok(repo.is_ancestor(repo.commit_id(*ancestor), repo.commit_id(*descendant))?);
    }
    let mut seen: HashSet<Oid> = HashSet::new();
    let mut stack = vec![*descendant];
    while let Some(at) = stack.pop() {
        if at == *ancestor {
            return Ok(true);
        }
        if seen.len() > ANCESTORS_MAX || !seen.insert(at.oid) {
            continue;
        }
        match repo.read_commit(repo.commit_id(at)) {
            Ok(commit) => stack.extend(commit.parents.iter().rev().map(|&parent| ObjRef::from(parent))),
            Err(Error::Missing { .. } | Error::Promised { .. } | Error::Absent { .. }) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(false)
}
