//! Repositories are found where Git finds them, made as Git expects them, and refused where they are not understood.

use std::path::{Path, PathBuf};

use bristlecone::core::git::Algorithm;
use bristlecone::{Durability, Error, RefTarget};
use bristlecone_git::backend::{GitBackend, GitOptions};
use bristlecone_git::history::Repository;
use bristlecone_git::layout::{Config, Layout};
use bristlecone_git::refs::Refs;
use bristlecone_needs::needs;
use bristlecone_testkit::git::Git;

fn canonical(path: impl AsRef<Path>) -> PathBuf {
    path.as_ref().canonicalize().unwrap()
}

#[needs(git)]
#[test]
fn what_we_make_is_a_repository_to_git() {
    for algorithm in [Algorithm::Sha1, Algorithm::Sha256] {
        for bare in [true, false] {
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join("new/repo");
            let made = Layout::init(&path, bare, algorithm).unwrap();
            assert_eq!((made.algorithm, made.is_bare(), made.is_linked()), (algorithm, bare, false));
            let git = Git::new(&path);
            assert_eq!(git.text(&["rev-parse", "--is-bare-repository"]), bare.to_string());
            assert_eq!(git.text(&["rev-parse", "--show-object-format"]), algorithm.name());
            let git_dir = git.text(&["rev-parse", "--absolute-git-dir"]);
            assert_eq!(canonical(git_dir), canonical(&made.git_dir));
            git.fsck();
            if !bare {
                git.write("file", "text");
                git.commit_all("a commit");
                assert_eq!(git.text(&["status", "--porcelain"]), "");
            }
            assert!(matches!(Layout::init(&path, bare, algorithm), Err(Error::Exists { .. })));
        }
    }
}

#[needs(git)]
#[test]
fn repositories_of_git_are_found_from_within() {
    let dir = tempfile::tempdir().unwrap();
    let root = canonical(dir.path());
    let git = Git::init(root.join("repo"), &[]);
    git.write("deep/er/file", "text");
    git.commit_all("a commit");
    let from = |path: PathBuf| Layout::discover(&path).unwrap().expect("a repository");
    for path in ["repo", "repo/deep/er", "repo/.git", "repo/.git/objects/pack"] {
        let found = from(root.join(path));
        assert_eq!(found.git_dir, root.join("repo/.git"), "{path}");
        assert_eq!(found.common_dir, found.git_dir);
        assert_eq!(found.worktree, Some(root.join("repo")), "{path}");
        assert_eq!(found.algorithm, Algorithm::Sha1);
    }
    assert!(matches!(Layout::open(&root), Err(Error::NoStore { .. })));

    // A linked working tree has a HEAD of its own and shares the rest.
    git.run(&["worktree", "add", "-q", "../linked tree", "-b", "other"]);
    for path in ["linked tree", "linked tree/deep", "linked tree/.git"] {
        let found = from(root.join(path));
        assert_eq!(found.git_dir, root.join("repo/.git/worktrees/linked-tree"), "{path}");
        assert_eq!(found.common_dir, root.join("repo/.git"), "{path}");
        assert_eq!(found.worktree, Some(root.join("linked tree")), "{path}");
        assert!(found.is_linked() && !found.is_bare());
    }
    let by_its_folder = Layout::open(&root.join("repo/.git/worktrees/linked-tree")).unwrap();
    assert_eq!(by_its_folder.worktree.map(canonical), Some(root.join("linked tree")));

    // A repository elsewhere, as submodules have it.
    let here = Git::new(&root);
    here.run(&["init", "-q", "--separate-git-dir", "elsewhere.git", "apart"]);
    let found = from(root.join("apart"));
    assert_eq!((canonical(&found.git_dir), found.worktree), (root.join("elsewhere.git"), Some(root.join("apart"))));

    here.run(&["clone", "-q", "--bare", "repo", "bare.git"]);
    let found = from(root.join("bare.git/refs/heads"));
    assert_eq!((found.git_dir.clone(), found.is_bare()), (root.join("bare.git"), true));
    let bare = Git::new(root.join("bare.git"));
    bare.run(&["worktree", "add", "-q", "../of bare", "main"]);
    let found = from(root.join("of bare"));
    assert_eq!((found.common_dir, found.worktree), (root.join("bare.git"), Some(root.join("of bare"))));

    git.run(&["config", "core.worktree", "../../apart"]);
    assert_eq!(canonical(from(root.join("repo/.git")).worktree.unwrap()), root.join("apart"));
    git.run(&["config", "--unset", "core.worktree"]);
    git.run(&["config", "core.bare", "true"]);
    assert!(from(root.join("repo/.git")).is_bare());
}

