//! Real `git` in a folder of its own, deaf to the configuration of whoever runs the tests.

use std::{
    path::Path,
    process::{Command, Output},
};

/// Runs `git` in a folder and returns what came of it.
pub fn output(dir: &Path, args: &[&str]) -> Output {
    Command::new("git")
        .current_dir(dir)
        .args(args)
        .envs([
            ("GIT_CONFIG_NOSYSTEM", "1"),
            ("GIT_CONFIG_GLOBAL", "/dev/null"),
            ("GIT_AUTHOR_NAME", "A"),
            ("GIT_AUTHOR_EMAIL", "a@example.org"),
            ("GIT_COMMITTER_NAME", "C"),
            ("GIT_COMMITTER_EMAIL", "c@example.org"),
        ])
        .env_remove("GIT_DIR")
        .output()
        .expect("git is installed")
}

/// Runs `git` in a folder and returns what it prints.
///
/// # Panics
/// If it fails.
pub fn git(dir: &Path, args: &[&str]) -> String {
    let output = output(dir, args);
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "git {args:?}: {errors}");
    String::from_utf8(output.stdout).expect("text").trim_end().to_owned()
}

/// Checks the repository as strictly as Git can, and that it has nothing to say.
///
/// # Panics
/// If it does.
pub fn fsck(dir: &Path) {
    let output = output(dir, &["fsck", "--strict", "--full", "--no-dangling", "--no-progress"]);
    let text = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    let text: String = text.lines().filter(|line| !line.starts_with("notice:")).collect();
    assert!(output.status.success() && text.is_empty(), "git fsck: {text}");
}
