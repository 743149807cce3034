//! The names of a simulated disk: which folder entries are durable, and what happened to them since.

use std::{collections::BTreeMap, ops::Bound, sync::Arc};

/// What a name leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NameNode {
    Dir,
    File(u64),
}

type Names = BTreeMap<Arc<str>, NameNode>;

/// All names by their path; the folder of the disk itself has none.
#[derive(Clone, Default)]
pub(super) struct SimNames {
    current: Arc<Names>,
    durable: Arc<Names>,
    pending: Vec<NameChange>,
}

/// A change to names that no sync of a folder has made durable.
#[derive(Clone)]
struct NameChange {
    seq: u64,
    node: NameNode,
    // Removed from here, added there; a rename does both at once.
    from: Option<Arc<str>>,
    to: Option<Arc<str>>,
}

/// Returns the folder that a name is in.
pub(super) fn folder(name: &str) -> &str {
    name.rsplit_once('/').map_or("", |(folder, _)| folder)
}

impl SimNames {
    pub(super) fn get(&self, name: &str) -> Option<NameNode> {
        self.current.get(name).copied()
    }

    /// Returns all names with what they lead to, in order.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&Arc<str>, &NameNode)> {
        self.current.iter()
    }

    /// Returns the names in a folder and in the folders in it, in order.
    pub(super) fn below(&self, dir: &str) -> impl Iterator<Item = &str> {
        let inside = if dir.is_empty() { String::new() } else { format!("{dir}/") };
        let names = self.current.range::<str, _>((Bound::Included(&*inside), Bound::Unbounded));
        names.map(|(name, _)| &**name).take_while(move |name| name.starts_with(&*inside))
    }

    /// Whether `name` is a folder.
    pub(super) fn is_dir(&self, name: &str) -> bool {
        name.is_empty() || self.get(name) == Some(NameNode::Dir)
    }

    pub(super) fn create(&mut self, name: &str, node: NameNode, seq: u64) {
        self.change(NameChange { seq, node, from: None, to: Some(name.into()) });
    }

    pub(super) fn remove(&mut self, name: &str, node: NameNode, seq: u64) {
        self.change(NameChange { seq, node, from: Some(name.into()), to: None });
    }

    pub(super) fn rename(&mut self, from: &str, to: &str, node: NameNode, seq: u64) {
        self.change(NameChange { seq, node, from: Some(from.into()), to: Some(to.into()) });
    }

    /// Gives each of two files the name of the other. A power cut may leave either name as it was: a caller that needs both
    /// syncs both folders.
    pub(super) fn exchange(
        &mut self,
        (one, first): (&str, NameNode),
        (other, second): (&str, NameNode),
        seqs: [u64; 2],
    ) {
        self.change(NameChange { seq: seqs[0], node: second, from: None, to: Some(one.into()) });
        self.change(NameChange { seq: seqs[1], node: first, from: None, to: Some(other.into()) });
    }

    fn change(&mut self, change: NameChange) {
        change.apply(Arc::make_mut(&mut self.current));
        self.pending.push(change);
    }

    /// Makes the names in one folder durable.
    pub(super) fn sync(&mut self, dir: &str) {
        let (durable, pending) = (Arc::make_mut(&mut self.durable), &mut self.pending);
        pending.retain(|change| {
            let done = change.touches(dir);
            if done {
                change.apply(durable);
            }
            !done
        });
    }

    /// Lets what happened in one folder count as durable, though it is not.
    pub(super) fn forget(&mut self, dir: &str) {
        self.pending.retain(|change| !change.touches(dir));
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
                change.apply(Arc::make_mut(&mut names));
            }
        }
        // What was in a folder that is gone is out of reach. A folder comes before what is in it.
        let (mut gone, mut last) = (Vec::<Arc<str>>::new(), ("", true));
        for name in names.keys() {
            let dir = folder(name);
            if last.0 != dir {
                last = (
                    dir,
                    dir.is_empty()
                        || (names.get(dir) == Some(&NameNode::Dir) && !gone.iter().any(|gone| **gone == *dir)),
                );
            }
            if !last.1 {
                gone.push(name.clone());
            }
        }
        for name in gone {
            Arc::make_mut(&mut names).remove(&name);
        }
        Self { current: names.clone(), durable: names, pending: Vec::new() }
    }
}

impl NameChange {
    fn touches(&self, dir: &str) -> bool {
        [&self.from, &self.to].into_iter().flatten().any(|name| folder(name) == dir)
    }

    fn apply(&self, names: &mut Names) {
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
