//! Pruned trees: the objects that some lookups need, and no others.

use std::sync::{Arc, Mutex, PoisonError};

use bristlecone_core::{AsPath, Format, Location, ObjRef, Object, Oid, Sink};

use super::Tree;
use crate::{Backend, Batch, Durability, MemoryBackend, Result, Snapshot, store::StoreBase};

impl<F: Format> Tree<F> {
    /// Returns a tree with the same root that holds only what looking `paths` up takes. Asked for anything
    /// else, it answers [`crate::Error::Pruned`]; never that something is absent.
    ///
    /// Pending edits are hashed and written first, as [`Tree::write`] does.
    ///
    /// # Errors
    /// As [`Tree::get`] and [`Tree::write`].
    pub fn prune<P: AsPath>(&mut self, paths: impl IntoIterator<Item = P>) -> Result<Self> {
        let root = self.write()?;
        let recorder = Arc::new(ReadRecorder { inner: self.store.snapshot.clone(), kept: Mutex::default() });
        let recorded = Self::at(self.store.with(recorder.clone()), Some(root.into()));
        recorded.check_root()?;
        for path in paths {
            if let Some(entry) = recorded.entry(path)? {
                entry.contents()?;
            }
        }
        let kept = std::mem::take(&mut *recorder.kept.lock().unwrap_or_else(PoisonError::into_inner));
        let backend = MemoryBackend::new();
        backend.append(kept, &[], Durability::None)?;
        let (format, empty) = (self.store.format.clone(), self.store.empty);
        let shared = StoreBase::partial(format, Arc::new(backend), empty);
        Ok(Self::at(shared.now(&[]), Some(root.oid().into())))
    }
}

/// Keeps a copy of every object that is read.
#[derive(Debug)]
struct ReadRecorder {
    inner: Arc<dyn Snapshot>,
    kept: Mutex<Batch>,
}

impl ReadRecorder {
    fn note(&self, at: &ObjRef, object: Option<&Object<'_>>) {
        if let Some(object) = object {
            let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
            kept.put(object.kind(), at.oid, object.body(), &[], &[]);
        }
    }
}

impl Snapshot for ReadRecorder {
    fn read(&self, at: &ObjRef) -> Result<Option<Object<'_>>> {
        let object = self.inner.read(at)?;
        self.note(at, object.as_ref());
        Ok(object)
    }

    fn read_many(&self, at: &[ObjRef], bytes_max: usize) -> Result<Vec<Option<Object<'_>>>> {
        let objects = self.inner.read_many(at, bytes_max)?;
        at.iter().zip(&objects).for_each(|(at, object)| self.note(at, object.as_ref()));
        Ok(objects)
    }

    fn locate(&self, oid: &Oid) -> Option<Location> {
        self.inner.locate(oid)
    }

    fn keep(&self, root: &Oid) {
        self.inner.keep(root);
    }
}
