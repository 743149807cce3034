//! What directories became whose edits are in several places.
//!
//! Edits of a directory that was copied while they were pending are shared by its copies, and become objects once: copies of
//! copies would else take twice as long with each.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
};

use bristlecone_core::{ObjRef, Oid, Sink};

use super::super::patch::Patch;
use crate::store::FlushSink;

/// The address of a directory's edits, and what they apply to.
type EditedDir = (usize, Option<Oid>);

/// Directories by their edits, which outlive this.
#[derive(Debug, Default)]
pub(super) struct MadeDirs(Mutex<HashMap<EditedDir, Option<Oid>>>);

impl MadeDirs {
    /// Returns what the same edits of the same directory became elsewhere (`None`: nothing is left in it), if its object is in
    /// the batch of this thread.
    pub(super) fn get(&self, sink: &FlushSink<'_>, patch: &Patch, base: Option<ObjRef>) -> Option<Option<ObjRef>> {
        let made = *self.0.lock().unwrap_or_else(PoisonError::into_inner).get(&key(patch, base))?;
        match (made, base) {
            (None, _) => Some(None),
            (Some(oid), Some(base)) if base.oid == oid => Some(Some(base)),
            (Some(oid), _) => sink.batch.known(&oid).map(|at| Some(ObjRef::new(oid, at))),
        }
    }

    /// Notes what a directory became.
    pub(super) fn note(&self, patch: &Patch, base: Option<ObjRef>, made: Option<ObjRef>) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(key(patch, base), made.map(|at| at.oid));
    }
}

fn key(patch: &Patch, base: Option<ObjRef>) -> EditedDir {
    (std::ptr::from_ref(patch).addr(), base.map(|at| at.oid))
}
