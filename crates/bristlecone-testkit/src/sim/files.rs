//! The files of a simulated disk by their numbers, in parts that copies of the disk share.

use std::sync::Arc;

use super::file::FileState;

/// How many files a part holds.
const PART: usize = 32;

/// Files by number. A clone costs as many counters as there are parts; a change copies one part that others share.
#[derive(Clone, Default)]
pub(super) struct SimFiles {
    parts: Vec<Arc<[Option<Arc<FileState>>; PART]>>,
}

impl SimFiles {
    pub(super) fn get(&self, id: u64) -> Option<&Arc<FileState>> {
        self.parts.get(id as usize / PART)?[id as usize % PART].as_ref()
    }

    pub(super) fn insert(&mut self, id: u64, file: Arc<FileState>) {
        let part = id as usize / PART;
        while self.parts.len() <= part {
            self.parts.push(Arc::default());
        }
        Arc::make_mut(&mut self.parts[part])[id as usize % PART] = Some(file);
    }

    /// Returns a file to change. It must be there.
    pub(super) fn file_mut(&mut self, id: u64) -> &mut FileState {
        let part = self.parts.get_mut(id as usize / PART);
        let file = part.and_then(|part| Arc::make_mut(part)[id as usize % PART].as_mut());
        Arc::make_mut(file.expect("files live as long as the disk"))
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Arc<FileState>> {
        self.parts.iter().flat_map(|part| part.iter().flatten())
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut FileState> {
        self.parts.iter_mut().flat_map(|part| Arc::make_mut(part).iter_mut().flatten()).map(Arc::make_mut)
    }
}
