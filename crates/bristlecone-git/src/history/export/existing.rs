//! What the repository that takes a history has of it already.

use std::{
    collections::HashSet,
    sync::{Arc, OnceLock},
};

use bristlecone::{Kind, Location, Oid, RefTarget};

use crate::{
    history::{
        error::{Origin, TransferError},
        ids::Ids,
        objects::{CommitHead, note_tree, read_as, tag_target},
        pipeline::{
            contract::Existing,
            graph::{Ends, Graph, GraphBounds},
        },
        repository::Repository,
        table::Scratch,
    },
    repository::odb::Odb,
};

/// Returns what refs lead to. `each`: also what older commits hold counts, of which else only the commits do.
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
                Kind::Node => {
                    note_tree(odb, algorithm, oid, &mut others)?;
                    break;
                }
                Kind::Contents if others.get(&oid)?.is_none() => {
                    others.insert(&oid)?;
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
    let (each, partial) = (each && !made, !odb.promisor_packs()?.is_empty());
    let (odb, older, scratch) = (repository.odb.clone(), OnceLock::new(), scratch.clone());
    Ok(RepositoryExisting { odb, each, partial, commits, missing, others, older, scratch })
}

/// What refs of a repository lead to: its commits, and the directories and values of those that refs name. Older ones
/// may be written a second time; Git takes either. What no ref leads to does not count: a Git may drop it at any time.
pub(crate) struct RepositoryExisting {
    odb: Arc<Odb>,
    // Whether older directories and values count, since commits do not tell which objects are new.
    each: bool,
    // Whether another repository promised what is absent.
    partial: bool,
    commits: Ids,
    missing: HashSet<u32>,
    others: Ids,
    // The directories and values of all commits, once one of them is asked for.
    older: OnceLock<Ids>,
    scratch: Scratch,
}

impl RepositoryExisting {
    /// Whether refs lead to a directory, value or tag.
    fn is_reached(&self, oid: &Oid) -> Result<bool, TransferError> {
        if self.others.get(oid)?.is_some() {
            return Ok(true);
        }
        // Most are new, and need no walk.
        if !self.each || !self.odb.is_written(oid)? {
            return Ok(false);
        }
        Ok(self.older()?.get(oid)?.is_some())
    }

    /// Returns the directories and values of all commits that refs lead to.
    fn older(&self) -> Result<&Ids, TransferError> {
        if let Some(older) = self.older.get() {
            return Ok(older);
        }
        let (algorithm, mut raw) = (self.odb.algorithm(), Vec::new());
        let mut older = Ids::new(algorithm.oid_bytes(), &self.scratch);
        for number in (0..self.commits.len()).filter(|number| !self.missing.contains(number)) {
            let read = read_as(&*self.odb, &self.commits.oid(number)?, Kind::Commit, &mut raw)?;
            if let Some(head) = read.ok().and_then(|()| CommitHead::parse(algorithm.oid_bytes(), &raw)) {
                note_tree(&*self.odb, algorithm, head.tree, &mut older)?;
            }
        }
        Ok(self.older.get_or_init(|| older))
    }
}

impl Existing for RepositoryExisting {
    fn find(&self, kind: Kind, oid: &Oid) -> Result<Option<Location>, TransferError> {
        // One that is damaged is written again; one that another repository promised is none.
        let found =
            self.is_reached(oid)? && (self.odb.is_sound(oid, kind)? || self.partial && !self.odb.is_written(oid)?);
        Ok(found.then_some(Location::NONE))
    }

    fn commit(&self, _: u32, oid: &Oid) -> Result<bool, TransferError> {
        Ok(self.commits.get(oid)?.is_some_and(|number| !self.missing.contains(&number)))
    }

    fn closed(&self) -> bool {
        true
    }

    fn confirm(&self, _: u32, _: Kind) -> Result<(), TransferError> {
        Ok(())
    }
}
