//! The object database: loose objects, packs and alternates.

use std::sync::Arc;

use bristlecone::core::git::Algorithm;
use bristlecone::storage::Storage;
use bristlecone::{Kind, Oid, Result};

use crate::layout::Layout;

pub mod loose;

/// How an object database is opened.
#[derive(Clone, Debug)]
pub struct OdbOptions {
    /// How many bytes of objects that deltas are against are kept.
    pub base_cache_bytes: u64,
    /// Other folders of objects, where what is not here is looked for. Each is rooted at the folder itself.
    pub alternates: Vec<Arc<dyn Storage>>,
}

impl Default for OdbOptions {
    fn default() -> Self {
        Self { base_cache_bytes: 64 << 20, alternates: Vec::new() }
    }
}

/// The objects of a repository.
#[derive(Debug)]
pub struct Odb {
    _storage: Arc<dyn Storage>,
    _algorithm: Algorithm,
    _options: OdbOptions,
}

impl Odb {
    /// Opens the objects of the repository whose common folder `storage` is rooted at.
    ///
    /// # Errors
    /// Those of the system.
    pub fn open(storage: Arc<dyn Storage>, algorithm: Algorithm, options: OdbOptions) -> Result<Self> {
        Ok(Self { _storage: storage, _algorithm: algorithm, _options: options })
    }

    /// Opens the objects of a repository of the operating system, with its alternates.
    ///
    /// # Errors
    /// Those of the system.
    pub fn open_path(layout: &Layout) -> Result<Self> {
        Self::open_path_with(layout, OdbOptions::default())
    }

    /// As [`Odb::open_path`], with options; alternates that they name come after those of the repository.
    ///
    /// # Errors
    /// Those of the system.
    pub fn open_path_with(_layout: &Layout, _options: OdbOptions) -> Result<Self> {
        todo!()
    }

    /// Returns the hash of the ids.
    #[must_use]
    pub fn algorithm(&self) -> Algorithm {
        todo!()
    }

    /// Replaces `out` by the bytes of an object as Git has them, without a header, and returns its kind.
    ///
    /// The bytes are what the packs say; whether they hash to `oid` is for [`Odb::check`] to find.
    ///
    /// # Errors
    /// [`bristlecone::Error::Corrupt`] if every copy is damaged; those of the system.
    pub fn read(&self, _oid: &Oid, _out: &mut Vec<u8>) -> Result<Option<Kind>> {
        todo!()
    }

    /// Returns the kind and the size in bytes of an object.
    ///
    /// # Errors
    /// As [`Odb::read`].
    pub fn header(&self, _oid: &Oid) -> Result<Option<(Kind, u64)>> {
        todo!()
    }

    /// Whether the object is there.
    ///
    /// # Errors
    /// Those of the system.
    pub fn contains(&self, _oid: &Oid) -> Result<bool> {
        todo!()
    }

    /// Calls `each` with the ids of all objects, each once: those of a pack in the order they lie in it, in which they are
    /// read fastest; then the loose ones.
    ///
    /// # Errors
    /// The first of `each`; those of the system.
    pub fn each_oid(&self, _each: &mut dyn FnMut(Oid) -> Result<()>) -> Result<()> {
        todo!()
    }

    /// Looks for packs that appeared or vanished.
    ///
    /// # Errors
    /// Those of the system.
    pub fn refresh(&self) -> Result<()> {
        todo!()
    }

    /// Returns the names of the packs of this repository, without alternates: `pack-…` without ending.
    #[must_use]
    pub fn pack_names(&self) -> Vec<String> {
        todo!()
    }

    /// Takes in a pack that was just written here.
    ///
    /// # Errors
    /// [`bristlecone::Error::Corrupt`] if its index is damaged; those of the system.
    pub fn add_pack(&self, _name: &str) -> Result<()> {
        todo!()
    }

    /// As [`Odb::add_pack`], with the bytes of the index, which are then not read again.
    ///
    /// # Errors
    /// [`bristlecone::Error::Corrupt`] if it is damaged.
    pub fn add_pack_with(&self, _name: &str, _index: Vec<u8>) -> Result<()> {
        todo!()
    }

    /// Lets go of a pack, before its files are removed or after.
    pub fn forget_pack(&self, _name: &str) {
        todo!()
    }

    /// Checks that bytes have this id: by the SHA-1 that finds collisions, or by SHA-256.
    ///
    /// # Errors
    /// [`bristlecone::Error::Corrupt`] if not.
    pub fn check(&self, _oid: &Oid, _kind: Kind, _raw: &[u8]) -> Result<()> {
        todo!()
    }
}

/// Checks that an object has this id: by the SHA-1 that finds collisions, or by SHA-256.
///
/// # Errors
/// What is wrong, with the id found.
pub fn check_id(_algorithm: Algorithm, _oid: &Oid, _kind: Kind, _raw: &[u8]) -> Result<(), String> {
    todo!()
}
