//! Stores copied into each other: the same ids in the same format, the same trees in another one.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use bristlecone::{
    Backend, Commit, CommitId, Durability, EntryKind, Expected, Format, Info, LogOptions, Oid, PlainTree, RefMove,
    RefTarget, Signature, Tag, TreeId, Zone,
    disk::{DiskBackend, DiskOptions},
};
use bristlecone_any::{
    AnyFormat, AnyRepo, Error, ErrorKind, OpenOptions, Place,
    copy::{self, CHECKPOINTS, CopyError, CopyOptions, CopyReport, Loss, LossKind, RefChange},
};
use bristlecone_needs::needs;
use bristlecone_testkit::{
    generate::Rng,
    git::{Shapes, shapes},
    sim::{Policy, SimStorage},
};

mod cut;
mod edges;
mod shallow;
mod wrapped;

fn format(name: &str) -> AnyFormat {
    AnyFormat::standard(name).unwrap()
}

fn in_memory(format: &AnyFormat) -> AnyRepo {
    OpenOptions::new().format(format.clone()).open(Place::Memory).unwrap()
}

fn copied(from: &AnyRepo, to: &AnyRepo) -> CopyReport {
    copy::copy(from, to, &CopyOptions::default(), &mut |_| {}).unwrap()
}

/// Values short and long, in directories that come and go; a value takes the place of a directory and the other way round.
fn edit(tree: &mut bristlecone_any::Tree, rng: &mut Rng, kinds: &[EntryKind]) {
    for _ in 0..=rng.below(6) {
        let depth = 1 + rng.index(4);
        let path: Vec<String> = (0..depth).map(|_| format!("s{}", rng.below(5))).collect();
        let path = path.join("/");
        if rng.chance(1, 4) {
            tree.remove(&*path).unwrap();
            continue;
        }
        let bytes = if rng.chance(1, 8) { 5000 } else { rng.index(80) };
        let value = rng.bytes(bytes);
        if tree.contains_tree(&*path).unwrap() {
            tree.remove(&*path).unwrap();
        }
        tree.set_kind(&*path, *rng.pick(kinds), &value).unwrap();
    }
    // No format is asked for a tree without entries.
    tree.set("always", rng.bytes(4)).unwrap();
}

/// Adds commits on a few branches, some of them merges.
fn grow(repo: &AnyRepo, rng: &mut Rng, commits: usize, first: usize) {
    let kinds: &[EntryKind] = match repo.format().holds(EntryKind::Link) {
        true => &[EntryKind::Value, EntryKind::Executable, EntryKind::Link],
        false => &[EntryKind::Value],
    };
    let names = ["main", "side", "deep/er"];
    for number in first..first + commits {
        let branch = repo.branch(names[rng.index(3)]).unwrap();
        let mut tree = branch.tree().unwrap();
        edit(&mut tree, rng, kinds);
        let mut parents: Vec<CommitId> = tree.origin().into_iter().collect();
        let other = repo.branch(names[rng.index(3)]).unwrap().head().unwrap();
        if let Some(other) = other.filter(|other| rng.chance(1, 4) && !parents.is_empty() && !parents.contains(other)) {
            parents.push(other);
        }
        let who = Signature::new("Ann <ann@example.org>", 1_700_000_000 + number as i64);
        let info = Info::message(format!("commit {number}")).by(who).durability(Durability::None);
        branch.commit_over(parents.first().copied(), &mut tree, &parents, &info).unwrap();
    }
}

type Told = BTreeMap<Vec<u8>, (PlainTree, BTreeSet<Vec<u8>>, Signature)>;

/// What a history tells, whatever its ids are: by messages the trees, the messages of the parents, and who.
fn told(repo: &AnyRepo) -> Told {
    let heads: Vec<CommitId> =
        repo.branches().unwrap().iter().map(|name| repo.branch(name).unwrap().head().unwrap().unwrap()).collect();
    let message = |id: &CommitId| repo.read_commit(*id).unwrap().message;
    let log = repo.log(&heads, LogOptions::default()).map(Result::unwrap);
    let each = log.map(|entry| {
        let tree = repo.checkout(entry.id).unwrap().to_plain().unwrap();
        let parents = entry.commit.parents.iter().map(message).collect();
        (entry.commit.message, (tree, parents, entry.commit.author))
    });
    each.collect()
}

