//! Notes in a release build the revision of the sources, with a mark if they were changed: rows say what was measured. Other
//! builds are not measured for others, and not built anew with every commit.

use std::{env, path::Path, process::Command};

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    if env::var("PROFILE").as_deref() != Ok("release") {
        return;
    }
    let git = |arguments: &[&str]| {
        let output = Command::new("git").args(arguments).output().ok()?;
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    let Some(revision) = git(&["rev-parse", "--short=10", "HEAD"]) else { return };
    // What a build is made of: `:/` is the root of the repository.
    let sources = [":/Cargo.toml", ":/Cargo.lock", ":/crates", ":/lab"];
    let changes = git(&[&["status", "--porcelain", "--untracked-files=no", "--"], &sources[..]].concat());
    let mark = if changes.is_none_or(|changes| !changes.is_empty()) { "+" } else { "" };
    println!("cargo:rustc-env=BRISTLECONE_BUILT_FROM={revision}{mark}");
    // Commits, checkouts, and changes of sources.
    for name in ["HEAD", "logs/HEAD", "index"] {
        if let Some(path) = git(&["rev-parse", "--git-path", name]).filter(|path| Path::new(path).exists()) {
            println!("cargo:rerun-if-changed={path}");
        }
    }
    for folder in ["../../crates", "../../lab"] {
        println!("cargo:rerun-if-changed={folder}");
    }
}
