//! What few copies meet: tags, symbolic refs, commits without entries, what was swept, and what is durable when.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};

use bristlecone::{Batch, Error as StoreError, Kind, Location, Sink, SweepLimits, pass_backend};

use super::*;

fn moved(name: &str, to: impl Into<RefTarget>) -> RefMove {
    RefMove { name: name.to_owned(), expected: Expected::Any, to: Some(to.into()) }
}

#[test]
fn tags_trees_and_symbolic_refs_go_over_with_what_is_below_them() {
    for name in ["native", "git"] {
        let (from, to) = (in_memory(&format(name)), in_memory(&format(name)));
        let head = crate::commit(&from, "main", &[("a", "1")]);
        let other = crate::commit(&from, "other", &[("deep/b", "2")]);
        let tag = |name: &[u8], target, kind| {
            let (tagger, headers, message) = (None, Vec::new(), b"one\n".to_vec());
            let tag = Tag { target, kind, name: name.to_vec(), tagger, headers, message };
            from.write_tag(&tag, Durability::None).unwrap()
        };
        let one = tag(b"v1", head, Kind::Commit);
        let two = tag(b"v2", one.into(), Kind::Tag);
        let root = from.read_commit(CommitId::new(other.oid)).unwrap().tree;
        let moves = [
            moved("refs/tags/v1", one),
            moved("refs/tags/v2", two),
            moved("refs/odd/tree", RefTarget::Object(root.into())),
            moved("refs/heads/alias", RefTarget::Symbolic("refs/heads/main".to_owned())),
            RefMove { name: "refs/heads/other".to_owned(), expected: Expected::Any, to: None },
        ];
        from.move_refs(&moves, Durability::None).unwrap();
        assert_eq!(copied(&from, &to).commits, 1, "{name}");
        assert_eq!(refs(&to), refs(&from), "{name}");
        let read = to.read_tag(two).unwrap();
        assert_eq!((read.kind, read.target.oid), (Kind::Tag, one.oid()), "{name}");
        assert_eq!(to.read_tag(one).unwrap().target.oid, head.oid, "{name}");
        let all = objects(&to);
        assert_eq!(all.len(), objects(&from).len() - 1, "{name}: all but the commit that no ref leads to");
    }
}

#[test]
fn what_refs_led_to_at_the_beginning_is_copied_whatever_is_swept_meanwhile() {
    let (from, to) = (in_memory(&format("native")), in_memory(&format("native")));
    // More than are copied in one call.
    let heads: Vec<_> =
        (0..300).map(|number| crate::commit(&from, "main", &[("a", number.to_string().as_str())])).collect();
    let mut calls = 0;
    let report = copy::copy(&from, &to, &CopyOptions::default(), &mut |_| {
        calls += 1;
        let gone = RefMove { name: "refs/heads/main".to_owned(), expected: Expected::Any, to: None };
        from.move_refs(&[gone], Durability::None).unwrap();
        from.sweep(&[], &SweepLimits::default()).unwrap();
    });
    assert_eq!((report.unwrap().commits, calls), (300, 2));
    assert_eq!(to.branch("main").unwrap().head().unwrap().unwrap().oid(), heads[299].oid);
}

#[test]
fn what_follows_a_commit_without_entries_follows_its_parents() {
    let (from, to) = (in_memory(&format("native")), in_memory(&format("tezos")));
    let first = crate::commit(&from, "main", &[("a", "1")]);
    let main = from.branch("main").unwrap();
    let mut tree = main.tree().unwrap();
    tree.remove("a").unwrap();
    main.commit(&mut tree, &Info::message("nothing")).unwrap();
    crate::commit(&from, "main", &[("b", "2")]);
    let report = copied(&from, &to);
    assert_eq!((report.commits, report.losses.len(), report.losses[0].kind), (3, 1, LossKind::EmptyCommit));
    let head = to.branch("main").unwrap().head().unwrap().unwrap();
    let parents = to.read_commit(head).unwrap().parents;
    assert_eq!(parents.len(), 1, "the one before the commit without entries");
    let message = |repo: &AnyRepo, id| repo.read_commit(id).unwrap().message;
    assert_eq!(message(&to, parents[0]), message(&from, CommitId::new(first.oid)));
}

