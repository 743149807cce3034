//! Which packs are open: a bounded number.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use super::Pack;

/// Packs that are mapped at a time, at most: systems allow a process some ten thousand maps.
const MAPS_MAX: usize = 512;
/// Bytes of packs too small for a map that are in memory, at most.
const BYTES_MAX: u64 = 64 << 20;

/// Packs that are open, the first opened first.
#[derive(Debug, Default)]
pub(crate) struct OpenPacks(Mutex<OpenQueues>);

#[derive(Debug, Default)]
struct OpenQueues {
    /// Mapped ones, and those held in memory with their sizes.
    maps: VecDeque<Arc<Pack>>,
    held: VecDeque<(Arc<Pack>, u64)>,
    held_bytes: u64,
}

impl OpenPacks {
    /// Opens a pack that is about to be read, and closes others if there are too many. Whether it can be opened shows
    /// when it is read.
    pub(crate) fn use_pack(&self, pack: &Arc<Pack>) {
        if pack.is_open() {
            return;
        }
        let Ok(held_bytes) = pack.open_now() else { return };
        let mut open = self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        match held_bytes {
            0 => open.maps.push_back(pack.clone()),
            bytes => {
                open.held.push_back((pack.clone(), bytes));
                open.held_bytes += bytes;
            }
        }
        while open.maps.len() > MAPS_MAX {
            if let Some(first) = open.maps.pop_front() {
                first.close();
            }
        }
        while open.held_bytes > BYTES_MAX {
            let Some((first, bytes)) = open.held.pop_front() else { break };
            open.held_bytes -= bytes;
            first.close();
        }
    }
}
