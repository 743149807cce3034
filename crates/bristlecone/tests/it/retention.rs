//! Retention: what its rules keep is there with the same ids, the rest is gone, and history says so.

use std::{
    cell::Cell,
    collections::{BTreeMap, BTreeSet},
    ops::ControlFlow,
    sync::Arc,
};

use bristlecone::{
    AbsentReason, Batch, CommitId, Durability, Error, Expected, Info, Kind, Location, LogOptions, MemoryBackend,
    Native, ObjRef, RefMove, RefTarget, Repo, Retention, Signature, Sink, SweepDue, SweepLimits, Tag,
    disk::{DiskBackend, DiskOptions},
    storage::Storage,
};
use bristlecone_testkit::{
    crash::step,
    sim::{Policy, SimStorage},
};

use crate::engine::{format_tag, tiny, tiny_as_shipped, tiny_with_maps};

pub(crate) fn create(disk: &SimStorage, options: &DiskOptions) -> Repo {
    let backend = DiskBackend::create(Arc::new(disk.clone()), format_tag(), options.clone()).unwrap();
    Repo::with_backend(Native::new(), Arc::new(backend))
}

pub(crate) fn open(disk: &SimStorage, options: &DiskOptions) -> Repo {
    let backend = DiskBackend::open(Arc::new(disk.clone()), None, options.clone(), false).unwrap();
    Repo::with_backend(Native::new(), Arc::new(backend))
}

pub(crate) fn info(number: usize) -> Info {
    let who = Signature::new("Ann", 1000 * number as i64);
    let mut info = Info::message(number.to_string()).by(who);
    info.durability = Durability::None;
    info
}

/// Commits a change of its own to a branch, and returns its id.
pub(crate) fn commit(repo: &Repo, branch: &str, number: usize) -> CommitId {
    let branch = repo.branch(branch).unwrap();
    branch.edit(&info(number), |tree| tree.set(&*format!("d{}/n{number}", number % 7), number.to_string())).unwrap()
}

pub(crate) fn messages(repo: &Repo, heads: &[CommitId]) -> Vec<String> {
    let entry = |entry: bristlecone::Result<bristlecone::LogEntry>| entry.unwrap().commit.message;
    repo.log(heads, LogOptions::default()).map(entry).map(|text| String::from_utf8(text).unwrap()).collect()
}

pub(crate) fn set(repo: &Repo, rules: &str) {
    repo.set_retention(&rules.parse().unwrap()).unwrap();
}

fn sweep(repo: &Repo) -> bristlecone::Swept {
    repo.sweep(&[], &SweepLimits::default().grace(86_400)).unwrap()
}

pub(crate) fn point(repo: &Repo, name: &str, to: Option<CommitId>) {
    let wanted = RefMove { name: name.to_owned(), expected: Expected::Any, to: to.map(RefTarget::from) };
    repo.move_refs(&[wanted], Durability::None).unwrap();
}

pub(crate) fn check(disk: &SimStorage, options: &DiskOptions) {
    let backend = DiskBackend::open(Arc::new(disk.clone()), None, options.clone(), false).unwrap();
    backend.check(&mut |damage| panic!("{damage:?}")).unwrap();
}

#[test]
fn rules_are_replaced_only_where_they_are_the_expected_ones() {
    let (disk, options) = (SimStorage::new(), tiny());
    let (repo, other) = (create(&disk, &options), open(&disk, &options));
    let rules = |text: &str| text.parse::<Retention>().unwrap();
    let (none, one, two) = (Retention::default(), rules("last 9 refs/heads/a\n"), rules("last 9 refs/heads/b\n"));
    assert!(repo.replace_retention(&none, &one).unwrap());
    let end = other.backend().position().unwrap();
    // The other one had read the rules before.
    assert!(!other.replace_retention(&none, &two).unwrap());
    assert_eq!((other.retention().unwrap(), other.backend().position().unwrap()), (one.clone(), end));
    assert!(other.replace_retention(&one, &two).unwrap());
    assert_eq!(repo.retention().unwrap(), two);
    repo.set_retention(&none).unwrap();
    assert_eq!(open(&disk, &options).retention().unwrap(), none);
}

