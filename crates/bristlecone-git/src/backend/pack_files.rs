//! The names of the files of a pack, and their removal.

use bristlecone::Result;

use crate::repository::files::Files;

/// The folder of packs.
pub(super) const PACKS: &str = "objects/pack";

/// Returns the name of a pack's index until it is whole.
pub(super) fn part_of(pack: &str) -> String {
    // A name that is not ours may have a character where ours would begin.
    format!("{PACKS}/tmp_idx_{}", pack.get(pack.len().saturating_sub(40)..).unwrap_or(pack))
}

/// Removes the files of a pack: the index first, so that no process begins to use it.
pub(super) fn remove_files(files: &Files, pack: &str) -> Result<()> {
    ["idx", "rev", "pack"]
        .into_iter()
        .try_for_each(|ending| files.remove(&format!("{PACKS}/{pack}.{ending}")).map(drop))
}
