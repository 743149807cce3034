//! Which paths pending edits may change, as the index of history wants to know.

use bristlecone_core::Format;

use super::{
    Tree,
    patch::{Patch, PatchBase, PatchEdit},
};
use crate::repo::{EditedPaths, EditedPathsList};

/// Edits that lie deeper are not looked at.
const DEPTH_MAX: usize = 64;
/// Most paths are no longer.
const PATH_BYTES: usize = 128;

impl<F: Format> Tree<F> {
    /// Returns the paths that edits may change, with the directories on the way, and the root that they apply to; `None` where
    /// the edits do not tell, or there are many. What is removed or put in as a whole directory may change paths below it.
    pub(crate) fn edited_paths(&self) -> Option<EditedPaths> {
        let base = self.written_base().ok()?.map(|at| at.oid);
        let mut list = EditedPathsList::default();
        if let Some(patch) = &self.patch {
            self.list_edited(patch, &mut Vec::with_capacity(PATH_BYTES), 1, &mut list)?;
        }
        Some(list.over(base))
    }

    fn list_edited(&self, patch: &Patch, path: &mut Vec<u8>, depth: usize, list: &mut EditedPathsList) -> Option<()> {
        // The root's edits are over the base, whatever that is by now.
        let inherits = depth == 1 || matches!(patch.base, PatchBase::Inherit);
        if !inherits || depth > DEPTH_MAX || !list.has_room(patch.len()) {
            return None;
        }
        let above = path.len();
        for (step, edit) in patch.iter() {
            if depth > 1 {
                path.push(b'/');
            }
            path.extend_from_slice(step.as_ref());
            list.push(path)?;
            match edit {
                PatchEdit::Leaf(_) => {}
                PatchEdit::Dir(below) => self.list_edited(below, path, depth + 1, list)?,
                PatchEdit::Detached => self.list_edited(self.active_patch(), path, depth + 1, list)?,
                PatchEdit::Remove | PatchEdit::Over(_) => return None,
            }
            path.truncate(above);
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use crate::{Repo, Result};

    /// Returns how many paths the edits of a tree may change, where they tell.
    fn edited(edit: impl FnOnce(&mut crate::Tree) -> Result<()>) -> Option<usize> {
        let mut tree = Repo::memory().tree();
        for path in ["a/b/c", "a/b/d", "e", "f/g"] {
            tree.set(path, "1").unwrap();
        }
        tree.write().unwrap();
        edit(&mut tree).unwrap();
        tree.edited_paths().map(|edited| edited.len())
    }

    #[test]
    fn edits_tell_the_paths_that_they_may_change() {
        assert_eq!(edited(|_| Ok(())), Some(0));
        assert_eq!(edited(|tree| tree.set("e", "2")), Some(1));
        assert_eq!(edited(|tree| tree.set("a/b/c", "2")), Some(3));
        assert_eq!(
            edited(|tree| ["a/b/c", "a/b/x", "a/y", "z"].iter().try_for_each(|path| tree.set(*path, "2"))),
            Some(6)
        );
        assert_eq!(edited(|tree| (0..510).try_for_each(|n| tree.set(format!("f/{n}"), "2"))), Some(511));
    }

    #[test]
    fn edits_do_not_tell_what_lies_below_what_they_remove_or_put_in() {
        assert_eq!(edited(|tree| tree.remove("a/b")), None);
        assert_eq!(edited(|tree| tree.replace("a", "2")), None);
        assert_eq!(edited(|tree| tree.remove("a").and_then(|()| tree.set("a/z", "2"))), None);
        assert_eq!(edited(|tree| tree.get_tree("f")?.map_or(Ok(()), |other| tree.set_tree("a", &other))), None);
        assert_eq!(edited(|tree| (0..512).try_for_each(|n| tree.set(format!("f/{n}"), "2"))), None);
    }
}
