//! Subtrees: split, add, pull and push, with `git subtree` as the judge of ids.

use std::sync::Arc;

use bristlecone::{
    Error, Format, Info, MemoryBackend, Native, ObjRef, Oid, RefTarget, Repo, Signature,
    core::git::Git,
    subtree::{PushOptions, Pushed, Pulled},
};

use crate::real_git::RealGit;

type Outcome = Result<(), Box<dyn std::error::Error>>;

/// SplitMix64.
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.0;
        word = (word ^ word >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ word >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((word ^ word >> 31) % end as u64) as usize
    }
}

fn memory() -> Repo<Git> {
    Repo::with_backend(Git::sha1(), Arc::new(MemoryBackend::new()))
}

fn info(message: impl Into<Vec<u8>>, seconds: i64) -> Info {
    Info::message(message).by(Signature::new("A U Thor <a@x>", seconds))
}

/// A random history whose commits have up to `parents_max` parents; every commit has the directory.
fn random_history(repo: &Repo<Git>, seed: u64, count: usize, parents_max: usize) -> ObjRef {
    let random = &mut Random(seed);
    let mut all: Vec<ObjRef> = Vec::new();
    for n in 0..count {
        let mut parents: Vec<ObjRef> = all.last().copied().into_iter().collect();
        if parents_max > 1 && n > 3 && random.below(3) == 0 {
            // A line of its own, to be merged later.
            parents = vec![all[all.len() - 1 - random.below(3)]];
        }
        while parents.len() < parents_max && n > 3 && random.below(3) == 0 {
            let other = all[all.len() - 1 - random.below(4)];
            if !parents.contains(&other) {
                parents.push(other);
            }
        }
        let mut tree = match parents.get(random.below(parents.len().max(1))) {
            Some(at) => repo.checkout(*at).unwrap(),
            None => repo.tree(),
        };
        if n == 0 || random.below(2) == 0 {
            let path = ["lib/sub/a", "lib/sub/b/c", "lib/sub/b/d"][random.below(3)];
            tree.add(path, ["1", "2", "3"][random.below(3)]).unwrap();
        }
        if random.below(2) == 0 {
            tree.add(["other", "lib/x"][random.below(2)], format!("{n}")).unwrap();
        }
        let info = info(format!("commit {n}\n"), 1_700_000_000 + 60 * n as i64);
        all.push(repo.commit_tree(&mut tree, &parents, &info).unwrap());
    }
    *all.last().unwrap()
}

fn compare_with_git(seed: u64, count: usize, parents_max: usize) {
    let repo = memory();
    let head = random_history(&repo, seed, count, parents_max);
    let split = repo.subtree("lib/sub").unwrap().split(head, None, None).unwrap().unwrap();
    let again = repo.subtree("lib/sub").unwrap().split(head, None, None).unwrap().unwrap();
    assert_eq!((again.head, again.written), (split.head, 0), "seed {seed}");
    let Some(git) = RealGit::new() else { return };
    git.take(&repo, "main", head.oid);
    if git.subtree {
        assert_eq!(split.head.oid, git.split("lib/sub", "main"), "seed {seed}");
    }
    git.run(&["update-ref", "refs/heads/split", &split.head.oid.to_string()], b"");
    git.run(&["fsck", "--strict"], b"");
}

#[test]
fn linear_histories_are_split_as_git_does() {
    for seed in 0..3 {
        compare_with_git(seed, 40, 1);
    }
}

#[test]
fn merged_histories_are_split_as_git_does() {
    for seed in 100..106 {
        compare_with_git(seed, 40, 2);
    }
}