/// The refs with the ids of what they name.
fn refs(repo: &AnyRepo) -> BTreeMap<String, String> {
    let refs = repo.backend().list_refs("refs/").unwrap().into_iter();
    let shown = refs.map(|(name, target)| match target {
        RefTarget::Object(at) => (name, at.oid.to_string()),
        RefTarget::Symbolic(to) => (name, to),
    });
    shown.collect()
}

fn objects(repo: &AnyRepo) -> BTreeMap<Oid, Vec<u8>> {
    let mut all = BTreeMap::new();
    let mut each = |oid, object: &bristlecone::Object<'_>| {
        all.insert(oid, object.body().to_vec());
        Ok(())
    };
    repo.backend().each_object(&mut each, &mut |damage| panic!("{damage:?}")).unwrap();
    all
}

#[test]
fn the_same_format_keeps_every_id_and_brings_what_is_new() {
    for name in ["native", "git", "tezos"] {
        let dir = tempfile::tempdir().unwrap();
        let (from, between) = (in_memory(&format(name)), AnyRepo::create(dir.path(), format(name)).unwrap());
        let (mut rng, mut first) = (Rng::new(7), 0);
        for part in [1, 40, 300] {
            grow(&from, &mut rng, part, first);
            first += part;
            let report = copied(&from, &between);
            assert!(!report.converted && report.is_whole() && report.objects > 0, "{name}: {report:?}");
            assert_eq!(report.commits, part as u64, "{name}");
            assert_eq!(refs(&between), refs(&from), "{name}");
            let again = copied(&from, &between);
            assert_eq!((again.commits, again.objects, again.bytes), (0, 0, 0), "{name}");
            assert!(again.refs.iter().all(|one| one.change == RefChange::Same));
        }
        let to = in_memory(&format(name));
        copied(&between, &to);
        // What led to no ref stays behind; all else is the same, byte for byte.
        let (all, here) = (objects(&from), objects(&to));
        assert!(here.iter().all(|(oid, body)| all[oid] == *body) && here.len() > 600, "{name}: {}", here.len());
        assert!(told(&to) == told(&from), "{name}");
    }
}

#[test]
fn another_format_keeps_every_tree_whole_or_part_by_part() {
    let other = |key, value| format("native").set_option(key, value).unwrap().unwrap();
    let sha256 = format("git").set_option("hash", "sha256").unwrap().unwrap();
    for (one, other) in [
        (format("native"), format("git")),
        (format("git"), format("native")),
        (format("tezos"), format("native")),
        (format("tezos"), format("git")),
        (format("git"), sha256),
        (format("native"), other("inline", "0")),
        (other("split", "off"), format("native")),
    ] {
        let what = format!("{} to {} ({})", one.name(), other.name(), other.options());
        let (from, parts) = (in_memory(&one), in_memory(&other));
        let (mut rng, mut first) = (Rng::new(11), 0);
        for part in [1, 30, 60] {
            grow(&from, &mut rng, part, first);
            first += part;
            let report = copied(&from, &parts);
            assert!(report.converted && report.is_whole() && report.losses.is_empty(), "{what}: {report:?}");
            assert_eq!(report.commits, part as u64, "{what}");
            assert!(told(&parts) == told(&from), "{what}");
            assert_eq!(copied(&from, &parts).commits, 0, "{what}");
        }
        let whole = in_memory(&other);
        copied(&from, &whole);
        assert_eq!(refs(&whole), refs(&parts), "{what}");
        // There and back, no id has changed, but where parents are kept in another order.
        if one.name() != "tezos" {
            let back = in_memory(&one);
            copied(&parts, &back);
            assert_eq!(refs(&back), refs(&from), "{what}");
        }
    }
}

#[test]
fn what_a_conversion_knew_may_be_lost() {
    let dir = tempfile::tempdir().unwrap();
    let (from, to) = (in_memory(&format("tezos")), AnyRepo::create(dir.path(), format("native")).unwrap());
    grow(&from, &mut Rng::new(3), 20, 0);
    assert_eq!(copied(&from, &to).commits, 20);
    let (before, stored) = (refs(&to), objects(&to));
    let derived = dir.path().join(".bristlecone/derived");
    let maps = std::fs::read_dir(&derived).unwrap().map(|entry| entry.unwrap().path());
    let maps: Vec<_> = maps.filter(|path| path.to_str().unwrap().contains("copy-map")).collect();
    assert_eq!(maps.len(), 1);
    // Torn, and gone.
    std::fs::write(&maps[0], b"torn").unwrap();
    assert_eq!(copied(&from, &to).commits, 20, "all is converted again");
    assert_eq!(copied(&from, &to).commits, 0, "and known again");
    std::fs::remove_file(&maps[0]).unwrap();
    let report = copied(&from, &to);
    assert!(report.commits == 20 && report.refs.iter().all(|one| one.change == RefChange::Same), "{report:?}");
    assert!(refs(&to) == before && objects(&to) == stored, "the same commits are made of the same ones");
}

