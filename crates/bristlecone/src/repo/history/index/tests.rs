use super::*;
use crate::{Info, Native, Repo, disk::DiskOptions};

/// Two histories without a common commit: what is known of one says nothing of the other.
#[test]
fn what_lies_below_runs_that_stand_on_each_other_is_indexed() {
    let dir = tempfile::tempdir().unwrap();
    let options = DiskOptions::default().segment_bytes(1 << 20).background(false);
    let repo = Repo::create(dir.path(), Native::new(), options).unwrap();
    repo.set_indexing(false);
    let info = Info::unsigned("one more").durability(crate::Durability::None);
    let commits = 3 * COMMITS_MAX as u64 + 17;
    let heads = ["one", "other"].map(|name| {
        let branch = repo.branch(name).unwrap();
        for number in 0..commits {
            branch.edit(&info, |tree| tree.set(name, number.to_string())).unwrap();
        }
        ObjRef::from(branch.head().unwrap().unwrap())
    });
    let more = |head: &ObjRef| {
        let store = repo.shared.now(&[head.oid]);
        bring_up(&store, head, OidMap::default(), 1, &GOES_ON).unwrap()
    };
    // One run at a time, of both in turn, and nothing once all are there.
    let mut added = [0, 0];
    for round in 0..6 {
        for (head, added) in heads.iter().zip(&mut added) {
            let count = more(head);
            assert_eq!(count > 0, round < 4, "round {round}");
            *added += count;
        }
    }
    assert_eq!(added, [commits; 2]);
}
