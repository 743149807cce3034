use super::*;
use crate::{Durability, Expected, Info, Native, RefMove, RefTarget, Repo, SHALLOW, disk::DiskOptions};

/// Two histories without a common commit: what is known of one says nothing of the other.
#[test]
fn what_lies_below_runs_that_stand_on_each_other_is_indexed() {
    let dir = tempfile::tempdir().unwrap();
    let options = DiskOptions::default().segment_bytes(1 << 20).background(false);
    let repo = Repo::create(dir.path(), Native::new(), options).unwrap();
    repo.set_indexing(false);
    let info = Info::unsigned("one more").durability(Durability::None);
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

/// Has history end with a commit.
fn end_history(repo: &Repo, at: CommitId) {
    let name = format!("{SHALLOW}{}", at.oid());
    let end = RefMove { name, expected: Expected::Any, to: Some(RefTarget::Object(at.into())) };
    repo.move_refs(&[end], Durability::None).unwrap();
}

/// The file of a run and the manifest are sound, each by itself.
#[test]
fn a_run_that_has_fewer_commits_than_the_manifest_says_is_lost() {
    let repo = Repo::memory();
    let (branch, info) = (repo.branch("main").unwrap(), Info::unsigned("one more"));
    let commit = |number: u32| branch.edit(&info, |tree| tree.set("path", number.to_string())).unwrap();
    let at: Vec<CommitId> = (0..100).map(commit).collect();
    repo.index_history(at[99]).unwrap();
    let stored = repo.backend().read_derived(MANIFEST).unwrap().unwrap();
    let mut runs = manifest::decode(&stored).unwrap();
    runs[0].count = COMMITS_MAX as u32;
    repo.backend().write_derived(MANIFEST, &manifest::encode(&runs)).unwrap();
    // Whether history ends in a run is asked of all its commits.
    end_history(&repo, at[0]);
    assert_eq!(repo.last_change(at[99], "path").unwrap().map(|entry| entry.id), Some(at[99]));
    assert_eq!(repo.index_history(at[99]).unwrap(), 100);
}

#[test]
fn nothing_is_indexed_below_where_history_was_made_to_end() {
    let repo = Repo::memory();
    let (branch, info) = (repo.branch("main").unwrap(), Info::unsigned("one more"));
    let commit = |number: u32| branch.edit(&info, |tree| tree.set("path", number.to_string())).unwrap();
    let at: Vec<CommitId> = (0..COMMITS_MAX as u32 + 500).map(commit).collect();
    let head = ObjRef::from(at[at.len() - 1]);
    let more = || bring_up(&repo.shared.now(&[head.oid]), &head, OidMap::default(), 1, &GOES_ON).unwrap();
    // The newest commits are in a run, which names the one below them.
    assert_eq!(more(), COMMITS_MAX as u64);
    end_history(&repo, at[2000]);
    assert_eq!(more(), 0);
    let name = format!("{SHALLOW}{}", at[2000].oid());
    repo.move_refs(&[RefMove { name, expected: Expected::Any, to: None }], Durability::None).unwrap();
    assert_eq!((more(), more()), (500, 0));
}
