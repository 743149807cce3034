//! Making and opening repositories on disk.

use std::{path::Path, sync::Arc};

use bristlecone_core::{Format, native::Native};

use super::Repo;
use crate::{
    Error, Result,
    disk::{DiskBackend, DiskOptions, FormatTag},
    storage::{RealStorage, Storage},
};

impl Repo<Native> {
    /// Opens the store of the native format in the folder `dir` for reading and writing. After a crash this repairs what is
    /// to be repaired.
    ///
    /// # Errors
    /// [`Error::NoStore`]; [`Error::Incompatible`] for another format or a newer version; [`Error::Corrupt`];
    /// [`Error::Locked`]; [`Error::Io`].
    pub fn open(dir: impl AsRef<Path>, options: DiskOptions) -> Result<Self> {
        Self::open_as(dir.as_ref(), options, false)
    }

    /// Opens the store of the native format in the folder `dir`, or makes it where there is no store. Of several callers
    /// that do so at a time one makes it.
    ///
    /// ```
    /// # use bristlecone::{DiskOptions, Repo};
    /// # let dir = tempfile::tempdir()?;
    /// let first = Repo::open_or_create(dir.path().join("data"), DiskOptions::default())?;
    /// drop(first);
    /// assert!(Repo::open_or_create(dir.path().join("data"), DiskOptions::default())?.branches()?.is_empty());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`Repo::open`] and [`Repo::create`].
    pub fn open_or_create(dir: impl AsRef<Path>, options: DiskOptions) -> Result<Self> {
        let dir = dir.as_ref();
        match Self::open(dir, options.clone()) {
            Err(Error::NoStore { .. }) => {}
            opened => return opened,
        }
        match Self::create(dir, Native::new(), options.clone()) {
            Err(Error::Exists { .. }) => Self::open(dir, options),
            made => made,
        }
    }

    /// Opens the store of the native format in the folder `dir` for reading only; nothing of the store is written, not even a
    /// repair. Beside it a file in the folder `readers` says that this process reads ([`DiskBackend::open`]).
    ///
    /// # Errors
    /// As [`Repo::open`].
    pub fn open_read_only(dir: impl AsRef<Path>, options: DiskOptions) -> Result<Self> {
        Self::open_as(dir.as_ref(), options, true)
    }
}

impl<F: Format> Repo<F> {
    /// Makes a store in the folder `dir`, which is created if absent, and opens it.
    ///
    /// # Errors
    /// [`Error::Exists`] if there is one; [`Error::NoSpace`], [`Error::Io`].
    pub fn create(dir: impl AsRef<Path>, format: F, options: DiskOptions) -> Result<Self> {
        let dir = dir.as_ref();
        let storage: Arc<dyn Storage> = Arc::new(RealStorage::new(dir));
        let backend = DiskBackend::create(storage, tag(&format), options)?;
        Ok(Self::with_backend(format, Arc::new(backend)))
    }

    /// As [`Repo::open`], for a store of the format `F`: `Repo::<Tezos>::open_format(dir, options)`.
    ///
    /// # Errors
    /// As [`Repo::open`].
    pub fn open_format(dir: impl AsRef<Path>, options: DiskOptions) -> Result<Self> {
        Self::open_as(dir.as_ref(), options, false)
    }

    /// As [`Repo::open_read_only`], for a store of the format `F`.
    ///
    /// # Errors
    /// As [`Repo::open`].
    pub fn open_format_read_only(dir: impl AsRef<Path>, options: DiskOptions) -> Result<Self> {
        Self::open_as(dir.as_ref(), options, true)
    }

    fn open_as(dir: &Path, options: DiskOptions, read_only: bool) -> Result<Self> {
        let storage: Arc<dyn Storage> = Arc::new(RealStorage::new(dir));
        let backend = DiskBackend::open(storage, Some(F::NAME), options, read_only)?;
        let found = &backend.header().format;
        if found.version != F::VERSION {
            return Err(Error::Incompatible {
                file: dir.display().to_string(),
                found: format!("version {} of the format {}", found.version, found.name),
                expected: format!("version {}", F::VERSION),
            });
        }
        let format = F::from_options(&found.options)?;
        Ok(Self::with_backend(format, Arc::new(backend)))
    }
}

fn tag<F: Format>(format: &F) -> FormatTag {
    FormatTag { name: F::NAME.to_owned(), version: F::VERSION, options: format.options() }
}
