//! Where stores are: paths and urls, and finding what is there.
//!
//! | place | what it means |
//! | --- | --- |
//! | a path, or `file:///path` | the folder that holds a store: a `.bristlecone` in it, the folder itself, or a Git repository. What is made there is a `.bristlecone` |
//! | `disk+file:///path` | a store of the disk engine in that very folder, whatever its name is |
//! | `fs+file:///path`, `lmdb+file:///path`, `lsm+file:///path` | the same, of the backend of that name |
//! | `git+file:///path` | a Git repository: a working tree, its `.git`, or a bare one |
//! | `memory:` | an empty store in memory, which goes when it is dropped |
//!
//! In urls `%XX` is a byte. What begins with letters and `://` is a url; a folder of such a name is written `./name:`, or
//! given as a [`Path`](FilePath), which is never a url. A new backend is one line of `SCHEMES` and one of [`Found`].

use std::{
    ffi::OsString,
    os::unix::ffi::OsStringExt,
    path::{Path as FilePath, PathBuf},
    sync::Arc,
};

use bristlecone::{
    Path,
    disk::DiskBackend,
    engine::Header,
    storage::{RealStorage, Storage},
};
use bristlecone_git::layout::Layout;

use crate::error::{Error, Result};

/// The folder in which a store lives.
pub const STORE_DIR: &str = ".bristlecone";
const MEMORY: &str = "memory:";
/// The schemes of urls that name a folder.
const SCHEMES: &[Scheme] = &[
    ("file", Place::Folder),
    ("disk+file", Place::Disk),
    ("fs+file", Place::Fs),
    ("git+file", Place::Git),
    ("lmdb+file", Place::Lmdb),
    ("lsm+file", Place::Lsm),
];

/// The name of a scheme, and what it makes of a folder.
type Scheme = (&'static str, fn(PathBuf) -> Place);

/// Where a store is, or is to be.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Place {
    /// The store that a folder holds, or is.
    Folder(PathBuf),
    /// A store of the disk engine in this folder itself.
    Disk(PathBuf),
    /// A store of one file an object in this folder itself.
    Fs(PathBuf),
    /// A Git repository.
    Git(PathBuf),
    /// A store in LMDB in this folder itself.
    Lmdb(PathBuf),
    /// A store in a log-structured merge tree in this folder itself.
    Lsm(PathBuf),
    /// A new store in memory.
    Memory,
}

/// A store that was found and is not open yet.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Found {
    /// A store of the disk engine in this folder, which need not be one that opens.
    Disk(PathBuf),
    /// A store of one file an object in this folder.
    Fs(PathBuf),
    /// A Git repository.
    Git(Box<Layout>),
    /// A store in LMDB in this folder.
    Lmdb(PathBuf),
    /// A store in a log-structured merge tree in this folder.
    Lsm(PathBuf),
    /// Memory, where there is always an empty one.
    Memory,
}

impl Place {
    /// Reads a path or a url.
    ///
    /// ```
    /// use bristlecone_any::Place;
    ///
    /// assert_eq!(Place::parse("data")?, Place::Folder("data".into()));
    /// assert_eq!(Place::parse("file:///srv/my%20data")?, Place::Folder("/srv/my data".into()));
    /// assert_eq!(Place::parse("memory:")?, Place::Memory);
    /// assert!(Place::parse("carrier+pigeon://roof").is_err());
    /// # Ok::<(), bristlecone_any::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Url`] for a scheme that is not known here, another machine, or a path that does not begin with a slash.
    pub fn parse(text: &str) -> Result<Self> {
        if text == MEMORY {
            return Ok(Self::Memory);
        }
        let (Some((scheme, rest)), true) = (text.split_once("://"), is_url(text)) else {
            return Ok(Self::Folder(text.into()));
        };
        let refuse = |reason: String| Err(Error::Url { url: text.to_owned(), reason });
        let Some((_, place)) = SCHEMES.iter().find(|(known, _)| known.eq_ignore_ascii_case(scheme)) else {
            let known: Vec<_> = SCHEMES.iter().map(|(known, _)| format!("{known}://")).collect();
            return refuse(format!("no store is opened by {scheme}:; write {MEMORY}, {}, or a path", known.join(", ")));
        };
        if !rest.starts_with('/') {
            return refuse(format!("it names another machine or no whole path; write {scheme}:///path"));
        }
        match rest.trim_matches('/').parse::<Path>() {
            Ok(path) => Ok(place(OsString::from_vec([b"/", path.as_bytes()].concat()).into())),
            Err(error) => refuse(error.to_string()),
        }
    }

    /// Looks for the store in this place, without opening it.
    ///
    /// # Errors
    /// [`Error::NoStore`]; for a Git repository whose configuration cannot be read as [`Layout::open`]. A folder that holds
    /// the store of another backend than the place names is found: opening it says so.
    pub fn find(&self) -> Result<Found> {
        let (found, dir) = match self {
            Self::Memory => return Ok(Found::Memory),
            Self::Disk(dir) => (store_at(dir).map(|_| Found::Disk(dir.clone())), dir),
            Self::Fs(dir) => (store_at(dir).map(|_| Found::Fs(dir.clone())), dir),
            Self::Lmdb(dir) => (store_at(dir).map(|_| Found::Lmdb(dir.clone())), dir),
            Self::Lsm(dir) => (store_at(dir).map(|_| Found::Lsm(dir.clone())), dir),
            Self::Git(dir) => (git_at(dir)?, dir),
            Self::Folder(dir) if dir.join(STORE_DIR).is_dir() => return inner_store(dir.join(STORE_DIR)),
            Self::Folder(dir) => match store_at(dir) {
                None => (git_at(dir)?, dir),
                found => (found, dir),
            },
        };
        found.ok_or_else(|| Error::NoStore { dir: dir.clone(), or_above: false })
    }

