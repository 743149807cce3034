//! Changes to branches of a Git repository: may this one change here, and do files and index follow?
//!
//! A commit to the branch that Git has checked out would show in `git status` as its reversal. So it is refused, unless
//! `--worktree` asks for the working tree to follow. The steps are: lock the index, check, commit, write files and index.

use std::{
    fs,
    path::{Path as FilePath, PathBuf},
};

use bristlecone::{CommitId, Durability, EntryKind, Path};
use bristlecone_git::{
    layout::Layout,
    worktree::{Change, CheckedOut, HeldRefs, Hold, Refusal, TreeItem, Update},
};

use crate::{
    ending::{self, Held},
    failure::{Failure, Result},
    open::{Opened, short},
    text::show,
};
use bristlecone_any::{Branch, DirEntry, Prepared, Tree};

/// How many paths a message names.
const NAMED_MAX: usize = 10;

/// A guard that lets a branch change. Where its files are to follow, their index is locked until this is dropped.
pub(crate) struct WorktreeGuard {
    update: Option<Box<Update>>,
    // The tree that the branch is to have: its values are what files become.
    after: Option<Tree>,
    // Ending at once would leave the index locked, or files without their index. Dropped last.
    _held: Option<Held>,
}

impl Opened {
    /// Makes sure that the command may commit to the branch with this full name.
    ///
    /// Refused (exit code 2) if Git has it checked out somewhere, unless the files there are to follow and can.
    pub(crate) fn guard_worktree(&self, ref_name: &str) -> Result<WorktreeGuard> {
        let free = WorktreeGuard { update: None, after: None, _held: None };
        let Some((_, layout)) = self.repo.git() else {
            if self.worktree {
                return Err(Failure::usage(
                    "--worktree is for Git repositories; this store has no files, so leave it out",
                ));
            }
            return Ok(free);
        };
        let held = self.held_refs()?;
        let places = self.places_of(&held, ref_name)?;
        let Some(place) = places.first() else { return Ok(free) };
        if !self.worktree {
            return Err(refused(
                ref_name,
                place,
                "",
                "give --worktree to change its files, too, or name another branch with -b",
            ));
        }
        if let Some(elsewhere) = places.iter().find(|place| !same_folder(&place.git_dir, &layout.git_dir)) {
            return Err(refused(ref_name, elsewhere, "", "run cone there, or name another branch with -b"));
        }
        let held = ending::hold();
        let update = Update::begin(layout, self.wait_ms).map_err(|refusal| to_failure(refusal, layout))?;
        // From here on Git cannot check out anything else; until here it could.
        if self.places_of(&self.held_refs()?, ref_name)?.is_empty() {
            return Err(Failure::failed("something else was checked out meanwhile; run the command again"));
        }
        Ok(WorktreeGuard { update: Some(Box::new(update)), after: None, _held: Some(held) })
    }

    /// Returns the branch that the command is to commit to later. What stands against that is better said before the work than after;
    /// nothing is locked meanwhile.
    pub(crate) fn branch_to_work_for(&self) -> Result<Branch> {
        let branch = self.branch_to_change()?;
        drop(self.guard_worktree(&branch.moving_ref()?)?);
        ending::heed()?;
        Ok(branch)
    }

    /// Writes files and index of a repository that was just made, as what it has checked out has them.
    pub(crate) fn check_out_files(&self) -> Result<()> {
        let (Some((_, layout)), Some(head)) = (self.repo.git(), self.repo.checked_out_commit()?) else { return Ok(()) };
        if layout.worktree.is_none() {
            return Ok(());
        }
        let held = ending::hold();
        let update = Update::begin(layout, self.wait_ms).map_err(|refusal| to_failure(refusal, layout))?;
        let mut guard = WorktreeGuard { update: Some(Box::new(update)), after: None, _held: Some(held) };
        guard.check(self, self.repo.tree(), self.repo.checkout(head)?)?;
        guard.follow(&head, Durability::Synced)
    }

    /// Refuses to make, move or remove a branch that Git has checked out somewhere.
    pub(crate) fn check_not_checked_out(&self, ref_name: &str) -> Result<()> {
        match self.places_of(&self.held_refs()?, ref_name)?.first() {
            Some(place) => Err(refused(ref_name, place, "", "check another one out there with git first")),
            None => Ok(()),
        }
    }

    /// Returns which refs may not move; none of a store that is no Git repository.
    pub(crate) fn held_refs(&self) -> Result<HeldRefs> {
        Ok(self.repo.git().map(|(_, layout)| HeldRefs::of(layout)).transpose()?.unwrap_or_default())
    }

    /// Returns the working trees that have this branch checked out. A rebase that will move it is an error.
    fn places_of<'h>(&self, held: &'h HeldRefs, ref_name: &str) -> Result<Vec<&'h CheckedOut>> {
        let mut places = Vec::new();
        for hold in held.holds(ref_name, &mut |name| self.backend().get_ref(name))? {
            match hold {
                Hold::CheckedOut(place) => places.push(place),
                Hold::UnderWay(place) => {
                    let way = "finish that first";
                    return Err(refused(ref_name, place, ", in the middle of a rebase or bisection", way));
                }
            }
        }
        Ok(places)
    }

    /// Whether some working tree has the branch checked out.
    pub(crate) fn is_checked_out(&self, held: &HeldRefs, ref_name: &str) -> Result<bool> {
        let holds = held.holds(ref_name, &mut |name| self.backend().get_ref(name))?;
        Ok(holds.iter().any(|hold| matches!(hold, Hold::CheckedOut(_))))
    }
}

