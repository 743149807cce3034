//! Files and index follow a commit, under the lock of the index.

use bristlecone::{Error, Result, report};

use super::{
    change::{Change, Followed, ReadFile, Refusal, TreeItem},
    check::{self, PathUpdate},
    folder::{PathState, Top},
    index::{IndexStat, mode_of},
    lock::IndexLock,
    settings::Settings,
    view::{WorktreeView, read_index},
};
use crate::repository::layout::Layout;

/// Files of Git's that are there while something is half done that ends in a commit of its own.
const UNDER_WAY: [(&str, &str); 3] =
    [("MERGE_HEAD", "a merge"), ("CHERRY_PICK_HEAD", "a cherry-pick"), ("REVERT_HEAD", "a revert")];

/// A working tree that is about to follow a commit. Its index is locked until this is dropped.
#[derive(Debug)]
pub struct Update {
    view: WorktreeView,
    lock: IndexLock,
    steps: Vec<PathUpdate>,
}

impl Update {
    /// Locks the index of the working tree, waiting for other processes for `wait_ms` milliseconds at most, and
    /// reads it.
    ///
    /// # Errors
    /// [`Refusal::Whole`] for a bare repository, an index that is not understood, conflicts, and a merge that is under
    /// way; [`Refusal::Failed`] with [`Error::Locked`], [`Error::Corrupt`] or [`Error::Io`].
    pub fn begin(layout: &Layout, wait_ms: u64) -> Result<Self, Refusal> {
        let Some(files) = &layout.worktree else {
            return Err(Refusal::Whole("the repository is bare: it has no working tree".to_owned()));
        };
        let failed = |source| Error::io(files.display().to_string(), source);
        let top = Top::open(files).map_err(failed)?;
        let lock = IndexLock::take(layout.git_storage(), wait_ms)?;
        for (file, what) in UNDER_WAY {
            if layout.git_dir.join(file).exists() {
                let way = "finish it with `git commit`, or give it up";
                return Err(Refusal::Whole(format!("{what} is under way in the working tree; {way}")));
            }
        }
        let (index, index_seconds) = read_index(layout)?;
        if index.has_conflicts() {
            let way = "resolve them and `git commit`";
            return Err(Refusal::Whole(format!("the index has conflicts of a merge; {way}")));
        }
        let settings = Settings::of(layout)?;
        let view = WorktreeView {
            algorithm: layout.algorithm,
            common_dir: layout.common_dir.clone(),
            attributes_files: settings.attributes_files(files),
            settings,
            top,
            index,
            index_seconds,
        };
        Ok(Self { view, lock, steps: Vec::new() })
    }

    /// Checks that the working tree can follow these changes, and remembers them. Changes nothing. The last call
    /// counts.
    ///
    /// # Errors
    /// [`Refusal::Paths`] names all paths that cannot follow; [`Refusal::Failed`] with what `read` returns, or
    /// [`Error::Io`].
    pub fn check(&mut self, mut changes: Vec<Change>, read: ReadFile<'_>) -> Result<(), Refusal> {
        changes.retain(|change| change.before != change.after);
        changes.sort_by(|one, other| one.path.cmp(&other.path));
        self.steps = check::steps(&self.view, &changes, read)?;
        Ok(())
    }

    /// Writes files and index, once the commit is made. The result names what cannot be written; all else is written.
    ///
    /// `synced`: the index is durable at the end.
    ///
    /// # Errors
    /// [`Error::Io`] if the index cannot be written. Files may be as after the commit then.
    pub fn follow(mut self, read: ReadFile<'_>, synced: bool) -> Result<Followed> {
        let mut followed = Followed::default();
        let steps = std::mem::take(&mut self.steps);
        let mut done = vec![None; steps.len()];
        // What goes makes room for what comes: a file where a directory was, and the other way round.
        for (step, done) in steps.iter().zip(&mut done).filter(|(step, _)| step.to.is_none()) {
            match if step.there { self.view.top.remove(&step.path) } else { Ok(()) } {
                Ok(()) => {
                    followed.removed += u64::from(step.there);
                    *done = Some(None);
                }
                Err(error) => followed.failed.push((step.path.clone(), report(&error))),
            }
        }
        for (step, done) in steps.iter().zip(&mut done) {
            let Some(item) = step.to else { continue };
            let stat = match step.done {
                Some(stat) => Ok(stat),
                None => self.write(step, item, read).inspect(|_| followed.written += 1),
            };
            match stat {
                Ok(stat) => *done = Some(Some((stat, mode_of(item.kind), item.oid))),
                Err(error) => followed.failed.push((step.path.clone(), error)),
            }
        }
        self.view.doubt_racy();
        let changes: Vec<_> =
            steps.iter().zip(done).filter_map(|(step, done)| done.map(|done| (&step.path[..], done))).collect();
        self.view.index.change(&changes);
        let bytes = self.view.index.encode();
        self.lock.replace(&bytes, synced)?;
        Ok(followed)
    }

    /// Writes a file or link; returns why not where it cannot.
    fn write(&self, step: &PathUpdate, item: TreeItem, read: ReadFile<'_>) -> Result<IndexStat, String> {
        let bytes = read(&step.path).map_err(|error| report(&error))?;
        let bytes = bytes.ok_or_else(|| "it is missing from the store".to_owned())?;
        let written = match self.view.top.look(&step.path) {
            Ok(PathState::Folder) => self.view.top.remove_empty(&step.path),
            _ => Ok(()),
        };
        let written = written.and_then(|()| self.view.top.write(&step.path, item.kind, &bytes, !step.there));
        written.map_err(|error| report(&error))
    }
}