    /// Looks for the nearest store: in `dir`, or in a folder above it.
    ///
    /// # Errors
    /// As [`Place::find`]; [`Error::Io`] if there is no such folder.
    pub fn find_above(dir: &FilePath) -> Result<Found> {
        let dir = dir.canonicalize().map_err(|error| Error::io("find", dir, error))?;
        for above in dir.ancestors() {
            let inner = above.join(STORE_DIR);
            if inner.is_dir() {
                return inner_store(inner);
            }
            if let Some(found) = git_at(above)? {
                return Ok(found);
            }
        }
        Err(Error::NoStore { dir, or_above: true })
    }
}

/// Returns the folder of the store that is made in a folder: the `.bristlecone` in it, unless that is what is named.
#[must_use]
pub fn store_dir(dir: &FilePath) -> PathBuf {
    if dir.ends_with(STORE_DIR) { dir.to_owned() } else { dir.join(STORE_DIR) }
}

/// Returns the folder of the store that a folder is in, or is, as far as it is there: nothing else belongs into it.
#[must_use]
pub fn store_around(dir: &FilePath) -> Option<PathBuf> {
    let there = dir.ancestors().find_map(|above| {
        let above = if above.as_os_str().is_empty() { FilePath::new(".") } else { above };
        above.canonicalize().ok()
    })?;
    let is_store = |dir: &&FilePath| {
        let storage: Arc<dyn Storage> = Arc::new(RealStorage::new(dir));
        matches!(Header::backend_in(&*storage), Ok(Some(_))) || DiskBackend::header_in(&storage).is_ok()
    };
    there.ancestors().find(is_store).map(FilePath::to_owned)
}

impl TryFrom<&str> for Place {
    type Error = Error;

    fn try_from(text: &str) -> Result<Self> {
        Self::parse(text)
    }
}

/// The folder, whatever its name looks like.
impl From<&FilePath> for Place {
    fn from(dir: &FilePath) -> Self {
        Self::Folder(dir.to_owned())
    }
}

/// The folder, whatever its name looks like.
impl From<&PathBuf> for Place {
    fn from(dir: &PathBuf) -> Self {
        Self::Folder(dir.clone())
    }
}

/// The folder, whatever its name looks like.
impl From<PathBuf> for Place {
    fn from(dir: PathBuf) -> Self {
        Self::Folder(dir)
    }
}

/// Whether a text begins with a scheme.
fn is_url(text: &str) -> bool {
    let scheme = text.split("://").next().unwrap_or_default();
    scheme.starts_with(|first: char| first.is_ascii_alphabetic())
        && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte))
}

/// Returns the store that a folder is: its header tells, even if it is damaged.
fn store_at(dir: &FilePath) -> Option<Found> {
    let storage: Arc<dyn Storage> = Arc::new(RealStorage::new(dir));
    let backend = Header::backend_in(&*storage).ok().flatten();
    match backend.as_deref() {
        Some("fs") => return Some(Found::Fs(dir.to_owned())),
        Some("lmdb") => return Some(Found::Lmdb(dir.to_owned())),
        Some("lsm") => return Some(Found::Lsm(dir.to_owned())),
        // The disk engine says what is wrong with others.
        _ => {}
    }
    match DiskBackend::header_in(&storage) {
        Err(bristlecone::Error::NoStore { .. } | bristlecone::Error::Io { .. }) => None,
        _ => Some(Found::Disk(dir.to_owned())),
    }
}

/// Returns the store in a folder of the right name. One without a header is what a crash left of one of the disk engine.
fn inner_store(dir: PathBuf) -> Result<Found> {
    match store_at(&dir) {
        Some(found) => Ok(found),
        None => refuse_headless(&dir, None).map(|()| Found::Disk(dir)),
    }
}

/// What a store of each backend has beside its header. The disk engine finds its own.
const PARTS: [(&str, &str); 3] = [("fs", "refs"), ("lmdb", "lmdb/data.mdb"), ("lsm", "lsm")];

/// Refuses a folder that has the files of a store and no header: it must not look as if there were no store.
///
/// `own`: the backend that looks for its files itself, since it goes on with what a creation left that was cut short.
///
/// # Errors
/// [`bristlecone::Error::Lost`].
pub(crate) fn refuse_headless(dir: &FilePath, own: Option<&str>) -> Result<()> {
    let header = dir.join("store");
    if header.symlink_metadata().is_ok() {
        return Ok(());
    }
    let Some((backend, part)) = PARTS.iter().find(|(name, part)| Some(*name) != own && dir.join(part).exists()) else {
        return Ok(());
    };
    let reason = format!(
        "the header is missing, though {part} of a store of the backend {backend} is there; put the header back from a \
         backup of this store, or make the store elsewhere"
    );
    Err(bristlecone::Error::Lost { file: header.display().to_string(), reason }.into())
}

/// Returns the Git repository that a folder is or has, if it does.
fn git_at(dir: &FilePath) -> Result<Option<Found>> {
    match Layout::open(dir) {
        Err(bristlecone::Error::NoStore { .. }) => Ok(None),
        found => Ok(Some(Found::Git(Box::new(found?)))),
    }
}