#[test]
fn refs_move_forward_only_unless_forced_and_the_others_go_over() {
    for converts in [false, true] {
        let from = in_memory(&format("native"));
        let to = in_memory(&format(if converts { "git" } else { "native" }));
        super::commit(&from, "main", &[("a", "1")]);
        super::commit(&from, "side", &[("b", "1")]);
        copied(&from, &to);
        // Both go on at the copy's own main; the original's goes on elsewhere.
        super::commit(&to, "main", &[("theirs", "1")]);
        super::commit(&from, "main", &[("ours", "1")]);
        super::commit(&from, "side", &[("b", "2")]);
        let options = CopyOptions::default();
        let planned = copy::copy(&from, &to, &options.clone().dry_run(true), &mut |_| {}).unwrap();
        let before = refs(&to);
        let report = copy::copy(&from, &to, &options, &mut |_| {}).unwrap();
        assert!(!report.is_whole());
        let changes: Vec<_> = report.refs.iter().map(|one| (&*one.name, one.change)).collect();
        let expected = [("refs/heads/main", RefChange::Kept), ("refs/heads/side", RefChange::Moved)];
        assert_eq!(changes, expected, "converts: {converts}");
        assert_eq!((planned.commits, planned.refs[1].change), (2, RefChange::Moved));
        // A commit of the copy's own was converted from nothing.
        assert_eq!(planned.refs[0].change, if converts { RefChange::Open } else { RefChange::Kept });
        let after = refs(&to);
        assert!(after["refs/heads/main"] == before["refs/heads/main"]);
        assert!(after["refs/heads/side"] != before["refs/heads/side"]);
        let report = copy::copy(&from, &to, &options.force(true), &mut |_| {}).unwrap();
        assert!(report.is_whole());
        assert!(told(&to) == told(&from), "converts: {converts}");
    }
}

#[test]
fn chosen_refs_go_over_alone_and_head_follows_where_it_is_free() {
    let (from, to) = (in_memory(&format("native")), in_memory(&format("native")));
    for name in ["main", "topic/one", "topic/two"] {
        super::commit(&from, name, &[(name, "1")]);
    }
    from.set_head("topic/two").unwrap();
    let only = |pattern: &str| CopyOptions::default().refs(vec![pattern.to_owned()]);
    copy::copy(&from, &to, &only("topic/one"), &mut |_| {}).unwrap();
    assert_eq!(to.branches().unwrap(), ["topic/one"]);
    assert_eq!(to.head().unwrap(), None, "what HEAD would name is not there");
    let report = copy::copy(&from, &to, &only("refs/heads/topic/*"), &mut |_| {}).unwrap();
    assert_eq!((to.branches().unwrap().len(), report.head.as_deref()), (2, Some("refs/heads/topic/two")));
    from.set_head("main").unwrap();
    assert_eq!(copied(&from, &to).head, None, "it names a branch with commits");
    let error = copy::copy(&from, &to, &only("nothing"), &mut |_| {}).unwrap_err();
    assert!(matches!(&error, Error::Copy(CopyError::NoRef { pattern, .. }) if pattern == "nothing"), "{error:?}");
    assert_eq!(error.kind(), ErrorKind::NotFound);
    let error = copy::copy(&in_memory(&format("git")), &to, &CopyOptions::default(), &mut |_| {}).unwrap_err();
    assert!(matches!(error, Error::Copy(CopyError::Nothing { .. })), "{error:?}");
    // One that is detached goes over as it is.
    let fresh = in_memory(&format("git"));
    from.detach_head(from.branch("topic/one").unwrap().head().unwrap().unwrap()).unwrap();
    copied(&from, &fresh);
    let Some(RefTarget::Object(at)) = fresh.head().unwrap() else { panic!("{:?}", fresh.head()) };
    assert_eq!(Some(at.oid), fresh.branch("topic/one").unwrap().head().unwrap().map(|id| id.oid()));
}

