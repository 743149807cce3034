//! Loading a map from entries that are sorted already: memory is bounded, and pieces are written as they are made.

use std::sync::Arc;

use bristlecone_core::{
    ChangeTarget, EntryKind, Format as _, ObjRef,
    native::{DirBuilder, Native},
};

use super::{Map, check_key};
use crate::{
    Batch, Error, NewValue, Repo, Result, Tree, VALUE_BYTES_MAX,
    store::{StoreView, resolve},
    swept::append_behind,
};

/// What was made is appended when it has this many bytes.
const BATCH_BYTES: usize = 4 << 20;

/// Loads a map from entries in the order of their keys, each key once.
///
/// Memory holds the ends of each level and some 4 MiB of objects, besides the value that comes. What is loaded is appended as
/// it is made; no ref leads to it before a commit.
///
/// **Law (load).** The map has the root of one to which the same entries were inserted.
///
/// ```
/// # use bristlecone::{Error, Info, Repo};
/// let repo = Repo::memory();
/// let mut loader = repo.map_loader();
/// for n in 0..10_000_u32 {
///     loader.push(&n.to_be_bytes(), &n.to_le_bytes())?;
/// }
/// let mut map = loader.finish()?;
/// map.commit(&repo.branch("numbers")?, &Info::message("loaded"))?;
/// assert_eq!(map.len()?, 10_000);
///
/// let mut loader = repo.map_loader();
/// loader.push(b"b", b"1")?;
/// assert!(matches!(loader.push(b"a", b"2"), Err(Error::Format(_))));
/// # Ok::<(), Error>(())
/// ```
#[derive(Debug)]
pub struct MapLoader {
    store: Arc<StoreView<Native>>,
    builder: DirBuilder,
    batch: Batch,
}

impl Repo<Native> {
    /// Begins to load a map.
    #[must_use]
    pub fn map_loader(&self) -> MapLoader {
        let store = self.now();
        MapLoader { builder: DirBuilder::new(store.format), batch: Batch::since(store.sweeps()), store }
    }

    /// Loads a map from entries in the order of their keys, each key once, as [`MapLoader`] does.
    ///
    /// # Errors
    /// As [`MapLoader::push`] and [`MapLoader::finish`].
    pub fn load_map<'v, K, V>(&self, entries: impl IntoIterator<Item = (K, V)>) -> Result<Map>
    where
        K: AsRef<[u8]>,
        V: Into<NewValue<'v>>,
    {
        let mut loader = self.map_loader();
        for (key, value) in entries {
            loader.push(key.as_ref(), value)?;
        }
        loader.finish()
    }
}

impl MapLoader {
    /// Adds an entry whose key comes after all so far.
    ///
    /// # Errors
    /// [`bristlecone_core::FormatError::Unsorted`] in [`Error::Format`] names the entry that does not come after the one
    /// before; [`Error::TooLarge`]; the loader can go on with another entry then. Those of the backend: the entry is not added,
    /// those before it stay, and the loader can go on with the same one.
    pub fn push<'v>(&mut self, key: &[u8], value: impl Into<NewValue<'v>>) -> Result<()> {
        check_key(key)?;
        // Before the entry: one that could not be added is not half there.
        if self.batch.bytes().len() >= BATCH_BYTES {
            self.append()?;
        }
        let value = value.into();
        let bytes = value.as_bytes();
        if bytes.len() > self.store.format.inline_bytes_max() {
            return self.push_far(key, bytes);
        }
        Ok(self.builder.push(&mut self.batch, key, EntryKind::Value, &ChangeTarget::Inline(bytes))?)
    }

    /// Adds an entry whose value is an object of its own.
    fn push_far(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        let length = value.len() as u64;
        if length > VALUE_BYTES_MAX {
            return Err(Error::TooLarge { what: "a value", bytes: length, bytes_max: VALUE_BYTES_MAX });
        }
        // Before the value is put: nothing would ever lead to that.
        self.builder.check_step(key)?;
        let at = self.store.format.put_contents(&mut self.batch, value)?;
        let target = ChangeTarget::Object { at, bytes: length };
        Ok(self.builder.push(&mut self.batch, key, EntryKind::Value, &target)?)
    }

    /// Returns the number of entries so far.
    #[must_use]
    pub const fn count(&self) -> u64 {
        self.builder.count()
    }

    /// Appends what was made, which stays here if that fails.
    fn append(&mut self) -> Result<()> {
        let base = append_behind(&mut self.store, &mut self.batch)?;
        self.builder.resolve(base);
        // Nothing leads to it yet: another process may drop it.
        self.builder.each_appended(&mut |oid| self.batch.leave_out(oid));
        Ok(())
    }

    /// Appends the rest and returns the map, which has no origin.
    ///
    /// # Errors
    /// Those of the backend.
    pub fn finish(self) -> Result<Map> {
        let Self { mut store, builder, mut batch } = self;
        let root = builder.finish(&mut batch);
        let root: Option<ObjRef> = if batch.is_empty() {
            root
        } else {
            let base = append_behind(&mut store, &mut batch)?;
            root.map(|root| resolve(root, base))
        };
        Ok(Tree::at(store, root).into())
    }
}
