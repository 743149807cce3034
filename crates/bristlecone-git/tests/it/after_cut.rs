//! What a power cut leaves, as real Git sees it once the store was opened; and errors of syncs that others were told
//! of.

use std::{path::Path, sync::Arc};

use bristlecone::{
    Backend, Batch, Durability, Error, Expected, Kind, ObjRef, Oid, RefMove, RefTarget, Repo, Sink as _,
    core::git::{Algorithm, Git},
    storage::{OpenMode, Storage as _, write_all_at},
};
use bristlecone_git::{backend::GitBackend, odb::loose, pack::Compression};
use bristlecone_needs::needs;
use bristlecone_testkit::{
    crash::Engine,
    git::Git as RealGit,
    sim::{Fault, Policy, SimStorage, Times},
};

use crate::{backend::info, sim::restore, sims::SimGit};

fn commit(repo: &Repo<Git>, n: usize, durability: Durability) -> bristlecone::Result<()> {
    let info = info(&format!("number {n}"), durability);
    let add = |tree: &mut bristlecone::Tree<Git>| tree.set(format!("f{n}"), format!("value {n}").as_bytes());
    repo.branch("main")?.edit(&info, add).map(drop)
}

fn repo(backend: Arc<dyn Backend>) -> Repo<Git> {
    Repo::with_backend(Git::new(Algorithm::Sha1), backend)
}

/// What `git init` writes, as far as Git wants it.
fn restored(sim: &SimStorage, dir: &Path) -> RealGit {
    restore(sim, dir);
    std::fs::write(dir.join("config"), "[core]\n\trepositoryformatversion = 0\n\tbare = true\n").unwrap();
    RealGit::new(dir)
}

#[needs(git)]
#[test]
fn git_finds_everything_whole_after_a_power_cut() {
    let (mut states, mut seed) = (0, 0);
    for loose in [false, true] {
        let engine = SimGit { loose, ..SimGit::default() };
        let sim = SimStorage::new();
        let backend = engine.create(Arc::new(sim.clone())).unwrap();
        let began = sim.calls();
        sim.keep_moments();
        let made = repo(backend);
        for n in 0..7 {
            commit(&made, n, if n % 3 == 0 { Durability::Synced } else { Durability::None }).unwrap();
        }
        let ended = sim.calls();
        drop(made);
        for call in (began..=ended).step_by(5) {
            for policy in [Policy::Lost, Policy::Prefix, Policy::Writes, Policy::Sectors] {
                seed += 1;
                let cut = sim.moment(call).unwrap().reboot(seed, policy);
                drop(engine.open(Arc::new(cut.clone())).unwrap());
                let dir = tempfile::tempdir().unwrap();
                let (sound, text) =
                    restored(&cut, dir.path()).attempt(&["fsck", "--strict", "--full", "--no-dangling"]);
                assert!(sound, "after call {call} of {ended}, {policy:?}, seed {seed}, loose {loose}: {text}");
                // One more commit, and nothing of the kind either.
                let backend = engine.open(Arc::new(cut.clone())).unwrap();
                commit(&repo(backend.clone()), 99, Durability::Synced).unwrap();
                drop(backend);
                let keeps = cut.list("objects/pack").unwrap().into_iter().filter(|name| name.ends_with(".keep"));
                assert_eq!(keeps.collect::<Vec<_>>(), Vec::<String>::new(), "{policy:?}, seed {seed}");
                states += 1;
            }
        }
    }
    assert!(states > 100, "{states} states");
}

#[test]
fn no_protection_stays_after_a_full_disk() {
    let engine = SimGit::default();
    let sim = SimStorage::new();
    let made = repo(engine.create(Arc::new(sim.clone())).unwrap());
    commit(&made, 0, Durability::Synced).unwrap();
    drop(made);
    let keeps = || sim.list("objects/pack").unwrap().into_iter().filter(|name| name.ends_with(".keep")).count();
    for room in 0..60 {
        let made = repo(engine.open(Arc::new(sim.clone())).unwrap());
        // What earlier processes left to be used again is gone.
        for (name, _) in sim.files().into_iter().filter(|(name, _)| name.starts_with("bristlecone/keep")) {
            sim.remove(&name).unwrap();
        }
        sim.limit_space(Some(sim.bytes() + room * 8));
        let _ = commit(&made, 1 + room as usize, Durability::Synced);
        drop(made);
        assert_eq!(keeps(), 0, "room for {} bytes", room * 8);
        sim.limit_space(None);
    }
}