#[test]
fn what_was_read_of_the_refs_first_is_what_is_copied() {
    for name in ["native", "git"] {
        let (from, to) = (in_memory(&format("native")), in_memory(&format(name)));
        grow(&from, &mut Rng::new(5), 20, 0);
        let before = told(&from);
        let mut number = 100;
        let report = copy::copy(&from, &to, &CopyOptions::default(), &mut |_| {
            grow(&from, &mut Rng::new(6), 1, number);
            number += 1;
        });
        assert!(number > 100 && report.unwrap().is_whole());
        assert!(told(&to) == before, "{name}");
    }
}

#[test]
fn what_a_format_cannot_keep_is_counted_with_the_first_example() {
    let (from, to) = (in_memory(&format("native")), in_memory(&format("tezos")));
    let main = from.branch("main").unwrap();
    let mut tree = from.tree();
    let info = Info::message("nothing yet").by(Signature::new("Ann", 1));
    main.commit(&mut tree, &info).unwrap();
    tree.set("plain", "1").unwrap();
    tree.set_kind("bin/run", EntryKind::Executable, "#!").unwrap();
    tree.set_kind("bin/stop", EntryKind::Executable, "#!").unwrap();
    tree.set_kind("link", EntryKind::Link, "plain").unwrap();
    tree.set_foreign("module", Oid::from_array([7; 32])).unwrap();
    let ann = Signature { zone: Zone::from_minutes(60), ..Signature::new("Ann", 2) };
    let info = Info::message("all of it").author(ann).committer(Signature::new("Carl", 3));
    let info = info.header("encoding", "latin1").header("gpgsig", "signed");
    let lossy = main.commit(&mut tree, &info).unwrap();
    let other = super::commit(&from, "other", &[("other", "1")]);
    let who = || Info::message("a merge").by(Signature::new("Ann", 4));
    main.commit_with_parents(&mut tree, &[lossy, other.oid.into()], &who()).unwrap();
    let tag = Tag {
        target: lossy.into(),
        kind: bristlecone::Kind::Commit,
        name: b"v1".to_vec(),
        tagger: None,
        headers: Vec::new(),
        message: b"one\n".to_vec(),
    };
    let tag = from.write_tag(&tag, Durability::None).unwrap();
    let value = from.write_value(&mut &[1; 5000][..]).unwrap();
    drop(value);
    let made = |name: &str, to: RefTarget| RefMove { name: name.to_owned(), expected: Expected::Any, to: Some(to) };
    let root = from.read_commit(lossy).unwrap().tree;
    let moves = [made("refs/tags/v1", tag.into()), made("refs/odd/tree", RefTarget::Object(root.into()))];
    from.move_refs(&moves, Durability::None).unwrap();

    let strict = CopyOptions::default().strict(true);
    let error = copy::copy(&from, &to, &strict, &mut |_| {}).unwrap_err();
    let Error::Copy(CopyError::Losses { losses: foreseen, .. }) = &error else { panic!("{error:?}") };
    assert!(error.to_string().contains("executable bits: 2, first bin/run in commit"), "{error}");
    assert!(objects(&to).is_empty() && refs(&to).is_empty(), "nothing was written");

    let report = copied(&from, &to);
    assert_eq!(&report.losses, foreseen);
    let lost = |kind| report.losses.iter().find(|loss| loss.kind == kind).map(|loss| (loss.count, &*loss.place));
    for (kind, count, place) in [
        (LossKind::Executable, 2, "bin/run"),
        (LossKind::Link, 1, "link"),
        (LossKind::Foreign, 1, "module"),
        (LossKind::EmptyCommit, 1, ""),
        (LossKind::Signature, 1, ""),
        (LossKind::Header, 1, "encoding"),
        (LossKind::Committer, 1, ""),
        (LossKind::Zone, 1, ""),
        (LossKind::ParentOrder, 1, ""),
        (LossKind::Tag, 1, "refs/tags/v1"),
        (LossKind::Ref, 1, "refs/odd/tree"),
    ] {
        assert_eq!(lost(kind), Some((count, place)), "{kind:?}");
    }
    assert_eq!(report.losses.len(), 11, "{:?}", report.losses);
    let first = report.losses.iter().find(|loss| loss.kind == LossKind::Link).unwrap();
    assert_eq!(first.commit, Some(lossy));
    assert!(!report.is_whole(), "a ref was left out");
    let tree = to.branch("main").unwrap().tree().unwrap();
    assert_eq!(tree.get("link").unwrap().as_deref(), Some(&b"plain"[..]));
    assert_eq!(tree.kind("bin/run").unwrap(), Some(EntryKind::Value));
    assert_eq!(tree.kind("module").unwrap(), None);
    let made = to.read_commit(to.branch("main").unwrap().head().unwrap().unwrap()).unwrap();
    assert_eq!((made.parents.len(), refs(&to).len()), (2, 3));
    assert_eq!(copied(&from, &to).commits, 0, "what follows a commit without entries is known");
}

