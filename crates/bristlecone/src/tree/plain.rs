//! Trees as plain values, and their statistics.

use std::{collections::BTreeMap, fmt};

use bristlecone_core::{AsPath, EntryKind, Format, Oid, Path, escape};

use super::Tree;
use crate::Result;

/// A tree as a plain value. It may be of any depth, deeper than a tree of a store can be.
pub enum PlainTree {
    /// A directory.
    Dir(BTreeMap<Vec<u8>, PlainTree>),
    /// A value, executable or link.
    Value(EntryKind, Vec<u8>),
    /// An id of another store.
    Foreign(Oid),
}

/// Sizes of a tree.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TreeStats {
    /// Directories below the root.
    pub dirs: u64,
    /// Values, executables and links.
    pub values: u64,
    /// Ids of other stores.
    pub foreign: u64,
    /// Bytes of all values; one that is bound twice counts twice.
    pub value_bytes: u64,
    /// Steps of the longest path.
    pub depth: u64,
    /// Entries of the widest directory.
    pub width: u64,
}

/// A directory of a plain tree.
type PlainDir = BTreeMap<Vec<u8>, PlainTree>;

impl Drop for PlainTree {
    fn drop(&mut self) {
        let mut waiting = Vec::new();
        let take = |plain: &mut Self, waiting: &mut Vec<PlainDir>| match plain {
            Self::Dir(entries) if !entries.is_empty() => waiting.push(std::mem::take(entries)),
            _ => {}
        };
        take(self, &mut waiting);
        while let Some(entries) = waiting.pop() {
            entries.into_values().for_each(|mut plain| take(&mut plain, &mut waiting));
        }
    }
}

impl Clone for PlainTree {
    fn clone(&self) -> Self {
        let leaf = |plain: &Self| match plain {
            Self::Dir(_) => Self::Dir(PlainDir::new()),
            Self::Value(kind, bytes) => Self::Value(*kind, bytes.clone()),
            Self::Foreign(oid) => Self::Foreign(*oid),
        };
        let mut copy = leaf(self);
        let mut waiting: Vec<(&Self, &mut Self)> = vec![(self, &mut copy)];
        while let Some((from, to)) = waiting.pop() {
            let (Self::Dir(from), Self::Dir(to)) = (from, to) else { continue };
            to.extend(from.iter().map(|(step, plain)| (step.clone(), leaf(plain))));
            waiting.extend(from.values().zip(to.values_mut()));
        }
        copy
    }
}

impl PartialEq for PlainTree {
    fn eq(&self, other: &Self) -> bool {
        let mut waiting = vec![(self, other)];
        while let Some(pair) = waiting.pop() {
            let same = match pair {
                (Self::Dir(one), Self::Dir(other)) => {
                    waiting.extend(one.values().zip(other.values()));
                    one.keys().eq(other.keys())
                }
                (Self::Value(one, bytes), Self::Value(other, others)) => one == other && bytes == others,
                (Self::Foreign(one), Self::Foreign(other)) => one == other,
                _ => false,
            };
            if !same {
                return false;
            }
        }
        true
    }
}

impl Eq for PlainTree {}

impl fmt::Debug for PlainTree {
    /// Shows one line for each path, in order.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut path: Vec<u8> = Vec::new();
        // Directories that are being shown, each in the one before, and where their paths end.
        let mut open = Vec::new();
        let mut next = Some(self);
        loop {
            match next {
                Some(Self::Dir(entries)) => {
                    writeln!(f, "{}/", escape(&path))?;
                    open.push((path.len(), entries.iter()));
                }
                Some(Self::Value(kind, bytes)) => writeln!(f, "{} {kind:?} \"{}\"", escape(&path), escape(bytes))?,
                Some(Self::Foreign(oid)) => writeln!(f, "{} {oid}", escape(&path))?,
                None => {}
            }
            let Some((end, entries)) = open.last_mut() else { return Ok(()) };
            path.truncate(*end);
            next = entries.next().map(|(step, plain)| {
                path.push(b'/');
                path.extend_from_slice(step);
                plain
            });
            if next.is_none() {
                open.pop();
            }
        }
    }
}

