//! Finding out how two maps differ, by asking the other one for the nodes that differ.
//!
//! The walk goes through the source depth first, from left to right. Where the target has a node with the same key and
//! hash, all below it is equal and skipped. Every answer is checked against the hash that was asked for, so that a
//! source can withhold entries and cannot slip others in. In index mode no hash but the caller's covers a key ([`Mode::Index`]).

use std::vec;

use super::{
    Mode, OkraMap,
    error::{OkraError, Result},
    node::{KEY_BYTES_MAX, NodeHash, NodeKey, OkraNode, OkraRoot},
    snapshot::{Entry, OkraCursor, OkraSnapshot},
    writer::OkraWriter,
};

/// A map to compare with, here or elsewhere, as it is at one moment.
pub trait Source {
    /// Returns the root.
    ///
    /// # Errors
    /// Whatever keeps the source from answering.
    fn root(&mut self) -> Result<OkraRoot>;

    /// Returns the children of the node of `level`, 1 or more, at `key`, in the order of their keys; those of level 0
    /// with their values. It is asked for nodes that its root leads to.
    ///
    /// # Errors
    /// Whatever keeps the source from answering.
    fn children(&mut self, level: u8, key: Option<&[u8]>) -> Result<Vec<OkraNode>>;
}

impl Source for &OkraSnapshot<'_> {
    fn root(&mut self) -> Result<OkraRoot> {
        OkraSnapshot::root(self)
    }

    fn children(&mut self, level: u8, key: Option<&[u8]>) -> Result<Vec<OkraNode>> {
        let children = OkraSnapshot::children(self, level, key)?;
        children.ok_or_else(|| OkraError::source(level, key, "there is no such node"))
    }
}

/// A key at which two maps differ. In index mode hashes take the place of values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Difference<'a> {
    /// The key.
    pub key: &'a [u8],
    /// The source's value, if it has one.
    pub source: Option<&'a [u8]>,
    /// The target's value, if it has one.
    pub target: Option<&'a [u8]>,
}

/// What a walk took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SyncStats {
    /// Calls of [`Source::children`].
    pub calls: u64,
    /// Nodes in the answers, entries and anchors among them.
    pub nodes: u64,
    /// Keys that differ.
    pub differences: u64,
}

impl OkraSnapshot<'_> {
    /// Calls `each` for every key at which `source` and this map differ, in the order of the keys.
    ///
    /// # Errors
    /// [`OkraError::Source`] for an answer that does not have the hash that was asked for; those of `source`, of
    /// `each` and of LMDB.
    pub fn diff(
        &self,
        source: &mut impl Source,
        mut each: impl FnMut(Difference<'_>) -> Result<()>,
    ) -> Result<SyncStats> {
        let mut leaves = self.cursor()?;
        let leaf = leaves.next()?;
        let mut walk = Walk { target: self, leaves, leaf, each: &mut each, stats: SyncStats::default() };
        walk.run(source)?;
        Ok(walk.stats)
    }
}

/// Loops over the differences that change the map, in one transaction.
impl OkraMap {
    /// Makes this map equal to `source`: its entries are set, and others removed.
    ///
    /// # Errors
    /// As [`OkraSnapshot::diff`] and [`OkraWriter::commit`]; nothing was changed then.
    pub fn copy_from(&self, source: &mut impl Source) -> Result<SyncStats> {
        self.change_by(source, |writer, difference| match difference.source {
            Some(value) => writer.insert(difference.key, value),
            None => writer.remove(difference.key),
        })
    }

    /// Sets all entries of `source`, and keeps those that this map alone has.
    ///
    /// # Errors
    /// As [`OkraMap::copy_from`].
    pub fn pull_from(&self, source: &mut impl Source) -> Result<SyncStats> {
        self.change_by(source, |writer, difference| match difference.source {
            Some(value) => writer.insert(difference.key, value),
            None => Ok(()),
        })
    }

    /// Takes the entries that `source` alone has, keeps those that this map alone has, and asks `resolve` for the
    /// value where both have different ones.
    ///
    /// # Errors
    /// As [`OkraMap::copy_from`], and those of `resolve`.
    pub fn merge_from(
        &self,
        source: &mut impl Source,
        mut resolve: impl FnMut(&Difference<'_>) -> Result<Vec<u8>>,
    ) -> Result<SyncStats> {
        self.change_by(source, |writer, difference| match (difference.source, difference.target) {
            (Some(_), Some(_)) => writer.insert(difference.key, &resolve(&difference)?),
            (Some(value), None) => writer.insert(difference.key, value),
            (None, _) => Ok(()),
        })
    }

    fn change_by(
        &self,
        source: &mut impl Source,
        mut change: impl FnMut(&mut OkraWriter<'_>, Difference<'_>) -> Result<()>,
    ) -> Result<SyncStats> {
        let mut writer = self.write()?;
        // The writer keeps others from committing, so that this is the state that it changes.
        let target = self.read()?;
        let stats = target.diff(source, |difference| change(&mut writer, difference))?;
        drop(target);
        writer.commit()?;
        Ok(stats)
    }
}

/// A walk through the source.
struct Walk<'a, F> {
    target: &'a OkraSnapshot<'a>,
    leaves: OkraCursor<'a>,
    /// The first entry of the target that was not compared yet.
    leaf: Option<Entry<'a>>,
    each: &'a mut F,
    stats: SyncStats,
}

/// Nodes of one level that are still to be compared.
struct Siblings {
    level: u8,
    nodes: vec::IntoIter<OkraNode>,
    /// All keys below them are less.
    limit: Option<Vec<u8>>,
}