#[test]
fn a_commit_without_entries_is_counted_by_the_copy_that_leaves_it_out() {
    let dir = tempfile::tempdir().unwrap();
    let (from, to) = (in_memory(&format("native")), AnyRepo::create(dir.path(), format("tezos")).unwrap());
    crate::commit(&from, "main", &[("a", "1")]);
    let main = from.branch("main").unwrap();
    let mut tree = main.tree().unwrap();
    tree.remove("a").unwrap();
    main.commit(&mut tree, &Info::message("nothing")).unwrap();
    let counts = |report: CopyReport| (report.commits, report.losses.len());
    assert_eq!(counts(copied(&from, &to)), (2, 1));
    assert_eq!(counts(copied(&from, &to)), (0, 0));
    let strict = CopyOptions::default().strict(true).dry_run(true);
    assert_eq!(counts(copy::copy(&from, &to, &strict, &mut |_| {}).unwrap()), (0, 0));
    crate::commit(&from, "main", &[("b", "2")]);
    assert_eq!(counts(copied(&from, &to)), (1, 0));
    let head = to.branch("main").unwrap().head().unwrap().unwrap();
    assert_eq!(to.read_commit(head).unwrap().parents.len(), 1);
    // Where what it stood for is gone, all counts anew.
    let gone = |name: String| RefMove { name, expected: Expected::Any, to: None };
    let moves: Vec<RefMove> = refs(&to).into_keys().map(gone).chain([gone("HEAD".to_owned())]).collect();
    to.move_refs(&moves, Durability::None).unwrap();
    assert!(to.sweep(&[], &SweepLimits::default()).unwrap().objects > 0);
    assert_eq!(counts(copied(&from, &to)), (3, 1));
}

#[test]
fn what_was_converted_and_swept_is_converted_again() {
    let (from, to) = (in_memory(&format("tezos")), in_memory(&format("native")));
    grow(&from, &mut Rng::new(4), 20, 0);
    copied(&from, &to);
    let gone = |name: String| RefMove { name, expected: Expected::Any, to: None };
    let moves: Vec<RefMove> = refs(&to).into_keys().map(gone).chain([gone("HEAD".to_owned())]).collect();
    to.move_refs(&moves, Durability::None).unwrap();
    assert!(to.sweep(&[], &SweepLimits::default()).unwrap().objects > 20);
    assert_eq!(copied(&from, &to).commits, 20);
    assert!(told(&to) == told(&from));
}

#[test]
fn a_stopped_conversion_goes_on_without_its_derived_files() {
    let dir = tempfile::tempdir().unwrap();
    let (from, to) = (in_memory(&format("tezos")), AnyRepo::create(dir.path(), format("native")).unwrap());
    for number in 0..200 {
        crate::commit(&from, "main", &[("a", number.to_string().as_str())]);
    }
    let good = from.backend().get_ref("refs/heads/main").unwrap();
    from.move_refs(&[broken(&from)], Durability::None).unwrap();
    let options = CopyOptions::default().checkpoint_bytes(50);
    copy::copy(&from, &to, &options, &mut |_| {}).unwrap_err();
    for entry in std::fs::read_dir(dir.path().join(".bristlecone/derived")).unwrap() {
        let path = entry.unwrap().path();
        if path.to_str().unwrap().contains("copy-map") {
            std::fs::remove_file(path).unwrap();
        }
    }
    from.move_refs(
        &[RefMove { name: "refs/heads/main".to_owned(), expected: Expected::Any, to: good }],
        Durability::None,
    )
    .unwrap();
    let report = copy::copy(&from, &to, &options, &mut |_| {}).unwrap();
    assert!(report.commits < 150, "{report:?}");
    assert!(told(&to) == told(&from));
}

