//! A thread that looks at the end of the log while another goes on behind a collection.

use super::*;
use crate::backend::{Roots, SweepLimits};

#[test]
fn a_sync_of_a_segment_that_was_removed_meanwhile_goes_on_at_the_end() {
    let dir = tempfile::tempdir().unwrap();
    let one = create(dir.path(), small());
    commit(&one, 0, Durability::None).unwrap();
    let before = one.shared.published.end();
    let other = open(dir.path(), small());
    while other.shared.published.end() >> 32 < 4 {
        commit(&other, 1, Durability::None).unwrap();
    }
    other.sweep(&Roots::new(&[], &|_, _, _| Ok(())), &SweepLimits::default()).unwrap();
    commit(&other, 2, Durability::None).unwrap();
    // The other thread of this process: it meets what the other process wrote.
    one.shared.refresh().unwrap();
    assert!(one.shared.current_segment((before >> 32) as u32).unwrap().is_none(), "the collection removed it");
    assert!(!one.shared.sync_tail_at(before).unwrap());
    one.shared.sync_to(one.shared.published.end()).unwrap();
    assert!(one.shared.sync.durable_end() >= one.shared.published.end());
    commit(&one, 3, Durability::Synced).unwrap();
}
