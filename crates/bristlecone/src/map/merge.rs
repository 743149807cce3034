//! Merging three maps: what two sides made of a common one, key by key.

use bristlecone_core::Format as _;

use super::Map;
use crate::{
    Result,
    merge::{self, Version},
};

/// What a merge of maps comes to.
#[derive(Clone, Debug)]
pub struct MapMerged {
    /// The merged map. At the key of a conflict it holds what ours holds.
    pub map: Map,
    /// Where both sides changed something, and differently: in the order of keys.
    pub conflicts: Vec<MapConflict>,
}

/// A key whose value both sides changed, and differently.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MapConflict {
    /// The key.
    pub key: Vec<u8>,
    /// What was there before; `None` for nothing.
    pub base: Option<Version>,
    /// What ours made of it.
    pub ours: Option<Version>,
    /// What theirs made of it.
    pub theirs: Option<Version>,
}

impl Map {
    /// Merges what `self` (ours) and `theirs` made of `base` (`None`: nothing in common, so that whatever both have
    /// differently is a conflict). All three are of one repository.
    ///
    /// It costs what theirs differs from the base. Pending edits are hashed and written first, and the merged map is written;
    /// it has the origin of ours.
    ///
    /// `ours.merge(Some(&b), &b)? == ours` and `b.merge(Some(&b), &t)? == t`, without conflicts; and both ways round the
    /// conflicts are at the same keys.
    ///
    /// ```
    /// # use bristlecone::Repo;
    /// let mut base = Repo::memory().map();
    /// base.apply([(b"a", Some(b"1")), (b"b", Some(b"1"))])?;
    /// let (mut ours, mut theirs) = (base.clone(), base.clone());
    /// ours.insert(b"a", b"2")?;
    /// theirs.apply([(b"a", Some(b"3")), (b"b", None)])?;
    /// let merged = ours.merge(Some(&base), &theirs)?;
    /// assert_eq!(merged.conflicts[0].key, b"a");
    /// assert_eq!((merged.map.get(b"a")?.as_deref(), merged.map.contains(b"b")?), (Some(&b"2"[..]), false));
    /// # Ok::<(), bristlecone::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`crate::Error::Usage`] if the maps are of different stores; as [`Map::get`] and [`crate::Tree::write`].
    pub fn merge(&self, base: Option<&Self>, theirs: &Self) -> Result<MapMerged> {
        let base = base.map(|base| &base.tree);
        let (tree, conflicts) = merge::trees_by(base, &self.tree, &theirs.tree, |store, sink, base, ours, theirs| {
            let (mut conflicts, mut taken) = (Vec::new(), Vec::new());
            for (key, before, after) in merge::changes(&store.format, store, base, theirs)? {
                let here = match &ours {
                    Some(ours) => store.format.find(store, ours, &key)?,
                    None => None,
                };
                let here = here.map(|(kind, target)| Version::new(kind, target));
                match merge::values(before.as_ref(), here.as_ref(), after.as_ref()) {
                    // Where only the spelling of a mode changed, that is taken, too.
                    Ok(_) if before == after && here == after => taken.push((key, after)),
                    Ok(to) if to == here => {}
                    Ok(to) => taken.push((key, to)),
                    Err(merge::Differ) => {
                        conflicts.push(MapConflict { key, base: before, ours: here, theirs: after });
                    }
                }
            }
            if taken.is_empty() {
                return Ok((ours, conflicts));
            }
            let changes: Vec<_> = taken.iter().map(|(key, to)| merge::change(key, to.as_ref())).collect();
            ours.iter().for_each(|ours| sink.builds_on(&ours.oid));
            merge::name_taken(store, sink, &changes);
            let root = store.format.update(store, sink, ours.as_ref(), &changes)?;
            // What one side replaced, it replaced on purpose.
            sink.take_replaced();
            Ok((root, conflicts))
        })?;
        Ok(MapMerged { map: tree.into(), conflicts })
    }
}