/// The system reports a write-back that fails to processes that have the file open then, and to none that opens it
/// later.
#[test]
fn a_failure_that_another_process_learnt_of_is_noticed() {
    for (loose, part) in [(false, ".pack"), (false, ".idx"), (false, "refs/heads/main"), (true, "objects/")] {
        let sim = SimStorage::new();
        let options = SimGit { loose, ..SimGit::default() };
        drop(options.create(Arc::new(sim.clone())).unwrap());
        let backend = Arc::new(GitBackend::open(Arc::new(sim.clone()), options.options().loose(loose)).unwrap());
        let repo = repo(backend.clone());
        commit(&repo, 0, Durability::None).unwrap();
        let (name, _) =
            sim.files().into_iter().find(|(name, _)| name.contains(part) && !name.starts_with("logs")).unwrap();
        // Another process syncs the file, and the medium fails.
        let file = sim.open(&name, OpenMode::Read).unwrap();
        sim.fail_at(sim.calls() + 1, Fault::Io, Times::Once);
        assert!(file.sync_data().is_err());
        sim.heal();
        assert!(backend.flush().is_err(), "{name} is not durable");
        assert!(commit(&repo, 1, Durability::None).is_err(), "nothing is known of what is durable");
    }
}

/// A device that is full when something is written harms nothing. One that is full when that is synced may have lost
/// it.
#[test]
fn a_full_device_ends_writing_only_where_a_sync_met_it() {
    for loose in [false, true] {
        let (mut harmless, mut poisoned) = (0, 0);
        for call in 1.. {
            let sim = SimStorage::new();
            let options = SimGit { loose, ..SimGit::default() };
            drop(options.create(Arc::new(sim.clone())).unwrap());
            let backend = Arc::new(GitBackend::open(Arc::new(sim.clone()), options.options()).unwrap());
            let repo = repo(backend.clone());
            commit(&repo, 0, Durability::Synced).unwrap();
            let before = sim.calls();
            sim.fail_at(before + call, Fault::NoSpace, Times::Once);
            let failed = commit(&repo, 1, Durability::Synced);
            let done = sim.calls() < before + call;
            let next = commit(&repo, 2, Durability::Synced);
            match failed {
                Ok(()) if done => break,
                // What failed was not needed.
                Ok(()) => next.unwrap(),
                Err(Error::NoSpace { .. }) => {
                    harmless += 1;
                    next.unwrap();
                }
                Err(Error::Io { .. }) => {
                    poisoned += 1;
                    assert!(matches!(next, Err(Error::Poisoned { .. })), "call {call}: {next:?}");
                }
                Err(error) => panic!("call {call}: {error}"),
            }
        }
        assert!(harmless > 0 && poisoned > 0, "{harmless} and {poisoned}");
    }
}

/// Half a line, and the next one behind it, would be no line at all.
#[test]
fn a_reflog_goes_on_after_a_line_for_which_there_was_no_room() {
    for call in 1.. {
        let sim = SimStorage::new();
        let options = SimGit::default();
        drop(options.create(Arc::new(sim.clone())).unwrap());
        let backend = Arc::new(GitBackend::open(Arc::new(sim.clone()), options.options()).unwrap());
        let repo = repo(backend.clone());
        commit(&repo, 0, Durability::None).unwrap();
        let before = sim.calls();
        sim.fail_at(before + call, Fault::NoSpace, Times::Once);
        let failed = commit(&repo, 1, Durability::None);
        if sim.calls() < before + call {
            failed.unwrap();
            break;
        }
        sim.heal();
        if commit(&repo, 2, Durability::None).is_ok() {
            let head = repo.branch("main").unwrap().head().unwrap().unwrap().oid();
            for name in ["refs/heads/main", "HEAD"] {
                assert_eq!(backend.refs().logged(name).unwrap().last(), Some(&head), "{name}, call {call}");
            }
        }
    }
}

