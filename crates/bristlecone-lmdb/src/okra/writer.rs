//! Changing a map: changes wait in memory, and reach LMDB in the order of their keys.

use std::fmt;

use super::{
    Mode,
    error::{OkraError, Result},
    keys::{KeyList, Pending},
    lmdb::{At, WriteCursors},
    load,
    node::{NodeHash, NodeKey, OkraRoot, VALUE_BYTES_MAX},
    rehash::rehash,
    snapshot::{OkraSnapshot, check_key},
};

/// Bytes of changes, or of keys of changed entries, that wait in memory at most; more are written.
const WAITING_BYTES_MAX: usize = 64 << 20;

/// The transaction that changes a map. There is one at a time, in all processes.
///
/// Changes come in any order and cost little by themselves. They reach LMDB together: sorted, and each node above
/// them is hashed once, when [`OkraWriter::commit`] or [`OkraWriter::root`] is called. Dropping it aborts it.
pub struct OkraWriter<'m> {
    view: OkraSnapshot<'m>,
    /// Changes that LMDB does not have yet.
    pending: Pending,
    /// The keys of entries that LMDB has, and whose parents are not hashed yet.
    changed: KeyList,
    /// Whether a call failed in between.
    failed: bool,
}

impl fmt::Debug for OkraWriter<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OkraWriter").field("map", &self.view).field("failed", &self.failed).finish_non_exhaustive()
    }
}

impl<'m> OkraWriter<'m> {
    pub(super) fn new(view: OkraSnapshot<'m>) -> Self {
        Self { view, pending: Pending::default(), changed: KeyList::default(), failed: false }
    }

    /// Sets the value at `key`; in index mode `value` is a hash of 16 bytes.
    ///
    /// # Errors
    /// [`OkraError::KeyEmpty`], [`OkraError::KeyTooLong`], [`OkraError::ValueTooLong`], [`OkraError::NoHash`]: nothing
    /// was changed then. Those of LMDB, such as [`OkraError::MapFull`]: the transaction can only be aborted, and every later call
    /// fails with [`OkraError::Failed`].
    pub fn insert(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        check_key(key)?;
        check_value(self.view.mode, value)?;
        self.push(key, Some(value))
    }

    /// Removes the entry at `key`, if there is one.
    ///
    /// # Errors
    /// As [`OkraWriter::insert`].
    pub fn remove(&mut self, key: &[u8]) -> Result<()> {
        check_key(key)?;
        self.push(key, None)
    }

    /// Sets many entries, in any order; of several values for one key the last one counts.
    ///
    /// # Errors
    /// As [`OkraWriter::insert`]; entries before the one at fault are set.
    pub fn insert_many<K: AsRef<[u8]>, V: AsRef<[u8]>>(
        &mut self,
        entries: impl IntoIterator<Item = (K, V)>,
    ) -> Result<()> {
        entries.into_iter().try_for_each(|(key, value)| self.insert(key.as_ref(), value.as_ref()))
    }

    /// Fills an empty map with entries whose keys ascend, faster than by any other way.
    ///
    /// Entries stream into LMDB. What waits in memory meanwhile are the levels above: a key and 16 bytes for each 31
    /// entries, on average. Returns the count of entries.
    ///
    /// # Errors
    /// [`OkraError::NotEmpty`], [`OkraError::Unsorted`] and those of [`OkraWriter::insert`]. After any of them the
    /// transaction can only be aborted.
    pub fn load_sorted<K: AsRef<[u8]>, V: AsRef<[u8]>>(
        &mut self,
        entries: impl IntoIterator<Item = (K, V)>,
    ) -> Result<u64> {
        self.guarded(|writer| {
            writer.apply()?;
            let file = writer.view.file().to_owned();
            if writer.view.first()?.is_some() {
                return Err(OkraError::NotEmpty { file });
            }
            writer.changed.clear();
            let mode = writer.view.mode;
            let mut cursors = writer.view.txn.write_cursors()?;
            load::load_sorted(&mut cursors, &file, mode, entries)
        })
    }