#[test]
fn names_and_dates_that_git_refuses_are_left_out_and_named() {
    let (from, to) = (in_memory(&format("native")), in_memory(&format("git")));
    let main = from.branch("main").unwrap();
    let mut tree = from.tree();
    tree.set(".git/config", "x").unwrap();
    tree.set("a/GIT~1", "x").unwrap();
    tree.set("a/kept", "x").unwrap();
    let odd = Signature { zone: Zone::from_bytes(b"+51800"), ..Signature::new("A < B", -5) };
    main.commit(&mut tree, &Info::message(b"zero\0byte".to_vec()).by(odd).header("a b", "c")).unwrap();
    let report = copied(&from, &to);
    let lost: BTreeMap<_, _> = report.losses.iter().map(|loss| (loss.kind, (loss.count, &*loss.place))).collect();
    let expected = [
        (LossKind::Name, (2, ".git")),
        (LossKind::Header, (1, "a b")),
        (LossKind::Ident, (2, "A < B")),
        (LossKind::Zone, (1, "")),
        (LossKind::Date, (2, "")),
        (LossKind::Message, (1, "")),
    ];
    assert_eq!(lost, BTreeMap::from(expected));
    let tree = to.branch("main").unwrap().tree().unwrap();
    assert_eq!(tree.walk_all("").unwrap().count(), 2);
    // A change of what was left out changes nothing, and what comes in its place is kept.
    let mut tree = main.tree().unwrap();
    tree.set(".git/config", "y").unwrap();
    tree.remove("a/GIT~1").unwrap();
    main.commit(&mut tree, &Info::unsigned("two")).unwrap();
    let report = copied(&from, &to);
    assert_eq!(report.losses.iter().map(|loss| (loss.kind, loss.count)).collect::<Vec<_>>(), [(LossKind::Name, 1)]);
    assert_eq!(to.branch("main").unwrap().tree().unwrap().walk_all("").unwrap().count(), 2);
}

/// Lets the last commit name a root that is nowhere.
fn broken(from: &AnyRepo) -> RefMove {
    let main = from.branch("main").unwrap().head().unwrap().unwrap();
    let commit =
        Commit { tree: TreeId::new(Oid::from_array([9; 32])), parents: vec![main], ..from.read_commit(main).unwrap() };
    let bad = from.write_commit(&commit, 1000, Durability::None).unwrap();
    RefMove { name: "refs/heads/main".to_owned(), expected: Expected::Any, to: Some(bad.into()) }
}

#[test]
fn a_copy_that_was_stopped_is_kept_by_refs_of_its_own_and_goes_on() {
    for name in ["native", "tezos"] {
        let dir = tempfile::tempdir().unwrap();
        let (from, to) = (in_memory(&format("tezos")), AnyRepo::create(dir.path(), format(name)).unwrap());
        grow(&from, &mut Rng::new(1), 600, 0);
        let good = from.backend().get_ref("refs/heads/main").unwrap();
        from.move_refs(&[broken(&from)], Durability::None).unwrap();
        let options = CopyOptions::default().checkpoint_bytes(1000);
        let error = copy::copy(&from, &to, &options, &mut |_| {}).unwrap_err();
        assert!(matches!(error, Error::Store(bristlecone::Error::Missing { .. })), "{error:?}");
        let saved = to.backend().list_refs("").unwrap();
        assert!(!saved.is_empty() && saved.keys().all(|name| name.starts_with(CHECKPOINTS)), "{saved:?}");
        for target in saved.values() {
            let RefTarget::Object(at) = target else { panic!("{target:?}") };
            to.checkout(at.oid.into()).unwrap().to_plain().unwrap();
        }
        // They are no part of the store.
        let error = copy::copy(&to, &in_memory(&format(name)), &options, &mut |_| {}).unwrap_err();
        assert!(matches!(error, Error::Copy(CopyError::Nothing { .. })), "{error:?}");
        let back = RefMove { name: "refs/heads/main".to_owned(), expected: Expected::Any, to: good };
        from.move_refs(&[back], Durability::None).unwrap();
        let report = copy::copy(&from, &to, &options, &mut |_| {}).unwrap();
        assert!(report.commits < 400, "{name}: {report:?}");
        assert!(to.backend().list_refs(CHECKPOINTS).unwrap().is_empty());
        assert!(told(&to) == told(&from), "{name}");
    }
}

