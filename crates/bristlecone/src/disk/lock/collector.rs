//! The lock of the collector: who has it collects, or changes what the store's state says, and nobody else does meanwhile.

use std::sync::Arc;

use super::{ATTEMPTS, stands_for};
use crate::{
    Error,
    disk::files::COLLECTOR,
    engine::Wait,
    storage::{OpenMode, Origin, Storage, StorageFile},
};

/// The lock, held until dropped.
#[derive(Debug)]
pub(in crate::disk) struct CollectorLock {
    storage: Arc<dyn Storage>,
    file: Arc<dyn StorageFile>,
    // A child that was forked meanwhile shares the lock, and does not give it back.
    origin: Origin,
}

impl CollectorLock {
    /// Takes the lock: one at a time, and others wait for their turn, as long as they are told to.
    ///
    /// # Errors
    /// [`Error::Locked`]; [`Error::Io`].
    pub(in crate::disk) fn take(storage: &Arc<dyn Storage>, wait_ms: u64) -> Result<Self, Error> {
        let mut wait = Wait::new(wait_ms);
        for _ in 0..ATTEMPTS {
            let opened = storage.open(COLLECTOR, OpenMode::Create);
            let file = opened.map_err(|error| Error::io(storage.describe(COLLECTOR), error))?;
            wait.lock(&**storage, &*file, COLLECTOR, || ())?;
            let taken = Self { storage: storage.clone(), file, origin: Origin::here() };
            if taken.is_named()? {
                return Ok(taken);
            }
        }
        let file = storage.describe(COLLECTOR);
        Err(Error::Locked { file, holder: "something that replaces it again and again".to_owned(), waited_ms: 0 })
    }

    /// Fails where the file was removed or replaced, so that another process may have the lock of another one.
    pub(in crate::disk) fn check(&self) -> Result<(), Error> {
        if self.is_named()? {
            return Ok(());
        }
        let reason =
            "the file of the lock was removed or replaced while it was held; nothing was changed, run it again";
        Err(Error::Lost { file: self.storage.describe(COLLECTOR), reason: reason.to_owned() })
    }

    /// Whether the name still stands for the file that is locked.
    fn is_named(&self) -> Result<bool, Error> {
        stands_for(&self.storage, COLLECTOR, Some(&self.file))
    }
}

impl Drop for CollectorLock {
    fn drop(&mut self) {
        if self.origin.is_here() {
            // A lock that cannot be given back ends with the handle.
            let _ = self.file.unlock();
        }
    }
}
