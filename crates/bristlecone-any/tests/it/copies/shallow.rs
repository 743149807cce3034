//! Copies of shallow histories: the copy says where its history ends, whenever the process is stopped.

use std::sync::Arc;

use bristlecone::{
    Backend, CommitId, Durability, Expected, Kind, LogOptions, Oid, RefMove, RefTarget, SHALLOW, disk::DiskBackend,
};
use bristlecone_any::{
    AnyRepo,
    copy::{self, CopyOptions, LossKind},
};
use bristlecone_testkit::sim::{Policy, SimStorage};

use super::{copied, format, in_memory, objects, tiny, told};

/// Commits a number of times to a branch.
fn chain(repo: &AnyRepo, commits: usize) -> Vec<Oid> {
    (0..commits).map(|n| crate::commit(repo, "main", &[("a", &n.to_string())]).oid).collect()
}

/// Returns a store in memory with these commits alone: the parents of the first were never fetched.
fn shallow_of(whole: &AnyRepo, name: &str, ids: &[Oid]) -> AnyRepo {
    let shallow = in_memory(&format(name));
    for id in ids {
        let commit = whole.read_commit(CommitId::new(*id)).unwrap();
        shallow.copy_objects(whole, &[commit.tree]).unwrap();
        assert_eq!(shallow.write_commit(&commit, 1, Durability::None).unwrap().oid(), *id);
    }
    let moved =
        |name: String, oid: Oid| RefMove { name, expected: Expected::Any, to: Some(RefTarget::Object(oid.into())) };
    let moves =
        [moved("refs/heads/main".to_owned(), ids[ids.len() - 1]), moved(format!("{SHALLOW}{}", ids[0]), ids[0])];
    shallow.move_refs(&moves, Durability::None).unwrap();
    shallow
}

#[test]
fn a_shallow_history_is_copied_as_far_as_it_goes_and_deepened_later() {
    for name in ["native", "git"] {
        let (whole, to) = (in_memory(&format(name)), in_memory(&format(name)));
        let ids = chain(&whole, 4);
        let shallow = shallow_of(&whole, name, &ids[2..]);
        let report = copied(&shallow, &to);
        assert_eq!((report.commits, copied(&shallow, &to).commits), (2, 0), "{name}");
        assert_eq!(to.shallow().unwrap(), [ids[2]].into(), "{name}");
        // Another format has no ids of commits that are not there.
        let other = in_memory(&format(if name == "git" { "native" } else { "git" }));
        let report = copied(&shallow, &other);
        assert_eq!(
            report.losses.iter().map(|loss| (loss.kind, loss.count)).collect::<Vec<_>>(),
            [(LossKind::Parent, 1)]
        );
        let head = other.branch("main").unwrap().head().unwrap().unwrap();
        assert_eq!(other.log(&[head], LogOptions::default()).map(Result::unwrap).count(), 2);
        let report = copied(&whole, &to);
        assert_eq!((report.commits, to.shallow().unwrap().len()), (2, 0), "{name}");
        assert!(told(&to) == told(&whole), "{name}");
        // Commits that were numbered from where history ended do not stand below those that came later.
        let id = |index: usize| CommitId::new(ids[index]);
        assert!(to.is_ancestor(id(1), id(3)).unwrap() && !to.is_ancestor(id(3), id(1)).unwrap(), "{name}");
        assert_eq!(to.merge_bases(id(1), id(2)).unwrap(), [id(1)], "{name}");
        assert_eq!(to.generation(id(3)).unwrap(), 4, "{name}");
    }
}

#[test]
fn what_a_stopped_copy_of_a_shallow_history_left_says_where_it_ends() {
    for forgets in [false, true] {
        let (whole, to) = (in_memory(&format("native")), in_memory(&format("native")));
        let ids = chain(&whole, 4);
        let shallow = shallow_of(&whole, "native", &ids[2..]);
        to.copy_objects(&shallow, &[CommitId::new(ids[3])]).unwrap();
        assert_eq!(to.shallow().unwrap(), [ids[2]].into());
        if forgets {
            // As a copy by an earlier version left it.
            let note = RefMove { name: format!("{SHALLOW}{}", ids[2]), expected: Expected::Any, to: None };
            to.move_refs(&[note], Durability::None).unwrap();
        }
        assert_eq!(copied(&shallow, &to).commits, 0);
        assert_eq!(to.shallow().unwrap(), [ids[2]].into(), "forgets: {forgets}");
        assert_eq!(copied(&whole, &to).commits, 2);
        assert!(to.shallow().unwrap().is_empty() && told(&to) == told(&whole), "forgets: {forgets}");
    }
}

#[test]
fn a_copy_that_has_the_parents_is_not_shallow() {
    let (whole, to) = (in_memory(&format("native")), in_memory(&format("native")));
    let ids = chain(&whole, 4);
    to.copy_objects(&whole, &[CommitId::new(ids[1])]).unwrap();
    copied(&shallow_of(&whole, "native", &ids[2..]), &to);
    assert!(to.shallow().unwrap().is_empty());
    assert!(told(&to) == told(&whole));
}

/// Every commit that is there has its parents, or is noted.
fn expect_ends(to: &AnyRepo, what: &str) {
    let (all, shallow) = (objects(to), to.shallow().unwrap());
    for oid in all.keys() {
        if to.backend().read(&(*oid).into()).unwrap().unwrap().kind() == Kind::Commit && !shallow.contains(oid) {
            let parents = to.read_commit(CommitId::new(*oid)).unwrap().parents;
            assert!(parents.iter().all(|parent| all.contains_key(&parent.oid())), "{what}: {oid} lacks a parent");
        }
    }
}

#[test]
fn a_power_cut_at_any_call_leaves_notes_of_where_history_ends() {
    let native = format("native");
    let whole = in_memory(&native);
    let ids = chain(&whole, 300);
    let shallow = shallow_of(&whole, "native", &ids[2..]);
    let over = |backend: Arc<dyn Backend>| in_memory(&native).wrapped(|_| backend);
    let disk = SimStorage::new();
    let made = DiskBackend::create(Arc::new(disk.clone()), native.tag(), tiny()).unwrap();
    disk.keep_moments();
    let began = disk.calls();
    let options = CopyOptions::default().checkpoint_bytes(1000);
    copy::copy(&shallow, &over(Arc::new(made)), &options, &mut |_| {}).unwrap();
    let (ended, mut parts) = (disk.calls(), 0);
    for call in began..=ended {
        let policy = Policy::ALL[call as usize % Policy::ALL.len()];
        let what = format!("after call {call}, {policy:?}");
        let after: Arc<SimStorage> = Arc::new(disk.moment(call).unwrap().reboot(call, policy));
        let to = over(Arc::new(DiskBackend::open(after, Some("native"), tiny(), false).unwrap()));
        expect_ends(&to, &what);
        parts += u64::from(!objects(&to).is_empty() && to.branch("main").unwrap().head().unwrap().is_none());
        // Whatever the next copy comes from, all of it is there.
        copied(&whole, &to);
        assert!(told(&to) == told(&whole) && to.shallow().unwrap().is_empty(), "{what}");
    }
    assert!(parts > 3, "only {parts} of {began} to {ended} had a part of the copy");
}