/// The smallest segments, and no threads, so that every run makes the same calls.
fn tiny() -> DiskOptions {
    DiskOptions::default().segment_bytes(1 << 14).maps(false).background(false)
}

#[test]
fn a_power_cut_at_any_call_leaves_whole_commits_and_the_next_copy_goes_on() {
    for (one, other, commits) in [("tezos", "native", 25), ("native", "native", 300)] {
        let (one, other) = (format(one), format(other));
        let from = in_memory(&one);
        grow(&from, &mut Rng::new(2), commits, 0);
        let expected = told(&from);
        let over = |backend: Arc<dyn Backend>| in_memory(&other).wrapped(|_| backend);
        let disk = SimStorage::new();
        let made = DiskBackend::create(Arc::new(disk.clone()), other.tag(), tiny()).unwrap();
        disk.keep_moments();
        let began = disk.calls();
        let options = CopyOptions::default().checkpoint_bytes(2000);
        copy::copy(&from, &over(Arc::new(made)), &options, &mut |_| {}).unwrap();
        let (ended, mut resumed) = (disk.calls(), 0);
        assert!(ended - began > 20, "{began} to {ended}");
        for call in began..=ended {
            let policy = Policy::ALL[call as usize % Policy::ALL.len()];
            let after: Arc<SimStorage> = Arc::new(disk.moment(call).unwrap().reboot(call, policy));
            let opened = DiskBackend::open(after, Some(other.name()), tiny(), false).unwrap();
            let to = over(Arc::new(opened));
            for target in to.backend().list_refs("refs/").unwrap().values() {
                let RefTarget::Object(at) = target else { panic!("{target:?}") };
                to.checkout(at.oid.into()).unwrap().to_plain().unwrap();
            }
            let report = copy::copy(&from, &to, &options, &mut |_| {}).unwrap();
            resumed += u64::from((1..commits as u64).contains(&report.commits));
            assert!(told(&to) == expected, "{} after call {call}, {policy:?}", other.name());
            assert!(to.backend().list_refs(CHECKPOINTS).unwrap().is_empty());
        }
        assert!(resumed > 3, "only {resumed} copies went on from what was there");
    }
}

#[needs(git)]
#[test]
fn every_shape_of_git_is_converted_or_counted() {
    let dir = tempfile::tempdir().unwrap();
    let small = Shapes { linear: 10, wide: 100, deep: 20, refs: 10, ..Shapes::default() };
    let git = shapes(dir.path().join("git"), &small);
    let from = AnyRepo::open(Place::Git(git.dir().to_owned())).unwrap();
    // By Git's own way: nothing is lost.
    let native = in_memory(&format("native"));
    let report = copy::copy(&from, &native, &CopyOptions::default().strict(true), &mut |_| {}).unwrap();
    assert!(report.converted && report.losses.is_empty() && report.is_whole(), "{report:?}");
    // And back, into a repository that is made.
    let place = Place::Git(dir.path().join("back"));
    let (back, made) = copy::open_or_make(&place, &native, None, &OpenOptions::new()).unwrap();
    assert!(made && copied(&native, &back).is_whole());
    assert_eq!(refs(&back), refs(&from));
    for (other, kinds) in [
        (
            format("git").set_option("hash", "sha256").unwrap().unwrap(),
            &[LossKind::Foreign, LossKind::EmptyDir, LossKind::Signature, LossKind::Ref][..],
        ),
        (
            format("tezos"),
            &[
                LossKind::Foreign,
                LossKind::EmptyDir,
                LossKind::Executable,
                LossKind::Link,
                LossKind::Zone,
                LossKind::Tag,
            ][..],
        ),
    ] {
        let to = in_memory(&other);
        let report = copied(&from, &to);
        let found: Vec<_> = report.losses.iter().map(|loss| loss.kind).collect();
        for kind in kinds {
            assert!(found.contains(kind), "{}: {kind:?} is not in {found:?}", other.name());
        }
        let plain = |repo: &AnyRepo| {
            let mut values = BTreeMap::new();
            for entry in repo.branch("main").unwrap().tree().unwrap().walk_values("").unwrap() {
                let (path, entry) = entry.unwrap();
                if entry.kind().has_contents() {
                    values.insert(path, entry.contents().unwrap().unwrap().to_vec());
                }
            }
            values
        };
        assert!(plain(&to) == plain(&from) && plain(&to).len() > 100, "{}", other.name());
    }
}
