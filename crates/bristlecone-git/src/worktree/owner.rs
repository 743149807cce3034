//! Whose repository it is: Git trusts the settings of its user's own repositories, and of those named as safe.

use std::{
    env, fs,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

use bristlecone::Result;

use super::settings::Settings;
use crate::repository::layout::{Layout, expanded};

/// Returns the folder or file of a repository that belongs to another user, and the number of that user, unless the
/// settings of the user or of the machine say that the repository is safe (`safe.directory`).
///
/// As with Git, what counts is the owner of the working tree, of its `.git`, and of the folder that has `HEAD`. A user
/// who came by `sudo` is trusted with what was theirs before.
///
/// # Errors
/// As [`Settings::of`].
pub fn foreign_owner(layout: &Layout) -> Result<Option<(PathBuf, u32)>> {
    let top = layout.worktree.as_deref().unwrap_or(&layout.git_dir);
    let link = layout.worktree.as_ref().map(|top| top.join(".git"));
    let places = [layout.worktree.as_deref(), link.as_deref(), Some(&*layout.git_dir)];
    let foreign = places.into_iter().flatten().find_map(|place| {
        let owner = fs::symlink_metadata(place).ok()?.uid();
        (!is_ours(owner)).then(|| (place.to_owned(), owner))
    });
    match foreign {
        Some(_) if is_safe(&Settings::of(layout)?, top) => Ok(None),
        foreign => Ok(foreign),
    }
}

fn is_ours(owner: u32) -> bool {
    let own = rustix::process::geteuid();
    let before = || env::var("SUDO_UID").ok()?.parse::<u32>().ok();
    owner == own.as_raw() || own.is_root() && before() == Some(owner)
}

/// Whether a setting names the folder, or all folders, or all below one above it. An empty value takes back those
/// before.
fn is_safe(settings: &Settings, top: &Path) -> bool {
    let top = fs::canonicalize(top).unwrap_or_else(|_| top.to_owned());
    let mut safe = false;
    for value in settings.beyond("safe.directory") {
        safe = match value {
            b"" => false,
            b"*" => true,
            _ => safe || matches(value, &top),
        };
    }
    safe
}

/// Whether a value that is a path is of this folder. One that is not absolute would mean another folder wherever the process
/// is: but for a dot, the folder that it is in, Git passes over it, too.
fn matches(value: &[u8], top: &Path) -> bool {
    if value != b"." && !expanded(value).is_absolute() {
        return false;
    }
    let (folder, below) = match value.strip_suffix(b"/*") {
        Some(folder) => (folder, true),
        None => (value, false),
    };
    let folder = expanded(folder);
    let folder = fs::canonicalize(&folder).unwrap_or(folder);
    if below { top.starts_with(&folder) && top != folder } else { top == folder }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_named_or_lies_below() {
        let top = Path::new("/nowhere/a/b");
        for (value, expected) in [
            (&b"/nowhere/a/b"[..], true),
            (b"/nowhere/a/*", true),
            (b"/nowhere/*", true),
            (b"/nowhere/a", false),
            (b"/nowhere/a/b/*", false),
            (b"/nowhere/a/bc", false),
        ] {
            assert_eq!(matches(value, top), expected, "{}", String::from_utf8_lossy(value));
        }
    }

    #[test]
    fn a_name_that_is_not_absolute_is_passed_over() {
        let here = fs::canonicalize(".").unwrap();
        for value in [&b"src"[..], b"./src", b"*/src", b"./*"] {
            assert!(!matches(value, &here.join("src")), "{}", String::from_utf8_lossy(value));
        }
        assert!(matches(b".", &here) && !matches(b".", &here.join("src")));
        assert!(matches(b"/*", &here));
    }
}