/// Returns the directory that the steps lead to; directories come before what is in them.
fn enter<'d, 's>(root: &'d mut PlainDir, steps: impl Iterator<Item = &'s [u8]>) -> Option<&'d mut PlainDir> {
    let mut dir = root;
    for step in steps {
        match dir.get_mut(step) {
            Some(PlainTree::Dir(below)) => dir = below,
            _ => return None,
        }
    }
    Some(dir)
}

impl<F: Format> Tree<F> {
    /// Returns the tree as a plain value. `tree.set_plain("", &tree.to_plain()?)` changes nothing that is not
    /// Git's alone: unusual modes and empty directories are not set again.
    ///
    /// # Errors
    /// As [`Tree::get`].
    pub fn to_plain(&self) -> Result<PlainTree> {
        let mut root = BTreeMap::new();
        for entry in self.walk_values("")? {
            let (path, entry) = entry?;
            let plain = match (entry.kind(), entry.foreign()) {
                (_, Some(oid)) => PlainTree::Foreign(oid),
                (EntryKind::Dir, _) => PlainTree::Dir(BTreeMap::new()),
                (kind, _) => PlainTree::Value(kind, entry.contents()?.unwrap_or_else(|| (&[][..]).into()).to_vec()),
            };
            let mut steps = path.steps();
            if let Some(step) = steps.next_back()
                && let Some(dir) = enter(&mut root, steps)
            {
                dir.insert(step.to_vec(), plain);
            }
        }
        Ok(PlainTree::Dir(root))
    }

    /// Binds `path` to a plain value; the root takes a directory only.
    ///
    /// # Errors
    /// As [`Tree::set`]: then nothing is changed.
    pub fn set_plain(&mut self, path: impl AsPath, plain: &PlainTree) -> Result<()> {
        let path = path.as_path()?;
        if !matches!(plain, PlainTree::Dir(_)) {
            return self.put_plain(path.into_owned(), plain);
        }
        // Something in it may be refused, when other parts have been set.
        let mut dir = self.beginning();
        dir.put_plain(Path::root(), plain)?;
        self.set_tree(&*path, &dir)
    }

    /// Binds `path` to a plain value, or adds what is in a directory.
    fn put_plain(&mut self, mut path: Path, plain: &PlainTree) -> Result<()> {
        let mut open = Vec::new();
        let mut here = Some(plain);
        loop {
            match here {
                Some(PlainTree::Dir(entries)) => open.push(entries.iter()),
                Some(PlainTree::Value(kind, bytes)) => self.set_kind(&path, *kind, bytes)?,
                Some(PlainTree::Foreign(oid)) => self.set_foreign(&path, *oid)?,
                None => drop(open.pop()),
            }
            if !matches!(here, Some(PlainTree::Dir(_))) {
                path.pop();
            }
            let Some(entries) = open.last_mut() else { return Ok(()) };
            here = None;
            if let Some((step, plain)) = entries.next() {
                path.push(step)?;
                here = Some(plain);
            }
        }
    }

    /// Returns the sizes of the tree, walking all of it. Values are loaded only where nothing else tells how long they
    /// are ([`crate::DirEntry::bytes`]).
    ///
    /// # Errors
    /// As [`Tree::get`].
    pub fn stats(&self) -> Result<TreeStats> {
        let mut stats = TreeStats { width: self.count("")?, ..TreeStats::default() };
        for entry in self.walk_all("")? {
            let (path, entry) = entry?;
            stats.depth = stats.depth.max(path.len() as u64);
            match entry.kind() {
                EntryKind::Dir => {
                    stats.dirs += 1;
                    stats.width = stats.width.max(self.count(&path)?);
                }
                EntryKind::Foreign => stats.foreign += 1,
                _ => {
                    stats.values += 1;
                    // Directories say how long values are, and may lie.
                    stats.value_bytes = stats.value_bytes.saturating_add(entry.length()?.unwrap_or(0));
                }
            }
        }
        Ok(stats)
    }
}