/// As Git writes `.git` with `worktree.useRelativePaths`, and as a user may move it.
#[needs(git)]
#[test]
fn a_linked_working_tree_has_its_own_head_however_its_path_is_spelled() {
    let dir = tempfile::tempdir().unwrap();
    let root = canonical(dir.path());
    let git = Git::init(root.join("repo"), &[]);
    git.commit_all("a commit");
    git.run(&["worktree", "add", "-q", "../linked", "-b", "side"]);
    std::os::unix::fs::symlink("repo", root.join("alias")).unwrap();
    let absolute = format!("{}/alias/.git/worktrees/linked", root.display());
    for path in ["../repo/.git/worktrees/linked", "../alias/.git/worktrees/linked", &absolute] {
        std::fs::write(root.join("linked/.git"), format!("gitdir: {path}\n")).unwrap();
        for found in
            [Layout::open(&root.join("linked")).unwrap(), Layout::discover(&root.join("linked")).unwrap().unwrap()]
        {
            assert_eq!(found.head_dir().unwrap(), "worktrees/linked", "{path}");
            assert!(found.is_linked());
            let backend = GitBackend::open_path(&found, GitOptions::default()).unwrap();
            assert_eq!(backend.git_head().unwrap(), Some(RefTarget::Symbolic("refs/heads/side".to_owned())), "{path}");
        }
    }
    // A folder that is not below that of the repository has no HEAD there: the main one is another's.
    std::fs::rename(root.join("repo/.git/worktrees/linked"), root.join("moved")).unwrap();
    std::fs::write(root.join("moved/commondir"), "../repo/.git\n").unwrap();
    std::fs::write(root.join("linked/.git"), "gitdir: ../moved\n").unwrap();
    let found = Layout::open(&root.join("linked")).unwrap();
    let opened = GitBackend::open_path(&found, GitOptions::default());
    assert!(matches!(opened, Err(Error::Incompatible { .. })), "{opened:?}");
    assert!(Repository::open(&root.join("linked")).is_err());
}

/// As Git made it once, and makes it with `core.preferSymlinkRefs`.
#[test]
fn a_head_that_is_a_link_names_its_branch() {
    let dir = tempfile::tempdir().unwrap();
    Layout::init(dir.path(), false, Algorithm::Sha1).unwrap();
    let folder = dir.path().join(".git");
    std::fs::remove_file(folder.join("HEAD")).unwrap();
    std::os::unix::fs::symlink("refs/heads/side", folder.join("HEAD")).unwrap();
    let (backend, repo) = crate::backend::open(dir.path(), GitOptions::default());
    let named = Some(RefTarget::Symbolic("refs/heads/side".to_owned()));
    assert_eq!(backend.git_head().unwrap(), named);
    let info = crate::backend::info("one", Durability::None);
    repo.branch("side").unwrap().edit(&info, |tree| tree.set("f", "x")).unwrap();
    assert_eq!(backend.git_head().unwrap(), named);
    assert!(folder.join("logs/HEAD").exists() && folder.join("HEAD").is_symlink());
}

/// Git follows links to folders of refs, and so would a listing that never ends.
#[test]
fn folders_of_refs_that_lead_to_each_other_by_very_many_names_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let made = Layout::init(dir.path(), true, Algorithm::Sha1).unwrap();
    let heads = dir.path().join("refs/heads");
    for n in 0..30 {
        std::fs::create_dir(heads.join(n.to_string())).unwrap();
    }
    std::fs::write(heads.join("29/ref"), format!("{}\n", "1".repeat(40))).unwrap();
    let link = |from: usize, name: &str| {
        std::os::unix::fs::symlink(format!("../{}", from + 1), heads.join(format!("{from}/{name}"))).unwrap();
    };
    (0..4).for_each(|n| ["a", "b"].into_iter().for_each(|name| link(n, name)));
    let list = || Refs::open(made.storage(), Algorithm::Sha1, "").list("refs/heads/");
    // The last one by its name, and the fifth one by 1 + 2 + 4 + 8 + 16 of them.
    assert_eq!(list().unwrap().len(), 1);
    std::fs::write(heads.join("4/ref"), format!("{}\n", "2".repeat(40))).unwrap();
    assert_eq!(list().unwrap().len(), 32);
    (4..29).for_each(|n| ["a", "b"].into_iter().for_each(|name| link(n, name)));
    let listed = list();
    assert!(matches!(listed, Err(Error::Corrupt { .. })), "{listed:?}");
}

