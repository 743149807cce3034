//! Packs that no ref may lead to yet. They stay protected until refs had the time to come to lead to them: who appends
//! objects without a move, such as an import, moves its refs afterwards, one by one, while others move theirs.

use std::time::{Duration, Instant};

use super::keep::Keep;

/// How long after the first move of any ref a pack stays protected.
const KEPT: Duration = Duration::from_secs(600);

/// The protections of such packs.
#[derive(Debug, Default)]
pub(super) struct KeptPacks(Vec<KeptPack>);

#[derive(Debug)]
struct KeptPack {
    keep: Keep,
    // When a ref moved first since.
    moved: Option<Instant>,
}

impl KeptPacks {
    pub(super) fn add(&mut self, keep: Keep) {
        self.0.push(KeptPack { keep, moved: None });
    }

    /// Returns how many there are.
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// Notes that a ref moved, and returns the protections that end.
    pub(super) fn ref_moved(&mut self, now: Instant) -> Vec<Keep> {
        for pack in &mut self.0 {
            pack.moved.get_or_insert(now);
        }
        let over = |pack: &mut KeptPack| pack.moved.is_some_and(|moved| now.duration_since(moved) >= KEPT);
        self.0.extract_if(.., over).map(|pack| pack.keep).collect()
    }

    /// Protects all packs for as long as new ones: what was appended without a move relies on them.
    pub(super) fn renew(&mut self) {
        self.0.iter_mut().for_each(|pack| pack.moved = None);
    }

    /// Returns all protections, which end.
    pub(super) fn take(&mut self) -> Vec<Keep> {
        std::mem::take(&mut self.0).into_iter().map(|pack| pack.keep).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use bristlecone_testkit::sim::SimStorage;

    use super::*;
    use crate::{backend::keep::Keeps, repository::files::Files};

    #[test]
    fn a_pack_is_protected_for_a_while_after_the_first_move_of_a_ref() {
        let keeps = Keeps::new(Files::new(Arc::new(SimStorage::new())));
        let (mut kept, began) = (KeptPacks::default(), Instant::now());
        let second = Duration::from_secs(1);
        kept.add(keeps.protect("pack-a").unwrap());
        assert!(kept.ref_moved(began + 2 * KEPT).is_empty(), "nobody moved a ref before");
        kept.add(keeps.protect("pack-b").unwrap());
        assert!(kept.ref_moved(began + 3 * KEPT - second).is_empty());
        assert_eq!(kept.ref_moved(began + 3 * KEPT).len(), 1);
        assert!(kept.ref_moved(began + 4 * KEPT - 2 * second).is_empty());
        assert_eq!(kept.ref_moved(began + 4 * KEPT).len(), 1);
        kept.add(keeps.protect("pack-c").unwrap());
        kept.ref_moved(began);
        kept.renew();
        assert!(kept.ref_moved(began + KEPT).is_empty() && kept.ref_moved(began + 2 * KEPT - second).is_empty());
        assert_eq!((kept.take().len(), kept.take().len()), (1, 0));
    }
}
