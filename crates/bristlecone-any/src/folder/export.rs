//! From a tree to a folder of files: byte for byte, never outside that folder.
//!
//! The tree is walked once before anything is written, to refuse names that cannot be files. Writing then
//! names every file relative to its folder's open handle and follows no link, so that neither a link on the
//! way nor one that appears meanwhile leads anywhere else.

use std::{
    fs, io,
    os::unix::fs::MetadataExt,
    path::Path as FilePath,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering::Relaxed},
        mpsc,
    },
    thread,
};

use bristlecone::{DirEntry, EntryKind};
use bristlecone_git::layout::Layout;

use super::{Done, FolderError, Status, Step};
use crate::{
    AnyFormat, AnyRepo, Tree,
    error::{Error, Result},
    text::shown,
};

mod plan;
mod write;

pub use plan::Exported;

/// How many files a worker takes at a time.
const LOT_FILES: usize = 256;

/// Writes a tree of `repo` into the folder `dir`, which is made unless it is there. The store's own folder is not written
/// into. `tell` hears how far it is, now and then.
///
/// `replace`: the folder may hold something already; files in the way are replaced, links are removed and not
/// followed, and folders stay.
///
/// # Errors
/// A [`FolderError`]; names that no file can have, alone or in `dir`, are refused before anything is written. [`Error::Io`]
/// names the file; those of the backend.
pub fn export(
    repo: &AnyRepo,
    tree: &Tree,
    dir: &FilePath,
    replace: bool,
    tell: &mut dyn FnMut(Status),
) -> Result<Exported> {
    export_while(repo, tree, dir, replace, &|| true, tell)
}

/// As [`export`], for as long as `goes_on` says so, which is asked often and by several threads. Whatever stops an export, no part of a
/// value has the name of its file; a process that is killed leaves it under a hidden name, `.cone-….part`.
///
/// # Errors
/// As [`export`]; [`FolderError::Stopped`].
pub fn export_while(
    repo: &AnyRepo,
    tree: &Tree,
    dir: &FilePath,
    replace: bool,
    goes_on: &(dyn Fn() -> bool + Sync),
    tell: &mut dyn FnMut(Status),
) -> Result<Exported> {
    let plan = Exported::plan(tree, dir, goes_on)?;
    if let Some((_, layout)) = repo.git() {
        refuse_within_git(layout, dir)?;
    }
    prepare(dir, replace)?;
    let store = repo.dir().and_then(|store| fs::metadata(store).ok()).map(|found| (found.dev(), found.ino()));
    let top = write::Folder::open(dir, store)?;
    let files = plan.files + plan.executables + plan.links;
    let work = Work { replace, files, done: Done::default(), stop: AtomicBool::new(false), goes_on };
    let workers = thread::available_parallelism().map_or(1, usize::from);
    let (sender, lots) = mpsc::sync_channel(workers * 2);
    let (lots, work) = (&Mutex::new(lots), &work);
    thread::scope(move |scope| {
        let threads: Vec<_> = (0..workers).map(|_| scope.spawn(|| work.run(lots))).collect();
        let walked = work.walk(tree, top, &sender, tell).inspect_err(|_| work.stop());
        drop(sender);
        for thread in threads {
            thread.join().expect("a worker does not panic")?;
        }
        walked
    })?;
    Ok(Exported { bytes: work.done.bytes.load(Relaxed), ..plan })
}

/// Refuses a folder in the repository's own, where a file may mean something to Git: below `refs` it is a ref. A working tree that lies
/// in there, of whichever branch, is none of it.
fn refuse_within_git(layout: &Layout, dir: &FilePath) -> Result<()> {
    let there = dir.ancestors().find_map(|above| {
        let above = if above.as_os_str().is_empty() { FilePath::new(".") } else { above };
        fs::canonicalize(above).ok()
    });
    let Some(there) = there else { return Ok(()) };
    let worktree = layout.worktree.as_ref().and_then(|worktree| fs::canonicalize(worktree).ok());
    for own in [&layout.git_dir, &layout.common_dir] {
        let Ok(own) = fs::canonicalize(own) else { continue };
        let is_worktree = |top: &FilePath| Some(top) == worktree.as_deref() || top.join(".git").exists();
        if there.starts_with(&own) && !there.ancestors().take_while(|top| *top != own).any(is_worktree) {
            return Err(FolderError::Owned { place: shown(dir), what: "a Git repository's own" }.into());
        }
    }
    Ok(())
}