/// A backend whose refs are kept apart from its objects: a ref that moves to what no flush followed may outlive it.
#[derive(Debug)]
struct Apart {
    inner: Arc<dyn Backend>,
    unflushed: AtomicBool,
    checkpoints: AtomicU32,
}

impl Backend for Apart {
    fn capabilities(&self) -> bristlecone::Capabilities {
        bristlecone::Capabilities { persistent: true, several_refs: false, ..self.inner.capabilities() }
    }

    fn append(&self, batch: Batch, moves: &[RefMove], durability: Durability) -> Result<Location, StoreError> {
        if moves.iter().any(|wanted| wanted.name.starts_with(CHECKPOINTS) && wanted.to.is_some()) {
            assert!(!self.unflushed.load(Relaxed), "{moves:?} leads to what may not be durable");
            self.checkpoints.fetch_add(1, Relaxed);
        }
        self.unflushed.fetch_or(!batch.is_empty(), Relaxed);
        self.inner.append(batch, moves, durability)
    }

    fn append_keeping(&self, batch: &mut Batch) -> Result<Location, StoreError> {
        self.unflushed.store(true, Relaxed);
        self.inner.append_keeping(batch)
    }

    fn append_many(
        &self,
        batches: Vec<(Batch, Vec<RefMove>)>,
        durability: Durability,
    ) -> Vec<Result<Location, StoreError>> {
        batches.into_iter().map(|(batch, moves)| self.append(batch, &moves, durability)).collect()
    }

    fn flush(&self) -> Result<(), StoreError> {
        self.unflushed.store(false, Relaxed);
        self.inner.flush()
    }

    pass_backend! {
        inner: name, snapshot, read, locate, position, sweeps, sweep, get_ref, list_refs, shallow, promised_to,
        each_object, each_with_prefix, clear_caches, stats, read_derived, write_derived
    }
}

#[test]
fn what_was_copied_so_far_is_durable_before_refs_lead_to_it() {
    for name in ["native", "tezos"] {
        let from = in_memory(&format("tezos"));
        grow(&from, &mut Rng::new(8), 300, 0);
        let mut apart = None;
        let to = in_memory(&format(name)).wrapped(|inner| {
            let backend = Arc::new(Apart { inner, unflushed: false.into(), checkpoints: 0.into() });
            apart = Some(backend.clone());
            backend
        });
        copy::copy(&from, &to, &CopyOptions::default().checkpoint_bytes(1000), &mut |_| {}).unwrap();
        assert!(apart.unwrap().checkpoints.load(Relaxed) > 1, "{name}");
        assert!(told(&to) == told(&from), "{name}");
    }
}

#[test]
fn closing_makes_durable_what_is_around_the_backend() {
    let mut apart = None;
    let repo = in_memory(&format("native")).wrapped(|inner| {
        let backend = Arc::new(Apart { inner, unflushed: false.into(), checkpoints: 0.into() });
        apart = Some(backend.clone());
        backend
    });
    let info = Info::message("one").durability(Durability::None);
    repo.branch("main").unwrap().edit(&info, |tree| tree.set("a", "1")).unwrap();
    let apart = apart.unwrap();
    assert!(apart.unflushed.load(Relaxed));
    repo.close().unwrap();
    assert!(!apart.unflushed.load(Relaxed));
}

