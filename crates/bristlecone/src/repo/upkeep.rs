//! What a store does beside commits so that questions about history are answered soon.

use std::sync::{
    Arc, Mutex, PoisonError,
    atomic::{AtomicBool, AtomicU32, Ordering::*},
};

use bristlecone_core::{Format, ObjRef};

use super::{
    Repo,
    beside::BesideThread,
    history::{EditedPaths, bring_up},
};
use crate::oid_map::OidMap;

/// After so many commits what questions use is brought up.
const EACH: u32 = 4096;
/// Of so many commits it is remembered what they may have changed, until they are in the index.
const EDITED_MAX: usize = 4 * EACH as usize;
/// So many commits that were made otherwise are added to the index at a time.
const ADDED_MAX: u64 = 1 << 16;

/// What keeps the graph of commits and the index of changes up.
#[derive(Debug, Default)]
pub(crate) struct Upkeep {
    off: AtomicBool,
    // Commits since they were kept up.
    commits: AtomicU32,
    // What some of them may have changed.
    edited: Mutex<OidMap<EditedPaths>>,
    running: Arc<AtomicBool>,
    stop: Arc<AtomicBool>,
    thread: BesideThread<()>,
}

impl Drop for Upkeep {
    fn drop(&mut self) {
        // The thread is waited for with the part that it is.
        self.stop.store(true, Relaxed);
    }
}

impl<F: Format> Repo<F> {
    /// Sets whether a store that outlives the process keeps up what questions about history use: after every 4,096 commits
    /// through this repository a thread adds them to the graph of commits, which [`Repo::is_ancestor`] uses, and to the index of
    /// changes, which [`Repo::last_change`] uses. It is so unless it is switched off.
    pub fn set_indexing(&self, on: bool) {
        self.shared.upkeep.off.store(!on, Relaxed);
    }

    /// Waits for the thread that keeps them up, if one is running.
    pub fn wait_for_indexing(&self) {
        self.shared.upkeep.thread.wait();
    }

    /// Whether it is worth telling what a commit may have changed.
    pub(super) fn keeps_edited(&self) -> bool {
        !self.shared.upkeep.off.load(Relaxed) && self.shared.backend.capabilities().persistent
    }

    /// Counts a commit, and notes what it may have changed.
    #[inline]
    pub(super) fn note_commit(&self, head: ObjRef, edited: Option<EditedPaths>) {
        let upkeep = &self.shared.upkeep;
        upkeep.commits.fetch_add(1, Relaxed);
        if let Some(edited) = edited {
            let mut known = upkeep.edited.lock().unwrap_or_else(PoisonError::into_inner);
            if known.len() < EDITED_MAX {
                known.insert(head.oid, edited);
            }
        }
    }

    /// Brings up what questions use, if enough commits were made.
    #[inline]
    pub(super) fn keep_up_if_due(&self, head: ObjRef) {
        if self.shared.upkeep.commits.load(Relaxed) >= EACH {
            self.keep_up(head);
        }
    }

    #[cold]
    fn keep_up(&self, head: ObjRef) {
        let upkeep = &self.shared.upkeep;
        let wanted = self.keeps_edited();
        if wanted && upkeep.running.swap(true, AcqRel) {
            return;
        }
        upkeep.commits.store(0, Relaxed);
        let edited = std::mem::take(&mut *upkeep.edited.lock().unwrap_or_else(PoisonError::into_inner));
        if !wanted {
            return;
        }
        // The thread holds the backend, and not what ends it.
        let (running, stop, shared) = (upkeep.running.clone(), upkeep.stop.clone(), self.shared.beside());
        let keep_up = move || {
            let store = shared.now(&[head.oid]);
            // What could not be added now is added by the next one, or by a question.
            let _ = shared.graph.extend(&store, &[head], EACH / 2, &stop);
            let _ = bring_up(&store, &head, edited, ADDED_MAX, &stop);
            running.store(false, Release);
        };
        if !upkeep.thread.begin("cone-index", keep_up) {
            upkeep.running.store(false, Release);
        }
    }
}
