//! Checking a map: the whole tree is made anew from the entries and compared with what is stored.

use super::{
    Mode,
    error::{OkraError, Result},
    lmdb::Cursor,
    node::{ChildrenHasher, HASH_BYTES, LEVEL_MAX, METADATA_KEY, NodeHash, NodeKey, OkraRoot},
    snapshot::OkraSnapshot,
};

/// What a check of a sound map found.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct OkraCheck {
    /// The root, made anew.
    pub root: OkraRoot,
    /// The count of nodes of each level from 0, anchors among them. There is one entry less than nodes of level 0.
    pub nodes: Vec<u64>,
}

impl OkraSnapshot<'_> {
    /// Makes the tree anew from the entries and compares each node with the stored one.
    ///
    /// It looks at every page first, without LMDB, which follows a damaged one out of the file. Then it reads every level once, and
    /// keeps nothing of them in memory.
    ///
    /// # Errors
    /// [`OkraError::Corrupt`] names the first page that cannot be right; [`OkraError::Damaged`] names the first node
    /// that is not what the level below makes it; those of LMDB.
    pub fn check(&self) -> Result<OkraCheck> {
        self.txn.check_pages()?;
        let mut nodes = Vec::new();
        for level in 0..LEVEL_MAX {
            let mut check = LevelCheck {
                snapshot: self,
                level,
                children: self.txn.cursor()?,
                parents: self.txn.cursor()?,
                hasher: ChildrenHasher::new(),
                parent: NodeKey::new(level + 1, &[]),
            };
            let (count, anchor) = check.run()?;
            nodes.push(count);
            if count == 1 {
                self.check_top(level)?;
                return Ok(OkraCheck { root: OkraRoot { level, hash: anchor }, nodes });
            }
        }
        Err(OkraError::damaged(self.file(), LEVEL_MAX, &[], "the levels do not end"))
    }

    /// Checks that there is nothing above the root's level.
    fn check_top(&self, level: u8) -> Result<()> {
        let mut cursor = self.txn.cursor()?;
        match cursor.seek(&[level + 1])? {
            None => Err(OkraError::damaged(self.file(), METADATA_KEY[0], &[], "the metadata are missing")),
            Some((key, _)) if key == METADATA_KEY => Ok(()),
            Some((key, _)) => {
                let reason = if level == 0 {
                    "it is above the root of an empty map, as Okra leaves it there; any change removes it"
                } else {
                    "it is above the root; any change removes it"
                };
                Err(OkraError::damaged(self.file(), key[0], &key[1..], reason))
            }
        }
    }
}

/// The check of the nodes of one level, and of those that they make in the level above.
struct LevelCheck<'s> {
    snapshot: &'s OkraSnapshot<'s>,
    level: u8,
    children: Cursor<'s>,
    parents: Cursor<'s>,
    hasher: ChildrenHasher,
    /// The parent whose children are being hashed.
    parent: NodeKey,
}

impl LevelCheck<'_> {
    /// Returns the count of nodes and the hash of the anchor.
    fn run(&mut self) -> Result<(u64, NodeHash)> {
        let level = self.level;
        let Some((key, value)) = self.children.seek(&[level])?.filter(|(key, _)| **key == [level]) else {
            return Err(self.damaged(level, &[], "it is missing"));
        };
        let anchor = self.hash(&key[1..], value)?;
        self.hasher.push(anchor);
        let mut count = 1;
        while let Some((key, value)) = self.children.next()?.filter(|(key, _)| key.first() == Some(&level)) {
            let hash = self.hash(&key[1..], value)?;
            if hash.is_boundary() {
                self.compare_parent()?;
                self.parent.set(level + 1, &key[1..]);
            }
            self.hasher.push(hash);
            count += 1;
        }
        if count > 1 {
            self.compare_parent()?;
            if let Some((key, _)) = self.parents.next()?.filter(|(key, _)| key.first() == Some(&(level + 1))) {
                return Err(self.damaged(level + 1, &key[1..], "no boundary of the level below begins it"));
            }
        }
        Ok((count, anchor))
    }

    /// Returns the hash of a node, which is sound in itself.
    fn hash(&self, key: &[u8], value: &[u8]) -> Result<NodeHash> {
        let found = self.snapshot.hash(self.level, key, value)?;
        let is_entry = self.level == 0 && !key.is_empty();
        if !(is_entry && self.snapshot.mode == Mode::Store) && value.len() != HASH_BYTES {
            return Err(self.damaged(self.level, key, "it is longer than a hash"));
        }
        let expected = match (self.level, self.snapshot.mode) {
            (0, _) if key.is_empty() => NodeHash::of_empty(),
            (0, Mode::Store) => NodeHash::of_entry(key, &value[HASH_BYTES..]),
            _ => found,
        };
        if found == expected {
            return Ok(found);
        }
        let made = if key.is_empty() { "that of an empty map's anchor" } else { "that of its key and value" };
        Err(self.damaged(self.level, key, format!("its hash is {found}, and {made} is {expected}")))
    }

    /// Compares the parent whose last child was hashed with the next one that is stored.
    fn compare_parent(&mut self) -> Result<()> {
        let (level, expected) = (self.level + 1, self.hasher.finish());
        let item =
            if self.parent.key().is_empty() { self.parents.seek(self.parent.bytes())? } else { self.parents.next()? };
        let item = item.filter(|(key, _)| key.first() == Some(&level));
        let key = self.parent.key();
        match item {
            Some((found, _)) if found[1..] < *key => {
                Err(self.damaged(level, &found[1..], "no boundary of the level below begins it"))
            }
            Some((found, value)) if found[1..] == *key => {
                let hash = self.snapshot.hash(level, key, value)?;
                if hash == expected {
                    return Ok(());
                }
                Err(self.damaged(level, key, format!("its hash is {hash}, and that of its children is {expected}")))
            }
            _ => Err(self.damaged(level, key, "it is missing, and a boundary of the level below begins it")),
        }
    }

    #[cold]
    fn damaged(&self, level: u8, key: &[u8], reason: impl Into<String>) -> OkraError {
        OkraError::damaged(self.snapshot.file(), level, key, reason)
    }
}
