//! Pruned trees: the objects that some lookups need, and no others.

use std::sync::{Arc, Mutex};

use bristlecone_core::{AsPath, Format, ObjRef, Object, Sink};

use super::Tree;
use crate::{Backend, Batch, Durability, MemoryBackend, Result, store::Store};

impl<F: Format> Tree<F> {
    /// Returns a tree with the same root that holds only what looking `paths` up takes. Asked for anything
    /// else, it answers [`crate::Error::Pruned`]; never that something is absent.
    ///
    /// Pending edits are hashed and written first, as [`Tree::write`] does.
    ///
    /// # Errors
    /// As [`Tree::find`] and [`Tree::write`].
    pub fn prune<P: AsPath>(&mut self, paths: impl IntoIterator<Item = P>) -> Result<Self> {
        let root = self.write()?;
        let recorder = Arc::new(Recorder { inner: self.store.backend.clone(), kept: Mutex::default() });
        let recorded = Self::at(Store::new(self.store.format.clone(), recorder.clone()), Some(root));
        recorded.check_root()?;
        for path in paths {
            if let Some(entry) = recorded.get(path)? {
                entry.contents()?;
            }
        }
        let kept = std::mem::take(&mut *recorder.kept.lock().unwrap_or_else(|poisoned| poisoned.into_inner()));
        let backend = MemoryBackend::new();
        backend.append(kept, &[], Durability::None)?;
        let (format, empty) = (self.store.format.clone(), self.store.empty);
        let store = Store::partial(format, Arc::new(backend), empty);
        Ok(Self::at(store, Some(root.oid.into())))
    }
}

/// Keeps a copy of every object that is read.
#[derive(Debug)]
struct Recorder {
    inner: Arc<dyn Backend>,
    kept: Mutex<Batch>,
}

impl Backend for Recorder {
    fn capabilities(&self) -> crate::Capabilities {
        self.inner.capabilities()
    }

    fn read(&self, at: &ObjRef) -> Result<Option<Object<'_>>> {
        let object = self.inner.read(at)?;
        if let Some(object) = &object {
            let mut kept = self.kept.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
            kept.put(object.kind(), at.oid, object.body(), &[], &[]);
        }
        Ok(object)
    }

    fn locate(&self, oid: &bristlecone_core::Oid) -> Option<bristlecone_core::Location> {
        self.inner.locate(oid)
    }

    fn append(&self, _: Batch, _: &[crate::RefMove], _: Durability) -> Result<bristlecone_core::Location> {
        Err(crate::Error::ReadOnly)
    }

    fn get_ref(&self, name: &str) -> Result<Option<crate::RefTarget>> {
        self.inner.get_ref(name)
    }

    fn list_refs(&self, prefix: &str) -> Result<std::collections::BTreeMap<String, crate::RefTarget>> {
        self.inner.list_refs(prefix)
    }

    fn shallow(&self) -> Result<std::collections::BTreeSet<bristlecone_core::Oid>> {
        self.inner.shallow()
    }

    fn flush(&self) -> Result<()> {
        Ok(())
    }

    fn each_object(
        &self,
        each: &mut dyn FnMut(bristlecone_core::Oid, &Object<'_>) -> Result<()>,
        damage: &mut dyn FnMut(crate::Damage),
    ) -> Result<()> {
        self.inner.each_object(each, damage)
    }

    fn stats(&self) -> crate::BackendStats {
        self.inner.stats()
    }

    fn read_derived(&self, name: &str) -> Result<Option<Vec<u8>>> {
        self.inner.read_derived(name)
    }

    fn write_derived(&self, _: &str, _: &[u8]) -> Result<()> {
        Err(crate::Error::ReadOnly)
    }
}