#[test]
fn zones_of_committers_and_taggers_are_counted_as_those_of_authors() {
    let (from, to) = (in_memory(&format("native")), in_memory(&format("git")));
    let odd = || Signature { zone: Zone::from_bytes(b"+51800"), ..Signature::new("Ann", 5) };
    let mut tree = from.tree();
    tree.set("a", "1").unwrap();
    let info = Info::message("one").author(Signature::new("Ann", 5)).committer(odd());
    let head = from.branch("main").unwrap().commit(&mut tree, &info).unwrap();
    let (kind, headers, message) = (Kind::Commit, Vec::new(), b"one\n".to_vec());
    let tag = Tag { target: head.into(), kind, name: b"v1".to_vec(), tagger: Some(odd()), headers, message };
    let tag = from.write_tag(&tag, Durability::None).unwrap();
    from.move_refs(&[moved("refs/tags/v1", tag)], Durability::None).unwrap();
    let error = copy::copy(&from, &to, &CopyOptions::default().strict(true), &mut |_| {}).unwrap_err();
    let Error::Copy(CopyError::Losses { losses: foreseen, .. }) = &error else { panic!("{error:?}") };
    let losses = copied(&from, &to).losses;
    assert_eq!(losses.iter().map(|loss| (loss.kind, loss.count)).collect::<Vec<_>>(), [(LossKind::Zone, 2)]);
    assert_eq!(&losses, foreseen);
}

#[test]
fn a_symbolic_ref_that_is_chosen_alone_brings_the_ref_that_it_names() {
    for name in ["native", "git"] {
        let (from, to) = (in_memory(&format("native")), in_memory(&format(name)));
        crate::commit(&from, "main", &[("a", "1")]);
        crate::commit(&from, "other", &[("b", "1")]);
        let symbolic = |name: &str, to: &str| moved(name, RefTarget::Symbolic(to.to_owned()));
        let moves = [symbolic("refs/heads/alias", "refs/heads/main"), symbolic("refs/heads/again", "refs/heads/alias")];
        from.move_refs(&moves, Durability::None).unwrap();
        let options = CopyOptions::default().refs(vec!["again".to_owned()]);
        let planned = copy::copy(&from, &to, &options.clone().dry_run(true), &mut |_| {}).unwrap();
        let report = copy::copy(&from, &to, &options, &mut |_| {}).unwrap();
        assert!(report.is_whole() && report.commits == 1, "{name}: {report:?}");
        assert_eq!(report.refs, planned.refs, "{name}");
        assert_eq!(
            refs(&to).into_keys().collect::<Vec<_>>(),
            ["refs/heads/again", "refs/heads/alias", "refs/heads/main"]
        );
        assert_eq!(crate::value(&to, "again", "a").as_deref(), Some(&b"1"[..]), "{name}");
    }
}

#[test]
fn a_symbolic_ref_is_left_out_with_the_ref_that_it_names() {
    let (from, to) = (in_memory(&format("native")), in_memory(&format("git")));
    let head = crate::commit(&from, "main", &[("a", "1")]);
    let root = from.read_commit(CommitId::new(head.oid)).unwrap().tree;
    let moves = [
        moved("refs/odd/tree", RefTarget::Object(root.into())),
        moved("refs/odd/alias", RefTarget::Symbolic("refs/odd/tree".to_owned())),
    ];
    from.move_refs(&moves, Durability::None).unwrap();
    let planned = copy::copy(&from, &to, &CopyOptions::default().dry_run(true), &mut |_| {}).unwrap();
    let report = copied(&from, &to);
    assert_eq!(planned.refs, report.refs);
    let changes: Vec<_> = report.refs.iter().map(|one| (&*one.name, one.change)).collect();
    let left_out = |name| (name, RefChange::LeftOut);
    assert_eq!(changes, [("refs/heads/main", RefChange::New), left_out("refs/odd/alias"), left_out("refs/odd/tree")]);
    assert_eq!(refs(&to).len(), 1);
}

