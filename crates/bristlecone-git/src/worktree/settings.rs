//! Settings of Git that say how files are written: of the repository, of the user, and of the machine.

use std::{
    env,
    ffi::OsStr,
    fs,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

use bristlecone::Result;

use super::{
    glob::Glob,
    heads::{WorktreeHead, head},
};
use crate::repository::layout::{Config, Layout, expanded};

const MACHINE: &str = "/etc/gitconfig";
/// The file of attributes that counts for all repositories of the machine.
const MACHINE_ATTRIBUTES: &str = "/etc/gitattributes";

/// All settings that count for a repository, the nearer ones first, with those of files that others include.
///
/// Of the conditions of `includeIf`, `gitdir`, `gitdir/i` and `onbranch` are known; others do not hold.
#[derive(Clone, Debug)]
pub struct Settings {
    layers: [Config; 3],
}

impl Settings {
    /// Reads the settings of the repository, of the user, and of the machine unless `$GIT_CONFIG_NOSYSTEM` is set.
    ///
    /// # Errors
    /// [`bristlecone::Error::Corrupt`] where the syntax is broken; [`bristlecone::Error::Io`].
    pub fn of(layout: &Layout) -> Result<Self> {
        let none = says_yes("GIT_CONFIG_NOSYSTEM");
        let holds = |file: &Path, condition: &[u8]| holds(layout, file, condition);
        let own = layout.config.clone().with_included(&layout.common_dir.join("config"), &holds)?;
        let user = Config::of_user_with(&holds)?;
        let machine = if none { Config::default() } else { Config::read(Path::new(MACHINE))? };
        Ok(Self { layers: [own, user, machine.with_included(Path::new(MACHINE), &holds)?] })
    }

    /// Returns the value of a key.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&[u8]> {
        self.layers.iter().find_map(|layer| layer.get(key))
    }

    /// Returns the value of a key as a truth.
    #[must_use]
    pub fn bool(&self, key: &str) -> Option<bool> {
        self.layers.iter().find_map(|layer| layer.bool(key))
    }

    /// Returns all values of a key that are set outside of the repository, the machine's first.
    pub(super) fn beyond(&self, key: &str) -> impl Iterator<Item = &[u8]> {
        self.layers.iter().skip(1).rev().flat_map(move |layer| layer.all(key))
    }

    /// Returns the files of attributes that count for the working tree `top` and lie outside of it: that of the machine unless
    /// `$GIT_ATTR_NOSYSTEM` is set, then that of the user, which counts for more. A relative one is below the working tree.
    pub(super) fn attributes_files(&self, top: &Path) -> Vec<PathBuf> {
        self.attributes_files_with(top, !says_yes("GIT_ATTR_NOSYSTEM"))
    }

    fn attributes_files_with(&self, top: &Path, of_machine: bool) -> Vec<PathBuf> {
        let machine = of_machine.then(|| PathBuf::from(MACHINE_ATTRIBUTES));
        let user = Some(self.file_or("core.attributesFile", "attributes")).filter(|file| !file.as_os_str().is_empty());
        machine.into_iter().chain(user.map(|file| top.join(file))).collect()
    }

    /// Returns the file of ignored paths that counts for all repositories of the user. A relative one is below the
    /// working tree.
    #[must_use]
    pub fn excludes_file(&self) -> PathBuf {
        self.file_or("core.excludesFile", "ignore")
    }

    /// Returns the file that a setting names, or the one of the user's with this name.
    fn file_or(&self, key: &str, name: &str) -> PathBuf {
        if let Some(file) = self.get(key) {
            return expanded(file);
        }
        let base = env::var_os("XDG_CONFIG_HOME").filter(|dir| !dir.is_empty()).map(PathBuf::from);
        base.unwrap_or_else(|| expanded(b"~/.config")).join("git").join(name)
    }
}

/// Whether a variable of the environment says yes, as Git understands it.
fn says_yes(variable: &str) -> bool {
    let set = env::var_os(variable).unwrap_or_default().to_ascii_lowercase();
    !matches!(set.as_bytes(), b"" | b"0" | b"false" | b"no" | b"off")
}

/// Whether a condition of `includeIf` holds for the repository.
fn holds(layout: &Layout, file: &Path, condition: &[u8]) -> bool {
    if let Some(pattern) = condition.strip_prefix(b"onbranch:") {
        let head = match head(&layout.git_dir) {
            Ok(WorktreeHead::Ref(name)) => name,
            _ => return false,
        };
        let branch = head.strip_prefix("refs/heads/").unwrap_or_default();
        return !branch.is_empty() && Glob::new(&with_all_below(pattern.to_vec()), false).matches(branch.as_bytes());
    }
    let (pattern, fold) = match (condition.strip_prefix(b"gitdir:"), condition.strip_prefix(b"gitdir/i:")) {
        (Some(pattern), _) => (pattern, false),
        (None, Some(pattern)) => (pattern, true),
        (None, None) => return false,
    };
    let pattern = match (pattern.strip_prefix(b"./"), file.parent()) {
        (Some(rest), Some(folder)) => folder.join(OsStr::from_bytes(rest)).into_os_string(),
        _ => expanded(pattern).into_os_string(),
    };
    let pattern = pattern.as_bytes();
    let pattern = with_all_below(if pattern.starts_with(b"/") { pattern.to_vec() } else { [b"**/", pattern].concat() });
    let folders = [Some(layout.git_dir.clone()), fs::canonicalize(&layout.git_dir).ok()];
    let pattern = Glob::new(&pattern, fold);
    folders.into_iter().flatten().any(|folder| pattern.matches(folder.as_os_str().as_bytes()))
}

/// A pattern that ends with a slash stands for all below.
fn with_all_below(mut pattern: Vec<u8>) -> Vec<u8> {
    if pattern.ends_with(b"/") {
        pattern.extend_from_slice(b"**");
    }
    pattern
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_of_the_machine_come_before_those_of_the_user() {
        let files = |config: &str, of_machine| {
            let own = Config::parse("config", config.as_bytes()).unwrap();
            let settings = Settings { layers: [own, Config::default(), Config::default()] };
            settings.attributes_files_with(Path::new("/top"), of_machine)
        };
        let paths = |names: &[&str]| names.iter().map(PathBuf::from).collect::<Vec<_>>();
        let named = "[core]\nattributesFile = /else/where\n";
        assert_eq!(files(named, true), paths(&["/etc/gitattributes", "/else/where"]));
        assert_eq!(files(named, false), paths(&["/else/where"]));
        assert_eq!(files("[core]\nattributesFile = a/b\n", false), paths(&["/top/a/b"]));
        assert_eq!(files("[core]\nattributesFile =\n", true), paths(&["/etc/gitattributes"]));
    }
}