#[test]
fn a_flush_that_is_owed_to_a_grouped_commit_stays_owed_until_it_is_made() {
    let sim = SimStorage::new();
    let backend = SimGit::default().create(Arc::new(sim.clone())).unwrap();
    commit(&repo(backend.clone()), 0, Durability::Grouped).unwrap();
    let file = sim.process().open("bristlecone/lock", OpenMode::Create).unwrap();
    assert!(file.try_lock().unwrap(), "another process writes");
    let idle = || backend.append(Batch::new(), &[], Durability::None).map(drop);
    for locked in [idle(), backend.flush(), idle()] {
        assert!(matches!(locked, Err(Error::Locked { .. })), "{locked:?}");
    }
    file.unlock().unwrap();
    let before = backend.stats().syncs;
    idle().unwrap();
    let after = backend.stats().syncs;
    assert!(after > before, "what was promised is synced");
    idle().unwrap();
    assert_eq!(backend.stats().syncs, after);
}

/// Many loose objects that need not be durable cost no sync; what made them durable looks at each.
#[test]
fn loose_objects_that_were_closed_are_held_against_their_ids() {
    for damaged in [false, true] {
        let sim = SimStorage::new();
        let options = SimGit { loose: true, ..SimGit::default() };
        drop(options.create(Arc::new(sim.clone())).unwrap());
        let backend = Arc::new(GitBackend::open(Arc::new(sim.clone()), options.options()).unwrap());
        let repo = repo(backend.clone());
        commit(&repo, 0, Durability::None).unwrap();
        let before = backend.stats().syncs;
        (1..300).for_each(|n| commit(&repo, n, Durability::None).unwrap());
        assert_eq!(backend.stats().syncs, before, "no append was to be durable");
        let head = repo.branch("main").unwrap().head().unwrap().unwrap().oid().to_string();
        if damaged {
            // As if a write-back had failed unseen: the file is there, and the system dropped what it held of it.
            let name = format!("objects/{}/{}", &head[..2], &head[2..]);
            sim.remove(&name).unwrap();
            crate::sim::write(&sim, &name, &[0; 150]);
        }
        assert_eq!(backend.flush().is_err(), damaged);
        assert_eq!(commit(&repo, 300, Durability::Synced).is_err(), damaged);
    }
}

/// Writes what Git leaves without a sync: a commit of loose objects. Returns its id.
fn foreign_commit(sim: &SimStorage) -> Oid {
    foreign_commits(sim, 1)[0]
}

/// As [`foreign_commit`], so many commits, one on the other.
fn foreign_commits(sim: &SimStorage, count: usize) -> Vec<Oid> {
    let (engine, other) = (SimGit { loose: true, ..SimGit::default() }, SimStorage::new());
    let made = repo(engine.create(Arc::new(other.clone())).unwrap());
    let commit = |n| {
        commit(&made, n, Durability::None).unwrap();
        made.branch("main").unwrap().head().unwrap().unwrap().oid()
    };
    let commits = (0..count).map(commit).collect();
    for (name, _) in other.files().into_iter().filter(|(name, _)| name.starts_with("objects/")) {
        crate::sim::write(sim, &name, &other.contents(&name).unwrap());
    }
    commits
}

fn one(kind: Kind, text: &str) -> (Batch, Oid) {
    let (mut batch, oid) = (Batch::new(), Algorithm::Sha1.object_id(kind, text.as_bytes()));
    batch.put(kind, oid, text.as_bytes(), &[], &[]);
    (batch, oid)
}

