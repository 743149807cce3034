//! The names of a simulated disk: which folder entries are durable, and what happened to them since.

use std::collections::BTreeMap;

/// What a name leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NameNode {
    Dir,
    File(u64),
}

/// All names by their path; the folder of the disk itself has none.
#[derive(Clone, Default)]
pub(super) struct SimNames {
    pub(super) current: BTreeMap<String, NameNode>,
    durable: BTreeMap<String, NameNode>,
    pending: Vec<NameChange>,
}

/// A change to names that no sync of a folder has made durable.
#[derive(Clone)]
struct NameChange {
    seq: u64,
    node: NameNode,
    // Removed from here, added there; a rename does both at once.
    from: Option<String>,
    to: Option<String>,
}

/// Returns the folder that a name is in.
pub(super) fn folder(name: &str) -> &str {
    name.rsplit_once('/').map_or("", |(folder, _)| folder)
}

impl SimNames {
    pub(super) fn get(&self, name: &str) -> Option<NameNode> {
        self.current.get(name).copied()
    }

    /// Whether `name` is a folder.
    pub(super) fn is_dir(&self, name: &str) -> bool {
        name.is_empty() || self.get(name) == Some(NameNode::Dir)
    }

    pub(super) fn create(&mut self, name: &str, node: NameNode, seq: u64) {
        self.change(NameChange { seq, node, from: None, to: Some(name.to_owned()) });
    }

    pub(super) fn remove(&mut self, name: &str, node: NameNode, seq: u64) {
        self.change(NameChange { seq, node, from: Some(name.to_owned()), to: None });
    }

    pub(super) fn rename(&mut self, from: &str, to: &str, node: NameNode, seq: u64) {
        self.change(NameChange { seq, node, from: Some(from.to_owned()), to: Some(to.to_owned()) });
    }

    /// Gives each of two files the name of the other. A power cut may leave either name as it was: a caller that needs both
    /// syncs both folders.
    pub(super) fn exchange(
        &mut self,
        (one, first): (&str, NameNode),
        (other, second): (&str, NameNode),
        seqs: [u64; 2],
    ) {
        self.change(NameChange { seq: seqs[0], node: second, from: None, to: Some(one.to_owned()) });
        self.change(NameChange { seq: seqs[1], node: first, from: None, to: Some(other.to_owned()) });
    }

    fn change(&mut self, change: NameChange) {
        change.apply(&mut self.current);
        self.pending.push(change);
    }

    /// Makes the names in one folder durable.
    pub(super) fn sync(&mut self, dir: &str) {
        let (durable, pending) = (&mut self.durable, &mut self.pending);
        pending.retain(|change| {
            let done = change.touches(dir);
            if done {
                change.apply(durable);
            }
            !done
        });
    }

    /// Returns the numbers of the pending changes.
    pub(super) fn pending(&self) -> impl Iterator<Item = u64> {
        self.pending.iter().map(|change| change.seq)
    }

    /// Returns the names that are left if just those pending changes reach the medium that `kept` says.
    pub(super) fn survivor(&self, mut kept: impl FnMut(u64) -> bool) -> Self {
        let mut names = self.durable.clone();
        for change in &self.pending {
            if kept(change.seq) {
                change.apply(&mut names);
            }
        }
        // What was in a folder that is gone is out of reach.
        let dirs: Vec<String> =
            names.iter().filter(|(_, node)| **node == NameNode::Dir).map(|(name, _)| name.clone()).collect();
        let reachable = |mut name: &str| {
            loop {
                name = folder(name);
                if name.is_empty() {
                    return true;
                }
                if !dirs.iter().any(|dir| dir == name) {
                    return false;
                }
            }
        };
        names.retain(|name, _| reachable(name));
        Self { current: names.clone(), durable: names, pending: Vec::new() }
    }
}

impl NameChange {
    fn touches(&self, dir: &str) -> bool {
        [&self.from, &self.to].into_iter().flatten().any(|name| folder(name) == dir)
    }

    fn apply(&self, names: &mut BTreeMap<String, NameNode>) {
        if let Some(from) = &self.from
            && names.get(from) == Some(&self.node)
        {
            names.remove(from);
        }
        if let Some(to) = &self.to {
            names.insert(to.clone(), self.node);
        }
    }
}