#[test]
fn the_last_commits_stay_and_the_rest_is_absent_on_purpose() {
    for options in [tiny(), tiny_with_maps(), tiny_as_shipped()] {
        let disk = SimStorage::new();
        let repo = create(&disk, &options);
        let ids: Vec<CommitId> = (0..50).map(|number| commit(&repo, "main", number)).collect();
        let root = repo.read_commit(ids[49]).unwrap().tree;
        set(&repo, "last 10 refs/heads/*\n");
        let size = repo.cut_size(&repo.retention().unwrap()).unwrap();
        assert_eq!((size.dropped, size.kept, size.heads), (40, 10, 1));
        let planned = repo.sweep(&[], &SweepLimits::default().dry_run(true)).unwrap();
        assert_eq!(messages(&repo, &[ids[49]]).len(), 50);
        let swept = sweep(&repo);
        assert_eq!((swept.commits, swept.objects, swept.bytes), (40, planned.objects, planned.bytes));
        // Other handles and later ones follow the rules, too.
        drop(repo);
        let repo = open(&disk, &options);
        assert_eq!(repo.retention().unwrap().to_string(), "last 10 refs/heads/*\n");
        assert_eq!(messages(&repo, &[ids[49]]), (40..50).rev().map(|n| n.to_string()).collect::<Vec<_>>());
        assert_eq!(repo.read_commit(ids[49]).unwrap().tree.oid(), root.oid());
        for (number, id) in ids.iter().enumerate() {
            match repo.checkout(*id) {
                Ok(tree) => {
                    assert!(number >= 40);
                    (0..=number).for_each(|n| {
                        assert_eq!(
                            tree.get(&*format!("d{}/n{n}", n % 7)).unwrap().unwrap().as_ref(),
                            n.to_string().as_bytes()
                        )
                    });
                }
                Err(Error::Absent { oid, reason: AbsentReason::Cut }) => assert_eq!((number, oid), (39, ids[39].oid())),
                Err(Error::Missing { .. }) => assert!(number < 39),
                Err(error) => panic!("{number}: {error:?}"),
            }
        }
        let absent = repo.backend().absent().unwrap();
        assert_eq!(
            absent.iter().map(|(oid, row)| (*oid, row.missing, row.next)).collect::<Vec<_>>(),
            [(ids[39].oid(), 40, None)]
        );
        // History goes on, and the next collection cuts what has become old.
        (50..55).for_each(|number| _ = commit(&repo, "main", number));
        assert_eq!(sweep(&repo).commits, 5);
        let head = repo.branch("main").unwrap().head().unwrap().unwrap();
        assert_eq!(messages(&repo, &[head]), (45..55).rev().map(|n| n.to_string()).collect::<Vec<_>>());
        let absent = repo.backend().absent().unwrap();
        assert_eq!(absent.values().map(|row| row.missing).collect::<Vec<_>>(), [45]);
        assert_eq!(repo.generation(head).unwrap(), 55);
        // Nobody builds upon what is gone.
        let tree = repo.tree();
        assert!(repo.prepare(&tree, &[ids[3]], &info(99)).is_err());
        drop((tree, repo));
        check(&disk, &options);
    }
}

#[test]
fn what_was_cut_before_does_not_count_as_kept() {
    let repo = create(&SimStorage::new(), &tiny());
    (0..10).for_each(|number| _ = commit(&repo, "a", number));
    set(&repo, "last 1 refs/heads/a\n");
    assert_eq!(sweep(&repo).commits, 9);
    set(&repo, "");
    (10..20).for_each(|number| _ = commit(&repo, "b", number));
    // The commit of `a` still names one that is absent.
    let size = repo.cut_size(&"last 1 refs/heads/b\n".parse().unwrap()).unwrap();
    assert_eq!((size.dropped, size.kept, size.heads), (9, 2, 2));
}

#[test]
fn history_goes_on_behind_a_gap_with_what_a_tag_keeps() {
    let disk = SimStorage::new();
    let repo = create(&disk, &tiny());
    let ids: Vec<CommitId> = (0..30).map(|number| commit(&repo, "main", number)).collect();
    point(&repo, "refs/tags/v1", Some(ids[4]));
    set(&repo, "last 3 refs/heads/*\nlast 1 refs/tags/*\n");
    assert_eq!(sweep(&repo).commits, 26);
    assert_eq!(messages(&repo, &[ids[29]]), ["29", "28", "27", "4"]);
    assert!(repo.is_ancestor(ids[4], ids[29]).unwrap());
    assert_eq!(repo.merge_bases(ids[4], ids[28]).unwrap(), [ids[4]]);
    let rows: BTreeMap<_, _> = repo.backend().absent().unwrap().iter().map(|(oid, row)| (*oid, *row)).collect();
    assert_eq!((rows[&ids[26].oid()].missing, rows[&ids[26].oid()].next), (22, Some(ids[4].oid())));
    assert_eq!((rows[&ids[3].oid()].missing, rows[&ids[3].oid()].next), (4, None));
    // What a tag no longer keeps goes, and the gaps become one.
    point(&repo, "refs/tags/v1", None);
    // What it held has the grace, and is no part of that history any more.
    sweep(&repo);
    assert!(repo.read_commit(ids[4]).is_ok());
    assert_eq!(messages(&repo, &[ids[29]]), ["29", "28", "27"]);
    repo.sweep(&[], &SweepLimits::default()).unwrap();
    assert!(repo.read_commit(ids[4]).is_err());
    assert_eq!(messages(&repo, &[ids[29]]), ["29", "28", "27"]);
    let absent = repo.backend().absent().unwrap();
    assert_eq!(absent.values().map(|row| (row.missing, row.next)).collect::<Vec<_>>(), [(27, None)]);
    drop(repo);
    check(&disk, &tiny());
}

#[test]
fn of_merged_branches_only_what_trees_need_stays() {
    let disk = SimStorage::new();
    let repo = create(&disk, &tiny());
    (0..5).for_each(|number| _ = commit(&repo, "main", number));
    let main = repo.branch("main").unwrap();
    point(&repo, "refs/heads/side", main.head().unwrap());
    (10..15).for_each(|number| _ = commit(&repo, "side", number));
    let side = repo.branch("side").unwrap().head().unwrap().unwrap();
    let mut tree = repo.branch("side").unwrap().tree().unwrap();
    let merge = main.commit_with_parents(&mut tree, &[main.head().unwrap().unwrap(), side], &info(20)).unwrap();
    point(&repo, "refs/heads/side", None);
    drop(tree);
    (21..23).for_each(|number| _ = commit(&repo, "main", number));
    set(&repo, "last 4 refs/heads/main\n");
    // 22, 21, the merge and 4 stay.
    assert_eq!(sweep(&repo).commits, 9);
    let head = main.head().unwrap().unwrap();
    assert_eq!(messages(&repo, &[head]), ["22", "21", "20", "4"]);
    assert_eq!(repo.checkout(merge).unwrap().get("d0/n14").unwrap().unwrap().as_ref(), b"14");
    let absent = repo.backend().absent().unwrap();
    // The side had begun at 4, which is kept: history goes on with it.
    let row = absent.get(&side.oid()).unwrap();
    assert_eq!((row.missing, row.next.is_some()), (5, true));
    drop(repo);
    check(&disk, &tiny());
}

