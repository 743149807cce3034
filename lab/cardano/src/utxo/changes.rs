//! What blocks remove from the set and add to it, until it is committed.

use std::{collections::HashMap, ops::Range};

use crate::OutputRef;

/// The last of what happened to an output.
#[derive(Debug)]
struct Edit {
    /// Where its bytes are; `None` if it was removed.
    bytes: Option<Range<usize>>,
    /// The store has it, so that a removal must reach the store.
    stored: bool,
}

/// Outputs to be removed and added, with the last of what happened to each.
#[derive(Debug, Default)]
pub struct Changes {
    edits: HashMap<OutputRef, Edit>,
    bytes: Vec<u8>,
}

impl Changes {
    /// Adds an output.
    pub fn create(&mut self, output: OutputRef, cbor: &[u8]) {
        let from = self.bytes.len();
        self.bytes.extend_from_slice(cbor);
        let bytes = Some(from..self.bytes.len());
        let edit = self.edits.entry(output).or_insert(Edit { bytes: None, stored: false });
        edit.bytes = bytes;
    }

    /// Removes an output that the store has.
    pub fn spend(&mut self, output: OutputRef) {
        self.edits.insert(output, Edit { bytes: None, stored: true });
    }

    /// Removes an output that was added since the last commit, which then never reaches the store. Returns whether it was:
    /// `Some(false)` says that it was and is spent, `None` that nothing is known of it here.
    pub fn take(&mut self, output: &OutputRef) -> Option<bool> {
        let edit = self.edits.get_mut(output)?;
        let there = edit.bytes.take().is_some();
        if !edit.stored {
            self.edits.remove(output);
        }
        Some(there)
    }

    /// Returns the bytes of an output that was added; `Some(None)` for one that was removed.
    #[must_use]
    pub fn get(&self, output: &OutputRef) -> Option<Option<&[u8]>> {
        let edit = self.edits.get(output)?;
        Some(edit.bytes.clone().map(|at| &self.bytes[at]))
    }

    /// Whether there is nothing to be committed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.edits.is_empty()
    }

    /// Returns how many outputs are to be removed or added.
    #[must_use]
    pub fn len(&self) -> usize {
        self.edits.len()
    }

    /// Returns the outputs with their bytes, or without for those to be removed, in no order.
    pub fn iter(&self) -> impl Iterator<Item = (&OutputRef, Option<&[u8]>)> {
        self.edits.iter().map(|(output, edit)| (output, edit.bytes.clone().map(|at| &self.bytes[at])))
    }

    /// Forgets everything, and keeps a little memory for what comes.
    pub fn clear(&mut self) {
        const KEPT: usize = 1 << 20;
        self.edits.clear();
        self.bytes.clear();
        self.bytes.shrink_to(KEPT);
        self.edits.shrink_to(KEPT / 64);
    }
}
