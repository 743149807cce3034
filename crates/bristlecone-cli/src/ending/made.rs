//! A store that a command makes, and takes away again if it does not end well.

use std::{
    fs::{self, File},
    io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    process, thread,
    time::{Duration, Instant},
};

use bristlecone::storage::{OpenMode, RealStorage, Storage, StorageFile};
use bristlecone_any::{AnyRepo, Found, Place};

use crate::{
    failure::{Failure, Result},
    text::show,
};

/// After so long, threads that were still writing have seen that their folder is gone.
const SETTLED: Duration = Duration::from_millis(5);
/// How often it is removed again if they made it again.
const REMOVALS_MAX: usize = 20;
/// After so long, threads of this process have ended their appends: what holds the store's lock then is another process.
const APPENDED: Duration = Duration::from_secs(1);
/// How often it is looked whether they have.
const PAUSE: Duration = Duration::from_micros(500);
/// What a store of the backend lsm has while it is made, too: whoever makes or opens it holds its lock until the end.
const LSM_DIR: &str = "lsm";
/// How often a process looks whether another one has made its store.
const LOOK: Duration = Duration::from_millis(5);

/// A folder that is not there yet, or is empty, and will be a store.
pub(crate) struct Made {
    dir: PathBuf,
    // The folder was there and stays.
    stays: bool,
    // Folders above it that were made for it, the lowest first.
    above: Vec<PathBuf>,
    git: bool,
    // The folder itself, locked as long as the store is made: another `cone` that would make one there waits.
    making: Option<File>,
}

impl Made {
    /// A store of a backend of ours. `None` if something is there. Waits up to `wait_ms` for a process that makes one there.
    ///
    /// # Errors
    /// That process took longer.
    pub(crate) fn store(dir: &Path, wait_ms: u64) -> Result<Option<Self>> {
        Self::new(dir, false, wait_ms)
    }

    /// A Git repository. `None` if something is there; waits as [`Made::store`].
    ///
    /// # Errors
    /// As [`Made::store`].
    pub(crate) fn git(dir: &Path, wait_ms: u64) -> Result<Option<Self>> {
        Self::new(dir, true, wait_ms)
    }

    fn new(dir: &Path, git: bool, wait_ms: u64) -> Result<Option<Self>> {
        let began = Instant::now();
        loop {
            // What makes the store says what is wrong, where this cannot make its folder or lock it.
            let (made, stays) = make_folders(dir);
            let folder = File::open(dir).ok();
            if let Some(folder) = &folder
                && !lock_until(folder, began + Duration::from_millis(wait_ms))
            {
                return Err(Failure::failed(format!(
                    "another process is making a store in {} (waited {wait_ms} ms); try again when that is done, or wait \
                     longer with --wait SECONDS",
                    show(dir)
                )));
            }
            let is_empty = fs::read_dir(dir).is_ok_and(|mut names| names.next().is_none());
            // One that failed may have removed the folder meanwhile.
            if folder.as_ref().is_none_or(|folder| is_at(folder, dir)) {
                let made = Self { dir: dir.to_owned(), stays, above: made, git, making: folder };
                return Ok((is_empty || made.making.is_none() && !dir.exists()).then_some(made));
            }
        }
    }

    /// From now on other processes find the store: it was made, and is filled.
    pub(super) fn is_there(&mut self) {
        self.making = None;
    }

    /// Whether the store is in this folder.
    pub(super) fn is(&self, dir: &Path) -> bool {
        self.dir == dir
    }

    /// Removes the store and the folders made for it, unless another process has written to it; returns whether it is gone.
    ///
    /// `open`: the store as other threads of this process have it open, if they do.
    pub(super) fn remove(&self, open: Option<&AnyRepo>) -> bool {
        // What made it may have taken it away, and not the folders above.
        let gone = !self.dir.exists() || self.remove_store(open);
        if gone {
            self.above.iter().take_while(|above| fs::remove_dir(above).is_ok()).count();
        }
        gone
    }

    fn remove_store(&self, open: Option<&AnyRepo>) -> bool {
        // Kept until it is gone, from those who would make one there meanwhile.
        let folder = if self.making.is_none() { File::open(&self.dir).ok() } else { None };
        if folder.as_ref().is_some_and(|folder| !lock_until(folder, Instant::now())) {
            return false;
        }
        let alone = self.is_alone(open);
        // A process that waits to write to it meanwhile finds it gone.
        let lock =
            if self.git || alone { None } else { RealStorage::new(&self.dir).open("lock", OpenMode::Write).ok() };
        if lock.as_ref().is_some_and(|lock| !lock_soon(&**lock)) {
            return false;
        }
        let used = match open {
            _ if self.git => self.git_was_used(),
            // Nobody else can have it open, not even to look.
            Some(repo) if alone => has_refs(repo),
            None if alone => false,
            _ => self.was_used(),
        };
        if used {
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

    /// Whether this process keeps others from the store for as long as it has it open, or makes it.
    fn is_alone(&self, open: Option<&AnyRepo>) -> bool {
        match open {
            Some(repo) => !repo.backend().capabilities().processes,
            None => self.making.is_some() && self.dir.join(LSM_DIR).exists(),
        }
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
    fn was_used(&self) -> bool {
        // Otherwise it is not whole yet.
        AnyRepo::open_read_only(Place::Folder(self.dir.clone())).is_ok_and(|repo| has_refs(&repo))
    }
}

/// Whether a store has refs but HEAD.
fn has_refs(repo: &AnyRepo) -> bool {
    repo.backend().list_refs("").map_or(true, |refs| refs.keys().any(|name| name != "HEAD"))
}

/// Takes the lock of a store, which threads of this process may hold for as long as an append takes.
fn lock_soon(lock: &dyn StorageFile) -> bool {
    let end = Instant::now() + APPENDED;
    loop {
        match lock.try_lock() {
            Ok(true) => return true,
            Ok(false) if Instant::now() < end => thread::sleep(PAUSE),
            _ => return false,
        }
    }
}

/// Makes a folder and those above it; returns those above that were not there, the lowest first, and whether the folder was.
fn make_folders(dir: &Path) -> (Vec<PathBuf>, bool) {
    let mut absent: Vec<_> =
        dir.ancestors().take_while(|above| !above.as_os_str().is_empty() && !above.exists()).collect();
    absent.reverse();
    // Another process may make some of them at the same time, and they are its own.
    let made: Vec<_> = absent.into_iter().filter(|folder| fs::create_dir(folder).is_ok()).collect();
    let stays = made.last().is_none_or(|folder| *folder != dir);
    (made.into_iter().rev().filter(|folder| *folder != dir).map(Path::to_owned).collect(), stays)
}

/// Locks a folder, or says that another process had it all the time. A file system without such locks has none to wait for.
fn lock_until(folder: &File, end: Instant) -> bool {
    while let Err(fs::TryLockError::WouldBlock) = folder.try_lock() {
        if Instant::now() >= end {
            return false;
        }
        thread::sleep(LOOK);
    }
    true
}

/// Whether an open folder is the one that has the name now.
fn is_at(folder: &File, dir: &Path) -> bool {
    let id = |found: io::Result<fs::Metadata>| found.ok().map(|found| (found.dev(), found.ino()));
    let open = id(folder.metadata());
    open.is_some() && open == id(fs::metadata(dir))
}

fn has_files(dir: &Path) -> bool {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    entries.into_iter().any(|entry| match entry.file_type() {
        Ok(kind) if kind.is_dir() => has_files(&entry.path()),
        _ => true,
    })
}