/// A tag or a commit of ours that is acknowledged as durable stands on what a Git did not sync.
#[test]
fn what_a_tag_names_and_a_commit_stands_on_is_durable_before_its_ref_moves() {
    for case in ["tag with its move", "tag before its move", "commit before its move", "commits before their move"] {
        let engine = SimGit::default();
        let sim = SimStorage::new();
        drop(engine.create(Arc::new(sim.clone())).unwrap());
        let backend = engine.open(Arc::new(sim.clone())).unwrap();
        let foreign = foreign_commit(&sim);
        let who = "A <a@example.org> 1700000000 +0000";
        let commit = |parent: Oid, message: &str| {
            let raw = Algorithm::Sha1.object_id(Kind::Node, b"");
            one(Kind::Commit, &format!("tree {raw}\nparent {parent}\nauthor {who}\ncommitter {who}\n\n{message}\n"))
        };
        let (mut batch, mut oid) = match case.starts_with("tag") {
            true => one(Kind::Tag, &format!("object {foreign}\ntype commit\ntag t\ntagger {who}\n\nt\n")),
            false => commit(foreign, "one"),
        };
        if case != "tag with its move" {
            backend.append(std::mem::take(&mut batch), &[], Durability::None).unwrap();
        }
        if case == "commits before their move" {
            let (second, next) = commit(oid, "two");
            backend.append(second, &[], Durability::None).unwrap();
            oid = next;
        }
        let to = Some(RefTarget::Object(ObjRef::from(oid)));
        let moved = RefMove { name: "refs/tags/t".to_owned(), expected: Expected::Absent, to };
        backend.append(batch, &[moved], Durability::Synced).unwrap();
        let cut = Arc::new(sim.reboot(1, Policy::Lost));
        let after = engine.open(cut).unwrap();
        assert!(after.get_ref("refs/tags/t").unwrap().is_some(), "{case}");
        for oid in [oid, foreign] {
            assert!(after.read(&ObjRef::from(oid)).unwrap().is_some(), "{case}: {oid}");
        }
    }
}

/// A Git has written the same objects before, and synced none.
#[test]
fn loose_objects_that_were_there_are_as_durable_as_the_commit_that_brings_them() {
    for durability in [Durability::None, Durability::Synced] {
        let engine = SimGit { loose: true, ..SimGit::default() };
        let sim = SimStorage::new();
        let made = repo(engine.create(Arc::new(sim.clone())).unwrap());
        let foreign = foreign_commit(&sim);
        commit(&made, 0, durability).unwrap();
        made.backend().flush().unwrap();
        assert_eq!(made.branch("main").unwrap().head().unwrap().unwrap().oid(), foreign);
        let after = repo(engine.open(Arc::new(sim.reboot(1, Policy::Lost))).unwrap());
        let tree = after.branch("main").unwrap().tree().unwrap();
        assert_eq!(tree.get("f0").unwrap().as_deref(), Some(&b"value 0"[..]), "{durability:?}");
    }
}

/// A commit takes a directory from one that no parent leads to, and that a Git did not sync.
#[test]
fn what_a_commit_takes_from_elsewhere_is_durable_before_its_ref_moves() {
    for (path, found) in [("", "f0"), ("below", "below/f0"), ("deep/below", "deep/below/f0")] {
        for durability in [Durability::Synced, Durability::None] {
            let engine = SimGit::default();
            let sim = SimStorage::new();
            let made = repo(engine.create(Arc::new(sim.clone())).unwrap());
            commit(&made, 1, Durability::Synced).unwrap();
            let foreign = made.commit_id(ObjRef::from(foreign_commit(&sim)));
            let taken = made.checkout(foreign).unwrap();
            let take = |tree: &mut bristlecone::Tree<Git>| tree.set_tree(path, &taken);
            made.branch("main").unwrap().edit(&info("taken", durability), take).unwrap();
            made.backend().flush().unwrap();
            let after = repo(engine.open(Arc::new(sim.reboot(1, Policy::Lost))).unwrap());
            let tree = after.branch("main").unwrap().tree().unwrap();
            assert_eq!(tree.get(found).unwrap().as_deref(), Some(&b"value 0"[..]), "{path:?}, {durability:?}");
        }
    }
}

