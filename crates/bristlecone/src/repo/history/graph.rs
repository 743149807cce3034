//! Commits as walks read them: decoded, with their generation numbers.

use std::{cmp::Ordering, collections::BTreeSet, sync::Arc, vec::IntoIter};

use bristlecone_core::{Commit, Format, Kind, ObjRef, Oid, Source};

use super::LogEntry;
pub(super) use crate::oid_map::{OidMap, OidSet};
use crate::{Error, Result, store::Store};

/// The commits of a store.
#[derive(Debug)]
pub(crate) struct Graph<F: Format> {
    pub(super) store: Arc<Store<F>>,
    // Generation numbers of commits that came without, computed once for each walk.
    computed: OidMap<u64>,
    // Commits that history ends with, once they are known.
    shallow: Option<BTreeSet<Oid>>,
}

impl<F: Format> Graph<F> {
    pub(crate) fn new(store: Arc<Store<F>>) -> Self {
        Self { store, computed: OidMap::default(), shallow: None }
    }

    /// Whether commits carry their generation numbers. Elsewhere one is known only after a walk through all of history.
    pub(super) fn numbered(&self) -> bool {
        self.store.backend.capabilities().words
    }

    /// Reads a commit, with its generation number where commits carry them.
    pub(super) fn read(&mut self, at: &ObjRef) -> Result<LogEntry> {
        if self.numbered() {
            return self.read_numbered(at);
        }
        let (at, commit, generation) = self.load(at)?;
        Ok(LogEntry { at, commit, generation })
    }

    /// Reads a commit and its generation number, computing it if need be.
    pub(super) fn read_numbered(&mut self, at: &ObjRef) -> Result<LogEntry> {
        let (at, commit, stored) = self.load(at)?;
        let generation = match stored.or_else(|| self.computed.get(&at.oid).copied()) {
            Some(generation) => generation,
            None => {
                let parents = self.parents(&at.oid, &commit)?.to_vec();
                self.compute(&at, parents)?
            }
        };
        Ok(LogEntry { at, commit, generation: Some(generation) })
    }

    /// Returns the parents that history goes on with: none where a shallow clone was cut.
    pub(super) fn parents<'c>(&mut self, oid: &Oid, commit: &'c Commit) -> Result<&'c [ObjRef]> {
        let shallow = match &self.shallow {
            Some(shallow) => shallow,
            None => self.shallow.insert(self.store.backend.shallow()?),
        };
        Ok(if shallow.contains(oid) { &[] } else { &commit.parents })
    }

    /// Reads what a walk needs of a commit.
    pub(crate) fn node(&mut self, at: &ObjRef) -> Result<Node> {
        let entry = self.read_numbered(at)?;
        let parents = self.parents(&entry.at.oid, &entry.commit)?.to_vec();
        Ok(Node { at: entry.at, generation: entry.generation.unwrap_or_default(), parents })
    }

    fn load(&self, at: &ObjRef) -> Result<(ObjRef, Commit, Option<u64>)> {
        let object = self.store.read(Kind::Commit, at)?;
        let commit = self.store.format.decode_commit(&object);
        let commit = commit.map_err(|source| Error::BadObject { oid: at.oid, source })?;
        let place = if object.location().is_some() { object.location() } else { at.at };
        Ok((ObjRef::new(at.oid, place), commit, object.aux(0).filter(|&generation| generation > 0)))
    }

    /// Computes the generation number of a commit whose record has none, from its ancestors'.
    fn compute(&mut self, at: &ObjRef, parents: Vec<ObjRef>) -> Result<u64> {
        let mut stack = vec![Open { oid: at.oid, parents: parents.into_iter(), above: 0 }];
        while let Some(top) = stack.last_mut() {
            let Some(parent) = top.parents.next() else {
                let generation = top.above + 1;
                self.computed.insert(top.oid, generation);
                stack.pop();
                match stack.last_mut() {
                    Some(below) => below.above = below.above.max(generation),
                    None => return Ok(generation),
                }
                continue;
            };
            if let Some(&generation) = self.computed.get(&parent.oid) {
                top.above = top.above.max(generation);
                continue;
            }
            let (parent, commit, stored) = self.load(&parent)?;
            match stored {
                Some(generation) => top.above = top.above.max(generation),
                None => {
                    let parents = self.parents(&parent.oid, &commit)?.to_vec();
                    stack.push(Open { oid: parent.oid, parents: parents.into_iter(), above: 0 });
                }
            }
        }
        unreachable!("the loop ends with the commit that it began with")
    }
}

/// A commit whose parents are being looked at.
struct Open {
    oid: Oid,
    parents: IntoIter<ObjRef>,
    above: u64,
}

/// A commit in a queue: the one with the highest generation number comes out first.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) at: ObjRef,
    pub(crate) generation: u64,
    pub(crate) parents: Vec<ObjRef>,
}

impl Ord for Node {
    fn cmp(&self, other: &Self) -> Ordering {
        // The id only makes the order of answers the same each time.
        self.generation.cmp(&other.generation).then(self.at.oid.cmp(&other.at.oid))
    }
}

impl PartialOrd for Node {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Node {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Node {}
