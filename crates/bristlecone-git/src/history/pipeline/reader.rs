//! The thread that reads: it finds the commits, walks their trees, newest first, then sends the commits, parents first,
//! and at last the tags.

use std::{collections::HashMap, sync::atomic::Ordering::Relaxed};

use bristlecone::{
    Kind, Oid,
    core::git::{self, Algorithm},
};

use crate::{
    history::{
        error::{Missing, Origin, TransferError},
        ids::Ids,
        objects::{Objects, read_any, read_as, tag_target},
        pipeline::{
            channel::{Message, NO_NUMBER, Named},
            contract::{Existing, Meters, OutgoingCommit, Stopped, Walker},
            graph::{CommitState, Ends, Graph, GraphBounds},
        },
        table::Scratch,
    },
    repository::hash::check_id,
};

/// How many tags may name each other in a row.
const TAGS_MAX: usize = 1024;

/// The thread that reads.
pub(crate) struct ReadThread<'a, O, W> {
    pub(crate) objects: &'a O,
    pub(crate) algorithm: Algorithm,
    pub(crate) existing: &'a dyn Existing,
    pub(crate) tips: &'a [(String, Oid)],
    pub(crate) ends: &'a Ends,
    pub(crate) skip: bool,
    /// Whether ids are those of the bytes.
    pub(crate) verify: bool,
    pub(crate) meters: &'a Meters,
    pub(crate) walk: W,
    /// What tags lead to in the end, and the tags on the way, outermost first.
    pub(crate) chains: HashMap<Oid, Chain>,
}

/// What a tip leads to.
#[derive(Clone)]
pub(crate) struct Chain {
    tags: Vec<Oid>,
    end: End,
}

#[derive(Clone)]
enum End {
    Object(Kind, Oid),
    Missing(Kind, Oid, Option<String>, Origin),
}