#[test]
fn a_commit_that_only_head_names_is_left_out_of_a_git_repository_and_told() {
    let dir = tempfile::tempdir().unwrap();
    for name in ["native", "git"] {
        let from = in_memory(&format(name));
        let first = crate::commit(&from, "main", &[("a", "1")]);
        let lone = crate::commit(&from, "main", &[("a", "2")]);
        from.move_refs(&[moved("refs/heads/main", RefTarget::Object(first))], Durability::None).unwrap();
        from.detach_head(lone.oid.into()).unwrap();
        let place = Place::Git(dir.path().join(name));
        let (to, _) = copy::open_or_make(&place, &from, None, &OpenOptions::new()).unwrap();
        let planned = copy::copy(&from, &to, &CopyOptions::default().dry_run(true), &mut |_| {}).unwrap();
        let report = copied(&from, &to);
        let changes: Vec<_> = report.refs.iter().map(|one| (&*one.name, one.change)).collect();
        assert_eq!(changes, [("HEAD", RefChange::LeftOut), ("refs/heads/main", RefChange::New)], "{name}");
        assert!(report.commits == 1 && !report.is_whole(), "{name}: {report:?}");
        assert_eq!((planned.commits, planned.refs), (1, report.refs), "{name}");
        // One that a ref leads to is there.
        from.detach_head(first.oid.into()).unwrap();
        let report = copied(&from, &to);
        assert!(report.is_whole() && report.refs.len() == 1, "{name}: {report:?}");
        let gone = RefMove { name: "refs/heads/main".to_owned(), expected: Expected::Any, to: None };
        from.move_refs(&[gone], Durability::None).unwrap();
        let error = copy::copy(&from, &to, &CopyOptions::default(), &mut |_| {}).unwrap_err();
        assert!(matches!(error, Error::Copy(CopyError::Nothing { .. })), "{name}: {error:?}");
    }
}

#[test]
fn names_that_a_git_repository_takes_otherwise_are_counted() {
    let dir = tempfile::tempdir().unwrap();
    let from = in_memory(&format("native"));
    crate::commit(&from, "main", &[("a", "1")]);
    let main = from.branch("main").unwrap();
    let mut tree = main.tree().unwrap();
    tree.set("a", "2").unwrap();
    let odd = || Signature::new("A < B", 5);
    let head = main.commit(&mut tree, &Info::message("two").by(odd())).unwrap();
    let (kind, headers, message) = (Kind::Commit, Vec::new(), b"one\n".to_vec());
    let tag = Tag { target: head.into(), kind, name: b"v1".to_vec(), tagger: Some(odd()), headers, message };
    let tag = from.write_tag(&tag, Durability::None).unwrap();
    from.move_refs(&[moved("refs/tags/v1", tag)], Durability::None).unwrap();
    let to = AnyRepo::create(Place::Git(dir.path().join("r.git")), format("git")).unwrap();
    let error = copy::copy(&from, &to, &CopyOptions::default().strict(true), &mut |_| {}).unwrap_err();
    let Error::Copy(CopyError::Losses { losses: foreseen, .. }) = &error else { panic!("{error:?}") };
    assert!(refs(&to).is_empty(), "nothing was written");
    let planned = copy::copy(&from, &to, &CopyOptions::default().dry_run(true), &mut |_| {}).unwrap();
    let losses = copied(&from, &to).losses;
    let ident = Loss { kind: LossKind::Ident, count: 3, commit: Some(head), place: "A < B".to_owned() };
    assert_eq!(losses, [ident]);
    assert_eq!((foreseen, &planned.losses), (&losses, &losses));
    assert!(copied(&from, &to).losses.is_empty(), "what is there counts no more");
    // What came from Git goes back as it was.
    let again = in_memory(&format("native"));
    copied(&to, &again);
    let back = AnyRepo::create(Place::Git(dir.path().join("back.git")), format("git")).unwrap();
    assert!(copy::copy(&again, &back, &CopyOptions::default().strict(true), &mut |_| {}).unwrap().is_whole());
}