impl Siblings {
    /// Takes the next node, and the key that all keys below it are less than.
    fn take(&mut self) -> Option<(OkraNode, Option<Vec<u8>>)> {
        let node = self.nodes.next()?;
        let limit = self.nodes.as_slice().first().map_or_else(|| self.limit.clone(), |next| next.key.clone());
        Some((node, limit))
    }
}

impl<F: FnMut(Difference<'_>) -> Result<()>> Walk<'_, F> {
    fn run(&mut self, source: &mut impl Source) -> Result<()> {
        let root = source.root()?;
        let node = OkraNode { key: None, hash: root.hash, value: None };
        if root.level == 0 && root.hash != NodeHash::of_empty() {
            return Err(OkraError::source(0, None, "the root is not that of the empty map"));
        }
        let nodes = if root.level == 0 { Vec::new() } else { vec![node] };
        // One level is added at a time, and each is less than the one before: there are 255 at most.
        let mut stack = vec![Siblings { level: root.level, nodes: nodes.into_iter(), limit: None }];
        while let Some(siblings) = stack.last_mut() {
            let level = siblings.level;
            let Some((node, limit)) = siblings.take() else {
                stack.pop();
                continue;
            };
            let key = node.key.as_deref();
            if self.target.node(level, key)? == Some(node.hash) {
                self.skip(level, key.unwrap_or_default())?;
                continue;
            }
            let children = source.children(level, key)?;
            self.stats.calls += 1;
            self.stats.nodes += children.len() as u64;
            self.verify(level, &node, limit.as_deref(), &children)?;
            if level == 1 {
                children.iter().try_for_each(|child| self.compare(child))?;
            } else {
                stack.push(Siblings { level: level - 1, nodes: children.into_iter(), limit });
            }
        }
        while self.leaf.is_some() {
            self.give_target()?;
        }
        Ok(())
    }

    /// Passes over a node that both have: what the target alone has comes before it.
    fn skip(&mut self, level: u8, key: &[u8]) -> Result<()> {
        while self.leaf.is_some_and(|(leaf, _)| leaf < key) {
            self.give_target()?;
        }
        let mut cursor = self.target.txn.cursor()?;
        cursor.seek(NodeKey::new(level, key).bytes())?;
        self.leaf = match cursor.next()? {
            Some(([at, next @ ..], _)) if *at == level => self.leaves.find(next)?,
            _ => {
                self.leaves.seek_end();
                None
            }
        };
        Ok(())
    }

    /// Compares an entry of the source with the target's.
    fn compare(&mut self, child: &OkraNode) -> Result<()> {
        let Some(key) = child.key.as_deref() else { return Ok(()) };
        while self.leaf.is_some_and(|(leaf, _)| leaf < key) {
            self.give_target()?;
        }
        let source = match self.target.mode {
            Mode::Store => child.value.as_deref(),
            Mode::Index => Some(&child.hash.0[..]),
        };
        let target = match self.leaf {
            Some((leaf, value)) if leaf == key => {
                self.leaf = self.leaves.next()?;
                Some(value)
            }
            _ => None,
        };
        if source == target { Ok(()) } else { self.give(Difference { key, source, target }) }
    }

    /// Gives an entry that the target alone has.
    fn give_target(&mut self) -> Result<()> {
        let Some((key, value)) = self.leaf else { return Ok(()) };
        self.give(Difference { key, source: None, target: Some(value) })?;
        self.leaf = self.leaves.next()?;
        Ok(())
    }

    fn give(&mut self, difference: Difference<'_>) -> Result<()> {
        self.stats.differences += 1;
        (self.each)(difference)
    }

    /// Checks that children are those of `node`, and that their keys are in order and below `limit`.
    fn verify(&self, level: u8, node: &OkraNode, limit: Option<&[u8]>, children: &[OkraNode]) -> Result<()> {
        let wrong = |reason| Err(OkraError::source(level, node.key.as_deref(), reason));
        let hashes: Vec<u8> = children.iter().flat_map(|child| child.hash.0).collect();
        if NodeHash::of(&hashes) != node.hash {
            return wrong("the hash of the children is another one");
        }
        let Some((first, rest)) = children.split_first() else { return wrong("it has no children") };
        if first.key != node.key || (first.key.is_some() && !first.hash.is_boundary()) {
            return wrong("the first child is not the boundary that begins it");
        }
        if rest.iter().any(|child| child.hash.is_boundary()) {
            return wrong("a boundary is among its children");
        }
        let is_rising = children.is_sorted_by(|a, b| a.key < b.key)
            && children.last().is_none_or(|last| limit.is_none_or(|limit| last.key.as_deref() < Some(limit)));
        if !is_rising {
            return wrong("the keys of its children are not in order");
        }
        if children.iter().any(|child| child.key.as_ref().is_some_and(|key| !(1..=KEY_BYTES_MAX).contains(&key.len())))
        {
            return wrong("a key has no byte or too many");
        }
        if level == 1 { self.verify_entries(node, children) } else { Ok(()) }
    }

    /// Checks that entries have the hashes that they say.
    fn verify_entries(&self, node: &OkraNode, children: &[OkraNode]) -> Result<()> {
        for child in children {
            let is_sound = match (&child.key, &child.value, self.target.mode) {
                (None, _, _) => child.hash == NodeHash::of_empty(),
                (Some(_), _, Mode::Index) => true,
                (Some(key), Some(value), Mode::Store) => child.hash == NodeHash::of_entry(key, value),
                (Some(_), None, Mode::Store) => false,
            };
            if !is_sound {
                return Err(OkraError::source(1, node.key.as_deref(), "an entry does not have the hash that it says"));
            }
        }
        Ok(())
    }
}