/// What a commit goes on from that is ours costs no sync, and what a Git left costs one only once.
#[test]
fn what_was_taken_from_elsewhere_is_synced_once() {
    let sim = SimStorage::new();
    let made = repo(SimGit::default().create(Arc::new(sim.clone())).unwrap());
    let foreign = made.commit_id(ObjRef::from(foreign_commit(&sim)));
    let cost = |path: Option<&str>| {
        let before = made.backend().stats().syncs;
        let taken = made.checkout(foreign).unwrap();
        let edit = |tree: &mut bristlecone::Tree<Git>| {
            let own = made.backend().stats().batches;
            tree.set("own", own.to_string().as_bytes())?;
            path.map_or(Ok(()), |path| tree.set_tree(path, &taken))
        };
        made.branch("main").unwrap().edit(&info("one more", Durability::Synced), edit).unwrap();
        made.backend().stats().syncs - before
    };
    cost(None);
    let usual = cost(None);
    assert!(cost(Some("one")) > usual, "what Git left is to be synced");
    assert_eq!((cost(Some("two")), cost(None)), (usual, usual));
}

#[test]
fn what_several_parents_and_a_tag_stand_on_is_synced_once() {
    let cost = |parents: usize| {
        let sim = SimStorage::new();
        let backend = SimGit::default().create(Arc::new(sim.clone())).unwrap();
        backend.append(one(Kind::Contents, "first").0, &[], Durability::Synced).unwrap();
        let foreign = foreign_commits(&sim, 3);
        let (who, tree) = ("A <a@example.org> 1700000000 +0000", Algorithm::Sha1.object_id(Kind::Node, b""));
        let lines: String = foreign[..parents].iter().map(|oid| format!("parent {oid}\n")).collect();
        let raw = format!("tree {tree}\n{lines}author {who}\ncommitter {who}\n\nmerged\n");
        let (mut batch, _) = one(Kind::Commit, &raw);
        let raw = format!("object {}\ntype commit\ntag t\ntagger {who}\n\nt\n", foreign[parents - 1]);
        let oid = Algorithm::Sha1.object_id(Kind::Tag, raw.as_bytes());
        batch.put(Kind::Tag, oid, raw.as_bytes(), &[], &[]);
        let before = backend.stats().syncs;
        let to = Some(RefTarget::Object(ObjRef::from(oid)));
        let moved = RefMove { name: "refs/tags/t".to_owned(), expected: Expected::Absent, to };
        backend.append(batch, &[moved], Durability::Synced).unwrap();
        backend.stats().syncs - before
    };
    assert_eq!(cost(1), cost(3));
}

/// Git makes a folder for a branch, and syncs neither.
#[test]
fn a_synced_commit_to_a_branch_in_a_folder_that_git_made_survives() {
    let sim = SimStorage::new();
    let made = repo(SimGit::default().create(Arc::new(sim.clone())).unwrap());
    commit(&made, 0, Durability::Synced).unwrap();
    let head = made.branch("main").unwrap().head().unwrap().unwrap();
    sim.create_dir("refs/heads/deep").unwrap();
    let file = sim.open("refs/heads/deep/x", OpenMode::CreateNew).unwrap();
    write_all_at(&*file, format!("{}\n", head.oid()).as_bytes(), 0).unwrap();
    let add = |tree: &mut bristlecone::Tree<Git>| tree.set("deep", "x");
    let deep = made.branch("deep/x").unwrap();
    let next = deep.edit(&info("deep", Durability::Synced), add).unwrap();
    let cut = SimGit::default().open(Arc::new(sim.reboot(1, Policy::Lost))).unwrap();
    assert_eq!(repo(cut).branch("deep/x").unwrap().head().unwrap(), Some(next));
}

