//! All objects of a repository in parts, which threads go through at the same time.

use std::{
    collections::BTreeMap,
    num::NonZero,
    sync::{Arc, Mutex, PoisonError, mpsc},
    thread,
};

use bristlecone::{Damage, Error, Object, Oid, Result};

use super::{GitBackend, open_repository::OpenRepository};

/// Objects in a part: so many that handing one over costs nothing beside reading them, and few enough for every thread to have some.
const PART_OBJECTS: usize = 256;

/// One part of the objects of a repository.
#[derive(Debug)]
pub struct GitObjects<'r> {
    repository: &'r OpenRepository,
    oids: Vec<Oid>,
}

impl GitObjects<'_> {
    /// Calls `each` for the objects of the part, in the order in which they are read fastest. Damaged ones are reported to `damage`
    /// and passed over.
    ///
    /// # Errors
    /// Those of the system; whatever `each` returns.
    pub fn each_object(
        &self,
        each: &mut dyn FnMut(Oid, &Object<'_>) -> Result<()>,
        damage: &mut dyn FnMut(Damage),
    ) -> Result<()> {
        self.oids.iter().try_for_each(|oid| self.repository.object(oid, each, damage))
    }
}

impl GitBackend {
    /// Calls `work` with parts of the objects on some threads, and `take` with what that returned, in the order of the parts, on
    /// the calling thread. Parts are the same for any number of threads, and an object is in one of them.
    ///
    /// # Errors
    /// The first of `work` or `take`, in that order; those of [`crate::odb::Odb::each_oid`].
    pub fn each_part<T: Send>(
        &self,
        threads: NonZero<usize>,
        work: &(impl Fn(&GitObjects<'_>) -> Result<T> + Sync),
        take: &mut dyn FnMut(T) -> Result<()>,
    ) -> Result<()> {
        let repository = &*self.repository;
        if threads.get() == 1 {
            return repository.each_ids(&mut |oids| take(work(&GitObjects { repository, oids })?));
        }
        // No more than a part for each thread is listed ahead.
        let (parts, waiting) = mpsc::sync_channel::<(usize, Vec<Oid>)>(threads.get());
        let (sender, results) = mpsc::sync_channel(threads.get());
        let waiting = Arc::new(Mutex::new(waiting));
        thread::scope(|scope| {
            let listing = scope.spawn(move || {
                let mut number = 0;
                repository.each_ids(&mut |oids| {
                    // Who takes parts has ended, and says why.
                    let sent = parts.send((number, oids)).map_err(|_| Error::Stopped);
                    number += 1;
                    sent
                })
            });
            for _ in 0..threads.get() {
                let (waiting, sender) = (waiting.clone(), sender.clone());
                scope.spawn(move || {
                    loop {
                        let part = waiting.lock().unwrap_or_else(PoisonError::into_inner).recv();
                        let Ok((number, oids)) = part else { return };
                        if sender.send((number, work(&GitObjects { repository, oids }))).is_err() {
                            return;
                        }
                    }
                });
            }
            drop((waiting, sender));
            let (mut ahead, mut turn) = (BTreeMap::new(), 0);
            // Threads end at their next result once the receiver is dropped.
            for (number, result) in results {
                ahead.insert(number, result);
                while let Some(result) = ahead.remove(&turn) {
                    take(result?)?;
                    turn += 1;
                }
            }
            listing.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }
}

impl OpenRepository {
    /// Calls `each` with the ids of all objects, each once, in parts.
    fn each_ids(&self, each: &mut dyn FnMut(Vec<Oid>) -> Result<()>) -> Result<()> {
        let mut oids = Vec::with_capacity(PART_OBJECTS);
        self.odb.each_oid(&mut |oid| {
            oids.push(oid);
            if oids.len() < PART_OBJECTS {
                return Ok(());
            }
            each(std::mem::replace(&mut oids, Vec::with_capacity(PART_OBJECTS)))
        })?;
        if oids.is_empty() { Ok(()) } else { each(oids) }
    }
}