#[test]
fn a_dry_run_counts_what_tags_of_tags_lose_as_the_copy_does() {
    let dir = tempfile::tempdir().unwrap();
    let from = in_memory(&format("native"));
    let head = crate::commit(&from, "main", &[("a", "1")]);
    let nothing = from.branch("nothing").unwrap().commit(&mut from.tree(), &Info::message("nothing")).unwrap();
    let tag = |name: &str, target, kind| {
        let (tagger, headers, message) = (Some(Signature::new("A < B", 5)), Vec::new(), b"one\n".to_vec());
        let tag = Tag { target, kind, name: name.as_bytes().to_vec(), tagger, headers, message };
        let id = from.write_tag(&tag, Durability::None).unwrap();
        from.move_refs(&[moved(&format!("refs/tags/{name}"), id)], Durability::None).unwrap();
        id
    };
    let one = tag("v1", head, Kind::Commit);
    let two = tag("v2", one.into(), Kind::Tag);
    tag("v3", two.into(), Kind::Tag);
    tag("v4", nothing.into(), Kind::Commit);
    let repository = AnyRepo::create(Place::Git(dir.path().join("r.git")), format("git")).unwrap();
    for (to, kind, count) in [
        // For each ref those that it leads to.
        (in_memory(&format("git")), LossKind::Ident, 1 + 2 + 3 + 1),
        // Each is written once.
        (repository, LossKind::Ident, 4),
        // One light tag for each ref, and none of a commit that is left out.
        (in_memory(&format("tezos")), LossKind::Tag, 3),
    ] {
        let planned = copy::copy(&from, &to, &CopyOptions::default().dry_run(true), &mut |_| {}).unwrap();
        let report = copied(&from, &to);
        let counts =
            |report: &CopyReport| -> Vec<_> { report.losses.iter().map(|loss| (loss.kind, loss.count)).collect() };
        assert!(counts(&report).contains(&(kind, count)), "{:?}", report.losses);
        assert_eq!(counts(&planned), counts(&report));
        assert_eq!(planned.refs, report.refs);
    }
}

#[test]
fn a_ref_goes_over_however_many_tags_lead_to_its_commit() {
    let from = in_memory(&format("native"));
    let (mut target, mut kind) = (crate::commit(&from, "main", &[("a", "1")]), Kind::Commit);
    for number in 0..20 {
        let (name, tagger, headers, message) = (format!("v{number}"), None, Vec::new(), b"one\n".to_vec());
        let tag = Tag { target, kind, name: name.into_bytes(), tagger, headers, message };
        (target, kind) = (from.write_tag(&tag, Durability::None).unwrap().into(), Kind::Tag);
    }
    let gone = RefMove { name: "refs/heads/main".to_owned(), expected: Expected::Any, to: None };
    from.move_refs(&[moved("refs/tags/last", RefTarget::Object(target)), gone], Durability::None).unwrap();
    for (name, tags) in [("native", 20), ("git", 20), ("tezos", 0)] {
        let to = in_memory(&format(name));
        let planned = copy::copy(&from, &to, &CopyOptions::default().dry_run(true), &mut |_| {}).unwrap();
        let report = copied(&from, &to);
        assert!(report.is_whole() && report.commits == 1, "{name}: {report:?}");
        assert_eq!((planned.commits, planned.refs), (1, report.refs), "{name}");
        let (mut at, mut found) = (to.resolve("refs/tags/last").unwrap().unwrap(), 0);
        while to.backend().read(&at).unwrap().unwrap().kind() == Kind::Tag {
            (at, found) = (to.read_tag(at.into()).unwrap().target, found + 1);
        }
        assert_eq!(found, tags, "{name}");
    }
}

#[test]
fn forged_tags_that_go_in_a_circle_lead_to_no_commit() {
    let (from, to) = (in_memory(&format("git")), in_memory(&format("native")));
    crate::commit(&from, "main", &[("a", "1")]);
    let ids: Vec<Oid> = (1..=3).map(|byte| Oid::new(&[byte; 20]).unwrap()).collect();
    let mut batch = Batch::new();
    for (number, id) in ids.iter().enumerate() {
        let body = format!("object {}\ntype tag\ntag forged\n\nforged\n", ids[(number + 1) % ids.len()]);
        batch.put(Kind::Tag, *id, body.as_bytes(), &[Location::NONE], &[]);
    }
    from.backend().append(batch, &[], Durability::None).unwrap();
    from.move_refs(&[moved("refs/tags/forged", RefTarget::Object(ids[0].into()))], Durability::None).unwrap();
    let report = copied(&from, &to);
    assert_eq!(report.losses.iter().map(|loss| loss.kind).collect::<Vec<_>>(), [LossKind::Ref]);
    assert_eq!(refs(&to).into_keys().collect::<Vec<_>>(), ["refs/heads/main"]);
}

