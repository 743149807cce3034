//! A store that a command makes, and takes away again if it does not end well.

use std::{
    fs, io,
    path::{Path, PathBuf},
    process, thread,
    time::Duration,
};

use bristlecone::storage::{OpenMode, RealStorage, Storage};
use bristlecone_any::{AnyRepo, Found, Place};

/// After so long, threads that were still writing have seen that their folder is gone.
const SETTLED: Duration = Duration::from_millis(5);
/// How often it is removed again if they made it again.
const REMOVALS_MAX: usize = 20;

/// A folder that is not there yet, or is empty, and will be a store.
pub(crate) struct Made {
    dir: PathBuf,
    // The folder is there and stays.
    stays: bool,
    // Folders above it that will be made for it, the lowest first.
    above: Vec<PathBuf>,
    git: bool,
}

impl Made {
    /// A store of the engine on files. `None` if something is there.
    pub(crate) fn disk(dir: &Path) -> Option<Self> {
        Self::new(dir, false)
    }

    /// A Git repository. `None` if something is there.
    pub(crate) fn git(dir: &Path) -> Option<Self> {
        Self::new(dir, true)
    }

    fn new(dir: &Path, git: bool) -> Option<Self> {
        let stays = match fs::read_dir(dir) {
            Ok(mut names) => names.next().is_none(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => false,
            Err(_) => return None,
        };
        if !stays && dir.symlink_metadata().is_ok() {
            return None;
        }
        let above = dir.ancestors().skip(1).take_while(|above| !above.as_os_str().is_empty() && !above.exists());
        Some(Self { dir: dir.to_owned(), stays, above: above.map(Path::to_owned).collect(), git })
    }

    /// Whether the store is in this folder.
    pub(super) fn is(&self, dir: &Path) -> bool {
        self.dir == dir
    }

    /// Removes the store and the folders made for it, unless another process has written to it; returns whether it is gone.
    pub(super) fn remove(&self) -> bool {
        // What made it may have taken it away, and not the folders above.
        let gone = !self.dir.exists() || self.remove_store();
        if gone {
            self.above.iter().take_while(|above| fs::remove_dir(above).is_ok()).count();
        }
        gone
    }

    fn remove_store(&self) -> bool {
        // A process that waits to write to it meanwhile finds it gone.
        let lock = if self.git { None } else { RealStorage::new(&self.dir).open("lock", OpenMode::Write).ok() };
        if lock.as_ref().is_some_and(|lock| !lock.try_lock().unwrap_or(false)) {
            return false;
        }
        if if self.git { self.git_was_used() } else { self.disk_was_used() } {
            return false;
        }
        for _ in 0..REMOVALS_MAX {
            if self.remove_all().is_err() {
                return false;
            }
            // Threads that are still writing may make folders again before they see that theirs is gone.
            thread::sleep(SETTLED);
            if !self.holds_any() {
                break;
            }
        }
        true
    }

    /// Whether there is anything to remove.
    fn holds_any(&self) -> bool {
        fs::read_dir(&self.dir).is_ok_and(|mut names| !self.stays || names.next().is_some())
    }

    fn remove_all(&self) -> io::Result<()> {
        if !self.stays {
            // Threads that are still writing lose their way first.
            let name = self.dir.file_name().unwrap_or_default().to_string_lossy();
            let gone = self.dir.with_file_name(format!("{name}.removed-{}", process::id()));
            fs::rename(&self.dir, &gone)?;
            return fs::remove_dir_all(gone);
        }
        for entry in fs::read_dir(&self.dir)? {
            let entry = entry?;
            if entry.file_type()?.is_dir() { fs::remove_dir_all(entry.path())? } else { fs::remove_file(entry.path())? }
        }
        Ok(())
    }

    /// Whether there is something in the repository that an export does not write, or writes at its end.
    fn git_was_used(&self) -> bool {
        let Ok(Found::Git(layout)) = Place::Git(self.dir.clone()).find() else { return false };
        let strangers = match &layout.worktree {
            None => 0,
            Some(worktree) => fs::read_dir(worktree).map_or(0, |names| names.count().saturating_sub(1)),
        };
        strangers > 0
            || ["packed-refs", "index"].iter().any(|name| layout.git_dir.join(name).exists())
            || has_files(&layout.common_dir.join("refs"))
    }

    /// Whether any process has committed to the store.
    fn disk_was_used(&self) -> bool {
        let Ok(repo) = AnyRepo::open_read_only(Place::Folder(self.dir.clone())) else {
            // It is not whole yet.
            return false;
        };
        repo.backend().list_refs("").map_or(true, |refs| refs.keys().any(|name| name != "HEAD"))
    }
}

fn has_files(dir: &Path) -> bool {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    entries.into_iter().any(|entry| match entry.file_type() {
        Ok(kind) if kind.is_dir() => has_files(&entry.path()),
        _ => true,
    })
}
