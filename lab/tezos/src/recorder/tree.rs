//! Trees whose lookups and edits are recorded.

use std::sync::Arc;

use bristlecone::{AsPath, Bytes, Error, NewValue, Path, Tezos, Tree};

use super::{Context, RecordError};
use crate::{
    key::{Key, KeyBuf},
    row::Row,
    scoped::{ContextId, Scoped},
};

/// A tree of a recording. A clone is the same context; an edit makes a new context of this one, and of no other.
///
/// Every call that succeeds is a row of the trace; one that fails leaves no row.
///
/// # Errors
/// Of all methods: [`RecordError::Store`] as for the method of [`Tree`] of that name; [`RecordError::Trace`];
/// [`RecordError::Ended`].
#[derive(Clone, Debug)]
pub struct RecordedTree {
    tree: Tree<Tezos>,
    context: Arc<Context>,
}

impl RecordedTree {
    pub(super) const fn new(tree: Tree<Tezos>, context: Arc<Context>) -> Self {
        Self { tree, context }
    }

    pub(super) const fn context(&self) -> &Arc<Context> {
        &self.context
    }

    pub(super) const fn tree_mut(&mut self) -> &mut Tree<Tezos> {
        &mut self.tree
    }

    /// Returns the tree itself. What is read from it is not recorded.
    #[must_use]
    pub const fn tree(&self) -> &Tree<Tezos> {
        &self.tree
    }

    /// Returns the id by which the trace knows it.
    #[must_use]
    pub fn context_id(&self) -> ContextId {
        self.context.name
    }

    /// Binds `path` to a value.
    ///
    /// # Errors
    /// As said of all methods.
    pub fn set<'v>(&mut self, path: impl AsPath, value: impl Into<NewValue<'v>>) -> Result<(), RecordError> {
        let (path, value) = (path.as_path().map_err(Error::from)?, value.into());
        self.tree.replace(&*path, value.clone())?;
        let key = key(&path);
        self.edited(|input, output| Row::Add { key: key.as_key(), value: value.as_bytes(), input, output })
    }

    /// Removes what is at `path`, value or directory.
    ///
    /// # Errors
    /// As said of all methods.
    pub fn remove(&mut self, path: impl AsPath) -> Result<(), RecordError> {
        let path = path.as_path().map_err(Error::from)?;
        self.tree.remove(&*path)?;
        let key = key(&path);
        self.edited(|input, output| Row::Remove { key: key.as_key(), input, output })
    }

    /// Binds `to` to what is at `from`, value or directory.
    ///
    /// # Errors
    /// As said of all methods; [`RecordError::NothingToCopy`].
    pub fn copy(&mut self, from: impl AsPath, to: impl AsPath) -> Result<(), RecordError> {
        let (from, to) = (from.as_path().map_err(Error::from)?, to.as_path().map_err(Error::from)?);
        if let Some(dir) = self.tree.get_tree(&*from)? {
            self.tree.set_tree(&*to, &dir)?;
        } else {
            let found = self.tree.get(&*from)?.map(Bytes::into_static);
            let value = found.ok_or_else(|| RecordError::NothingToCopy { path: from.to_string() })?;
            self.tree.replace(&*to, &value[..])?;
        }
        let (from, to) = (key(&from), key(&to));
        self.edited(|input, output| Row::Copy { source: from.as_key(), destination: to.as_key(), input, output })
    }

    /// Returns the value at `path`; `None` if there is none or a directory.
    ///
    /// # Errors
    /// As said of all methods.
    pub fn get(&self, path: impl AsPath) -> Result<Option<Bytes<'_>>, RecordError> {
        let path = path.as_path().map_err(Error::from)?;
        let value = self.tree.get(&*path)?;
        self.read(&path, value.is_some(), |key, found, input| Row::Find { key, found, input })?;
        Ok(value)
    }

    /// Whether there is a value at `path`.
    ///
    /// # Errors
    /// As said of all methods.
    pub fn contains(&self, path: impl AsPath) -> Result<bool, RecordError> {
        let path = path.as_path().map_err(Error::from)?;
        let found = self.tree.contains(&*path)?;
        self.read(&path, found, |key, found, input| Row::Mem { key, found, input })?;
        Ok(found)
    }

    /// Whether there is a value or a directory at `path`. ([`Tree::contains_tree`] asks for a directory.)
    ///
    /// # Errors
    /// As said of all methods.
    pub fn contains_tree(&self, path: impl AsPath) -> Result<bool, RecordError> {
        let path = path.as_path().map_err(Error::from)?;
        let found = path.is_root() || self.tree.entry(&*path)?.is_some();
        self.read(&path, found, |key, found, input| Row::MemTree { key, found, input })?;
        Ok(found)
    }

    fn read(
        &self,
        path: &Path,
        found: bool,
        row: impl FnOnce(Key<'_>, bool, Scoped<ContextId>) -> Row<'_>,
    ) -> Result<(), RecordError> {
        let key = key(path);
        self.context.shared.lock().record(&row(key.as_key(), found, Scoped::keep(self.context.name)))
    }

    fn edited<'r>(
        &mut self,
        row: impl FnOnce(Scoped<ContextId>, Scoped<ContextId>) -> Row<'r>,
    ) -> Result<(), RecordError> {
        let shared = self.context.shared.clone();
        let mut state = shared.lock();
        let output = state.next_context();
        state.record(&row(Scoped::keep(self.context.name), Scoped::keep(output)))?;
        let context = Context::new(output, &shared, &mut state);
        // The context before takes the lock as it goes.
        drop(state);
        self.context = context;
        Ok(())
    }
}

fn key(path: &Path) -> KeyBuf {
    KeyBuf::from_steps(path.steps())
}