#[test]
fn a_copy_into_a_git_repository_makes_no_file_in_the_store_that_it_reads_and_none_beside_its_head() {
    let dir = tempfile::tempdir().unwrap();
    let sha256 = AnyFormat::git(bristlecone::core::git::Algorithm::Sha256);
    let from = AnyRepo::create(dir.path().join("from"), sha256).unwrap();
    // Their ids are more than stay in memory.
    let set = |tree: &mut bristlecone_any::Tree| {
        (0..34_000).try_for_each(|number| tree.set(format!("d{}/{number}", number % 100), number.to_string()))
    };
    from.branch("main").unwrap().edit(&Info::message("many").durability(Durability::None), set).unwrap();
    // A scratch file of such a name could not be made.
    let block = |repo: &AnyRepo| {
        for number in 0..1000 {
            let name = format!("scratch-{}-{number}", std::process::id());
            std::fs::create_dir(repo.dir().unwrap().join(name)).unwrap();
        }
    };
    block(&from);
    let place = Place::Git(dir.path().join("to.git"));
    let (to, _) = copy::open_or_make(&place, &from, None, &OpenOptions::new()).unwrap();
    let report = copied(&from, &to);
    assert!(report.is_whole() && report.objects > 34_000, "{report:?}");
    let left = std::fs::read_dir(dir.path().join("to.git")).unwrap();
    assert!(!left.map(|entry| entry.unwrap().file_name()).any(|name| name.to_str().unwrap().starts_with("scratch")));
    // From one repository into another: `git gc` clears away what is left below `objects` alone.
    let place = Place::Git(dir.path().join("other.git"));
    let (other, _) = copy::open_or_make(&place, &to, None, &OpenOptions::new()).unwrap();
    block(&other);
    assert!(copied(&to, &other).is_whole());
    let left = std::fs::read_dir(dir.path().join("other.git/objects")).unwrap();
    assert!(!left.map(|entry| entry.unwrap().file_name()).any(|name| name.to_str().unwrap().starts_with("tmp")));
}

#[test]
fn a_ref_of_git_whose_name_is_no_text_is_left_out_and_told() {
    let dir = tempfile::tempdir().unwrap();
    let place = Place::Git(dir.path().join("r.git"));
    let head = crate::commit(&AnyRepo::create(place.clone(), format("git")).unwrap(), "main", &[("a", "1")]);
    let packed = [format!("{} refs/tags/caf", head.oid).as_bytes(), b"\xe9\n"].concat();
    std::fs::write(dir.path().join("r.git/packed-refs"), packed).unwrap();
    let from = AnyRepo::open_read_only(place).unwrap();
    let around = from.wrapped(|backend| Arc::new(bristlecone::ReadOnly(backend)));
    for (from, name) in [(&from, "native"), (&from, "git"), (&from, "tezos"), (&around, "git")] {
        let to = in_memory(&format(name));
        let main = CopyOptions::default().refs(vec!["main".to_owned()]);
        assert!(copy::copy(from, &to, &main, &mut |_| {}).unwrap().is_whole(), "{name}: it is not asked for");
        for dry_run in [true, false] {
            let report = copy::copy(from, &to, &CopyOptions::default().dry_run(dry_run), &mut |_| {}).unwrap();
            assert_eq!(report.unnamed, [b"refs/tags/caf\xe9"], "{name}");
            assert!(!report.is_whole() && report.refs.len() == 1, "{name}: {report:?}");
        }
    }
}
