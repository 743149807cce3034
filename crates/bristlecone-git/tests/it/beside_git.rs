//! What a Git wrote beside us and did not sync: a synced commit on it lasts, and a recovery goes back no further than it
//! has to.

use std::{sync::Arc, time::Duration};

use bristlecone::{
    Backend, Durability, LogOptions, Repo,
    core::git::{Algorithm, Git},
    storage::Storage as _,
};
use bristlecone_git::{
    backend::{GitBackend, GitOptions},
    layout::Layout,
};
use bristlecone_needs::needs;
use bristlecone_testkit::{
    crash::Engine,
    git::Git as RealGit,
    sim::{Policy, SimStorage},
};

use crate::{backend::info, sim::write, sims::SimGit};

const MAIN: &str = "refs/heads/main";

fn repo(backend: Arc<dyn Backend>) -> Repo<Git> {
    Repo::with_backend(Git::new(Algorithm::Sha1), backend)
}

fn opened(sim: &SimStorage) -> Repo<Git> {
    repo(SimGit::default().open(Arc::new(sim.clone())).unwrap())
}

fn commit(repo: &Repo<Git>, n: usize, durability: Durability) {
    let info = info(&format!("number {n}"), durability);
    repo.branch("main").unwrap().edit(&info, |tree| tree.set(format!("d{n}/f"), n.to_string().as_bytes())).unwrap();
}

/// Commits as a Git does it: loose objects and the ref, nothing of it synced unless asked for.
fn commit_as_git(sim: &SimStorage, n: usize, synced: bool) {
    // A copy of the disk in which what is written is loose.
    let copy = sim.fork();
    let loose = repo(SimGit { loose: true, ..SimGit::default() }.open(Arc::new(copy.clone())).unwrap());
    commit(&loose, n, Durability::None);
    drop(loose);
    for (name, _) in copy.files() {
        let object = name.starts_with("objects/") && !name.starts_with("objects/pack/");
        if !(object && sim.contents(&name).is_none() || name == MAIN) {
            continue;
        }
        // Git renames what it wrote under another name.
        write(sim, "passing", &copy.contents(&name).unwrap());
        let folder = name.rsplit_once('/').unwrap().0;
        sim.create_dir(folder).unwrap();
        sim.rename("passing", &name).unwrap();
        if synced {
            sim.open(&name, bristlecone::storage::OpenMode::Read).unwrap().sync_data().unwrap();
            [folder, "objects", ""].iter().for_each(|dir| sim.sync_dir(dir).unwrap());
        }
    }
}

/// Checks that the branch has these commits, and all that they lead to.
fn assert_whole(sim: &SimStorage, numbers: &[usize], place: &str) {
    let repo = opened(sim);
    let tree = repo.branch("main").unwrap().tree().unwrap_or_else(|error| panic!("{place}: {error}"));
    for n in 0..10 {
        let expected = numbers.contains(&n).then(|| n.to_string().into_bytes());
        let found = tree.get(format!("d{n}/f")).unwrap_or_else(|error| panic!("{place}: {error}"));
        assert_eq!(found.as_deref(), expected.as_deref(), "{place}: d{n}/f");
    }
    let head = repo.branch("main").unwrap().head().unwrap().unwrap();
    let log = repo.log(&[head], LogOptions::default()).collect::<Result<Vec<_>, _>>();
    assert_eq!(log.unwrap_or_else(|error| panic!("{place}: {error}")).len(), numbers.len(), "{place}");
}

fn created() -> SimStorage {
    let sim = SimStorage::new();
    drop(SimGit::default().create(Arc::new(sim.clone())).unwrap());
    sim
}

#[test]
fn a_synced_commit_on_one_that_git_did_not_sync_lasts_with_it() {
    for (first, between) in [(Durability::Synced, None), (Durability::Synced, Some(Durability::None))] {
        let sim = created();
        commit(&opened(&sim), 0, first);
        let before = opened(&sim);
        for round in 0..2 {
            let n = 1 + 3 * round;
            commit_as_git(&sim, n, false);
            let mut numbers: Vec<usize> = (0..=n).collect();
            if let Some(durability) = between {
                commit(&before, n + 1, durability);
                numbers.push(n + 1);
            }
            commit(&before, n + 2, Durability::Synced);
            numbers.push(n + 2);
            if between.is_none() {
                numbers = if round == 0 { vec![0, 1, 3] } else { vec![0, 1, 3, 4, 6] };
            }
            for (seed, policy) in [Policy::Lost, Policy::Kept, Policy::Sectors, Policy::Writes].into_iter().enumerate()
            {
                let cut = sim.fork().reboot(seed as u64, policy);
                assert_whole(&cut, &numbers, &format!("round {round}, {between:?}, {policy:?}"));
            }
        }
    }
}

/// A flush makes the file of a branch durable as it is, and what a Git put there leads to what no one has synced.
#[test]
fn a_flush_makes_durable_what_a_git_moved_a_branch_to_meanwhile() {
    let sim = created();
    let made = opened(&sim);
    commit(&made, 0, Durability::Synced);
    commit(&made, 1, Durability::None);
    commit_as_git(&sim, 2, false);
    made.backend().flush().unwrap();
    for (seed, policy) in [Policy::Lost, Policy::Kept, Policy::Sectors, Policy::Writes].into_iter().enumerate() {
        assert_whole(&sim.fork().reboot(seed as u64, policy), &[0, 1, 2], &format!("{policy:?}"));
    }
}

