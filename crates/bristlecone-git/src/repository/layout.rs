//! Where a repository is and what its configuration says.
//!
//! A working tree has a folder `.git`, or a file of that name that says where it is; a linked working tree has a folder
//! of its own in the repository, with `HEAD` and the index, and shares the rest through `commondir`.
//!
//! Source: Git's documentation, gitrepository-layout.

use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::{ffi::OsString, fs, io};

use bristlecone::core::git::Algorithm;
use bristlecone::storage::{OpenMode, RealStorage, Sharing, Storage, write_all_at};
use bristlecone::{Error, Result};

use crate::repository::{error, refs::PACKED_REFS};

mod config;

pub(crate) use config::expanded;
pub use config::{Condition, Config};

/// Extensions that change nothing of what is read or written here.
const HARMLESS_EXTENSIONS: [&[u8]; 6] =
    [b"noop", b"noop-v1", b"partialclone", b"preciousobjects", b"worktreeconfig", b"relativeworktrees"];

/// Extensions that Git refuses in version 0.
const V1_EXTENSIONS: [&[u8]; 2] = [b"noop-v1", b"objectformat"];

/// The folders of a repository.
///
/// The environment does not count: `GIT_DIR` and variables like it are not read.
#[derive(Clone, Debug)]
pub struct Layout {
    /// The folder of `HEAD` and of the index: of this working tree alone, where there are several.
    pub git_dir: PathBuf,
    /// The folder of objects, refs and configuration. The same as `git_dir` but in a linked working tree.
    pub common_dir: PathBuf,
    /// The folder of the files, unless the repository is bare.
    pub worktree: Option<PathBuf>,
    /// The hash of the ids.
    pub algorithm: Algorithm,
    /// For whom files and folders are made: `core.sharedRepository`.
    pub sharing: Sharing,
    /// The configuration of the repository. What the user's own files say is [`Config::of_user`].
    pub config: Config,
}

