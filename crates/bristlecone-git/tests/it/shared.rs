//! Repositories that several users share: files and folders have the modes that Git would give them.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    os::unix::{
        fs::{MetadataExt as _, PermissionsExt as _},
        process::CommandExt as _,
    },
    path::Path,
    process::{Command, Output},
};

use bristlecone::{Backend as _, Durability};
use bristlecone_git::backend::GitOptions;
use bristlecone_needs::needs;
use bristlecone_testkit::git::Git;

use crate::backend::{info, open};

const DIR: &str = "BRISTLECONE_TEST_SHARED_DIR";
const NAME: &str = "BRISTLECONE_TEST_SHARED_NAME";

/// Commits in every way that makes files of another kind. The mask of modes is that of the process.
#[test]
#[ignore = "the body of a child process that another test starts"]
fn body_of_a_user() {
    let (dir, name) = (std::env::var(DIR).unwrap(), std::env::var(NAME).unwrap());
    for (n, loose) in [true, false, true, false].into_iter().enumerate() {
        let (backend, repo) = open(Path::new(&dir), GitOptions::default().loose(loose));
        for durability in [Durability::None, Durability::Synced] {
            let info = info(&format!("{name} {n} {durability:?}"), durability);
            let add =
                |tree: &mut bristlecone::Tree<_>| tree.set(format!("{name}/{n}"), format!("{durability:?}").as_bytes());
            repo.branch("deep/branch").unwrap().edit(&info, add).unwrap();
        }
        backend.write_derived("something", name.as_bytes()).unwrap();
    }
    let (backend, repo) = open(Path::new(&dir), GitOptions::default());
    let packed = repo.branch(&format!("packed-{name}")).unwrap();
    packed.compare_and_set(packed.head().unwrap(), None, Durability::Synced).unwrap();
    backend.repack_all().unwrap();
}

/// Runs a shell's line with a mask of modes.
fn masked(mask: &str, line: &str, git: &Git) -> Command {
    let mut like_git = git.command::<&str>(&[]);
    let mut command = Command::new("sh");
    command.args(["-c", &format!("umask {mask} && {line}")]).current_dir(git.dir());
    for (name, value) in like_git.env("GIT_CONFIG_COUNT", "1").get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    command.env("GIT_CONFIG_KEY_0", "safe.directory").env("GIT_CONFIG_VALUE_0", "*");
    command
}

fn done(output: Output) {
    let said = [output.stdout, output.stderr].concat();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&said));
}

/// Runs the body of a user, from a copy of this program that all users reach.
fn ours(program: &Path, mask: &str, git: &Git, name: &str) -> Command {
    let line = format!("exec '{}' --exact --ignored shared::body_of_a_user", program.display());
    let mut command = masked(mask, &line, git);
    command.env(DIR, git.dir()).env(NAME, name);
    command
}

/// What Git and we do first: branches that are packed, one for each user.
const BEGIN: &str = "echo 1 >file && git hash-object -w file && tree=$(git write-tree) && \
     first=$(git commit-tree -m first $tree) && git update-ref refs/heads/packed-one $first && \
     git update-ref refs/heads/packed-two $first && git pack-refs --all";
/// What Git alone does: each kind of file.
const GITS: &str = "git update-ref --create-reflog refs/heads/deep/branch packed-one && git repack -adq && \
     echo 2 >other && git hash-object -w other";

/// Returns the modes of each kind of file and folder below a repository's folder.
fn modes(dir: &Path) -> BTreeMap<&'static str, BTreeSet<String>> {
    let mut modes: BTreeMap<&'static str, BTreeSet<String>> = BTreeMap::new();
    let mut dirs = vec![dir.to_owned()];
    while let Some(at) = dirs.pop() {
        for entry in fs::read_dir(&at).unwrap() {
            let path = entry.unwrap().path();
            let name = path.strip_prefix(dir).unwrap().to_str().unwrap().to_owned();
            let metadata = fs::symlink_metadata(&path).unwrap();
            if metadata.is_dir() {
                dirs.push(path);
            }
            let made_by_init =
                ["hooks", "info", "branches", "objects/info", "description", "config", "HEAD", "file", "other"];
            if made_by_init.iter().any(|made| name.starts_with(made)) {
                continue;
            }
            let kind = match (metadata.is_dir(), name.strip_prefix("objects/")) {
                (true, _) => "folder",
                (false, Some(_)) => "object",
                (false, None) => "file",
            };
            modes.entry(kind).or_default().insert(format!("{:04o}", metadata.mode() & 0o7777));
        }
    }
    modes
}

/// Makes a copy of this program beside a repository, that all users reach.
fn program(dir: &Path) -> std::path::PathBuf {
    fs::set_permissions(dir, fs::Permissions::from_mode(0o755)).unwrap();
    let program = dir.join("tests");
    fs::copy(std::env::current_exe().unwrap(), &program).unwrap();
    program
}

#[needs(git)]
#[test]
fn files_have_the_modes_that_git_gives_them() {
    let dir = tempfile::tempdir().unwrap();
    let program = program(dir.path());
    for shared in ["umask", "group", "all", "0640", "0664", "0600"] {
        for mask in ["022", "077", "027", "002"] {
            let at = |by: &str| {
                let path = dir.path().join(format!("{by}-{shared}-{mask}"));
                fs::create_dir(&path).unwrap();
                let git = Git::new(&path);
                let init = format!("git init -q --bare --shared={shared} -b main . && {BEGIN}");
                done(masked(mask, &init, &git).output().unwrap());
                git
            };
            let (theirs, our) = (at("git"), at("ours"));
            done(masked(mask, GITS, &theirs).output().unwrap());
            let wanted = modes(theirs.dir());
            assert_eq!(wanted.values().map(BTreeSet::len).collect::<Vec<_>>(), [1, 1, 1], "{wanted:?}");
            done(ours(&program, mask, &our, "one").output().unwrap());
            let found = modes(our.dir());
            assert_eq!(found, wanted, "{found:?} instead of {wanted:?} with --shared={shared} and the mask {mask}");
            our.fsck();
        }
    }
}

#[needs(git, somebody_else)]
#[test]
fn another_user_of_the_group_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    let program = program(dir.path());
    let path = dir.path().join("shared");
    fs::create_dir(&path).unwrap();
    let git = Git::new(&path);
    // Without root there is one user alone, who then takes both parts.
    let root = rustix::process::geteuid().is_root();
    if root {
        std::os::unix::fs::chown(&path, None, Some(65534)).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o2770)).unwrap();
    }
    let another_user = |mut command: Command| {
        if root {
            command.uid(65534).gid(65534);
        }
        done(command.output().unwrap());
    };
    done(masked("077", &format!("git init -q --bare --shared=group -b main . && {BEGIN}"), &git).output().unwrap());
    done(ours(&program, "077", &git, "one").output().unwrap());
    another_user(ours(&program, "077", &git, "two"));
    another_user(masked(
        "077",
        "git update-ref -m git refs/heads/deep/branch packed-zero 2>&1 || git update-ref -m git \
        refs/heads/deep/branch refs/heads/deep/branch~1 && git gc -q",
        &git,
    ));
    done(
        masked(
            "077",
            "git update-ref refs/heads/packed-one deep/branch && git update-ref refs/heads/packed-two \
        deep/branch && git pack-refs --all",
            &git,
        )
        .output()
        .unwrap(),
    );
    another_user(ours(&program, "077", &git, "one"));
    done(ours(&program, "077", &git, "two").output().unwrap());
    git.fsck();
}
