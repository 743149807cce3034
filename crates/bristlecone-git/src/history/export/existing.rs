//! What the repository that takes a history has of it already.

use std::{collections::HashSet, sync::Arc};

use bristlecone::{Kind, Location, Oid, RefTarget};

use crate::{
    history::{
        error::{Origin, TransferError},
        ids::Ids,
        objects::{CommitHead, note_tree, tag_target},
        pipeline::{
            contract::Existing,
            graph::{Ends, Graph, GraphBounds},
        },
        repository::Repository,
        table::Scratch,
    },
    repository::odb::Odb,
};

/// Returns what refs lead to. `each`: every object is searched for in the repository, also one that no ref leads to.
pub(crate) fn of(
    repository: &Repository,
    made: bool,
    each: bool,
    scratch: &Scratch,
) -> Result<RepositoryExisting, TransferError> {
    let (odb, algorithm) = (&*repository.odb, repository.algorithm());
    let width = algorithm.oid_bytes();
    let mut graph = Graph::new(Ids::new(width, scratch), width, scratch);
    let mut others = Ids::new(width, scratch);
    let ends = Ends::of_shallow(&repository.shallow);
    let mut bounds = GraphBounds { existing: &mut |_, _| Ok(false), ends: &ends, progress: &mut |_| {} };
    let (mut roots, mut raw) = (HashSet::new(), Vec::new());
    for target in repository.refs.values().chain(&repository.head) {
        let RefTarget::Object(at) = target else { continue };
        let mut oid = at.oid;
        while let Ok(Some(kind)) = odb.read(&oid, &mut raw) {
            match kind {
                Kind::Tag if others.get(&oid)?.is_none() => _ = others.insert(&oid)?,
                Kind::Commit => {
                    graph.visit(odb, &mut bounds, &oid, || Origin::History)?;
                    roots.extend(CommitHead::parse(width, &raw).map(|head| head.tree));
                    break;
                }
                _ => break,
            }
            let Some((target, _)) = tag_target(algorithm, &raw) else { break };
            oid = target;
        }
    }
    graph.follow(odb, &mut bounds)?;
    // Damaged commits are written again.
    let missing = graph.take_missing().into_iter().map(|(number, _)| number).collect();
    let commits = graph.into_ids();
    for root in roots.into_iter().filter(|_| !each) {
        note_tree(odb, algorithm, root, &mut others)?;
    }
    let odb = (each && !made).then(|| repository.odb.clone());
    Ok(RepositoryExisting { odb, commits, missing, others })
}

/// What refs of a repository lead to: its commits, and the directories and values of those that refs name. Older ones
/// may be written a second time; Git takes either.
pub(crate) struct RepositoryExisting {
    // Searched for each object, if commits do not tell which objects are new.
    odb: Option<Arc<Odb>>,
    commits: Ids,
    missing: HashSet<u32>,
    others: Ids,
}

impl Existing for RepositoryExisting {
    fn find(&self, _: Kind, oid: &Oid) -> Result<Option<Location>, TransferError> {
        let found = match &self.odb {
            Some(odb) => odb.contains(oid)?,
            None => self.others.get(oid)?.is_some(),
        };
        Ok(found.then_some(Location::NONE))
    }

    fn commit(&self, _: u32, oid: &Oid) -> Result<bool, TransferError> {
        Ok(self.commits.get(oid)?.is_some_and(|number| !self.missing.contains(&number)))
    }

    fn closed(&self) -> bool {
        true
    }

    fn confirm(&self, _: u32) -> Result<(), TransferError> {
        Ok(())
    }
}