    /// Returns the map with all changes so far, to read entries from. Roots and nodes of higher levels may be those from before:
    /// [`OkraWriter::root`] brings them up to date.
    ///
    /// # Errors
    /// Those of LMDB.
    pub fn entries(&mut self) -> Result<&OkraSnapshot<'m>> {
        self.guarded(Self::apply)?;
        Ok(&self.view)
    }

    /// Returns the root with all changes so far.
    ///
    /// # Errors
    /// [`OkraError::Damaged`], and those of LMDB.
    pub fn root(&mut self) -> Result<OkraRoot> {
        self.guarded(Self::rehash)?;
        self.view.root()
    }

    /// Commits all changes and returns the root. With full durability the file has been synced then.
    ///
    /// # Errors
    /// [`OkraError::Failed`] after a call that failed; [`OkraError::MapFull`], [`OkraError::NoSpace`] and others of
    /// LMDB. The map is then as it was before the transaction.
    pub fn commit(mut self) -> Result<OkraRoot> {
        let root = self.root()?;
        self.view.txn.commit()?;
        Ok(root)
    }

    /// Drops all changes, as dropping the transaction does.
    pub fn abort(self) {}

    fn push(&mut self, key: &[u8], value: Option<&[u8]>) -> Result<()> {
        self.refuse_failed()?;
        self.pending.push(key, value);
        if self.pending.bytes() >= WAITING_BYTES_MAX { self.guarded(Self::apply) } else { Ok(()) }
    }

    /// Runs a step; when it fails, or what the caller gave panics, every later one fails.
    fn guarded<T>(&mut self, step: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        self.refuse_failed()?;
        self.failed = true;
        let done = step(self)?;
        self.failed = false;
        Ok(done)
    }

    fn refuse_failed(&self) -> Result<()> {
        if self.failed { Err(OkraError::Failed { file: self.view.file().to_owned() }) } else { Ok(()) }
    }

    /// Writes the pending changes, in the order of their keys.
    fn apply(&mut self) -> Result<()> {
        if self.pending.is_empty() {
            return Ok(());
        }
        let mut cursors = self.view.txn.write_cursors()?;
        let mut write =
            EntryWriter { cursors: &mut cursors, mode: self.view.mode, key: NodeKey::new(0, &[]), value: Vec::new() };
        for (key, value) in self.pending.sorted() {
            if write.write(key, value)? {
                self.changed.push(key);
            }
        }
        drop(cursors);
        self.pending.clear();
        if self.changed.bytes() >= WAITING_BYTES_MAX { self.rehash() } else { Ok(()) }
    }

    /// Hashes the nodes above all changed entries.
    fn rehash(&mut self) -> Result<()> {
        self.apply()?;
        if self.changed.len() == 0 {
            return Ok(());
        }
        let mut changed = std::mem::take(&mut self.changed);
        changed.sort();
        let file = self.view.file().to_owned();
        rehash(&mut self.view.txn.write_cursors()?, &file, changed)
    }
}

/// Refuses what cannot be a value.
pub(super) fn check_value(mode: Mode, value: &[u8]) -> Result<()> {
    match mode {
        Mode::Store if value.len() > VALUE_BYTES_MAX => Err(OkraError::ValueTooLong { bytes: value.len() }),
        Mode::Index if NodeHash::at(value).is_none_or(|hash| hash.0.len() != value.len()) => {
            Err(OkraError::NoHash { bytes: value.len() })
        }
        _ => Ok(()),
    }
}

/// Puts what LMDB holds for an entry into `bytes`: its hash and, in store mode, its value.
pub(super) fn encode_entry(mode: Mode, key: &[u8], value: &[u8], bytes: &mut Vec<u8>) {
    bytes.clear();
    if mode == Mode::Store {
        bytes.extend_from_slice(&NodeHash::of_entry(key, value).0);
    }
    bytes.extend_from_slice(value);
}

/// Writes entries in the order of their keys.
struct EntryWriter<'c, 't> {
    cursors: &'c mut WriteCursors<'t>,
    mode: Mode,
    key: NodeKey,
    value: Vec<u8>,
}

impl EntryWriter<'_, '_> {
    /// Sets or removes an entry; tells whether that changed anything.
    fn write(&mut self, key: &[u8], value: Option<&[u8]>) -> Result<bool> {
        self.key.set(0, key);
        let Some(value) = value else {
            let is_there = self.cursors.seek_exact(At::Children, self.key.bytes())?.is_some();
            if is_there {
                self.cursors.remove(At::Children)?;
            }
            return Ok(is_there);
        };
        encode_entry(self.mode, key, value, &mut self.value);
        match self.cursors.seek_exact(At::Children, self.key.bytes())? {
            Some(old) if old == self.value => return Ok(false),
            Some(_) => self.cursors.replace(At::Children, self.key.bytes(), &self.value)?,
            None => self.cursors.put(At::Children, self.key.bytes(), &self.value)?,
        }
        Ok(true)
    }
}