impl<O: Objects, W: Walker> ReadThread<'_, O, W> {
    /// Reads everything; returns what each tip leads to, and Git's id of it.
    pub(crate) fn run(mut self, ids: Ids, scratch: &Scratch) -> Result<Vec<(Named, Oid)>, Stopped> {
        let mut graph = Graph::new(ids, self.algorithm.oid_bytes(), scratch);
        let chains = self.find(&mut graph)?;
        let order = self.order(&mut graph)?;
        self.meters.commits_total.store(order.len() as u64, Relaxed);
        let mut trees = vec![NO_NUMBER; order.len()];
        for (place, &number) in order.iter().enumerate() {
            if graph.state(number) != CommitState::Missing {
                let (tree, oid) = (graph.tree(number)?, graph.ids.oid(number)?);
                trees[place] = self.walk.commit_tree(&oid, &tree)?;
            }
            self.meters.commits.fetch_add(1, Relaxed);
        }
        self.commits(&mut graph, &order, &trees)?;
        let mut named = Vec::with_capacity(chains.len());
        for (chain, (_, oid)) in chains.iter().zip(self.tips) {
            let tip = self.tip(&graph, chain)?;
            named.push((tip, self.walk.git_oid(tip, oid)?));
        }
        self.walk.sender().flush()?;
        Ok(named)
    }

    /// Finds all commits, and what tips lead to.
    fn find(&mut self, graph: &mut Graph) -> Result<Vec<Chain>, Stopped> {
        let mut chains = Vec::with_capacity(self.tips.len());
        for (name, oid) in self.tips {
            chains.push(self.chain(name, oid)?);
        }
        let existing = self.existing;
        let mut bring = Vec::new();
        {
            let meters = self.meters;
            let mut known = |number: u32, oid: &Oid| -> Result<bool, TransferError> {
                let found = existing.commit(number, oid)?;
                if found {
                    bring.push((number, *oid));
                }
                Ok(found)
            };
            let mut bounds = GraphBounds {
                existing: &mut known,
                ends: self.ends,
                progress: &mut |count| meters.commits_found.store(count, Relaxed),
            };
            for ((name, _), chain) in self.tips.iter().zip(&chains) {
                if let End::Object(Kind::Commit, oid) = &chain.end {
                    let from = || chain.tags.last().map_or_else(|| Origin::Ref(name.clone()), |tag| Origin::Tag(*tag));
                    graph.visit(self.objects, &mut bounds, oid, from)?;
                }
            }
            graph.follow(self.objects, &mut bounds)?;
        }
        for (number, oid) in bring {
            self.walk.commit_existing(number, &oid)?;
        }
        for (number, missing) in graph.take_missing() {
            if !self.skip {
                return Err(TransferError::Missing(Box::new(missing)).into());
            }
            self.walk.sender().send(Message::CommitMissing { number, missing })?;
        }
        Ok(chains)
    }

    /// Returns the commits to send, each after its children. What is wrong with the bytes of a commit shows here where
    /// they name the commit itself as a parent, or one that it is an ancestor of: no order has such a commit.
    fn order(&mut self, graph: &mut Graph) -> Result<Vec<u32>, Stopped> {
        loop {
            let order = graph.order();
            let left = graph.left_out(&order);
            if left.is_empty() {
                return Ok(order);
            }
            for (number, damage) in self.damaged(graph, &left)? {
                let (oid, damage) = (graph.ids.oid(number)?, Some(damage));
                let missing = Missing { kind: Kind::Commit, oid, damage, from: Origin::History };
                if !self.skip {
                    return Err(TransferError::Missing(Box::new(missing)).into());
                }
                graph.set_missing(number);
                self.walk.sender().send(Message::CommitMissing { number, missing })?;
            }
        }
    }

    /// Returns at least one of the commits that an order left out, and what is wrong with each.
    fn damaged(&self, graph: &Graph, left: &[u32]) -> Result<Vec<(u32, String)>, Stopped> {
        let (mut damaged, mut raw) = (Vec::new(), Vec::new());
        for &number in left.iter().filter(|_| self.verify) {
            let oid = graph.ids.oid(number)?;
            if graph.bytes(self.objects, number, &mut raw)?.is_ok()
                && let Err(damage) = check_id(self.algorithm, &oid, Kind::Commit, &raw)
            {
                damaged.push((number, damage));
            }
        }
        if damaged.is_empty() {
            let number = graph.cyclic(left).unwrap_or(left[0]);
            damaged.push((number, "its parents lead back to it".to_owned()));
        }
        Ok(damaged)
    }

    /// Follows tags to what they name in the end.
    fn chain(&mut self, name: &str, oid: &Oid) -> Result<Chain, Stopped> {
        if let Some(chain) = self.chains.get(oid) {
            return Ok(chain.clone());
        }
        let mut tags: Vec<Oid> = Vec::new();
        let (mut at, mut expected) = (*oid, None);
        let mut raw = Vec::new();
        let end = loop {
            let from = || tags.last().map_or_else(|| Origin::Ref(name.to_owned()), |tag| Origin::Tag(*tag));
            let kind = match read_any(self.objects, &at, &mut raw)? {
                Ok(kind) => kind,
                Err(damage) => break End::Missing(expected.unwrap_or(Kind::Commit), at, damage, from()),
            };
            if let Some(expected) = expected.filter(|&expected| expected != kind) {
                let damage = format!("it is a {}, and the tag says {}", type_name(kind), type_name(expected));
                break End::Missing(expected, at, Some(damage), from());
            }
            if kind != Kind::Tag {
                break End::Object(kind, at);
            }
            let Some((target, kind)) = tag_target(self.algorithm, &raw) else {
                break End::Missing(Kind::Tag, at, Some("its first lines are not those of a tag".to_owned()), from());
            };
            if tags.len() == TAGS_MAX {
                let reason = format!("more than {TAGS_MAX} tags name each other in a row");
                return Err(TransferError::refused(name, reason).into());
            }
            tags.push(at);
            (at, expected) = (target, Some(kind));
        };
        let chain = Chain { tags, end };
        self.chains.insert(*oid, chain.clone());
        Ok(chain)
    }

    /// Sends the commits, parents first.
    fn commits(&mut self, graph: &mut Graph, order: &[u32], trees: &[u32]) -> Result<(), Stopped> {
        for (&number, &tree) in order.iter().zip(trees).rev() {
            let state = graph.state(number);
            if state == CommitState::Missing {
                continue;
            }
            let (mut raw, oid) = (Vec::new(), graph.ids.oid(number)?);
            if let Err(damage) = graph.bytes(self.objects, number, &mut raw)? {
                let missing = Missing { kind: Kind::Commit, oid, damage, from: Origin::History };
                return Err(TransferError::Missing(Box::new(missing)).into());
            }
            let (parents, shallow) = (graph.parents(number).collect(), state == CommitState::Shallow);
            self.walk.commit(OutgoingCommit { number, oid, raw, tree, parents, shallow })?;
        }
        Ok(())
    }

    /// Sends what a tip leads to and was not sent yet.
    fn tip(&mut self, graph: &Graph, chain: &Chain) -> Result<Named, Stopped> {
        let mut named = match &chain.end {
            End::Object(Kind::Commit, oid) => Named::Commit(graph.ids.get(oid)?.expect("tips are in the graph")),
            End::Object(Kind::Node, oid) => Named::Tree(self.walk.lone_tree(oid)?),
            End::Object(_, oid) => Named::Blob(self.walk.lone_blob(oid)?),
            End::Missing(kind, oid, damage, from) => {
                // What is not there may have come before.
                let wanted = damage.is_none().then_some(*kind);
                let number = match self.walk.known(oid, wanted)? {
                    Some(number) => number,
                    None => self.walk.missing(*kind, oid, damage.clone(), from.clone())?,
                };
                Named::Tag(number)
            }
        };
        for oid in chain.tags.iter().rev() {
            let number = match self.walk.known(oid, Some(Kind::Tag))? {
                Some(number) => number,
                None => self.tag(oid, named)?,
            };
            named = Named::Tag(number);
        }
        Ok(named)
    }

    fn tag(&mut self, oid: &Oid, target: Named) -> Result<u32, Stopped> {
        let mut raw = Vec::new();
        if let Err(damage) = read_as(self.objects, oid, Kind::Tag, &mut raw)? {
            // It was read a moment ago.
            let missing = Missing { kind: Kind::Tag, oid: *oid, damage, from: Origin::History };
            return Err(TransferError::Missing(Box::new(missing)).into());
        }
        self.meters.objects.fetch_add(1, Relaxed);
        self.walk.tag(oid, raw, target)
    }
}

fn type_name(kind: Kind) -> &'static str {
    git::type_name(kind).unwrap_or("object")
}