/// A link in a repository of somebody else may lead anywhere.
#[test]
fn a_folder_that_is_in_the_way_of_a_ref_is_emptied_without_following_links() {
    let (dir, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    Layout::init(dir.path(), true, Algorithm::Sha1).unwrap();
    let (inside, refs) = (outside.path().join("empty/too"), dir.path().join("refs/heads"));
    std::fs::create_dir_all(&inside).unwrap();
    std::fs::create_dir_all(refs.join("linked/deep")).unwrap();
    std::fs::create_dir_all(refs.join("free/deep/er")).unwrap();
    std::os::unix::fs::symlink(outside.path(), refs.join("linked/deep/link")).unwrap();
    let (_backend, repo) = crate::backend::open(dir.path(), GitOptions::default());
    let commit = |branch: &str| {
        let info = crate::backend::info(branch, Durability::None);
        repo.branch(branch).unwrap().edit(&info, |tree| tree.set("f", "x"))
    };
    let refused = commit("linked");
    assert!(matches!(refused, Err(Error::RefClash { .. })), "{refused:?}");
    assert!(inside.exists());
    commit("free").unwrap();
    assert!(refs.join("free").is_file());
}

#[test]
fn what_is_not_understood_is_refused_by_name() {
    let dir = tempfile::tempdir().unwrap();
    let made = Layout::init(dir.path(), true, Algorithm::Sha1).unwrap();
    let refusal = |config: &str| {
        std::fs::write(made.git_dir.join("config"), config).unwrap();
        match Layout::open(dir.path()) {
            Ok(_) => None,
            Err(error @ (Error::Incompatible { .. } | Error::Corrupt { .. })) => Some(error.to_string()),
            Err(other) => panic!("{other}"),
        }
    };
    let v1 = "[core]\nrepositoryformatversion = 1\n[extensions]\n";
    assert_eq!(refusal(""), None);
    assert_eq!(refusal(&format!("{v1}refStorage = files\nworktreeConfig\npartialClone = origin\n")), None);
    let v0 = "[core]\nrepositoryformatversion = 0\n[extensions]\n";
    assert_eq!(refusal(&format!("{v0}unheard-of = 1\n")), None);
    // Without a version no extension counts.
    assert_eq!(refusal("[extensions]\nobjectFormat = sha256\nrefStorage = reftable\n"), None);
    assert_eq!(Layout::open(dir.path()).unwrap().algorithm, Algorithm::Sha1);
    for (config, word) in [
        (format!("{v1}refStorage = reftable\n"), "extensions.refstorage = reftable"),
        (format!("{v1}unheard-of = 1\n"), "extensions.unheard-of = 1"),
        (format!("{v1}objectFormat = sha3\n"), "extensions.objectformat = sha3"),
        (format!("{v0}objectFormat = sha256\n"), "0 and extensions.objectformat = sha256"),
        (format!("{v0}objectFormat = sha1\n"), "0 and extensions.objectformat = sha1"),
        ("[core]\nrepositoryformatversion = 2\n".to_owned(), "repositoryformatversion 2"),
        ("[core]\nrepositoryformatversion = x\n".to_owned(), "repositoryformatversion x"),
        ("[core\n".to_owned(), "config is damaged at byte 6"),
    ] {
        let text = refusal(&config).expect("a refusal");
        assert!(text.contains(word), "{text}");
    }
    assert_eq!(refusal(&format!("{v1}objectFormat = sha256\n")), None);
    assert_eq!(Layout::open(dir.path()).unwrap().algorithm, Algorithm::Sha256);

    let other = tempfile::tempdir().unwrap();
    std::fs::write(other.path().join(".git"), "gitdir: nowhere\n").unwrap();
    assert!(matches!(Layout::discover(other.path()), Err(Error::NoStore { .. })));
    std::fs::write(other.path().join(".git"), "something else\n").unwrap();
    assert!(matches!(Layout::discover(other.path()), Err(Error::Corrupt { .. })));
}

#[needs(git)]
#[test]
fn configurations_say_what_git_reads_in_them() {
    let dir = tempfile::tempdir().unwrap();
    let git = Git::init(dir.path(), &[]);
    for (key, value) in [
        ("user.name", "  N\u{e4}me; with # marks  "),
        ("user.email", "a\\b\"c\"\td\ne"),
        ("Remote.Odd \"na\\me].URL", "x"),
        ("branch.main.description", ""),
    ] {
        git.run(&["config", key, value]);
    }
    git.run(&["config", "--add", "user.name", "second"]);
    let file = dir.path().join(".git/config");
    let mut text = std::fs::read(&file).unwrap();
    text.extend_from_slice(
        b"[a.B.c] D\r\n[a \"B\"]\n  e = 1 \\\n  2 ; three\n f=\"\"x\" y \"z\n[a]g=# none\n[A] h = a\\\\b # \"\n",
    );
    std::fs::write(&file, &text).unwrap();
    let config = Config::read(&file).unwrap();
    let listed = git.run(&["config", "--local", "--list", "--null"]);
    let mut expected: Vec<(String, String)> = Vec::new();
    for entry in listed.split(|byte| *byte == 0).filter(|entry| !entry.is_empty()) {
        let entry = String::from_utf8(entry.to_vec()).unwrap();
        let (key, value) = entry.split_once('\n').unwrap_or((&entry, "true"));
        expected.push((key.to_owned(), value.to_owned()));
    }
    assert!(expected.len() > 12);
    for (key, _) in &expected {
        let own: Vec<_> = config.all(key).map(|value| String::from_utf8(value.to_vec()).unwrap()).collect();
        let theirs: Vec<_> = expected.iter().filter(|entry| entry.0 == *key).map(|entry| entry.1.clone()).collect();
        assert_eq!(own, theirs, "{key}");
    }
}
