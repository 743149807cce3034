//! Bringing the levels above the entries up to date, in one pass from the bottom.
//!
//! A level is given the keys of the nodes below it that changed: that came, went, or have another hash. It finds the
//! nodes above them, hashes each of those once, and gives the keys of those that changed to the next level. Both
//! cursors only move forward, as the keys come in order.

use super::{
    error::{OkraError, Result},
    keys::KeyList,
    lmdb::{At, WriteCursors},
    node::{ChildrenHasher, LEVEL_MAX, NodeHash, NodeKey},
};

/// Brings all levels up to date after the entries at `changed` have changed, and leaves no level above the root.
///
/// `changed` has the keys in order. The levels are then what the entries alone make them.
pub(super) fn rehash(cursors: &mut WriteCursors<'_>, file: &str, mut changed: KeyList) -> Result<()> {
    let mut above = KeyList::default();
    let mut pass = Pass { cursors, file, level: 0, hasher: ChildrenHasher::new(), key: NodeKey::new(0, &[]) };
    while changed.len() > 0 {
        if pass.is_root()? {
            return pass.remove_above();
        }
        if pass.level + 1 == LEVEL_MAX {
            return Err(pass.damaged(&[], "the levels do not end"));
        }
        pass.run(&changed, &mut above)?;
        pass.level += 1;
        std::mem::swap(&mut changed, &mut above);
        above.clear();
    }
    Ok(())
}

/// The pass over one level.
struct Pass<'c, 't> {
    cursors: &'c mut WriteCursors<'t>,
    file: &'c str,
    /// The level of the children.
    level: u8,
    hasher: ChildrenHasher,
    /// The node of the level above that is being made; its level is that of what was sought last.
    key: NodeKey,
}

/// What the children of a node end with.
struct End {
    /// The key of the boundary that follows, if one does.
    boundary: Option<NodeKey>,
    hash: NodeHash,
}

impl Pass<'_, '_> {
    /// Makes the parents of the nodes at `changed` anew, and adds to `above` the keys of those that changed.
    fn run(&mut self, changed: &KeyList, above: &mut KeyList) -> Result<()> {
        let mut index = 0;
        // Whether the cursor of the parents stands at the next one.
        let mut is_there = false;
        // Whether the next parent follows the one before, and `self.key` is its key.
        let mut is_known = false;
        while let Some(key) = changed.get(index) {
            if !is_known {
                is_there = self.find_parent(key)?;
            }
            let end = self.hash_children()?;
            self.write_parent(is_there, end.hash, above)?;
            let next = end.boundary;
            is_there = self.remove_stale(next.as_ref(), above)?;
            is_known = false;
            let Some(next) = next else { break };
            while changed.get(index).is_some_and(|key| key < next.key()) {
                index += 1;
            }
            // A boundary without its node is one that changed, unless the map was damaged: then it is mended here.
            // Either way the walk moves forward.
            if !is_there || changed.get(index) == Some(next.key()) {
                is_known = true;
                self.key = next;
            }
        }
        Ok(())
    }

    /// Sets `self.key` to the first node whose children have to be hashed for a change at `key`, and tells whether
    /// the cursor of the parents stands there.
    ///
    /// That is the parent before the change, unless it began at `key` itself and no longer may.
    fn find_parent(&mut self, key: &[u8]) -> Result<bool> {
        let parent_level = self.level + 1;
        self.key.set(parent_level, key);
        let found = self.cursors.seek(At::Parents, self.key.bytes())?;
        let began_here = found.is_some_and(|(found, _)| found == self.key.bytes());
        if began_here {
            self.key.set_level(self.level);
            let child = self.cursors.seek_exact(At::Children, self.key.bytes())?;
            if key.is_empty() || child.and_then(NodeHash::at).is_some_and(|hash| hash.is_boundary()) {
                return Ok(true);
            }
        }
        match self.cursors.prev(At::Parents)? {
            Some(([level, before @ ..], _)) if *level == parent_level => {
                self.key.set(parent_level, before);
                Ok(true)
            }
            // The level is new, and begins with its anchor.
            _ => {
                self.key.set(parent_level, &[]);
                Ok(false)
            }
        }
    }

    /// Hashes the children of the node at `self.key`.
    fn hash_children(&mut self) -> Result<End> {
        let level = self.level;
        self.key.set_level(level);
        let first = self.cursors.seek_exact(At::Children, self.key.bytes())?.map(NodeHash::at);
        match first {
            Some(Some(hash)) => self.hasher.push(hash),
            Some(None) => return Err(self.damaged(self.key.key(), SHORT)),
            None => {
                return Err(self.damaged(self.key.key(), "it is missing, and a node of the level above begins with it"));
            }
        }
        let boundary = loop {
            let Some(([at, key @ ..], value)) = self.cursors.next(At::Children)? else { break None };
            if *at != level {
                break None;
            }
            match NodeHash::at(value) {
                Some(hash) if hash.is_boundary() => break Some(NodeKey::new(level, key)),
                Some(hash) => self.hasher.push(hash),
                None => {
                    let key = key.to_vec();
                    return Err(self.damaged(&key, SHORT));
                }
            }
        };
        Ok(End { boundary, hash: self.hasher.finish() })
    }

    /// Writes the node at `self.key`, where its hash is another one.
    fn write_parent(&mut self, is_there: bool, hash: NodeHash, above: &mut KeyList) -> Result<()> {
        self.key.set_level(self.level + 1);
        let old = if is_there { self.cursors.value(At::Parents)? } else { None };
        match old {
            Some(old) if old == hash.0 => return Ok(()),
            Some(_) => self.cursors.replace(At::Parents, self.key.bytes(), &hash.0)?,
            None => self.cursors.put(At::Parents, self.key.bytes(), &hash.0)?,
        }
        above.push(self.key.key());
        Ok(())
    }

    /// Removes the nodes between the one just written and `next`, whose first children are boundaries no longer;
    /// tells whether the cursor then stands at `next`.
    fn remove_stale(&mut self, next: Option<&NodeKey>, above: &mut KeyList) -> Result<bool> {
        loop {
            let Some(([level, key @ ..], _)) = self.cursors.next(At::Parents)? else { return Ok(false) };
            if *level != self.level + 1 {
                return Ok(false);
            }
            if let Some(next) = next
                && key >= next.key()
            {
                return Ok(key == next.key());
            }
            above.push(key);
            self.cursors.remove(At::Parents)?;
        }
    }

    /// Tells whether the level of the children has its anchor alone, so that it is the root's.
    fn is_root(&mut self) -> Result<bool> {
        self.key.set(self.level, &[]);
        if self.cursors.seek_exact(At::Children, self.key.bytes())?.is_none() {
            return Err(self.damaged(&[], "it is missing"));
        }
        let level = self.level;
        Ok(self.cursors.next(At::Children)?.is_none_or(|(key, _)| key.first() != Some(&level)))
    }

    /// Removes all levels above that of the children; the cursor stands behind that one.
    fn remove_above(&mut self) -> Result<()> {
        self.key.set(self.level + 1, &[]);
        let mut item = self.cursors.seek(At::Parents, self.key.bytes())?;
        while item.is_some_and(|(key, _)| key.first().is_some_and(|level| *level <= LEVEL_MAX)) {
            self.cursors.remove(At::Parents)?;
            item = self.cursors.next(At::Parents)?;
        }
        Ok(())
    }

    #[cold]
    fn damaged(&self, key: &[u8], reason: &str) -> OkraError {
        OkraError::damaged(self.file, self.level, key, reason)
    }
}

const SHORT: &str = "it is shorter than a hash";