#[test]
fn what_was_written_ahead_of_a_commit_goes_with_it_and_what_no_commit_had_stays_for_the_grace() {
    for options in [tiny(), tiny_with_maps()] {
        let disk = SimStorage::new();
        let repo = create(&disk, &options);
        let branch = repo.branch("main").unwrap();
        // A loader appends its nodes without a ref, before there is a commit.
        let load = |from: u32| {
            let mut loader = repo.map_loader();
            for entry in from..from + 3000 {
                loader.push(&entry.to_be_bytes(), &entry.to_be_bytes().repeat(9)[..]).unwrap();
            }
            loader.finish().unwrap()
        };
        for number in 0..20 {
            let loaded = load(number as u32 * 10_000).into_tree();
            branch.edit(&info(number), |tree| tree.set_tree("loaded", &loaded)).unwrap();
        }
        set(&repo, "last 2 refs/heads/*\n");
        let before = repo.backend().stats().store_bytes;
        assert_eq!(sweep(&repo).commits, 18);
        let after = repo.backend().stats().store_bytes;
        assert!(after < before / 7, "{after} of {before} bytes");
        // One more, which no commit ever had.
        let never = load(900_000).root().unwrap();
        commit(&repo, "main", 20);
        commit(&repo, "main", 21);
        assert!(sweep(&repo).commits > 0);
        assert!(repo.backend().snapshot(&[]).read(&never.into()).unwrap().is_some());
        repo.sweep(&[], &SweepLimits::default()).unwrap();
        assert!(repo.backend().snapshot(&[]).read(&never.into()).unwrap().is_none());
        drop(repo);
        check(&disk, &options);
    }
}

#[test]
fn rules_of_time_go_by_the_committers_date() {
    let disk = SimStorage::new();
    let repo = create(&disk, &tiny());
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs() as i64;
    for age in (0..20_i64).rev() {
        let info = info(0).by(Signature::new("Ann", now - age * 3600 - 60));
        repo.branch("main").unwrap().edit(&info, |tree| tree.set("age", age.to_string())).unwrap();
    }
    set(&repo, "last 5h refs/heads/*\n");
    assert_eq!(sweep(&repo).commits, 15);
    let head = repo.branch("main").unwrap().head().unwrap().unwrap();
    assert_eq!(messages(&repo, &[head]).len(), 5);
    // The last one stays, however old.
    set(&repo, "last 1s refs/heads/*\n");
    assert_eq!(sweep(&repo).commits, 4);
    assert_eq!(messages(&repo, &[head]).len(), 1);
}

/// No commit names itself, and a forged one that does keeps no collection busy for ever.
#[test]
fn a_forged_history_that_goes_in_a_circle_ends_a_rule_of_time() {
    let disk = SimStorage::new();
    let repo = create(&disk, &tiny().locations(false));
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs() as i64;
    let made = [0, 1].map(|number| {
        let info = info(number).by(Signature::new("Ann", now));
        repo.branch("main").unwrap().edit(&info, |tree| tree.set("n", number.to_string())).unwrap().oid()
    });
    // The first by its id, with what the second is: its parent is the first.
    let backend = repo.backend();
    let second = backend.read(&made[1].into()).unwrap().unwrap();
    let words: Vec<u64> = (0..).map_while(|index| second.metadata_word(index)).collect();
    let mut forged = Batch::since(backend.sweeps());
    forged.put(Kind::Commit, made[0], second.body(), &vec![Location::NONE; second.children()], &words);
    backend.append(forged, &[], Durability::None).unwrap();
    set(&repo, "last 5h refs/heads/*\n");
    let swept = repo.sweep(&[], &SweepLimits::default());
    assert!(matches!(&swept, Ok(_) | Err(Error::Corrupt { .. })), "{swept:?}");
}

fn tag(repo: &Repo, target: ObjRef, kind: Kind, number: usize) -> ObjRef {
    let (name, headers, message) = (number.to_string().into_bytes(), Vec::new(), b"why\n".to_vec());
    let tag = Tag { target, kind, name, tagger: None, headers, message };
    repo.write_tag(&tag, Durability::None).unwrap().into()
}

fn point_at(repo: &Repo, name: &str, at: ObjRef) {
    repo.compare_and_set(name, None, Some(RefTarget::Object(at)), Durability::None).unwrap();
}

#[test]
fn a_rule_holds_for_the_commit_behind_any_number_of_tags() {
    let (disk, options) = (SimStorage::new(), tiny());
    let repo = create(&disk, &options);
    let ids: Vec<CommitId> = (0..10).map(|number| commit(&repo, "main", number)).collect();
    let tags: Vec<ObjRef> = (0..40)
        .scan((ObjRef::from(ids[4]), Kind::Commit), |(target, kind), number| {
            (*target, *kind) = (tag(&repo, *target, *kind, number), Kind::Tag);
            Some(*target)
        })
        .collect();
    point_at(&repo, "refs/tags/deep", tags[39]);
    set(&repo, "last 1 refs/heads/*\nlast 2 refs/tags/*\n");
    assert_eq!(sweep(&repo).commits, 7);
    assert_eq!(messages(&repo, &[ids[9]]), ["9", "4", "3"]);
    assert!(tags.iter().all(|at| repo.read_tag((*at).into()).is_ok()));
    drop(repo);
    check(&disk, &options);
}

