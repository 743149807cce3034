//! Before an export: is every name a file's name, and how much is there?

use bristlecone::{EntryKind, Path, escape};

use crate::failure::{Failure, Result};
use bristlecone_any::Tree;

/// The longest name of a file, in bytes.
const NAME_BYTES_MAX: usize = 255;
/// How deep folders may lie in each other.
const DEPTH_MAX: usize = bristlecone::core::PATH_STEPS_MAX;

/// What an export writes.
#[derive(Debug, Default)]
pub(crate) struct Plan {
    /// Plain files.
    pub(crate) files: u64,
    /// Executable files.
    pub(crate) executables: u64,
    /// Symbolic links.
    pub(crate) links: u64,
    /// Folders, the top one left out.
    pub(crate) dirs: u64,
    /// Bytes of all files and links.
    pub(crate) bytes: u64,
    /// Ids of other stores, which are no files, in the order of paths.
    pub(crate) foreign: Vec<Path>,
}

impl Plan {
    /// Walks `tree` without loading a value.
    pub(super) fn of(tree: &Tree) -> Result<Self> {
        let mut plan = Self::default();
        let mut stack = vec![(Path::root(), tree.clone())];
        while let Some((path, tree)) = stack.pop() {
            for entry in tree.list("")? {
                let entry = entry?;
                check_name(&path, entry.step())?;
                let below = path.join(entry.step())?;
                match (entry.kind(), entry.tree()) {
                    (EntryKind::Dir, Some(tree)) => {
                        if below.len() >= DEPTH_MAX {
                            return Err(Failure::failed(format!("folders lie deeper than {DEPTH_MAX} at {below}")));
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
                plan.bytes += entry.bytes().unwrap_or(0);
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
    let place = if dir.is_root() { "at the top".to_owned() } else { format!("in {dir}") };
    let mut name = escape(step).replace('/', "%2F");
    if name.chars().count() > 80 {
        name = name.chars().take(77).chain("...".chars()).collect();
    }
    let way = "nothing was written; export another part with --path";
    Err(Failure::failed(format!("the name \"{name}\" {place} {why}, so it cannot be a file's; {way}")))
}