/// What this store moved last costs no sync more than any commit.
#[test]
fn a_synced_commit_on_one_of_ours_syncs_nothing_of_others() {
    let sim = created();
    let cost = |repo: &Repo<Git>, n: usize| {
        let before = repo.backend().stats().syncs;
        commit(repo, n, Durability::Synced);
        repo.backend().stats().syncs - before
    };
    let first = opened(&sim);
    commit(&first, 0, Durability::Synced);
    let usual = cost(&first, 1);
    assert_eq!(cost(&first, 2), usual);
    // Neither in another process that finds the branch so, nor once the first process goes on after that one.
    let second = opened(&sim);
    commit(&second, 3, Durability::Synced);
    assert_eq!(cost(&first, 4), usual);
    assert_eq!(cost(&second, 5), usual);
    commit_as_git(&sim, 6, false);
    assert!(cost(&second, 7) > usual, "the commit of Git is to be synced");
    assert_eq!(cost(&second, 8), usual);
}

#[test]
fn a_recovery_goes_back_to_what_git_made_durable_in_between() {
    for head_start in [false, true] {
        let sim = created();
        let first = opened(&sim);
        commit(&first, 0, Durability::Synced);
        if head_start {
            commit(&first, 1, Durability::None);
        }
        commit_as_git(&sim, 2, true);
        let packs = |sim: &SimStorage| {
            let names = sim.list("objects/pack").unwrap().into_iter();
            names.filter(|name| name.ends_with(".pack")).collect::<Vec<String>>()
        };
        let before = packs(&sim);
        commit(&first, 3, Durability::None);
        let cut = sim.fork().reboot(0, Policy::Kept);
        let new: Vec<String> = packs(&cut).into_iter().filter(|name| !before.contains(name)).collect();
        assert_eq!(new.len(), 1);
        cut.remove(&format!("objects/pack/{}", new[0])).unwrap();
        assert_whole(&cut, if head_start { &[0, 1, 2] } else { &[0, 2] }, &format!("{head_start}"));
    }
}

/// A ref that Git moved back stands in a file that is younger than what the journal says last.
#[needs(git)]
#[test]
fn a_recovery_undoes_no_reset_of_gits() {
    for reset in [false, true] {
        let dir = tempfile::tempdir().unwrap();
        Layout::init(dir.path(), true, Algorithm::Sha1).unwrap();
        let git = RealGit::new(dir.path());
        let options = |boot: &str| GitOptions::default().background(false).boot(Some(boot.to_owned()));
        let backend = GitBackend::open_path(&Layout::open(dir.path()).unwrap(), options("before")).unwrap();
        let backend = Arc::new(backend);
        let made = repo(backend.clone());
        commit(&made, 0, Durability::Synced);
        let first = git.text(&["rev-parse", "main"]);
        commit(&made, 1, Durability::None);
        let second = git.text(&["rev-parse", "main"]);
        // The machine loses its power before anything is flushed.
        std::mem::forget((made, backend));
        std::thread::sleep(Duration::from_millis(30));
        if reset {
            git.run(&["update-ref", MAIN, &first]);
        }
        drop(open_again(dir.path(), options("after")));
        assert_eq!(git.text(&["rev-parse", "main"]), if reset { first } else { second });
        git.fsck();
    }
}

/// Where another branch moved since, no file tells what a Git did to this one, and its reflog does.
#[needs(git)]
#[test]
fn a_recovery_undoes_nothing_that_a_reflog_tells_of() {
    for done in ["", "reset", "removed"] {
        let dir = tempfile::tempdir().unwrap();
        Layout::init(dir.path(), true, Algorithm::Sha1).unwrap();
        let git = RealGit::new(dir.path());
        git.run(&["config", "core.logAllRefUpdates", "true"]);
        let options = |boot: &str| GitOptions::default().background(false).boot(Some(boot.to_owned()));
        let backend = open_again(dir.path(), options("before"));
        let made = repo(backend.clone());
        commit(&made, 0, Durability::Synced);
        let first = git.text(&["rev-parse", MAIN]);
        commit(&made, 1, Durability::None);
        let second = git.text(&["rev-parse", MAIN]);
        match done {
            "reset" => _ = git.run(&["update-ref", MAIN, &first]),
            "removed" => _ = git.run(&["update-ref", "-d", MAIN]),
            _ => {}
        }
        std::thread::sleep(Duration::from_millis(30));
        let side = made.branch("side").unwrap();
        side.edit(&info("side", Durability::None), |tree| tree.set("f", "side")).unwrap();
        // The machine loses its power before anything is flushed.
        drop(side);
        std::mem::forget((made, backend));
        drop(open_again(dir.path(), options("after")));
        let (there, now) = git.attempt(&["rev-parse", "-q", "--verify", MAIN]);
        assert_eq!(there, done != "removed", "{done}: {now}");
        if there {
            assert_eq!(now.trim(), if done == "reset" { &first } else { &second }, "{done}");
        }
        git.fsck();
    }
}

fn open_again(dir: &std::path::Path, options: GitOptions) -> Arc<GitBackend> {
    Arc::new(GitBackend::open_path(&Layout::open(dir).unwrap(), options).unwrap())
}
