//! Configuration files of Git.
//!
//! A file is read without those that it includes (`include.path`, `includeIf`), unless the caller asks for them:
//! nothing that decides how a repository is read may stand there.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::{fs, io};

use bristlecone::{Error, Result};

use self::parse::Setting;
use crate::repository::error;

mod parse;

/// How deep files may include each other.
const INCLUDES_DEEP_MAX: usize = 10;
/// How many files one may include, with those that these include: each level could be many times as many as the one before.
const INCLUDES_MAX: usize = 1000;

/// Says whether a condition of `includeIf` holds, in the file of this name.
pub type Condition<'a> = &'a dyn Fn(&Path, &[u8]) -> bool;

/// What a configuration says.
///
/// Keys are `section.name` or `section.subsection.name`; section and name without regard to case.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Config {
    /// Keys, section and name in lower case, with their values, in the order of the file.
    entries: Vec<Setting>,
}

impl Config {
    /// Reads a file's bytes; `file` names it in errors.
    ///
    /// # Errors
    /// [`bristlecone::Error::Corrupt`] where the syntax is broken.
    pub fn parse(file: &str, bytes: &[u8]) -> Result<Self> {
        match parse::parse(bytes) {
            Ok(entries) => Ok(Self { entries }),
            Err((at, reason)) => Err(error::corrupt(file, at as u64, None, reason)),
        }
    }

    /// Reads a file; one that is not there says nothing.
    ///
    /// # Errors
    /// As [`Config::parse`]; those of the system.
    pub fn read(path: &Path) -> Result<Self> {
        let file = path.display().to_string();
        match fs::read(path) {
            Ok(bytes) => Self::parse(&file, &bytes),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Self::default()),
            Err(source) => Err(Error::io(file, source)),
        }
    }

    /// Adds what the files say that these settings, which are those of `file`, include, each in its place.
    ///
    /// # Errors
    /// As [`Config::read`]; [`bristlecone::Error::Corrupt`] where there are more than a thousand.
    pub fn with_included(self, file: &Path, holds: Condition<'_>) -> Result<Self> {
        let mut left = INCLUDES_MAX;
        self.included(file, holds, 0, &mut left)
    }

    fn included(self, file: &Path, holds: Condition<'_>, depth: usize, left: &mut usize) -> Result<Self> {
        let mut all = Self::default();
        for (key, value) in self.entries {
            let condition = key.strip_prefix(b"includeif.").and_then(|rest| rest.strip_suffix(b".path"));
            let wanted = key == b"include.path" || condition.is_some_and(|condition| holds(file, condition));
            let path = value.as_deref().filter(|_| wanted && depth < INCLUDES_DEEP_MAX).map(expanded);
            all.entries.push((key, value));
            if let Some(path) = path {
                let path = file.parent().map_or_else(|| path.clone(), |folder| folder.join(&path));
                let reason = "it and those that it includes include too many files, perhaps each other";
                *left =
                    left.checked_sub(1).ok_or_else(|| error::corrupt(file.display().to_string(), 0, None, reason))?;
                all.append(Self::read(&path)?.included(&path, holds, depth + 1, left)?);
            }
        }
        Ok(all)
    }

    /// Returns what the user's own files say: `$XDG_CONFIG_HOME/git/config` and `~/.gitconfig`.
    ///
    /// # Errors
    /// As [`Config::read`].
    pub fn of_user() -> Result<Self> {
        Self::of_user_with(&|_, _| false)
    }

    /// As [`Config::of_user`], with the files that these include.
    ///
    /// # Errors
    /// As [`Config::read`].
    pub fn of_user_with(holds: Condition<'_>) -> Result<Self> {
        let home = home();
        let xdg = std::env::var_os("XDG_CONFIG_HOME").filter(|dir| !dir.is_empty()).map(PathBuf::from);
        let xdg = xdg.or_else(|| home.as_ref().map(|home| home.join(".config")));
        let mut config = Self::default();
        let files = [xdg.map(|dir| dir.join("git/config")), home.map(|home| home.join(".gitconfig"))];
        for file in files.into_iter().flatten() {
            config.append(Self::read(&file)?.with_included(&file, holds)?);
        }
        Ok(config)
    }

    /// Adds the settings of another configuration, which take precedence.
    pub fn append(&mut self, other: Self) {
        self.entries.extend(other.entries);
    }

    /// Returns the last value of a key. A key without a value has `true`.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&[u8]> {
        self.all(key).last()
    }

    /// Returns all values of a key in order.
    pub fn all(&self, key: &str) -> impl Iterator<Item = &[u8]> {
        let key = canonical(key);
        let entries = self.entries.iter().filter(move |entry| entry.0 == key);
        entries.map(|entry| entry.1.as_deref().unwrap_or(b"true"))
    }

    /// Returns the last value of a key as a truth: `true`, `yes`, `on` or a number but 0; `false`, `no`, `off`, nothing
    /// or
    /// 0. `None` if the key is absent or says something else.
    #[must_use]
    pub fn bool(&self, key: &str) -> Option<bool> {
        let value = self.get(key)?.to_ascii_lowercase();
        match &*value {
            b"true" | b"yes" | b"on" => Some(true),
            b"false" | b"no" | b"off" | b"" => Some(false),
            _ => self.number(key).map(|number| number != 0),
        }
    }

    /// Returns the last value of a key as a number, which may end with `k`, `m` or `g` for powers of 1,024.
    #[must_use]
    pub fn number(&self, key: &str) -> Option<i64> {
        let text = std::str::from_utf8(self.get(key)?).ok()?;
        let (digits, unit) = match text.as_bytes().last()?.to_ascii_lowercase() {
            b'k' => (&text[..text.len() - 1], 1 << 10),
            b'm' => (&text[..text.len() - 1], 1 << 20),
            b'g' => (&text[..text.len() - 1], 1 << 30),
            _ => (text, 1),
        };
        digits.parse::<i64>().ok()?.checked_mul(unit)
    }

    /// Returns the names of the settings in a section without a subsection, in lower case, and their values.
    pub fn section(&self, section: &str) -> impl Iterator<Item = (&[u8], &[u8])> {
        let mut front = section.to_ascii_lowercase().into_bytes();
        front.push(b'.');
        self.entries.iter().filter_map(move |(key, value)| {
            let name = key.strip_prefix(&*front)?;
            (!name.contains(&b'.')).then(|| (name, value.as_deref().unwrap_or(b"true")))
        })
    }
}

