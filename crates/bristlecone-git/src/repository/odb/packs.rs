//! The packs of one folder, and which of them has an object.
//!
//! A process that commits thousands of times a second leaves as many packs, of a dozen objects each, until they are
//! repacked. A search in each of them would take longer than all else, so the ids of small packs are in one table.
//! There are few large packs: they are searched one after another, beginning with the one that had the last object.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use bristlecone::Oid;

use crate::repository::pack::Pack;

/// A pack of up to this many objects has them in the table.
const SMALL_OBJECTS_MAX: usize = 2048;

/// The packs of a folder.
#[derive(Debug, Default)]
pub(super) struct Packs {
    by_name: HashMap<String, Arc<Pack>>,
    by_id: HashMap<u32, Arc<Pack>>,
    large: Vec<Arc<Pack>>,
    /// Which of the large ones had the last object.
    hot: AtomicUsize,
    /// Objects of small packs: the pack and the place in its index.
    small: HashMap<Oid, (u32, u32)>,
    /// Objects of small packs that another small pack has too.
    twins: HashMap<Oid, Vec<(u32, u32)>>,
    /// Packs whose index cannot be read, and why.
    pub(super) broken: HashMap<String, String>,
}

impl Packs {
    pub(super) fn get(&self, name: &str) -> Option<&Arc<Pack>> {
        self.by_name.get(name)
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &String> {
        self.by_name.keys()
    }

    /// Returns the large packs, then the small ones.
    pub(super) fn all(&self) -> Vec<Arc<Pack>> {
        let mut small: Vec<_> = self.by_name.values().filter(|pack| is_small(pack)).cloned().collect();
        small.sort_unstable_by_key(|pack| pack.id());
        self.large.iter().cloned().chain(small).collect()
    }

    pub(super) fn add(&mut self, pack: Arc<Pack>) {
        self.remove(pack.name());
        self.broken.remove(pack.name());
        if is_small(&pack) {
            for n in 0..pack.index().len() {
                let place = (pack.id(), n as u32);
                let oid = pack.index().oid(n);
                match self.small.entry(oid) {
                    std::collections::hash_map::Entry::Vacant(entry) => _ = entry.insert(place),
                    std::collections::hash_map::Entry::Occupied(_) => self.twins.entry(oid).or_default().push(place),
                }
            }
        } else {
            self.large.push(pack.clone());
        }
        self.by_id.insert(pack.id(), pack.clone());
        self.by_name.insert(pack.name().to_owned(), pack);
    }

    pub(super) fn remove(&mut self, name: &str) {
        self.broken.remove(name);
        let Some(pack) = self.by_name.remove(name) else { return };
        self.by_id.remove(&pack.id());
        if !is_small(&pack) {
            self.large.retain(|one| one.id() != pack.id());
            return;
        }
        for n in 0..pack.index().len() {
            self.remove_place(&pack.index().oid(n), (pack.id(), n as u32));
        }
    }

    fn remove_place(&mut self, oid: &Oid, place: (u32, u32)) {
        if let Some(twins) = self.twins.get_mut(oid) {
            let others = twins.len();
            twins.retain(|twin| *twin != place);
            // The place was a twin's, or a twin takes it over.
            let heir = if twins.len() == others { twins.pop() } else { None };
            if twins.is_empty() {
                self.twins.remove(oid);
            }
            if let Some(heir) = heir {
                self.small.insert(*oid, heir);
            }
        } else if self.small.get(oid) == Some(&place) {
            self.small.remove(oid);
        }
    }

    /// Returns a pack that has the object, and the place in its index.
    pub(super) fn find(&self, oid: &Oid) -> Option<(Arc<Pack>, usize)> {
        if let Some(&(id, n)) = self.small.get(oid) {
            return self.by_id.get(&id).map(|pack| (pack.clone(), n as usize));
        }
        let hot = self.hot.load(Relaxed);
        if let Some(pack) = self.large.get(hot)
            && let Some(n) = pack.index().find(oid)
        {
            return Some((pack.clone(), n));
        }
        // The last one is the newest.
        for (i, pack) in self.large.iter().enumerate().rev() {
            if i != hot
                && let Some(n) = pack.index().find(oid)
            {
                self.hot.store(i, Relaxed);
                return Some((pack.clone(), n));
            }
        }
        None
    }

    /// Returns all packs that have the object, for the case that it is damaged in one.
    pub(super) fn find_all(&self, oid: &Oid) -> Vec<(Arc<Pack>, usize)> {
        let twins = self.twins.get(oid).into_iter().flatten();
        let small = self.small.get(oid).into_iter().chain(twins);
        let small = small.filter_map(|&(id, n)| Some((self.by_id.get(&id)?.clone(), n as usize)));
        let large = self.large.iter().filter_map(|pack| Some((pack.clone(), pack.index().find(oid)?)));
        small.chain(large).collect()
    }
}

/// Whether a pack's objects are in the table.
pub(super) fn is_small(pack: &Pack) -> bool {
    pack.index().len() <= SMALL_OBJECTS_MAX
}