/// A repack makes the objects of a new branch durable, and neither the branch nor its reflog.
#[test]
fn a_new_branch_whose_packs_were_repacked_comes_back() {
    let engine = SimGit { repack_min: 4, ..SimGit::default() };
    let sim = SimStorage::new();
    let made = repo(engine.create(Arc::new(sim.clone())).unwrap());
    // Both files of the journal are there.
    made.branch("other").unwrap().edit(&info("other", Durability::None), |tree| tree.set("f", "x")).unwrap();
    made.backend().flush().unwrap();
    (0..9).for_each(|n| commit(&made, n, Durability::None).unwrap());
    let cut = sim.reboot(1, Policy::Lost);
    assert!(cut.contents("refs/heads/main").is_none());
    let after = repo(engine.open(Arc::new(cut)).unwrap());
    let tree = after.branch("main").unwrap().tree().unwrap();
    assert_eq!(tree.get("f0").unwrap().as_deref(), Some(&b"value 0"[..]));
}

/// The removal is durable by chance, and the new branch is not.
#[test]
fn a_branch_that_was_removed_and_made_anew_comes_back_after_a_repack() {
    let engine = SimGit { repack_min: 4, ..SimGit::default() };
    let sim = SimStorage::new();
    let made = repo(engine.create(Arc::new(sim.clone())).unwrap());
    // Both files of the journal are there.
    made.branch("other").unwrap().edit(&info("other", Durability::None), |tree| tree.set("f", "x")).unwrap();
    commit(&made, 0, Durability::Synced).unwrap();
    let main = made.branch("main").unwrap();
    main.compare_and_set(main.head().unwrap(), None, Durability::None).unwrap();
    ["refs/heads", "logs/refs/heads"].into_iter().for_each(|dir| sim.sync_dir(dir).unwrap());
    (1..9).for_each(|n| commit(&made, n, Durability::None).unwrap());
    let cut = sim.reboot(1, Policy::Lost);
    assert!(cut.contents("refs/heads/main").is_none());
    let after = repo(engine.open(Arc::new(cut)).unwrap());
    let tree = after.branch("main").unwrap().tree().unwrap();
    assert_eq!(tree.get("f1").unwrap().as_deref(), Some(&b"value 1"[..]));
}

/// The journal is durable by chance, and what it tells of the branches is not.
#[test]
fn a_branch_that_took_the_place_of_a_folder_of_a_removed_one_comes_back() {
    let engine = SimGit::default();
    let sim = SimStorage::new();
    let made = repo(engine.create(Arc::new(sim.clone())).unwrap());
    let inner = made.branch("a/b").unwrap();
    inner.edit(&info("one", Durability::Synced), |tree| tree.set("f", "x")).unwrap();
    let head = inner.head().unwrap();
    inner.compare_and_set(head, None, Durability::None).unwrap();
    made.branch("a").unwrap().compare_and_set(None, head, Durability::None).unwrap();
    for (name, _) in sim.files().into_iter().filter(|(name, _)| name.starts_with("bristlecone/journal")) {
        sim.open(&name, OpenMode::Read).unwrap().sync_data().unwrap();
    }
    let cut = sim.reboot(1, Policy::Lost);
    assert!(cut.contents("refs/heads/a/b").is_some());
    let after = repo(engine.open(Arc::new(cut)).unwrap());
    assert_eq!(after.branch("a").unwrap().head().unwrap(), head);
    assert_eq!(after.branch("a/b").unwrap().head().unwrap(), None);
}

/// What a process wrote as loose objects is in none of the packs that another one repacks.
#[test]
fn a_repack_takes_no_loose_object_for_durable() {
    let engine = SimGit { repack_min: 4, ..SimGit::default() };
    let sim = SimStorage::new();
    let packed = repo(engine.create(Arc::new(sim.clone())).unwrap());
    let loose = repo(SimGit { loose: true, ..engine.clone() }.open(Arc::new(sim.clone())).unwrap());
    let side = loose.branch("side").unwrap();
    for (n, durability) in [Durability::Synced, Durability::None].into_iter().enumerate() {
        side.edit(&info("side", durability), |tree| tree.set("f", n.to_string().as_bytes())).unwrap();
    }
    // The name of the branch's file is durable, and nothing in it.
    sim.sync_dir("refs/heads").unwrap();
    (0..9).for_each(|n| commit(&packed, n, Durability::None).unwrap());
    let after = repo(engine.open(Arc::new(sim.reboot(1, Policy::Lost))).unwrap());
    assert!(after.branch("side").unwrap().tree().unwrap().get("f").unwrap().is_some());
}