fn home() -> Option<PathBuf> {
    std::env::var_os("HOME").filter(|home| !home.is_empty()).map(PathBuf::from)
}

/// Returns the path that a setting names: `~/` is the user's own folder.
pub(crate) fn expanded(path: &[u8]) -> PathBuf {
    match (path.strip_prefix(b"~/"), home()) {
        (Some(rest), Some(home)) => home.join(OsStr::from_bytes(rest)),
        _ => PathBuf::from(OsStr::from_bytes(path)),
    }
}

/// Returns a key with its section and its name in lower case; the subsection between them stays as it is.
fn canonical(key: &str) -> Vec<u8> {
    let mut key = key.as_bytes().to_vec();
    let first = key.iter().position(|byte| *byte == b'.').unwrap_or(key.len());
    let last = key.iter().rposition(|byte| *byte == b'.').unwrap_or(0);
    key[..first].make_ascii_lowercase();
    key[last..].make_ascii_lowercase();
    key
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn included_files_stand_where_they_are_included_and_end_somewhere() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
        write(
            "a",
            "[x]\ny = 1\n[include]\npath = b\n[includeIf \"yes:1\"]\npath=c\n[includeIf \"no:1\"]\npath=d\n[x]\nz=1",
        );
        write("b", "[x]\ny = 2\nz = 2\n[include]\npath = nowhere");
        write("c", "[x]\nw = 3\n[include]\npath = c");
        write("d", "[x]\ny = 4\n");
        let file = folder.path().join("a");
        let config = Config::read(&file).unwrap();
        assert_eq!(config.get("x.y"), Some(&b"1"[..]));
        let all = config.with_included(&file, &|_, condition| condition == b"yes:1").unwrap();
        assert_eq!([all.get("x.y"), all.get("x.z"), all.get("x.w")], [Some(&b"2"[..]), Some(b"1"), Some(b"3")]);
        assert_eq!(all.all("x.w").count(), INCLUDES_DEEP_MAX);
    }

    #[test]
    fn files_that_include_themselves_again_and_again_are_refused_soon() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a");
        // Ten levels of these would be 10,000,000,000 files.
        fs::write(&file, "[include]\npath = a\n".repeat(10)).unwrap();
        let all = Config::read(&file).unwrap().with_included(&file, &|_, _| false);
        assert!(matches!(all, Err(Error::Corrupt { .. })), "{all:?}");
    }

    #[test]
    fn values_are_what_git_makes_of_them() {
        let text = b"\xef\xbb\xbf# comment\r\n[Core]\r\n\tBare = false ; why\n  worktree =  a b  \n[user]\nName=\" two  \" x # no\n\
            email = a\\\"b\\\\c\\td\\n [x] # more\n\tflag\n\tlong = one \\\n  two\n[remote \"Or.i\\\"g\"] url = u1\n\
            url = u2\n[branch.Main] merge=x\n[core] bare = on\nsize = 2k\nempty =\n[a-b]c-d=1";
        let config = Config::parse("config", text).unwrap();
        let get = |key| config.get(key).map(|value| String::from_utf8_lossy(value).into_owned());
        assert_eq!(get("core.bare").as_deref(), Some("on"));
        assert_eq!(config.bool("CORE.Bare"), Some(true));
        assert_eq!(get("core.worktree").as_deref(), Some("a b"));
        assert_eq!(get("user.name").as_deref(), Some(" two   x"));
        assert_eq!(get("user.email").as_deref(), Some("a\"b\\c\td\n [x]"));
        assert_eq!(config.bool("user.flag"), Some(true));
        assert_eq!(get("user.long").as_deref(), Some("one   two"));
        assert_eq!(config.all("remote.Or.i\"g.URL").collect::<Vec<_>>(), [b"u1", b"u2"]);
        assert_eq!(get("remote.or.i\"g.url"), None);
        assert_eq!(get("branch.main.merge").as_deref(), Some("x"));
        assert_eq!(config.number("core.size"), Some(2048));
        assert_eq!(config.bool("core.empty"), Some(false));
        assert_eq!(get("a-b.c-d").as_deref(), Some("1"));
        assert_eq!(config.section("CORE").count(), 5);
        assert_eq!(config.get("core.none"), None);
    }

    #[test]
    fn broken_files_are_refused_without_a_panic() {
        for text in
            ["x = 1", "[a", "[a]\n=1", "[a]\nb = \"open", "[a]\nb = \\x", "[]", "[a \"b\nc\"]", "[a]\nb c", "[a]\n1=2"]
        {
            assert!(Config::parse("config", text.as_bytes()).is_err(), "{text}");
        }
        let text = b"[a \"b\"]\n c = \"d\" \\\n e ; f\r\n[g] h";
        for cut in 0..text.len() {
            let _ = Config::parse("config", &text[..cut]);
            for bit in 0..8 {
                let mut text = text.to_vec();
                text[cut] ^= 1 << bit;
                let _ = Config::parse("config", &text);
            }
        }
    }
}
