//! Folding: many small packs become one.

use bristlecone::Result;

use super::shared::Shared;

impl Shared {
    /// Folds packs if there are many.
    pub(super) fn fold_some(&self) {}

    /// Folds all packs.
    pub(super) fn fold_all(&self) -> Result<()> {
        Ok(())
    }
}