/// A Git has packed what was written as loose objects, and syncs what it packs.
#[test]
fn what_a_git_packed_of_loose_objects_is_there() {
    let engine = SimGit { loose: true, ..SimGit::default() };
    let (sim, other) = (SimStorage::new(), SimStorage::new());
    let made = repo(engine.create(Arc::new(sim.clone())).unwrap());
    let packed = repo(SimGit::default().create(Arc::new(other.clone())).unwrap());
    for (n, durability) in [Durability::Synced, Durability::None].into_iter().enumerate() {
        commit(&made, n, durability).unwrap();
        commit(&packed, n, Durability::Synced).unwrap();
    }
    let head = |repo: &Repo<Git>| repo.branch("main").unwrap().head().unwrap().unwrap().oid();
    let last = head(&made);
    assert_eq!(head(&packed), last);
    for (name, _) in other.files().into_iter().filter(|(name, _)| name.starts_with("objects/pack/pack-")) {
        crate::sim::write(&sim, &name, &other.contents(&name).unwrap());
        sim.open(&name, OpenMode::Read).unwrap().sync_data().unwrap();
    }
    sim.sync_dir("objects/pack").unwrap();
    // The lines of the journal happen to be on the medium, and what the branch holds is not.
    for (name, _) in sim.files() {
        if name.starts_with("bristlecone/journal-") {
            sim.open(&name, OpenMode::Read).unwrap().sync_data().unwrap();
        } else if name.starts_with("objects/") && !name.starts_with("objects/pack/") {
            sim.remove(&name).unwrap();
        }
    }
    let after = repo(engine.open(Arc::new(sim.reboot(1, Policy::Lost))).unwrap());
    assert_eq!(head(&after), last);
}

/// A Git commits what is too large to be read here, on what was not synced yet.
#[test]
fn what_is_too_large_to_be_read_is_not_taken_for_torn() {
    // `blob 4294967296`, a zero and the first byte, deflated.
    let large = b"\x78\x01\x01\x11\x00\xee\xffblob 4294967296\0x\x2a\xf8\x04\x52";
    for loose in [false, true] {
        let engine = SimGit { loose, ..SimGit::default() };
        let sim = SimStorage::new();
        let made = repo(engine.create(Arc::new(sim.clone())).unwrap());
        commit(&made, 0, Durability::Synced).unwrap();
        commit(&made, 1, Durability::None).unwrap();
        let head = made.branch("main").unwrap().head().unwrap().unwrap().oid();
        let name = |oid: &Oid| format!("objects/{}", loose::name(oid));
        let put = |kind: Kind, raw: &[u8]| {
            let (oid, mut file) = (Algorithm::Sha1.object_id(kind, raw), Vec::new());
            loose::encode(kind, raw, Compression::Stored, &mut file);
            crate::sim::write(&sim, &name(&oid), &file);
            oid
        };
        let value = Algorithm::Sha1.object_id(Kind::Contents, b"another");
        crate::sim::write(&sim, &name(&value), large);
        let tree = put(Kind::Node, &[&b"100644 large\0"[..], value.as_bytes()].concat());
        let who = "A <a@example.org> 1700000000 +0000";
        let raw = format!("tree {tree}\nparent {head}\nauthor {who}\ncommitter {who}\n\nlarge\n");
        let newer = put(Kind::Commit, raw.as_bytes());
        sim.remove("refs/heads/main").unwrap();
        crate::sim::write(&sim, "refs/heads/main", format!("{newer}\n").as_bytes());
        let cut = sim.reboot(1, Policy::Kept);
        let after = engine.open(Arc::new(cut.clone())).unwrap();
        assert_eq!(cut.contents(&name(&value)).as_deref(), Some(&large[..]), "loose {loose}");
        assert_eq!(after.get_ref("refs/heads/main").unwrap(), Some(RefTarget::Object(newer.into())), "loose {loose}");
    }
}