/// No tag names itself, and a forged one that does keeps no collection busy for ever.
#[test]
fn forged_tags_that_go_in_a_circle_end_no_collection() {
    let disk = SimStorage::new();
    let repo = create(&disk, &tiny().locations(false));
    let first = tag(&repo, commit(&repo, "main", 0).into(), Kind::Commit, 0);
    let second = tag(&repo, first, Kind::Tag, 1);
    // The first by its id, with what the second is: it names the first.
    let backend = repo.backend();
    let forged_by = backend.read(&second.oid.into()).unwrap().unwrap();
    let mut forged = Batch::since(backend.sweeps());
    forged.put(Kind::Tag, first.oid, forged_by.body(), &vec![Location::NONE; forged_by.children()], &[]);
    backend.append(forged, &[], Durability::None).unwrap();
    point_at(&repo, "refs/tags/circle", first);
    set(&repo, "last 5 refs/heads/*\n");
    let swept = repo.sweep(&[], &SweepLimits::default());
    assert!(matches!(&swept, Ok(_) | Err(Error::Corrupt { .. })), "{swept:?}");
}

#[test]
fn a_copy_of_a_cut_history_is_cut_in_the_same_places() {
    let (disk, other) = (SimStorage::new(), SimStorage::new());
    let repo = create(&disk, &tiny());
    let ids: Vec<CommitId> = (0..30).map(|number| commit(&repo, "main", number)).collect();
    point(&repo, "refs/tags/v1", Some(ids[4]));
    set(&repo, "last 3 refs/heads/*\nlast 1 refs/tags/*\n");
    sweep(&repo);
    let copy = create(&other, &tiny());
    copy.copy_objects(&repo, &[ids[29]]).unwrap();
    point(&copy, "refs/heads/main", Some(ids[29]));
    assert_eq!(messages(&copy, &[ids[29]]), ["29", "28", "27", "4"]);
    assert_eq!(*copy.backend().absent().unwrap(), *repo.backend().absent().unwrap());
    assert!(matches!(copy.checkout(ids[26]), Err(Error::Absent { .. })));
    assert!(matches!(copy.copy_objects(&repo, &[ids[26]]), Err(Error::Absent { oid, .. }) if oid == ids[26].oid()));
    assert!(matches!(copy.revparse(&ids[26].oid().to_string()[..16]), Err(Error::Absent { .. })));
    // A store that cannot say so takes no such history.
    let memory = Repo::with_backend(Native::new(), Arc::new(MemoryBackend::new()));
    assert!(matches!(memory.copy_objects(&repo, &[ids[29]]), Err(Error::Usage { .. })));
    // Where the whole history comes back, it is read as before.
    let whole = create(&SimStorage::new(), &tiny());
    (0..30).for_each(|number| assert_eq!(commit(&whole, "main", number), ids[number]));
    copy.copy_objects(&whole, &[ids[26], ids[3]]).unwrap();
    assert_eq!(messages(&copy, &[ids[29]]).len(), 30);
}

#[test]
fn a_copy_of_a_cut_history_that_is_stopped_says_what_is_absent() {
    let (disk, other) = (SimStorage::new(), SimStorage::new());
    let repo = create(&disk, &tiny());
    let ids: Vec<CommitId> = (0..30).map(|number| commit(&repo, "main", number)).collect();
    set(&repo, "last 3 refs/heads/*\n");
    sweep(&repo);
    let copy = create(&other, &tiny());
    other.keep_moments();
    let began = other.calls();
    copy.copy_objects(&repo, &[ids[29]]).unwrap();
    let mut parts = 0;
    for call in began..=other.calls() {
        let copy = open(&other.moment(call).unwrap().reboot(call, Policy::Kept), &tiny());
        let mut commits = Vec::new();
        let mut each = |oid, object: &bristlecone::Object<'_>| {
            commits.extend((object.kind() == Kind::Commit).then_some(oid));
            Ok(())
        };
        copy.backend().each_object(&mut each, &mut |damage| panic!("{damage:?}")).unwrap();
        parts += commits.len();
        for parent in commits.iter().flat_map(|&oid| copy.read_commit(CommitId::new(oid)).unwrap().parents) {
            let is_absent = copy.backend().absent().unwrap().contains_key(&parent.oid());
            assert!(is_absent || commits.contains(&parent.oid()), "after call {call}");
        }
    }
    assert!(parts > 0, "no moment had a commit");
}

#[test]
fn a_snapshot_of_before_reads_on_and_commits_made_meanwhile_stay() {
    for options in [tiny(), tiny_with_maps()] {
        let disk = SimStorage::new();
        let (repo, other) = (create(&disk, &options), open(&disk, &options));
        let ids: Vec<CommitId> = (0..30).map(|number| commit(&repo, "main", number)).collect();
        let old = other.checkout(ids[2]).unwrap();
        // A commit is prepared on one that is about to be cut.
        let mut tree = other.checkout(ids[10]).unwrap();
        tree.set("new", "1").unwrap();
        set(&repo, "last 3 refs/heads/main\n");
        sweep(&repo);
        assert_eq!(old.get("d1/n1").unwrap().unwrap().as_ref(), b"1");
        match other.commit_tree(&mut tree, &[ids[10]], &info(99)) {
            Err(Error::Gone { .. } | Error::Absent { .. } | Error::Missing { .. }) => {}
            made => panic!("{made:?}"),
        }
        drop((old, tree));
        let id = commit(&other, "main", 30);
        assert_eq!(messages(&other, &[id]), ["30", "29", "28", "27"]);
        drop((repo, other));
        check(&disk, &options);
    }
}