/// Makes the folder, or checks that it may be used.
fn prepare(dir: &FilePath, replace: bool) -> Result<()> {
    match fs::read_dir(dir) {
        Ok(mut entries) => match entries.next() {
            Some(_) if !replace => Err(FolderError::NotEmpty { dir: dir.to_owned() }.into()),
            _ => Ok(()),
        },
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            fs::create_dir_all(dir).map_err(|error| Error::io("make the folder", dir, error))
        }
        Err(error) if error.kind() == io::ErrorKind::NotADirectory => {
            Err(FolderError::NotAFolder { dir: dir.to_owned() }.into())
        }
        Err(error) => Err(Error::io("read the folder", dir, error)),
    }
}

/// Some files of one directory, with what stands between them.
struct Lot {
    tree: Tree,
    folder: Arc<write::Folder>,
    first: Vec<u8>,
    last: Vec<u8>,
}

/// Whether an entry is written as a file or a link.
const fn is_file(entry: &DirEntry<'_, AnyFormat>) -> bool {
    !matches!(entry.kind(), EntryKind::Dir | EntryKind::Foreign)
}

/// A directory to be walked: made when its turn comes, so that few handles are open at a time.
struct Waiting {
    tree: Tree,
    parent: Arc<write::Folder>,
    name: Vec<u8>,
}

struct Work<'w> {
    replace: bool,
    // How many files there are.
    files: u64,
    done: Done,
    // Whether one of the threads has failed.
    stop: AtomicBool,
    goes_on: &'w (dyn Fn() -> bool + Sync),
}

impl Work<'_> {
    fn stop(&self) {
        self.stop.store(true, Relaxed);
    }

    /// Makes all folders and hands their files to the workers.
    fn walk(
        &self,
        tree: &Tree,
        top: write::Folder,
        sender: &mpsc::SyncSender<Lot>,
        tell: &mut dyn FnMut(Status),
    ) -> Result<()> {
        let mut stack = Vec::new();
        self.walk_one(tree, Arc::new(top), sender, &mut stack)?;
        while let Some(Waiting { tree, parent, name }) = stack.pop() {
            if self.stop.load(Relaxed) {
                return Ok(());
            }
            write::check(self.goes_on)?;
            tell(self.done.status(Step::Export, self.files));
            let folder = parent.make_folder(&name)?;
            drop(parent);
            self.walk_one(&tree, Arc::new(folder), sender, &mut stack)?;
        }
        Ok(())
    }

    fn walk_one(
        &self,
        tree: &Tree,
        folder: Arc<write::Folder>,
        sender: &mpsc::SyncSender<Lot>,
        stack: &mut Vec<Waiting>,
    ) -> Result<()> {
        let (mut files, mut bounds) = (0, None);
        let hand_over = |(first, last): (Vec<u8>, Vec<u8>)| {
            let lot = Lot { tree: tree.clone(), folder: folder.clone(), first, last };
            // Workers that have gone say why themselves.
            sender.send(lot).is_ok()
        };
        for entry in tree.list("")? {
            let entry = entry?;
            let name = entry.step().to_vec();
            if let Some(tree) = entry.tree() {
                stack.push(Waiting { tree, parent: folder.clone(), name });
            } else if is_file(&entry) {
                files += 1;
                let (_, last) = bounds.get_or_insert_with(|| (name.clone(), Vec::new()));
                *last = name;
            }
            if files == LOT_FILES
                && let Some(bounds) = bounds.take()
            {
                files = 0;
                if !hand_over(bounds) {
                    self.stop();
                    return Ok(());
                }
            }
        }
        if bounds.is_some_and(|bounds| !hand_over(bounds)) {
            self.stop();
        }
        Ok(())
    }

    /// Writes lots until there are none. Lots are taken even when the work is given up, so that no thread waits
    /// to hand one over.
    fn run(&self, lots: &Mutex<mpsc::Receiver<Lot>>) -> Result<()> {
        let mut result = Ok(());
        loop {
            let lot = lots.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).recv();
            let Ok(lot) = lot else { return result };
            if result.is_ok() {
                result = self.write(&lot).inspect_err(|_| self.stop());
            }
        }
    }

    fn write(&self, lot: &Lot) -> Result<()> {
        for entry in lot.tree.range_values("", &lot.first[..]..=&lot.last[..])? {
            if self.stop.load(Relaxed) {
                return Ok(());
            }
            write::check(self.goes_on)?;
            let entry = entry?;
            if is_file(&entry) {
                self.done.add(lot.folder.write(&entry, self.replace, self.goes_on)?);
            }
        }
        Ok(())
    }
}
