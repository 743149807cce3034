//! What an import brings behind commits that the store has without their parents.

use std::collections::HashSet;

use bristlecone::{Backend, Kind, Oid, absent_commits};

use crate::history::{
    error::TransferError,
    ids::Ids,
    objects::{CommitHead, tag_target},
    repository::Repository,
    store::{SHALLOW, shallow},
    table::Scratch,
};

/// Returns the commits that were imported without their parents, which the repository has by now.
///
/// A Git that prunes may leave such a commit for a while to which nothing leads any more, without the line that says that it is
/// shallow: its parents are as absent as before.
pub(super) fn deepened(from: &Repository, backend: &dyn Backend) -> Result<Vec<Oid>, TransferError> {
    let (mut deeper, mut raw, width) = (Vec::new(), Vec::new(), from.algorithm().oid_bytes());
    for oid in shallow(backend)? {
        if oid.as_bytes().len() != width || from.shallow.contains(&oid) || from.odb.read(&oid, &mut raw)?.is_none() {
            continue;
        }
        let mut whole = true;
        for parent in CommitHead::parse(width, &raw).map_or(Vec::new(), |head| head.parents) {
            whole = whole && from.odb.contains(&parent)?;
        }
        if whole {
            deeper.push(oid);
        }
    }
    Ok(deeper)
}

/// Returns the parents of commits, each as a tip of its own.
pub(super) fn parents_of(from: &Repository, deeper: &[Oid]) -> Result<Vec<(String, Oid)>, TransferError> {
    let (mut tips, mut raw) = (Vec::new(), Vec::new());
    for oid in deeper {
        from.odb.read(oid, &mut raw)?;
        let parents = CommitHead::parse(from.algorithm().oid_bytes(), &raw).map_or(Vec::new(), |head| head.parents);
        tips.extend(parents.into_iter().map(|parent| (format!("{SHALLOW}{oid}"), parent)));
    }
    Ok(tips)
}

/// Returns those of the commits that retention has cut in the store to which the wanted refs of the repository lead, each as a tip of its
/// own: the store has what follows them, and an import goes no further than that.
pub(super) fn returning(
    from: &Repository,
    backend: &dyn Backend,
    wanted: &[(String, Oid)],
    scratch: &Scratch,
) -> Result<Vec<(String, Oid)>, TransferError> {
    let (mut gone, algorithm) = (HashSet::<Oid>::from_iter(absent_commits(backend)?), from.algorithm());
    let (mut tips, mut raw) = (Vec::new(), Vec::new());
    let mut met = Ids::new(algorithm.oid_bytes(), scratch);
    for (name, tip) in wanted {
        let mut waiting = vec![*tip];
        while !gone.is_empty()
            && let Some(oid) = waiting.pop()
        {
            if met.get(&oid)?.is_some() {
                continue;
            }
            met.insert(&oid)?;
            // What cannot be read is the import's to tell.
            let Ok(Some(kind)) = from.odb.read(&oid, &mut raw) else { continue };
            if gone.remove(&oid) {
                tips.push((name.clone(), oid));
            }
            match kind {
                Kind::Commit if !from.shallow.contains(&oid) => {
                    let head = CommitHead::parse(algorithm.oid_bytes(), &raw);
                    waiting.extend(head.map_or(Vec::new(), |head| head.parents));
                }
                Kind::Tag => waiting.extend(tag_target(algorithm, &raw).map(|(target, _)| target)),
                _ => {}
            }
        }
    }
    Ok(tips)
}