#[test]
fn a_store_collects_by_itself_and_stays_small() {
    for options in [tiny(), tiny_with_maps(), tiny_as_shipped()] {
        let options = options.segment_bytes(64 << 10).collect(true);
        let disk = SimStorage::new();
        let repo = create(&disk, &options);
        set(&repo, "last 5 refs/heads/*\n");
        let mut largest = 0;
        for number in 0..4000 {
            let branch = repo.branch("main").unwrap();
            let text = format!("{number} {}", "x".repeat(200));
            branch.edit(&info(number), |tree| tree.set(&*format!("d{}/n{}", number % 7, number % 50), &*text)).unwrap();
            if options.background && number % 100 == 0 {
                repo.wait_for_collection().unwrap();
            }
            largest = largest.max(repo.backend().stats().file_bytes);
        }
        repo.wait_for_collection().unwrap();
        let written = repo.backend().stats().bytes_written;
        assert!(written > 3 << 20, "{written} bytes were appended");
        // Beside the thread that collects, a hundred commits may be made in no time.
        let most = if options.background { written / 4 } else { 12 * (64 << 10) };
        assert!(largest < most, "{largest} of {written} bytes");
        let head = repo.branch("main").unwrap().head().unwrap().unwrap();
        assert!((5..500).contains(&messages(&repo, &[head]).len()));
        let tree = repo.checkout(head).unwrap();
        for number in 3950..4000 {
            let value = tree.get(&*format!("d{}/n{}", number % 7, number % 50)).unwrap();
            assert!(value.is_some(), "{number}");
        }
        drop((tree, repo));
        check(&disk, &options);
    }
}

/// What was cut and came back lies in the log, and a commit in a cold segment names it.
#[test]
fn what_came_back_stays_below_a_commit_that_lies_in_a_cold_segment() {
    for options in [tiny(), tiny_with_maps(), tiny_as_shipped()].map(|options| options.collect(false)) {
        let disk = SimStorage::new();
        let repo = create(&disk, &options);
        let ids: Vec<CommitId> = (0..10).map(|number| commit(&repo, "main", number)).collect();
        set(&repo, "last 1 refs/heads/*\n");
        sweep(&repo);
        assert_eq!(messages(&repo, &[ids[9]]), ["9"]);
        // The graph ends where history does, until that goes on again.
        repo.index_history(ids[9]).unwrap();
        assert!(repo.merge_bases(ids[8], ids[9]).is_err());
        repo.set_retention(&Retention::default()).unwrap();
        (0..9).for_each(|number| assert_eq!(commit(&repo, "again", number), ids[number]));
        point(&repo, "refs/heads/again", None);
        for round in 0..2 {
            commit(&repo, "garbage", 100 + round);
            point(&repo, "refs/heads/garbage", None);
            assert!(repo.sweep(&[], &SweepLimits::default()).unwrap().objects > 0);
            assert_eq!(messages(&repo, &[ids[9]]), (0..10).rev().map(|n| n.to_string()).collect::<Vec<_>>());
            assert!(repo.is_ancestor(ids[3], ids[9]).unwrap());
            assert_eq!(repo.merge_bases(ids[3], ids[9]).unwrap(), [ids[3]]);
            assert_eq!(repo.count_between(ids[0], ids[9]).unwrap(), 9);
            assert_eq!(repo.log(&[ids[3]], LogOptions::default().exclude(vec![ids[9]])).count(), 0);
            for (number, id) in ids.iter().enumerate() {
                let tree = repo.checkout(*id).unwrap();
                let value = tree.get(&*format!("d{}/n{number}", number % 7)).unwrap().unwrap();
                assert_eq!(value.as_ref(), number.to_string().as_bytes());
            }
        }
        drop(repo);
        check(&disk, &options);
    }
}

fn runs_with_bytes(repo: &Repo) -> usize {
    files_with_bytes(repo, "history")
}

fn files_with_bytes(repo: &Repo, kind: &str) -> usize {
    let bytes = |n| repo.backend().read_derived(&format!("{kind}-{n}")).unwrap().map_or(0, |bytes| bytes.len());
    (0..100).filter(|&n| bytes(n) > 0).count()
}

/// Each branch takes two runs.
#[test]
fn the_index_of_history_forgets_branches_that_were_collected() {
    let disk = SimStorage::new();
    let repo = create(&disk, &DiskOptions::default().collect(false));
    repo.set_indexing(false);
    for round in 0..4 {
        (round * 4_100..(round + 1) * 4_100).for_each(|number| _ = commit(&repo, "side", number));
        let head = repo.branch("side").unwrap().head().unwrap().unwrap();
        assert_eq!(repo.index_history(head).unwrap(), 4_100, "round {round}");
        assert_eq!(runs_with_bytes(&repo), 2, "round {round}");
        point(&repo, "refs/heads/side", None);
        repo.sweep(&[], &SweepLimits::default()).unwrap();
    }
}

/// Runs of the index of history have 4,096 commits at most: 30,000 commits would take eight.
#[test]
fn the_index_of_history_forgets_what_was_cut() {
    let disk = SimStorage::new();
    let options = DiskOptions::default().collect(false);
    let repo = create(&disk, &options);
    repo.set_indexing(false);
    for round in 0..20 {
        if round == 10 {
            set(&repo, "last 10 refs/heads/*\n");
        }
        let mut head = None;
        (round * 1_500..(round + 1) * 1_500).for_each(|number| head = Some(commit(&repo, "main", number)));
        let head = head.unwrap();
        assert_eq!(repo.index_history(head).unwrap(), 1_500, "round {round}");
        sweep(&repo);
        let number = (round + 1) * 1_500 - 5;
        let found = repo.last_change(head, &*format!("d{}/n{number}", number % 7)).unwrap().unwrap();
        assert_eq!(found.commit.message, number.to_string().into_bytes());
    }
    assert!((1..=3).contains(&runs_with_bytes(&repo)));
    // The graph begins anew whenever something was cut; it had four.
    assert_eq!(files_with_bytes(&repo, "graph"), 1);
    assert!(repo.indexed_commits().unwrap().changes < 3 * 4_096);
    drop(repo);
    check(&disk, &options);
}

