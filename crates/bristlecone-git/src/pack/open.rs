//! Which packs are open: so many at most.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use super::Pack;

/// At most so many packs are open at a time: each takes a map of the process, of which systems allow some thousands, or
/// up to 64 KiB.
const OPEN_MAX: usize = 512;

/// Packs that are open, the first opened first.
#[derive(Debug, Default)]
pub(crate) struct OpenPacks(Mutex<VecDeque<Arc<Pack>>>);

impl OpenPacks {
    /// Makes room for a pack that is about to be read.
    pub(crate) fn use_pack(&self, pack: &Arc<Pack>) {
        if pack.is_open() {
            return;
        }
        let mut open = self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        open.push_back(pack.clone());
        while open.len() > OPEN_MAX {
            if let Some(first) = open.pop_front() {
                first.close();
            }
        }
    }
}