impl Layout {
    /// Looks for a repository in `from` and the folders above it.
    ///
    /// # Errors
    /// As [`Layout::open`], for the first that is found.
    pub fn discover(from: &Path) -> Result<Option<Self>> {
        let from = from.canonicalize().map_err(|source| Error::io(from.display().to_string(), source))?;
        for dir in from.ancestors() {
            if let Some(found) = Self::at(dir)? {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    /// Opens the repository at `path`: a working tree, its `.git`, or a bare repository.
    ///
    /// # Errors
    /// [`Error::NoStore`] if there is no repository; [`Error::Incompatible`] for an extension that is not known here;
    /// [`Error::Corrupt`] for a configuration that cannot be read; those of the system.
    pub fn open(path: &Path) -> Result<Self> {
        Self::at(path)?.ok_or_else(|| Error::NoStore { file: path.display().to_string() })
    }

    /// Opens the repository whose working tree or folder `dir` is, if it is one's. `dir` may also be a file `.git`.
    fn at(dir: &Path) -> Result<Option<Self>> {
        let dot_git = dir.join(".git");
        if dot_git.is_dir() && is_git_dir(&dot_git) {
            return Self::with_dirs(dot_git, Some(dir)).map(Some);
        }
        if dot_git.is_file() {
            return Self::with_dirs(follow_file(&dot_git)?, Some(dir)).map(Some);
        }
        if dir.is_file() {
            return Self::with_dirs(follow_file(dir)?, dir.parent()).map(Some);
        }
        if is_git_dir(dir) {
            let worktree = if dir.file_name() == Some(".git".as_ref()) { dir.parent() } else { None };
            return Self::with_dirs(dir.to_owned(), worktree).map(Some);
        }
        Ok(None)
    }

    /// Reads the configuration; `worktree` is where the files would be, going by the folders.
    fn with_dirs(git_dir: PathBuf, worktree: Option<&Path>) -> Result<Self> {
        // Both without links and "..", so that one is seen to be below the other.
        let (git_dir, common_dir) = match read_line(&git_dir.join("commondir"))? {
            Some(common) => (canonical(&git_dir)?, canonical(&git_dir.join(common))?),
            None => (git_dir.clone(), git_dir),
        };
        let linked = common_dir != git_dir;
        let file = common_dir.join("config");
        let mut config = Config::read(&file)?;
        if config.bool("extensions.worktreeConfig") == Some(true) {
            config.append(Config::read(&git_dir.join("config.worktree"))?);
        }
        let algorithm = check_version(&file, &config)?;
        let sharing = sharing(&file, &config)?;
        let mut worktree = worktree.map(Path::to_owned);
        if linked && worktree.is_none() {
            // Asked for by its own folder in the repository: it says where its `.git` file is.
            let dot_git = read_line(&git_dir.join("gitdir"))?;
            worktree = dot_git.and_then(|file| git_dir.join(file).parent().map(Path::to_owned));
        } else if !linked {
            if let Some(named) = config.get("core.worktree") {
                worktree = Some(git_dir.join(OsString::from_vec(named.to_vec())));
            } else if config.bool("core.bare") == Some(true) {
                worktree = None;
            }
        }
        Ok(Self { git_dir, common_dir, worktree, algorithm, sharing, config })
    }

    /// Makes a repository that Git accepts, and makes it durable. Its branch, not born yet, is the one that
    /// `init.defaultBranch` of the user names, else `master`.
    ///
    /// # Errors
    /// [`Error::Exists`] if there is one; those of the system.
    pub fn init(path: &Path, bare: bool, algorithm: Algorithm) -> Result<Self> {
        let user = Config::of_user()?;
        let named = user.get("init.defaultBranch").and_then(|name| std::str::from_utf8(name).ok());
        let branch = named.filter(|name| bristlecone::check_ref_name(name).is_ok() && !name.is_empty());
        Self::init_on(path, bare, algorithm, branch.unwrap_or("master"))
    }

    /// As [`Layout::init`], with a branch that the caller names: its name without `refs/heads/`.
    ///
    /// # Errors
    /// As [`Layout::init`]; [`Error::RefName`] for a name that no branch can have.
    pub fn init_on(path: &Path, bare: bool, algorithm: Algorithm, branch: &str) -> Result<Self> {
        let head = format!("refs/heads/{branch}");
        bristlecone::check_ref_name(&head)?;
        let git_dir = if bare { path.to_owned() } else { path.join(".git") };
        if is_git_dir(&git_dir) || (!bare && git_dir.exists()) {
            return Err(Error::Exists { file: git_dir.display().to_string() });
        }
        let (version, extensions) = match algorithm {
            Algorithm::Sha1 => (0, String::new()),
            Algorithm::Sha256 => (1, format!("[extensions]\n\tobjectformat = {}\n", algorithm.name())),
        };
        let updates = if bare { "" } else { "\tlogallrefupdates = true\n" };
        let config = |folds: bool| {
            let case = if folds { "\tignorecase = true\n" } else { "" };
            let core =
                format!("\trepositoryformatversion = {version}\n\tfilemode = true\n\tbare = {bare}\n{updates}{case}");
            format!("[core]\n{core}{extensions}")
        };
        let head = format!("ref: {head}\n");
        write_skeleton(&RealStorage::new(&git_dir).following_links(), config, &head)
            .map_err(|source| Error::io(git_dir.display().to_string(), source))?;
        Self::open(path)
    }

    /// Whether there is no working tree.
    #[must_use]
    pub fn is_bare(&self) -> bool {
        self.worktree.is_none()
    }

    /// Whether names of files that differ by the case of letters alone are one: `core.ignoreCase`.
    pub(crate) fn ignores_case(&self) -> bool {
        self.config.bool("core.ignoreCase") == Some(true)
    }

    /// Whether this is a linked working tree, which shares its repository.
    #[must_use]
    pub fn is_linked(&self) -> bool {
        self.git_dir != self.common_dir
    }

    /// Returns the folder of `HEAD` as a path below the common folder: empty but for a linked working tree.
    ///
    /// # Errors
    /// [`Error::Incompatible`] if it is not below the common folder, or its path is no text.
    pub fn head_dir(&self) -> Result<&str> {
        let below = self.git_dir.strip_prefix(&self.common_dir).ok().and_then(Path::to_str);
        below.ok_or_else(|| Error::Incompatible {
            file: self.git_dir.display().to_string(),
            found: "a linked working tree that does not lie in its repository's folder".to_owned(),
            expected: format!("one below {}, with a name in UTF-8", self.common_dir.display()),
        })
    }

    /// Says why nothing is written here, where that is so: the refs are a symbolic link, as `git new-workdir` makes one, and so those
    /// of another repository. Processes that come by way of that do not see the locks and the journal that are kept here.
    #[must_use]
    pub(crate) fn read_only_reason(&self) -> Option<String> {
        let links = ["refs", PACKED_REFS].map(|name| self.common_dir.join(name));
        let link = links.iter().find(|path| path.is_symlink())?;
        let target = link.read_link().ok()?;
        Some(format!(
            "{} is a symbolic link to {}, as git new-workdir makes it: nothing is written here; work in the repository itself, or \
             in a working tree of git worktree",
            link.display(),
            target.display()
        ))
    }

    /// Returns the storage rooted at the common folder.
    #[must_use]
    pub fn storage(&self) -> Arc<dyn Storage> {
        Arc::new(RealStorage::new(&self.common_dir).following_links().shared(self.sharing))
    }

    /// Returns the storage rooted at the folder of `HEAD` and of the index.
    #[must_use]
    pub fn git_storage(&self) -> Arc<dyn Storage> {
        Arc::new(RealStorage::new(&self.git_dir).following_links().shared(self.sharing))
    }
}

/// Writes what makes a folder a repository, `HEAD` last, and makes it durable. `config` makes the configuration, and is told
/// whether the file system ignores the case of letters.
fn write_skeleton(storage: &dyn Storage, config: impl FnOnce(bool) -> String, head: &str) -> io::Result<()> {
    for dir in ["objects/info", "objects/pack", "refs/heads", "refs/tags", "info"] {
        storage.create_dir(dir)?;
    }
    let number = |name| storage.stat(name).map(|stat| stat.id).ok().filter(|&id| id != 0);
    let config = config(number("objects").is_some_and(|objects| number("OBJECTS") == Some(objects)));
    for (name, text) in [("config", &*config), ("HEAD", head)] {
        let file = storage.open(name, OpenMode::CreateNew)?;
        write_all_at(&*file, text.as_bytes(), 0)?;
        file.sync_data()?;
    }
    storage.sync_dir("")
}

/// Whether Git takes a folder for a repository's: `HEAD`, `objects` and `refs`, the latter two perhaps elsewhere.
fn is_git_dir(dir: &Path) -> bool {
    if !dir.join("HEAD").symlink_metadata().is_ok_and(|head| head.is_file() || head.is_symlink()) {
        return false;
    }
    let common = match read_line(&dir.join("commondir")) {
        Ok(Some(common)) => dir.join(common),
        _ => dir.to_owned(),
    };
    common.join("objects").is_dir() && common.join("refs").is_dir()
}

/// Returns the folder that a file `.git` names: `gitdir: PATH`.
fn follow_file(file: &Path) -> Result<PathBuf> {
    let name = file.display().to_string();
    let bytes = fs::read(file).map_err(|source| Error::io(&*name, source))?;
    let Some(path) = bytes.strip_prefix(b"gitdir:") else {
        if file.file_name() != Some(".git".as_ref()) {
            return Err(Error::NoStore { file: name });
        }
        return Err(error::corrupt(name, 0, None, "it does not name a repository with \"gitdir: PATH\""));
    };
    let path = PathBuf::from(OsString::from_vec(path.trim_ascii().to_vec()));
    let dir = file.parent().unwrap_or(Path::new(".")).join(path);
    if !is_git_dir(&dir) {
        return Err(Error::NoStore { file: format!("{} (named by {name})", dir.display()) });
    }
    Ok(dir)
}

/// Returns the ref that the `HEAD` in a folder is a symbolic link to: Git made it so once, and does with
/// `core.preferSymlinkRefs`.
pub(crate) fn linked_head(git_dir: &Path) -> Option<String> {
    let target = fs::read_link(git_dir.join("HEAD")).ok()?.into_os_string().into_string().ok()?;
    (target.starts_with("refs/") && bristlecone::check_ref_name(&target).is_ok()).then_some(target)
}

fn canonical(path: &Path) -> Result<PathBuf> {
    path.canonicalize().map_err(|source| Error::io(path.display().to_string(), source))
}

/// Returns the path in a file of one line, if there is such a file.
fn read_line(file: &Path) -> Result<Option<PathBuf>> {
    match fs::read(file) {
        Ok(bytes) => Ok(Some(PathBuf::from(OsString::from_vec(bytes.trim_ascii_end().to_vec())))),
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => Ok(None),
        Err(source) => Err(Error::io(file.display().to_string(), source)),
    }
}

/// Returns for whom files and folders are made.
///
/// Source: Git's documentation, git-config, "core.sharedRepository"; the numbers 1 and 2 are older words for `group`
/// and `all`.
fn sharing(file: &Path, config: &Config) -> Result<Sharing> {
    const KEY: &str = "core.sharedRepository";
    let Some(value) = config.get(KEY) else { return Ok(Sharing::Mask) };
    let octal = std::str::from_utf8(value).ok().and_then(|text| u32::from_str_radix(text, 8).ok());
    match (value, octal) {
        (b"umask" | b"", _) | (_, Some(0)) => Ok(Sharing::Mask),
        (b"group", _) | (_, Some(1)) => Ok(Sharing::Group),
        (b"all" | b"world" | b"everybody", _) | (_, Some(2)) => Ok(Sharing::Everybody),
        (_, Some(mode)) if mode & 0o600 == 0o600 => Ok(Sharing::Mode(mode & 0o666)),
        (_, None) if config.bool(KEY).is_some() => {
            Ok(if config.bool(KEY) == Some(true) { Sharing::Group } else { Sharing::Mask })
        }
        _ => {
            let shown = String::from_utf8_lossy(value);
            let reason = format!(
                "{KEY} is {shown}; it is umask, group, all, or a mode such as 0640 with which the owner reads and writes"
            );
            Err(error::corrupt(file.display().to_string(), 0, None, reason))
        }
    }
}

/// Checks that the repository is of a version and with extensions that are known here, and returns its hash.
fn check_version(file: &Path, config: &Config) -> Result<Algorithm> {
    let refuse = |found: String, expected: &str| {
        Err(Error::Incompatible { file: file.display().to_string(), found, expected: expected.to_owned() })
    };
    let key = "core.repositoryFormatVersion";
    let version = match (config.get(key), config.number(key)) {
        // Then Git looks at no extension, either.
        (None, _) => return Ok(Algorithm::Sha1),
        (Some(value), None) => {
            return refuse(format!("repositoryformatversion {}", String::from_utf8_lossy(value)), "0 or 1");
        }
        (Some(_), Some(version)) => version,
    };
    if !(0..=1).contains(&version) {
        return refuse(format!("repositoryformatversion {version}"), "0 or 1");
    }
    let mut algorithm = Algorithm::Sha1;
    for (name, value) in config.section("extensions") {
        let shown = || format!("extensions.{} = {}", String::from_utf8_lossy(name), String::from_utf8_lossy(value));
        match name {
            name if version == 0 && V1_EXTENSIONS.contains(&name) => {
                return refuse(format!("repositoryformatversion 0 and {}", shown()), "1 with it, as Git does");
            }
            b"objectformat" => match std::str::from_utf8(value).ok().and_then(Algorithm::from_name) {
                Some(named) => algorithm = named,
                None => return refuse(shown(), "sha1 or sha256"),
            },
            b"refstorage" if value == b"files" => {}
            b"refstorage" => {
                return refuse(shown(), "refs in files; `git refs migrate --ref-format=files` makes them so");
            }
            name if HARMLESS_EXTENSIONS.contains(&name) => {}
            // In version 0 Git ignores what it does not know.
            _ if version == 0 => {}
            _ => return refuse(shown(), "no extension but those it knows"),
        }
    }
    Ok(algorithm)
}

#[cfg(test)]
mod tests {
    use bristlecone_testkit::sim::{Folding, SimStorage};

    use super::*;

    #[test]
    fn a_repository_says_whether_the_file_system_ignores_the_case_of_letters() {
        let said = |storage: &dyn Storage| {
            let config = |folds: bool| format!("[core]\n\tignorecase = {folds}\n");
            write_skeleton(storage, config, "ref: refs/heads/main\n").unwrap();
            let file = storage.open("config", OpenMode::Read).unwrap();
            let mut bytes = vec![0; file.len().unwrap() as usize];
            file.read_at(&mut bytes, 0).unwrap();
            Config::parse("config", &bytes).unwrap().bool("core.ignoreCase")
        };
        assert_eq!(said(&Folding::default()), Some(true));
        assert_eq!(said(&SimStorage::new()), Some(false));
    }
}