#[test]
fn a_tree_that_was_cut_while_it_was_held_is_committed_whole() {
    let disk = SimStorage::new();
    let repo = create(&disk, &tiny());
    set(&repo, "last 2 refs/heads/*\n");
    let big = "x".repeat(5000);
    let put = |number: usize, text: &str| {
        let branch = repo.branch("main").unwrap();
        branch
            .edit(&info(number), |tree| tree.set(&*format!("d{}/n{number}", number % 7), &*format!("{text}{big}")))
            .unwrap();
    };
    (0..30).for_each(|number| put(number, "first"));
    let old = repo.branch("main").unwrap().tree().unwrap();
    for round in 0..3 {
        (0..30).for_each(|number| put(number, &round.to_string()));
        let other = open(&disk, &tiny());
        assert!(sweep(&other).objects > 0, "{round}");
    }
    let side = repo.branch("side").unwrap();
    side.edit(&info(31), |tree| {
        tree.set_tree("", &old)?;
        tree.set("new", "value")
    })
    .unwrap();
    sweep(&repo);
    drop((side, repo));
    let repo = open(&disk, &tiny());
    let tree = repo.branch("side").unwrap().tree().unwrap();
    for number in 0..30 {
        let value = tree.get(&*format!("d{}/n{number}", number % 7)).unwrap().expect("it is there");
        assert_eq!(*value, *format!("first{big}").as_bytes(), "{number}");
    }
    assert!(tree.get("new").unwrap().is_some());
    drop((tree, repo));
    check(&disk, &tiny());
}

#[test]
fn a_collection_on_a_full_disk_says_what_it_needs_and_leaves_the_store_as_it_was() {
    let (mut refused, mut done) = (0, 0);
    for room in (0..60_000).step_by(997) {
        let disk = SimStorage::new();
        let repo = create(&disk, &tiny());
        set(&repo, "last 3 refs/heads/*\n");
        let ids: Vec<CommitId> = (0..60)
            .map(|number| {
                let text = "x".repeat(100 + number);
                let set = |tree: &mut bristlecone::Tree| tree.set(&*format!("d{}/n{number}", number % 7), &*text);
                repo.branch("main").unwrap().edit(&info(number), set).unwrap()
            })
            .collect();
        let before = disk.bytes();
        disk.limit_space(Some(before + room));
        match repo.sweep(&[], &SweepLimits::default()) {
            Ok(swept) => {
                assert!(swept.objects > 0 && disk.bytes() < before, "room {room}");
                done += 1;
            }
            Err(error) => {
                assert!(matches!(error, Error::NoRoom { .. } | Error::NoSpace { .. }), "room {room}: {error:?}");
                // A segment that was begun, and indexes that a reader would have made.
                assert!(disk.bytes() <= before + 3 * 4096, "room {room}: {} of {before} bytes", disk.bytes());
                assert_eq!(messages(&repo, &[ids[59]]).len(), 60, "room {room}");
                refused += 1;
            }
        }
        disk.limit_space(None);
        commit(&repo, "main", 60);
        drop(repo);
        let repo = open(&disk, &tiny());
        sweep(&repo);
        let head = repo.branch("main").unwrap().head().unwrap().unwrap();
        assert_eq!(messages(&repo, &[head]).len(), 3, "room {room}");
        assert!(repo.checkout(head).unwrap().get("d2/n58").unwrap().is_some());
        drop(repo);
        check(&disk, &tiny());
    }
    assert!(refused > 5 && done > 5, "{refused} refused, {done} done");
}

#[test]
fn a_store_says_when_a_collection_is_due_and_when_it_does_not_keep_up() {
    let disk = SimStorage::new();
    let repo = create(&disk, &tiny_as_shipped().collect(true));
    repo.set_collecting(false);
    assert_eq!(repo.backend().sweep_due(), SweepDue::No);
    set(&repo, "last 3 refs/heads/*\n");
    let mut said = vec![SweepDue::No];
    for number in 0..200 {
        commit(&repo, "main", number);
        let due = repo.backend().sweep_due();
        if said.last() != Some(&due) {
            said.push(due);
        }
    }
    assert_eq!(said, [SweepDue::No, SweepDue::Beside, SweepDue::Overdue]);
    repo.set_collecting(true);
    commit(&repo, "main", 200);
    repo.wait_for_collection().unwrap();
    assert_eq!(repo.backend().sweep_due(), SweepDue::No);
}

