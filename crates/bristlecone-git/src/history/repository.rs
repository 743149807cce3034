//! A repository as transfers see it.

use std::{
    collections::{BTreeMap, HashSet},
    fs, io,
    path::{Path, PathBuf},
    sync::Arc,
};

use bristlecone::{Error, Oid, RefTarget, Result, core::git::Algorithm};

use crate::{
    history::error::TransferError,
    repository::{
        layout::Layout,
        odb::{Odb, OdbOptions},
        refs::Refs,
    },
};

/// Bytes of objects that deltas are against.
const BASE_BYTES: u64 = 48 << 20;

/// A repository of the operating system, open for reading.
#[derive(Debug)]
pub struct Repository {
    pub(crate) layout: Layout,
    pub(crate) odb: Arc<Odb>,
    pub(crate) refs: BTreeMap<String, RefTarget>,
    pub(crate) head: Option<RefTarget>,
    // Commits whose parents were never fetched.
    pub(crate) shallow: HashSet<Oid>,
    pub(crate) shown: String,
}

impl Repository {
    /// Opens the repository at `path`: a working tree, its `.git`, or a bare repository.
    ///
    /// # Errors
    /// [`TransferError::NoRepository`] if there is none; else as [`Layout::open`]; those of the system.
    pub fn open(path: &Path) -> Result<Self, TransferError> {
        match Layout::open(path) {
            Err(Error::NoStore { file }) => Err(TransferError::NoRepository { path: file }),
            opened => Ok(Self::of(opened?, path)?),
        }
    }

    pub(crate) fn of(layout: Layout, path: &Path) -> Result<Self> {
        let options = OdbOptions { base_cache_bytes: BASE_BYTES, ..OdbOptions::default() };
        let odb = Arc::new(Odb::open_path_with(&layout, options)?);
        let head_dir = layout.git_dir.strip_prefix(&layout.common_dir).ok().and_then(Path::to_str).unwrap_or_default();
        let reader = Refs::open(layout.storage(), layout.algorithm, head_dir);
        let (refs, head) = (reader.list("refs/")?, reader.get("HEAD")?);
        let shallow = shallow(&layout)?;
        Ok(Self { layout, odb, refs, head, shallow, shown: path.display().to_string() })
    }

    /// Returns the hash of its ids.
    #[must_use]
    pub fn algorithm(&self) -> Algorithm {
        self.layout.algorithm
    }

    /// Returns the folder of its objects and refs, without detours.
    #[must_use]
    pub fn common_dir(&self) -> PathBuf {
        fs::canonicalize(&self.layout.common_dir).unwrap_or_else(|_| self.layout.common_dir.clone())
    }

    /// Returns the bytes of the packs in its folder, those that it borrows from other repositories left out.
    ///
    /// # Errors
    /// Those of the system.
    pub fn pack_bytes(&self) -> Result<u64> {
        let dir = self.layout.common_dir.join("objects/pack");
        let names = match fs::read_dir(&dir) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(0),
            other => other,
        };
        let failed = |source| Error::io(dir.display().to_string(), source);
        let mut bytes = 0;
        for entry in names.map_err(failed)? {
            let path = entry.map_err(failed)?.path();
            if path.extension().is_some_and(|ending| ending == "pack") && path.with_extension("idx").exists() {
                // One that Git removes meanwhile lives on in another.
                bytes += fs::metadata(&path).map_or(0, |found| found.len());
            }
        }
        Ok(bytes)
    }

    /// Whether its history is cut off: it was cloned with a depth.
    #[must_use]
    pub fn is_shallow(&self) -> bool {
        !self.shallow.is_empty()
    }
}

/// Reads the file that lists the commits whose parents were never fetched.
fn shallow(layout: &Layout) -> Result<HashSet<Oid>> {
    let path = layout.common_dir.join("shallow");
    let text = match fs::read_to_string(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(HashSet::new()),
        Err(source) => return Err(Error::io(path.display().to_string(), source)),
        Ok(text) => text,
    };
    let mut shallow = HashSet::new();
    let mut offset = 0;
    for line in text.lines() {
        let oid = line.trim().parse::<Oid>().ok().filter(|oid| oid.as_bytes().len() == layout.algorithm.oid_bytes());
        let Some(oid) = oid else {
            let reason = "a line is not the id of a commit".to_owned();
            return Err(Error::Corrupt { file: path.display().to_string(), offset, oid: None, reason });
        };
        shallow.insert(oid);
        offset += line.len() as u64 + 1;
    }
    Ok(shallow)
}
