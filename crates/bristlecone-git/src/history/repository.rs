//! A repository as transfers see it.

use std::{
    collections::{BTreeMap, BTreeSet, HashSet},
    fs, io,
    os::unix::ffi::{OsStrExt, OsStringExt},
    path::{Path, PathBuf},
    sync::Arc,
};

use bristlecone::{Error, Oid, RefTarget, Result, core::git::Algorithm};

use crate::{
    history::{error::TransferError, patterns::Patterns},
    repository::{
        error,
        files::Files,
        layout::Layout,
        odb::{Odb, OdbOptions},
        refs::{NO_TEXT, Refs},
        shallow::{SHALLOW_FILE, ShallowFile},
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
    // Names of packed refs that are no text, and of refs that name another one whose name is no text.
    pub(crate) unnamed: BTreeSet<Vec<u8>>,
}

impl Repository {
    /// Opens the repository at `path`: a working tree, its `.git`, or a bare repository.
    ///
    /// # Errors
    /// [`TransferError::NoRepository`] if there is no repository; else as [`Layout::open`]; those of the system.
    pub fn open(path: &Path) -> Result<Self, TransferError> {
        match Layout::open(path) {
            Err(Error::NoStore { file }) => Err(TransferError::NoRepository { path: file }),
            opened => Ok(Self::of(opened?, path)?),
        }
    }

    pub(crate) fn of(layout: Layout, path: &Path) -> Result<Self> {
        let options = OdbOptions { base_cache_bytes: BASE_BYTES, ..OdbOptions::default() };
        let odb = Arc::new(Odb::open_path_with(&layout, options)?);
        let reader = Refs::open(layout.storage(), layout.algorithm, layout.head_dir()?);
        let reader = reader.with_git_dir(Some(layout.git_dir.clone()));
        let mut unnamed = BTreeSet::new();
        let refs = reader.list_noting("refs/", &mut unnamed, &mut Err)?;
        let head = match reader.get("HEAD") {
            // The branch that it names is left out.
            Err(Error::Corrupt { reason, .. }) if reason == NO_TEXT => None,
            head => head?,
        };
        let shallow = shallow(&Files::new(layout.storage()), layout.algorithm)?;
        Ok(Self { layout, odb, refs, head, shallow, shown: path.display().to_string(), unnamed })
    }

    /// Returns the names of wanted refs that no store can have: those that are no text, and those of refs that name one which is
    /// none. `patterns` are those of [`ImportOptions::refs`](super::ImportOptions::refs).
    ///
    /// # Errors
    /// Those of the system.
    pub fn unnamed_refs(&self, patterns: &[String]) -> Result<Vec<Vec<u8>>> {
        let (patterns, mut unnamed) = (Patterns::new(patterns), self.unnamed.clone());
        let is_gone =
            |error: &io::Error| [io::ErrorKind::NotFound, io::ErrorKind::NotADirectory].contains(&error.kind());
        let mut dirs = vec![PathBuf::from("refs")];
        while let Some(dir) = dirs.pop() {
            let path = self.layout.common_dir.join(&dir);
            let failed = |source| Error::io(path.display().to_string(), source);
            let entries = match fs::read_dir(&path) {
                // A Git packed its refs meanwhile, and removed it, or made a ref of its name.
                Err(error) if is_gone(&error) => continue,
                entries => entries.map_err(failed)?,
            };
            for entry in entries {
                let entry = entry.map_err(failed)?;
                let name = dir.join(entry.file_name());
                let is_dir = match entry.file_type() {
                    Err(error) if is_gone(&error) => continue,
                    kind => kind.map_err(failed)?.is_dir(),
                };
                if is_dir {
                    dirs.push(name);
                } else if name.to_str().is_none() && !name.as_os_str().as_bytes().ends_with(b".lock") {
                    unnamed.insert(name.into_os_string().into_vec());
                }
            }
        }
        Ok(unnamed.into_iter().filter(|name| patterns.chooses(name)).collect())
    }

    /// Returns the hash of its ids.
    #[must_use]
    pub fn algorithm(&self) -> Algorithm {
        self.layout.algorithm
    }

    /// Returns the canonical path of the folder of its objects and refs.
    #[must_use]
    pub fn common_dir(&self) -> PathBuf {
        fs::canonicalize(&self.layout.common_dir).unwrap_or_else(|_| self.layout.common_dir.clone())
    }

    /// Returns the bytes of the packs in its folder, those that it borrows from other repositories left out.
    ///
    /// # Errors
    /// Those of the system.
    pub fn pack_bytes(&self) -> Result<u64> {
        const PACKS: &str = "objects/pack";
        let files = Files::new(self.layout.storage());
        let names: HashSet<String> = files.list(PACKS)?.into_iter().collect();
        let mut bytes = 0;
        for name in names.iter().filter_map(|name| name.strip_suffix(".pack")) {
            if names.contains(&format!("{name}.idx")) {
                // The objects of a pack that Git removes meanwhile are in another one.
                bytes += files.stat(&format!("{PACKS}/{name}.pack"))?.map_or(0, |found| found.bytes);
            }
        }
        Ok(bytes)
    }

    /// Whether its history is shallow: it was cloned with a depth.
    #[must_use]
    pub fn is_shallow(&self) -> bool {
        !self.shallow.is_empty()
    }
}

/// Returns the commits whose parents were never fetched.
fn shallow(files: &Files, algorithm: Algorithm) -> Result<HashSet<Oid>> {
    let found = ShallowFile::read(files, algorithm)?;
    match found.damaged_at {
        Some(offset) => {
            Err(error::corrupt(files.describe(SHALLOW_FILE), offset, None, "a line is not the id of a commit"))
        }
        None => Ok(found.commits),
    }
}