#[test]
fn a_collection_that_is_stopped_leaves_no_files() {
    let disk = SimStorage::new();
    let repo = create(&disk, &tiny().cold_bytes(1 << 20));
    set(&repo, "last 3 refs/heads/*\n");
    (0..60).for_each(|number| _ = commit(&repo, "main", number));
    let copies = || {
        let names = disk.list("segments").unwrap();
        names.into_iter().filter(|name| name.ends_with(".cold") || name.starts_with("next-")).collect::<Vec<_>>()
    };
    for last in 0.. {
        let asked = Cell::new(0);
        let watch = |_: &_| {
            asked.set(asked.get() + 1);
            if asked.get() > last { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        let retention = repo.retention().unwrap();
        match repo.sweep_watched(&retention, &[], &SweepLimits::default(), &watch) {
            Err(Error::Stopped) => assert_eq!(copies(), [""; 0], "stopped at call {last}"),
            swept => {
                assert!(swept.unwrap().objects > 0 && last > 10, "{last} calls");
                break;
            }
        }
    }
    assert_eq!(copies().len(), 1);
}

#[test]
fn a_store_that_is_told_not_to_collects_nothing() {
    for (by_option, by_repo) in [(false, true), (true, false)] {
        let disk = SimStorage::new();
        let repo = create(&disk, &tiny().collect(by_option));
        repo.set_collecting(by_repo);
        set(&repo, "last 1 refs/heads/*\n");
        let ids: Vec<CommitId> = (0..200).map(|number| commit(&repo, "main", number)).collect();
        assert_eq!(messages(&repo, &[ids[199]]).len(), 200);
    }
}

/// What a commit of the model is: its parents, and what its tree holds.
#[derive(Clone, Debug)]
struct ModelCommit {
    id: CommitId,
    parents: Vec<usize>,
    values: BTreeMap<String, String>,
}

/// A store beside a model of it, which keeps every commit that there ever was.
struct Modelled {
    disk: SimStorage,
    repo: Repo,
    commits: Vec<ModelCommit>,
    refs: BTreeMap<String, usize>,
    rules: Retention,
    random: u64,
}

impl Modelled {
    fn random(&mut self, below: usize) -> usize {
        self.random = self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.random >> 33) as usize % below
    }

    fn a_ref(&mut self) -> (String, usize) {
        let at = self.random(self.refs.len());
        self.refs.iter().nth(at).map(|(name, commit)| (name.clone(), *commit)).unwrap()
    }

    fn commit(&mut self) {
        let (name, head) = self.a_ref();
        let mut parents = vec![head];
        if self.random(4) == 0 {
            let other = self.a_ref().1;
            parents.extend((other != head).then_some(other));
        }
        let number = self.commits.len();
        let (key, value) =
            (format!("d{}/k{}", self.random(5), self.random(9)), format!("{number} {}", "x".repeat(self.random(300))));
        let mut values = self.commits[head].values.clone();
        let mut tree = self.repo.checkout(self.commits[head].id).unwrap();
        tree.set(&*key, &*value).unwrap();
        values.insert(key, value);
        let ids: Vec<CommitId> = parents.iter().map(|&parent| self.commits[parent].id).collect();
        let id = self.repo.commit_tree(&mut tree, &ids, &info(number)).unwrap();
        self.commits.push(ModelCommit { id, parents, values });
        point(&self.repo, &name, Some(id));
        self.refs.insert(name, number);
    }

    fn step(&mut self) {
        match self.random(20) {
            0 => {
                let (_, at) = self.a_ref();
                let name = format!("refs/{}/r{}", if self.random(2) == 0 { "heads" } else { "tags" }, self.random(6));
                point(&self.repo, &name, Some(self.commits[at].id));
                self.refs.insert(name, at);
            }
            1 if self.refs.len() > 1 => {
                let name = self.a_ref().0;
                point(&self.repo, &name, None);
                self.refs.remove(&name);
            }
            2 => {
                let patterns = ["refs/heads/*", "refs/tags/*", "refs/heads/r1", "*"];
                let pattern = patterns[self.random(4)];
                let commits = 1 + self.random(12);
                let keep = if self.random(4) == 0 { None } else { Some(format!("last {commits}").parse().unwrap()) };
                self.rules.set(pattern, keep);
                self.repo.set_retention(&self.rules).unwrap();
            }
            3 => self.sweep(),
            _ => self.commit(),
        }
    }

    /// Returns the commits that are to be there after a sweep, of those that were before.
    fn kept(&self, there: &BTreeSet<usize>) -> BTreeSet<usize> {
        let mut kept = BTreeSet::new();
        for (name, head) in &self.refs {
            let rule = self.rules.keep(name).to_string();
            if rule == "all" {
                let mut open = vec![*head];
                while let Some(at) = open.pop() {
                    if there.contains(&at) && kept.insert((at, true)) {
                        open.extend(&self.commits[at].parents);
                    }
                }
                continue;
            }
            let (mut at, mut left) = (Some(*head), rule.strip_prefix("last ").unwrap().parse::<usize>().unwrap());
            while let Some(number) = at.filter(|number| left > 0 && there.contains(number)) {
                kept.insert((number, false));
                (at, left) = (self.commits[number].parents.first().copied(), left - 1);
            }
        }
        kept.into_iter().map(|(number, _)| number).collect()
    }

    fn there(&self) -> BTreeSet<usize> {
        let is_there = |number: &usize| self.repo.backend().read(&self.commits[*number].id.into()).unwrap().is_some();
        (0..self.commits.len()).filter(is_there).collect()
    }

    /// Checks that a commit has its tree, and that what of its parents is not there is absent on purpose.
    fn check_commit(&self, number: usize, there: &BTreeSet<usize>) {
        let ModelCommit { id, values, parents } = &self.commits[number];
        let tree = self.repo.checkout(*id).unwrap();
        for (key, value) in values {
            assert_eq!(tree.get(&**key).unwrap().unwrap().as_ref(), value.as_bytes(), "{number} {key}");
        }
        for parent in parents.iter().filter(|parent| !there.contains(parent)) {
            let absent = self.repo.checkout(self.commits[*parent].id);
            assert!(matches!(absent, Err(Error::Absent { .. })), "{number} {parent}: {absent:?}");
        }
    }

    /// Checks what collections have left that the store began by itself: at least what the rules keep of what was there, as they
    /// were before and as they are.
    fn check_collected(&self, before: &BTreeSet<usize>, kept_before: &BTreeSet<usize>) -> BTreeSet<usize> {
        self.repo.wait_for_collection().unwrap();
        let there = self.there();
        let kept: BTreeSet<usize> = self.kept(before).intersection(kept_before).copied().collect();
        assert!(kept.is_subset(&there), "missing: {:?}", kept.difference(&there).collect::<Vec<_>>());
        there.iter().for_each(|&number| self.check_commit(number, &there));
        for head in self.refs.values().collect::<BTreeSet<_>>() {
            let listed = messages(&self.repo, &[self.commits[*head].id]);
            assert!(listed.contains(&head.to_string()));
        }
        there
    }

    /// Checks that questions about history, which use indexes, have the answers of the log.
    fn ask_history(&mut self) {
        let (head, other) = (self.a_ref().1, self.a_ref().1);
        let (head, other) = (self.commits[head].id, self.commits[other].id);
        if self.random(2) == 0 {
            self.repo.index_history(head).unwrap();
        }
        for _ in 0..6 {
            let path = format!("d{}/k{}", self.random(5), self.random(9));
            let found = self.repo.last_change(head, &*path).unwrap().map(|entry| entry.id);
            let listed = self.repo.log(&[head], LogOptions::default().paths(vec![path.parse().unwrap()])).next();
            assert_eq!(found, listed.map(|entry| entry.unwrap().id), "{path}");
        }
        let led_to: BTreeSet<CommitId> =
            self.repo.log(&[head], LogOptions::default()).map(|entry| entry.unwrap().id).collect();
        assert_eq!(self.repo.is_ancestor(other, head).unwrap(), led_to.contains(&other));
    }

    fn sweep(&mut self) {
        let kept = self.kept(&self.there());
        if self.random(2) == 0 {
            // With little room it goes in parts, as far as it comes.
            let room = self.random(50_000) as u64;
            self.disk.limit_space(Some(self.disk.bytes() + room));
            let limits = SweepLimits::default().recent_stays(self.random(2) == 0);
            let swept = self.repo.sweep(&[], &limits);
            assert!(matches!(swept, Ok(_) | Err(Error::NoRoom { .. } | Error::NoSpace { .. })), "{swept:?}");
            self.disk.limit_space(None);
        }
        if self.random(2) == 0 {
            // What is recent stays, whatever it is.
            let limits = SweepLimits::default().recent_stays(true).partial(self.random(2) == 0);
            self.repo.sweep(&[], &limits).unwrap();
            let there = self.there();
            assert!(there.is_superset(&kept), "missing: {:?}", kept.difference(&there).collect::<Vec<_>>());
            there.iter().for_each(|&number| self.check_commit(number, &there));
        }
        self.repo.sweep(&[], &SweepLimits::default()).unwrap();
        assert_eq!(self.there(), kept);
        kept.iter().for_each(|&number| self.check_commit(number, &kept));
        for head in self.refs.values().collect::<BTreeSet<_>>() {
            let listed: BTreeSet<String> = messages(&self.repo, &[self.commits[*head].id]).into_iter().collect();
            assert!(listed.iter().all(|text| kept.contains(&text.parse().unwrap())));
            assert!(listed.contains(&head.to_string()));
        }
        self.ask_history();
        // No row is of something that nothing names.
        let named: BTreeSet<_> = kept
            .iter()
            .flat_map(|&number| &self.commits[number].parents)
            .map(|&parent| self.commits[parent].id.oid())
            .collect();
        assert!(self.repo.backend().absent().unwrap().keys().all(|oid| named.contains(oid)));
    }
}

/// Makes a store of one commit, and the model of it.
fn modelled(disk: &SimStorage, options: &DiskOptions, seed: usize) -> Modelled {
    let repo = create(disk, options);
    let id = commit(&repo, "main", 0);
    let first = ModelCommit { id, parents: vec![], values: [("d0/n0".to_owned(), "0".to_owned())].into() };
    let refs = [("refs/heads/main".to_owned(), 0)].into();
    let (disk, rules) = (disk.clone(), Retention::default());
    Modelled { disk, repo, commits: vec![first], refs, rules, random: seed as u64 + 1 }
}

#[test]
fn stores_that_collect_by_themselves_keep_at_least_what_the_model_keeps() {
    let steps = std::env::var("BRISTLECONE_RETENTION_STEPS").map_or(step(300, 600), |steps| steps.parse().unwrap());
    let mut collections = 0;
    for (seed, options) in [tiny(), tiny_with_maps(), tiny_as_shipped()].into_iter().enumerate() {
        let options = options.collect(true);
        let disk = SimStorage::new();
        let mut model = modelled(&disk, &options, 10 + seed);
        let mut there = model.there();
        for step in 0..steps {
            let (made, mut kept) = (model.commits.len(), model.kept(&there));
            model.step();
            kept.extend(made..model.commits.len());
            there.extend(made..model.commits.len());
            there = model.check_collected(&there, &kept);
            if step % 200 == 199 {
                model.repo = Repo::memory();
                model.repo = open(&disk, &options);
            }
        }
        collections += model.repo.backend().sweeps();
        model.repo.wait_for_collection().unwrap();
        model.repo.set_collecting(false);
        model.sweep();
        drop(model);
        check(&disk, &options);
    }
    assert!(collections > step(15, 30), "{collections} collections");
}

#[test]
fn random_histories_under_random_rules_agree_with_the_model() {
    let steps = std::env::var("BRISTLECONE_RETENTION_STEPS").map_or(1200, |steps| steps.parse().unwrap());
    for (seed, options) in [tiny(), tiny_with_maps(), tiny_as_shipped()].into_iter().enumerate() {
        let disk = SimStorage::new();
        let mut model = modelled(&disk, &options, seed);
        for step in 0..steps {
            model.step();
            if step % 300 == 299 {
                model.repo = Repo::memory();
                model.repo = open(&disk, &options);
            }
        }
        model.sweep();
        drop(model);
        check(&disk, &options);
    }
}
