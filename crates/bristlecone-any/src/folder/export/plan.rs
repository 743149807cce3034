//! Before an export: is every name a file's name, and how much is there?

use std::path::Path as FilePath;

use bristlecone::{EntryKind, Path};

use super::{FolderError, write};
use crate::{Tree, error::Result};

/// The longest name of a file, in bytes.
const NAME_BYTES_MAX: usize = 255;
/// The longest name of a file with all folders before it that the system takes. By its handles an export could write longer ones, which
/// no program reads by their names.
const PATH_BYTES_MAX: usize = if cfg!(target_os = "linux") { 4095 } else { 1023 };
/// How deep folders may lie in each other.
const DEPTH_MAX: usize = bristlecone::core::PATH_STEPS_MAX;

/// What an export writes, or wrote.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Exported {
    /// Plain files.
    pub files: u64,
    /// Executable files.
    pub executables: u64,
    /// Symbolic links.
    pub links: u64,
    /// Folders, the top one left out.
    pub dirs: u64,
    /// Bytes of all files and links.
    pub bytes: u64,
    /// Ids of other stores, which are no files, in the order of paths.
    pub foreign: Vec<Path>,
}

impl Exported {
    /// Walks `tree`, which is to be in the folder `dir`, without loading a value, for as long as `goes_on` says so. How many bytes
    /// there are is known once they are written.
    pub(super) fn plan(tree: &Tree, dir: &FilePath, goes_on: &dyn Fn() -> bool) -> Result<Self> {
        let mut plan = Self::default();
        // With the slash behind it.
        let dir_bytes = dir.join("x").as_os_str().len() - 1;
        let mut stack = vec![(Path::root(), tree.clone())];
        while let Some((path, tree)) = stack.pop() {
            for entry in tree.list("")? {
                let entry = entry?;
                write::check(goes_on)?;
                check_name(&path, entry.step())?;
                let below = path.join(entry.step())?;
                let bytes = dir_bytes + below.as_bytes().len();
                if bytes > PATH_BYTES_MAX && entry.kind() != EntryKind::Foreign {
                    return Err(FolderError::LongPath { path: below, bytes, bytes_max: PATH_BYTES_MAX }.into());
                }
                match (entry.kind(), entry.tree()) {
                    (EntryKind::Dir, Some(tree)) => {
                        if below.len() >= DEPTH_MAX {
                            return Err(FolderError::TooDeep { path: below, depth_max: DEPTH_MAX }.into());
                        }
                        plan.dirs += 1;
                        stack.push((below, tree));
                        continue;
                    }
                    (EntryKind::Foreign, _) => plan.foreign.push(below),
                    (EntryKind::Executable, _) => plan.executables += 1,
                    (EntryKind::Link, _) => plan.links += 1,
                    _ => plan.files += 1,
                }
            }
        }
        // Directories were met in another order.
        plan.foreign.sort();
        Ok(plan)
    }
}

/// Refuses what cannot be the name of a file in its folder.
fn check_name(dir: &Path, step: &[u8]) -> Result<()> {
    let why = match step {
        b"" => "is empty",
        b"." | b".." => "means a folder",
        _ if step.contains(&0) => "holds a NUL byte",
        _ if step.contains(&b'/') => "holds a slash",
        _ if step.len() > NAME_BYTES_MAX => "is longer than 255 bytes",
        _ => return Ok(()),
    };
    Err(FolderError::FileName { dir: dir.clone(), step: step.to_vec(), why }.into())
}