impl WorktreeGuard {
    /// Checks what a commit over `parent` would change, without writing anything into the store.
    pub(crate) fn check_prepared(
        &mut self,
        opened: &Opened,
        parent: Option<CommitId>,
        prepared: &Prepared,
    ) -> Result<()> {
        if self.update.is_none() {
            return Ok(());
        }
        let over = opened.repo.with_prepared(prepared)?;
        let before = match parent {
            Some(parent) => over.checkout(parent)?,
            None => over.tree(),
        };
        self.check(opened, before, over.tree_at(prepared.root()))
    }

    /// Checks what the branch's way from one tree to another changes. Edits of the trees are written first.
    pub(crate) fn check(&mut self, opened: &Opened, before: Tree, after: Tree) -> Result<()> {
        let (Some((_, layout)), Some(update)) = (opened.repo.git(), &mut self.update) else { return Ok(()) };
        // Git's index has ids of all that it lists.
        let (before, after) = (written(before)?, written(after)?);
        let changes = changes(&before, &after)?;
        let read = &mut |path: &[u8]| file(&after, path);
        update.check(changes, read).map_err(|refusal| to_failure(refusal, layout))?;
        self.after = Some(after);
        ending::heed()?;
        Ok(())
    }

    /// Lets files and index follow, once the branch has moved to `at`.
    pub(crate) fn follow(self, at: &CommitId, durability: Durability) -> Result<()> {
        let (Some(update), Some(after)) = (self.update, self.after) else { return Ok(()) };
        let followed = update.follow(&mut |path| file(&after, path), durability == Durability::Synced);
        let way = "look with `git status`, and bring them with `git restore --staged --worktree PATH`";
        match followed {
            Ok(followed) if followed.failed.is_empty() => Ok(()),
            Ok(followed) => {
                let named = named(&followed.failed);
                let commit = short(at);
                Err(Failure::failed(format!("commit {commit} is made, but files could not follow: {named}; {way}")))
            }
            Err(error) => {
                let commit = short(at);
                Err(Failure::from(error).about(format!("commit {commit} is made, but files could not follow; {way}")))
            }
        }
    }
}

/// Returns a tree with its edits written.
fn written(mut tree: Tree) -> Result<Tree> {
    if tree.is_edited() && !tree.is_empty()? {
        tree.write()?;
    }
    Ok(tree)
}

/// Returns the values that differ between two trees, as a working tree has them.
fn changes(before: &Tree, after: &Tree) -> Result<Vec<Change>> {
    let mut changes = Vec::new();
    for difference in before.diff(after, Path::root())? {
        let difference = difference?;
        changes.push(Change {
            path: difference.path.as_bytes().to_vec(),
            before: difference.before.as_ref().and_then(item),
            after: difference.after.as_ref().and_then(item),
        });
    }
    Ok(changes)
}

fn item(entry: &DirEntry<'_>) -> Option<TreeItem> {
    let oid = entry.foreign().or_else(|| entry.object().map(|at| at.oid))?;
    Some(TreeItem { kind: entry.kind(), oid })
}

/// Returns the bytes of a file or link in a tree.
fn file(tree: &Tree, path: &[u8]) -> bristlecone::Result<Option<Vec<u8>>> {
    let entry = tree.entry(Path::from_bytes(path)?)?;
    match entry.filter(|entry| !matches!(entry.kind(), EntryKind::Dir | EntryKind::Foreign)) {
        Some(entry) => Ok(entry.contents()?.map(|bytes| bytes.to_vec())),
        None => Ok(None),
    }
}

fn refused(ref_name: &str, place: &CheckedOut, state: &str, way: &str) -> Failure {
    let branch = show(ref_name.strip_prefix("refs/heads/").unwrap_or(ref_name));
    let folder = place.worktree.as_ref().unwrap_or(&place.git_dir);
    Failure::usage(format!(
        "Git has the branch {branch} checked out in {}{state}, where a change would show as its reversal; {way}",
        show(tidy(folder))
    ))
}

fn to_failure(refusal: Refusal, layout: &Layout) -> Failure {
    match refusal {
        Refusal::Paths(paths) => {
            let way = "commit or undo that with git first";
            Failure::usage(format!("the working tree cannot follow: {}; {way}; nothing was changed", named(&paths)))
        }
        Refusal::Whole(why) => {
            let folder = layout.worktree.as_ref().unwrap_or(&layout.git_dir);
            Failure::usage(format!("the working tree {} cannot follow: {why}; nothing was changed", show(tidy(folder))))
        }
        Refusal::Failed(error) => error.into(),
    }
}

/// Names paths, each with a reason; not more than a reader would read.
fn named(paths: &[(Vec<u8>, String)]) -> String {
    let mut text: Vec<String> =
        paths.iter().take(NAMED_MAX).map(|(path, why)| format!("{} ({why})", bristlecone::escape(path))).collect();
    if paths.len() > NAMED_MAX {
        text.push(format!("and {} more", paths.len() - NAMED_MAX));
    }
    text.join(", ")
}

fn same_folder(one: &FilePath, other: &FilePath) -> bool {
    tidy(one) == tidy(other)
}

/// Returns the folder's name without detours, where it is there.
fn tidy(folder: &FilePath) -> PathBuf {
    fs::canonicalize(folder).unwrap_or_else(|_| folder.to_owned())
}
